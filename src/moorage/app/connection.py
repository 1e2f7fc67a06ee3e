"""How a process reaches the API server: with the configured credentials and limits, and fenced where only a leader may.

Events go through a client of their own, so that telling never waits for doing.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from moorage.adapters.kube.client import KubeClient
from moorage.adapters.kube.credentials import load_credentials
from moorage.adapters.kube.fence import FencedTransport
from moorage.app.leadership import Leadership
from moorage.framework.configuration import Configuration, LeaderElection


@contextlib.asynccontextmanager
async def connected(
    configuration: Configuration, kubeconfig: str | None, leadership: Leadership | None
) -> AsyncIterator[tuple[KubeClient, KubeClient]]:
    """The client for everything, which with a leadership writes only while that lasts; and the one for events."""
    connection = configuration.client_connection
    credentials = load_credentials(kubeconfig, connection.kubeconfig)
    async with contextlib.AsyncExitStack() as stack:
        transport = None
        if leadership is not None:
            transport = await stack.enter_async_context(contextlib.aclosing(FencedTransport(leadership.leading)))
        client = KubeClient(credentials, qps=connection.qps, burst=connection.burst, transport=transport)
        await stack.enter_async_context(client)
        yield client, await stack.enter_async_context(KubeClient(credentials))


def leadership_of(
    election: LeaderElection | None, configuration: Configuration, kubeconfig: str | None
) -> Leadership | None:
    """Who takes part in the election, None where there is none; its clients load the credentials anew."""
    if election is None or not election.leader_elect:
        return None

    def connect() -> KubeClient:
        return KubeClient(load_credentials(kubeconfig, configuration.client_connection.kubeconfig))

    return Leadership(election, connect)
