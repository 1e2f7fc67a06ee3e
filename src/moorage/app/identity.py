"""The pod that this process runs in."""

from __future__ import annotations

import os
import socket

from moorage.adapters.kube.credentials import SERVICE_ACCOUNT
from moorage.core.commands import PodRef
from moorage.framework.configuration import Configuration


def own_namespace() -> str:
    """The namespace of the pod that this process runs in; empty outside a cluster."""
    named = os.environ.get("POD_NAMESPACE", "")
    if named:
        return named
    try:
        return (SERVICE_ACCOUNT / "namespace").read_text().strip()
    except OSError:
        return ""


def own_pod(configuration: Configuration) -> PodRef:
    """The pod that this process runs in; outside a cluster, one named like the host in the namespace of the lease."""
    namespace = own_namespace() or configuration.leader_election.resource_namespace
    name = os.environ.get("POD_NAME", "") or socket.gethostname().lower()
    return PodRef(namespace, name, os.environ.get("POD_UID", ""))
