"""What a combination of an experiment costs beside `bench core` on the same nodes, pods and profile.

    python -m tests.experiments.speed [CONFIGURATION ...]

Seconds of CPU per 1,000 decisions: of all that `run_combination` does (nodes, arrivals, decisions, binds and
measures; the trace is read before) where 64 pods come at once and where they come one by one, and of the calls of an
engine that is told of 64 pods at a time and of their binds with the next 64, as `bench core` does it. Best of several,
in turns.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from moorage.adapters.memory.cluster import SIMULATION, EmbeddedCluster
from moorage.adapters.process import tune_process
from moorage.bench.core import BATCH
from moorage.core.commands import Bind
from moorage.core.echo import Echo
from moorage.core.events import Event, PodSeen
from moorage.engine.engine import Engine
from moorage.framework.registry import Registry
from moorage.plugins.builtin import BUILTIN
from moorage.sim.experiments.document import Combination, read_experiment
from moorage.sim.experiments.running import run_combination
from moorage.sim.experiments.sources import make_source
from moorage.sim.feed import Feed
from moorage.sim.rules import rules_of
from moorage.wire.configuration import default_reading, read_configuration

FILE = Path(__file__).with_name("openb.yaml")
ROUNDS = 5
REGISTRY = Registry(BUILTIN)


def experiment_s(asked: Mapping[str, Any], data: Mapping[str, bytes]) -> float:
    """Seconds per 1,000 decisions of a combination."""
    began_s = time.process_time()
    result = run_combination(asked, data, REGISTRY)
    return 1000 * (time.process_time() - began_s) / int(result["decisions"])


def engine_s(asked: Mapping[str, Any], data: Mapping[str, bytes]) -> float:
    """The same of the calls of an engine."""
    text, seed = asked["configuration"], asked["seed"]
    reading = read_configuration(text.encode(), "", REGISTRY) if text else default_reading(REGISTRY)
    rules, source = rules_of(reading, seed, answers_to_all=True), make_source(asked["input"], data, seed)
    cluster = EmbeddedCluster(SIMULATION, seed=seed)
    cluster.load(source.cluster.objects)
    engine = Engine(rules.profiles, rules.settings, answers_to_all=True)
    engine.handle([*rules.settings.beginning(), *Feed(cluster).pull()], 0.0, budget=0)
    pods, echo, answers = [*source.pods], Echo(source.pods), list[Event]()
    start, spent_s, bound = 0, 0.0, 0
    while answers or start < len(pods):
        events = [*answers, *map(PodSeen, pods[start : start + BATCH])]
        began_s = time.process_time()
        commands, _ = engine.handle(events, float(start), len(pods))
        spent_s += time.process_time() - began_s
        bound += sum(isinstance(command, Bind) for command in commands)
        answers, start = echo.events(commands), start + BATCH
    return 1000 * spent_s / bound


def main(names: list[str]) -> None:
    """Print a line for each configuration."""
    tune_process()
    experiment = read_experiment(FILE.read_bytes(), str(FILE), REGISTRY).experiment
    assert experiment is not None, "the trace is not there"
    firsts: dict[str, Combination] = {}
    for each in experiment.combinations():
        firsts.setdefault(each.configuration, each)
    for name in names or [*firsts]:
        asked, data = firsts[name].asked, experiment.data[firsts[name].input]
        given = asked["input"]
        at_once = {**asked, "input": {**given, "settings": {**given["settings"], "burst": BATCH}}}
        turns = [(experiment_s(at_once, data), experiment_s(asked, data), engine_s(asked, data)) for _ in range(ROUNDS)]
        *ours, alone = (min(each) for each in zip(*turns, strict=True))
        said = ", ".join(f"{each:.3f} s ({100 * alone / each:.0f} %)" for each in ours)
        sys.stdout.write(f"{name:24} {BATCH} at once, one by one: {said}; engine alone {alone:.3f} s\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
