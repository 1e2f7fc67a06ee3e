"""An `ExtenderConfiguration` as a value: where the extender listens, and what a question may cost.

`ExtenderConfiguration()` is what runs with no document.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from moorage.framework.configuration import Configuration, LeaderElection, WayIn

EXTENDER_KIND = "ExtenderConfiguration"
LONGEST_WAIT_S = 1.0
"""A filter call waits no longer for another pod."""


@dataclass(frozen=True, slots=True)
class ExtenderConfiguration(WayIn):
    """What only the extender needs."""

    kind: str = EXTENDER_KIND
    profile: str = ""
    """Whose plugins answer; empty: the only one."""
    listen: str = "0.0.0.0:8888"
    """HOST:PORT."""
    caller_timeout_s: float = 5.0
    """`httpTimeout` of the kube-scheduler that asks; 5 s is its default."""
    request_timeout_s: float = 5.0
    """How long the body of a question may take to arrive."""
    max_body_bytes: int = 128 << 20
    binds: bool = False
    """Whether `/bind` exists; callers need a client certificate for it."""
    leader_election: LeaderElection | None = None
    """None: as the scheduler's, on a lease of the extender's own."""

    @property
    def longest_wait_s(self) -> float:
        """How long a filter call waits for another pod: a second, and half of what the caller waits for us."""
        return min(LONGEST_WAIT_S, self.caller_timeout_s / 2)


def extender_configuration(configuration: Configuration) -> ExtenderConfiguration:
    """What a configuration file says about the extender, with its leader election worked out."""
    found = configuration.ways_in.get(EXTENDER_KIND)
    extender = found if isinstance(found, ExtenderConfiguration) else ExtenderConfiguration()
    if extender.leader_election is not None:
        return extender
    return replace(extender, leader_election=configuration.leader_election.on_lease_of("extender"))
