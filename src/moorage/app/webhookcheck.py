"""Whether the webhook would answer the API server: asked as the API server asks it, by its registration.

The keeper evicts nothing whose successor needs the webhook without knowing that.
"""

from __future__ import annotations

import asyncio
from typing import Any

import structlog

from moorage.adapters.kube.client import KubeClient
from moorage.adapters.kube.errors import Forbidden, KubeError, NotFound, decode_answer
from moorage.adapters.kube.registration import WEBHOOK_CONFIGURATIONS
from moorage.adapters.webhook.elder import Elder
from moorage.core.events import WebhookAsked
from moorage.wire.webhooks import addresses, ca_bundle, excluded_namespaces

REGISTRATION_S = 30.0
"""How long a registration is believed; it hardly ever changes."""
_LONGEST_S = 5.0

log = structlog.get_logger()


class WebhookCheck:
    """Asks the webhook that a MutatingWebhookConfiguration names."""

    def __init__(self, client: KubeClient, name: str) -> None:
        self._client = client
        self._name = name
        self._found: dict[str, Any] = {}
        self._addresses: list[str] = []
        self._read_s = float("-inf")
        self._elder: Elder | None = None
        self._told: str | None = None

    async def ask(self) -> WebhookAsked:
        """Ask now. What changes is one line in the log."""
        problem = await self._problem()
        if problem != self._told and (problem or self._told is not None):
            if problem:
                log.warning("the webhook does not answer, so no split is repaired that depends on it", why=problem)
            else:
                log.info("the webhook answers, splits are repaired again")
        self._told = problem
        return WebhookAsked(problem, excluded_namespaces(self._found))

    async def aclose(self) -> None:
        """Close all connections."""
        if self._elder is not None:
            await self._elder.aclose()

    async def _problem(self) -> str:
        if not self._name:
            return "WebhookConfiguration names no registration (webhookName)"
        try:
            async with asyncio.timeout(_LONGEST_S):
                await self._look()
        except NotFound:
            return f"there is no MutatingWebhookConfiguration {self._name}"
        except Forbidden:
            return f"MutatingWebhookConfiguration {self._name} may not be read; grant get on it to this account"
        except TimeoutError:
            return "the API server does not answer"
        except KubeError as error:
            return str(error)
        except ValueError as error:  # a URL that the API server lets pass
            return f"MutatingWebhookConfiguration {self._name}: {error}"
        if self._elder is None:
            return f"MutatingWebhookConfiguration {self._name} names no webhook"
        problems = [await self._elder.problem(address) for address in self._addresses]
        if any(problems):
            self._read_s = float("-inf")  # the CA bundle may be another one by now
        return next(filter(None, problems), "")

    async def _look(self) -> None:
        now = asyncio.get_running_loop().time()
        if now - self._read_s < REGISTRATION_S:
            return
        self._found = {}
        answer = await self._client.get(WEBHOOK_CONFIGURATIONS, self._name)
        self._found = decode_answer(answer, dict[str, Any])
        await self.aclose()
        self._addresses = []
        self._addresses = list(addresses(self._found))
        self._read_s = now
        hosts = [address.rpartition(":")[0] for address in self._addresses]
        self._elder = Elder(hosts[0], lambda: ca_bundle(self._found)) if hosts else None
