"""The outcome of a simulation, printed: as one JSON or YAML document, or as tables for people.

Scripts rely on the form of the document. It is written piece by piece, since explanations can be many times larger than
everything else together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TextIO

import msgspec

from moorage.core.phrases import counted
from moorage.core.prices import format_price
from moorage.core.queueaccounts import QueueAccount
from moorage.engine.explain import PASSED_OVER
from moorage.sim import tables
from moorage.sim.costs import Cost
from moorage.sim.outcome import PodStory, SimulationOutcome
from moorage.views.queuetree import TREE_COLUMNS, TREE_NUMBERS, amounts_document, tree_rows
from moorage.views.trials import trial_document, trial_line

_NO_NODE = "-"


def write_json(outcome: SimulationOutcome, out: TextIO, more: Mapping[str, Any] | None = None) -> None:
    """One JSON document, a pod on each line; fields of `more` stand at its end."""
    out.write('{"pods": [')
    for index, story in enumerate(outcome.pods):
        out.write(",\n  " if index else "\n  ")
        out.write(_json(pod_document(story, outcome)))
    out.write("\n]" if outcome.pods else "]")
    out.writelines(f',\n"{name}": {_json(part)}' for name, part in {**_rest(outcome), **(more or {})}.items())
    out.write("}\n")


def write_yaml(outcome: SimulationOutcome, out: TextIO, more: Mapping[str, Any] | None = None) -> None:
    """One YAML document of the same shape."""
    import yaml  # noqa: PLC0415 - only for this output

    document = {"pods": [pod_document(story, outcome) for story in outcome.pods], **_rest(outcome), **(more or {})}
    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    yaml.dump(document, out, Dumper=dumper, sort_keys=False, allow_unicode=True, width=tables.PIPE_WIDTH)


def write_table(outcome: SimulationOutcome, out: TextIO) -> None:
    """Tables of pods and nodes, with the explanations between them, and a line that sums up."""
    for columns, rows in _tables(outcome):
        tables.write_table(columns, rows, out)
        out.write("\n")
    if outcome.trial is not None:
        out.write(f"{trial_line(outcome.trial)}\n")
    if outcome.cost is not None:
        out.write(f"{_cost_line(outcome.cost)}\n")
    out.write(", ".join(f"{number} {name}" for name, number in summary(outcome).items()) + "\n")


def write_queues(queues: Sequence[QueueAccount], out: TextIO) -> None:
    """The tree of queues."""
    if queues:
        tables.write_table(TREE_COLUMNS, tree_rows(queues), out, numbers=TREE_NUMBERS)
    else:
        out.write("there are no queues\n")


def pod_document(story: PodStory, outcome: SimulationOutcome) -> dict[str, Any]:
    """One entry of `pods`."""
    document: dict[str, Any] = {
        "namespace": story.namespace,
        "name": story.name,
        "schedulerName": story.scheduler_name,
        "node": story.node,
        "nominatedNode": story.nominated_node,
        "victims": story.victims,
        "message": story.message,
    }
    if story.devices:
        document["gpus"] = list(story.devices)
    if story.side is not None:
        document["side"] = story.side.value
    if story.key in outcome.special_claims:
        document["extendedResourceClaimStatus"] = outcome.special_claims[story.key]
    if outcome.explanations is not None:
        document["explain"] = outcome.explanations.of(story.uid)
    return document


def summary(outcome: SimulationOutcome) -> dict[str, int]:
    """How it went, in three numbers."""
    pending = outcome.pending
    return {"scheduled": len(outcome.pods) - pending, "pending": pending, "evicted": len(outcome.evictions)}


def _rest(outcome: SimulationOutcome) -> dict[str, Any]:
    """Everything of the document but the pods."""
    nodes = {name: {"pods": load.pods, "requested": dict(load.requested)} for name, load in outcome.nodes.items()}
    document: dict[str, Any] = {
        "evictions": list(outcome.evictions),
        "nodes": nodes,
        "ignored": dict(outcome.ignored),
        "warnings": list(outcome.warnings),
        "summary": summary(outcome),
    }
    if outcome.claims:
        document["claims"] = {name: claim_document(status) for name, status in outcome.claims.items()}
    if outcome.queues:
        document["queues"] = {account.queue.name: amounts_document(account) for account in outcome.queues}
    if outcome.cost is not None:
        document["cost"] = cost_document(outcome.cost)
    if outcome.trial is not None:
        document["trial"] = trial_document(outcome.trial)
    return document


def claim_document(status: Mapping[str, Any]) -> dict[str, Any]:
    """An entry of `claims`: what it holds, and for which consumers."""
    return {"allocation": status.get("allocation"), "reservedFor": list(status.get("reservedFor") or ())}


def cost_document(cost: Cost) -> dict[str, Any]:
    """`cost`: what the nodes in use cost an hour; amounts are texts, since they are no floats."""
    return {
        "currency": cost.currency,
        "before": format_price(cost.before_micros),
        "after": format_price(cost.after_micros),
        "nodesInUse": {"before": cost.nodes_before, "after": cost.nodes_after},
        "withoutPrice": list(cost.without_price),
        "stale": cost.stale,
    }


def _cost_line(cost: Cost) -> str:
    amounts = (f"{format_price(micros)} {cost.currency}".rstrip() for micros in (cost.before_micros, cost.after_micros))
    line = "cost per hour: {} before, {} after".format(*amounts)
    without = len(cost.without_price)
    notes = [f"{counted(without, 'node')} without a price"] if without else []
    notes += ["stale prices"] if cost.stale else []
    return f"{line} ({', '.join(notes)})" if notes else line


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _tables(outcome: SimulationOutcome) -> Iterator[tuple[tuple[str, ...], Sequence[tuple[str, ...]]]]:
    yield ("NAMESPACE", "POD", "NODE", "MESSAGE"), [_pod_row(story) for story in outcome.pods]
    if outcome.explanations is not None:
        for story in outcome.pods:
            rows = [_explain_row(name, node) for name, node in outcome.explanations.of(story.uid).items()]
            yield (f"EXPLAIN {story.key}", "TOTAL", "WHY"), rows
    nodes = [(name, str(load.pods), _pairs(load.requested)) for name, load in outcome.nodes.items()]
    yield ("NODE", "PODS", "REQUESTED"), nodes


def _pod_row(story: PodStory) -> tuple[str, ...]:
    said = [story.message] if story.message else []
    if story.victims:
        said.append(f"evicts {', '.join(story.victims)}")
    return (story.namespace, story.name, story.node or _NO_NODE, "; ".join(said))


def _explain_row(name: str, node: Mapping[str, Any]) -> tuple[str, ...]:
    if "rejected" in node:
        why = "; ".join(f"{plugin}: {', '.join(reasons)}" for plugin, reasons in node["rejected"].items())
        return (name, _NO_NODE, why)
    if "passedOver" in node:
        why = "; ".join(f"{plugin}: {', '.join(reasons)}" for plugin, reasons in node["passedOver"].items())
        return (name, "-", f"{why} ({PASSED_OVER})")
    return (name, str(node["total"]), _pairs(node["scores"]))


def _pairs(values: Mapping[str, object]) -> str:
    return " ".join(f"{name}={value}" for name, value in values.items())
