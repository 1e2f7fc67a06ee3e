"""How many replicas of a component run at the same time: each keeps its own Lease, as API servers do.

There is no election. A replica counts as long as its Lease changes at least every `DURATION_S`, by our own clock:
clocks of machines are never compared. Leases that were left behind are removed after a while. Without permission to
write or to watch leases every replica assumes that it is the only one.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable

import msgspec
import structlog

from moorage.adapters import clock
from moorage.adapters.kube.client import KubeClient
from moorage.adapters.kube.errors import AlreadyExists, KubeError, NotFound
from moorage.adapters.kube.microtime import micro_time
from moorage.adapters.kube.reflector import Reflector
from moorage.adapters.kube.resources import LEASES
from moorage.adapters.kube.watchstream import ObjectMeta

LABEL = "moorage.dev/replica-of"
RENEW_S = 5.0
DURATION_S = 20.0
ABANDONED_S = 300.0

log = structlog.get_logger()


class _Spec(msgspec.Struct):
    renewed: str | None = msgspec.field(default=None, name="renewTime")


class _Lease(msgspec.Struct):
    metadata: ObjectMeta
    spec: _Spec | None = None


class _Other:
    __slots__ = ("changed_s", "version")

    def __init__(self, version: str, changed_s: float) -> None:
        self.version = version
        self.changed_s = changed_s


class Presence:
    """One replica among those of the same `component` in the same namespace; `counted` gets the number of others."""

    def __init__(
        self,
        client: KubeClient,
        namespace: str,
        component: str,
        me: str,
        counted: Callable[[int], None],
        *,
        jitter: Callable[[], float],
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._component = component
        self._me = me
        self._counted = counted
        self._monotonic_s = monotonic_s
        self._others: dict[str, _Other] = {}
        self._written = False
        self._tried = asyncio.Event()
        self._complained = False
        self._reflector: Reflector[_Lease] = Reflector(
            client,
            LEASES,
            self,
            parse=msgspec.json.Decoder(_Lease).decode,
            jitter=jitter,
            namespace=namespace,
            label_selector=f"{LABEL}={component}",
        )

    async def run(self) -> None:
        """Be present until cancelled."""
        await self._reflector.beside(self._stay())

    async def _stay(self) -> None:
        while True:
            await self._renew()
            self._tried.set()
            await self._sweep()
            await asyncio.sleep(RENEW_S)

    async def settled(self) -> None:
        """Wait until others can know of us, and we know of them; or it is known that this cannot be."""
        await self._tried.wait()
        await self._reflector.settled()

    async def leave(self) -> None:
        """Remove our Lease."""
        if self._written:
            with contextlib.suppress(KubeError):
                await self._client.delete(LEASES, self._me, self._namespace)

    # --- what the reflector sees ---

    def replaced(self, objects: list[_Lease]) -> None:
        """All Leases that exist now."""
        names = {lease.metadata.name for lease in objects}
        self._others = {name: other for name, other in self._others.items() if name in names}
        for lease in objects:
            self.upserted(lease)
        self._count()

    def upserted(self, obj: _Lease) -> None:
        """A Lease was made or renewed."""
        name, version = obj.metadata.name, (obj.spec or _Spec()).renewed or ""
        known = self._others.get(name)
        if name == self._me or (known is not None and known.version == version):
            return
        self._others[name] = _Other(version, self._monotonic_s())
        self._count()

    def deleted(self, meta: ObjectMeta) -> None:
        """A Lease was removed."""
        self._others.pop(meta.name, None)
        self._count()

    def _count(self) -> None:
        now_s = self._monotonic_s()
        self._counted(sum(now_s - other.changed_s <= DURATION_S for other in self._others.values()))

    # --- our own ---

    async def _renew(self) -> None:
        spec = {
            "holderIdentity": self._me,
            "leaseDurationSeconds": int(DURATION_S),
            "renewTime": micro_time(clock.now_s()),
        }
        try:
            if self._written:
                with contextlib.suppress(NotFound):
                    await self._client.patch(LEASES, self._me, {"spec": spec}, self._namespace)
                    return
            metadata = {"name": self._me, "namespace": self._namespace, "labels": {LABEL: self._component}}
            lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}
            with contextlib.suppress(AlreadyExists):
                await self._client.create(LEASES, lease, self._namespace)
            self._written, self._complained = True, False
        except KubeError as error:
            if not self._complained:
                log.warning("other replicas do not hear of this one", error=str(error))
            self._complained = True

    async def _sweep(self) -> None:
        """Count anew, since silence is no event; and remove what was left behind."""
        self._count()
        now_s = self._monotonic_s()
        for name in [name for name, other in self._others.items() if now_s - other.changed_s > ABANDONED_S]:
            with contextlib.suppress(KubeError):
                await self._client.delete(LEASES, name, self._namespace)
