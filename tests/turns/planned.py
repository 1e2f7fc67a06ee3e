"""A planned profile under load, as a program for the Python of any checkout: prints decisions per second of thread CPU.

    python tests/turns/planned.py NODES alike|selectors

Three pods for each node come in batches, a ninth of them in gangs of five, with priorities from 0 to 9 in no order, so
that half of what is placed is evicted for something that comes later; then single pods end and come. `alike`: all pods
can use all nodes; `selectors`: half of them name one of five groups of nodes. With 3,000 nodes: 9,000 pods, 200 gangs.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from random import Random

from moorage.core.commands import Bind, Command, DeletePod
from moorage.core.echo import Echo
from moorage.core.events import Event, NodeSeen, PodGone, PodSeen
from moorage.core.pods import Pod
from moorage.engine.engine import Engine
from moorage.engine.settings import EngineSettings
from moorage.framework.profiles import build_profiles
from moorage.framework.registry import Registry
from moorage.plugins.builtin import BUILTIN
from moorage.testing.builders import make_node, make_pod
from moorage.wire.configuration import read_configuration

CONFIGURATION = b"""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - schedulerName: planned
    plugins:
      multiPoint:
        enabled: [{name: PlanSort}, {name: OnePodPerNode}]
        disabled: [{name: PrioritySort}]
"""
GANG, GROUPS, BATCH, LATE, QUIET = 5, 5, 64, 1000, 30


class Load:
    """The engine, and what its commands make of the cluster."""

    def __init__(self, nodes: int, *, selectors: bool) -> None:
        self._draw = Random(1)
        self._selectors = selectors
        registry = Registry(BUILTIN)
        configuration = read_configuration(CONFIGURATION, "planned.yaml", registry).configuration
        assert configuration is not None
        self._engine = Engine(build_profiles(configuration, registry), EngineSettings(seed=1))
        self._now = 0.0
        self._send([NodeSeen(make_node(f"n{n}", labels={"group": f"g{n % GROUPS}"})) for n in range(nodes)], 0)
        gangs = nodes // 15
        units = [*map(self._gang, range(gangs)), *([self._pod(f"s{n}")] for n in range(3 * nodes - gangs * GANG))]
        self._draw.shuffle(units)
        self._pods = [pod for unit in units for pod in unit]
        self._echo = Echo(self._pods)
        self._on: dict[str, None] = {}
        self._answers: list[Event] = []
        self.bound = 0
        self.cpu_s = 0.0

    def run(self) -> None:
        """All pods come; then some end and others come."""
        for start in range(0, len(self._pods), BATCH):
            self._turn(PodSeen(pod) for pod in self._pods[start : start + BATCH])
        quiet = 0
        while quiet < QUIET:
            quiet = 0 if self._turn(()) else quiet + 1
        for number in range(LATE):
            gone = next(iter(self._on))
            del self._on[gone]
            self._turn([PodGone(gone)])
            late = self._pod(f"late{number}")
            self._echo.pods[late.uid] = late
            self._turn([PodSeen(late)])

    def _turn(self, events: Iterable[Event]) -> bool:
        """One call of the engine, whose CPU time counts; whether it did anything."""
        told = [*self._answers, *events]
        began_s = time.thread_time()
        commands = self._send(told, BATCH)
        self.cpu_s += time.thread_time() - began_s
        for command in commands:
            if isinstance(command, Bind):
                self.bound += 1
                self._on[command.pod.uid] = None
            elif isinstance(command, DeletePod):
                self._on.pop(command.pod.uid, None)
        self._answers = self._echo.events(commands)
        self._now += 0.05
        return bool(commands)

    def _send(self, events: list[Event], budget: int) -> list[Command]:
        return list(self._engine.handle(events, self._now, budget)[0])

    def _gang(self, number: int) -> list[Pod]:
        about = self._about()
        said = {"moorage.dev/pod-group": f"gang{number}", "moorage.dev/pod-group-min-available": str(GANG)}
        return [
            make_pod(f"gang{number}-{each}", annotations=said, owner=f"gang{number}", **about)  # type: ignore[arg-type]
            for each in range(GANG)
        ]

    def _pod(self, name: str) -> Pod:
        return make_pod(name, **self._about())  # type: ignore[arg-type]

    def _about(self) -> dict[str, object]:
        group = f"g{self._draw.randrange(GROUPS)}" if self._selectors and self._draw.random() < 0.5 else None
        selector = {} if group is None else {"group": group}
        return {"priority": self._draw.randrange(10), "scheduler_name": "planned", "node_selector": selector}


def main() -> None:
    """Print how many pods were bound for each second."""
    load = Load(int(sys.argv[1]), selectors=sys.argv[2] == "selectors")
    load.run()
    print(load.bound / load.cpu_s)  # noqa: T201


if __name__ == "__main__":
    main()
