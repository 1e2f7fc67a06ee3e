"""PriceLists: what nodes cost, as a document of a file, of a ConfigMap's entry or of an HTTP answer.

    apiVersion: moorage.dev/v1alpha1
    kind: PriceList
    metadata: {name: my-cloud}      # needed among the input of `moorage simulate`, else not
    currency: USD
    asOf: "2026-07-01T00:00:00Z"    # optional: when these prices were true
    prices:
      - {instanceType: m5.large, capacityType: spot, labels: {pool: web}, pricePerHour: "0.035"}

Prices are texts, since a number would pass through a float. Every problem is reported, each with its place.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from pydantic import Field, ValidationError, field_validator

from moorage.core.prices import PRICE_LIST, PriceList
from moorage.framework.arguments import PluginArgs
from moorage.framework.pricing import PriceArgs, currency_code, distinct
from moorage.wire.documents import read_documents
from moorage.wire.errors import REFUSALS, WireError
from moorage.wire.place import DocumentPlace, show_file
from moorage.wire.problems import ABSENT, Problem

PRICES_API = "moorage.dev/v1alpha1"
_EXPECTED = {
    "missing": "required; add it",
    "string_type": "must be text; put it in quotes",
    "tuple_type": "must be a list",
    "dict_type": "must be a mapping",
    "model_type": "must be a mapping of fields to values",
    "extra_forbidden": "unknown field; remove it",
}


class ConfigMapWire(msgspec.Struct):
    """What is read of a ConfigMap that holds a PriceList."""

    data: dict[str, str] | None = None


decode_config_map = msgspec.json.Decoder(ConfigMapWire).decode


class PriceListShape(PluginArgs):
    """The fields of a PriceList, which has no spec."""

    api_version: Literal["moorage.dev/v1alpha1"]
    kind: Literal["PriceList"]
    metadata: dict[str, Any] = Field(default_factory=dict)
    currency: str
    as_of: str | None = None
    prices: Annotated[tuple[PriceArgs, ...], Field(strict=False)]

    _is_currency = field_validator("currency")(currency_code)

    @field_validator("prices")
    @classmethod
    def _are_distinct(cls, prices: tuple[PriceArgs, ...]) -> tuple[PriceArgs, ...]:
        if not prices:
            raise ValueError("must hold at least one price")
        return distinct(prices)

    @field_validator("as_of")
    @classmethod
    def _is_time(cls, text: str | None) -> str | None:
        if text is not None:
            _time_s(text)
        return text

    def value(self) -> PriceList:
        """The core value."""
        name = self.metadata.get("name")
        rules = tuple(price.rule() for price in self.prices)
        as_of_s = None if self.as_of is None else _time_s(self.as_of)
        return PriceList(name if isinstance(name, str) else "", self.currency, rules, as_of_s)


def _time_s(text: str) -> float:
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        time = None
    if time is None or time.tzinfo is None:
        raise ValueError("not a time; write one with its offset, such as 2026-07-01T00:00:00Z")
    return time.timestamp()


def read_price_list(body: Mapping[str, Any], source: str) -> PriceList | list[Problem]:
    """The core value of a document, or everything that is wrong with it; `source` is what messages call it."""
    plain = {key: value for key, value in body.items() if value is not None}
    try:
        # Through JSON, because strict models take a list for a tuple and a text for an enumeration only from there.
        return PriceListShape.model_validate_json(json.dumps(plain), by_alias=True, by_name=False).value()
    except ValidationError as error:
        return [_problem(details, source) for details in error.errors(include_url=False)]
    except (TypeError, ValueError, RecursionError) as error:
        return [Problem(source, "", ABSENT, f"cannot be written as JSON ({error}); use plain values only")]


def parse_price_list(data: bytes, file: str) -> PriceList | list[Problem]:
    """The one PriceList of a YAML or JSON text; `file` is what messages call it."""
    documents, faults = read_documents(data)
    problems = [Problem(fault.source(file), "", ABSENT, fault.message) for fault in faults]
    if not problems and len(documents) != 1:
        message = f"holds {len(documents)} documents; write one, a {PRICE_LIST} of {PRICES_API}"
        problems.append(Problem(show_file(file), "", ABSENT, message))
    if problems:
        return problems
    value = documents[0].value
    if not isinstance(value, dict):
        return [Problem(show_file(file), "", value, f"must be a mapping; write a {PRICE_LIST} of {PRICES_API}")]
    return read_price_list(value, str(DocumentPlace(file)))


def load_price_list(file: str) -> PriceList | list[Problem]:
    """The PriceList in a file."""
    try:
        data = Path(file).read_bytes()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        return [Problem(file, "", ABSENT, f"cannot be read ({reason}); check the path")]
    return parse_price_list(data, file)


def price_list_from_builtin(body: Mapping[str, Any]) -> PriceList:
    """The core value; WireError with all problems in one line."""
    found = read_price_list(body, "")
    if isinstance(found, PriceList):
        return found
    metadata = body.get("metadata")
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    raise WireError(PRICE_LIST, name if isinstance(name, str) else "", "; ".join(map(str, found)))


def decode_price_list(data: bytes) -> PriceList:
    """The same, from JSON."""
    try:
        body = msgspec.json.decode(data)
    except REFUSALS as error:
        raise WireError(PRICE_LIST, "", f"cannot be read ({error}); write valid JSON") from None
    if not isinstance(body, dict):
        raise WireError(PRICE_LIST, "", "must be a mapping")
    return price_list_from_builtin(body)


def _problem(details: Any, source: str) -> Problem:
    kind, value = details["type"], details["input"]
    path = ""
    for part in details["loc"]:
        path += f"[{part}]" if isinstance(part, int) else (f".{part}" if path else str(part))
    if kind == "value_error":
        message = str(details["ctx"]["error"])
    elif kind in ("literal_error", "enum"):
        message = f"unknown; write {details['ctx']['expected']}"
    else:
        message = _EXPECTED.get(kind, details["msg"])
    return Problem(source, path, ABSENT if kind == "missing" else value, message)
