"""What would help a pod whose claims get no devices on a node: remedies made of what stands against devices there.

Weaker selectors, tolerations, smaller amounts or counts, another class as an alternative, a constraint less, devices of
other claims set free, and less of an extended resource. The engine tries each of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field, replace
from itertools import islice

import numpy as np

from moorage.core.arrays import Ints, Rows
from moorage.core.claims import DeviceChoice, DeviceClass, DeviceRequest, ResourceClaim
from moorage.core.devicediagnosis import NearDevice, NodeDiagnosis, RequestDiagnosis, diagnose
from moorage.core.devicefit import AllocationError
from moorage.core.deviceindex import DEVICE_CLASS, RESOURCE_CLAIM
from moorage.core.devicerefusals import Fix, HeldBy, Holders, TooMuch, UnmetCondition, constraint_text
from moorage.core.deviceselectors import Looks
from moorage.core.edits import (
    AddAlternative,
    DropConstraint,
    Edit,
    FreeClaim,
    LowerCapacity,
    LowerCount,
    LowerRequest,
    SetSelector,
    TolerateDevice,
)
from moorage.core.extendedclaims import SPECIAL_NAME
from moorage.core.nodes import Node
from moorage.core.selectorparts import comparison, conditions
from moorage.core.state import ClusterState
from moorage.core.taints import Taint
from moorage.core.values import dataclass
from moorage.framework.remedies import Rejected, Remedy, lowering_cost

_LOOKS = 2_000
_NEAR = 8
_MOST_CLASSES = 8
_MOST_USERS = 4
"""A claim of more pods is not set free."""
_WEAKER, _DROPPED, _TOLERATED, _LESS, _FREED, _FEWER, _OTHER = 2.5, 4.0, 2.0, 2.0, 6.0, 3.0, 3.5


def device_remedies(rejected: Rejected, node: Node, claims: Sequence[ResourceClaim]) -> Iterator[Remedy]:
    """Remedies for claims that need devices on a node."""
    yield from _smaller_resources(rejected, claims)
    own = [claim for claim in claims if claim.name != SPECIAL_NAME]
    try:
        found = diagnose(rejected.state, node, claims, Holders(rejected.state), Looks(_LOOKS), _NEAR)
    except AllocationError:
        return
    for claim, number in found.apart:
        text = constraint_text(claim.constraints[number])
        yield Remedy((DropConstraint(claim.namespace, claim.name, number, text),), _DROPPED)
    options = [sorted(each, key=lambda remedy: remedy.cost) for each in _options(rejected.state, node, found, own)]
    if len(options) == 1:
        yield from options[0]
    elif options and all(options):
        for remedies in islice(zip(*options, strict=False), 2):
            edits = dict.fromkeys(edit for remedy in remedies for edit in remedy.edits)
            yield Remedy(tuple(edits), sum(remedy.cost for remedy in remedies))


def _options(state: ClusterState, node: Node, found: NodeDiagnosis, own: Sequence[ResourceClaim]) -> list[list[Remedy]]:
    """For each request that lacks devices, its remedies; where none lacks any alone, those of each in one list."""
    lacking = found.lacking or (() if found.apart else found.requests)
    by_request: dict[tuple[str, str], list[Remedy]] = {}
    for each in lacking:
        if each.claim in own:
            key = (each.claim.key, each.request.partition("/")[0])
            by_request.setdefault(key, []).extend(_of_request(state, node, each))
        else:
            by_request.setdefault((SPECIAL_NAME, each.request), []).extend(_of_special(state, each))
    lists = [*by_request.values()]
    return lists if found.lacking or not lists else [[remedy for each in lists for remedy in each]]


def _of_request(state: ClusterState, node: Node, each: RequestDiagnosis) -> Iterator[Remedy]:
    need = max(1, each.lacks)
    ways = [way for near in each.nearest if (way := _way(state, each, (near,))) is not None]
    if need == 1:
        yield from ways
    elif len(each.nearest) >= need:
        soft = [near for near in each.nearest if not any(isinstance(fix.fix, HeldBy) for fix in near.refusals)]
        held = [near for near in each.nearest if all(isinstance(fix.fix, HeldBy) for fix in near.refusals)]
        for chosen in (soft[:need], held[:need], each.nearest[:need]):
            way = _way(state, each, chosen) if len(chosen) == need else None
            if way is not None:
                yield way
    fewer = each.fits if each.lacks else (each.wanted or 0) - 1
    if each.wanted is not None and fewer > 0:
        yield Remedy((LowerCount(each.claim.namespace, each.claim.name, each.request, fewer),), _FEWER)
    yield from _other_classes(state, node, each)


def _of_special(state: ClusterState, each: RequestDiagnosis) -> Iterator[Remedy]:
    """Devices for extended resources can be set free; there is no claim to change."""
    for near in each.nearest:
        if all(isinstance(refusal.fix, HeldBy) for refusal in near.refusals):
            way = _way(state, each, (near,))
            if way is not None:
                yield way


def _smaller_resources(rejected: Rejected, claims: Iterable[ResourceClaim]) -> Iterator[Remedy]:
    """Less of each extended resource that a special claim is for, the most that is accepted."""
    if all(claim.name != SPECIAL_NAME for claim in claims):
        return
    template = rejected.pod.template
    for name, amount in template.requests.amounts:
        if name in rejected.state.devices.backing and amount:
            yield from (
                Remedy((LowerRequest(name, less),), lowering_cost(amount, less))
                for less in dict.fromkeys((amount - 1, amount // 2, 1, 0))
                if 0 <= less < amount
            )


# --- one way: what stands against some devices, ended ---


def _way(state: ClusterState, each: RequestDiagnosis, chosen: Sequence[NearDevice]) -> Remedy | None:
    """The edits after which nothing stands against some devices; None if there are none."""
    fixes = _Fixes((each.claim.namespace, each.claim.name, each.request))
    if not all(fixes.take(refusal.fix) for near in chosen for refusal in near.refusals):
        return None
    edits = fixes.edits
    for selector, parts in fixes.unmet.items():
        edit, cost = _weaker(fixes.place, selector, each.choice.selectors[selector], parts)
        edits[edit] = cost
    for key in fixes.freed:
        free = _free(state, key)
        if free is None:
            return None
        edits[free] = _FREED
    return Remedy(tuple(edits), sum(edits.values())) if edits else None


@dataclass(slots=True)
class _Fixes:
    """What ends the refusals of some devices, collected."""

    place: tuple[str, str, str]
    edits: dict[Edit, float] = field(default_factory=dict)
    unmet: dict[int, dict[int, list[str | None]]] = field(default_factory=dict)
    """Selector -> condition -> what devices have."""
    freed: dict[str, None] = field(default_factory=dict)
    """Claims by key."""

    def take(self, fix: Fix | None) -> bool:
        """Note what ends one refusal; False if nothing does."""
        match fix:
            case UnmetCondition(selector, condition, value):
                self.unmet.setdefault(selector, {}).setdefault(condition, []).append(value)
            case Taint() as taint:
                self.edits[TolerateDevice(*self.place, taint)] = _TOLERATED
            case TooMuch(name, left):
                self.edits[LowerCapacity(*self.place, name, left)] = _LESS
            case HeldBy(claims):
                self.freed |= dict.fromkeys(claims)
                return bool(claims)
            case None:
                return False
        return True


def _weaker(
    place: tuple[str, str, str], selector: int, expression: str, unmet: dict[int, list[str | None]]
) -> tuple[SetSelector, float]:
    """A selector with conditions that devices with these values meet, or without those conditions."""
    kept: list[str] = []
    gist: list[str] = []
    cost = 0.0
    for number, condition in enumerate(conditions(expression)):
        if number not in unmet:
            kept.append(condition)
            continue
        values = [value for value in unmet[number] if value is not None]
        compared = comparison(condition)
        weaker = compared.weaker(values) if compared is not None and len(values) == len(unmet[number]) else None
        cost += _DROPPED if weaker is None else _WEAKER
        if weaker is None or compared is None:
            gist.append(f"drop the condition {_brief(condition)}")
            continue
        kept.append(weaker)
        told = compared if (read := comparison(weaker)) is None else read
        if compared.operator == "==":
            gist.append(f"accept {compared.name} {' or '.join(dict.fromkeys(values))}, too,")
        else:
            gist.append(f"ask for {compared.name} {told.wanted} instead of {compared.wanted}")
    text = " && ".join(f"({each})" if "||" in each or "?" in each else each for each in kept)
    return SetSelector(*place, selector, text, " and ".join(gist)), cost


def _brief(condition: str, longest: int = 100) -> str:
    text = " ".join(condition.split())
    return text if len(text) <= longest else f"{text[: longest - 3]}..."


def _free(state: ClusterState, key: str) -> FreeClaim | None:
    """A claim of few pods gives its devices back."""
    claim: ResourceClaim | None = state.object(RESOURCE_CLAIM, key)
    if claim is None or claim.allocation is None or len(claim.reserved_for) > _MOST_USERS:
        return None
    if any(consumer.resource != "pods" for consumer in claim.reserved_for):
        return None
    pods = tuple(consumer.name for consumer in claim.reserved_for)
    devices = tuple(f"{each.device} of pool {each.pool}" for each in claim.allocation.devices)
    return FreeClaim(claim.namespace, claim.name, devices, pods)


# --- other classes ---


def _other_classes(state: ClusterState, node: Node, each: RequestDiagnosis) -> Iterator[Remedy]:
    """Classes of the same drivers of which the node has enough devices."""
    classes: dict[str, DeviceClass] = state.objects.get(DEVICE_CLASS, {})
    selectors = " ".join(classes[each.choice.device_class].selectors)
    drivers = {pool.id.driver for pool in state.devices.pools(node) if pool.id.driver in selectors}
    asked = {choice.device_class for request in each.claim.requests for choice in request.choices}
    held, looks = Holders(state), Looks(_LOOKS)
    for name in sorted(classes.keys() - asked)[:_MOST_CLASSES] if drivers and not each.choice.admin_access else ():
        if not any(driver in selector for driver in drivers for selector in classes[name].selectors):
            continue
        other = DeviceChoice(device_class=name, mode=each.choice.mode, count=each.choice.count)
        claim = replace(each.claim, requests=(DeviceRequest("other", other),), constraints=())
        if not diagnose(state, node, (claim,), held, looks).lacking:
            edit = AddAlternative(each.claim.namespace, each.claim.name, each.request.partition("/")[0], name)
            yield Remedy((edit,), _OTHER)


# --- rows ---


def device_groups(state: ClusterState, rows: Rows) -> Ints:
    """int64[n]: nodes with equal numbers have devices alike, as many of which are in use."""
    known: dict[object, int] = {}
    found = np.zeros(len(rows), dtype=np.int64)
    for index, row in enumerate(rows):
        shapes: dict[object, int] = {}
        for part in state.devices.views.slices_at(state.node(int(row)).name):
            for device in part.devices:
                used = state.devices.in_use(part.device_id(device))
                shape = (device.attributes, device.capacity, device.taints, used)
                shapes[shape] = shapes.get(shape, 0) + 1
        found[index] = known.setdefault(frozenset(shapes.items()), len(known))
    return found
