"""The keeper under fault: notices that come twice or are withdrawn, keepers that die, views that stand still."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from functools import partial
from typing import Any

from moorage.bench.processes import free_ports
from tests.faults.history import is_leaving, node_of
from tests.faults.lab import Scenario
from tests.faults.processes import Subject, until
from tests.faults.rules import EVICT, FOREVER, PATCH, WRITES, Answer, Hold, Rule, Stop
from tests.faults.world import IMAGE, RUN, Object, World

CAPACITY = "node.kubernetes.io/capacity"
NOTICE = {"key": "aws-node-termination-handler/spot-itn", "value": "first", "effect": "NoSchedule"}
WRITE = "|".join(sorted(WRITES - {"update"}))
TAKEOVER_S = 20.0
CRASHES = 10
"""More than there are writes."""


async def _keeper(world: World, *, rules: tuple[Rule, ...] = (), elect: bool = False) -> Subject:
    """A keeper that never sends anybody back."""
    document: dict[str, Any] = {"apiVersion": "moorage.dev/v1alpha1", "kind": "KeeperConfiguration", "returnsAtOnce": 0}
    document["leaderElection"] = {**world.election(), "resourceName": "keeper"} if elect else {"leaderElect": False}
    path = world.written(world.configuration(), document, name=f"keeper-{len(world.launcher.all)}.yaml")
    metrics, health = (f"127.0.0.1:{port}" for port in free_ports(2))
    arguments = [f"--config={path}", f"--metrics-listen={metrics}", f"--health-listen={health}", "--v=3"]
    urls = {"metrics": f"http://{metrics}", "health": f"http://{health}"}
    keeper = await world.launcher.start("keeper", arguments, rules=rules if world.faulty else (), urls=urls)
    await world.is_ready(keeper)
    return keeper


def _workload(world: World, kind: str, name: str, replicas: int, **spec: Any) -> Object:
    labels = {"app": name}
    container = {"name": "c", "image": IMAGE, "resources": {"requests": {"cpu": "100m"}}}
    base = {"schedulerName": world.name, "nodeSelector": {RUN: world.name}, "terminationGracePeriodSeconds": 1}
    template = {"metadata": {"labels": labels}, "spec": {**base, "containers": [container], **spec}}
    body = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    if kind == "StatefulSet":
        body["serviceName"] = name
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name, "namespace": world.name}, "spec": body}


async def _stage(world: World, replicas: int = 4, *, kind: str = "Deployment") -> None:
    """A spot node on which all of `web` run, an on-demand node for later, and another app that nobody has to move."""
    world.allow(events_may_be_lost=True)
    await world.add_nodes(
        world.node("spot", labels={CAPACITY: "spot"}), world.node("od", labels={CAPACITY: "on-demand"})
    )
    await world.scheduler()
    apps = f"/apis/apps/v1/namespaces/{world.name}"
    elsewhere = {"nodeSelector": {RUN: world.name, CAPACITY: "on-demand"}}
    spot = {"matchExpressions": [{"key": CAPACITY, "operator": "In", "values": ["spot"]}]}
    likes = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "preference": spot}]}
    web = _workload(world, kind, "web", replicas, affinity={"nodeAffinity": likes})
    await world.cluster.create(f"{apps}/{kind.lower()}s", web)
    await world.cluster.create(f"{apps}/deployments", _workload(world, "Deployment", "other", 2, **elsewhere))
    budget = {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}}
    path = f"/apis/policy/v1/namespaces/{world.name}/poddisruptionbudgets"
    await world.cluster.create(path, {"metadata": {"name": "web"}, "spec": budget})
    await world.until(lambda: len(_on(world, "spot")) == replicas and len(_on(world, "od")) == 2, 60, "all run")
    await world.until(lambda: _allows_one(world), 30, "the budget allows one to be missing")


def _on(world: World, stem: str) -> list[str]:
    """Names of the pods that stand on a node and stay."""
    pods = world.pods().items()
    return [name for name, pod in pods if node_of(pod) == f"{world.name}-{stem}" and not is_leaving(pod) and _runs(pod)]


def _runs(pod: Mapping[str, Any]) -> bool:
    return bool(pod.get("status", {}).get("phase") == "Running")


def _allows_one(world: World) -> bool:
    budgets = world.auditor.now("poddisruptionbudgets", world.name)
    return any((each.get("status") or {}).get("disruptionsAllowed") == 1 for each in budgets)


async def _notice(world: World, **changes: str) -> None:
    await world.patch_node("spot", {"spec": {"taints": [{**NOTICE, **changes}]}})


async def _all_moved(world: World, replicas: int = 4) -> None:
    took_s = await world.until(
        lambda: len(_on(world, "od")) == 2 + replicas and not _on(world, "spot"), 90, "everybody has left the spot node"
    )
    world.figures["moved after s"] = round(took_s, 1)
    # A second move would come soon if it came at all.
    await asyncio.sleep(3.0)


async def twice(world: World) -> None:
    """The notice comes again in other words while pods leave: each is moved once."""
    await _stage(world)
    await _keeper(world)
    await _notice(world)
    if world.faulty:
        await asyncio.sleep(world.rng.uniform(0.2, 2.0))
        await _notice(world, value="again")
        condition = {"type": "PreemptScheduled", "status": "True", "reason": "Preempt"}
        node = await world.cluster.get(f"/api/v1/nodes/{world.name}-spot")
        conditions = [*node["status"]["conditions"], condition]
        await world.patch(f"/api/v1/nodes/{world.name}-spot/status", {"status": {"conditions": conditions}})
    await _all_moved(world)


async def withdrawn(world: World) -> None:
    """The notice is withdrawn after a while: from a second later on nobody is sent away, and the node is open again."""
    await _stage(world)
    keeper = await _keeper(world)
    await _notice(world)
    await asyncio.sleep(world.rng.uniform(0.1, 1.5))
    await world.patch_node("spot", {"spec": {"taints": None}})
    withdrawn_s = time.monotonic()

    def is_open() -> bool:
        node = next(each for each in world.auditor.now("nodes", "") if each["metadata"]["name"] == f"{world.name}-spot")
        return not node["spec"].get("unschedulable")

    await asyncio.sleep(4.0)
    await world.until(is_open, 30, "the node is open again")
    late = [each for each in keeper.proxy.exchanges if each.verb == EVICT and each.came_s > withdrawn_s + 1.0]
    world.claim(not late, f"{len(late)} evictions were asked for after the notice was withdrawn")
    await world.until(lambda: len(_on(world, "od")) + len(_on(world, "spot")) == 6, 30, "all run")
    world.figures["evicted"] = keeper.proxy.count(EVICT)


async def failover(world: World) -> None:
    """The keeper that leads dies amid its evictions, and the notice is repeated meanwhile: each pod is moved once."""
    await _stage(world)
    stop = Rule(verb=EVICT, nth=world.rng.randrange(1, 4), act=Stop(before=world.rng.random() < 0.5))
    leader = await _keeper(world, rules=(stop,), elect=True)
    standby = await _keeper(world, elect=True)
    if standby.proxy.count("update", "leases/keeper") > leader.proxy.count("update", "leases/keeper"):
        world.breaches.append("the second keeper leads")
    await _notice(world)
    if world.faulty:
        await until(leader.proxy.reached.is_set, 30)
        await leader.kill()
        await _notice(world, value="again")
    await _all_moved(world)


async def crash_at(world: World, k: int) -> None:
    """The keeper is killed after its k-th write, and another one finishes."""
    await _stage(world, 2)
    first = await _keeper(world, rules=(Rule(verb=WRITE, nth=k, act=Stop()),))
    await _notice(world)
    if world.faulty:
        await until(lambda: first.proxy.reached.is_set() or len(_on(world, "od")) == 4, 30)
        await until(first.proxy.reached.is_set, 1.5)
        world.claim(k < CRASHES or not first.proxy.reached.is_set(), f"there are {k} writes or more")
        await first.kill()
        await _keeper(world)
    await _all_moved(world, 2)


async def replaced_pod(world: World) -> None:
    """While the eviction of a StatefulSet's pod is on its way, the pod is replaced by one of the same name."""
    await _stage(world, 1, kind="StatefulSet")
    keeper = await _keeper(world, rules=(Rule(verb=EVICT, act=Hold()),))
    await _notice(world)
    if world.faulty:
        await asyncio.wait_for(keeper.proxy.held.wait(), 30)
        keeper.proxy.freeze("/pods$")
        await world.cluster.delete(f"{world.pods_path}/web-0")
        await world.until(lambda: len(_on(world, "od")) == 3, 30, "web-0 runs elsewhere")
        keeper.proxy.release()
        await asyncio.sleep(1.5)
        keeper.proxy.thaw()
    await _all_moved(world, 1)


async def replaced_node(world: World) -> None:
    """While the keeper's mark of a node is on its way, it is replaced by one of the same name without a notice."""
    await _stage(world, 1)
    keeper = await _keeper(world, rules=(Rule(verb=PATCH, path=r"/nodes/[^/]*-spot$", act=Hold()),))
    if not world.faulty:
        return
    await _notice(world)
    await asyncio.wait_for(keeper.proxy.held.wait(), 30)
    keeper.proxy.freeze("/nodes$")
    await world.delete_node("spot")
    await world.add_nodes(world.node("spot", labels={CAPACITY: "spot"}))
    keeper.proxy.release()
    await asyncio.sleep(1.5)
    keeper.proxy.thaw()
    await asyncio.sleep(3.0)
    node = await world.cluster.get(f"/api/v1/nodes/{world.name}-spot")
    marks = [key for key in node["metadata"].get("annotations") or {} if "keeper" in key]
    world.claim(not node["spec"].get("unschedulable"), "the new node is cordoned for the notice of the old one")
    world.claim(not marks, f"the new node has marks of the old one: {marks}")


async def missed(world: World) -> None:
    """A notice that comes and goes while the keeper hears nothing moves nobody."""
    await _stage(world, 2)
    keeper = await _keeper(world)
    down = Rule(verb="watch|list", path=r"/(pods|nodes)$", times=FOREVER, act=Answer(503))
    if world.faulty:
        keeper.proxy.add(down)
        keeper.proxy.cut(r"/(pods|nodes)$")
        await asyncio.sleep(0.3)
        await _notice(world)
        await world.patch_node("spot", {"spec": {"taints": None}})
        keeper.proxy.remove(down)
    await asyncio.sleep(6.0 if world.faulty else 0.0)
    world.claim(keeper.proxy.count(EVICT) == 0, "somebody was sent away")
    await _notice(world)
    await _all_moved(world, 2)


SCENARIOS = tuple(
    Scenario(name=name, row=row, story=story, calm=calm, place="controllers")
    for name, row, story, calm in (
        ("keeper:notice-twice", "spot notice twice", twice, "keeper"),
        ("keeper:notice-withdrawn", "spot notice withdrawn", withdrawn, None),
        ("keeper:failover", "keeper dies amid its evictions", failover, "keeper"),
        ("sieve:keeper:replaced-pod", "pod replaced while its eviction is on the way", replaced_pod, "keeper-pod"),
        ("sieve:keeper:replaced-node", "node replaced while its mark is on the way", replaced_node, None),
        ("sieve:keeper:missed", "a notice missed because it was withdrawn", missed, "keeper-two"),
    )
) + tuple(
    Scenario(
        name=f"sieve:keeper:crash:{k:02}",
        row=f"keeper killed after write {k}",
        story=partial(crash_at, k=k),
        calm="keeper-two",
        place="controllers",
    )
    for k in range(1, CRASHES + 1)
)
