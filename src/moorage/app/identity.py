"""The pod that this process runs in."""

from __future__ import annotations

import os
import socket
from ipaddress import ip_address

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


def own_address(host: str, port: int) -> str:
    """Where others in the cluster reach a port of this process, HOST:PORT; empty if that is not known."""
    if host not in ("0.0.0.0", "::"):  # noqa: S104 - compared with, never bound to
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    named = os.environ.get("POD_IP", "")
    if named:
        return own_address(named, port)
    try:
        # The kubelet writes a pod's own address into its /etc/hosts.
        found = [str(each[4][0]) for each in socket.getaddrinfo(socket.gethostname(), port, type=socket.SOCK_STREAM)]
    except OSError:
        return ""
    usable = [each for each in found if not ip_address(each.partition("%")[0]).is_loopback]
    return own_address(usable[0], port) if usable else ""


def own_pod(configuration: Configuration) -> PodRef:
    """The pod that this process runs in; outside a cluster, one named like the host in the namespace of the lease."""
    namespace = own_namespace() or configuration.leader_election.resource_namespace
    name = os.environ.get("POD_NAME", "") or socket.gethostname().lower()
    return PodRef(namespace, name, os.environ.get("POD_UID", ""))
