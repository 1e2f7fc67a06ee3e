"""The plugins of a runner: made for it alone, found by what they can do, and called through one seam."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pytest

from moorage.core.arrays import Rows
from moorage.core.pods import PodTemplate
from moorage.core.state import ClusterState
from moorage.framework import contract
from moorage.framework.configuration import Configuration, EnabledPlugin, PluginSet, ProfileConfiguration
from moorage.framework.contract import SlackFilter, SpreadsHosts
from moorage.framework.cycle import Cycle
from moorage.framework.instances import Instances, Tracing
from moorage.framework.plugin import Plugin, Point
from moorage.framework.profiles import Profile, build_profiles
from moorage.framework.registry import Registry
from moorage.framework.runner import Runner
from moorage.framework.status import Reason, Rejections
from moorage.plugins.builtin import BUILTIN
from moorage.testing import make_node, make_pod, make_state


class Once(Plugin):
    """Rejects everything from its second question on."""

    name: ClassVar[str] = "Once"

    def __init__(self, args: object = None) -> None:
        super().__init__(args)
        self.asked = 0

    def hosts(self, template: PodTemplate, state: ClusterState) -> int:  # noqa: ARG002 - part of the interface
        return 7

    def filter(self, cycle: Cycle, rows: Rows) -> Rejections | None:  # noqa: ARG002 - part of the interface
        self.asked += 1
        return None if self.asked == 1 else Rejections(np.ones(len(rows), dtype=np.int64), (Reason("once"),))


@pytest.fixture
def profile() -> Profile:
    enabled = PluginSet(enabled=(EnabledPlugin("Once"),))
    configuration = Configuration(profiles=(ProfileConfiguration("p", enabled),))
    (found,) = build_profiles(configuration, Registry((*BUILTIN, Once)))
    return found


def fits(runner: Runner, state: ClusterState) -> bool:
    return bool(len(runner.judge(Cycle(make_pod("a"), state, 0.0), state.rows()).passed))


def test_what_a_plugin_keeps_stays_in_its_runner(profile: Profile) -> None:
    """Two runners of one profile, even on one state: what one of them has asked does not matter to the other."""
    state = make_state([make_node("n")])
    first, second = Runner(profile, state), Runner(profile, state)
    assert [fits(first, state), fits(first, state)] == [True, False]
    assert fits(second, state)


def test_calls_are_traced_between_begin_and_end(profile: Profile) -> None:
    """Around every traced method but those that are left alone; afterwards, calls go to the plugin as before."""
    state = make_state([make_node("n")])
    runner = Runner(profile, state)
    told: list[str] = []

    def around(plugin: Plugin, method: str, call: Callable[..., Any]) -> Callable[..., Any] | None:
        if plugin.name != "Once" or method != "filter":
            return None

        def traced(*args: Any) -> Any:
            told.append(f"{plugin.name}.{method}")
            return call(*args)

        return traced

    tracing = Tracing(runner.plugins.all, around)
    before = [dict(vars(each)) for each in runner.plugins.all]
    assert fits(runner, state)
    tracing.begin()
    assert not fits(runner, state)
    tracing.end()
    assert not fits(runner, state)
    assert told == ["Once.filter"]
    assert [dict(vars(each)) for each in runner.plugins.all] == before


def test_hooks_are_found_in_the_order_of_the_profile(profile: Profile) -> None:
    """Every plugin that has what is asked for, and the first of them; none is no error."""
    plugins = Runner(profile, make_state()).plugins
    assert [type(each).__name__ for each in plugins.having(SlackFilter)] == ["NodeResourcesFit"]
    once = plugins.first(SpreadsHosts)
    assert isinstance(once, Once)
    without = Runner(build_profiles(Configuration(), Registry(BUILTIN))[0], make_state()).plugins
    assert without.first(SpreadsHosts) is None


def test_hooks_are_found_as_isinstance_finds_them() -> None:
    """For every hook of the contract and every plugin of ours."""
    hooks = [each for each in vars(contract).values() if getattr(each, "_is_runtime_protocol", False)]
    assert len(hooks) > 20
    sorts = {factory.name for factory in BUILTIN if Point.QUEUE_SORT in factory.points()} - {"PrioritySort"}
    enabled = tuple(EnabledPlugin(factory.name) for factory in BUILTIN if factory.name not in sorts)
    configuration = Configuration(profiles=(ProfileConfiguration("p", PluginSet(enabled)),))
    (profile,) = build_profiles(configuration, Registry(BUILTIN))
    instances = Instances(profile)
    for hook in hooks:
        assert instances.having(hook) == tuple(each.plugin for each in instances.all if isinstance(each.plugin, hook))
