"""Devices that pods share by annotations or extended resources: what is left of each, and who has it, as plain values.

Those that drivers publish are in `views.devices`.
"""

from __future__ import annotations

from typing import Any

from moorage.core.shareasks import WHOLE
from moorage.core.sharedevices import DeviceColumns
from moorage.core.state import ClusterState
from moorage.views.devices import DeviceState

FAILED = "failed"
_NONE: list[dict[str, Any]] = []


def shared_devices(state: ClusterState, row: int) -> list[dict[str, Any]]:
    """The devices of a node's row; compute is in thousandths, memory in MiB where the node says how much there is."""
    shares = state.shares()
    known = shares.devices(row)
    if not known.count:
        return _NONE
    holders = _holders(state, shares, row)
    unit = "Mi" if known.measured else "m"
    found: list[dict[str, Any]] = []
    for device in range(known.count):
        failed, pods = device in known.failed, holders.get(device, [])
        compute, memory = (0, 0) if failed else shares.left(row, device)
        found.append(
            {
                "device": device,
                "uuid": known.uuids[device] if device < len(known.uuids) else "",
                "model": known.model,
                "state": FAILED if failed else _state(min(compute, memory), taken=bool(pods)).value,
                "compute": {"free": compute, "total": WHOLE, "unit": "m"},
                "memory": {"free": memory, "total": known.memory, "unit": unit},
                "pods": pods,
            }
        )
    return found


def _holders(state: ClusterState, shares: DeviceColumns, row: int) -> dict[int, list[dict[str, Any]]]:
    """Device -> the pods that have a part of it, and how much."""
    found: dict[int, list[dict[str, Any]]] = {}
    for record in sorted(state.records_on(row), key=lambda each: each.pod.key):
        hold = shares.held(record.pod.uid)
        if hold is None:
            continue
        memory = shares.memory_of(hold.ask, row)
        for device in hold.devices:
            said = {"pod": record.pod.key, "compute": hold.ask.milli, "memory": memory}
            found.setdefault(device, []).append(said)
    return found


def _state(left: int, *, taken: bool) -> DeviceState:
    if not taken:
        return DeviceState.FREE
    return DeviceState.SHARED if left > 0 else DeviceState.IN_USE
