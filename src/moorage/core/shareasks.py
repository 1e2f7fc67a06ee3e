"""What a pod asks for of devices that pods may share, in the words of several projects.

| convention | a share | whole devices |
|---|---|---|
| KAI | annotation `gpu-fraction: "0.5"` or `gpu-memory` (MiB), `gpu-fraction-num-devices` | `nvidia.com/gpu` |
| HAMi | `nvidia.com/gpu` with `gpumem` (MiB), `gpumem-percentage` or `gpucores`, each per device | without them |
| Koordinator | `koordinator.sh/gpu-core` with `gpu-memory-ratio` or `gpu-memory`, 100 is a device | multiples of 100 |
| Alibaba | annotations `alibabacloud.com/gpu-milli`, `gpu-count`, `gpu-card-model` | 1000 milli |

A text that cannot be understood is a `problem`, and such a pod is not placed: with a guess it would get a device that
it does not expect.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING

from moorage.core.annotations import annotated_count
from moorage.core.limits import SHARED_DEVICES
from moorage.core.resources import NO_REQUESTS, Requests
from moorage.core.values import dataclass

if TYPE_CHECKING:
    from moorage.core.pods import ContainerAsk

WHOLE = 1000
"""Thousandths of a device."""

NVIDIA_GPU = "nvidia.com/gpu"
HAMI_MEMORY, HAMI_PERCENTAGE, HAMI_CORES = "nvidia.com/gpumem", "nvidia.com/gpumem-percentage", "nvidia.com/gpucores"
KOORDINATOR_GPU, KOORDINATOR_CORE = "koordinator.sh/gpu", "koordinator.sh/gpu-core"
KOORDINATOR_RATIO, KOORDINATOR_MEMORY = "koordinator.sh/gpu-memory-ratio", "koordinator.sh/gpu-memory"
KAI_FRACTION, KAI_MEMORY, KAI_DEVICES = "gpu-fraction", "gpu-memory", "gpu-fraction-num-devices"
ALIBABA_MILLI, ALIBABA_COUNT = "alibabacloud.com/gpu-milli", "alibabacloud.com/gpu-count"
ALIBABA_MODEL = "alibabacloud.com/gpu-card-model"

SHARE_ANNOTATIONS = (KAI_FRACTION, KAI_MEMORY, KAI_DEVICES, ALIBABA_MILLI, ALIBABA_COUNT, ALIBABA_MODEL)
"""On a pod: what it asks for."""

_FRACTION = re.compile(r"(0|1)?(?:\.([0-9]{1,9}))?", re.ASCII)
_PERCENT = 100
_MIB = 1 << 20
_MODELS = 64
_SHOWN = 60
_SEVERAL = 2


class Convention(StrEnum):
    """In whose words a pod asks."""

    WHOLE = "whole"
    """`nvidia.com/gpu` alone."""
    KAI = "kai"
    HAMI = "hami"
    KOORDINATOR = "koordinator"
    ALIBABA = "alibaba"
    DRA = "dra"
    """Claims, see `core.claimshares`."""


@dataclass(frozen=True, slots=True)
class ShareAsk:
    """So much of each of `count` devices of one node."""

    convention: Convention
    count: int = 1
    milli: int = WHOLE
    """Of the compute, in thousandths of the device; 0 where only memory is asked for."""
    memory_milli: int = WHOLE
    """Of the memory, likewise; 0 where `memory_mib` says it."""
    memory_mib: int = 0
    models: tuple[str, ...] = ()
    """The models that will do; empty for any."""
    slots: tuple[int, ...] = ()
    """Of a pod with several main containers: how many of the devices each of them asks for."""
    problem: str = ""
    """What cannot be understood, for people."""

    @property
    def whole(self) -> bool:
        """Whether it asks for devices of its own."""
        return self.milli >= WHOLE or self.memory_milli >= WHOLE


def share_ask(
    annotations: Mapping[str, str], requests: Requests, containers: tuple[ContainerAsk, ...]
) -> ShareAsk | None:
    """What a pod with these annotations and requests asks for; None if it asks for no device."""
    for key, read in _BY_ANNOTATION:
        if key in annotations:
            return read(annotations)
    if not containers:
        return None
    amounts = dict(requests.amounts)
    if any(name in amounts for name in (KOORDINATOR_GPU, KOORDINATOR_CORE, KOORDINATOR_RATIO, KOORDINATOR_MEMORY)):
        return _koordinator(amounts)
    count = amounts.get(NVIDIA_GPU, 0)
    if not count:
        return None
    slots = tuple(each.amount(NVIDIA_GPU) for each in containers if not each.init)
    ask = _hami(count, containers) or ShareAsk(Convention.WHOLE, count)
    return _counted(ask if len(slots) < _SEVERAL or ask.problem else replace(ask, slots=slots))


def readable_ask(annotations: Mapping[str, str]) -> bool:
    """Whether annotations of a pod ask for devices in words that can be understood."""
    ask = share_ask(annotations, NO_REQUESTS, ())
    return ask is not None and not ask.problem


def _counted(ask: ShareAsk) -> ShareAsk:
    """More devices than a node may have are a problem of the pod."""
    if ask.count <= SHARED_DEVICES:
        return ask
    return _refused(ask.convention, f"{ask.count} devices of one node are more than {SHARED_DEVICES}")


def _refused(convention: Convention, problem: str) -> ShareAsk:
    return ShareAsk(convention, problem=problem)


def _unread(convention: Convention, key: str, text: str, remedy: str) -> ShareAsk:
    shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
    return _refused(convention, f"{key} is {shown!r}; write {remedy}")


def _number(annotations: Mapping[str, str], key: str, least: int, default: int | None) -> int | None:
    """The number that an annotation gives, the default without it; None where it cannot be read."""
    said = annotated_count(annotations, (key,), least)
    return default if said is None else said.value


# --- each in its own words ---


def _kai_fraction(annotations: Mapping[str, str]) -> ShareAsk:
    text = annotations[KAI_FRACTION]
    milli = _milli(text)
    if milli is None:
        return _unread(Convention.KAI, KAI_FRACTION, text, "a fraction of a device such as 0.5")
    return _kai(annotations, milli, 0)


def _kai_memory(annotations: Mapping[str, str]) -> ShareAsk:
    mib = _number(annotations, KAI_MEMORY, 1, None)
    if mib is None:
        return _unread(Convention.KAI, KAI_MEMORY, annotations[KAI_MEMORY], "a number of MiB")
    return _kai(annotations, 0, mib)


def _kai(annotations: Mapping[str, str], milli: int, mib: int) -> ShareAsk:
    count = _number(annotations, KAI_DEVICES, 1, 1)
    if count is None:
        return _unread(Convention.KAI, KAI_DEVICES, annotations[KAI_DEVICES], "a number of devices")
    return _counted(ShareAsk(Convention.KAI, count, milli, milli, mib))


def _milli(text: str) -> int | None:
    """Thousandths, rounded up, of a decimal number above 0 and up to 1; None for anything else."""
    found = _FRACTION.fullmatch(text)
    if found is None or not text:
        return None
    digits = (found[2] or "").ljust(9, "0")
    billionths = int(found[1] or "0") * 10**9 + int(digits)
    return -(-billionths // 10**6) if 0 < billionths <= 10**9 else None


def _alibaba(annotations: Mapping[str, str]) -> ShareAsk:
    milli = _number(annotations, ALIBABA_MILLI, 1, WHOLE)
    if milli is None or milli > WHOLE:
        return _unread(Convention.ALIBABA, ALIBABA_MILLI, annotations[ALIBABA_MILLI], "a number from 1 to 1000")
    count = _number(annotations, ALIBABA_COUNT, 1, 1)
    if count is None:
        return _unread(Convention.ALIBABA, ALIBABA_COUNT, annotations[ALIBABA_COUNT], "a number of devices")
    models = tuple(sorted({name for name in annotations.get(ALIBABA_MODEL, "").split("|") if name}))
    return _counted(ShareAsk(Convention.ALIBABA, count, milli, milli, models=models[:_MODELS]))


def _hami(count: int, containers: tuple[ContainerAsk, ...]) -> ShareAsk | None:
    """Containers may ask for shares of different sizes; each of the devices then has room for the largest."""
    memory = percentage = cores = 0
    for each in containers:
        if each.amount(NVIDIA_GPU):
            memory = max(memory, each.amount(HAMI_MEMORY))
            percentage = max(percentage, each.amount(HAMI_PERCENTAGE))
            cores = max(cores, each.amount(HAMI_CORES))
    if not (memory or percentage or cores):
        return None
    if percentage > _PERCENT or cores > _PERCENT:
        return _refused(Convention.HAMI, f"{HAMI_PERCENTAGE} and {HAMI_CORES} are at most 100")
    ratio = percentage * WHOLE // _PERCENT if percentage else (0 if memory else WHOLE)
    return ShareAsk(Convention.HAMI, count, cores * WHOLE // _PERCENT, ratio, 0 if percentage else memory)


def _koordinator(amounts: Mapping[str, int]) -> ShareAsk:
    both = amounts.get(KOORDINATOR_GPU, 0)
    core, ratio = amounts.get(KOORDINATOR_CORE, both), amounts.get(KOORDINATOR_RATIO, both)
    size = amounts.get(KOORDINATOR_MEMORY, 0)
    if not ratio and not size:
        ratio = core
    count = max(core, ratio, _PERCENT) // _PERCENT
    if any(part > _PERCENT and part != count * _PERCENT for part in (core, ratio)):
        return _refused(Convention.KOORDINATOR, "more than one device of koordinator.sh/gpu-core is a multiple of 100")
    each = WHOLE // _PERCENT
    mib = 0 if ratio else -(-size // (_MIB * count))
    return _counted(ShareAsk(Convention.KOORDINATOR, count, core * each // count, ratio * each // count, mib))


_BY_ANNOTATION: tuple[tuple[str, Callable[[Mapping[str, str]], ShareAsk]], ...] = (
    (KAI_FRACTION, _kai_fraction),
    (KAI_MEMORY, _kai_memory),
    (ALIBABA_MILLI, _alibaba),
    (ALIBABA_COUNT, _alibaba),
)
