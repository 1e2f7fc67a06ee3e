"""A registry of plugins that do nothing, and the ways to read a configuration against it."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Any

import pytest
from pydantic import Field

from moorage.framework.arguments import PluginArgs
from moorage.framework.plugin import METHODS, Plugin, Point
from moorage.framework.registry import Registry
from moorage.wire.configuration import Reading, read_configuration


def make_plugin(name: str, *points: Point, **attributes: Any) -> type[Plugin]:
    """A plugin class that has these extension points and does nothing."""
    methods = {METHODS[point]: lambda *_: None for point in points}
    return type(name, (Plugin,), {"name": name, **methods, **attributes})


class Strategy(StrEnum):
    LEAST = "LeastAllocated"
    MOST = "MostAllocated"


class ResourceArgs(PluginArgs):
    name: str
    weight: int = Field(default=1, ge=1, le=100)


class StrategyArgs(PluginArgs):
    type: Strategy = Strategy.LEAST
    resources: tuple[ResourceArgs, ...] = ()


class FitArgs(PluginArgs):
    ignored_resources: tuple[str, ...] = ()
    scoring_strategy: StrategyArgs = StrategyArgs()


class NeedyArgs(PluginArgs):
    zone: str


class Moody(Plugin):
    name = "Moody"
    Args = NeedyArgs

    def __init__(self, args: NeedyArgs) -> None:
        super().__init__(args)
        if args.zone == "nowhere":
            raise ValueError("there is no zone called nowhere")

    def filter(self, cycle: object, rows: object) -> None: ...


REGISTRY = Registry(
    (
        make_plugin("PrioritySort", Point.QUEUE_SORT),
        make_plugin("NodeUnschedulable", Point.FILTER),
        make_plugin("TaintToleration", Point.FILTER, Point.PRE_SCORE, Point.SCORE),
        make_plugin("NodeAffinity", Point.PRE_FILTER, Point.FILTER, Point.PRE_SCORE, Point.SCORE),
        make_plugin("NodeResourcesFit", Point.PRE_FILTER, Point.FILTER, Point.SCORE, Args=FitArgs),
        make_plugin("NodeResourcesBalancedAllocation", Point.PRE_SCORE, Point.SCORE),
        make_plugin("ImageLocality", Point.SCORE),
        make_plugin("DefaultBinder", Point.BIND),
        make_plugin("MinHosts", Point.FILTER, Point.SCORE, aliases=("ControllerSpread",)),
        make_plugin("OtherSort", Point.QUEUE_SORT, Args=NeedyArgs),
        Moody,
    )
)


@pytest.fixture(scope="session")
def registry() -> Registry:
    """The plugins that the configurations of these tests name."""
    return REGISTRY


@pytest.fixture(scope="session")
def read() -> Callable[[str], Reading]:
    """Read a text as the file c.yaml."""
    return lambda text: read_configuration(text.encode(), "c.yaml", REGISTRY)


@pytest.fixture(scope="session")
def accepted(read: Callable[[str], Reading]) -> Callable[[str], Reading]:
    """Read a configuration that must be good."""

    def read_good(text: str) -> Reading:
        reading = read(text)
        assert [str(problem) for problem in reading.problems] == []
        assert reading.configuration is not None
        return reading

    return read_good
