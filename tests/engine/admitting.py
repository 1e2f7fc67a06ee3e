"""Questions of an API server to the admission, for tests."""

from __future__ import annotations

from dataclasses import replace

from moorage.core.events import ObjectSeen
from moorage.core.frozen import FrozenDict
from moorage.core.objects import DEPLOYMENT, REPLICA_SET, Workload
from moorage.core.pods import Owner, Pod, PodTemplate
from moorage.core.strategy import STRATEGY_ANNOTATIONS
from moorage.engine.admission import Admission, Asked, Verdict

KEY, OLD_KEY = STRATEGY_ANNOTATIONS


SPLIT = "base=1,weight=1,nodeSelector=node-type:ondemand;weight=2,nodeSelector=node-type:spot"


OWNER = Owner(REPLICA_SET, "web-5d", "rs-uid", "apps/v1")


LEDGER_S = 10.0


def deployment(text: str | None = SPLIT, key: str = KEY, name: str = "web") -> list[ObjectSeen]:
    """A Deployment with this strategy and its ReplicaSet, as the watch shows them."""
    notes = FrozenDict({} if text is None else {key: text})
    top = Workload(DEPLOYMENT, "default", name, uid="d-uid", annotations=notes, replicas=6)
    above = Owner(DEPLOYMENT, name, "d-uid", "apps/v1")
    direct = Workload(REPLICA_SET, "default", f"{name}-5d", uid="rs-uid", owner=above, replicas=6)
    return [ObjectSeen(DEPLOYMENT, top.key, top), ObjectSeen(REPLICA_SET, direct.key, direct)]


def admission(*events: ObjectSeen, me: str = "") -> Admission:
    found = Admission(excluded=("kube-system",), ledger_s=LEDGER_S, me=me)
    for event in events or deployment():
        found.handle(event)
    return found


def template(**fields: object) -> PodTemplate:
    return replace(PodTemplate(owner=OWNER), **fields)  # type: ignore[arg-type]


def decide(subject: Admission, pod: PodTemplate | None = None, now_s: float = 0.0, *, dry_run: bool = False) -> Verdict:
    answer = subject.decide(Asked(pod or template(), dry_run), now_s)
    assert isinstance(answer, Verdict)
    return answer


def born(verdict: Verdict, uid: str, pod: PodTemplate | None = None, **fields: object) -> Pod:
    """The pod that comes of an answer."""
    made = pod or template()
    made = replace(
        made,
        annotations=FrozenDict({**made.annotations, **verdict.annotations}),
        node_selector=FrozenDict({**made.node_selector, **verdict.node_selector}),
    )
    return Pod(uid, uid, made, **fields)  # type: ignore[arg-type]
