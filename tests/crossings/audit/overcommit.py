"""Nothing is given twice: amounts, pods per node, host ports, devices, shares of GPUs, volumes; each pod once."""

from __future__ import annotations

from collections import Counter

from tests.crossings.audit.case import Rule
from tests.crossings.audit.devices import CLAIM, results, users
from tests.crossings.audit.fractions import WHOLE, loads
from tests.crossings.audit.neighbours import ports
from tests.crossings.audit.scene import Object, is_leaving, name_of, node_of, notes, offered, requests, uid_of
from tests.crossings.audit.volumes import PV, PVC, claim_names, reaches
from tests.crossings.audit.whatif import WhatIf

RULE = "overcommitted"


class Overcommit(Rule):
    """Looked at whenever a pod gets a node or a claim its devices."""

    def changed(self, kind: str, old: Object | None, new: Object | None) -> None:
        if new is None:
            return
        if kind == CLAIM and results(new) and (old is None or results(old) != results(new)):
            self._devices(new)
        if kind == "Pod" and node_of(new) and (old is None or not node_of(old)):
            self._bound(new)

    def _bound(self, pod: Object) -> None:
        scene, name = self.case.scene, node_of(pod)
        if not self.case.ours(pod):
            return
        node = scene.nodes.get(name)
        if node is None:
            if not self.case.late:
                self.case.say("placement", f"{name_of(pod)} is bound to {name}, which is not there")
            return
        has, pods = offered(node), list(scene.on(name))
        used: Counter[str] = Counter()
        for each in pods:
            used.update(requests(each))
        if len(pods) * 1000 > has.get("pods", 0):
            self.case.say(RULE, f"{name} has {len(pods)} pods of {has.get('pods', 0) // 1000}")
        for resource in requests(pod):
            if resource in has and used[resource] > has[resource]:
                self.case.say(RULE, f"{name} has {used[resource]}m of {has[resource]}m {resource} in use")
        others = [each for each in pods if uid_of(each) != uid_of(pod)]
        for port in ports(pod):
            if any(port in ports(other) for other in others):
                self.case.say(RULE, f"port {port[1]} of {name} is used twice, by {name_of(pod)}")
        self._gpus(pod, name)
        self._volumes(pod, node)

    def _gpus(self, pod: Object, node: str) -> None:
        if not self.case.terms.shares_gpus:
            return
        given = self.case.fitting.given
        load = loads(WhatIf(self.case.scene), node, given, guess=False)
        for index in given.get(uid_of(pod), ()):
            if index >= len(load):
                self.case.say(RULE, f"{name_of(pod)} has GPU {index} of {node}, which has {len(load)}")
            elif load[index] > WHOLE:
                self.case.say(RULE, f"GPU {index} of {node} is given {load[index]} of {WHOLE} thousandths")

    def _volumes(self, pod: Object, node: Object) -> None:
        scene = self.case.scene
        for name in claim_names(pod):
            claim = scene.of(PVC).get((pod["metadata"]["namespace"], name)) or {}
            volume = scene.of(PV).get(("", (claim.get("spec") or {}).get("volumeName") or ""))
            if volume is None:
                self.case.say("placement", f"{name_of(pod)} is bound, its volume claim {name} is not")
            elif not reaches(volume, node):
                self.case.say("placement", f"{name_of(pod)} is on {node_of(pod)}, its volume is not")
            elif (volume["spec"].get("claimRef") or {}).get("uid") != uid_of(claim):
                self.case.say(RULE, f"volume {volume['metadata']['name']} has two claims")

    def _devices(self, claim: Object) -> None:
        mine = set(results(claim))
        for other in self.case.scene.of(CLAIM).values():
            if uid_of(other) != uid_of(claim) and mine & set(results(other)):
                twice = min(mine & set(results(other)))
                self.case.say(RULE, f"device {twice[1]}/{twice[2]} has two claims")


class GivenDevices(Rule):
    """Notes which GPUs the scheduler gave to a pod; what tenants write later does not count."""

    def changed(self, kind: str, old: Object | None, new: Object | None) -> None:
        if kind != "Pod":
            return
        given = self.case.fitting.given
        if new is None:
            given.pop(uid_of(old or {}), None)
        elif node_of(new) and (old is None or not node_of(old)) and self.case.ours(new):
            text = notes(new).get("moorage.dev/devices")
            if text is not None:
                given[uid_of(new)] = [int(each) for each in text.split(",") if each.strip().isdigit()]


class ClaimUsers(Rule):
    """At rest, every pod on a node has its claims, and they are reserved for it."""

    def rested(self) -> None:
        scene = self.case.scene
        for claim in scene.of(CLAIM).values():
            for uid in users(scene, claim):
                pod = scene.pods[uid]
                if node_of(pod) and not results(claim) and not is_leaving(pod):
                    self.case.say(RULE, f"{name_of(pod)} runs without the devices of {name_of(claim)}")
