"""A small share of the load of webhook_load.py: the certificate is replaced under it, and no handshake fails."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

from moorage.adapters.kube.client import KubeClient
from moorage.adapters.kube.credentials import load_credentials
from moorage.adapters.listening import listening
from moorage.adapters.webhook.renewal import SelfRenewal
from moorage.adapters.webhook.server import BOUNDS
from moorage.app.lifetime import cancel
from moorage.app.webhook import WebhookOptions, WebhookProcess
from moorage.bench.controlplane import ControlPlane
from moorage.bench.processes import free_ports
from moorage.framework.admitting import WebhookConfiguration
from tests.app.webhook_load import Figures, Load, registered_bundle

SPREAD_S = 4.0
"""How long the new authority is known before its certificate is served; plenty for a machine that is busy."""
RATE = 30.0
WAIT_S = 120.0


async def _under_load(plane: ControlPlane) -> Figures:
    port = free_ports(1)[0]
    settings = WebhookConfiguration(url=f"https://localhost:{port}/mutate", certificate_spread_s=SPREAD_S)
    async with AsyncExitStack() as stack:
        credentials = load_credentials(str(plane.admin_kubeconfig))
        client = await stack.enter_async_context(KubeClient(credentials))
        events_client = await stack.enter_async_context(KubeClient(credentials))
        process = WebhookProcess(settings, client, events_client, ("127.0.0.1", 0), WebhookOptions())
        await stack.enter_async_context(process.running())
        await stack.enter_async_context(
            listening(process.application(), "127.0.0.1", port, process.renewal.serving.context, bounds=BOUNDS)
        )
        working = asyncio.create_task(process.work())
        try:
            await _ready(process, working)
            trusted = await asyncio.to_thread(registered_bundle, plane)
            load = Load(port, lambda: registered_bundle(plane), trusted=trusted)
            assert isinstance(process.renewal, SelfRenewal)
            renewing = asyncio.create_task(process.renewal.renew())
            while not renewing.done():
                await load.run(1.0, RATE)
            return await load.run(1.0, RATE)
        finally:
            await cancel([working])


async def _ready(process: WebhookProcess, working: asyncio.Task[None]) -> None:
    """Wait until it is; what ends its work is raised here, and what it still waits for is told."""
    ready = asyncio.create_task(process.ready())
    await asyncio.wait([ready, working], timeout=WAIT_S, return_when=asyncio.FIRST_COMPLETED)
    if working.done():
        await working
    assert ready.done(), process.unready()


def test_the_certificate_is_replaced_under_load(empty_control_plane: ControlPlane) -> None:
    """Everybody who follows the registration's CA bundle is served throughout, by the old certificate and the new."""
    figures = asyncio.run(_under_load(empty_control_plane))
    assert figures.failures == []
    assert len(figures.serials) == 2
    assert len(figures.kept_s) + len(figures.fresh_s) >= (SPREAD_S + 1.0) * RATE
