"""The scenarios that `moorage demo --scenario` knows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from moorage.adapters.memory.kubelet import RUN_SECONDS
from moorage.adapters.memory.manifests import manifest, node_manifest, workload_manifest
from moorage.core.capacity import Capacity
from moorage.core.prices import PriceList, PriceRule, read_price
from moorage.core.strategy import STRATEGY_ANNOTATIONS
from moorage.framework.keeping import KeeperConfiguration
from moorage.sim.demo.device_scenario import devices
from moorage.sim.demo.queue_scenario import queues
from moorage.sim.demo.scenario import (
    NAMESPACE,
    Act,
    Deed,
    Scenario,
    change,
    cordon,
    create,
    delete,
    evict_all,
    give_notice,
    lose,
    recover,
    repeat_notice,
    scale,
    uncordon,
    withdraw_notice,
)

GPU = "nvidia.com/gpu"
CAPACITY = "node.kubernetes.io/capacity"
HIGH, LOW = "high", "low"


def _act(at_s: float, story: str, *deeds: Deed) -> Act:
    return Act(at_s, story, deeds)


def _deployment(name: str, replicas: int, **spec: Any) -> dict[str, Any]:
    return workload_manifest("Deployment", name, own={"replicas": replicas}, **spec)


def _job(name: str, *, run_s: float, own: Mapping[str, Any], **spec: Any) -> dict[str, Any]:
    """A Job whose pods each run for so long; `{cycle}` in its name becomes the number of the cycle."""
    app = name.removesuffix("-{cycle}")
    job = workload_manifest("Job", name, labels={"app": app}, own=own, **spec)
    job["spec"]["template"]["metadata"]["annotations"] = {RUN_SECONDS: f"{run_s:g}"}
    return job


def _priority_class(name: str, value: int) -> dict[str, Any]:
    return {**manifest("PriorityClass", name), "value": value}


# default: a day in the life of a small cluster


def _gpu_node() -> dict[str, Any]:
    node = node_manifest("gpu-1", zone="zone-c", cpu="4", memory="16Gi")
    node["status"]["capacity"][GPU] = "1"
    return node


def _training_job() -> dict[str, Any]:
    job = _job("train-{cycle}", run_s=12, own={"completions": 1, "parallelism": 1}, cpu="1", memory="4Gi")
    resources = job["spec"]["template"]["spec"]["containers"][0]["resources"]
    resources["requests"][GPU] = resources.setdefault("limits", {})[GPU] = "1"
    return job


def _profile(plugin: str) -> str:
    """A configuration whose profile has one plugin more than the default ones."""
    return f"""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: moorage
  plugins:
    multiPoint:
      enabled: [{{{plugin}}}]
"""


_STRATEGY_PROFILE = _profile("name: PlacementStrategy")
_HALF_ON_SPOT = f"base=1,weight=1,nodeSelector={CAPACITY}:on-demand;weight=2,nodeSelector={CAPACITY}:spot"
_PRICES = PriceList(
    "demo",
    "USD",
    (
        PriceRule(read_price("0.192"), capacity=Capacity.ON_DEMAND),
        PriceRule(read_price("0.0712"), capacity=Capacity.SPOT),
    ),
)


def _default() -> Scenario:
    sizes = {
        "a": ("4", "8Gi", 3, "on-demand"),
        "b": ("4", "8Gi", 3, "spot"),
        "c": ("6", "16Gi", 2, "on-demand"),
    }
    nodes = [
        node_manifest(f"node-{zone}{number}", zone=f"zone-{zone}", cpu=cpu, memory=memory, labels={CAPACITY: capacity})
        for zone, (cpu, memory, count, capacity) in sizes.items()
        for number in range(1, count + 1)
    ]
    strategy = {STRATEGY_ANNOTATIONS[0]: _HALF_ON_SPOT}
    # Only pods of a scheduler that is known to follow the strategy are moved for it.
    api = _deployment("api", 4, cpu="750m", memory="1Gi", annotations=strategy, schedulerName="moorage")
    classes = create(_priority_class(HIGH, 1000), _priority_class(LOW, -10))
    opening = (
        _act(0.0, "", classes),
        _act(0.3, "Deployment web arrives: 6 replicas", create(_deployment("web", 6, cpu="500m", memory="512Mi"))),
        _act(2.0, "Deployment api arrives: 4 replicas, half of them on spot nodes", create(api)),
        _act(
            3.5,
            "StatefulSet cache arrives: 3 replicas",
            create(workload_manifest("StatefulSet", "cache", own={"replicas": 3}, cpu="500m", memory="2Gi")),
        ),
    )
    return Scenario(
        "a day in the life of a small cluster",
        nodes,
        opening,
        6.0,
        _default_cycle(),
        60.0,
        _STRATEGY_PROFILE,
        KeeperConfiguration(return_after_s=5.0, move_again_after_s=8.0),
        keeper_needs="PlacementStrategy",
        prices=_PRICES,
    )


def _default_cycle() -> tuple[Act, ...]:
    """What happens every minute."""
    return (
        _act(
            0.5,
            "Job report starts: 6 pods, 3 at a time",
            create(_job("report-{cycle}", run_s=3, own={"completions": 6, "parallelism": 3}, cpu="1", memory="512Mi")),
        ),
        _act(4.0, "web is scaled up from 6 to 16", scale("web", 16)),
        _act(9.0, "node-b2 stops answering", lose("node-b2")),
        _act(12.0, "node-b2 is given up: its pods move", evict_all("node-b2")),
        _act(16.0, "Job train arrives: it wants a GPU, and no node has one", create(_training_job())),
        _act(20.0, "node-b2 answers again", recover("node-b2")),
        _act(23.0, "node gpu-1 joins the cluster", create(_gpu_node())),
        _act(27.0, "node-c1 is cordoned for maintenance", cordon("node-c1")),
        _act(
            29.0,
            "Job batch arrives: 24 pods of low priority, more than there is room for",
            create(
                _job(
                    "batch-{cycle}",
                    run_s=9,
                    own={"completions": 24, "parallelism": 24},
                    cpu="1",
                    memory="1Gi",
                    priorityClassName=LOW,
                )
            ),
        ),
        _act(
            33.0,
            "Deployment checkout arrives: 5 replicas of high priority, which go before batch",
            create(_deployment("checkout", 5, cpu="1500m", memory="1Gi", priorityClassName=HIGH)),
        ),
        _act(37.0, "node-c1 is back in service", uncordon("node-c1")),
        _act(39.0, "spot node node-b3 is to be taken back", give_notice("node-b3")),
        _act(44.0, "web is scaled down from 16 to 6", scale("web", 6)),
        _act(47.0, "the notice of node-b3 is withdrawn", withdraw_notice("node-b3")),
        _act(50.0, "checkout is taken down", delete("Deployment", "checkout")),
        _act(
            54.0,
            "node gpu-1 leaves; finished Jobs are cleared away",
            evict_all("gpu-1"),
            delete("Node", "gpu-1"),
            *(delete("Job", f"{name}-{{cycle}}") for name in ("report", "train", "batch")),
        ),
    )


# rollout: one good new version, one that fits nowhere


def _version(version: str, cpu: str) -> Deed:
    template = workload_manifest("Deployment", "web", cpu=cpu, memory="512Mi")["spec"]["template"]
    template["metadata"]["labels"]["version"] = version
    return change("Deployment", "web", {"spec": {"template": template}})


def _rollout() -> Scenario:
    nodes = [
        node_manifest(f"node-{zone}{number}", zone=f"zone-{zone}", cpu="4", memory="8Gi")
        for zone in "abc"
        for number in (1, 2)
    ]
    opening = (
        _act(0.3, "Deployment web arrives: 12 replicas of v1", create(_deployment("web", 12, cpu="500m"))),
        _act(1.5, "Deployment api arrives: 4 replicas", create(_deployment("api", 4, cpu="750m", memory="1Gi"))),
    )
    cycle = (
        _act(1.0, "web is rolled out as v2: a few pods at a time", _version("v2", "600m")),
        _act(16.0, "web is rolled out as v3, which asks for 16 cpus: the new pods fit nowhere", _version("v3", "16")),
        _act(26.0, "v3 is taken back: web returns to v2", _version("v2", "600m")),
        _act(32.0, "web returns to v1", _version("v1", "500m")),
    )
    return Scenario("rolling updates, one of them a mistake", nodes, opening, 4.0, cycle, 48.0)


# busy: many nodes, and something to decide all the time

_BUSY_APPS = 24


def _busy() -> Scenario:
    nodes = [
        node_manifest(f"n-{zone}{number:02}", zone=f"zone-{zone}", cpu="8", memory="32Gi")
        for zone in "abc"
        for number in range(1, 21)
    ]
    names = [f"app-{number:02}" for number in range(_BUSY_APPS)]
    cpus = ("250m", "500m", "750m", "1")
    opening = tuple(
        _act(0.2 + i / 4, f"Deployment {name} arrives", create(_deployment(name, 8, cpu=cpus[i % 4], memory="1Gi")))
        for i, name in enumerate(names)
    )
    # Each app goes up once and down once in a cycle, at another moment than its neighbours.
    cycle = tuple(
        _act((i * 5 % _BUSY_APPS + half) / 2 % 24, f"{name} is scaled to {replicas}", scale(name, replicas))
        for i, name in enumerate(names)
        for half, replicas in ((0, 24 + i % 7), (12, 8))
    )
    return Scenario("60 nodes and hundreds of pods that come and go", nodes, opening, 7.0, cycle, 24.0)


# spot: the cloud wants its machines back, and gives them again

_SPOT_APPS, _SPOT_REPLICAS = 20, 5
_SPOT_NODES = tuple(f"spot-{number:02}" for number in range(1, 11))
_STAYING = _SPOT_NODES[-2:]
_SPOT_PROFILE = _profile("name: SpotPlacement, weight: 5")


def _spot_node(name: str) -> dict[str, Any]:
    return node_manifest(name, cpu="4", memory="16Gi", zone="spot", labels={CAPACITY: "spot"})


def _with_budget(name: str) -> Deed:
    """A Deployment of which one pod may be missing."""
    selector = {"matchLabels": {"app": name}}
    budget = manifest("PodDisruptionBudget", name, NAMESPACE, spec={"maxUnavailable": 1, "selector": selector})
    return create(_deployment(name, _SPOT_REPLICAS, cpu="250m", memory="256Mi"), budget)


def _spot() -> Scenario:
    """Minutes are seconds here: ten machines, a hundred pods, and a notice for all of them at once."""
    on_demand = [
        node_manifest(f"od-{number}", cpu="8", memory="32Gi", zone="on-demand", labels={CAPACITY: "on-demand"})
        for number in range(1, 6)
    ]
    nodes = [*on_demand, *map(_spot_node, _SPOT_NODES)]
    names = [f"app-{number:02}" for number in range(1, _SPOT_APPS + 1)]
    opening = (_act(0.3, "20 Deployments arrive: 5 replicas each, one may be missing", *map(_with_budget, names)),)
    going = _SPOT_NODES[: -len(_STAYING)]
    cycle = (
        _act(1.0, "10 spot nodes are to be taken back in 2 minutes", give_notice(*_SPOT_NODES)),
        _act(3.0, "the notice comes again, in other words", repeat_notice(*_SPOT_NODES[:3])),
        _act(16.0, f"the notice is withdrawn for {' and '.join(_STAYING)}", withdraw_notice(*_STAYING)),
        _act(20.0, "the other spot nodes go", *(delete("Node", name) for name in going)),
        _act(26.0, "spot capacity is back", create(*map(_spot_node, going))),
    )
    keeper = KeeperConfiguration(return_after_s=8.0, move_again_after_s=8.0, returns_at_once=8)
    about = "a notice for every spot node at once; pods leave while they run, and return"
    return Scenario(about, nodes, opening, 6.0, cycle, 60.0, _SPOT_PROFILE, keeper, prices=_PRICES)


SCENARIOS: Mapping[str, Scenario] = {
    "default": _default(),
    "rollout": _rollout(),
    "busy": _busy(),
    "spot": _spot(),
    "devices": devices(),
    "queues": queues(),
}
"""Name -> scenario."""
