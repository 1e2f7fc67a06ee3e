"""Preemption from a file to the report: who was evicted for whom, and who came back."""

from __future__ import annotations

from typing import Any

from moorage.framework.configuration import Configuration
from moorage.framework.profiles import build_profiles
from moorage.framework.registry import Registry
from moorage.plugins.builtin import BUILTIN
from moorage.sim.inputs import read_cluster
from moorage.sim.outcome import SimulationOutcome
from moorage.sim.simulation import SimulationRules, simulate
from moorage.wire.manifests import parse_manifests

NODE = """
apiVersion: v1
kind: Node
metadata: {name: NAME}
status: {allocatable: {cpu: "4", memory: 8Gi, pods: "110"}}
"""
CLASS = """
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: high}
value: 1000
"""
POD = """
apiVersion: v1
kind: Pod
metadata: {name: NAME}
spec:
  EXTRA
  containers: [{name: c, image: x, resources: {requests: {cpu: "CPU"}}}]
"""
DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: x, resources: {requests: {cpu: "2"}}}]}
"""
BUDGET = """
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: keep}
spec: {minAvailable: 1, selector: {matchLabels: {app: keep}}}
status: {disruptionsAllowed: 0, observedGeneration: 1, currentHealthy: 1, desiredHealthy: 1, expectedPods: 1}
"""


def pod(name: str, cpu: str, extra: str = "") -> str:
    return POD.replace("NAME", name).replace("CPU", cpu).replace("EXTRA", extra)


def run(*documents: str) -> tuple[SimulationOutcome, dict[str, Any]]:
    """The outcome, and its pods by name."""
    text = "---".join(documents)
    given = read_cluster(parse_manifests("cluster.yaml", text.encode()))
    assert not given.problems
    outcome = simulate(given, SimulationRules(build_profiles(Configuration(), Registry(BUILTIN)), answers_to_all=True))
    return outcome, {story.name: story for story in outcome.pods}


HIGH = pod("high", "4", "priorityClassName: high")


def test_the_preemptor_ends_up_bound() -> None:
    """Nominated node and victims stay in its story; the evicted pod has none, as it was never pending."""
    outcome, pods = run(NODE.replace("NAME", "n1"), CLASS, pod("low", "4", "nodeName: n1"), HIGH)
    assert (pods["high"].node, pods["high"].nominated_node, pods["high"].victims) == ("n1", "n1", ["default/low"])
    assert pods["high"].message is None
    assert list(outcome.evictions) == ["default/low"]
    assert list(pods) == ["high"]
    assert outcome.nodes["n1"].pods == 1


def test_more_important_pods_enter_first() -> None:
    """So that nobody is placed only to be evicted again."""
    outcome, pods = run(NODE.replace("NAME", "n1"), CLASS, pod("low", "4"), HIGH)
    assert (pods["high"].node, pods["low"].node) == ("n1", None)
    assert not outcome.evictions


def test_pods_of_an_owner_come_back() -> None:
    """Under the next free name; the replacement waits, since the cluster is full."""
    bound = pod("web-x", "4", "nodeName: n1").replace(
        "metadata: {name: web-x}",
        "metadata: {name: web-x, labels: {app: web}, ownerReferences: "
        "[{apiVersion: apps/v1, kind: ReplicaSet, name: rs, uid: rs-uid, controller: true}]}",
    )
    replicas = DEPLOYMENT.replace("kind: Deployment", "kind: ReplicaSet").replace("replicas: 2", "replicas: 1")
    replicas = replicas.replace("metadata: {name: web}", "metadata: {name: rs, uid: rs-uid}")
    outcome, pods = run(NODE.replace("NAME", "n1"), CLASS, replicas, bound, HIGH)
    assert pods["high"].node == "n1"
    assert list(outcome.evictions) == ["default/web-x"]
    (heir,) = [story for name, story in pods.items() if name != "high"]
    assert heir.name.startswith("rs-")
    assert heir.node is None
    assert heir.message is not None
    assert heir.message.endswith("preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod.")


def test_a_budget_decides_between_nodes() -> None:
    """The node whose victim is covered by an exhausted budget is left alone."""
    guarded = pod("guarded", "4", "nodeName: n1").replace(
        "metadata: {name: guarded}", "metadata: {name: guarded, labels: {app: keep}}"
    )
    free = pod("free", "4", "nodeName: n2")
    outcome, pods = run(NODE.replace("NAME", "n1"), NODE.replace("NAME", "n2"), CLASS, BUDGET, guarded, free, HIGH)
    assert pods["high"].node == "n2"
    assert list(outcome.evictions) == ["default/free"]
