"""What another configuration would have decided: what came from outside stays, what followed from decisions goes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from moorage.core.commands import Bind, DeletePod
from moorage.core.echo import Echo
from moorage.core.events import Event, NodeSeen, PodSeen
from moorage.core.pods import SUCCEEDED, Pod
from moorage.framework.profiles import build_profiles
from moorage.sim.replay import Rerun, rerun
from moorage.testing.builders import make_node, make_pod
from tests.adapters.journal.recording import PACKING, REGISTRY, SPREADING, RecordedEngine, configuration_of


class Stage:
    """A recorded engine whose binds and evictions succeed."""

    def __init__(self, folder: Path) -> None:
        self.engine = RecordedEngine(folder)
        self.folder = folder
        self.now = 10.0
        self._echo = Echo()
        self.pods = self._echo.pods

    def tell(self, *events: Event) -> None:
        for event in events:
            if isinstance(event, PodSeen):
                self.pods[event.pod.uid] = event.pod
        told = list(events)
        while told:
            self.now += 1.0
            commands, _ = self.engine.handle(told, self.now, 32)
            told = self._echo.events(command for command in commands if isinstance(command, Bind | DeletePod))

    def come(self, *pods: Pod) -> None:
        self.tell(*(PodSeen(pod) for pod in pods))

    def end(self, name: str) -> None:
        self.tell(PodSeen(replace(self.pods[f"default/{name}"], phase=SUCCEEDED)))

    def rerun(self, text: str) -> Rerun:
        self.engine.journal.close()
        configuration = configuration_of(text)
        return rerun(self.folder, REGISTRY, configuration, build_profiles(configuration, REGISTRY))


def nodes(*cpus: str) -> list[NodeSeen]:
    return [NodeSeen(make_node(f"n{number}", cpu=cpu, memory="64Gi")) for number, cpu in enumerate(cpus)]


def test_the_same_configuration_decides_the_same(tmp_path: Path) -> None:
    """With evictions and ends of pods: nothing differs."""
    stage = Stage(tmp_path)
    stage.tell(*nodes("4", "4"))
    stage.come(*(make_pod(f"low-{number}", cpu="2", priority=1) for number in range(4)))
    stage.come(make_pod("urgent", cpu="2", priority=10))
    stage.now += 20
    stage.tell(*nodes("4", "4"))
    stage.end("low-0" if "default/low-0" in stage.pods else "low-1")
    result = stage.rerun(SPREADING)
    assert result.differences == []
    assert result.evictions == result.recorded_evictions
    assert len(result.evictions) == 1


def test_pods_that_were_evicted_stay_where_nobody_evicts_them(tmp_path: Path) -> None:
    """Packing leaves a node free for the large pod, so the eviction that spreading needed does not happen."""
    stage = Stage(tmp_path)
    stage.tell(*nodes("8", "8"))
    stage.come(make_pod("a", cpu="1", priority=1))
    stage.come(make_pod("b", cpu="1", priority=1))
    stage.come(make_pod("large", cpu="8", priority=10))
    stage.now += 20
    stage.come(make_pod("c", cpu="1", priority=1))
    result = stage.rerun(PACKING)
    assert len(result.recorded_evictions) == 1
    assert result.evictions == []
    where = {each.pod: each.decided for each in result.placements}
    assert where["default/a"] == where["default/b"] == where["default/c"] != where["default/large"]


def test_a_pod_that_ended_makes_room_there_where_it_is_now(tmp_path: Path) -> None:
    """Its end came from outside; its place did not."""
    stage = Stage(tmp_path)
    stage.tell(*nodes("4", "4"))
    stage.come(make_pod("first", cpu="2"))
    stage.come(make_pod("second", cpu="2"))
    stage.end("second")
    stage.come(make_pod("third", cpu="2"))
    result = stage.rerun(PACKING)
    where = {each.pod: each.decided for each in result.placements}
    assert where["default/first"] == where["default/second"] == where["default/third"]


def test_a_journal_without_its_beginning_starts_with_what_was_known(tmp_path: Path) -> None:
    """Pods that stood there stay, pods that waited are decided on."""
    stage = Stage(tmp_path)
    stage.tell(*nodes("4"))
    stage.come(make_pod("there", cpu="3"))
    stage.come(make_pod("waits", cpu="2"))
    stage.engine.journal._next_segment(stage.now)
    stage.now += 60
    stage.tell(NodeSeen(make_node("n1", cpu="4")))
    stage.now += 60
    stage.tell(NodeSeen(make_node("n2", cpu="1")))
    stage.engine.journal.flush()
    min(tmp_path.glob("*.journal")).unlink()
    result = stage.rerun(PACKING)
    assert [(each.pod, each.recorded, each.decided) for each in result.placements] == [("default/waits", "n1", "n1")]
