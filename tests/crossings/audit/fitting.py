"""Whether a pod fits on a node, by plain computation over all objects."""

from __future__ import annotations

from tests.crossings.audit.devices import devices_fit, extended_class
from tests.crossings.audit.fractions import GPU, loads, place, share_of
from tests.crossings.audit.neighbours import neighbours_fit
from tests.crossings.audit.scene import Object, Scene, labels, offered, requests, uid_of
from tests.crossings.audit.selectors import tolerates, wants_node
from tests.crossings.audit.units import gang_of
from tests.crossings.audit.volumes import volumes_fit
from tests.crossings.audit.whatif import WhatIf


class Fitting:
    """The fit of pods on nodes, with what the profile adds to it."""

    def __init__(self, scene: Scene, *, shares_gpus: bool = False, extended: bool = False) -> None:
        self.scene, self.shares_gpus, self.extended = scene, shares_gpus, extended
        self.given: dict[str, list[int]] = {}
        """Pod -> the GPUs that the scheduler gave it."""

    def refusal(self, view: WhatIf, pod: Object, node: str) -> str:
        """Why not; empty if it fits."""
        body = view.scene.nodes.get(node)
        if body is None:
            return "no such node"
        if not tolerates(pod, body):
            return "taint"
        if not wants_node(pod, body):
            return "node selector"
        if self.extended and labels(body).get("extender") == "refused" and not gang_of(view.scene, pod):
            return "extender"
        return (
            self._amounts(view, pod, node)
            or neighbours_fit(view, pod, node)
            or devices_fit(view, pod, node)
            or volumes_fit(view, pod, node)
            or self._gpus(view, pod, node)
        )

    def _amounts(self, view: WhatIf, pod: Object, node: str) -> str:
        has, wanted = offered(view.scene.nodes[node]), requests(pod)
        others = [other for other in view.on(node) if uid_of(other) != uid_of(pod)]
        if len(others) + 1 > has.get("pods", 0) // 1000:
            return "pods"
        for name, amount in wanted.items():
            if name not in has and extended_class(view.scene, name):
                continue
            if amount and amount + sum(requests(other).get(name, 0) for other in others) > has.get(name, 0):
                return name
        return ""

    def _gpus(self, view: WhatIf, pod: Object, node: str) -> str:
        share, whole = share_of(pod), requests(pod).get(GPU, 0) // 1000
        if not self.shares_gpus or not (share or whole):
            return ""
        return "" if place(loads(view, node, self.given), share, whole) else "GPU shares"


def fits(scene: Scene, pod: Object, node: str) -> str:
    """Why a pod does not fit on a node as it is."""
    return Fitting(scene).refusal(WhatIf(scene), pod, node)
