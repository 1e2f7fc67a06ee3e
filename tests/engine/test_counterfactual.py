"""What would let a waiting pod fit: the smallest change, exact, proven, and nothing left behind."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pytest

from moorage.core.arrays import Rows
from moorage.core.edits import Changed, DropLabel, Edits, SetNodeLabel
from moorage.core.events import Event, NodeSeen, ObjectSeen, PodSeen
from moorage.core.frozen import FrozenDict
from moorage.core.invariants import check_invariants
from moorage.core.pods import Pod, PodTemplate
from moorage.core.state import ClusterState
from moorage.engine.counterfactual import Suggestion, runner_up, suggest, waiting_ahead
from moorage.engine.counterfactual.growth import fewest
from moorage.engine.engine import Engine
from moorage.engine.explain import NodeExplanation
from moorage.engine.opinion import Opinion, form_opinion
from moorage.engine.settings import EngineSettings
from moorage.framework.configuration import Configuration, EnabledPlugin, PluginSet, ProfileConfiguration
from moorage.framework.cycle import Cycle
from moorage.framework.plugin import Plugin
from moorage.framework.profiles import Profile, build_profiles
from moorage.framework.registry import Registry
from moorage.framework.remedies import Rejected, Remedy, least
from moorage.framework.status import Hold, Reason, Rejections, Status, unschedulable
from moorage.plugins.builtin import BUILTIN
from moorage.wire.kinds import NODE, POD, find_kind
from moorage.wire.rewriting import Rewriter
from tests.framework.readers import default_profile
from tests.suggestions.puzzles import FAMILIES, Plain, node, pod, puzzle, taint, term, thing

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"


class World:
    """Objects in an engine, as a live process holds them."""

    def __init__(self, objects: Iterable[Plain], profile: Profile | None = None) -> None:
        self.objects = {
            (body["kind"], body["metadata"].get("namespace", ""), body["metadata"]["name"]): body for body in objects
        }
        self.engine = Engine([profile or default_profile()], answers_to_all=True)
        self.pods: dict[str, Pod] = {}
        self.engine.handle([*map(self._event, self.objects.values())], 0.0, budget=0)

    def _event(self, body: Plain) -> Event:
        if body["kind"] == "Node":
            return NodeSeen(NODE.from_builtin(body))
        if body["kind"] == "Pod":
            found = self.pods[body["metadata"]["name"]] = POD.from_builtin(body)
            return PodSeen(found)
        kind = find_kind(body["apiVersion"], body["kind"])
        assert kind is not None
        value = kind.from_builtin(body)
        return ObjectSeen(kind.id, value.key, value)

    def suggestions(self, name: str = "stuck") -> tuple[Suggestion, ...]:
        return suggest(self.engine, self.pods[name], 0.0, Rewriter(lambda *identity: self.objects.get(identity)))

    def texts(self, name: str = "stuck") -> list[str]:
        return [each.text for each in self.suggestions(name)]


TWO = (node("n1", 2000, 4, "a"), node("n2", 4000, 4, "b"))


@pytest.mark.parametrize(
    ("objects", "want"),
    [
        pytest.param(
            [*TWO, pod("old", 700, nodeName="n2"), pod("stuck", 5000)],
            "Lower the cpu request from 5 to 3300m; it then fits on n2.",
            id="the-largest-request-that-fits",
        ),
        pytest.param(
            [node("n1", 2000, 4, "a", taints=[taint("gpu")]), pod("stuck")],
            "Tolerate the taint gpu=yes:NoSchedule; it then fits on n1.",
            id="a-toleration",
        ),
        pytest.param(
            [node("n1", 2000, 4, "a", unschedulable=True), pod("stuck")],
            "Uncordon node n1; it then fits on n1.",
            id="a-cordoned-node",
        ),
        pytest.param(
            [*TWO, pod("stuck", nodeSelector={"disk": "tape"})],
            "Drop disk=tape from the nodeSelector; it then fits on n2.",
            id="a-selector",
        ),
        pytest.param(
            [
                *TWO,
                *(pod(f"w{i}", 10, labels={"app": "w"}, nodeName="n1") for i in range(3)),
                pod(
                    "stuck",
                    10,
                    labels={"app": "w"},
                    nodeSelector={HOST: "n1"},
                    topologySpreadConstraints=[
                        {
                            "maxSkew": 1,
                            "topologyKey": ZONE,
                            "whenUnsatisfiable": "DoNotSchedule",
                            "nodeAffinityPolicy": "Ignore",
                            "labelSelector": {"matchLabels": {"app": "w"}},
                        }
                    ],
                ),
            ],
            f"Raise maxSkew of the spread over {ZONE} from 1 to 4; it then fits on n1.",
            id="a-skew-as-small-as-will-do",
        ),
        pytest.param(
            [
                *TWO,
                pod("w", 10, labels={"app": "w"}, nodeName="n1"),
                pod("v", 10, labels={"app": "w"}, nodeName="n2"),
                pod("stuck", 10, affinity={"podAntiAffinity": {REQUIRED: [term("w", HOST)]}}),
            ],
            "Move pod default/v from n2 to n1; it then fits on n2.",
            id="a-pod-that-can-move",
        ),
        pytest.param(
            [*TWO, pod("stuck", 10, schedulingGates=[{"name": "example.com/wait"}])],
            "Remove the scheduling gate example.com/wait; it then fits on n1.",
            id="a-gate",
        ),
        pytest.param(
            [node("n1", 2000, 4, "a", taints=[taint("gpu")]), pod("stuck", 3000)],
            "Lower the cpu request from 3 to 2 and tolerate the taint gpu=yes:NoSchedule; it then fits on n1.",
            id="two-changes-where-one-is-not-enough",
        ),
        pytest.param(
            [
                node("n1", 1000, 4, "a", taints=[taint("gpu")]),
                pod("low", 1000, nodeName="n1"),
                pod("stuck", 800, priority=10),
            ],
            "Tolerate the taint gpu=yes:NoSchedule; it then fits on n1 once default/low has made room.",
            id="room-made-by-an-eviction",
        ),
    ],
)
def test_the_first_suggestion(objects: list[Plain], want: str) -> None:
    """The smallest change comes first, with its exact value and the node that the pod goes to."""
    assert World(objects).texts()[0] == want


def test_a_pod_that_fits_needs_nothing() -> None:
    """No suggestion for a pod that is only waiting for its turn, for one that is bound, or without any node."""
    assert World([*TWO, pod("stuck", 100)]).suggestions() == ()
    assert World([*TWO, pod("stuck", 100, nodeName="n1")]).suggestions() == ()
    assert World([pod("stuck", 100)]).suggestions() == ()


def test_pods_ahead_take_what_a_change_offers_first() -> None:
    """One more node would go to a pod that comes first, so two are suggested; and no uncordoned node, for it is one."""
    cordoned = node("n2", 1000, 4, "a", unschedulable=True)
    objects = [node("n1", 1000, 4, "a"), cordoned, pod("old", 900, nodeName="n1"), pod("first", 900)]
    texts = World([*objects, pod("stuck", 900)]).texts()
    assert "Add 2 more nodes like n1; it then fits there." in texts
    assert not any("ncordon" in text for text in texts)


def test_moved_pods_get_a_place_of_their_own() -> None:
    """Each move names a node that takes the pod beside everything else; pods with no other place are not moved."""
    nodes = [node("n1", 2000, 4, "a"), node("n2", 1000, 4, "a")]
    bound = [pod("a", 600, nodeName="n1"), pod("b", 600, nodeName="n1")]
    texts = World([*nodes, *bound, pod("stuck", 1300)]).texts()
    assert "Move pod default/a from n1 to n2; it then fits on n1." in texts
    assert not any("Move" in text for text in World([nodes[0], *bound, pod("stuck", 1300)]).texts())


def test_objects_are_whole_and_what_was_given_is_not_touched() -> None:
    """A suggestion carries the pod with nothing else changed."""
    body = pod("stuck", 9000, labels={"app": "x"})
    world = World([*TWO, body])
    (changed,) = world.suggestions()[0].objects
    assert changed["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "4", "memory": "256Mi"}
    assert changed["metadata"] == body["metadata"]
    assert body == pod("stuck", 9000, labels={"app": "x"})


@pytest.mark.parametrize("family", FAMILIES)
def test_nothing_is_left_behind(family: str) -> None:
    """The state is as it was: nodes, pods, amounts, objects, and what is kept beside them."""
    drawn = puzzle(list(FAMILIES).index(family))
    world = World(each for each in drawn.objects if each["kind"] != "DaemonSet")
    if drawn.pod not in world.pods:
        return
    state = world.engine.state
    before = _picture(world)
    world.suggestions(drawn.pod)
    assert _picture(world) == before
    check_invariants(state)


def _picture(world: World) -> tuple[Any, ...]:
    state = world.engine.state
    rows = {name: state.row_of(name) for name in state.node_names()}
    nodes = {name: state.node(row) for name, row in rows.items() if row is not None}
    columns = enumerate(state.resources.names)
    amounts = {(name, row): int(state.resources.requested[i, row]) for i, name in columns for row in state.rows()}
    pods = {record.pod.uid: (record.node, record.assumed) for record in state.records()}
    queue = [entry.pod.uid for entry in world.engine.queue.entries()]
    objects = {kind: dict(table) for kind, table in state.objects.items() if table}
    return nodes, {key: amount for key, amount in amounts.items() if amount}, pods, queue, objects


class Nothing:
    """A rewriter that can change nothing."""

    def change(self, pod: Pod, edits: Edits) -> Changed | None:  # noqa: ARG002 - part of the protocol
        return None if edits else Changed()


def test_what_cannot_be_rewritten_is_not_suggested() -> None:
    """Where objects are not known there is nothing to show, and so nothing to say."""
    world = World([*TWO, pod("stuck", 9000)])
    assert suggest(world.engine, world.pods["stuck"], 0.0, Nothing()) == ()


class Faulty(Plugin):
    """Fails at pods that ask for little, as a what-if may make them."""

    name: ClassVar[str] = "Faulty"

    def filter(self, cycle: Cycle, rows: Rows) -> Rejections | None:
        if cycle.template.requests.get("cpu") < 9000:
            raise ValueError("too little to go by")
        return Rejections(np.zeros(len(rows), dtype=np.int64), ())


def test_a_plugin_that_fails_costs_its_suggestions_and_nothing_else() -> None:
    """No exception but a line that tells of it, and the state is as it was."""
    configuration = ProfileConfiguration("moorage", multi_point=PluginSet(enabled=(EnabledPlugin("Faulty"),)))
    (profile,) = build_profiles(Configuration(profiles=(configuration,)), Registry((*BUILTIN, Faulty)))
    world = World([*TWO, pod("old", nodeName="n1"), pod("stuck", 9000)], profile)
    before = _picture(world)
    assert world.suggestions() == ()
    assert world.engine.faults.take() == [
        "the search for suggestions for pod default/stuck raised ValueError: too little to go by"
    ]
    assert _picture(world) == before
    check_invariants(world.engine.state)


def test_an_opinion_tells_what_raised_while_it_was_formed() -> None:
    """`moorage explain` prints it as warnings; the opinion itself stays."""
    configuration = ProfileConfiguration("moorage", multi_point=PluginSet(enabled=(EnabledPlugin("Faulty"),)))
    (profile,) = build_profiles(Configuration(profiles=(configuration,)), Registry((*BUILTIN, Faulty)))
    world = World([*TWO, pod("stuck", 9000)], profile)
    rewriter = Rewriter(lambda *identity: world.objects.get(identity))
    nodes = [NodeSeen(world.engine.state.node(int(row))) for row in world.engine.state.rows()]
    found = form_opinion([profile], EngineSettings(), nodes, world.pods["stuck"], 0.0, rewriter=rewriter)
    assert (found.node, found.suggestions) == (None, ())
    assert found.faults == ("the search for suggestions for pod default/stuck raised ValueError: too little to go by",)


class Quiet(Plugin):
    """A stranger's plugin: nodes of one zone take no pods whose label says that they are loud."""

    name: ClassVar[str] = "Quiet"

    def filter(self, cycle: Cycle, rows: Rows) -> Rejections | None:
        loud = cycle.template.labels.get("volume") == "loud"
        return Rejections(np.full(len(rows), int(loud), dtype=np.int64), (Reason("node(s) like it quiet"),))

    def remedies(self, rejected: Rejected) -> Iterator[Remedy]:
        """Without the label, the pod is no longer loud."""
        kept = FrozenDict({key: value for key, value in rejected.pod.template.labels.items() if key != "volume"})
        if rejected.accepts(replace(rejected.pod.template, labels=kept)):
            yield Remedy((DropLabel("volume"),), 2.0)


def test_a_strangers_plugin_can_say_what_would_help() -> None:
    """Alone, and together with what another plugin wants; what it suggests is tried like everything else."""
    configuration = ProfileConfiguration("moorage", multi_point=PluginSet(enabled=(EnabledPlugin("Quiet"),)))
    (profile,) = build_profiles(Configuration(profiles=(configuration,)), Registry((*BUILTIN, Quiet)))
    loud = pod("stuck")
    loud["metadata"]["labels"] = {"volume": "loud"}
    large = pod("large", 5000)
    large["metadata"]["labels"] = {"volume": "loud"}
    world = World([*TWO, loud, large], profile)
    text = "Remove the pod's label volume, which rules about it select"
    assert world.texts()[0] == f"{text}; it then fits on n2."
    assert f"Lower the cpu request from 5 to 4 and {text[0].lower()}{text[1:]}; it then fits on n2." in world.texts(
        "large"
    )


def _with(*plugins: type[Plugin]) -> Profile:
    more = PluginSet(enabled=tuple(EnabledPlugin(plugin.name) for plugin in plugins))
    configuration = ProfileConfiguration("moorage", multi_point=more)
    (profile,) = build_profiles(Configuration(profiles=(configuration,)), Registry((*BUILTIN, *plugins)))
    return profile


class Confused(Plugin):
    """A stranger's plugin that keeps pods off one zone, and whose hooks are broken."""

    name: ClassVar[str] = "Confused"

    def filter(self, cycle: Cycle, rows: Rows) -> Rejections | None:
        there = [cycle.state.node(int(row)).labels[ZONE] == "a" for row in rows]
        return Rejections(np.array(there, dtype=np.int64), (Reason("node(s) were confusing"),))

    def remedies(self, rejected: Rejected) -> Iterator[Remedy]:
        """Say half of it."""
        yield Remedy((SetNodeLabel(rejected.state.node(rejected.row).name, ZONE, "c"),), 2.0)
        raise RuntimeError("lost the thread")

    def remedy_groups(self, state: ClusterState, rows: Rows) -> Any:
        """Answer with something of another length."""
        return np.zeros(len(rows) + state.node_count, dtype=np.int64)

    def separates(self, template: PodTemplate, other: PodTemplate) -> Iterable[str]:
        """Look for a label that no pod has."""
        return [template.labels["none"], other.labels["none"]]


def test_a_plugin_whose_hooks_raise_loses_its_own_suggestions_only() -> None:
    """What the others suggest stays, and each fault is named once, however often the hook would have been asked."""
    objects = [
        *(node(f"a{i}", 4000 + i, 4, "a") for i in range(3)),
        node("b1", 4000, 4, "b"),
        *(pod(f"old{i}", 700, nodeName=name) for i, name in enumerate(("a0", "a0", "a1", "b1"))),
        pod("stuck", 3500),
    ]
    world = World(objects, _with(Confused))
    assert world.texts() == [
        "Lower the cpu request from 3500m to 3300m; it then fits on b1.",
        "Add one more node like b1; it then fits there.",
    ]
    assert sorted(world.engine.faults.take()) == [
        "plugin Confused: remedies raised RuntimeError: lost the thread",
        "plugin Confused: remedy_groups raised ValueError: cannot reshape array of size 8 into shape (4,)",
        "plugin Confused: separates raised KeyError: 'none'",
    ]


class Elbows(Plugin):
    """A stranger's plugin: pods with elbows do not share a zone, and no node holds more than two pods."""

    name: ClassVar[str] = "Elbows"

    def filter(self, cycle: Cycle, rows: Rows) -> Rejections | None:
        state = cycle.state
        bits = np.zeros(len(rows), dtype=np.int64)
        crowded = {
            state.node(each.row).labels[ZONE] for each in state.records() if "elbows" in each.pod.template.labels
        }
        for index, row in enumerate(map(int, rows)):
            near = "elbows" in cycle.template.labels and state.node(row).labels[ZONE] in crowded
            bits[index] = near | (int("old" in state.node(row).labels) << 1)
        return Rejections(bits, (Reason("node(s) had elbows nearby"), Reason("node(s) were old", resolvable=False)))

    def separates(self, template: PodTemplate, other: PodTemplate) -> Iterable[str]:
        """Two with elbows."""
        return [ZONE] if "elbows" in template.labels and "elbows" in other.labels else []


def test_a_strangers_plugin_can_say_which_pods_are_in_the_way() -> None:
    """Pods of other nodes are moved for it, and none for a node that it would reject all the same."""
    elbows = {"elbows": "two"}
    objects = [
        node("n1", 1000, 4, "a"),
        node("n2", 1000, 4, "a"),
        node("n3", 500, 4, "b"),
        pod("pushy", 100, labels=elbows, nodeName="n1"),
        pod("filler", 800, nodeName="n1"),
        pod("stuck", 900, labels=elbows),
    ]
    text = "Move pod default/pushy from n1 to n3; it then fits on n2."
    assert text in World(objects, _with(Elbows)).texts()
    objects[1]["metadata"]["labels"]["old"] = "yes"
    assert not any(text.startswith("Move") for text in World(objects, _with(Elbows)).texts())


def test_pods_ahead_are_those_that_the_queue_has_before() -> None:
    """By priority, then by arrival."""
    bodies = [pod("early", 9000), pod("stuck", 9000, priority=5), pod("late", 9000, priority=7), pod("behind", 9000)]
    world = World([*TWO, *bodies])
    assert [each.name for each in waiting_ahead(world.engine, world.pods["stuck"])] == ["late"]
    assert [each.name for each in waiting_ahead(world.engine, world.pods["behind"])] == ["late", "stuck", "early"]


@pytest.mark.parametrize("want", [1, 2, 3, 7, 64, 65])
def test_the_smallest_number_is_found(want: int) -> None:
    """Doubling, then halving; beyond the most there is none."""
    assert fewest(lambda count: count if count >= want else None, most=64) == (want if want <= 64 else None)
    assert least(1, 100, lambda value: value >= want) == want


def explanations(**scores: dict[str, int]) -> dict[str, NodeExplanation]:
    return {name: NodeExplanation(scores=each) for name, each in scores.items()}


@pytest.mark.parametrize(
    ("nodes", "gap", "text"),
    [
        pytest.param(
            explanations(a={"Fit": 90, "Image": 5}, b={"Fit": 70, "Image": 10}),
            15,
            "b comes second, 15 points behind a; it would win if it scored as well in Fit (+20).",
            id="behind",
        ),
        pytest.param(
            explanations(a={"Fit": 91}, b={"Fit": 90}),
            1,
            "b comes second, 1 point behind a; it would draw level if it scored as well in Fit (+1).",
            id="one-behind",
        ),
        pytest.param(
            explanations(a={"Fit": 90}, b={"Fit": 90}),
            0,
            "b scores as much as a; the tie went by a hash, so any point more would let it win.",
            id="tie",
        ),
        pytest.param(
            explanations(a={"Fit": 80}, b={"Fit": 90}), -10, "b scores 10 more than a and would win today.", id="ahead"
        ),
    ],
)
def test_the_runner_up(nodes: dict[str, NodeExplanation], gap: int, text: str) -> None:
    """The best other node, what separates it, and what it would need."""
    found = runner_up(Opinion("default", "p", "s", node="a", nodes=nodes))
    assert found is not None
    assert (found.node, found.gap, found.text) == ("b", gap, text)
    assert sum(found.by_plugin.values()) == gap


def test_there_is_no_runner_up_without_a_second_node() -> None:
    """Nor for a pod without a node."""
    one = explanations(a={"Fit": 1})
    assert runner_up(Opinion("default", "p", "s", node="a", nodes=one)) is None
    assert runner_up(Opinion("default", "p", "s", nodes=explanations(a={}, b={}))) is None


def test_a_gang_needs_room_for_all_of_its_members() -> None:
    """As many nodes as are missing, or fewer members that must stand together."""
    group = thing("PodGroup", "g", "scheduling.x-k8s.io/v1alpha1", spec={"minMember": 3})
    mark = {"scheduling.x-k8s.io/pod-group": "g"}
    members = [pod(name, 900, labels=mark) for name in ("a", "b", "stuck")]
    world = World([node("n1", 1000, 4, "a"), group, *members])
    assert "Add 2 more nodes like n1; it then fits there." in world.texts("b")
    assert "Let 1 member of pod group default/g be enough; it then fits on n1." in world.texts("a")


class OneTicket(Plugin):
    """A stranger's plugin: there is one ticket, which Reserve hands out."""

    name: ClassVar[str] = "OneTicket"

    def __init__(self, args: object = None) -> None:
        super().__init__(args)
        self.held: set[str] = set()

    def reserve(self, cycle: Cycle, row: int) -> Status | None:  # noqa: ARG002 - part of the interface
        if self.held - {cycle.pod.uid}:
            return unschedulable("no ticket left")
        self.held.add(cycle.pod.uid)
        return None

    def unreserve(self, cycle: Cycle, row: int) -> None:  # noqa: ARG002 - part of the interface
        self.held.discard(cycle.pod.uid)


def test_members_that_could_not_reserve_what_they_need_do_not_fit_together() -> None:
    """Nodes alone do not help two members of which only one could have the ticket."""
    group = thing("PodGroup", "g", "scheduling.x-k8s.io/v1alpha1", spec={"minMember": 2})
    mark = {"scheduling.x-k8s.io/pod-group": "g"}
    world = World([node("n1", 1000, 4, "a"), group, *(pod(name, 900, labels=mark) for name in "ab")], _with(OneTicket))
    assert world.texts("a") == ["Let 1 member of pod group default/g be enough; it then fits on n1."]
    instance = world.engine.runners["moorage"].plugins.get("OneTicket")
    assert instance is not None
    assert isinstance(instance.plugin, OneTicket)
    assert instance.plugin.held == set()


class Waiter(Plugin):
    """Lets every pod wait in Permit."""

    name: ClassVar[str] = "Waiter"

    def permit(self, cycle: Cycle, row: int) -> Hold:  # noqa: ARG002 - part of the interface
        return Hold(1e9)


@pytest.mark.parametrize("gang", [True, False], ids=["members", "single-pods"])
def test_pods_on_their_way_stay_where_they_go(gang: bool) -> None:
    """They do not wait any more: nothing fits because one of them might go elsewhere today."""
    group = thing("PodGroup", "g", "scheduling.x-k8s.io/v1alpha1", spec={"minMember": 2})
    mark = {"scheduling.x-k8s.io/pod-group": "g"} if gang else {}
    pods = [pod(name, cpu, labels=mark) for name, cpu in (("a", 600), ("b", 100), ("stuck", 1500))]
    world = World([node("n1", 2000, 4, "a"), group, *pods], _with(Waiter))
    world.engine.handle([], 0.0)
    assert {record.pod.name for record in world.engine.state.records()} == {"a", "b"}
    more = node("n2", 1300, 4, "a")
    world.objects["Node", "", "n2"] = more
    world.engine.handle([NodeSeen(NODE.from_builtin(more))], 1.0, budget=0)
    assert world.texts()[0] == "Lower the cpu request from 1500m to 1300m; it then fits on n1."
    assert waiting_ahead(world.engine, world.pods["stuck"]) == []
    assert {record.pod.name: record.node for record in world.engine.state.records()} == {"a": "n1", "b": "n1"}


def test_a_volume_goes_to_one_pod_only() -> None:
    """The pod ahead takes the only volume that both claims could have."""
    claimed = [
        pod(name, volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": f"of-{name}"}}])
        for name in ("ahead", "stuck")
    ]
    binding = {"provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer"}
    size, shared = {"storage": "1Gi"}, {"storageClassName": "disk", "accessModes": ["ReadWriteOnce"]}
    objects = [
        *TWO,
        thing("StorageClass", "disk", "storage.k8s.io/v1", cluster_wide=True, **binding),
        thing(
            "PersistentVolume",
            "v1",
            cluster_wide=True,
            spec={**shared, "capacity": size},
            status={"phase": "Available"},
        ),
        *(
            thing("PersistentVolumeClaim", f"of-{name}", spec={**shared, "resources": {"requests": size}})
            for name in ("ahead", "stuck")
        ),
        *claimed,
    ]
    world = World(objects)
    assert world.texts("ahead") == []
    assert world.texts() == ["Drop the volume of claim of-stuck; it then fits on n1."]
    assert world.engine.state.volumes.reservation("default/ahead") is None


def _tainted(count: int, taints: int) -> list[Plain]:
    """Nodes with taints of their own."""
    names = [f"n{number}" for number in range(count)]
    return [node(name, 4000, 16, "a", taints=[taint(f"{name}-{i}") for i in range(taints)]) for name in names]


def _occupied(nodes: list[Plain]) -> list[Plain]:
    """The same, each full of a less important pod."""
    names = [each["metadata"]["name"] for each in nodes]
    return [*nodes, *(pod(f"on-{name}", 4000, nodeName=name, priority=1) for name in names)]


@pytest.mark.parametrize(
    ("objects", "spec", "wants"),
    [
        pytest.param(_tainted(8, 40), {}, ["Remove the taint n0-0", "Remove the taint n1-0"], id="many-edits-in-a-fix"),
        pytest.param(
            _occupied(_tainted(5, 3)),
            {"priority": 100},
            ["Remove the taint n0-0", "Remove the taint n1-0"],
            id="a-fix-and-evictions",
        ),
        pytest.param(
            _occupied(_tainted(5, 1)),
            {"priority": 100, "nodeSelector": {"disk": "ssd"}},
            ["Label node n0 with disk=ssd and tolerate", "Label node n2 with disk=ssd and tolerate"],
            id="two-fixes-and-evictions",
        ),
    ],
)
def test_what_can_be_left_out_of_a_change_costs_no_other_change_its_trial(
    objects: list[Plain], spec: Plain, wants: list[str]
) -> None:
    """There is a bound on trials, and what helps one plugin only is not taken apart."""
    texts = World([*objects, pod("stuck", 3000, **spec)]).texts()
    assert [want for want in wants if not any(text.startswith(want) for text in texts)] == []
