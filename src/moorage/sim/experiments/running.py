"""One combination of an experiment: an input, a configuration, a change and a seed in, figures out.

Everything in and out is plain values (dictionaries, lists, texts, numbers, bytes), so that a combination can be
computed in another process or on another machine. To run a list of combinations here:

    experiment = read_experiment(data, file, registry).experiment
    for each in experiment.combinations():
        result = run_combination(each.asked, experiment.data[each.asked["input"]["name"]], registry)
        result["rows"]  # [[measure, of, value, unit], ...]

`asked` has

    input          `name`, `kind` and `settings` (see `sources`)
    configuration  the text of a KubeSchedulerConfiguration; empty: the default profile
    change         {} or any of `after_s`, `drain`, `scale`, `add_nodes`, `set_queue`, `afresh`, `prices`
    seed           breaks ties, and makes the order or the times of arrivals
    measures       some of `MEASURES`
    split          optional [i, n]: only every n-th pod of a trace or generator, from the i-th on

so that `{**each.asked, "configuration": text, "split": [0, 2]}` tries another configuration on half of the input.
`moorage.cli.experiment_jobs.run_job` does the same with the plugins of the machine that it runs on, and is what runners
in other processes call. The same `asked` and data give the same rows, bit by bit, wherever they are run.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from moorage.adapters.journal.reader import ReadError
from moorage.engine.engine import Engine
from moorage.framework.configuration import Configuration
from moorage.framework.registry import Registry
from moorage.sim.arrivals import PodArrivals
from moorage.sim.difference import FinalPod, matched, standings
from moorage.sim.experiments.gauges import GaugeRow
from moorage.sim.experiments.meter import PODS, Meter
from moorage.sim.experiments.sources import JOURNAL, WHOLE_INPUT, InputSource, make_source
from moorage.sim.experiments.traces import TraceError
from moorage.sim.outcome import SimulationOutcome
from moorage.sim.replay import Observing, rerun
from moorage.sim.rules import rules_of
from moorage.sim.simulation import Course, SimulationError, play
from moorage.sim.whatif_applied import apply_changes
from moorage.sim.whatif_changes import (
    AddNodes,
    Afresh,
    Change,
    ChangeError,
    Drain,
    check_changes,
    parse_scale,
    parse_set_queue,
)
from moorage.wire.configuration import Reading, default_reading, read_configuration
from moorage.wire.manifests import parse_manifests
from moorage.wire.workloadkinds import workloads_in

MEASURES = (
    "allocated",
    "fragmented",
    "waiting",
    "pending",
    "evictions",
    "moves",
    "cost",
    "violations",
    "fairness",
)
"""What an experiment can measure, in the order of its results."""
NO_CHANGE: Mapping[str, Any] = {}


class CombinationError(ValueError):
    """A combination that cannot be run; `problems` says why, one line each."""

    def __init__(self, problems: Sequence[object]) -> None:
        super().__init__("; ".join(map(str, problems)))
        self.problems = tuple(map(str, problems))


def run_combination(asked: Mapping[str, Any], data: Mapping[str, bytes], registry: Registry) -> dict[str, Any]:
    """Run one combination: `rows` ([measure, of, value, unit]), `series`, `decisions` and `warnings`.

    `CombinationError` if the input, the configuration or the change cannot be used.
    """
    reading = _reading(asked["configuration"], registry)
    try:
        if asked["input"]["kind"] == JOURNAL:
            return _replayed(asked, data, reading, registry)
        return _played(asked, data, reading)
    except (SimulationError, ChangeError, TraceError) as error:
        raise CombinationError(error.problems) from error
    except ReadError as error:
        raise CombinationError([error]) from error


def _reading(text: str, registry: Registry) -> Reading:
    if not text:
        return default_reading(registry)
    reading = read_configuration(text.encode(), "configuration", registry)
    if reading.problems:
        raise CombinationError(reading.problems)
    return reading


# --- simulations ---


def _played(asked: Mapping[str, Any], data: Mapping[str, bytes], reading: Reading) -> dict[str, Any]:
    given, change = asked["input"], asked.get("change") or NO_CHANGE
    own = workloads_in(reading.profiles).kinds
    index, number = asked.get("split") or WHOLE_INPUT
    source = make_source(given, data, asked["seed"], (index, number), own)
    _put_prices(source, change.get("prices") or "")
    changes = changes_of(change)
    check_changes(changes, source.cluster.places)
    horizon_s = given["settings"].get("horizon_s")
    span_s = horizon_s or max((each.after_s for each in source.arrivals), default=0.0)
    meter, arrivals = Meter(asked["measures"], source.pods, span_s), PodArrivals(source.arrivals)
    work = _Changed(changes)
    course = Course(arrivals, [(change.get("after_s") or 0.0, work.change)] if changes else (), horizon_s, meter)
    rules = rules_of(reading, asked["seed"], answers_to_all=not asked["configuration"] or bool(source.arrivals))
    outcome = play(source.cluster, rules, course)
    moves = arrivals.moves + work.moves(outcome)
    if outcome.world is None:
        raise ValueError("the outcome has no world to look at")
    return _result(asked, meter, outcome.world.engine, moves, outcome.warnings)


def _put_prices(source: InputSource, text: str) -> None:
    """Other prices take the place of those of the input."""
    if not text:
        return
    manifests = parse_manifests("prices", text.encode())
    source.cluster.problems += manifests.problems
    source.cluster.objects[:] = [body for body in source.cluster.objects if body["kind"] != "PriceList"]
    for each in manifests.objects:
        source.cluster.objects.append(each.body)
        source.cluster.places[each.kind, each.namespace, each.name] = each


def changes_of(change: Mapping[str, Any]) -> list[Change]:
    """What is changed, as values; `ChangeError` with everything that cannot be understood."""
    found: list[Change] = [Drain(node) for node in change.get("drain", ())]
    found += [AddNodes(number, like) for number, like in change.get("add_nodes", ())]
    problems: list[str] = []
    texts: list[tuple[Callable[[str], Change], str]] = [(parse_scale, text) for text in change.get("scale", ())]
    texts += [(parse_set_queue, text) for text in change.get("set_queue", ())]
    for parse, text in texts:
        try:
            found.append(parse(text))
        except ChangeError as error:
            problems += error.problems
    if problems:
        raise ChangeError(problems)
    return [*found, Afresh()] if change.get("afresh") else found


class _Changed:
    """Makes changes when their time comes, and counts the pods that stand elsewhere in the end."""

    def __init__(self, changes: Sequence[Change]) -> None:
        self._changes = changes
        self._before: dict[str, FinalPod] = {}

    def change(self, outcome: SimulationOutcome) -> Collection[str]:
        if outcome.world is None:
            raise ValueError("the outcome has no world to change")
        self._before = standings(outcome)
        return apply_changes(self._changes, outcome.world.cluster).drained_nodes

    def moves(self, outcome: SimulationOutcome) -> int:
        if not self._before:
            return 0
        pairs = matched(self._before, standings(outcome)).both
        return sum(1 for old, new in pairs if old.node and new.node and old.node != new.node)


def _result(
    asked: Mapping[str, Any], meter: Meter, engine: Engine, moves: int, warnings: Iterable[str]
) -> dict[str, Any]:
    return {
        "rows": [list(row) for row in _rows(asked["measures"], meter, engine, moves)],
        "series": meter.series(),
        "decisions": meter.counts["decisions"],
        "warnings": list(dict.fromkeys(warnings)),
    }


def _rows(measures: Collection[str], meter: Meter, engine: Engine, moves: int) -> Iterator[GaugeRow]:
    yield from meter.rows(engine)
    if "waiting" in measures:
        yield from meter.waiting_rows()
    if "evictions" in measures:
        yield GaugeRow("evictions", "", float(meter.counts["evictions"]), PODS)
    if "moves" in measures:
        yield GaugeRow("moves", "", float(moves), PODS)


# --- replays ---


def _replayed(
    asked: Mapping[str, Any], data: Mapping[str, bytes], reading: Reading, registry: Registry
) -> dict[str, Any]:
    """Decide a journal anew; its files are put into a folder first, as they come by value."""
    if any(asked.get("change") or ()):
        raise CombinationError(["a journal cannot be changed; name a snapshot or a trace as input"])
    meter = Meter(asked["measures"])
    observing = Observing(meter, asked["seed"], answers_to_all=not asked["configuration"])
    configuration = reading.configuration or Configuration()
    with tempfile.TemporaryDirectory(prefix="moorage-experiment-") as folder:
        for name, content in data.items():
            Path(folder, name).write_bytes(content)
        found = rerun(Path(folder), registry, configuration, reading.profiles, observing)
    if found.engine is None:
        raise CombinationError(["the journal holds no decisions"])
    moves = sum(1 for each in found.placements if each.recorded and each.decided and each.recorded != each.decided)
    return _result(asked, meter, found.engine, moves, found.warnings)
