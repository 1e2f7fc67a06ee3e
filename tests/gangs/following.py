"""What it costs to follow JobSets, against the same pods with PodGroups that somebody wrote.

    python -m tests.gangs.following [--jobsets 5000] [--pods 8] [--memory | --profile jobsets]

Both worlds have the same Jobs and pods, as the controllers make them. In one the gangs follow from the JobSets, in the
other the pods name PodGroups. Objects are decoded from JSON, pass the owner chains and reach an engine that places all
pods; then every pod is shown again on its node, and at last all is deleted. CPU time is measured, of both worlds side
by side. Memory is what a world holds when all pods run.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import json
import pstats
import sys
import time
import tracemalloc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from moorage.adapters.kube.intake import KindIntake
from moorage.adapters.kube.watchstream import ObjectMeta
from moorage.app.plugins import find_plugins
from moorage.core.commands import Bind, PatchPodStatus
from moorage.core.events import BindDone, BindOutcome, Event, StatusDone
from moorage.engine.engine import Engine
from moorage.wire.configuration import read_configuration
from moorage.wire.kinds import BY_ID, Kind, pod_kind
from moorage.wire.templates import TemplateTable
from moorage.wire.workloadkinds import workloads_in

GROUPS = "PodGroup.scheduling.x-k8s.io"
CREATED = "2026-01-01T00:00:00Z"
TURN = 25
PARTS = ("read", "place", "update", "delete")


@dataclass
class Spent:
    """CPU seconds by part."""

    parts: dict[str, float] = field(default_factory=lambda: dict.fromkeys(PARTS, 0.0))

    @property
    def whole(self) -> float:
        """All parts."""
        return sum(self.parts.values())


def owner(api_version: str, kind: str, name: str) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "name": name, "uid": f"{kind}-{name}", "controller": True}


def metadata(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "namespace": "default", "uid": f"{kind}-{name}", "creationTimestamp": CREATED, **more}


def jobset(name: str, pods: int) -> dict[str, Any]:
    template = {"spec": {"parallelism": pods, "completions": pods, "template": {"spec": {"containers": []}}}}
    job = {"name": "workers", "replicas": 1, "template": template}
    return {"metadata": metadata("JobSet", name), "spec": {"replicatedJobs": [job]}}


def group(name: str, pods: int) -> dict[str, Any]:
    return {"metadata": metadata("PodGroup", name), "spec": {"minMember": pods}}


def labels_of(name: str) -> dict[str, str]:
    keys = {"jobset-name": name, "replicatedjob-name": "workers", "job-index": "0", "job-key": f"{name:0>40}",
            "restart-attempt": "0", "global-replicas": "1", "replicatedjob-replicas": "1"}  # fmt: skip
    return {f"jobset.sigs.k8s.io/{key}": value for key, value in keys.items()}


def job(name: str, pods: int) -> dict[str, Any]:
    whole = f"{name}-workers-0"
    about = metadata("Job", whole, labels=labels_of(name), annotations=labels_of(name))
    about["ownerReferences"] = [owner("jobset.x-k8s.io/v1alpha2", "JobSet", name)]
    selector = {"matchLabels": {"batch.kubernetes.io/controller-uid": f"Job-{whole}"}}
    spec = {"parallelism": pods, "completions": pods, "completionMode": "Indexed", "selector": selector}
    return {"metadata": about, "spec": spec, "status": {"active": pods}}


def pod(name: str, index: int, node: str, *, grouped: bool) -> dict[str, Any]:
    whole = f"{name}-workers-0"
    labels = labels_of(name) | {
        "batch.kubernetes.io/controller-uid": f"Job-{whole}",
        "batch.kubernetes.io/job-completion-index": str(index),
        "batch.kubernetes.io/job-name": whole,
        "controller-uid": f"Job-{whole}",
        "job-name": whole,
    }
    if grouped:
        labels["scheduling.x-k8s.io/pod-group"] = name
    about = metadata("Pod", f"{whole}-{index}", labels=labels, annotations=labels_of(name))
    about["ownerReferences"] = [owner("batch/v1", "Job", whole)]
    container = {
        "name": "train",
        "image": "registry.example/train:v1",
        "env": [{"name": "JOB_COMPLETION_INDEX", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels"}}}],
        "resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
    }
    spec: dict[str, Any] = {"containers": [container], "schedulerName": "moorage", "subdomain": name}
    conditions: list[dict[str, str]] = []
    if node:
        spec["nodeName"] = node
        conditions = [{"type": "PodScheduled", "status": "True", "lastTransitionTime": CREATED}]
    phase = "Running" if node else "Pending"
    return {"metadata": about, "spec": spec, "status": {"phase": phase, "conditions": conditions}}


def encoded(body: dict[str, Any]) -> bytes:
    return json.dumps(body).encode()


def node(number: int) -> bytes:
    amounts = {"cpu": "64", "memory": "256Gi", "pods": "110"}
    status = {"allocatable": amounts, "conditions": [{"type": "Ready", "status": "True"}]}
    name = f"n{number}"
    return encoded({"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}, "status": status})


class World:
    """One engine with all that stands before it."""

    def __init__(self, pods: int, *, grouped: bool) -> None:
        self._pods = pods
        self._grouped = grouped
        plugin: dict[str, Any] = {"name": "GangScheduling", "args": {"provisioningClass": ""}}
        if grouped:
            plugin["args"]["workloadKinds"] = {"disabled": ["*"]}
        document = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "profiles": [{"schedulerName": "moorage", "pluginConfig": [plugin]}],
        }
        reading = read_configuration(json.dumps(document).encode(), "config", find_plugins().registry)
        assert not reading.problems, reading.problems
        self._chains = workloads_in(reading.profiles).chains()
        self._engine = Engine(reading.profiles)
        self._events: list[Event] = []
        self._kinds: dict[str, tuple[Kind, KindIntake]] = {}
        for kind in (BY_ID["Node"], pod_kind(TemplateTable()), BY_ID["Job"], BY_ID["JobSet"], BY_ID[GROUPS]):
            self._kinds[kind.id] = (kind, KindIntake(kind, self._take))
        self._places: dict[str, str] = {}
        self.now = 1_767_225_600.0

    def _take(self, event: Event) -> None:
        self._events += self._chains.follow(event, self.now)

    def see(self, kind: str, data: bytes) -> None:
        """An object of the watch."""
        known, intake = self._kinds[kind]
        intake.upserted(known.decode(data))

    def turn(self, budget: int = 1 << 62) -> int:
        """One call of the engine with all that has come; what it orders is carried out. How many were bound."""
        events, self._events, binds = self._events, [], 0
        while True:
            self.now += 0.001
            commands, _ = self._engine.handle(events, self.now, budget)
            events = []
            for command in commands:
                if isinstance(command, Bind):
                    binds += 1
                    self._places[command.pod.name] = command.node
                    events.append(BindDone(command.pod.uid, BindOutcome.BOUND, command.node))
                elif isinstance(command, PatchPodStatus) and command.token:
                    events.append(StatusDone(command.pod.uid, ok=True, token=command.token))
            if not events:
                return binds

    def read(self, name: str) -> Iterator[tuple[str, bytes]]:
        """What is there of one JobSet when it has been created."""
        if self._grouped:
            yield GROUPS, encoded(group(name, self._pods))
        else:
            yield "JobSet", encoded(jobset(name, self._pods))
        yield "Job", encoded(job(name, self._pods))
        yield from self.pods(name)

    def pods(self, name: str) -> Iterator[tuple[str, bytes]]:
        """Its pods as they are now."""
        for index in range(self._pods):
            node = self._places.get(f"{name}-workers-0-{index}", "")
            yield "Pod", encoded(pod(name, index, node, grouped=self._grouped))

    def forget(self, name: str) -> None:
        """All of a JobSet is deleted."""
        whole = f"{name}-workers-0"
        for index in range(self._pods):
            self._gone("Pod", f"Pod-{whole}-{index}", f"{whole}-{index}")
        self._gone("Job", f"Job-{whole}", whole)
        self._gone(GROUPS if self._grouped else "JobSet", "", name)

    def _gone(self, kind: str, uid: str, name: str) -> None:
        _, intake = self._kinds[kind]
        intake.deleted(ObjectMeta(name, "default", uid))


@contextmanager
def counted(spent: Spent, part: str) -> Iterator[None]:
    """What happens now counts for this part."""
    began = time.thread_time()
    yield
    spent.parts[part] += time.thread_time() - began


def play(jobsets: int, pods: int, worlds: Sequence[World]) -> list[Spent]:
    """The worlds in turns of some JobSets, so that whatever disturbs the machine disturbs all of them.

    One that follows JobSet by JobSet would find the caches of the processor full of the other one.
    """
    spent = [Spent() for _ in worlds]
    for number in range(jobsets * pods // 50 + 1):
        for world in worlds:
            world.see("Node", node(number))
    both = [*zip(worlds, spent, strict=True)]
    steps = (appear, run) if tracemalloc.is_tracing() else (appear, run, vanish)
    for step in steps:
        for turn, first in enumerate(range(0, jobsets, TURN)):
            for world, costs in both if turn % 2 else reversed(both):
                for number in range(first, min(first + TURN, jobsets)):
                    step(world, f"set-{number}", costs)
    return spent


def appear(world: World, name: str, costs: Spent) -> None:
    """A JobSet is created, and its pods are placed."""
    objects = list(world.read(name))
    with counted(costs, "read"):
        for kind, data in objects:
            world.see(kind, data)
    with counted(costs, "place"):
        bound = world.turn()
    assert bound == len(objects) - 2, f"{bound} pods were bound"


def run(world: World, name: str, costs: Spent) -> None:
    """Its pods are shown on their nodes."""
    objects = list(world.pods(name))
    with counted(costs, "update"):
        for kind, data in objects:
            world.see(kind, data)
        world.turn()


def vanish(world: World, name: str, costs: Spent) -> None:
    """All of it is deleted."""
    with counted(costs, "delete"):
        world.forget(name)
        world.turn()


def measure(jobsets: int, pods: int) -> None:
    """CPU of both, and how much more the JobSets cost."""
    worlds = {"PodGroups": World(pods, grouped=True), "JobSets": World(pods, grouped=False)}
    gc.disable()  # a collection costs whichever world it happens to be the turn of
    spent = dict(zip(worlds, play(jobsets, pods, [*worlds.values()]), strict=True))
    each = 1e6 / (jobsets * pods)
    for name, costs in spent.items():
        parts = "  ".join(f"{part} {seconds * each:6.1f}" for part, seconds in costs.parts.items())
        sys.stdout.write(f"{name:10} {parts}  all {costs.whole * each:6.1f} us a pod\n")
    more = spent["JobSets"].whole / spent["PodGroups"].whole - 1
    sys.stdout.write(f"JobSets cost {more * 100:+.1f} % CPU\n")


def weigh(jobsets: int, pods: int) -> None:
    """What both hold when all pods run."""
    for name, grouped in (("PodGroups", True), ("JobSets", False)):
        gc.collect()
        tracemalloc.start()
        world = World(pods, grouped=grouped)
        play(jobsets, pods, [world])
        gc.collect()
        held, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        sys.stdout.write(f"{name:10} {held / (jobsets * pods):.0f} bytes a pod\n")
        del world


def main() -> int:
    """Print both worlds, and how much more the JobSets cost."""
    parser = argparse.ArgumentParser(description="Compare JobSets with PodGroups.")
    parser.add_argument("--jobsets", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=8)
    parser.add_argument("--memory", action="store_true", help="measure memory instead of CPU")
    parser.add_argument("--profile", choices=("jobsets", "groups"), help="show where the time of one world goes")
    options = parser.parse_args()
    if options.profile:
        world = World(options.pods, grouped=options.profile == "groups")
        profile = cProfile.Profile(time.process_time)
        profile.runcall(play, options.jobsets, options.pods, [world])
        pstats.Stats(profile).sort_stats("tottime").print_stats(60)
    else:
        (weigh if options.memory else measure)(options.jobsets, options.pods)
    return 0


if __name__ == "__main__":
    sys.exit(main())
