"""Worlds on the real API server with its controllers and `moorage scheduler`, judged by the same auditor.

Only capabilities that need nothing else than these are used. Deeds follow each other in seconds instead of minutes. The
auditor hears what the API server shows; evictions and whom they are for are read from conditions and events.
"""

from __future__ import annotations

import json
import re
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from moorage.bench.controlplane import ControlPlane
from moorage.bench.kubelet import kubelet_thread
from tests.app.scheduling import scheduler
from tests.crossings.audit.auditor import Auditor
from tests.crossings.audit.fitting import fits
from tests.crossings.audit.orders import Order, Verb
from tests.crossings.audit.scene import condition, is_leaving, name_of, uid_of
from tests.crossings.bodies import NAMESPACE, Body
from tests.crossings.covering import capabilities_of
from tests.crossings.making import make_world
from tests.crossings.realserver import CONTROLLERS, PLANE, RealServer, Shown
from tests.crossings.world import World
from tests.gangs.declarations import crd_objects

ROOT = Path(__file__).parents[2]
ELSEWHERE = {
    "extenders": "needs an HTTP server",
    "failing writes": "needs a proxy",
    "late writes": "needs a proxy",
    "late budgets": "needs a proxy",
    "jobs": "the virtual kubelet ends no pods",
    "provisioned volumes": "needs a provisioner",
    "lost nodes": "the controller of lost pods takes minutes",
    "KAI gangs": "needs the CRD of KAI",
    "Volcano gangs": "needs the CRD of Volcano",
    "idle claims": "the claim controller frees them at once",
    "repacking": "needs a keeper, and minutes",
    "spot placement": "needs a keeper, and minutes",
    "placement strategies": "needs a keeper, and minutes",
}
"""Capabilities that are left out -> why."""
GAP_S, QUIET_S, PATIENCE_S = 3.0, 12.0, 90.0
_PREEMPTED = re.compile(r"Preempted by pod (\S+) on node")


def real_world(seed: int, number: int) -> World:
    """A world as the real API server can have it."""
    names = [each for each in capabilities_of(seed, number) if each not in ELSEWHERE]
    world = make_world(seed, number, names)
    text = json.dumps([world.objects, world.script])
    text = text.replace('"terminationGracePeriodSeconds": 30', '"terminationGracePeriodSeconds": 1')
    objects, script = json.loads(text)
    return replace(world, name=f"{world.name}-real", objects=objects, script=script)


class RealStage:
    """One world on its way."""

    def __init__(self, server: RealServer, world: World) -> None:
        self._server, self._world = server, world
        self.auditor = Auditor(world.configuration, late=True)
        self._held: list[Shown] = []
        self._changed_s = time.monotonic()

    def begin(self) -> None:
        """What is there before the scheduler."""
        self._look()
        for each in sorted(self._world.objects, key=lambda each: each["kind"] != "Namespace"):
            self._server.create(each)
        self._look()

    def play(self) -> Auditor:
        """The script, at a walk, and the rest."""
        before_s = 0.0
        for deed in self._world.script:
            self._pass(min(deed["at"] - before_s, GAP_S))
            before_s = deed["at"]
            self._perform(deed)
            self.auditor.disturbed(deed["do"])
        ends_s = time.monotonic() + PATIENCE_S
        while time.monotonic() < min(self._changed_s + QUIET_S, ends_s):
            self._look()
        self._look()
        self.auditor.looked(time.time())
        self._pass(QUIET_S)
        self.auditor.rested(time.time())
        return self.auditor

    def _pass(self, duration_s: float) -> None:
        ends_s = time.monotonic() + duration_s
        while time.monotonic() < ends_s:
            self._look()

    def _perform(self, deed: Body) -> None:
        match deed["do"]:
            case "create":
                self._server.create(deed["object"])
            case "delete":
                self._server.delete(deed["kind"], deed.get("namespace", ""), deed["name"])
            case "patch":
                self._server.patch(deed)
            case "status":
                self._server.patch(deed, "/status")
            case "delete pods":
                pods = [each for each in self._server.listed("Pod") if _app(each) == deed["app"]]
                for each in pods[: deed["count"]]:
                    self._server.delete("Pod", each["metadata"]["namespace"], each["metadata"]["name"])
            case "place":
                self._place(deed["name"])

    def _place(self, name: str) -> None:
        self._look()
        pod = self.auditor.scene.of("Pod").get((NAMESPACE, name))
        if pod is None:
            return
        for node in sorted(self.auditor.scene.nodes):
            if not fits(self.auditor.scene, pod, node):
                self._server.bind(NAMESPACE, name, node)
                return

    # --- what is seen ---

    def _look(self) -> None:
        """Hear what has happened. Evictions are told a moment later, when events say whom they are for."""
        fresh = self._server.changes()
        told, self._held = self._held, fresh
        claimants = dict(_claimants([*told, *fresh]))
        for each in told:
            self._tell(each, claimants)

    def _tell(self, shown: Shown, claimants: dict[str, str]) -> None:
        now_s = float(shown.version)
        if shown.kind == "Event":
            return
        if shown.kind == "Pod":
            self._changed_s = time.monotonic()
            order = self._eviction(shown, claimants)
            if order is not None:
                self.auditor.ordered([order], now_s)
        self.auditor.changed(shown.kind, shown.old, shown.new, now_s)

    def _eviction(self, shown: Shown, claimants: dict[str, str]) -> Order | None:
        """What the scheduler ordered, if the change shows a pod that is evicted."""
        pod = shown.new if shown.new is not None else shown.old
        before = self.auditor.scene.pods.get(uid_of(pod or {}))
        if pod is None or before is None or is_leaving(before) or (shown.new is not None and not is_leaving(pod)):
            return None
        why, uid = condition(pod, "DisruptionTarget"), uid_of(pod)
        if not why:
            return None
        about = {"reason": why.get("reason", ""), "message": why.get("message", "")}
        return Order(Verb.EVICT, uid, name_of(pod), **about, claimant=claimants.get(uid, ""))


def _claimants(shown: Sequence[Shown]) -> Iterator[tuple[str, str]]:
    """(victim, claimant) of every event about an eviction."""
    for each in shown:
        if each.kind == "Event" and each.new is not None:
            found = _PREEMPTED.match(each.new.get("note") or "")
            if found:
                yield (each.new.get("regarding") or {}).get("uid", ""), found[1]


def _app(pod: Body) -> Any:
    return (pod["metadata"].get("labels") or {}).get("app")


@contextmanager
def real_server() -> Iterator[RealServer]:
    """An API server with the kinds of our worlds and their controllers."""
    with ExitStack() as stack:
        plane = stack.enter_context(ControlPlane.start(PLANE))
        for name in ("queues", "topologies"):
            crd = yaml.safe_load((ROOT / f"deploy/crds/{name}.yaml").read_text())
            _made(plane, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
        for path, obj in crd_objects("system:kube-scheduler"):
            _made(plane, path, obj)
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
        user = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "system:kube-scheduler"}
        binding = {"metadata": {"name": "crossings"}, "roleRef": role, "subjects": [user]}
        _made(plane, "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding)
        plane.start_controller_manager(f"--controllers={CONTROLLERS}")
        stack.enter_context(kubelet_thread(plane.admin_kubeconfig, adopt_all=True))
        server = RealServer(plane)
        while plane.request("GET", "/apis/moorage.dev/v1alpha1/queues").status != 200:
            time.sleep(0.2)
        yield server


def _made(plane: ControlPlane, path: str, obj: Body) -> None:
    answer = plane.request("POST", path, obj)
    assert answer.status in (201, 409), answer.content


def judge(server: RealServer, world: World) -> Auditor:
    """Play a world; everything is gone afterwards."""
    stage = RealStage(server, world)
    stage.begin()
    with tempfile.TemporaryDirectory(prefix="moorage-crossings-") as folder:
        config = Path(folder) / "config.yaml"
        config.write_text(yaml.safe_dump_all(world.configuration))
        with scheduler(server.plane, Path(folder) / "log", "--config", str(config)):
            try:
                return stage.play()
            finally:
                while server.clear():
                    time.sleep(0.5)
