from __future__ import annotations

from typing import Any

import pytest

from moorage.framework.arguments import PluginArgs
from moorage.framework.configuration import ALL, Configuration, EnabledPlugin, PluginSet, ProfileConfiguration
from moorage.framework.defaults import DEFAULT_PLUGINS
from moorage.framework.instances import Instances
from moorage.framework.plugin import METHODS, Plugin, Point
from moorage.framework.profiles import ProfileError, build_profile, build_profiles, resolve
from moorage.framework.registry import Registry, RegistryError, closest


def make_plugin(name: str, *points: Point, **attributes: Any) -> type[Plugin]:
    """A plugin class that has these extension points and does nothing."""
    methods = {METHODS[point]: lambda *_: None for point in points}
    return type(name, (Plugin,), {"name": name, **methods, **attributes})


class SpreadArgs(PluginArgs):
    hosts: int = 3


SORT = make_plugin("PrioritySort", Point.QUEUE_SORT)
BIND = make_plugin("DefaultBinder", Point.BIND)
UNSCHEDULABLE = make_plugin("NodeUnschedulable", Point.FILTER)
TAINTS = make_plugin("TaintToleration", Point.FILTER, Point.PRE_SCORE, Point.SCORE)
AFFINITY = make_plugin("NodeAffinity", Point.PRE_FILTER, Point.FILTER, Point.PRE_SCORE, Point.SCORE)
FIT = make_plugin("NodeResourcesFit", Point.PRE_FILTER, Point.FILTER, Point.PRE_SCORE, Point.SCORE)
IMAGES = make_plugin("ImageLocality", Point.SCORE)
SPREAD = make_plugin("MySpread", Point.FILTER, Point.SCORE, aliases=("OldSpread",), Args=SpreadArgs)
ZONES = make_plugin("MyZones", Point.FILTER, Point.SCORE)

# Registered in an order of its own, to show that the default set has the say.
REGISTRY = Registry((ZONES, SPREAD, IMAGES, FIT, AFFINITY, TAINTS, UNSCHEDULABLE, BIND, SORT))

DEFAULT_FILTERS = ["NodeUnschedulable", "TaintToleration", "NodeAffinity", "NodeResourcesFit"]
DEFAULT_SCORES = ["TaintToleration", "NodeAffinity", "NodeResourcesFit", "ImageLocality"]


def enable(*names: str | EnabledPlugin) -> PluginSet:
    return PluginSet(enabled=tuple(EnabledPlugin(name) if isinstance(name, str) else name for name in names))


def disable(*names: str) -> PluginSet:
    return PluginSet(disabled=names)


def change(disabled: list[str], enabled: list[str | EnabledPlugin]) -> PluginSet:
    return PluginSet(enable(*enabled).enabled, tuple(disabled))


NOTHING = PluginSet()

ORDERS = {
    "defaults, in the default set's order": (NOTHING, NOTHING, DEFAULT_FILTERS),
    "multiPoint adds after the defaults": (
        enable("MyZones", "MySpread"),
        NOTHING,
        [*DEFAULT_FILTERS, "MyZones", "MySpread"],
    ),
    "multiPoint of a default keeps its place": (
        enable("NodeAffinity", "MyZones"),
        NOTHING,
        [*DEFAULT_FILTERS, "MyZones"],
    ),
    "multiPoint disables a default": (
        disable("TaintToleration"),
        NOTHING,
        ["NodeUnschedulable", "NodeAffinity", "NodeResourcesFit"],
    ),
    "multiPoint disables and enables: moved to the end": (
        change(["NodeUnschedulable"], ["NodeUnschedulable"]),
        NOTHING,
        ["TaintToleration", "NodeAffinity", "NodeResourcesFit", "NodeUnschedulable"],
    ),
    "multiPoint disables all but what it enables": (
        change([ALL], ["NodeResourcesFit", "NodeAffinity"]),
        NOTHING,
        ["NodeResourcesFit", "NodeAffinity"],
    ),
    "the point adds after multiPoint": (NOTHING, enable("MyZones"), [*DEFAULT_FILTERS, "MyZones"]),
    "the point overrides: first, in its own order": (
        NOTHING,
        enable("NodeResourcesFit", "TaintToleration", "MyZones"),
        ["NodeResourcesFit", "TaintToleration", "NodeUnschedulable", "NodeAffinity", "MyZones"],
    ),
    "the point disables one": (NOTHING, disable("NodeAffinity"), [n for n in DEFAULT_FILTERS if n != "NodeAffinity"]),
    "the point disables and enables one: it comes last": (
        NOTHING,
        change(["TaintToleration"], ["TaintToleration"]),
        ["NodeUnschedulable", "NodeAffinity", "NodeResourcesFit", "TaintToleration"],
    ),
    "the point disables all but its own": (
        NOTHING,
        change([ALL], ["MyZones", "NodeAffinity"]),
        ["MyZones", "NodeAffinity"],
    ),
    "the point disables what multiPoint adds": (enable("MyZones"), disable("MyZones"), DEFAULT_FILTERS),
    "names without a plugin are left out": (enable("Stranger"), enable("Stranger"), DEFAULT_FILTERS),
}


@pytest.mark.parametrize(("multi_point", "at_filter", "want"), ORDERS.values(), ids=ORDERS.keys())
def test_filter_order(multi_point: PluginSet, at_filter: PluginSet, want: list[str]) -> None:
    """Which plugins filter, and in which order, is what kube-scheduler makes of the same sets."""
    profile = ProfileConfiguration("p", multi_point, {Point.FILTER: at_filter})
    assert list(resolve(profile, REGISTRY).names[Point.FILTER]) == want


WEIGHTS = {
    "defaults": (NOTHING, NOTHING, [3, 2, 1, 1]),
    "at score": (NOTHING, enable(EnabledPlugin("NodeAffinity", 5)), [3, 5, 1, 1]),
    "in multiPoint": (enable(EnabledPlugin("NodeAffinity", 7)), NOTHING, [3, 7, 1, 1]),
    "score wins over multiPoint": (
        enable(EnabledPlugin("NodeAffinity", 7)),
        enable(EnabledPlugin("NodeAffinity", 5)),
        [3, 5, 1, 1],
    ),
    "enabled again without a weight: 1, not the default's": (enable("TaintToleration"), NOTHING, [1, 2, 1, 1]),
    "0 means 1": (NOTHING, enable(EnabledPlugin("TaintToleration", 0)), [1, 2, 1, 1]),
}


@pytest.mark.parametrize(("multi_point", "at_score", "want"), WEIGHTS.values(), ids=WEIGHTS.keys())
def test_weights(multi_point: PluginSet, at_score: PluginSet, want: list[int]) -> None:
    """Weights come from score, else multiPoint, else the default set."""
    profile = build_profile(ProfileConfiguration("p", multi_point, {Point.SCORE: at_score}), REGISTRY)
    assert [profile.weights[name] for name in DEFAULT_SCORES] == want


SETS_WITH_PRICES = {
    "enabled": (enable("Prices"), True),
    "not named": (NOTHING, False),
    "all disabled, and enabled": (change([ALL], ["PrioritySort", "Prices", "DefaultBinder"]), True),
    "disabled": (disable("Prices"), False),
}


@pytest.mark.parametrize(("multi_point", "want"), SETS_WITH_PRICES.values(), ids=SETS_WITH_PRICES.keys())
def test_a_plugin_without_extension_points_runs_where_multi_point_enables_it(
    multi_point: PluginSet, want: bool
) -> None:
    """It is built once, with its arguments, stands behind the others, and is found by its methods."""
    prices = make_plugin("Prices", Args=SpreadArgs, price_of=lambda _: 1)
    registry = Registry((prices, BIND, SORT, IMAGES))
    profile = build_profile(ProfileConfiguration("p", multi_point, args={"Prices": SpreadArgs(hosts=9)}), registry)
    found = profile.pointless
    assert [plugin.args.hosts for plugin in found] == ([9] if want else [])
    assert profile.plugins[len(profile.plugins) - len(found) :] == found
    assert [each.plugin.args.hosts for each in Instances(profile).all[len(profile.plugins) - len(found) :]] == (
        [9] if want else []
    )


def test_disabling_at_one_point_leaves_the_others() -> None:
    """A plugin that may not score still filters, and has no weight."""
    profile = build_profile(ProfileConfiguration("p", points={Point.SCORE: disable("NodeAffinity")}), REGISTRY)
    assert "NodeAffinity" in [plugin.name for plugin in profile.at(Point.FILTER)]
    assert [plugin.name for plugin in profile.at(Point.SCORE)] == [
        "TaintToleration",
        "NodeResourcesFit",
        "ImageLocality",
    ]
    assert "NodeAffinity" not in profile.weights


PREPARED = make_plugin("MyCounts", Point.PRE_FILTER, Point.FILTER, Point.PRE_SCORE, Point.SCORE)


@pytest.mark.parametrize(
    ("changes", "want"),
    [
        pytest.param({Point.FILTER: enable("MyCounts")}, {Point.PRE_FILTER, Point.FILTER}, id="filter"),
        pytest.param({Point.SCORE: enable("MyCounts")}, {Point.PRE_SCORE, Point.SCORE}, id="score"),
        pytest.param({Point.PRE_FILTER: enable("MyCounts")}, {Point.PRE_FILTER}, id="preFilter, which needs no other"),
        pytest.param(
            {Point.FILTER: enable("MyCounts"), Point.PRE_FILTER: disable("MyCounts")},
            {Point.PRE_FILTER, Point.FILTER},
            id="filter, disabled at preFilter",
        ),
    ],
)
def test_what_prepares_a_point_comes_with_it(changes: dict[Point, PluginSet], want: set[Point]) -> None:
    """A plugin that is named at one point only behaves there as at all of them; written out, it means the same."""
    registry = Registry((*REGISTRY, PREPARED))
    names = resolve(ProfileConfiguration("x", points=changes), registry).names
    assert {point for point, plugins in names.items() if "MyCounts" in plugins} == want
    spelled = {point: enable(*plugins) for point, plugins in names.items()}
    again = ProfileConfiguration("x", multi_point=disable(ALL), points=spelled)
    assert resolve(again, registry).names == names


def test_plugins_of_kube_scheduler_run_where_they_are_named_as_there() -> None:
    """Its own rule: what is named at filter runs at filter."""
    only = ProfileConfiguration("x", disable("NodeAffinity"), {Point.FILTER: enable("NodeAffinity")})
    names = resolve(only, REGISTRY).names
    assert "NodeAffinity" in names[Point.FILTER]
    assert not {point for point in (Point.PRE_FILTER, Point.PRE_SCORE, Point.SCORE) if "NodeAffinity" in names[point]}


def test_one_plugin_is_one_object_in_a_runner_and_another_in_the_next() -> None:
    """What a plugin prepares at one point it finds at the next; runners of the same profile share nothing."""
    (profile,) = build_profiles(Configuration(), REGISTRY)
    first, second = Instances(profile), Instances(profile)
    points = (first.pre_enqueue, first.pre_filter, first.filter, first.score, first.queue_sort, first.bind)
    assert all(plugin is first.get(plugin.name) for plugins in points for plugin in plugins)
    assert [each.name for each in first.queue_sort] == ["PrioritySort"]
    assert [each.name for each in first.all] == [each.name for each in profile.plugins]
    assert all(one.plugin is not other.plugin for one, other in zip(first.all, second.all, strict=True))


@pytest.mark.parametrize(
    ("args", "want_hosts"), [({}, 3), ({"MySpread": SpreadArgs(hosts=9)}, 9)], ids=["default", "given"]
)
def test_plugins_get_their_arguments(args: dict[str, PluginArgs], want_hosts: int) -> None:
    """The arguments of the profile, else the declared defaults."""
    profile = build_profile(ProfileConfiguration("p", enable("MySpread"), args=args), REGISTRY)
    spread = next(plugin for plugin in profile.plugins if plugin.name == "MySpread")
    assert spread.args.hosts == want_hosts


def test_with_no_configuration_there_is_one_profile() -> None:
    """The profile is called moorage, runs the default set, and nobody is elected."""
    (profile,) = build_profiles(Configuration(), REGISTRY)
    assert profile.scheduler_name == "moorage"
    assert [plugin.name for plugin in profile.at(Point.FILTER)] == DEFAULT_FILTERS
    assert not Configuration().leader_election.leader_elect
    assert Configuration().leader_election.resource_name == "moorage"


def test_default_plugins_that_are_missing_are_named() -> None:
    """What the default set would run and the registry does not have is known, so that it can be said."""
    want = [entry.name for entry in DEFAULT_PLUGINS if entry.name not in REGISTRY]
    assert list(resolve(ProfileConfiguration("p"), REGISTRY).missing) == want
    assert "VolumeBinding" not in resolve(ProfileConfiguration("p", disable("VolumeBinding")), REGISTRY).missing


class Refusing(Plugin):
    name = "Refusing"

    def __init__(self, args: object = None) -> None:  # noqa: ARG002 - part of the interface
        raise RuntimeError("no such zone\nand more")


IMPOSSIBLE = {
    "no queue sort": (disable("PrioritySort"), "exactly one queue sort plugin"),
    "no bind": (disable("DefaultBinder"), "at least one bind plugin"),
    "two queue sorts": (enable("OtherSort"), "exactly one queue sort plugin"),
    "a constructor that raises": (enable("Refusing"), "Refusing refused its arguments: no such zone"),
    "weights beyond what a score can hold": (enable(EnabledPlugin("MyZones", 2**60)), "overflow"),
}


@pytest.mark.parametrize(("multi_point", "want"), IMPOSSIBLE.values(), ids=IMPOSSIBLE.keys())
def test_profiles_that_cannot_run(multi_point: PluginSet, want: str) -> None:
    """The error is one line that names the profile and the reason."""

    class Filtering(Refusing):
        def filter(self, cycle: object, rows: object) -> None: ...

    registry = Registry((*REGISTRY, make_plugin("OtherSort", Point.QUEUE_SORT), Filtering))
    with pytest.raises(ProfileError) as raised:
        build_profile(ProfileConfiguration("p", multi_point), registry)
    assert str(raised.value).startswith("profile p: ")
    assert want in str(raised.value)
    assert "\n" not in str(raised.value)


class TestRegistry:
    def test_names_and_aliases(self) -> None:
        """An alias finds the class and its own name; what is not there is None."""
        assert REGISTRY.get("MySpread") is REGISTRY.get("OldSpread") is SPREAD
        assert REGISTRY.canonical("OldSpread") == "MySpread"
        assert REGISTRY.canonical("Stranger") == "Stranger"
        assert REGISTRY.get("Stranger") is None
        assert "OldSpread" in REGISTRY
        assert "OldSpread" not in REGISTRY.names()
        assert REGISTRY.names()[:2] == ("MyZones", "MySpread")

    @pytest.mark.parametrize(
        "taken",
        [
            make_plugin("MySpread", Point.FILTER),
            make_plugin("OldSpread", Point.FILTER),
            make_plugin("Fresh", Point.FILTER, aliases=("MyZones",)),
        ],
        ids=["name", "name is an alias", "alias is a name"],
    )
    def test_a_name_belongs_to_one_plugin(self, taken: type[Plugin]) -> None:
        """A taken name is refused and the registry stays as it was."""
        registry = Registry((ZONES, SPREAD))
        with pytest.raises(RegistryError, match=r"is taken by .*rename one"):
            registry.register(taken)
        assert registry.names() == ("MyZones", "MySpread")
        assert len(registry) == 2

    def test_the_same_class_twice_counts_once(self) -> None:
        """A package that is found twice on the path does no harm."""
        registry = Registry((ZONES, ZONES))
        assert list(registry) == [ZONES]

    @pytest.mark.parametrize(
        ("thing", "want"),
        [
            (make_plugin("", Point.FILTER), "has no name"),
            (make_plugin("*", Point.FILTER), "has no name"),
            (dict, "Plugin"),
            (7, "int"),
        ],
        ids=["empty", "star", "other class", "no class"],
    )
    def test_what_is_no_plugin(self, thing: Any, want: str) -> None:
        """Only named classes derived from Plugin are taken."""
        with pytest.raises(RegistryError, match=want):
            Registry().register(thing)

    def test_suggestions_ignore_case(self) -> None:
        """The name that was probably meant, or none."""
        assert closest("imagelocalty", ["ImageLocality", "NodeName"]) == "ImageLocality"
        assert closest("xyz", ["ImageLocality"]) is None
