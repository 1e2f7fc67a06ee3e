"""The page of charts: a range of time in a bounded number of points, as plain values.

Times are the ends of intervals, in seconds. Amounts of resources are in the units of the columns (cpu in milli, memory
in bytes), waiting times in seconds, costs in millionths of a currency per hour. Binds, evictions and waiting times are
those of the minute before, or of the interval where that is longer. What was not known at a time is None there.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from moorage.core.resources import CPU
from moorage.views.queueseries import SHARE, USED
from moorage.views.rings import Stretch, Values
from moorage.views.series import (
    ALLOCATED,
    BINDS,
    CAPACITY,
    COST,
    EVICTIONS,
    MINUTE_S,
    NODES,
    ON_DEMAND_COST,
    PODS,
    REQUESTED,
    SPOT_CPU,
    WAITING,
    Leader,
    Series,
    minutes,
    per_minute,
    percentiles,
)

MOST_POINTS = 1000
PERCENTILES = (0.5, 0.95, 0.99)


def charts_page(series: Series, since_s: float, until_s: float, most: int, step_s: float = 0.0) -> dict[str, Any]:
    """The charts of a range in at most `most` points; of at least `step_s` each, so that a reader can add new ones."""
    rings = series.rings
    points = max(2, min(most, MOST_POINTS))
    stretch = rings.read(since_s - MINUTE_S, until_s, points + 1, step_s)
    shown = stretch.ends_s > since_s
    shown[:-points] = False
    lately = minutes(stretch)
    middle, nearly_all, all_but_few = (_plain(each[shown], 3) for each in percentiles(lately, PERCENTILES))
    stretch = stretch.part(shown)
    return {
        "version": series.version,
        "span": None if rings.began_s is None else [rings.began_s, rings.now_s],
        "step": stretch.step_s,
        "times": _plain(stretch.ends_s, 3),
        "nodes": _plain(stretch.of(NODES)),
        "pods": _plain(stretch.of(PODS)),
        "resources": [_resource(stretch, name) for name in _named(stretch, CAPACITY)],
        "waiting": [{"name": name, "values": _plain(stretch.of(WAITING + name))} for name in _named(stretch, WAITING)],
        "queues": [_queue(stretch, name) for name in _named(stretch, USED)],
        "binds": _plain(per_minute(lately, BINDS)[shown], 2),
        "evictions": _plain(per_minute(lately, EVICTIONS)[shown], 2),
        "waited": {"p50": middle, "p95": nearly_all, "p99": all_but_few},
        "spot": _plain(_share(stretch.of(SPOT_CPU), stretch.of(ALLOCATED + CPU)), 4),
        "cost": {
            "currency": series.currency,
            "total": _plain(stretch.of(COST)),
            "on_demand": _plain(stretch.of(ON_DEMAND_COST)),
        },
        "leaders": [leader._asdict() for leader in _leaders(series, since_s)],
    }


def _resource(stretch: Stretch, name: str) -> dict[str, Any]:
    return {
        "name": name,
        "capacity": _plain(stretch.of(CAPACITY + name)),
        "requested": _plain(stretch.of(REQUESTED + name)),
        "allocated": _plain(stretch.of(ALLOCATED + name)),
    }


def _queue(stretch: Stretch, name: str) -> dict[str, Any]:
    return {"name": name, "used": _plain(stretch.of(USED + name)), "share": _plain(stretch.of(SHARE + name))}


def _named(stretch: Stretch, prefix: str) -> list[str]:
    """The series with this prefix that are known somewhere in the stretch, in order of appearance."""
    return [
        name.removeprefix(prefix)
        for name, values in stretch.series.items()
        if name.startswith(prefix) and not np.isnan(values).all()
    ]


def _share(part: Values, whole: Values) -> Values:
    shares = np.full(len(part), np.nan)
    np.divide(part, whole, out=shares, where=whole > 0)
    return shares


def _leaders(series: Series, since_s: float) -> list[Leader]:
    """Who has led since then: the changes, and of each lease the last one before."""
    before = {leader.lease: leader for leader in series.leaders if leader.at_s < since_s}
    return [*before.values(), *(leader for leader in series.leaders if leader.at_s >= since_s)]


def _plain(values: Values, digits: int | None = None) -> list[float | None]:
    """Numbers that can be written down; whole ones unless digits are wanted."""
    return [None if math.isnan(value) else round(value, digits) for value in values.tolist()]
