"""A pod is bound only to a node that takes it then."""

from __future__ import annotations

from tests.crossings.audit.case import Rule
from tests.crossings.audit.queues import excesses, grows, held, queue_of
from tests.crossings.audit.scene import Object, name_of, node_of, uid_of
from tests.crossings.audit.units import gang_of
from tests.crossings.audit.whatif import WhatIf

_OF_NEIGHBOURS = ("spread", "affinity", "anti-affinity", "anti-affinity of others")


class Placement(Rule):
    """Asks every rule of the pod when it gets its node. What gangs say about pods beside them is not asked, as their
    members come one by one; nor is anything where writes are late.
    """

    def changed(self, kind: str, old: Object | None, new: Object | None) -> None:
        if kind != "Pod" or new is None or not node_of(new) or old is None or node_of(old):
            return
        if self.case.late or not self.case.ours(new) or node_of(new) not in self.case.scene.nodes:
            return
        view = WhatIf(self.case.scene, frozenset({uid_of(new)}))
        refusal = self.case.fitting.refusal(view, new, node_of(new))
        if refusal in _OF_NEIGHBOURS and gang_of(self.case.scene, new):
            return
        if refusal and refusal not in ("devices", "volumes"):  # the scene has what was taken for the pod itself
            self.case.say("placement", f"{name_of(new)} is bound to {node_of(new)}: {refusal}")


class QueueBounds(Rule):
    """No queue gets beyond its limit, nor beyond its quota with fixed pods, by a pod that is bound."""

    def changed(self, kind: str, old: Object | None, new: Object | None) -> None:
        if kind != "Pod" or new is None or not node_of(new) or old is None or node_of(old):
            return
        scene = self.case.scene
        name = queue_of(scene, new)
        if not name or not self.case.ours(new) or self.case.late:
            return
        before = held(scene, [each for each in scene.standing() if uid_of(each) != uid_of(new)])
        after = held(scene, scene.standing())
        for each in excesses(scene, name, after):
            if grows(each, before, after):
                self.case.say("limit", f"{each}, with {name_of(new)}")
