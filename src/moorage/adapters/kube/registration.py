"""Keeps one MutatingWebhookConfiguration up to date.

Changes by hand or by a chart are reverted a moment later; the desired content may change as well. Every write has the
replaced version as precondition, so replicas that write at the same time never undo each other's changes. A missing
object is created only if that is configured, and an object created here is deleted again by `withdraw`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import msgspec
import structlog

from moorage.adapters.kube.client import KubeClient
from moorage.adapters.kube.errors import Conflict, KubeError, NotFound, decode_answer
from moorage.adapters.kube.reflector import Phase, Reflector
from moorage.adapters.kube.resources import Resource
from moorage.adapters.kube.watchstream import ObjectMeta

WEBHOOK_CONFIGURATIONS = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "mutatingwebhookconfigurations",
    namespaced=False,
    kind="MutatingWebhookConfiguration",
)
LEAST_PAUSE_S = 0.2
"""Between two writes: a controller that always reverts ours must not keep the server busy."""
LONGEST_PAUSE_S = 5.0

Document = dict[str, Any]

log = structlog.get_logger()


class Registration:
    """One object: `true` gives what has to be for what is, `make` what to create where there is none, if anything.

    `reconciled` is told how each look at it ended (`success`, `requeue` or `error`) and how many seconds it took.
    """

    def __init__(
        self,
        client: KubeClient,
        name: str,
        true: Callable[[Document], Document],
        *,
        make: Callable[[], Document] | None = None,
        reconciled: Callable[[str, float], None] = lambda *_: None,
        jitter: Callable[[], float],
    ) -> None:
        self.current: Document | None = None
        """As the server has it; None while there is none."""
        self.problem = ""
        """Why it could not be written; empty if it could."""
        self._client = client
        self._name = name
        self._true = true
        self._make = make
        self._reconciled = reconciled
        self._made = False
        self._stirred = asyncio.Event()
        self._rounds = 0
        self._done = asyncio.Condition()
        self._reflector: Reflector[Document] = Reflector(
            client,
            WEBHOOK_CONFIGURATIONS,
            self,
            parse=msgspec.json.decode,
            jitter=jitter,
            field_selector=f"metadata.name={name}",
        )

    async def run(self) -> None:
        """Keep it up to date until cancelled."""
        await self._reflector.beside(self._keep())

    async def looked(self) -> Document | None:
        """Wait for the first look; the object, None where there is none or we may not look."""
        await self._reflector.settled()
        self.problem = self.problem or self._blindness()
        return self.current

    async def ensured(self) -> None:
        """Wait until it has been made true once more, or it is known (`problem`) why not."""
        await self.looked()
        async with self._done:
            seen = self._rounds
            self._stirred.set()
            await self._done.wait_for(lambda: self._rounds > seen)

    async def withdraw(self) -> None:
        """Remove the object if it was made here."""
        if self._made:
            self._make, self._made = None, False
            await self._client.delete(WEBHOOK_CONFIGURATIONS, self._name)

    # --- what the reflector sees ---

    def replaced(self, objects: list[Document]) -> None:
        """Everything that exists now, which is one object or none."""
        self._take(objects[0] if objects else None)

    def upserted(self, obj: Document) -> None:
        """It was made or changed."""
        self._take(obj)

    def deleted(self, meta: ObjectMeta) -> None:  # noqa: ARG002 - part of the interface
        """It was removed."""
        self._take(None)

    def _take(self, document: Document | None) -> None:
        self.current = document
        self._stirred.set()

    # --- keeping it true ---

    async def _keep(self) -> None:
        await self._reflector.settled()
        failures = 0
        while True:
            await self._stirred.wait()
            self._stirred.clear()
            again, began_s = False, time.monotonic()
            try:
                again = await self._write()
                failures, self.problem = 0, self._blindness()
            except KubeError as error:
                failures += 1
                self._complain(str(error))
            self._reconciled("error" if failures else "requeue" if again else "success", time.monotonic() - began_s)
            if not again:
                async with self._done:
                    self._rounds += 1
                    self._done.notify_all()
            await asyncio.sleep(min(LONGEST_PAUSE_S, LEAST_PAUSE_S * 2.0 ** min(failures, 10)))
            if again or failures:
                self._stirred.set()

    def _blindness(self) -> str:
        """Why it cannot be looked at; empty if it can, or could a moment ago."""
        state = self._reflector.state
        return "" if state.phase in (Phase.SYNCED, Phase.RETRYING) else f"cannot be read: {state.error or state.phase}"

    async def _write(self) -> bool:
        """Write the desired content; True if there was a conflict, and it has to be read again."""
        current = self.current
        if current is None:
            return await self._create()
        wanted = self._true(current)
        if wanted == current:
            return False
        try:
            answer = await self._client.replace(WEBHOOK_CONFIGURATIONS, self._name, wanted)
        except (Conflict, NotFound):
            return True
        # The watch may show an older version still; what the server has taken is known already.
        self.current = decode_answer(answer, Document)
        log.info("webhook configuration written", name=self._name)
        return False

    async def _create(self) -> bool:
        if self._make is None:
            return False
        try:
            answer = await self._client.create(WEBHOOK_CONFIGURATIONS, self._make())
        except Conflict:
            return True
        self.current, self._made = decode_answer(answer, Document), True
        log.info("webhook configuration made", name=self._name)
        return False

    def _complain(self, problem: str) -> None:
        if problem != self.problem:
            log.warning("webhook configuration not written, it will be tried again", name=self._name, error=problem)
        self.problem = problem
