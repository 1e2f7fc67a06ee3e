"""Leader election, the client's connection and HTTP extenders: their sense, with kube-scheduler's limits."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from moorage.framework.configuration import (
    LEASE_NAME,
    LEASE_NAMESPACE,
    ClientConnection,
    Extender,
    ExtenderTls,
    LeaderElection,
    ManagedResource,
)
from moorage.wire.configuration.findings import Findings, positive
from moorage.wire.configuration.schema import (
    ClientConnectionShape,
    ExtenderShape,
    ExtenderTlsShape,
    LeaderElectionShape,
)
from moorage.wire.configuration.shapes import UNREADABLE

_JITTER = 1.2
_STOCK_LEASE = ("kube-system", "kube-scheduler")
_DNS_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_EXTENDED_RESOURCE = re.compile(
    rf"(?P<domain>{_DNS_LABEL}(\.{_DNS_LABEL})*)/[A-Za-z0-9]([-A-Za-z0-9_.]{{0,61}}[A-Za-z0-9])?", re.ASCII
)
_LONGEST_DOMAIN = 253 - len("requests.")


def read_leader_election(shape: LeaderElectionShape, findings: Findings) -> LeaderElection:
    """Zero and empty mean the default; nothing is checked where there is no election."""
    default = LeaderElection()
    result = LeaderElection(
        leader_elect=shape.leader_elect,
        lease_duration_s=shape.lease_duration or default.lease_duration_s,
        renew_deadline_s=shape.renew_deadline or default.renew_deadline_s,
        retry_period_s=shape.retry_period or default.retry_period_s,
        resource_lock=shape.resource_lock or default.resource_lock,
        resource_name=shape.resource_name or LEASE_NAME,
        resource_namespace=shape.resource_namespace or LEASE_NAMESPACE,
    )
    if result.leader_elect:
        check_leader_election(result, findings)
    return result


def read_own_election(shape: LeaderElectionShape | None, component: str, findings: Findings) -> LeaderElection | None:
    """The election of a component that has its own document, on its own lease unless it names one."""
    if shape is None:
        return None
    election = read_leader_election(shape, findings)
    return election if shape.resource_name else election.on_lease_of(component)


def check_leader_election(election: LeaderElection, findings: Findings) -> None:
    """Find what is wrong with an election that is to take place; also for those that a flag asks for."""
    _check_durations(election, findings)
    _check_lease(election, findings)


def _check_durations(election: LeaderElection, findings: Findings) -> None:
    lease_s, renew_s, retry_s = election.lease_duration_s, election.renew_deadline_s, election.retry_period_s
    durations = {"leaseDuration": lease_s, "renewDeadline": renew_s, "retryPeriod": retry_s}
    for name, seconds in durations.items():
        positive(seconds, f"leaderElection.{name}", findings)
    path = "leaderElection.leaseDuration"
    if lease_s <= renew_s and not (findings.touches(path) or findings.touches("leaderElection.renewDeadline")):
        findings.problem(path, f"{lease_s:g}s", f"must be longer than renewDeadline, which is {renew_s:g}s")
    path = "leaderElection.renewDeadline"
    if renew_s <= _JITTER * retry_s and not (findings.touches(path) or findings.touches("leaderElection.retryPeriod")):
        message = f"must be longer than {_JITTER} times retryPeriod, which is {retry_s:g}s"
        findings.problem(path, f"{renew_s:g}s", message)


def _check_lease(election: LeaderElection, findings: Findings) -> None:
    if election.resource_lock != "leases":
        findings.problem("leaderElection.resourceLock", election.resource_lock, "must be leases")
    if is_stock_lease(election):
        message = (
            "in kube-system this is the lease that a stock kube-scheduler holds, and only one of both will work; "
            f"leave it out to use {LEASE_NAME}"
        )
        findings.notice("leaderElection.resourceName", election.resource_name, message)


def is_stock_lease(election: LeaderElection) -> bool:
    """Whether it is on the lease that a stock kube-scheduler holds."""
    return (election.resource_namespace, election.resource_name) == _STOCK_LEASE


def read_client_connection(shape: ClientConnectionShape, findings: Findings) -> ClientConnection:
    """Zero and empty mean the default."""
    default = ClientConnection()
    if shape.burst < 0:
        findings.problem("clientConnection.burst", shape.burst, "must not be negative")
    if shape.qps < 0:
        message = f"means that requests are not limited here, as in kube-scheduler; leave it out for {default.qps:g}"
        findings.notice("clientConnection.qps", f"{shape.qps:g}", message)
    for name, text in (("acceptContentTypes", shape.accept_content_types), ("contentType", shape.content_type)):
        if text and text != default.content_type:
            findings.notice(f"clientConnection.{name}", text, "has no effect: Moorage speaks application/json")
    return ClientConnection(
        kubeconfig=shape.kubeconfig,
        accept_content_types=shape.accept_content_types,
        content_type=shape.content_type or default.content_type,
        qps=shape.qps or default.qps,
        burst=shape.burst or default.burst,
    )


def read_extenders(shapes: list[ExtenderShape], findings: Findings) -> tuple[Extender, ...]:
    """Each by itself, then that only one binds and that no resource has two extenders."""
    owners: dict[str, str] = {}
    for index, shape in enumerate(shapes):
        path = f"extenders[{index}]"
        _check_extender(path, shape, findings)
        _check_managed_resources(path, shape, owners, findings)
    binders = [index for index, shape in enumerate(shapes) if shape.bind_verb]
    for index in binders[1:]:
        message = f"only one extender can bind, and extenders[{binders[0]}] does; remove one bindVerb"
        findings.problem(f"extenders[{index}].bindVerb", shapes[index].bind_verb, message)
    return tuple(_extender(shape) for shape in shapes)


def _check_extender(path: str, shape: ExtenderShape, findings: Findings) -> None:
    if shape.url_prefix != UNREADABLE and not _is_http(shape.url_prefix):
        message = "must be an address such as http://host:8888/scheduler"
        findings.problem(f"{path}.urlPrefix", shape.url_prefix, message)
    if shape.prioritize_verb and shape.weight <= 0 and not findings.touches(f"{path}.weight"):
        findings.problem(f"{path}.weight", shape.weight, "must be 1 or more where there is a prioritizeVerb")
    if shape.http_timeout < 0:
        findings.problem(f"{path}.httpTimeout", f"{shape.http_timeout:g}s", "must not be negative; 0s means 5s")


def _is_http(text: str) -> bool:
    try:
        address = urlsplit(text)
    except ValueError:
        return False
    return address.scheme in ("http", "https") and bool(address.hostname)


def _check_managed_resources(path: str, shape: ExtenderShape, owners: dict[str, str], findings: Findings) -> None:
    for index, resource in enumerate(shape.managed_resources):
        here = f"{path}.managedResources[{index}].name"
        if resource.name == UNREADABLE:
            continue
        if not _is_extended_resource(resource.name):
            message = "not the name of an extended resource; write domain/name, such as example.com/gpu"
            findings.problem(here, resource.name, message)
        if resource.name in owners:
            findings.problem(here, resource.name, f"managed twice; remove this or {owners[resource.name]}")
        owners.setdefault(resource.name, here)


def _is_extended_resource(name: str) -> bool:
    match = _EXTENDED_RESOURCE.fullmatch(name)
    if match is None or "kubernetes.io/" in name or name.startswith("requests."):
        return False
    return len(match["domain"]) <= _LONGEST_DOMAIN


def _extender(shape: ExtenderShape) -> Extender:
    resources = tuple(ManagedResource(r.name, r.ignored_by_scheduler) for r in shape.managed_resources)
    return Extender(
        url_prefix=shape.url_prefix,
        filter_verb=shape.filter_verb,
        preempt_verb=shape.preempt_verb,
        prioritize_verb=shape.prioritize_verb,
        bind_verb=shape.bind_verb,
        weight=shape.weight,
        enable_https=shape.enable_https,
        tls=None if shape.tls_config is None else _tls(shape.tls_config),
        http_timeout_s=shape.http_timeout or 5.0,
        node_cache_capable=shape.node_cache_capable,
        managed_resources=resources,
        ignorable=shape.ignorable,
    )


def _tls(shape: ExtenderTlsShape) -> ExtenderTls:
    return ExtenderTls(
        insecure=shape.insecure,
        server_name=shape.server_name,
        cert_file=shape.cert_file,
        key_file=shape.key_file,
        ca_file=shape.ca_file,
        cert_data=shape.cert_data,
        key_data=shape.key_data,
        ca_data=shape.ca_data,
    )
