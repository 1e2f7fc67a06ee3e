"""PriceLists: what is right becomes rules, and everything that is wrong is named with its place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from moorage.core.capacity import Capacity
from moorage.core.frozen import FrozenDict
from moorage.core.prices import INSTANCE_TYPE, PriceList, PriceRule
from moorage.wire.errors import WireError
from moorage.wire.kinds import BY_ID
from moorage.wire.prices import load_price_list, parse_price_list, read_price_list

FREE = {"pricePerHour": "0"}


def body(*prices: Any, **fields: Any) -> dict[str, Any]:
    return {
        "apiVersion": "moorage.dev/v1alpha1",
        "kind": "PriceList",
        "currency": "USD",
        "prices": list(prices or [FREE]),
        **fields,
    }


def test_a_list_becomes_rules() -> None:
    """The instance type is a label like others; a null is a field that is not given."""
    text = b"""
apiVersion: moorage.dev/v1alpha1
kind: PriceList
metadata: {name: cloud}
currency: EUR
asOf: 2026-07-01T02:00:00+02:00
prices:
  - {instanceType: m5.large, capacityType: on-demand, labels: {pool: web}, pricePerHour: "0.096"}
  - {capacityType: null, pricePerHour: "2"}
"""
    rules = (
        PriceRule(96_000, FrozenDict({INSTANCE_TYPE: "m5.large", "pool": "web"}), Capacity.ON_DEMAND),
        PriceRule(2_000_000),
    )
    assert parse_price_list(text, "p.yaml") == PriceList("cloud", "EUR", rules, 1_782_864_000.0)


PROBLEMS: dict[str, tuple[dict[str, Any], str]] = {
    "a number": (
        body({"pricePerHour": 0.096}),
        "f: prices[0].pricePerHour: 0.096: must be text; put it in quotes",
    ),
    "no price": (
        body({"pricePerHour": "cheap"}),
        'f: prices[0].pricePerHour: "cheap": not a price; write digits, perhaps with a point, such as "0.096"',
    ),
    "none given": (body({"instanceType": "a"}), "f: prices[0].pricePerHour: required; add it"),
    "capacity type": (
        body({**FREE, "capacityType": "Spot"}),
        "f: prices[0].capacityType: \"Spot\": unknown; write 'spot' or 'on-demand'",
    ),
    "instance type": (
        body({**FREE, "instanceType": "m5 large"}),
        'f: prices[0].instanceType: "m5 large": not an instance type; write the value of the node label',
    ),
    "instance type twice": (
        body({"instanceType": "a", "labels": {INSTANCE_TYPE: "a"}, "pricePerHour": "1"}),
        f"names the instance type twice; remove instanceType or the label {INSTANCE_TYPE}",
    ),
    "label key": (body({**FREE, "labels": {"a b": "c"}}), "'a b' is no label key; write one such as example.com/pool"),
    "label value": (body({**FREE, "labels": {"a": "b c"}}), "'b c' is no label value"),
    "label that is a number": (body({**FREE, "labels": {"a": 1}}), "f: prices[0].labels.a: 1: must be text"),
    "unknown field": (body({**FREE, "zone": "a"}), 'f: prices[0].zone: "a": unknown field; remove it'),
    "unknown field at the top": (body(spec={}), "f: spec: {}: unknown field; remove it"),
    "the same nodes twice": (body(FREE, FREE), "entries [0] and [1] are for the same nodes; remove one"),
    "empty": (body(prices=[]), "f: prices: []: must hold at least one price"),
    "not a list": (body(prices={}), "f: prices: {}: must be a list"),
    "not a mapping": (body(7), "f: prices[0]: 7: must be a mapping of fields to values"),
    "currency": (body(currency="dollars"), 'f: currency: "dollars": not a currency; write the three letters'),
    "time": (body(asOf="2026-07-01T00:00:00"), 'f: asOf: "2026-07-01T00:00:00": not a time; write one with its offset'),
    "version": (body(apiVersion="v1"), "f: apiVersion: \"v1\": unknown; write 'moorage.dev/v1alpha1'"),
}


@pytest.mark.parametrize(("given", "want"), PROBLEMS.values(), ids=PROBLEMS.keys())
def test_problems_name_their_place(given: dict[str, Any], want: str) -> None:
    """One line: file, field, value, remedy."""
    found = read_price_list(given, "f")
    assert isinstance(found, list)
    assert len(found) == 1
    assert want in str(found[0])


def test_all_problems_are_reported_at_once() -> None:
    """Not only the first."""
    found = read_price_list(body({"pricePerHour": 1}, {"capacityType": "x", **FREE}, currency="usd"), "f")
    assert isinstance(found, list)
    assert [problem.path for problem in found] == ["currency", "prices[0].pricePerHour", "prices[1].capacityType"]


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param(b"", "f: holds 0 documents; write one", id="empty"),
        pytest.param(b"a: 1\n---\nb: 2\n", "f: holds 2 documents; write one", id="two"),
        pytest.param(b"- 1\n", "f: [1]: must be a mapping", id="a list"),
        pytest.param(b"{", "f:2:1: not YAML", id="broken"),
    ],
)
def test_texts_that_are_no_list(text: bytes, want: str) -> None:
    """A ConfigMap's entry or an HTTP answer may hold anything."""
    found = parse_price_list(text, "f")
    assert isinstance(found, list)
    assert str(found[0]).startswith(want)


def test_files_are_read(tmp_path: Path) -> None:
    """One that is not there is a problem like any other."""
    file = tmp_path / "prices.json"
    assert "cannot be read (No such file or directory); check the path" in str(load_price_list(str(file)))
    file.write_text(json.dumps(body()))
    assert load_price_list(str(file)) == PriceList("", "USD", (PriceRule(0),))


def test_as_one_of_the_kinds_all_problems_are_in_one_line() -> None:
    """Code that reads objects of any kind gets the error that every kind gives."""
    with pytest.raises(WireError) as caught:
        BY_ID["PriceList"].from_builtin({**body(currency=1), "metadata": {"name": "x"}})
    assert str(caught.value) == "PriceList x: currency: 1: must be text; put it in quotes"
    with pytest.raises(WireError, match="must be a mapping"):
        BY_ID["PriceList"].decode(b"[]")
    with pytest.raises(WireError, match="write valid JSON"):
        BY_ID["PriceList"].decode(b"{")
