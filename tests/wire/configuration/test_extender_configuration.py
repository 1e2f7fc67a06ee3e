"""`ExtenderConfiguration`: defaults, values, mistakes."""

from __future__ import annotations

import pytest

from moorage.framework.configuration import Configuration, LeaderElection
from moorage.framework.extending import EXTENDER_KIND, ExtenderConfiguration, extender_configuration
from moorage.framework.registry import Registry
from moorage.plugins.builtin import BUILTIN
from moorage.wire.configuration import Reading, read_configuration
from moorage.wire.configuration.extending import split_address

HEADER = "apiVersion: moorage.dev/v1alpha1\nkind: ExtenderConfiguration\n"


def read(*lines: str) -> Reading:
    text = HEADER + "".join(f"{line}\n" for line in lines)
    return read_configuration(text.encode(), "f.yaml", Registry(BUILTIN))


def test_everything_has_a_default() -> None:
    """An empty document means what no document means."""
    reading = read()
    assert reading.problems == ()
    assert reading.configuration is not None
    assert reading.configuration.components[EXTENDER_KIND] == ExtenderConfiguration(profile="moorage")
    assert extender_configuration(Configuration()).leader_election == LeaderElection(
        leader_elect=False, resource_name="moorage-extender"
    )


def test_every_field() -> None:
    """All of them at once."""
    reading = read(
        "profile: moorage",
        "listen: '[::]:80'",
        "callerTimeout: 500ms",
        "requestTimeout: 2s",
        "maxBodyBytes: 1000",
        "binds: true",
        "leaderElection: {leaderElect: true, leaseDuration: 20s}",
    )
    assert reading.configuration is not None, reading.problems
    found = extender_configuration(reading.configuration)
    election = LeaderElection(lease_duration_s=20.0, resource_name="moorage-extender")
    assert found == ExtenderConfiguration(EXTENDER_KIND, "moorage", "[::]:80", 0.5, 2.0, 1000, True, election)


@pytest.mark.parametrize(("caller_s", "want_s"), [(5.0, 1.0), (2.0, 1.0), (1.0, 0.5), (0.1, 0.05)])
def test_the_wait_follows_the_callers_timeout(caller_s: float, want_s: float) -> None:
    """A second at most, and half of what the caller waits for us."""
    assert ExtenderConfiguration(caller_timeout_s=caller_s).longest_wait_s == want_s


def test_the_lease_is_not_the_schedulers() -> None:
    """Without a word on it, the election is as the scheduler's, on a lease of its own."""
    general = LeaderElection(resource_name="team", resource_namespace="apps")
    found = extender_configuration(Configuration(leader_election=general)).leader_election
    assert found == LeaderElection(resource_name="team-extender", resource_namespace="apps")


MISTAKES = {
    "unknown field": ("listens: x", 'f.yaml: listens: "x": unknown field; did you mean listen?'),
    "address": ("listen: here", 'f.yaml: listen: "here": write HOST:PORT, such as 0.0.0.0:8888'),
    "port": ("listen: 'h:70000'", 'f.yaml: listen: "h:70000": write HOST:PORT, such as 0.0.0.0:8888'),
    "caller": ("callerTimeout: 0s", 'f.yaml: callerTimeout: "0s": must be longer than 0s'),
    "request": ("requestTimeout: -1s", 'f.yaml: requestTimeout: "-1s": must be longer than 0s'),
    "body": ("maxBodyBytes: 0", "f.yaml: maxBodyBytes: 0: must be 1 or more"),
    "profile": ("profile: x", 'f.yaml: profile: "x": no profile has this name; write one of moorage'),
    "lease": (
        "leaderElection: {leaseDuration: 5s}",
        'f.yaml: leaderElection.leaseDuration: "5s": must be longer than renewDeadline, which is 10s',
    ),
}


@pytest.mark.parametrize(("line", "want"), MISTAKES.values(), ids=MISTAKES.keys())
def test_mistakes(line: str, want: str) -> None:
    """One line each, with place, value and remedy."""
    assert [str(problem) for problem in read(line).problems] == [want]


ADDRESSES = {
    "127.0.0.1:80": ("127.0.0.1", 80),
    ":80": ("0.0.0.0", 80),  # noqa: S104 - said in so many words
    "[::1]:80": ("::1", 80),
    "localhost:0": ("localhost", 0),
    "80": None,
    "::1:80": None,
    "host:": None,
    "host:８0": None,
    "host:65536": None,
    "a b:80": None,
}


@pytest.mark.parametrize(("text", "want"), ADDRESSES.items(), ids=ADDRESSES.keys())
def test_addresses(text: str, want: tuple[str, int] | None) -> None:
    """HOST:PORT, and nothing that only looks like it."""
    assert split_address(text) == want
