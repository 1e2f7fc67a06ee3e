"""What happens on the second day: each operation is a story that says at its stops what must have come of it."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from tests.nextday.auditor import Expected, Wanted, rollout_ends
from tests.nextday.capacities import CAPACITIES, FULL, ONE_OVER, SHORT, SPARE
from tests.nextday.examples import EXAMPLES
from tests.nextday.late import late_watches
from tests.nextday.scene import Object, amount, is_ready, name_of, node_of
from tests.nextday.stage import Stage

Story = Callable[[Stage], Iterator[Expected]]
APP = "app"
HIGH_CLASS = "nextday-high"
LATE_S = 3.0
"""How late a watch is."""
ALL = tuple(EXAMPLES)
OURS = tuple(name for name, example in EXAMPLES.items() if not example.is_stock)


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """A row of the table."""

    name: str
    story: Story
    examples: tuple[str, ...] = ALL
    capacities: tuple[str, ...] = CAPACITIES


def _runnable(stage: Stage, replicas: int, slots: int) -> int:
    """How many pods of a workload run where so many find a node; a gang that does not fit whole does not start."""
    if stage.example.whole_gangs and slots < replicas:
        return 0
    return min(replicas, slots)


def _whole(stage: Stage, replicas: int | None = None) -> Expected:
    """All of the workload runs, or as much as finds nodes."""
    want = stage.example.replicas if replicas is None else replicas
    slots = stage.example.slots(stage.capacity)
    return Expected(wanted=(Wanted(app=APP, ends=slots >= want, running=_runnable(stage, want, slots)),))


def create(stage: Stage) -> Iterator[Expected]:
    """The workload is created; `simulate` must say the same."""
    manifest = stage.deploy(APP)
    stage.rest(_whole(stage))
    stage.simulate(APP, manifest, Path(stage.installation.folder))
    yield _whole(stage)


def rollout(strategy: str) -> Story:
    """Another image, with one of the strategies."""

    def story(stage: Stage) -> Iterator[Expected]:
        stage.deploy(APP, strategy=strategy)
        yield _whole(stage)
        stage.roll(APP)
        yield _rolled(stage, strategy)

    return story


def _rolled(stage: Stage, strategy: str = "default") -> Expected:
    replicas, slots = stage.example.replicas, stage.example.slots(stage.capacity)
    surge, unavailable = {
        "default": (math.ceil(replicas / 4), replicas // 4),
        "surge0": (0, 1),
        "surge100": (replicas, 0),
        "recreate": (0, replicas),
    }[strategy]
    ends = rollout_ends(replicas, slots, surge=surge, unavailable=unavailable, recreate=strategy == "recreate")
    running = min(_runnable(stage, replicas, slots), replicas - unavailable)
    stops = stage.example.one_per_node and not stage.example.is_stock and slots >= replicas and not ends
    return Expected(wanted=(Wanted(app=APP, ends=ends, running=running),), rule_stops=frozenset({APP} if stops else ()))


def scale_up(stage: Stage) -> Iterator[Expected]:
    """One more."""
    stage.deploy(APP)
    yield _whole(stage)
    more, slots = stage.example.replicas + 1, stage.example.slots(stage.capacity)
    stage.scale(APP, more)
    stood = _runnable(stage, stage.example.replicas, slots)
    yield Expected(wanted=(Wanted(app=APP, ends=slots >= more, running=stood),))


def scale_down(stage: Stage) -> Iterator[Expected]:
    """One fewer."""
    stage.deploy(APP)
    yield _whole(stage)
    stage.scale(APP, stage.example.replicas - 1)
    yield _whole(stage, stage.example.replicas - 1)


def hpa(stage: Stage) -> Iterator[Expected]:
    """Steps as an autoscaler takes them, none of which waits for the one before."""
    stage.deploy(APP)
    yield _whole(stage)
    replicas = stage.example.replicas
    for step in (replicas + 1, replicas + 2, replicas - 1, 1, replicas):
        stage.scale(APP, step)
        want = min(step, 1)
        stage.until(lambda scene, want=want: len(scene.of(APP)) >= want, f"{step} replicas")  # type: ignore[misc]
    yield _whole(stage)


def cordon(stage: Stage) -> Iterator[Expected]:
    """A node is cordoned and a pod on it deleted; then it is uncordoned."""
    stage.deploy(APP)
    yield _whole(stage)
    node, pods = _someones(stage)
    stage.patch_node(node, unschedulable=True)
    for pod in pods[:1]:
        stage.delete_pod(pod)
    yield _without(stage, node, len(pods[1:]))
    stage.patch_node(node, unschedulable=None)
    yield _whole(stage)


def drain(stage: Stage) -> Iterator[Expected]:
    """A node is drained; then it is uncordoned."""
    stage.deploy(APP)
    yield _whole(stage)
    node, pods = _someones(stage)
    stage.patch_node(node, unschedulable=True)
    for pod in pods:
        stage.evict(pod)
    yield _without(stage, node, 0)
    stage.patch_node(node, unschedulable=None)
    yield _whole(stage)


def node_loss(stage: Stage) -> Iterator[Expected]:
    """A node falls silent, so that its pods are evicted; then it is back."""
    stage.deploy(APP)
    yield _whole(stage)
    node, pods = _someones(stage)
    stage.kubelet.silence(node)
    stage.until(lambda scene: not is_ready(scene.node(node) or {}), f"{node} is not ready")
    gone = {name_of(pod) for pod in pods}
    stage.until(lambda scene: not gone & {name_of(pod) for pod in scene.living()}, "its pods are evicted")
    stage.kubelet.revive(node)
    stage.until(lambda scene: is_ready(scene.node(node) or {}), f"{node} is back")
    yield _whole(stage)


def taint(stage: Stage) -> Iterator[Expected]:
    """A node gets a NoExecute taint; then it is taken away."""
    stage.deploy(APP)
    yield _whole(stage)
    node, pods = _someones(stage)
    stage.patch_node(node, taints=[{"key": "example.com/broken", "effect": "NoExecute"}])
    gone = {name_of(pod) for pod in pods}
    stage.until(lambda scene: not gone & {name_of(pod) for pod in scene.living()}, "its pods are evicted")
    yield _without(stage, node, 0)
    stage.patch_node(node, taints=None)
    yield _whole(stage)


def priority(stage: Stage) -> Iterator[Expected]:
    """The workload becomes more important, which is a rollout.

    There is a node for one more, so that nothing of the plan goes; kube-scheduler's preemption takes the node of an old
    pod that is less important than its successor.
    """
    stage.deploy(APP)
    yield _whole(stage)
    if stage.example.name == "plan":
        stage.roll(APP, metadata={"annotations": {"priority": "70"}})
        yield _rolled(stage)
    else:
        stage.roll(APP, spec={"priorityClassName": HIGH_CLASS})
        yield replace(_rolled(stage), may_go=frozenset({APP}))


def annotation(stage: Stage) -> Iterator[Expected]:
    """The rule of the workload changes, and a rollout follows."""
    stage.deploy(APP)
    yield _whole(stage)
    key, value = {
        "spread": ("controller-spread-scheduler/min-hosts", "3"),
        "smart": (
            "smart-scheduler.io/schedule-strategy",
            "base=2,weight=1,nodeSelector=node-type:ondemand;weight=3,nodeSelector=node-type:spot",
        ),
        "spot": ("moorage.dev/on-demand-base", "1"),
    }[stage.example.name]
    stage.annotate(APP, **{key: value})
    stage.roll(APP)
    yield _rolled(stage)


def typo(stage: Stage) -> Iterator[Expected]:
    """A more important workload asks for a label that no node has: it waits, and everybody else runs."""
    wrong = {"disk": "sssd"}
    if stage.example.name == "plan":
        stage.deploy("wrong", selector=wrong, pod_annotations={"priority": "200", "pod-group": "group-wrong"})
    else:
        stage.deploy("wrong", selector=wrong, priorityClassName=HIGH_CLASS)
    stage.until(lambda scene: len(scene.waiting()) == stage.example.replicas, "they wait")
    stage.deploy(APP)
    whole = _whole(stage)
    yield Expected(wanted=(*whole.wanted, Wanted(app="wrong", ends=False)))


def bad_annotation(stage: Stage) -> Iterator[Expected]:
    """The rule of a workload cannot be read: its pods run all the same, and an event says what is wrong."""
    key, value, says = {
        "spread": ("controller-spread-scheduler/min-hosts", "two", "write a whole number"),
        "smart": ("smart-scheduler.io/schedule-strategy", "base=one,weight=1", "base"),
        "spot": ("moorage.dev/on-demand-base", "one", "on-demand-base"),
    }[stage.example.name]
    stage.deploy(APP, annotations={key: value})
    slots = stage.example.slots(stage.capacity)
    ends = slots >= stage.example.replicas
    yield Expected(wanted=(Wanted(app=APP, ends=ends, running=min(slots, stage.example.replicas)),), says=says)


def rights(stage: Stage) -> Iterator[Expected]:
    """The account loses its rights while a workload grows, says what is forbidden, and gets them back."""
    stage.deploy(APP)
    yield _whole(stage)
    names = [one["metadata"]["name"] for one in stage.installation.documents() if one["kind"] == "ClusterRoleBinding"]
    for name in names:
        stage.remove_binding(name)
    stage.scale(APP, stage.example.replicas + 1)
    stage.until(lambda _: "orbidden" in stage.logged(), "the log says what is forbidden")
    stage.restore()
    yield _whole(stage, stage.example.replicas + 1)


def second_installation(stage: Stage) -> Iterator[Expected]:
    """Another installation under another namespace, as setup.sh makes it: the first one goes on."""
    stage.install_beside("second")
    stage.deploy(APP)
    yield _whole(stage)
    stage.roll(APP)
    yield _rolled(stage)


def leader_killed(stage: Stage) -> Iterator[Expected]:
    """Every process of the example is killed in the middle of a rollout, and started again."""
    stage.deploy(APP)
    yield _whole(stage)
    stage.roll(APP)
    for component in stage.installation.components:
        stage.installation.child(component).kill()
        stage.installation.launch(component)
    yield _rolled(stage)


def watch_late(stage: Stage) -> Iterator[Expected]:
    """The watches of workloads are late while the workload grows from one to two.

    Where the rule wants two hosts there is no second one until the watches are back: the new pod waits for it.
    """
    (component, *_), folder = stage.installation.components, stage.installation.folder
    stage.installation.child(component).stop()
    with late_watches(stage.plane) as watches:
        credentials = stage.installation.kubeconfig(component)
        stage.installation.launch(component, watches.kubeconfig(credentials, folder / "late.kubeconfig"))
        stage.deploy(APP, 1)
        yield _whole(stage, 1)
        spread = stage.example.name == "spread"
        others = set(stage.nodes) - {node_of(pod) for pod in stage.scene().of(APP)} if spread else set()
        for node in others:
            stage.patch_node(node, unschedulable=True)
        watches.freeze()
        stage.scale(APP, 2)
        with contextlib.suppress(AssertionError):
            stage.until(lambda scene: len(scene.of(APP)) == 2 and not scene.waiting(), "both have a node", LATE_S)
        watches.thaw()
        if spread:
            yield Expected(wanted=(Wanted(app=APP, ends=False, running=1, most=1),))
        for node in others:
            stage.patch_node(node, unschedulable=None)
        yield _whole(stage, 2)


def tolerated(stage: Stage) -> Iterator[Expected]:
    """All nodes have a taint that the pods tolerate."""
    for node in stage.nodes:
        stage.patch_node(node, taints=[{"key": "example.com/team", "value": "a", "effect": "NoSchedule"}])
    tolerations = [{"key": "example.com/team", "value": "a", "effect": "NoSchedule"}]
    stage.deploy(APP, tolerations=tolerations)
    yield _whole(stage)


def inversion(stage: Stage) -> Iterator[Expected]:
    """The only node with a label runs something unimportant, and something important needs it."""
    scene = stage.scene()
    stage.label_node(name_of(scene.nodes[0]), disk="ssd")
    ssd = {"disk": "ssd"}
    stage.deploy("low", 1, selector=ssd, pod_annotations={"priority": "1"})
    yield Expected(wanted=(Wanted(app="low"),))
    stage.deploy("high", 1, selector=ssd, pod_annotations={"priority": "100"})
    yield Expected(wanted=(Wanted(app="high"), Wanted(app="low", ends=False)), may_go=frozenset({"low"}))


def sibling(stage: Stage) -> Iterator[Expected]:
    """A StatefulSet of two becomes more important while the node of its second pod is cordoned: the first one stays."""
    stage.deploy(APP, 2, kind="StatefulSet")
    yield Expected(wanted=(Wanted(app=APP),))
    (second,) = (pod for pod in stage.scene().of(APP) if name_of(pod) == f"{APP}-1")
    stage.patch_node(node_of(second), unschedulable=True)
    stage.roll(APP, kind="statefulset", spec={"priorityClassName": HIGH_CLASS})
    stage.until(lambda scene: any(not node_of(pod) for pod in scene.of(APP)), "the second one waits")
    yield Expected(wanted=(Wanted(app=APP, ends=False, running=1),))


def _someones(stage: Stage) -> tuple[str, list[Object]]:
    """A node on which something runs, chosen by the seed, and its pods; any node if nothing runs."""
    scene = stage.scene()
    used = sorted({node_of(pod) for pod in scene.of(APP) if node_of(pod)}) or sorted(stage.nodes)
    node = stage.rng.choice(used)
    return node, [pod for pod in scene.of(APP) if node_of(pod) == node]


def _without(stage: Stage, node: str, kept: int) -> Expected:
    """What runs without a node, on which so many pods stay."""
    scene, example = stage.scene(), stage.example
    others = [each for each in scene.nodes if name_of(each) != node]
    slots = kept + sum(example.room(amount(each["status"]["allocatable"]["cpu"])) for each in others)
    want = example.replicas
    running = min(want - 1, slots) if example.whole_gangs and _was_whole(stage) else _runnable(stage, want, slots)
    return Expected(wanted=(Wanted(app=APP, ends=slots >= want, running=running),))


def _was_whole(stage: Stage) -> bool:
    return stage.example.slots(stage.capacity) >= stage.example.replicas


WITH_ROOM = (SPARE, ONE_OVER, FULL)
OPERATIONS = {
    each.name: each
    for each in (
        Operation(name="create", story=create, examples=OURS),
        *(
            Operation(name=f"rollout-{name}", story=rollout(name))
            for name in ("default", "surge0", "surge100", "recreate")
        ),
        Operation(name="scale-up", story=scale_up),
        Operation(name="scale-down", story=scale_down),
        Operation(name="hpa", story=hpa),
        Operation(name="cordon", story=cordon),
        Operation(name="drain", story=drain),
        Operation(name="node-loss", story=node_loss, capacities=WITH_ROOM),
        Operation(name="taint", story=taint, capacities=WITH_ROOM),
        Operation(name="priority", story=priority, examples=OURS, capacities=(SPARE, ONE_OVER)),
        Operation(name="annotation", story=annotation, examples=("spread", "smart", "spot"), capacities=WITH_ROOM),
        Operation(name="typo", story=typo, examples=OURS),
        Operation(name="bad-annotation", story=bad_annotation, examples=("spread", "smart", "spot")),
        Operation(name="leader-killed", story=leader_killed, examples=OURS, capacities=(SPARE, ONE_OVER)),
        Operation(
            name="watch-late", story=watch_late, examples=("plan", "spread", "smart", "packing"), capacities=(SPARE,)
        ),
        Operation(name="tolerated", story=tolerated, examples=OURS, capacities=WITH_ROOM),
        Operation(name="inversion", story=inversion, examples=("plan",), capacities=(SPARE, FULL)),
        Operation(name="sibling", story=sibling, examples=("spread",), capacities=(SHORT,)),
        Operation(name="rights", story=rights, examples=("plan", "spread", "packing"), capacities=(SPARE,)),
        Operation(name="second-installation", story=second_installation, examples=("plan",), capacities=(SPARE, FULL)),
    )
}
