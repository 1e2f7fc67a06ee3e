"""Answers to writes are lost, late, or come before the watch shows anything: no device is ever held by two claims."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from moorage.core import unanswered
from moorage.core.claims import ClaimConsumer, ResourceClaim
from moorage.core.commands import Bind, Command, PatchObject
from moorage.core.deviceindex import RESOURCE_CLAIM
from moorage.core.events import (
    BindDone,
    BindOutcome,
    Event,
    NodeSeen,
    ObjectSeen,
    PatchDone,
    PodGone,
    PodSeen,
)
from moorage.core.pods import Pod
from moorage.engine.engine import Engine
from moorage.framework.configuration import Configuration
from moorage.framework.profiles import build_profiles
from moorage.framework.registry import Registry
from moorage.plugins.builtin import BUILTIN
from moorage.testing import make_node, make_pod
from moorage.testing.devices import make_allocation, make_device_class, make_resource_claim, make_slice

ORDERS = 600
DEVICES = ("gpu-0", "gpu-1")
PODS, CLAIMS = 5, 4
"""The last pod shares the claim of the first."""
TURNS = 60
STEP_S = 0.7


class Order:
    """One order of events: what the server has, what it still has to tell, and an engine that schedules.

    A write either happens or not, and its answer either says so or is lost. After a lost answer the version of the
    claim is reported, as `adapters.kube.objects` does. Watch events come in the order of the writes, answers in any.
    """

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.engine = Engine(build_profiles(Configuration(), Registry(BUILTIN)), answers_to_all=True)
        self.claims: dict[str, ResourceClaim] = {}
        self.pods: dict[str, Pod] = {}
        self.breaches: list[str] = []
        self._version = 10
        self._now = 0.0
        self._watch: list[Event] = []
        self._orders: list[Command] = []
        self._answers: list[Event] = []
        devices = (make_device_class("gpu"), make_slice("s", node="n", devices=DEVICES))
        self._tell(NodeSeen(make_node("n")), *(ObjectSeen(type(each).__name__, each.key, each) for each in devices))

    # --- what happens ---

    def play(self) -> None:
        """Let everything happen in any order, then become calm."""
        for turn in range(TURNS):
            if turn < 2 * PODS and turn % 2 == 0:
                self._add_pod(turn // 2)
            self.rng.choice((self._serve, self._serve, self._show, self._answer, self._rest, self._trouble))()
        for _ in range(200):
            for step in (self._serve_all, self._control, self._show, self._answer, self._rest):
                step()

    def _add_pod(self, number: int) -> None:
        claim = make_resource_claim(f"c{number % CLAIMS}")
        pod = make_pod(f"p{number}", claims=(claim.name,))
        if claim.key not in self.claims:
            self._store(claim)
        self.pods[pod.uid] = pod
        self._watch.append(PodSeen(pod))

    def _trouble(self) -> None:
        """A pod goes, and the claim controller takes its devices; or somebody writes on a claim."""
        if self.rng.random() < 0.5 and self.pods:
            pod = self.pods.pop(self.rng.choice(sorted(self.pods)))
            self._watch.append(PodGone(pod.uid))
            self._control()
        elif self.claims:
            self._store(self.claims[self.rng.choice(sorted(self.claims))])

    def _control(self) -> None:
        """The claim controller takes the devices of pods that are gone."""
        for claim in [*self.claims.values()]:
            left = tuple(each for each in claim.reserved_for if each.uid in self.pods)
            if left != claim.reserved_for:
                self._store(replace(claim, reserved_for=left) if left else claim.freed())

    def _serve(self, lost: float = 0.5) -> None:
        """The server gets a write."""
        if not self._orders:
            return
        order = self._orders.pop(0)
        if isinstance(order, Bind):
            self._bind(order)
        elif isinstance(order, PatchObject):
            self._patch(order, lost)

    def _serve_all(self) -> None:
        while self._orders:
            self._serve(lost=0.0)

    def _bind(self, order: Bind) -> None:
        pod = self.pods.get(order.pod.uid)
        if pod is None:
            self._answers.append(BindDone(order.pod.uid, BindOutcome.GONE))
            return
        if not self.claims[f"default/{pod.template.claims[0]}"].reserved_for_uid(pod.uid):
            self.breaches.append(f"{pod.name} is bound without its reservation")
        self.pods[pod.uid] = bound = replace(pod, node=order.node)
        self._watch.append(PodSeen(bound))
        self._answers.append(BindDone(pod.uid, BindOutcome.BOUND, order.node))

    def _patch(self, order: PatchObject, lost: float) -> None:
        is_lost, arrives = self.rng.random() < lost, self.rng.random() < 0.7
        written = self._written(order) if arrives or not is_lost else None
        if is_lost:
            version = self.claims[f"{order.namespace}/{order.name}"].resource_version
            self._answers.append(PatchDone(order, ok=False, message="connection lost", version=version))
        else:
            self._answers.append(PatchDone(order, ok=written is not None, version=written or ""))

    def _written(self, order: PatchObject) -> str | None:
        """The version that a write makes; None if it is refused."""
        claim = self.claims[f"{order.namespace}/{order.name}"]
        if order.resource_version not in ("", claim.resource_version):
            return None
        changed = self._changed(claim, order) if "status" in order.patch else replace(claim, protected=True)
        return None if changed is None else self._store(changed)

    def _changed(self, claim: ResourceClaim, order: PatchObject) -> ResourceClaim | None:
        status = order.patch["status"]
        if "allocation" in status and status["allocation"] is None:
            return claim.freed()
        if unanswered.takes_back(order):
            kept = tuple(each for each in claim.reserved_for if each.uid != order.pod.uid)
            return replace(claim, reserved_for=kept)
        allocation = claim.allocation
        if "allocation" in status:
            told = status["allocation"]["devices"]["results"][0]["device"]
            if allocation is not None and allocation.devices[0].device != told:
                return None  # it cannot be changed once it is set
            if allocation is None:
                allocation = make_allocation(f"n/{told}")
        consumer = ClaimConsumer("pods", order.pod.name, order.pod.uid)
        return replace(claim, allocation=allocation, reserved_for=(*dict.fromkeys((*claim.reserved_for, consumer)),))

    def _store(self, claim: ResourceClaim) -> str:
        self._version += 1
        self.claims[claim.key] = stored = replace(claim, resource_version=str(self._version))
        self._watch.append(ObjectSeen(RESOURCE_CLAIM, stored.key, stored))
        held = [each.id for claim in self.claims.values() if claim.allocation for each in claim.allocation.devices]
        self.breaches += [f"{device} is held twice" for device in {*held} if held.count(device) > 1]
        return stored.resource_version

    # --- what the engine learns ---

    def _show(self) -> None:
        count = self.rng.randint(1, 3)
        shown, self._watch = self._watch[:count], self._watch[count:]
        self._tell(*shown)

    def _answer(self) -> None:
        if self._answers:
            self._tell(self._answers.pop(self.rng.randrange(len(self._answers))))

    def _rest(self) -> None:
        self._now += STEP_S
        self._tell()

    def _tell(self, *events: Event) -> None:
        commands, _ = self.engine.handle(events, self._now)
        self._orders += commands


@pytest.mark.parametrize("start", range(0, ORDERS, 100))
def test_no_device_is_held_twice_however_answers_are_lost(start: int) -> None:
    """And in the end the pods have the devices, as many as there are; nothing is still waited for."""
    for seed in range(start, start + 100):
        order = Order(seed)
        order.play()
        assert not order.breaches, f"order {seed}"
        devices = order.engine.state.devices
        served = {pod.template.claims for pod in order.pods.values() if pod.node is not None}
        waiting = {pod.template.claims for pod in order.pods.values() if pod.node is None}
        assert len(served) == min(len(served | waiting), len(DEVICES)), f"order {seed}"
        assert not served & waiting, f"order {seed}"
        assert not devices.reservations, f"order {seed}"
        assert (devices.writes.allocating, devices.writes.leaving, devices.writes.given_up) == ({}, {}, {})
