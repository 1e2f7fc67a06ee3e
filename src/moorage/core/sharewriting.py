"""Which devices a pod has got: written with its Binding, and read again from the pod.

`moorage.dev/devices` has the indices of the devices on the node. Beside it stands what the agents of a convention look
for: Alibaba's `gpu-index`, Koordinator's `device-allocated`, HAMi's list by UUID. Nothing of this is part of a pod's
template: pods that differ only in their devices are equal to every rule.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

from moorage.core.annotations import parse_count
from moorage.core.limits import SHARED_DEVICES
from moorage.core.shareasks import (
    KOORDINATOR_CORE,
    KOORDINATOR_MEMORY,
    KOORDINATOR_RATIO,
    Convention,
    ShareAsk,
)
from moorage.core.values import dataclass

DEVICES = "moorage.dev/devices"
GPU_INDEX = "alibabacloud.com/gpu-index"
DEVICE_ALLOCATED = "scheduling.koordinator.sh/device-allocated"
HAMI_REGISTER = "hami.io/node-nvidia-register"
"""On a node: its devices, by HAMi's device plugin."""
_HAMI_TO_ALLOCATE, _HAMI_ALLOCATED = "hami.io/vgpu-devices-to-allocate", "hami.io/vgpu-devices-allocated"
_HAMI_NODE, _HAMI_TIME = "hami.io/vgpu-node", "hami.io/vgpu-time"
_HAMI_PHASE, _HAMI_BIND_TIME = "hami.io/bind-phase", "hami.io/bind-time"

WRITTEN = frozenset({
    DEVICES, GPU_INDEX, DEVICE_ALLOCATED, _HAMI_TO_ALLOCATE, _HAMI_ALLOCATED, _HAMI_NODE, _HAMI_TIME, _HAMI_PHASE,
    _HAMI_BIND_TIME,
})  # fmt: skip
"""Annotations that say what a pod has got; no rule reads them."""

_MINOR = re.compile(r'"minor":\s*([0-9]{1,4})', re.ASCII)
_ENTRY = re.compile(r"\{[^{}]*\}")
_FIELD = re.compile(r'"(id|devmem|health)":\s*"?([^",}]*)')
_LISTED_FIELDS = 7
_PERCENT = 10
"""Thousandths in a per cent."""


@dataclass(frozen=True, slots=True)
class RegisteredDevice:
    """A device as an agent on the node registers it."""

    uuid: str
    memory_mib: int = 0
    healthy: bool = True


def taken_devices(annotations: Mapping[str, str]) -> tuple[int, ...]:
    """The indices of the devices that a pod has got, ascending; empty if its annotations do not say."""
    texts: Iterable[str] = ()
    if DEVICES in annotations:
        texts = annotations[DEVICES].split(",", SHARED_DEVICES)
    elif GPU_INDEX in annotations:
        texts = annotations[GPU_INDEX].split("-", SHARED_DEVICES)
    elif DEVICE_ALLOCATED in annotations:
        texts = _MINOR.findall(annotations[DEVICE_ALLOCATED])
    numbers = {number for text in texts if (number := parse_count(text, 0)) is not None and number < SHARED_DEVICES}
    return tuple(sorted(numbers))


def without_written(annotations: Mapping[str, str]) -> Mapping[str, str]:
    """The annotations that say what a pod asks for; the same object where all do."""
    if WRITTEN.isdisjoint(annotations):
        return annotations
    return {key: text for key, text in annotations.items() if key not in WRITTEN}


def indices_text(devices: Iterable[int], between: str = ",") -> str:
    """Indices as annotations have them."""
    return between.join(map(str, devices))


def words_for(
    ask: ShareAsk, devices: Sequence[int], node: str, memory_mib: int, uuids: Sequence[str], now: float
) -> dict[str, str]:
    """All annotations that a pod gets with these devices of a node; `memory_mib` is what it takes of each."""
    found = {DEVICES: indices_text(devices)}
    if ask.convention is Convention.ALIBABA:
        found[GPU_INDEX] = indices_text(devices, "-")
    elif ask.convention is Convention.KOORDINATOR:
        found[DEVICE_ALLOCATED] = _koordinator(ask, devices, memory_mib)
    elif ask.convention in (Convention.HAMI, Convention.WHOLE) and len(uuids) > max(devices, default=0):
        taken, time = _hami(ask, [uuids[each] for each in devices], memory_mib), str(int(now))
        found |= {_HAMI_TO_ALLOCATE: taken, _HAMI_ALLOCATED: taken, _HAMI_NODE: node, _HAMI_TIME: time}
        found |= {_HAMI_PHASE: "allocating", _HAMI_BIND_TIME: time}
    return found


def _hami(ask: ShareAsk, uuids: Sequence[str], memory_mib: int) -> str:
    """The devices by container, in their order: HAMi's device plugin looks for a container by its place."""
    texts = [f"{uuid},NVIDIA,{memory_mib},{ask.milli // _PERCENT}:" for uuid in uuids]
    coming = iter(texts)
    return "".join("".join(islice(coming, slot)) + ";" for slot in ask.slots or (len(texts),))


def _koordinator(ask: ShareAsk, devices: Sequence[int], memory_mib: int) -> str:
    amounts = f'"{KOORDINATOR_CORE}":"{ask.milli // _PERCENT}"'
    if ask.memory_milli:
        amounts += f',"{KOORDINATOR_RATIO}":"{ask.memory_milli // _PERCENT}"'
    if ask.memory_mib:
        amounts += f',"{KOORDINATOR_MEMORY}":"{memory_mib}Mi"'
    parts = ",".join(f'{{"minor":{device},"resources":{{{amounts}}}}}' for device in devices)
    return f'{{"gpu":[{parts}]}}'


def registered_devices(annotations: Mapping[str, str]) -> tuple[RegisteredDevice, ...]:
    """The devices that HAMi's device plugin registered on a node, in its order; empty where it did not."""
    text = annotations.get(HAMI_REGISTER, "")
    if text.startswith("["):
        fields = (dict(_FIELD.findall(entry)) for entry in _ENTRY.findall(text)[:SHARED_DEVICES])
        return tuple(_registered(each.get("id", ""), each.get("devmem", ""), each.get("health", "")) for each in fields)
    listed = (entry.split(",") for entry in text.split(":", SHARED_DEVICES)[:SHARED_DEVICES])
    return tuple(_registered(each[0], each[2], each[6]) for each in listed if len(each) >= _LISTED_FIELDS)


def _registered(uuid: str, memory: str, health: str) -> RegisteredDevice:
    return RegisteredDevice(uuid, parse_count(memory, 0) or 0, health != "false")
