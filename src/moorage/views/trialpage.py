"""The page of a configuration on trial: how long it runs, how its two sides stand, and what came of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from moorage.core.trials import Side
from moorage.engine.sides import MEASURES
from moorage.framework.trying import TrialConfiguration
from moorage.views.trials import SideAccount, account, trial_document
from moorage.views.world import World

_TITLES = {
    "pending": "Pending pods",
    "evictions": "Evictions",
    "failedBinds": "Failed binds",
    "waitingP99": "Waiting time, 99th percentile",
}


def trial_page(world: World) -> dict[str, Any]:
    """The latest trial that the scheduler keeps a record of; `trial` is None if there is none."""
    version = world.versions.trial
    if world.trial is None:
        return {"version": version, "trial": None, "sides": [], "measures": [], "terms": None}
    record, terms = world.trial, world.engine.sides.terms
    known = terms is not None and terms.digest == record.digest
    shown = account(record)
    sides = dict(shown.sides)
    return {
        "version": version,
        "trial": trial_document(shown),
        "sides": [{"side": side.value, "placed": each.placed} for side, each in shown.sides],
        "measures": [*_measures(sides, terms if known else None)],
        "terms": _terms(terms) if terms is not None and known else None,
    }


def _measures(sides: Mapping[Side, SideAccount], terms: TrialConfiguration | None) -> Iterator[dict[str, Any]]:
    trial, control = _values(sides[Side.TRIAL]), _values(sides[Side.CONTROL])
    for measure in MEASURES:
        limit, name = None if terms is None else measure.limit(terms), measure.name
        yield {
            "name": name,
            "title": _TITLES[name],
            "unit": measure.unit,
            "trial": trial[name],
            "control": control[name],
            "ratio": None if limit is None else limit.ratio,
            "amount": None if limit is None else limit.amount,
        }


def _values(side: SideAccount) -> dict[str, float]:
    values = (side.pending, side.evictions, side.failed_binds, side.waiting_p99_s)
    return dict(zip((measure.name for measure in MEASURES), values, strict=True))


def _terms(terms: TrialConfiguration) -> dict[str, Any]:
    """What the configuration of the dashboard says about the same trial."""
    pods = terms.pods
    words = [f"namespaces {', '.join(pods.namespaces)}"] if pods.namespaces else []
    words += ["namespaces that a selector chooses"] if pods.namespace_selector is not None else []
    words += [f"{pods.workload_percent:g} % of the workloads"] if pods.workload_percent < 100 or not words else []
    return {"duration": terms.duration_s, "atEnd": terms.at_end.value, "pods": "; ".join(words)}
