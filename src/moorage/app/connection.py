"""How a process reaches the API server: with the configured credentials and limits, and fenced if a leader writes.

Events have a client of their own, so that they neither wait for the rate limit of other requests nor use it up. Both
share their connections: those that binds no longer need carry the remaining events.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
from collections.abc import AsyncIterator

import structlog

from moorage.adapters.kube.client import KubeClient
from moorage.adapters.kube.credentials import load_credentials
from moorage.adapters.kube.direct import DirectTransport
from moorage.adapters.kube.discovery import ServedResources, served_resources, server_version
from moorage.adapters.kube.errors import ServerError, Timeout, TooManyRequests, Unreachable, Untrusted
from moorage.adapters.kube.fence import FencedTransport
from moorage.app.leadership import Leadership
from moorage.framework.configuration import Configuration, LeaderElection

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 5.0
_TRANSIENT = (Unreachable, Timeout, TooManyRequests, ServerError)

log = structlog.get_logger()


@contextlib.asynccontextmanager
async def connected(
    configuration: Configuration, kubeconfig: str | None, leadership: Leadership | None
) -> AsyncIterator[tuple[KubeClient, KubeClient]]:
    """The client for everything, which with a leadership writes only while it lasts; and the client for events."""
    connection = configuration.client_connection
    credentials = load_credentials(kubeconfig, connection.kubeconfig, server=connection.server)
    async with contextlib.aclosing(DirectTransport()) as shared:
        fenced = shared if leadership is None else FencedTransport(shared, leadership.leading)
        client = KubeClient(credentials, qps=connection.qps, burst=connection.burst, transport=fenced)
        yield client, KubeClient(credentials, transport=shared)


def leadership_of(
    election: LeaderElection | None, configuration: Configuration, kubeconfig: str | None
) -> Leadership | None:
    """This process in the election, None if there is no election; its clients load the credentials themselves."""
    if election is None or not election.leader_elect:
        return None

    def connect() -> KubeClient:
        connection = configuration.client_connection
        return KubeClient(load_credentials(kubeconfig, connection.kubeconfig, server=connection.server))

    return Leadership(election, connect)


async def reached(client: KubeClient) -> ServedResources:
    """Wait until the API server answers, with one line in the log; returns what it serves.

    A process that is started during an outage waits for its end. Errors that waiting does not cure are raised: rejected
    credentials, a certificate that is not trusted, an address where something else answers.
    """
    for attempt in itertools.count():
        try:
            version = await server_version(client)
            served = await served_resources(client)
        except _TRANSIENT as error:
            if isinstance(error, Untrusted) or (isinstance(error, ServerError) and not error.status):
                raise
            if not attempt:
                log.warning("the API server does not answer, waiting for it", server=client.server, error=error.message)
            ceiling_s = min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2.0 ** min(attempt, 10))
            await asyncio.sleep(ceiling_s * (0.5 + random.random() / 2))
        else:
            log.info("connected", server=client.server, version=version.git_version)
            return served
    raise AssertionError
