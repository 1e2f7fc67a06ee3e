"""Claims of pods that leave in a what-if: what they hold is free once no pod is left that uses it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from moorage.core.claims import ResourceClaim
from moorage.core.deviceindex import RESOURCE_CLAIM
from moorage.core.pods import Pod
from moorage.core.state import ClusterState


def used_claims(state: ClusterState, pod: Pod) -> Iterator[ResourceClaim]:
    """The claims with devices that are reserved for a pod, the special one last."""
    found = [state.object(RESOURCE_CLAIM, f"{pod.namespace}/{name}") for name in pod.template.claims]
    for claim in (*found, state.devices.special_of(pod)):
        if claim is not None and claim.allocation is not None and claim.reserved_for_uid(pod.uid):
            yield claim


def uses_devices(state: ClusterState, pod: Pod) -> bool:
    """Whether a pod uses devices that others could have otherwise, which admin access does not take from anybody."""
    held = (claim.allocation.devices for claim in used_claims(state, pod) if claim.allocation is not None)
    return any(not device.admin_access for devices in held for device in devices)


def free_abandoned(state: ClusterState) -> None:
    """Free the claims whose pods are all gone, as the claim controller will; inside a statement."""
    for claim in [*state.objects.get(RESOURCE_CLAIM, {}).values()]:
        users = claim.reserved_for if claim.allocation is not None else ()
        if users and all(each.resource == "pods" and state.record(each.uid) is None for each in users):
            state.put_object(RESOURCE_CLAIM, claim.key, claim.freed())


class LeavingClaims:
    """The claims of pods that leave and may come back, inside one statement."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._before: dict[str, dict[str, ResourceClaim]] = {}
        """Uid of a pod that left -> key -> the claim that it used."""

    def leave(self, pod: Pod) -> None:
        """The pod was removed."""
        used = self._before[pod.uid] = {claim.key: claim for claim in used_claims(self._state, pod)}
        for key, claim in used.items():
            others = tuple(each for each in claim.reserved_for if each.uid != pod.uid)
            left = replace(claim, reserved_for=others) if others else claim.freed()
            self._state.put_object(RESOURCE_CLAIM, key, left)

    def come_back(self, pod: Pod) -> None:
        """A pod that left was put back."""
        for key, claim in self._before.get(pod.uid, {}).items():
            own = tuple(each for each in claim.reserved_for if each.uid == pod.uid)
            users = (*self._state.objects[RESOURCE_CLAIM][key].reserved_for, *own)
            self._state.put_object(RESOURCE_CLAIM, key, replace(claim, reserved_for=users))
