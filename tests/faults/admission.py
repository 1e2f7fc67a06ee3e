"""The webhook under fault: crashes at every write, stale views, and certificates that are replaced under load."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from functools import partial

from moorage.bench.processes import free_ports
from moorage.core.strategy import parse_strategy, targets
from tests.app.webhook_load import Load, registered_bundle
from tests.app.webhook_process import KEY
from tests.faults.lab import Scenario
from tests.faults.processes import Subject, until
from tests.faults.rules import FOREVER, WRITES, Answer, Rule, Stop
from tests.faults.world import IMAGE, RUN, Object, World

SPLIT = "base=1,weight=1,nodeSelector=node-type:ondemand;weight=2,nodeSelector=node-type:spot"
OTHER = "weight=1,nodeSelector=node-type:ondemand"
REGISTRATIONS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
VIEW = r"/(pods|replicasets|deployments)$"
WRITE = "|".join(sorted(WRITES))
CAUGHT_UP_S = 10.0
"""A view that was frozen is up to date again after so long."""
CRASHES = 3
"""The registration, the lease that counts replicas, and the first renewal of that."""


async def _webhook(
    world: World, *, rules: tuple[Rule, ...] = (), ready: bool = True, port: int = 0, **fields: str
) -> Subject:
    """A webhook that registers itself, for this run's namespace and others."""
    main, metrics, health = free_ports(3)
    main = port or main
    document = {
        "apiVersion": "moorage.dev/v1alpha1",
        "kind": "WebhookConfiguration",
        "webhookName": world.name,
        **fields,
    }
    path = world.written({**document, "url": f"https://127.0.0.1:{main}/mutate"}, name=f"webhook-{main}.yaml")
    listen = [
        f"--listen=127.0.0.1:{main}",
        f"--metrics-listen=127.0.0.1:{metrics}",
        f"--health-listen=127.0.0.1:{health}",
    ]
    subject = await world.launcher.start(
        "webhook",
        [f"--config={path}", *listen],
        rules=rules if world.faulty else (),
        # Its own namespace is none of its business, and so must not be the run's.
        env={"POD_NAMESPACE": "kube-public"},
        urls={"metrics": f"http://127.0.0.1:{metrics}", "health": f"http://127.0.0.1:{health}", "port": str(main)},
    )
    if ready:
        await world.is_ready(subject)
    return subject


def _deployment(world: World, strategy: str, replicas: int) -> Object:
    labels = {"app": "web"}
    container = {"name": "c", "image": IMAGE, "resources": {"requests": {"cpu": "10m"}}}
    spec = {"schedulerName": world.name, "nodeSelector": {RUN: world.name}, "terminationGracePeriodSeconds": 0}
    template = {"metadata": {"labels": labels}, "spec": {**spec, "containers": [container]}}
    body = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "annotations": {KEY: strategy}},
        "spec": body,
    }


def _path(world: World) -> str:
    return f"/apis/apps/v1/namespaces/{world.name}/deployments"


async def _stage(world: World) -> None:
    world.allow(events_may_be_lost=True)
    await world.add_nodes(*(world.node(kind, labels={"node-type": kind}) for kind in ("ondemand", "spot")))
    await world.scheduler()


def _rules(world: World) -> Counter[str]:
    """How many pods were given which rule."""
    selectors = [pod["spec"].get("nodeSelector") or {} for pod in world.pods().values()]
    return Counter(selector.get("node-type", "none") for selector in selectors)


async def _splits(world: World, replicas: int) -> None:
    """The Deployment grows, and its pods are split as the strategy says."""
    ondemand, spot = targets(parse_strategy(SPLIT), replicas)
    want = Counter(ondemand=ondemand, spot=spot)
    await world.until(lambda: len(world.bound()) == replicas, 60, f"{replicas} pods are bound")
    world.claim(_rules(world) == want, f"the split is {dict(_rules(world))} instead of {dict(want)}")


async def crash_at(world: World, k: int) -> None:
    """The webhook is killed after its k-th write; the next one finds its registration and splits as it should."""
    await _stage(world)
    port = free_ports(1)[0]
    first = await _webhook(world, rules=(Rule(verb=WRITE, nth=k, act=Stop()),), ready=False, port=port)
    if world.faulty:
        await until(lambda: first.proxy.reached.is_set() or not first.child.running, 12)
        await first.kill()
        await _webhook(world, port=port)
    else:
        await first.ready()
    await world.cluster.create(_path(world), _deployment(world, SPLIT, 6))
    await _splits(world, 6)
    await _unregister(world)


async def replaced(world: World) -> None:
    """Behind a frozen view a Deployment is replaced by one of the same name: the old strategy is not applied to it."""
    await _stage(world)
    webhook = await _webhook(world)
    await world.cluster.create(_path(world), _deployment(world, SPLIT, 3))
    await _splits(world, 3)
    if world.faulty:
        webhook.proxy.freeze(VIEW)
    await world.cluster.delete(f"{_path(world)}/web")
    await world.until(lambda: not world.pods(), 60, "its pods are gone")
    await world.cluster.create(_path(world), _deployment(world, OTHER, 3))
    await world.until(lambda: len(world.bound()) == 3, 60, "the new ones are bound")
    world.claim(not _rules(world)["spot"], f"the strategy of the old Deployment was applied: {dict(_rules(world))}")
    webhook.proxy.thaw()
    late_s = time.monotonic() + CAUGHT_UP_S
    while not _rules(world)["ondemand"] and time.monotonic() < late_s:
        gone = min(world.pods())
        await world.cluster.delete(f"{world.pods_path}/{gone}")
        await world.until(lambda: gone not in world.pods() and len(world.bound()) == 3, 60, "another one is bound")  # noqa: B023
    await world.patch(f"{_path(world)}/web", {"spec": {"replicas": 6}})
    await world.until(lambda: len(world.bound()) == 6, 60, "all are bound")
    world.claim(_rules(world)["ondemand"] >= 3, f"the new strategy is not applied to all: {dict(_rules(world))}")
    world.allow(removed=frozenset(each.name for each in world.history().of("pods")))
    await _unregister(world)


async def missed(world: World) -> None:
    """While watches are down the strategy is changed and changed back, and pods are made and gone again."""
    await _stage(world)
    webhook = await _webhook(world)
    await world.cluster.create(_path(world), _deployment(world, SPLIT, 3))
    await _splits(world, 3)
    down = Rule(verb="watch|list", path=VIEW, times=FOREVER, act=Answer(503))
    if world.faulty:
        webhook.proxy.add(down)
        webhook.proxy.cut(VIEW)
        await asyncio.sleep(0.3)
    await world.patch(f"{_path(world)}/web", {"metadata": {"annotations": {KEY: OTHER}}})
    await world.patch(f"{_path(world)}/web", {"metadata": {"annotations": {KEY: SPLIT}}})
    await world.add_pods(world.pod("passing"), wanted=False)
    await world.delete_pods("passing")
    webhook.proxy.remove(down)
    # As long as it may take to hear of everything again.
    await asyncio.sleep(6.0 if world.faulty else 0.0)
    await world.patch(f"{_path(world)}/web", {"spec": {"replicas": 6}})
    await _splits(world, 6)
    await _unregister(world)


async def certificates(world: World) -> None:
    """Its certificate is replaced under 100 questions a second, half of them over connections of their own."""
    webhook = await _webhook(world, certificateLifetime="60s", certificateSpread="2s")
    bundle = partial(registered_bundle, world.plane, world.name)
    load = Load(int(webhook.urls["port"]), bundle)
    figures = await load.run(65.0, 100)
    world.limit("failed reviews", len(figures.failures), 0)
    world.breaches += figures.failures[:3]
    world.figures["reviews"] = len(figures.kept_s) + len(figures.fresh_s)
    world.claim(len(figures.serials) > 1, "the certificate was not replaced")
    await _unregister(world)


async def _unregister(world: World) -> None:
    for subject in world.launcher.all:
        if subject.name.startswith("webhook"):
            await subject.kill()
    await world.cluster.delete(f"{REGISTRATIONS}/{world.name}")


SCENARIOS = tuple(
    Scenario(name=name, row=row, story=story, calm=calm, place="controllers")
    for name, row, story, calm in (
        ("webhook:certificates", "certificates replaced under load", certificates, None),
        ("sieve:webhook:replaced", "Deployment replaced behind a frozen view", replaced, None),
        ("sieve:webhook:missed", "a strategy changed and changed back unseen", missed, "webhook-missed"),
    )
) + tuple(
    Scenario(
        name=f"sieve:webhook:crash:{k:02}",
        row=f"webhook killed after write {k}",
        story=partial(crash_at, k=k),
        calm="webhook",
        place="controllers",
    )
    for k in range(1, CRASHES + 1)
)
