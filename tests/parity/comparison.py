"""How a decision of Moorage is held against one of kube-scheduler's.

A question is a cluster and a pending pod, its last object. The verdict is what the real kube-scheduler said: the node,
the scores of every feasible node, or the message of the PodScheduled condition; for preemption, the victims. Where
kube-scheduler breaks a tie at random, each of its best nodes is right.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from moorage.core.quantity import parse_quantity
from tests.parity.claim_side import masked

Question = Mapping[str, Any]
"""`seed`, `profile`, `objects` and `verdict`."""
Entry = Mapping[str, Any]
"""What `moorage simulate --explain -o json` says about one pod."""

_CHANCE = tuple(
    re.compile(pattern)
    for pattern in (
        r"(on device )\S+(: CEL)",
        r"(cannot add device )\S+( because)",
        r"(but resource pool )\S+( is currently)",
    )
)


class Difference(NamedTuple):
    """One thing in which the two do not agree."""

    kind: str
    detail: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.detail}"


def differences(question: Question, entry: Entry) -> list[Difference]:
    """Everything in which the entry for the pending pod differs from the verdict."""
    verdict = question["verdict"]
    if "claims" in verdict:
        return [*_decided(question, entry), *_claims(verdict, entry)]
    return _decided(question, entry)


def _decided(question: Question, entry: Entry) -> list[Difference]:
    verdict = question["verdict"]
    if "victims" in verdict:
        return [*_preemption(question["objects"], verdict, entry)]
    if verdict["node"] is None:
        return [*_pending(verdict, entry)]
    if entry["node"] is None:
        return [Difference("feasibility", f"pending, want {verdict['node']}: {entry['message']}")]
    return [*_placed(verdict, entry)]


def best_nodes(verdict: Mapping[str, Any]) -> set[str]:
    """The nodes that kube-scheduler might have chosen; it scores nothing where only one node is feasible."""
    totals = {name: sum(plugins.values()) for name, plugins in verdict["scores"].items()}
    if not totals:
        return {verdict["node"]}
    return {name for name, total in totals.items() if total == max(totals.values())}


def _pending(verdict: Mapping[str, Any], entry: Entry) -> Iterator[Difference]:
    """The message has to be the same to its very end, which tells why preemption does not help either.

    A pod that kube-scheduler has not tried has none.
    """
    want, got = verdict["message"], entry["message"]
    if entry["node"] is not None:
        yield Difference("feasibility", f"bound to {entry['node']}, want pending: {want}")
    elif want is not None and without_chance(got) != without_chance(want):
        yield Difference("message", f"want {want!r}, got {got!r}")


def without_chance(message: str | None) -> str:
    """A message without generated names, and without the node on which an error of devices was met first."""
    text = masked(message or "")
    for pattern in _CHANCE:
        text = pattern.sub(r"\1*\2", text)
    return text


def _claims(verdict: Mapping[str, Any], entry: Entry) -> Iterator[Difference]:
    """Claims hold the same devices for the same pods; where nodes are equally good, each may have been chosen."""
    if entry["node"] != verdict["node"]:
        return
    got = {masked(key): claim for key, claim in entry["claims"].items()}
    for key in sorted({*got, *verdict["claims"]}):
        want, have = verdict["claims"].get(key), got.get(key)
        if want is None or have is None:
            yield Difference("claims", f"{key} {'missing' if have is None else 'too many'}")
            continue
        names = [each["name"] for each in have.get("reservedFor") or ()]
        if names != want["reservedFor"]:
            yield Difference("reservation", f"{key} for {names}, want {want['reservedFor']}")
        if _allocation(want["allocation"]) != _allocation(have.get("allocation")):
            yield Difference("devices", f"{key} {have.get('allocation')}, want {want['allocation']}")
    special, told = verdict["extendedResourceClaimStatus"], entry.get("extendedResourceClaimStatus")
    # A pod that waits for drivers gets its status later.
    want, have = (masked(json.dumps(each, sort_keys=True)) for each in (special, told or None))
    if verdict["bound"] and want != have:
        yield Difference("extended resources", f"{told}, want {special}")


def _allocation(allocation: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """An allocation without what is random: the names of shares, and its time."""
    if allocation is None:
        return None
    results = []
    devices = allocation.get("devices") or {}
    for result in devices.get("results") or ():
        found = {name: value for name, value in result.items() if name != "shareID" and value}
        amounts = {name: parse_quantity(text) for name, text in found.pop("consumedCapacity", {}).items()}
        results.append({**found, "shared": "shareID" in result, "amounts": amounts})
    return {
        "results": results,
        "config": devices.get("config") or [],
        "where": _selector(allocation.get("nodeSelector")),
    }


def _selector(selector: Mapping[str, Any] | None) -> list[list[tuple[str, str, str, list[str]]]]:
    """Terms of a node selector; the order inside a term says nothing."""
    return [
        sorted(
            (part, each["key"], each["operator"], sorted(each.get("values") or ()))
            for part, requirements in term.items()
            for each in requirements
        )
        for term in (selector or {}).get("nodeSelectorTerms") or ()
    ]


def _placed(verdict: Mapping[str, Any], entry: Entry) -> Iterator[Difference]:
    explain: Mapping[str, Any] = entry.get("explain") or {}
    want: Mapping[str, Mapping[str, int]] = verdict["scores"] or {verdict["node"]: {}}
    feasible = {name for name, node in explain.items() if not node.get("rejected")}
    if feasible != set(want):
        yield Difference("feasibility", f"feasible are {sorted(feasible)}, want {sorted(want)}")
    if verdict["scores"]:
        for node, scores in want.items():
            yield from _scores(node, scores, (explain.get(node) or {}).get("scores") or {})
    if entry["node"] not in best_nodes(verdict):
        yield Difference("choice", f"{entry['node']}, want one of {sorted(best_nodes(verdict))}")


def _scores(node: str, want: Mapping[str, int], got: Mapping[str, int]) -> Iterator[Difference]:
    """A plugin that says nothing counts as 0 on both sides."""
    for plugin in sorted({*want, *got}):
        if want.get(plugin, 0) != got.get(plugin, 0):
            yield Difference(f"score {plugin}", f"{node}: {got.get(plugin, 0)}, want {want.get(plugin, 0)}")


def _preemption(objects: Sequence[Mapping[str, Any]], verdict: Mapping[str, Any], entry: Entry) -> Iterator[Difference]:
    victims = entry["victims"]
    if not verdict["victims"]:
        if victims:
            yield Difference("preemption", f"needless victims {victims}")
        elif bool(verdict["node"]) != bool(entry["node"]):
            message = verdict["message"] or entry["message"]
            yield Difference("feasibility", f"node {entry['node']}, want {verdict['node']}: {message}")
        elif verdict["node"] is None:
            yield from _pending(verdict, entry)
        return
    want, got = _quality(objects, verdict["victims"]), _quality(objects, victims)
    if want != got:
        yield Difference("preemption", f"victims {victims} {got}, want {verdict['victims']} {want}")


def _quality(objects: Sequence[Mapping[str, Any]], victims: Sequence[str]) -> tuple[int | None, int, int]:
    """Highest priority, sum of priorities and number of the victims: sets that agree in them are equally good."""
    values = {o["metadata"]["name"]: o["value"] for o in objects if o["kind"] == "PriorityClass"}
    priority = {
        o["metadata"]["name"]: values.get(o["spec"].get("priorityClassName"), 0) for o in objects if o["kind"] == "Pod"
    }
    found = [priority[name.rpartition("/")[2]] for name in victims]
    return max(found, default=None), sum(found), len(found)
