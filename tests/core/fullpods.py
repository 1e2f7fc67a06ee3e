"""Pods that say something in every field, for tests that walk over the fields of a pod."""

from __future__ import annotations

from dataclasses import replace

from moorage.core.affinity import NodeAffinity, PodAffinity, PodTerm, SpreadConstraint
from moorage.core.assignments import Assignment
from moorage.core.frozen import FrozenDict
from moorage.core.gangrecords import STARTED
from moorage.core.limits import Excess
from moorage.core.membership import Declared, GangKey, OwnedMember
from moorage.core.pods import Condition, ContainerAsk, HostPort, Owner, Pod, PodTemplate, PodVolume
from moorage.core.resources import Requests
from moorage.core.selectors import Operator, Requirement, Selector
from moorage.core.shareasks import Convention, ShareAsk
from moorage.core.strategy import RULE_STAMP
from moorage.core.taints import Toleration
from moorage.core.topologyasks import TopologyAsk

ASKS = Requests((("cpu", 100), ("example.com/gpu", 1), ("example.com/offered-by-nobody", 1)), 100, 1 << 20)
LABELS = FrozenDict({"app": "a", "pod-group": "g"})
SELECTOR = Selector((Requirement("app", Operator.IN, ("a",)),))
TERM = PodAffinity(required=(PodTerm(SELECTOR, "zone"),))
FULL = PodTemplate(
    namespace="team",
    labels=LABELS,
    annotations=FrozenDict({RULE_STAMP: "1", "moorage.dev/pod-group-min-available": "2", "gpu-fraction": "0.5"}),
    owner=Owner("ReplicaSet", "rs", "rs-uid"),
    scheduler_name="other",
    priority=7,
    preemption_policy="Never",
    requests=ASKS,
    node_selector=FrozenDict({"zone": "a"}),
    node_affinity=NodeAffinity(),
    pod_affinity=TERM,
    pod_anti_affinity=TERM,
    spread=(SpreadConstraint(1, "zone", True, SELECTOR),),
    tolerations=(Toleration("a"),),
    host_ports=(HostPort("", "TCP", 80),),
    images=("app:v1",),
    container_count=2,
    volumes=(PodVolume(claim="data"), PodVolume(disk=("gce", "d", False)), PodVolume(csi_driver="c")),
    claims=("gpu",),
    made_claims=("gpu",),
    asks=(ContainerAsk(0, "c", False, (("example.com/gpu", 0, 1),)),),
    group="native",
    host_network=True,
    features=("a",),
    limits=(("cpu", 200),),
    topology=TopologyAsk(required="rack"),
    excess=(Excess("spec.volumes", 300, 256),),
    owned=OwnedMember(GangKey("team", "JobSet/train", Declared.OWNER), "worker", (1, 2)),
)
POD = Pod("p", "p", FULL, node="n1", requests=ASKS)
OTHER = Pod(
    "q",
    "q",
    replace(FULL, priority=8),
    node="n2",
    nominated_node="n2",
    phase="Succeeded",
    gates=("gate",),
    requests=replace(ASKS, amounts=(("cpu", 200),)),
    created_s=1.0,
    started_s=1.0,
    deleted_s=1.0,
    scheduled_condition=Condition("PodScheduled", "True"),
    generation=2,
    resource_version="2",
    preempted=True,
    scheduled_s=1.0,
    gang_record=STARTED,
    ready=False,
    devices=(1,),
    assigned=Assignment("n2", (1,), ShareAsk(Convention.WHOLE)),
    ends_s=9.0,
)
"""Differs from POD in every field."""
