"""The embedded cluster: store, clock, admission, controllers, kubelets and collectors, wired together.

Nothing happens by itself. Requests change the store at once; `step` lets all controllers react until nothing is left to
do; `advance` moves the clock from timer to timer, with a step after each. Same seed and same calls: same cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any, Protocol

from moorage.adapters.memory.admission import StoreAdmission
from moorage.adapters.memory.changes import Watch
from moorage.adapters.memory.clock import START_S, Clock
from moorage.adapters.memory.collection import GarbageCollection, PodCollection
from moorage.adapters.memory.controllers.lineage import Lineage
from moorage.adapters.memory.controllers.workloads import Workloads
from moorage.adapters.memory.devices import DeviceControllers
from moorage.adapters.memory.disruption import DisruptionController
from moorage.adapters.memory.errors import Invalid
from moorage.adapters.memory.expansion import Expansion
from moorage.adapters.memory.kubelet import KubeletOptions, Kubelets
from moorage.adapters.memory.objects import KubeObject, controller_of, is_terminating, key_of, metadata_of
from moorage.adapters.memory.snapshot import prepare
from moorage.adapters.memory.store import Store
from moorage.adapters.memory.volumes import VolumeControllers
from moorage.core.values import dataclass

_MOST_ROUNDS = 1000


@dataclass(frozen=True, slots=True)
class Behaviour:
    """What kind of cluster it is."""

    lifelike: bool
    """True: controllers as in Kubernetes, random names, strict admission. False: the simulator's `expansion`."""
    kubelet: KubeletOptions = field(default_factory=KubeletOptions)
    pod_collection_delay_s: float = 5.0
    """How long pods outlive their deleted node."""
    budgets: bool = False
    """Whether the status of disruption budgets is computed; otherwise it is what its maker wrote."""


LIFELIKE = Behaviour(
    lifelike=True, kubelet=KubeletOptions(start_delay_s=1.0, stop_delay_s=1.0, run_s=20.0), budgets=True
)
"""The demo's cluster."""
INSTANT = Behaviour(lifelike=True, pod_collection_delay_s=0.0)
"""As Kubernetes, only without waiting; for contract tests."""
SIMULATION = Behaviour(lifelike=False, kubelet=KubeletOptions(ready_nodes=False), pod_collection_delay_s=0.0)
"""The simulator's cluster: the input is taken at its word."""


class Part(Protocol):
    """Something that reacts to changes."""

    def step(self) -> object:
        """Called until a round of all parts commits nothing; may only change the store and set timers."""


class EmbeddedCluster:
    """One cluster in memory."""

    def __init__(self, behaviour: Behaviour = LIFELIKE, *, seed: int = 0, start_s: float = START_S) -> None:
        self.clock = Clock(start_s)
        self.store = Store(self.clock, seed=seed)
        self.admission = StoreAdmission(self.store, strict=behaviour.lifelike)
        self._lineage = Lineage(self.store)
        self._loaded = 0
        makers = Workloads if behaviour.lifelike else Expansion
        self._makers = makers(self.store, self.admission)
        self._parts: tuple[Part, ...] = (
            self._makers,
            VolumeControllers(self.store),
            DeviceControllers(self.store),
            Kubelets(self.store, behaviour.kubelet),
            PodCollection(self.store, behaviour.pod_collection_delay_s),
            GarbageCollection(self.store),
            *([DisruptionController(self.store)] if behaviour.budgets else []),
        )

    # Time

    @property
    def now_s(self) -> float:
        """The virtual time."""
        return self.clock.now_s

    @property
    def next_s(self) -> float | None:
        """When something will happen by itself, None if never."""
        return self.clock.next_s

    def step(self) -> bool:
        """Let all controllers react until a whole round changes nothing; whether anything changed at all."""
        start = self.store.resource_version
        for _ in range(_MOST_ROUNDS):
            before = self.store.resource_version
            for part in self._parts:
                part.step()
            if self.store.resource_version == before and self.next_s != self.now_s:
                return before != start
            self.clock.advance_to(self.now_s)
        raise RuntimeError(f"the embedded cluster did not come to rest within {_MOST_ROUNDS} rounds")

    def advance(self, to_s: float) -> None:
        """Move time to `to_s`, timer by timer, with a step before, between and after."""
        self.step()
        while (due_s := self.next_s) is not None and due_s <= to_s:
            self.clock.advance_to(max(due_s, self.now_s))
            self.step()
        self.clock.advance_to(to_s)

    # Requests

    def load(self, objects: Iterable[KubeObject]) -> None:
        """Take over a snapshot: identities, times and status stay; owners without uid are matched by name."""
        for obj in prepare(objects, self.store):
            self.admission.load(obj)
        self._loaded = self.store.made

    def create(self, obj: KubeObject) -> KubeObject:
        """Create an object, as a POST does."""
        return self.admission.create(obj)

    def apply(self, obj: KubeObject) -> KubeObject:
        """Create the object, or put it in place of the one of its name; the status stays."""
        admitted = self.admission.admit(obj)
        key = key_of(admitted)
        present = self.store.find(*key)
        if present is None:
            return self.admission.create(obj)
        metadata = {k: v for k, v in metadata_of(admitted).items() if k not in ("resourceVersion", "uid")}
        return self.store.replace({**admitted, "metadata": metadata})

    def scale(self, kind: str, namespace: str, name: str, replicas: int) -> KubeObject:
        """Set the number of replicas."""
        if replicas < 0:
            raise Invalid(f"{kind} {namespace}/{name}: spec.replicas: Invalid value: {replicas}: give 0 or more")
        return self.store.patch(kind, namespace, name, {"spec": {"replicas": replicas}})

    def patch(self, kind: str, namespace: str, name: str, patch: Mapping[str, Any]) -> KubeObject:
        """Merge a patch into everything but the status."""
        return self.store.patch(kind, namespace, name, patch)

    def delete(
        self, kind: str, namespace: str, name: str, *, grace_s: int | None = None, uid: str | None = None
    ) -> KubeObject:
        """Delete an object, as a DELETE does; its children follow with the next step."""
        return self.store.delete(kind, namespace, name, grace_s=grace_s, uid=uid)

    def watch(self, kinds: Iterable[str] | None = None, *, replay: bool = True) -> Watch:
        """Follow these kinds (None: all); the present objects come first unless `replay` is False."""
        return self.store.watch(kinds, replay=replay)

    # Questions

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the API server refused to controllers, or would have refused where a simulation goes on."""
        return (*self.admission.warnings, *self._makers.refusals)

    def pending_pods(self) -> list[KubeObject]:
        """The pods that wait for a node, oldest first."""
        return [p for p in self.store.list("Pod") if not p["spec"].get("nodeName") and not is_terminating(p)]

    def place_of(self, obj: KubeObject) -> tuple[int, int]:
        """A sort key: place in the input; a pod that a controller made stands where its topmost owner stands."""
        serial = self.store.serial(obj["metadata"]["uid"])
        owner = controller_of(obj)
        if serial <= self._loaded or owner is None:
            return (serial, 0)
        above = [self.store.serial(each["metadata"]["uid"]) for each in self._lineage.ancestors(obj)]
        given = [each for each in above if each <= self._loaded] or above
        return (given[-1] if given else serial, serial)
