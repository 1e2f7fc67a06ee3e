"""`--leader-elect`, for the commands that have replicas: it overrides the configuration, and is validated in the same
way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from moorage.cli.output import InputError, say
from moorage.framework.configuration import Configuration, LeaderElection
from moorage.wire.configuration.connections import check_leader_election
from moorage.wire.configuration.findings import Findings
from moorage.wire.problems import Problem


def with_flag(configuration: Configuration, leader_elect: bool | None, config_file: str | None) -> Configuration:
    """The configuration as the flag changes it; None: the flag was not given."""
    if leader_elect is None:
        return configuration
    election = elected(configuration.leader_election, leader_elect, config_file)
    return replace(configuration, leader_election=election)


def elected(election: LeaderElection, leader_elect: bool, config_file: str | None) -> LeaderElection:
    """The election as the flag changes it. The settings of an election that a file turns off have not been validated
    before.
    """
    if leader_elect and not election.leader_elect:
        check(election, config_file or "--leader-elect", tell=partial(say, "note"))
    return replace(election, leader_elect=leader_elect)


def check(election: LeaderElection, source: str, tell: Callable[[Sequence[Problem]], None] = lambda _: None) -> None:
    """An election that is not valid ends the command. `source` is where it comes from, `tell` gets what to note."""
    findings = Findings(source)
    check_leader_election(election, findings)
    tell(findings.notices)
    if findings.problems:
        raise InputError(findings.problems)
