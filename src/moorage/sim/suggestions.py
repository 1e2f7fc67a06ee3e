"""What would let a pod of some files fit: looked for on the cluster as it starts, checked by simulating again.

A pod that a controller of the files makes is changed in the controller's template, and the others that come from it
change with it. Every suggestion is put into the input and simulated before it is shown, as long as that is affordable;
of a large cluster what was proven inside a statement counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import replace
from typing import Any

from moorage.adapters.memory.cluster import EmbeddedCluster
from moorage.adapters.memory.controllers.lineage import Lineage
from moorage.adapters.memory.devices import POD_CLAIM_NAME
from moorage.adapters.memory.objects import controller_of, metadata_of, spec_of, status_of
from moorage.core.deviceindex import RESOURCE_CLAIM
from moorage.core.edits import Changed, ClaimEdit, DropLabel, PodEdit
from moorage.core.events import Event, PodSeen
from moorage.core.pods import Pod
from moorage.core.values import dataclass
from moorage.engine.counterfactual import Suggestion, suggest
from moorage.engine.engine import Engine
from moorage.sim.inputs import TEMPLATE_PATHS, ClusterInput
from moorage.sim.simulation import SimulationError, SimulationRules, simulate
from moorage.wire.kinds import find_kind
from moorage.wire.manifests import DEFAULT_NAMESPACE
from moorage.wire.podrewriting import RewriteError
from moorage.wire.rewriting import Rewriter, changed_claim, decoded_claim, decoded_pod, plans_of, rewritten

AFFORDABLE = 6_000
"""So many objects are simulated again to check suggestions."""
_FIXED_COST = 50

Identity = tuple[str, str, str]


def suggestions_from_files(
    given: ClusterInput,
    rules: SimulationRules,
    cluster: EmbeddedCluster,
    world: Iterable[Event],
    pod: Pod,
    *,
    affordable: int = AFFORDABLE,
) -> tuple[tuple[Suggestion, ...], tuple[str, ...]]:
    """What would let a waiting pod fit, and what raised meanwhile; `world` is the cluster as it starts, with this pod.

    At most `affordable` objects are simulated again to check it.
    """
    events = list(world)
    engine = Engine(rules.profiles, rules.settings, answers_to_all=rules.answers_to_all)
    engine.handle(events, cluster.now_s, budget=0)
    waiting = [event.pod for event in events if isinstance(event, PodSeen) and event.pod.node is None]
    rewriter = FileRewriter(given, cluster, waiting)
    accept = _Check(given, rules, pod.key, affordable).accepts
    return suggest(engine, pod, cluster.now_s, rewriter, accept=accept), tuple(engine.faults.take())


@dataclass(slots=True)
class _Check:
    """Simulates the input with a suggestion put in."""

    given: ClusterInput
    rules: SimulationRules
    key: str
    left: int

    def accepts(self, suggestion: Suggestion) -> bool:
        self.left -= len(self.given.objects) + _FIXED_COST
        if self.left < 0:
            return True
        try:
            outcome = simulate(replaced(self.given, suggestion.objects), self.rules)
        except SimulationError:
            return False
        return any(story.key == self.key and story.node is not None for story in outcome.pods)


def replaced(given: ClusterInput, objects: Iterable[Mapping[str, Any]]) -> ClusterInput:
    """The input with these objects in place of those of the same identity, or added."""
    by_identity = {_identity(body): body for body in given.objects}
    by_identity |= {_identity(body): dict(body) for body in objects}
    return replace(given, objects=list(by_identity.values()))


class FileRewriter(Rewriter):
    """Knows the objects of the files, what the cluster made of them, and the pods that controllers made."""

    def __init__(self, given: ClusterInput, cluster: EmbeddedCluster, waiting: Iterable[Pod]) -> None:
        by_identity = {_identity(body): body for body in given.objects}
        super().__init__(lambda *identity: by_identity.get(identity), cluster.store.find)
        self._cluster = cluster
        self._lineage = Lineage(cluster.store)
        self._waiting = list(waiting)

    def rewrite(self, pod: Pod, edits: list[PodEdit], changed: Changed) -> None:
        """Change the pod where it is written down: itself, or the template that it comes from."""
        if self._raw("Pod", pod.namespace, pod.name) is not None:
            super().rewrite(pod, edits, changed)
            return
        stored = self._stored("Pod", pod.namespace, pod.name)
        owner = None if stored is None else self._lineage.workload(stored)
        if stored is None or owner is None or any(isinstance(edit, DropLabel) for edit in edits):
            raise RewriteError("the controller of the pod is not known")
        given = self._raw(owner["kind"], pod.namespace, owner["metadata"]["name"])
        if given is None:
            raise RewriteError("the controller of the pod is not in the input")
        plans = plans_of(dict(stored), edits)
        document = deepcopy(dict(given))
        holder, field = _template_holder(document)
        holder[field] = rewritten(holder[field], pod.name, edits, plans)
        changed.documents.append(document)
        own = decoded_pod(pod, rewritten(stored, pod.name, edits, plans))
        for kin in self._kin(pod):
            body = self._stored("Pod", kin.namespace, kin.name)
            if kin.template == pod.template:
                alike = replace(kin, template=own.template, requests=own.requests, gates=own.gates)
                changed.waiting.append(alike)
            elif body is not None:
                changed.waiting.append(decoded_pod(kin, rewritten(body, kin.name, edits, plans)))

    def rewrite_claim(self, namespace: str, name: str, edits: list[ClaimEdit], changed: Changed) -> None:
        """Change the claim where it is written down: itself, or the template that it was made from."""
        stored = self._stored(RESOURCE_CLAIM, namespace, name)
        template = None if stored is None else self._template_of(namespace, stored)
        if template is None or self._raw(RESOURCE_CLAIM, namespace, name) is not None:
            super().rewrite_claim(namespace, name, edits, changed)
            return
        document = deepcopy(dict(template))
        document["spec"] = changed_claim(document.get("spec") or {}, edits)
        changed.documents.append(document)
        for each in self._cluster.store.list(RESOURCE_CLAIM, namespace):
            known = self._raw(RESOURCE_CLAIM, namespace, each["metadata"]["name"])
            if known is None and self._template_of(namespace, each) is template and not status_of(each):
                changed.objects.append(decoded_claim(changed_claim(dict(each), edits)))

    def _template_of(self, namespace: str, claim: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """The ResourceClaimTemplate of the files that a claim was made from."""
        owner = controller_of(claim)
        pod = None if owner is None else self._stored("Pod", namespace, str(owner.get("name")))
        for entry in () if pod is None else spec_of(pod).get("resourceClaims") or ():
            name = (metadata_of(claim).get("annotations") or {}).get(POD_CLAIM_NAME)
            if entry.get("name") == name and entry.get("resourceClaimTemplateName"):
                return self._raw("ResourceClaimTemplate", namespace, entry["resourceClaimTemplateName"])
        return None

    def _kin(self, pod: Pod) -> list[Pod]:
        """The waiting pods of the same template, this one included."""
        owner = pod.template.owner
        return [
            each
            for each in self._waiting
            if each.namespace == pod.namespace
            and each.template.owner == owner
            and self._raw("Pod", each.namespace, each.name) is None
        ]


def _template_holder(document: dict[str, Any]) -> tuple[dict[str, Any], str]:
    path = TEMPLATE_PATHS.get(str(document.get("kind")))
    if path is None:
        raise RewriteError("this kind has no pod template")
    *steps, last = path.split(".")
    holder = document
    for step in steps:
        holder = holder.get(step) or {}
    if last not in holder:
        raise RewriteError("there is no pod template")
    return holder, last


def _identity(body: Mapping[str, Any]) -> Identity:
    metadata = body.get("metadata") or {}
    kind = find_kind(str(body.get("apiVersion")), str(body.get("kind")))
    namespace = (metadata.get("namespace") or DEFAULT_NAMESPACE) if kind is not None and kind.namespaced else ""
    return str(body.get("kind")), namespace, str(metadata.get("name"))
