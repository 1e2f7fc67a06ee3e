"""The same devices as kube-scheduler's allocator finds, in no more steps: upstream's table, where it is at hand."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from moorage.core.allocating import Search
from moorage.core.claims import AllocatedDevice, Allocation, ResourceClaim
from moorage.core.devicefit import AllocationError
from moorage.core.devices import ResourceSlice
from moorage.core.frozen import FrozenDict
from moorage.core.state import ClusterState
from moorage.testing.storage import put
from moorage.wire.kinds import BY_ID

TABLE = Path(__file__).parents[3] / "shared" / "dra" / "allocator.json"
CASES = json.loads(TABLE.read_text())["cases"] if TABLE.is_file() else []
DEFAULT = [case for case in CASES if case["withDefaultGates"] is not None]


def decoded(body: Mapping[str, Any]) -> Any:
    return BY_ID[body["kind"]].from_builtin(body)


def id_of(entry: Mapping[str, str]) -> tuple[str, str, str]:
    return entry["driver"], entry["pool"], entry["device"]


def in_use(used: Mapping[str, Any]) -> list[AllocatedDevice]:
    """What other claims hold."""
    consumed = {id_of(each): FrozenDict(each["consumed"]) for each in used["capacity"]}
    shared = dict.fromkeys([*map(id_of, used["shares"]), *consumed])
    return [
        *(AllocatedDevice("r", *id_of(each)) for each in used["devices"]),
        *(AllocatedDevice("r", *key, share_id="x", consumed=consumed.get(key, FrozenDict())) for key in shared),
    ]


def named_apart(slices: Iterable[ResourceSlice]) -> list[ResourceSlice]:
    """The table has slices of the same name, which no cluster has; they keep their order."""
    return [replace(part, name=f"{part.name}.{number:02}") for number, part in enumerate(slices)]


def search_of(case: Mapping[str, Any]) -> Search:
    state = put(ClusterState(), *named_apart(map(decoded, case["slices"])))
    for number, device in enumerate(in_use(case["allocated"])):
        put(state, ResourceClaim("n", f"other-{number}", allocation=Allocation((device,))))
    node = decoded(case["node"])
    classes = {each.name: each for each in map(decoded, case["classes"])}
    claims = [replace(decoded(body), namespace="") for body in case["claims"]]
    return Search(node, state.devices.pools(node), claims, classes, state.devices)


def result(search: Search, work: int) -> bool | str:
    """Whether devices were found, or the error."""
    found = None
    try:
        while found is None:
            found = search.run(work)
    except AllocationError as failure:
        return str(failure)
    return found


def allocation(body: Mapping[str, Any]) -> Allocation:
    claim = decoded({"kind": "ResourceClaim", "metadata": {"name": "x"}, "status": {"allocation": body}})
    assert claim.allocation is not None
    found: Allocation = claim.allocation
    return found


@pytest.mark.skipif(not CASES, reason="upstream's table is not at hand")
@pytest.mark.parametrize("case", [pytest.param(case, id=case["name"]) for case in DEFAULT])
def test_upstreams_table(case: dict[str, Any]) -> None:
    """Devices, configuration, node selectors, errors and steps."""
    want = case["expect"] if case["withDefaultGates"] == "same" else case["withDefaultGates"]
    error = (want.get("error") or {}).get("incubating")
    search = search_of(case)
    found = result(search, 1 << 30)
    if isinstance(found, str):
        assert found == error
        return
    assert (search.allocations(lambda *_: "*") if found else ()) == tuple(map(allocation, want["allocations"] or ()))
    assert error == ("invalid resource pools were encountered" if not found and search.met_invalid_pool else None)
    steps = case["steps"].get("incubating")
    assert steps is None or case["withDefaultGates"] != "same" or search.steps <= steps


@pytest.mark.skipif(not CASES, reason="upstream's table is not at hand")
@pytest.mark.parametrize("case", [pytest.param(case, id=case["name"]) for case in DEFAULT])
def test_a_search_in_small_pieces_ends_as_one_in_one_go(case: dict[str, Any]) -> None:
    """Wherever it is stopped, it goes on."""
    at_once, piece_by_piece = search_of(case), search_of(case)
    want, found = result(at_once, 1 << 30), result(piece_by_piece, 1)
    assert (found, piece_by_piece.steps) == (want, at_once.steps)
    assert found is not True or piece_by_piece.allocations() == at_once.allocations()
