"""The parts of a pod that say where it wants to be: affinity, spread and tolerations become core values."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import takewhile

import msgspec

from moorage.core.affinity import (
    NodeAffinity,
    PodAffinity,
    PodTerm,
    PreferredNodeTerm,
    PreferredPodTerm,
    SpreadConstraint,
)
from moorage.core.limits import NODE_TERMS, SPREAD_CONSTRAINTS, TOLERATIONS, Cutter
from moorage.core.taints import Toleration
from moorage.wire.errors import FieldError, decode_part
from moorage.wire.podspec import (
    AffinityWire,
    NodeAffinityWire,
    PodAffinityWire,
    PodTermWire,
    SpreadWire,
    TolerationWire,
)
from moorage.wire.selectors import label_selector, merge_label_keys, node_term, node_terms

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_AFFINITY = msgspec.json.Decoder(AffinityWire | None)
_SPREAD = msgspec.json.Decoder(list[SpreadWire] | None)
_TOLERATIONS = msgspec.json.Decoder(list[TolerationWire] | None)
_ACTIONS = {"DoNotSchedule": True, "ScheduleAnyway": False}
_POLICIES = {"Honor": True, "Ignore": False}

Affinities = tuple[NodeAffinity | None, PodAffinity | None, PodAffinity | None]


def parse_affinity(part: bytes, cutter: Cutter, path: str = "spec.affinity") -> Affinities:
    """Node affinity, pod affinity and pod anti-affinity; each None where it says nothing."""
    wire: AffinityWire | None = decode_part(_AFFINITY, part, path) if part else None
    if wire is None:
        return None, None, None
    return (
        _node_affinity(wire.node_affinity, f"{path}.nodeAffinity", cutter),
        _pod_affinity(wire.pod_affinity, f"{path}.podAffinity", cutter),
        _pod_affinity(wire.pod_anti_affinity, f"{path}.podAntiAffinity", cutter),
    )


def _node_affinity(wire: NodeAffinityWire | None, path: str, cutter: Cutter) -> NodeAffinity | None:
    if wire is None or (wire.required is None and not wire.preferred):
        return None
    preferred = cutter.cut(wire.preferred, NODE_TERMS, f"{path}.{_PREFERRED}")
    return NodeAffinity(
        None if wire.required is None else node_terms(wire.required, f"{path}.{_REQUIRED}", cutter),
        tuple(
            PreferredNodeTerm(
                each.weight, node_term(each.preference, f"{path}.{_PREFERRED}[{index}].preference", cutter)
            )
            for index, each in enumerate(preferred)
        ),
    )


def _pod_affinity(wire: PodAffinityWire | None, path: str, cutter: Cutter) -> PodAffinity | None:
    if wire is None or not (wire.required or wire.preferred):
        return None
    required = cutter.terms(wire.required, f"{path}.{_REQUIRED}")
    preferred = cutter.terms(wire.preferred, f"{path}.{_PREFERRED}")
    return PodAffinity(
        tuple(_pod_term(each, f"{path}.{_REQUIRED}[{index}]", cutter) for index, each in enumerate(required)),
        tuple(
            PreferredPodTerm(
                each.weight, _pod_term(each.pod_affinity_term, f"{path}.{_PREFERRED}[{index}].podAffinityTerm", cutter)
            )
            for index, each in enumerate(preferred)
        ),
    )


def _pod_term(wire: PodTermWire, path: str, cutter: Cutter) -> PodTerm:
    """The term as it stands: the API server has merged matchLabelKeys and mismatchLabelKeys into the selector."""
    if not wire.topology_key:
        raise FieldError(f"{path}.topologyKey", "", "is empty", "name a label of the nodes")
    namespaces = wire.namespace_selector
    return PodTerm(
        label_selector(wire.label_selector, f"{path}.labelSelector", cutter),
        wire.topology_key,
        tuple(sorted(set(takewhile(lambda _: cutter.part(0, f"{path}.namespaces"), wire.namespaces or ())))),
        None if namespaces is None else label_selector(namespaces, f"{path}.namespaceSelector", cutter),
    )


def parse_spread(
    part: bytes, labels: Mapping[str, str], cutter: Cutter, path: str = "spec.topologySpreadConstraints"
) -> tuple[SpreadConstraint, ...]:
    """The topology spread constraints of a pod with these labels."""
    wires: list[SpreadWire] | None = decode_part(_SPREAD, part, path) if part else None
    counted = cutter.cut(wires, SPREAD_CONSTRAINTS, path)
    return tuple(_constraint(wire, labels, f"{path}[{index}]", cutter) for index, wire in enumerate(counted))


def _constraint(wire: SpreadWire, labels: Mapping[str, str], path: str, cutter: Cutter) -> SpreadConstraint:
    if wire.max_skew < 1:
        raise FieldError(f"{path}.maxSkew", wire.max_skew, "is below 1", "write 1 or more")
    selector = label_selector(wire.label_selector, f"{path}.labelSelector", cutter)
    return SpreadConstraint(
        max_skew=wire.max_skew,
        topology_key=wire.topology_key,
        hard=_choice(_ACTIONS, wire.when_unsatisfiable, f"{path}.whenUnsatisfiable"),
        selector=merge_label_keys(selector, wire.match_label_keys or (), labels),
        min_domains=wire.min_domains or 1,
        honor_node_affinity=_choice(_POLICIES, wire.node_affinity_policy or "Honor", f"{path}.nodeAffinityPolicy"),
        honor_node_taints=_choice(_POLICIES, wire.node_taints_policy or "Ignore", f"{path}.nodeTaintsPolicy"),
    )


def _choice(choices: Mapping[str, bool], text: str, path: str) -> bool:
    try:
        return choices[text]
    except KeyError:
        raise FieldError(path, text, "is unknown", f"write one of {', '.join(choices)}") from None


def parse_tolerations(part: bytes, cutter: Cutter, path: str = "spec.tolerations") -> tuple[Toleration, ...]:
    """The tolerations of a pod."""
    wires: list[TolerationWire] | None = decode_part(_TOLERATIONS, part, path) if part else None
    return tuple(
        Toleration(wire.key or "", wire.operator or "Equal", wire.value or "", wire.effect or "")
        for wire in cutter.cut(wires, TOLERATIONS, path)
    )
