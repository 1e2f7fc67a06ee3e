"""The journal drill, short; `make replay-drill` plays it with 10,000 pods."""

from __future__ import annotations

from pathlib import Path

from moorage.bench.controlplane import ControlPlane
from tests.app.journal_drill import counterfactual, eventful

PODS = 300


def test_journals_of_a_leader_that_was_killed_and_of_its_successor(
    empty_control_plane: ControlPlane, tmp_path: Path
) -> None:
    """Gangs, evictions, backoff, another configuration and a change of leaders: every decision comes out again."""
    figures = eventful(empty_control_plane, tmp_path, PODS)
    assert figures["first"]["evictions"] + figures["second"]["evictions"] > 0
    assert figures["first"]["binds"] > 0
    assert figures["second"]["binds"] > 0


def test_what_another_profile_would_have_decided(empty_control_plane: ControlPlane, tmp_path: Path) -> None:
    """The difference that replay tells is that of a fresh run with the profile, pod by pod."""
    assert counterfactual(empty_control_plane, tmp_path, PODS)["differing"] > 0
