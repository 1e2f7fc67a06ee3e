"""What plugins find wrong is told once to each tenant whom it concerns."""

from __future__ import annotations

from moorage.core.commands import Command
from moorage.engine.warnings import Warnings
from moorage.framework.cycle import Cycle
from moorage.testing import make_pod, make_state


def test_a_warning_is_told_once_in_each_namespace() -> None:
    """The same mistake of another tenant is news to that one."""
    warnings, commands = Warnings(), list[Command]()
    for namespace in ("a", "b", "a", "b"):
        cycle = Cycle(make_pod("p", namespace=namespace), make_state([]), 0.0)
        cycle.warn("LimitExceeded", "a strategy is too long")
        warnings.tell(cycle, "moorage", commands)
    assert [command.pod.namespace for command in commands] == ["a", "b"]
