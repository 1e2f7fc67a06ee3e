"""A journal for the dashboard to show."""

from __future__ import annotations

import time
from pathlib import Path

from moorage.core.echo import Echo
from moorage.core.events import Event, NodeSeen, ObjectSeen, PodSeen
from moorage.core.frozen import FrozenDict
from moorage.core.objects import Workload
from moorage.core.pods import Owner
from moorage.testing.builders import make_node, make_pod
from tests.adapters.journal.recording import RecordedEngine

CAPACITY = "node.kubernetes.io/capacity"


def record(folder: Path) -> list[float]:
    """A scheduler that places three pods and leaves one waiting, one after the other; when it did."""
    engine = RecordedEngine(folder)
    strategy = FrozenDict({"moorage.dev/schedule-strategy": f"weight=1,nodeSelector={CAPACITY}:spot"})
    owner = Owner("ReplicaSet", "web", "uid-web", "apps/v1")
    events: list[Event] = [
        NodeSeen(make_node("n1", cpu="4", zone="z1", labels={CAPACITY: "spot"})),
        NodeSeen(make_node("n2", cpu="4", zone="z2", labels={CAPACITY: "on-demand"})),
        ObjectSeen(
            "ReplicaSet",
            "default/web",
            Workload("ReplicaSet", "default", "web", "uid-web", annotations=strategy, replicas=3),
        ),
    ]
    echo = Echo()
    times_s: list[float] = []
    for number in range(4):
        time.sleep(0.2)  # a journal has the times of its clock, and the moments must be told apart
        times_s.append(time.time())
        pod = make_pod(f"web-{number}", cpu="1" if number < 3 else "64", owner=owner, created_s=times_s[-1])
        echo.pods[pod.uid] = pod
        commands, _ = engine.handle([*events, PodSeen(pod)], times_s[-1])
        events = echo.events(commands)
    engine.handle(events, time.time())
    engine.journal.close()
    return times_s
