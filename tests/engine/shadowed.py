"""Another scheduler whose decisions are told to a shadow, one event at a time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from moorage.core.events import Event, NodeSeen, ObjectSeen, PodGone, PodSeen
from moorage.core.pods import RUNNING, Condition, Pod
from moorage.engine.invariants import check_engine
from moorage.engine.shadowing.following import SETTLE_S, Follow
from moorage.engine.shadowing.owning import Own
from moorage.engine.shadowing.shadow import ShadowTerms
from moorage.engine.shadowing.verdicts import Decision, ShadowVerdict
from moorage.framework.profiles import Profile
from moorage.testing import make_node, make_pod
from tests.framework.readers import default_profile

OTHER = "default-scheduler"
REFUSED = Condition("PodScheduled", "False", "Unschedulable", "0/2 nodes are available.")


class Shadowed:
    """A cluster in which `OTHER` decides, and what a shadow says to it."""

    def __init__(self, shadow: Follow | Own, *nodes: Any) -> None:
        self.shadow = shadow
        self.pods: dict[str, Pod] = {}
        self.now = 1000.0
        for node in nodes:
            self.tell(NodeSeen(make_node(node) if isinstance(node, str) else node))
        self.began = False

    def tell(self, *events: Event) -> None:
        """Something is seen; time goes on."""
        for event in events:
            self.shadow.tell(event, self.now)
        self.now += 0.01

    def begin(self) -> None:
        """What there is is known."""
        self.shadow.begin()
        self.began = True

    def create(self, name: str, **fields: Any) -> Pod:
        """A pod comes, without a node."""
        if not self.began:
            self.begin()
        pod = make_pod(name, **{"scheduler_name": OTHER, **fields})
        self.see(pod)
        return pod

    def see(self, pod: Pod) -> None:
        """A pod as it is now."""
        self.pods[pod.name] = pod
        self.tell(PodSeen(pod))

    def change(self, name: str, **fields: Any) -> None:
        """A pod changes."""
        self.see(replace(self.pods[name], **fields))

    def bind(self, name: str, node: str) -> None:
        """The other scheduler places a pod."""
        self.change(name, node=node, phase=RUNNING)

    def refuse(self, name: str) -> None:
        """The other scheduler finds no node."""
        self.change(name, scheduled_condition=REFUSED)

    def delete(self, name: str) -> None:
        """A pod is gone."""
        self.tell(PodGone(self.pods.pop(name).uid))

    def put(self, kind: str, key: str, value: Any) -> None:
        """An object of another kind is seen."""
        self.tell(ObjectSeen(kind, key, value))

    def settle(self) -> None:
        """Enough time goes by for everything to be judged."""
        for _ in range(4):
            self.shadow.review(self.now)
            self.now += SETTLE_S
        for engine in self.shadow.worlds:
            if engine is not None:
                check_engine(engine)

    @property
    def verdicts(self) -> dict[ShadowVerdict, int]:
        """How many decisions had which verdict."""
        self.settle()
        counts = self.shadow.ledger.counts
        return {verdict: number for verdict in ShadowVerdict if (number := counts.of(verdict))}

    @property
    def last(self) -> Decision:
        """The newest decision that is no agreement."""
        self.settle()
        return self.shadow.ledger.differences[-1]


def following(*nodes: Any, profile: Profile | None = None, **options: Any) -> Shadowed:
    """A shadow that takes over the other's placements."""
    return Shadowed(Follow(ShadowTerms([profile or default_profile()], [OTHER], **options)), *nodes)


def owning(*nodes: Any, profile: Profile | None = None, **options: Any) -> Shadowed:
    """A shadow with a world of its own."""
    return Shadowed(Own(ShadowTerms([profile or default_profile()], [OTHER], **options)), *nodes)
