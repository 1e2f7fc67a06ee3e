"""The life of pods in the scheduler's log: events, queues, attempts, what rules counted, binds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from moorage.app.decisions import DecisionLog, accounts_at
from moorage.app.plugins import find_plugins
from moorage.core.commands import Bind, Command
from moorage.core.events import BindDone, BindOutcome, Event, NodeSeen, ObjectSeen, PodGone, PodSeen
from moorage.core.frozen import FrozenDict
from moorage.core.objects import Workload
from moorage.core.pods import Pod, on_node
from moorage.engine.engine import Engine
from moorage.testing.builders import make_node, make_pod
from moorage.views.lives import named
from moorage.views.loglines import KUBERNETES_MARK
from moorage.wire.configuration import read_configuration

EXAMPLES = Path(__file__).parents[2] / "deploy/examples"


class Logged:
    """An engine with the profile of an example, and the lines of its log."""

    def __init__(self, example: str, verbosity: int) -> None:
        text = (EXAMPLES / example / "config.yaml").read_bytes()
        profiles = read_configuration(text, "config.yaml", find_plugins().registry).profiles
        accounts = accounts_at(verbosity)
        self.engine = Engine(profiles, observer=None if accounts is None else accounts.note)
        self.name = example
        self._log = DecisionLog.of(verbosity, self.engine, accounts)
        self._now = 0.0

    def turn(self, *events: Event) -> tuple[list[str], Sequence[Command]]:
        """The lines of one turn without the namespace of the pods, and its commands."""
        self._now += 1.0
        commands, _ = self.engine.handle(events, self._now)
        with capture_logs() as lines:
            if self._log is not None:
                self._log.tell(events, commands)
        return [_line(line) for line in lines], commands

    def pod(self, name: str, **said: object) -> Pod:
        return make_pod(name, uid=name, scheduler_name=self.name, **said)  # type: ignore[arg-type]


def _line(line: object) -> str:
    assert isinstance(line, dict)
    facts = {key: value for key, value in line.items() if key not in ("event", "log_level", "pod", KUBERNETES_MARK)}
    assert line[KUBERNETES_MARK] is True
    shown = "".join(f" {key}={value}" for key, value in facts.items())
    return f"{line['pod'].removeprefix('default/')}: {line['event']}{shown}"


def test_a_pod_from_its_arrival_to_its_end() -> None:
    """At 5, as operators of custom-k8s-scheduler know it: added, queued, tried, bound, confirmed, deleted."""
    logged = Logged("custom-k8s-scheduler", 5)
    logged.turn(NodeSeen(make_node("n1")), NodeSeen(make_node("n2")))
    pod = logged.pod("sample")
    told, commands = logged.turn(PodSeen(pod))
    (bind,) = (command for command in commands if isinstance(command, Bind))
    assert told == [
        "sample: Add event for unscheduled pod",
        "sample: Pod moved to an internal scheduling queue cause=UnscheduledPodAdd queue=Active",
        "sample: About to try and schedule pod",
        "sample: Attempting to schedule pod",
        f"sample: Attempting to bind pod to node node={bind.node} evaluatedNodes=2 feasibleNodes=2",
    ]
    there = on_node(pod, bind.node)
    told, _ = logged.turn(PodSeen(there), BindDone("sample", BindOutcome.BOUND, bind.node))
    assert told == [
        "sample: Add event for scheduled pod",
        "sample: Delete event for unscheduled pod",
        "sample: Finished binding for pod, can be expired podKey=sample",
        f"sample: Successfully bound pod to node node={bind.node} evaluatedNodes=2 feasibleNodes=2",
    ]
    assert logged.turn(PodSeen(there))[0] == ["sample: Update event for scheduled pod"]
    assert logged.turn(PodGone("sample"))[0] == ["sample: Delete event for scheduled pod"]


@pytest.mark.parametrize(
    ("verbosity", "want"),
    [
        pytest.param(1, [], id="1: nothing"),
        pytest.param(2, ["Unable to schedule pod; no fit; waiting"], id="2: decisions"),
        pytest.param(
            3,
            ["Add event for unscheduled pod", "Attempting to schedule pod", "Unable to schedule pod; no fit; waiting"],
            id="3: attempts",
        ),
        pytest.param(
            4,
            [
                "Add event for unscheduled pod",
                "About to try and schedule pod",
                "Attempting to schedule pod",
                "Nodes rejected",
                "Unable to schedule pod; no fit; waiting",
            ],
            id="4: what was rejected",
        ),
    ],
)
def test_each_level_adds_lines(verbosity: int, want: list[str]) -> None:
    """As in kube-scheduler."""
    logged = Logged("custom-k8s-scheduler", verbosity)
    logged.turn(NodeSeen(make_node("n1", cpu="1")))
    told, _ = logged.turn(PodSeen(logged.pod("large", cpu="2")))
    assert [line.partition(": ")[2].partition(" plugin=")[0].partition(" err=")[0] for line in told] == want


def test_pods_of_other_schedulers_are_told_of_once_they_have_a_node() -> None:
    """A scheduler that is not responsible has nothing to say about them before."""
    logged = Logged("custom-k8s-scheduler", 5)
    other = make_pod("other", uid="other", scheduler_name="default-scheduler")
    assert logged.turn(NodeSeen(make_node("n1")), PodSeen(other))[0] == []
    assert logged.turn(PodSeen(on_node(other, "n1")))[0] == ["other: Add event for scheduled pod"]
    assert logged.turn(PodGone("unknown"))[0] == []


def test_a_pod_that_waits_is_told_of_queue_by_queue() -> None:
    """Where it waits after a failed attempt, why it comes back, and its second attempt."""
    logged = Logged("custom-k8s-scheduler", 5)
    logged.turn(NodeSeen(make_node("n1", cpu="1")))
    told, _ = logged.turn(PodSeen(logged.pod("large", cpu="2")))
    assert "large: Pod moved to an internal scheduling queue cause=UnscheduledPodAdd queue=Active" in told
    assert told[-1].endswith("scheduling queue cause=ScheduleAttemptFailure queue=Unschedulable")
    told, _ = logged.turn(NodeSeen(make_node("n2", cpu="4")))
    queues = [line for line in told if "internal scheduling queue" in line]
    assert queues, told
    assert told[-1] == "large: Attempting to bind pod to node node=n2 evaluatedNodes=2 feasibleNodes=1"


def test_controller_spread_tells_what_it_counted_and_rejected() -> None:
    """At 4: desired, required and where that comes from, the hosts so far, and the nodes that it passed over."""
    logged = Logged("controller-spread-scheduler", 4)
    annotations = FrozenDict({"controller-spread-scheduler/min-hosts": "3"})
    shop = Workload("ReplicaSet", "default", "shop", "default/shop", annotations=annotations, replicas=5)
    placed = logged.pod("shop-0", owner="shop", node="n1")
    logged.turn(NodeSeen(make_node("n1")), NodeSeen(make_node("n2")), ObjectSeen("ReplicaSet", shop.key, shop))
    logged.turn(PodSeen(placed))
    told, commands = logged.turn(PodSeen(logged.pod("shop-1", owner="shop")))
    wants = "ReplicaSet/shop wants 5 pods on at least 3 hosts (controller-spread-scheduler/min-hosts=3)"
    has = "has 1 on 1: n1 (1); 3 to come after this one"
    reason = "node(s) hosted controller ReplicaSet/shop already, which wants more"
    assert [line for line in told if "plugin=" in line] == [
        f"shop-1: Rule counted plugin=ControllerSpread counted={wants} and {has}",
        f"shop-1: Nodes rejected plugin=ControllerSpread count=1 reason={reason} nodes=n1",
    ]
    assert [command.node for command in commands if isinstance(command, Bind)] == ["n2"]


def test_custom_scheduler_tells_of_priorities_and_taken_nodes() -> None:
    """At 4: which priority counts, and which nodes have a pod already; evictions at 2."""
    logged = Logged("custom-scheduler", 4)
    logged.turn(NodeSeen(make_node("n1")), PodSeen(logged.pod("low", node="n1")))
    told, _ = logged.turn(PodSeen(logged.pod("high", annotations={"priority": "100"})))
    assert "high: Rule counted plugin=OnePodPerNode counted=1 of 1 nodes have a pod of custom-scheduler" in told
    assert "high: Rule counted plugin=PriorityAnnotation counted=priority 100 by annotation priority='100'" in told
    rejected = "count=1 reason=node(s) already had a pod of this scheduler nodes=n1"
    assert f"high: Nodes rejected plugin=OnePodPerNode {rejected}" in told
    assert "low: Evicting pod preemptor=default/high reason=PreemptionByScheduler" in told


def test_names_of_many_nodes_are_cut() -> None:
    """A line stays a line."""
    assert named([f"n{number}" for number in range(9, -1, -1)]) == "n0, n1, n2, n3, n4, n5, n6, n7 and 2 more"
    assert named(["b", "a"]) == "a, b"
