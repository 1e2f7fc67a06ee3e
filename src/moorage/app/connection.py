"""How a process reaches the API server: with the configured credentials and limits, and fenced where only a leader may.

Events go through a client of their own, so that telling never waits for the rate limit of doing. Both share their
connections: those that binds no longer need carry the events that are still to be told.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from moorage.adapters.kube.client import KubeClient
from moorage.adapters.kube.credentials import load_credentials
from moorage.adapters.kube.direct import DirectTransport
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
    async with contextlib.aclosing(DirectTransport()) as shared:
        fenced = shared if leadership is None else FencedTransport(shared, leadership.leading)
        client = KubeClient(credentials, qps=connection.qps, burst=connection.burst, transport=fenced)
        yield client, KubeClient(credentials, transport=shared)


def leadership_of(
    election: LeaderElection | None, configuration: Configuration, kubeconfig: str | None
) -> Leadership | None:
    """Who takes part in the election, None where there is none; its clients load the credentials anew."""
    if election is None or not election.leader_elect:
        return None

    def connect() -> KubeClient:
        return KubeClient(load_credentials(kubeconfig, configuration.client_connection.kubeconfig))

    return Leadership(election, connect)
