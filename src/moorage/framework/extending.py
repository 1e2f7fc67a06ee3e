"""An `ExtenderConfiguration` as a value: where the extender listens, and how long requests may take.

`ExtenderConfiguration()` is used if there is no document.
"""

from __future__ import annotations

from dataclasses import replace

from moorage.core.values import dataclass
from moorage.framework.configuration import ComponentConfiguration, Configuration, LeaderElection

EXTENDER_KIND = "ExtenderConfiguration"
LONGEST_WAIT_S = 1.0
"""A filter call waits no longer for another pod."""


@dataclass(frozen=True, slots=True)
class ExtenderConfiguration(ComponentConfiguration):
    """Settings of the extender."""

    kind: str = EXTENDER_KIND
    profile: str = ""
    """The profile whose plugins answer; empty: the only one."""
    listen: str = "0.0.0.0:8888"
    """HOST:PORT."""
    caller_timeout_s: float = 5.0
    """`httpTimeout` in the configuration of the calling kube-scheduler; 5 s is its default."""
    request_timeout_s: float = 5.0
    """How long the body of a request may take to arrive."""
    max_body_bytes: int = 128 << 20
    binds: bool = False
    """Whether `/bind` exists; callers need a client certificate for it."""
    leader_election: LeaderElection | None = None
    """None: as the scheduler's, with a lease of its own."""

    @property
    def longest_wait_s(self) -> float:
        """How long a filter call waits for another pod: a second, but no more than half of the caller's timeout."""
        return min(LONGEST_WAIT_S, self.caller_timeout_s / 2)


def extender_configuration(configuration: Configuration) -> ExtenderConfiguration:
    """The extender's settings of a configuration file, with its leader election resolved."""
    extender = configuration.component(ExtenderConfiguration())
    election = extender.leader_election or configuration.leader_election.on_lease_of("extender")
    return replace(extender, leader_election=election)
