"""Topologies, HyperNodes and topology constraints: JSON and annotations become the values of `core.topology`."""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from moorage.core.limits import HYPER_NODE_MEMBERS, PATTERN_CHARS, SLICE_LAYERS, SUB_GROUPS, TOPOLOGY_LEVELS
from moorage.core.topology import HyperNode, NodeMatch, Topology, tier_level
from moorage.core.topologyasks import NOTHING_ASKED, TOPOLOGY_REQUIRED, Objective, SliceAsk, SubGroup, TopologyAsk
from moorage.wire.errors import REFUSALS, FieldError
from moorage.wire.metadata import Int32Wire, MetadataWire, frozen_map
from moorage.wire.whole import whole

_KUEUE, _KAI = "kueue.x-k8s.io/", "kai.scheduler/"
_TOPOLOGY = ("moorage.dev/topology", f"{_KAI}topology")
_REQUIRED = (TOPOLOGY_REQUIRED, f"{_KUEUE}podset-required-topology", f"{_KAI}topology-required-placement")
_PREFERRED = (
    "moorage.dev/topology-preferred",
    f"{_KUEUE}podset-preferred-topology",
    f"{_KAI}topology-preferred-placement",
)
_UNCONSTRAINED = ("moorage.dev/topology-unconstrained", f"{_KUEUE}podset-unconstrained-topology")
_SLICE_LEVEL = (
    "moorage.dev/topology-slice-required",
    f"{_KUEUE}podset-slice-required-topology",
    f"{_KAI}segment-topology-required-placement",
)
_SEGMENT_PREFERRED = f"{_KAI}segment-topology-preferred-placement"
_SLICE_SIZE = ("moorage.dev/topology-slice-size", f"{_KUEUE}podset-slice-size", f"{_KAI}segment-size")
_SLICES = ("moorage.dev/topology-slices", f"{_KUEUE}podset-slice-required-topology-constraints")
_SHARES = ("moorage.dev/topology-group", f"{_KUEUE}podset-group-name")
_OBJECTIVE = ("moorage.dev/topology-objective",)
SUBGROUPS = "moorage.dev/subgroups"
KEYS = frozenset((
    *_TOPOLOGY, *_REQUIRED, *_PREFERRED, *_UNCONSTRAINED, *_SLICE_LEVEL, *_SLICE_SIZE, *_SLICES, *_SHARES, *_OBJECTIVE,
    _SEGMENT_PREFERRED,
))  # fmt: skip
"""The annotations that say something about levels."""
_MOST_MEMBERS = 1_000_000
_REPEATS = 3


class LevelWire(msgspec.Struct, gc=False, rename="camel"):
    """A level of Kueue's or KAI's Topology."""

    node_label: str = ""


class TopologySpecWire(msgspec.Struct, gc=False):
    """The spec of a Topology."""

    levels: list[str | LevelWire] | None = None


class TopologyWire(msgspec.Struct, gc=False):
    """A Topology, ours, Kueue's or KAI's."""

    metadata: MetadataWire
    spec: TopologySpecWire | None = None


class ExactNameWire(msgspec.Struct, gc=False):
    """A selector by name."""

    name: str = ""


class PatternWire(msgspec.Struct, gc=False):
    """A selector by a pattern of names."""

    pattern: str = ""


class LabelMatchWire(msgspec.Struct, gc=False, rename="camel"):
    """A selector by labels."""

    match_labels: dict[str, str] | None = None


class MemberSelectorWire(msgspec.Struct, gc=False, rename="camel"):
    """spec.members[].selector of a HyperNode."""

    exact_match: ExactNameWire | None = None
    regex_match: PatternWire | None = None
    label_match: LabelMatchWire | None = None


class MemberWire(msgspec.Struct, gc=False):
    """spec.members[] of a HyperNode."""

    type: str = "Node"
    selector: MemberSelectorWire | None = None


class HyperNodeSpecWire(msgspec.Struct, gc=False, rename="camel"):
    """The spec of a HyperNode."""

    tier: Int32Wire | None = None
    tier_name: str | None = None
    members: list[MemberWire] | None = None


class HyperNodeWire(msgspec.Struct, gc=False):
    """A HyperNode of topology.volcano.sh."""

    metadata: MetadataWire
    spec: HyperNodeSpecWire | None = None


class SliceWire(msgspec.Struct, gc=False):
    """A layer of slices in an annotation; Kueue calls the level `topology`."""

    level: str = ""
    topology: str = ""
    size: Int32Wire | None = None


class SubGroupWire(msgspec.Struct, gc=False, rename="camel"):
    """A sub-group in the annotation `moorage.dev/subgroups`."""

    name: str
    parent: str | None = None
    min_member: Int32Wire | None = None
    required: str | None = None
    preferred: str | None = None


_SLICES_DECODER = msgspec.json.Decoder(list[SliceWire])
_SUBGROUPS_DECODER = msgspec.json.Decoder(list[SubGroupWire])


def topology(wire: TopologyWire) -> Topology:
    """The core value of a Topology."""
    entries = whole((wire.spec and wire.spec.levels) or [], TOPOLOGY_LEVELS, "spec.levels") or ()
    levels = tuple(each if isinstance(each, str) else each.node_label for each in entries)
    for index, level in enumerate(levels):
        if not level or level in levels[:index]:
            problem = "appears twice" if level else "is empty"
            raise FieldError(f"spec.levels[{index}]", level, problem, "write each label key once, the widest first")
    return Topology(wire.metadata.name, levels)


def hyper_node(wire: HyperNodeWire) -> HyperNode:
    """The core value of a HyperNode."""
    spec = wire.spec or HyperNodeSpecWire()
    members = whole(spec.members or [], HYPER_NODE_MEMBERS, "spec.members") or ()
    return HyperNode(
        wire.metadata.name,
        spec.tier or 1,
        spec.tier_name or "",
        tuple(_match(member, f"spec.members[{index}]") for index, member in enumerate(members)),
        frozen_map(wire.metadata.labels),
    )


def _match(wire: MemberWire, path: str) -> NodeMatch:
    selector = wire.selector or MemberSelectorWire()
    pattern = selector.regex_match.pattern if selector.regex_match else ""
    if len(pattern) > PATTERN_CHARS or _has_repeats(pattern):
        remedy = f"write exactMatch or labelMatch, or a pattern with at most {_REPEATS} repetitions, none of a group"
        raise FieldError(f"{path}.selector.regexMatch.pattern", pattern, "may take too long to match", remedy)
    try:
        re.compile(pattern)
    except re.error as error:
        message = "write a regular expression"
        raise FieldError(f"{path}.selector.regexMatch.pattern", pattern, f"is not one: {error}", message) from None
    return NodeMatch(
        wire.type != "HyperNode",
        selector.exact_match.name if selector.exact_match else "",
        pattern,
        frozen_map(selector.label_match.match_labels if selector.label_match else None),
    )


def _has_repeats(pattern: str) -> bool:
    """Whether a pattern could take long: groups that repeat, or many repetitions and parts that may be left out."""
    return bool(re.search(r"\)[*+{]|\\[1-9]", pattern)) or len(re.findall(r"[*+{]|(?<!\()\?", pattern)) > _REPEATS


# --- annotations ---


def ask_of(annotations: Mapping[str, str]) -> TopologyAsk | None:
    """What annotations of a pod or a PodGroup ask of the levels; None if they say nothing about them."""
    if KEYS.isdisjoint(annotations):
        return None
    mistakes: list[str] = []
    ask = TopologyAsk(
        required=_first(annotations, _REQUIRED),
        preferred=_first(annotations, _PREFERRED),
        unconstrained=_first(annotations, _UNCONSTRAINED) == "true",
        slices=_slices(annotations, mistakes),
        topology=_first(annotations, _TOPOLOGY),
        shares=_first(annotations, _SHARES),
        objective=_objective(annotations, mistakes),
        mistake="; ".join(mistakes),
    )
    return None if ask == NOTHING_ASKED else ask


def _first(annotations: Mapping[str, str], keys: tuple[str, ...]) -> str:
    return next((annotations[key] for key in keys if annotations.get(key)), "")


def _objective(annotations: Mapping[str, str], mistakes: list[str]) -> Objective:
    text = _first(annotations, _OBJECTIVE)
    if text in tuple(Objective):
        return Objective(text)
    mistakes.append(f'annotation {_OBJECTIVE[0]}: "{_short(text)}" is not "{Objective.BALANCED}"')
    return Objective.FEWEST


def _slices(annotations: Mapping[str, str], mistakes: list[str]) -> tuple[SliceAsk, ...]:
    layers = next((key for key in _SLICES if annotations.get(key)), None)
    if layers is not None:
        return _layers(layers, annotations[layers], mistakes)
    level, size = _first(annotations, _SLICE_LEVEL), _first(annotations, _SLICE_SIZE)
    wished = annotations.get(_SEGMENT_PREFERRED, "")
    if not level and not size and not wished:
        return ()
    number = int(size) if size.isascii() and size.isdigit() and len(size) < len(str(_MOST_MEMBERS)) else None
    if size and not number:
        mistakes.append(f'the size of slices is no number above 0: "{_short(size)}"')
    if size and not level and not wished:
        mistakes.append(f"slices of {_short(size)} members name no level")
    uneven = _SLICE_SIZE[-1] in annotations  # the last of KAI's segments may be smaller
    asks = (SliceAsk(level, number, uneven), SliceAsk(wished, number, uneven, soft=True))
    return tuple(each for each in asks if each.level) or asks[:1]


def _layers(key: str, text: str, mistakes: list[str]) -> tuple[SliceAsk, ...]:
    try:
        wires = _SLICES_DECODER.decode(text)
    except REFUSALS as error:
        mistakes.append(f"annotation {key}: {error}")
        return ()
    if len(wires) > SLICE_LAYERS:
        mistakes.append(f"annotation {key} has {len(wires)} layers, at most {SLICE_LAYERS} are read")
    return tuple(SliceAsk(wire.level or wire.topology, wire.size or None) for wire in wires[:SLICE_LAYERS])


def subgroups_of(annotations: Mapping[str, str]) -> tuple[tuple[SubGroup, ...], str]:
    """The sub-groups that the annotation of a PodGroup names, and what is wrong with it."""
    text = annotations.get(SUBGROUPS, "")
    if not text:
        return (), ""
    try:
        wires = _SUBGROUPS_DECODER.decode(text)
    except REFUSALS as error:
        return (), f"annotation {SUBGROUPS}: {error}"
    if len(wires) > SUB_GROUPS:
        return (), f"annotation {SUBGROUPS} has {len(wires)} entries, at most {SUB_GROUPS} are read"
    return tuple(
        SubGroup(
            wire.name,
            wire.parent or "",
            wire.min_member,
            TopologyAsk(required=wire.required or "", preferred=wire.preferred or ""),
        )
        for wire in wires
    ), ""


def volcano_ask(mode: str | None, tier: int | None, tier_name: str | None) -> TopologyAsk | None:
    """What a networkTopology of Volcano asks: `hard` up to a tier, or `soft`, as close as possible."""
    level = tier_name or (tier_level(tier) if tier is not None else "")
    if mode == "soft":
        return TopologyAsk(preferred=tier_level(1))
    return TopologyAsk(required=level) if level else TopologyAsk(preferred=tier_level(1))


def _short(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:37]}..."
