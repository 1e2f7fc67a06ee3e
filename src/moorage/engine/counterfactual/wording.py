"""Suggestions in words: one sentence for each, imperative, with names and values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from moorage.core.controllers import controller_of
from moorage.core.edits import (
    POD_EDITS,
    AddAlternative,
    AddClaim,
    AddNode,
    Annotate,
    DropAnnotations,
    DropConstraint,
    DropDevices,
    DropHostPort,
    DropLabel,
    DropNodeRules,
    DropPodRule,
    DropSelector,
    DropTaint,
    DropVolume,
    Edits,
    EndJob,
    FreeClaim,
    LowerCapacity,
    LowerCount,
    LowerRequest,
    MovePod,
    OpenGates,
    RaiseBound,
    RelaxSpread,
    SetNodeLabel,
    SetSelector,
    ShrinkGang,
    Tolerate,
    TolerateDevice,
    Uncordon,
    UseScheduler,
)
from moorage.core.gangs import group_object
from moorage.core.gangtopology import TopologyMistake, topology_terms
from moorage.core.phrases import counted, joined, listed, room_made
from moorage.core.pods import Pod
from moorage.core.quantity import format_amount
from moorage.core.queues import KAI_PREEMPTIBILITY, PREEMPTIBLE_LABEL, QUEUE_LABELS, VOLCANO_QUEUE, term_text
from moorage.core.state import ClusterState
from moorage.core.times import time_text
from moorage.engine.counterfactual.scene import Fit


def sentence(state: ClusterState, pod: Pod, fit: Fit) -> str:
    """What to do, and where the pod goes then."""
    like = {edit.name: edit.like for edit in fit.edits if isinstance(edit, AddNode)}
    where = "there" if fit.node in like else f"on {fit.node}"
    if not any(isinstance(edit, Annotate) for edit in fit.edits):
        where += _domain(state, pod, like.get(fit.node, fit.node))
    where += room_made(fit.evicted)
    todo = describe(pod, fit.edits)
    todo = f"{todo[0].upper()}{todo[1:]}{_owner(state, pod, fit)}{_template(fit)}{_more(fit)}"
    return f"{todo}; it then fits {where}."


def _more(fit: Fit) -> str:
    """Why there are more new nodes than the gang needs by itself."""
    return f" ({fit.alone} would do for it alone, but others that wait need room, too)" if fit.alone else ""


def _domain(state: ClusterState, pod: Pod, node: str) -> str:
    """The domain of a node at the level that the gang of a pod stays inside; empty if there is none."""
    gang = pod.template.gang
    group = None if gang is None else group_object(state, gang)
    terms = topology_terms(state, group, [pod.template])
    if terms is None or isinstance(terms, TopologyMistake):
        return ""
    level = max((each for scope in terms.scopes if (each := scope.required) is not None), default=None)
    row = state.row_of(node)
    tree = state.topologies.tree(state, terms.levels)
    places = [] if level is None or row is None else np.flatnonzero(tree.rows == row).tolist()
    if level is None or not places:
        return ""
    return f", in {terms.levels.keys[level]} {'/'.join(tree.paths[places[0]][: level + 1])}"


def describe(pod: Pod, edits: Edits) -> str:
    """The edits as one phrase."""
    said = [_ONE[type(edit)](pod, edit) for edit in edits if not isinstance(edit, (AddNode, *_OF_REQUESTS))]
    requests: dict[str, list[str]] = {}
    for edit in edits:
        if isinstance(edit, _OF_REQUESTS):
            where = f"request {edit.request} of claim {edit.namespace}/{edit.claim}"
            requests.setdefault(where, []).append(_ONE[type(edit)](pod, edit))
    said = [*(f"{joined(changes)} in {where}" for where, changes in requests.items()), *said]
    likes = [edit.like for edit in edits if isinstance(edit, AddNode)]
    for like in dict.fromkeys(likes):
        count = likes.count(like)
        said.append(f"add one more node like {like}" if count == 1 else f"add {count} more nodes like {like}")
    return joined(said)


def _template(fit: Fit) -> str:
    """Claims that are made from a template are changed there."""
    names = [each["metadata"]["name"] for each in fit.changed.documents if each["kind"] == "ResourceClaimTemplate"]
    return f" (in ResourceClaimTemplate {listed(names)})" if names else ""


def _owner(state: ClusterState, pod: Pod, fit: Fit) -> str:
    """Pods that a controller makes are changed where they come from."""
    controller = controller_of(state, pod.template)
    if controller is None or not any(isinstance(edit, POD_EDITS) for edit in fit.edits):
        return ""
    return f" (in the pod template of {controller.kind} {controller.name})"


def _lower(pod: Pod, edit: LowerRequest) -> str:
    before = format_amount(edit.resource, pod.template.requests.get(edit.resource))
    if not edit.amount:
        return f"request no {edit.resource} instead of {before}"
    return f"lower the {edit.resource} request from {before} to {format_amount(edit.resource, edit.amount)}"


def _node_rules(pod: Pod, edit: DropNodeRules) -> str:
    if edit.term is None:
        return "drop the required node affinity"
    several = pod.template.node_affinity is not None and len(pod.template.node_affinity.required or ()) > 1
    which = f" in term {edit.term + 1}" if several else ""
    return f"drop the node affinity's requirement on {listed(edit.keys)}{which}"


def _pod_rule(pod: Pod, edit: DropPodRule) -> str:
    affinity = pod.template.pod_anti_affinity if edit.anti else pod.template.pod_affinity
    title = "pod anti-affinity" if edit.anti else "pod affinity"
    if affinity is None or edit.index >= len(affinity.required):
        return f"drop the required {title}"
    return f"drop the required {title} (term {edit.index + 1}, {affinity.required[edit.index].topology_key})"


def _spread(pod: Pod, edit: RelaxSpread) -> str:
    constraint = pod.template.spread[edit.index]
    where = f"the spread over {constraint.topology_key}"
    if edit.max_skew is not None:
        return f"raise maxSkew of {where} from {constraint.max_skew} to {edit.max_skew}"
    if edit.min_domains is not None:
        return f"lower minDomains of {where} from {constraint.min_domains} to {edit.min_domains}"
    return f"make {where} a preference (whenUnsatisfiable: ScheduleAnyway)"


def _volume(_: Pod, edit: DropVolume) -> str:
    volume = edit.volume
    if volume.claim is not None:
        return f"drop the volume of claim {volume.claim}"
    return f"drop the volume {volume.disk[1] if volume.disk is not None else volume.csi_driver}"


def _label(_: Pod, edit: SetNodeLabel) -> str:
    if edit.value is None:
        return f"remove the label {edit.key} from node {edit.node}"
    return f"label node {edit.node} with {edit.key}={edit.value}"


def _annotate(_: Pod, edit: Annotate) -> str:
    title = f"{edit.kind} {edit.namespace}/{edit.name}"
    if edit.value is None:
        return f"remove the annotation {edit.key} from {title}"
    return f"annotate {title} with {edit.key}={edit.value}"


def _gates(pod: Pod, _: OpenGates) -> str:
    return f"remove the scheduling gate{'' if len(pod.gates) == 1 else 's'} {listed(pod.gates)}"


def _shrink(_: Pod, edit: ShrinkGang) -> str:
    members = counted(edit.min_count, "member")
    return f"let {members} of pod group {edit.namespace}/{edit.name} be enough"


def _raise(_: Pod, edit: RaiseBound) -> str:
    before, after = (term_text(edit.bound, edit.resource, amount) for amount in (edit.before, edit.amount))
    of = "for " if edit.bound == "weight" else ""
    what = "" if edit.bound == "weight" and edit.kind == VOLCANO_QUEUE else f" {of}{edit.resource}"
    return f"raise the {edit.bound} of queue {edit.queue} from {before} to {after}{what}"


def _end(_: Pod, edit: EndJob) -> str:
    by = "" if edit.ends_s is None else f", {time_text(edit.ends_s)} at the latest"
    return f"wait until {edit.title} has ended{by}"


def _drop_label(_: Pod, edit: DropLabel) -> str:
    if edit.key in QUEUE_LABELS:
        return f"remove the pod's label {edit.key}, by which it names its queue"
    if edit.key in (PREEMPTIBLE_LABEL, KAI_PREEMPTIBILITY):
        return f"let the pod be evicted for other queues, without its label {edit.key}"
    return f"remove the pod's label {edit.key}, which rules about it select"


def _free(_: Pod, edit: FreeClaim) -> str:
    pods = listed([f"{edit.namespace}/{name}" for name in edit.pods]) or "no pod"
    return f"free {listed(edit.devices)} (held by claim {edit.namespace}/{edit.claim} for {pods})"


_OF_REQUESTS = (SetSelector, TolerateDevice, LowerCount, LowerCapacity, AddAlternative)
"""What changes a request for devices."""
_ONE: dict[type, Callable[[Pod, Any], str]] = {
    LowerRequest: _lower,
    Tolerate: lambda _, edit: f"tolerate the taint {edit.taint}",
    DropSelector: lambda pod, edit: f"drop {edit.key}={pod.template.node_selector.get(edit.key)} from the nodeSelector",
    DropNodeRules: _node_rules,
    DropPodRule: _pod_rule,
    RelaxSpread: _spread,
    DropHostPort: lambda _, edit: f"give up the host port {edit.port.port}/{edit.port.protocol}",
    DropLabel: _drop_label,
    DropVolume: _volume,
    DropDevices: lambda _, __: "drop the pod's resource claims",
    OpenGates: _gates,
    UseScheduler: lambda _, edit: f"set schedulerName to {edit.name}",
    DropAnnotations: lambda _, edit: f"remove the annotation {listed(edit.keys)}",
    Uncordon: lambda _, edit: f"uncordon node {edit.node}",
    DropTaint: lambda _, edit: f"remove the taint {edit.taint} from node {edit.node}",
    SetNodeLabel: _label,
    MovePod: lambda _, edit: f"move pod {edit.namespace}/{edit.name} from {edit.node} to {edit.to_node}",
    Annotate: _annotate,
    AddClaim: lambda _, edit: (
        f"create PersistentVolumeClaim {edit.namespace}/{edit.name} in class {edit.storage_class}"
    ),
    ShrinkGang: _shrink,
    RaiseBound: _raise,
    EndJob: _end,
    SetSelector: lambda _, edit: edit.gist,
    TolerateDevice: lambda _, edit: f"tolerate the taint {edit.taint} of devices",
    LowerCount: lambda _, edit: f"ask for {counted(edit.count, 'device')}",
    LowerCapacity: lambda _, edit: f"ask for {edit.amount} of {edit.capacity}",
    AddAlternative: lambda _, edit: f"accept devices of class {edit.device_class}, too,",
    DropConstraint: lambda _, edit: f"drop {edit.text} from claim {edit.namespace}/{edit.claim}",
    FreeClaim: _free,
}
