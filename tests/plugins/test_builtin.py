"""The table of shipped plugins agrees with the defaults that profiles start from."""

from __future__ import annotations

import pytest

from moorage.framework.defaults import DEFAULT_PLUGINS
from moorage.framework.plugin import Plugin, Reads
from moorage.plugins.builtin import BUILTIN


def test_the_order_is_that_of_the_default_profile() -> None:
    """Filters run in the order of the defaults, so the table lists plugins in that order."""
    order = [entry.name for entry in DEFAULT_PLUGINS]
    names = [cls.name for cls in BUILTIN]
    known = [name for name in names if name in order]
    assert known == sorted(known, key=order.index)
    assert len(set(names)) == len(names)


POINTLESS = {"PriorityAnnotation", "TopologyPlacement"}
"""They answer the engine's own questions."""


@pytest.mark.parametrize("cls", BUILTIN, ids=lambda cls: cls.name)
def test_every_plugin_runs_with_its_default_arguments(cls: type[Plugin]) -> None:
    """`Args()` is what kube-scheduler runs with when a profile gives none, and `cls()` means the same."""
    assert cls(cls.Args()).name == cls.name
    assert cls().name == cls.name
    assert cls.points() or cls.name in POINTLESS


FIRST_PLUGINS = [
    "SchedulingGates",
    "PrioritySort",
    "NodeName",
    "NodeUnschedulable",
    "TaintToleration",
    "NodeAffinity",
    "NodePorts",
    "NodeResourcesFit",
    "NodeResourcesBalancedAllocation",
    "ImageLocality",
    "DefaultBinder",
]


@pytest.mark.parametrize("name", FIRST_PLUGINS)
def test_answers_of_the_basic_plugins_are_kept_between_decisions(name: str) -> None:
    """A plugin that reads the whole cluster is asked at every decision; none of these may be one."""
    (cls,) = (cls for cls in BUILTIN if cls.name == name)
    assert cls.reads is not Reads.CLUSTER
