"""GPUs that pods share: who has how much of which, in thousandths."""

from __future__ import annotations

from tests.crossings.audit.quantities import milli
from tests.crossings.audit.scene import Object, notes, offered, requests
from tests.crossings.audit.whatif import WhatIf

GPU = "nvidia.com/gpu"
FRACTION, DEVICES = "gpu-fraction", "moorage.dev/devices"
WHOLE = 1000


def share_of(pod: Object) -> int:
    """The part of one GPU that a pod asks for; 0 if it asks for none, or for whole ones."""
    text = notes(pod).get(FRACTION)
    return milli(text) if text else 0


def gpus_of(pod: Object) -> int:
    """All that a pod asks for, in thousandths of a GPU."""
    return share_of(pod) or requests(pod).get(GPU, 0)


def given(pod: Object) -> list[int]:
    """The GPUs that a pod has got."""
    text = notes(pod).get(DEVICES) or ""
    return [int(each) for each in text.split(",") if each.strip().isdigit()]


def loads(view: WhatIf, node: str, known: dict[str, list[int]], *, guess: bool = True) -> list[int]:
    """How much of each GPU of a node is in use. `known` has what the scheduler gave to each pod, by uid; where others
    are is a guess.
    """
    load = [0] * (offered(view.scene.nodes[node]).get(GPU, 0) // WHOLE)
    for pod in view.on(node):
        uid = str(pod["metadata"]["uid"])
        share, has = share_of(pod), known.get(uid)
        if has is None and guess:
            place(load, share, requests(pod).get(GPU, 0) // WHOLE)
        for index in has or ():
            if index < len(load):
                load[index] += share or WHOLE
    return load


def place(load: list[int], share: int, whole: int) -> bool:
    """Take a share of the fullest GPU that has room, or whole ones; whether there is room."""
    if share:
        able = [index for index, used in enumerate(load) if used + share <= WHOLE]
        if not able:
            return False
        load[max(able, key=lambda index: load[index])] += share
        return True
    free = [index for index, used in enumerate(load) if not used]
    for index in free[:whole]:
        load[index] = WHOLE
    return len(free) >= whole
