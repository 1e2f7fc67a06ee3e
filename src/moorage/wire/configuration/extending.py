"""`ExtenderConfiguration` of `moorage.dev/v1alpha1`: shape and sense."""

from __future__ import annotations

from typing import Any

from moorage.framework.extending import ExtenderConfiguration
from moorage.wire.configuration.connections import read_own_election
from moorage.wire.configuration.findings import Findings
from moorage.wire.configuration.schema import ComponentShape, Int64, LeaderElectionShape, Seconds

_HIGHEST_PORT = 65535


class ExtenderDocumentShape(ComponentShape):
    """Everything has a default."""

    listen: str | None = None
    caller_timeout: Seconds | None = None
    request_timeout: Seconds | None = None
    max_body_bytes: Int64 | None = None
    binds: bool | None = None
    leader_election: LeaderElectionShape | None = None


def read_extender(shape: ExtenderDocumentShape, profile: str, findings: Findings) -> ExtenderConfiguration:
    """The configuration with its defaults; what makes no sense is reported."""
    durations = {"callerTimeout": shape.caller_timeout, "requestTimeout": shape.request_timeout}
    for path, seconds in durations.items():
        if seconds is not None and seconds <= 0:
            findings.problem(path, f"{seconds:g}s", "must be longer than 0s")
    if shape.max_body_bytes is not None and shape.max_body_bytes <= 0:
        findings.problem("maxBodyBytes", shape.max_body_bytes, "must be 1 or more")
    if shape.listen is not None and split_address(shape.listen) is None:
        findings.problem("listen", shape.listen, "write HOST:PORT, such as 0.0.0.0:8888")
    given: dict[str, Any] = {
        "listen": shape.listen,
        "caller_timeout_s": shape.caller_timeout,
        "request_timeout_s": shape.request_timeout,
        "max_body_bytes": shape.max_body_bytes,
        "binds": shape.binds,
        "leader_election": read_own_election(shape.leader_election, "extender", findings),
    }
    settings = {name: value for name, value in given.items() if value is not None}
    return ExtenderConfiguration(profile=profile, **settings)


def split_address(text: str) -> tuple[str, int] | None:
    """`HOST:PORT` as its parts, None if it is not one; no host means all addresses, and `[...]` goes around IPv6."""
    host, colon, port = text.rpartition(":")
    if not colon or not (port.isascii() and port.isdigit() and len(port) <= 5 and int(port) <= _HIGHEST_PORT):
        return None
    if host.startswith("[") and host.endswith("]"):
        return host[1:-1], int(port)
    if ":" in host or any(character.isspace() for character in host):
        return None
    return host or "0.0.0.0", int(port)  # noqa: S104 - said in so many words
