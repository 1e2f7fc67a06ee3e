"""`ExtenderConfiguration` of `moorage.dev/v1alpha1`: shape and sense."""

from __future__ import annotations

from typing import Any

from moorage.framework.arguments import Seconds
from moorage.framework.extending import ExtenderConfiguration
from moorage.wire.configuration.connections import read_own_election
from moorage.wire.configuration.findings import Findings, at_least, positive
from moorage.wire.configuration.schema import ComponentShape, Int64, LeaderElectionShape

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
    given: dict[str, Any] = {
        "caller_timeout_s": positive(shape.caller_timeout, "callerTimeout", findings),
        "request_timeout_s": positive(shape.request_timeout, "requestTimeout", findings),
        "max_body_bytes": at_least(shape.max_body_bytes, 1, "maxBodyBytes", findings),
        "listen": address(shape.listen, ExtenderConfiguration().listen, findings),
        "binds": shape.binds,
        "leader_election": read_own_election(shape.leader_election, "extender", findings),
    }
    settings = {name: value for name, value in given.items() if value is not None}
    return ExtenderConfiguration(profile=profile, **settings)


def address(text: str | None, example: str, findings: Findings) -> str | None:
    """Where to listen, which must be an address if it is given."""
    if text is not None and split_address(text) is None:
        findings.problem("listen", text, f"write HOST:PORT, such as {example}")
    return text


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
