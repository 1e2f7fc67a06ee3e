"""A pod's priority from an annotation: only integers, only where allowed, never above what is allowed."""

from __future__ import annotations

from typing import Any

import pytest

from moorage.core.pods import PodTemplate
from moorage.framework.configuration import EnabledPlugin, PluginSet, ProfileConfiguration
from moorage.framework.contract import ReadsPriority
from moorage.framework.instances import Instances
from moorage.framework.profiles import build_profile
from moorage.framework.registry import Registry
from moorage.plugins.builtin import BUILTIN
from moorage.plugins.priority_annotation import PriorityAnnotation, PriorityAnnotationArgs, parse_priority
from moorage.testing import check_plugin, make_pod
from moorage.wire.configuration import read_configuration

SPEC = 5


def template(namespace: str = "default", **annotations: str) -> PodTemplate:
    """A pod of priority 5 with annotations; a double underscore stands for the slash after moorage.dev."""
    named = {key.replace("moorage__", "moorage.dev/"): value for key, value in annotations.items()}
    return make_pod("a", namespace=namespace, annotations=named, priority=SPEC).template


def plugin(**args: Any) -> PriorityAnnotation:
    return PriorityAnnotation(PriorityAnnotationArgs.model_validate(args))


VALUES = {
    "plain": ("100", 100),
    "zero": ("0", 0),
    "negative": ("-7", -7),
    "leading zeros": ("0050", 50),
    "the highest allowed": ("1000000000", 1_000_000_000),
    "above what is allowed": ("1000000001", 1_000_000_000),
    "above every priority": ("99999999999", 1_000_000_000),
    "absurdly long": ("9" * 5000, 1_000_000_000),
    "below every priority": ("-99999999999", -(2**31)),
}


@pytest.mark.parametrize(("text", "want"), VALUES.values(), ids=VALUES.keys())
def test_integers_count_before_the_spec(text: str, want: int) -> None:
    """A value that is too high is capped, not refused."""
    assert plugin().priority_of(template(priority=text)) == (want, None)


NO_INTEGERS = {
    "empty": "",
    "word": "high",
    "plus": "+1",
    "space before": " 1",
    "newline behind": "1\n",
    "underscore": "1_000",
    "full-width digits": "\uff11\uff10",
    "arabic digits": "\u0661",
    "superscript": "\u00b2",
    "fraction": "1.0",
    "exponent": "1e3",
    "hexadecimal": "0x10",
    "two signs": "--1",
    "only a sign": "-",
    "another minus": "\u22121",
    "many zeros and a letter": "0" * 200_000 + "x",
}


@pytest.mark.parametrize("text", NO_INTEGERS.values(), ids=NO_INTEGERS.keys())
def test_anything_else_is_ignored_with_a_warning(text: str) -> None:
    """The spec's priority counts; the warning is one short line that names key, value and remedy."""
    priority, warning = plugin().priority_of(template(priority=text))
    assert priority == SPEC
    assert warning is not None
    assert warning.startswith("annotation priority: ")
    assert "is not an integer" in warning
    assert len(warning) < 250
    assert len(warning.splitlines()) == 1
    assert parse_priority(text) is None


KEYS = {
    "none": ({}, SPEC, False),
    "other annotations": ({"color": "1"}, SPEC, False),
    "short key": ({"priority": "1"}, 1, False),
    "own key": ({"moorage__priority": "2"}, 2, False),
    "own key wins": ({"priority": "1", "moorage__priority": "2"}, 2, False),
    "own key wins though it cannot be read": ({"priority": "1", "moorage__priority": "x"}, SPEC, True),
}


@pytest.mark.parametrize(("annotations", "want", "want_warning"), KEYS.values(), ids=KEYS.keys())
def test_the_first_key_that_is_there_counts(annotations: dict[str, str], want: int, want_warning: bool) -> None:
    """A pod without any keeps its priority silently."""
    priority, warning = plugin().priority_of(template(**annotations))
    assert (priority, warning is not None) == (want, want_warning)


BOUNDS = {
    "everywhere": ({"namespaces": ["*"], "max": 60}, "any", 60),
    "listed": ({"namespaces": ["a", "b"], "max": 60}, "b", 60),
    "not listed": ({"namespaces": ["a", "b"]}, "c", SPEC),
    "nowhere": ({"namespaces": []}, "a", SPEC),
    "bound of the namespace": ({"namespaces": {"a": 10}}, "a", 10),
    "namespace without a bound": ({"namespaces": {"a": 10}}, "b", SPEC),
    "bound of all others": ({"namespaces": {"a": 10, "*": 20}}, "b", 20),
    "own bound before that of all others": ({"namespaces": {"a": 10, "*": 20}}, "a", 10),
    "never above max": ({"namespaces": {"a": 90}, "max": 60}, "a", 60),
    "negative bound": ({"namespaces": {"a": -3}}, "a", -3),
    "turned off": ({"enabled": False}, "a", SPEC),
}


@pytest.mark.parametrize(("args", "namespace", "want"), BOUNDS.values(), ids=BOUNDS.keys())
def test_no_pod_gets_above_what_its_namespace_is_allowed(args: dict[str, Any], namespace: str, want: int) -> None:
    """Where annotations are not read, the spec counts and nothing is said, not even about nonsense."""
    assert plugin(**args).priority_of(template(namespace, priority="100")) == (want, None)
    _, warning = plugin(**args).priority_of(template(namespace, priority="nonsense"))
    assert (warning is None) == (want == SPEC)


CONFIGURATION = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - schedulerName: custom-scheduler
    plugins: {multiPoint: {enabled: [{name: PriorityAnnotation}]}}
    pluginConfig:
      - name: PriorityAnnotation
        args: %s
"""
ARGS = "profiles[0].pluginConfig[0].args"

NEITHER = "must be a list of namespaces, or a mapping of namespaces to the highest priority there"

MISTAKES = {
    "several at once": (
        "{max: high, keys: [], namespace: [a]}",
        [
            f"{ARGS}.keys: []: must name at least one annotation; to read none, set enabled to false",
            f'{ARGS}.max: "high": must be an integer',
            f'{ARGS}.namespace: ["a"]: unknown field; did you mean namespaces?',
        ],
    ),
    "a list of namespaces": (
        "{namespaces: [good, 3, Bad]}",
        [
            f"{ARGS}.namespaces[1]: 3: must be text; put it in quotes if it is meant as text",
            f'{ARGS}.namespaces[2]: "Bad": this is no namespace; use its name, or * for every namespace',
        ],
    ),
    "bounds of namespaces": (
        "{namespaces: {good: 1, high: 2147483648, soft: 1.5, Bad: 1}}",
        [
            f"{ARGS}.namespaces.high: 2147483648: input should be less than or equal to 2147483647",
            f"{ARGS}.namespaces.soft: 1.5: must be an integer",
            f'{ARGS}.namespaces.Bad: "Bad": this is no namespace; use its name, or * for every namespace',
        ],
    ),
    "neither list nor mapping": (
        "{namespaces: default, enabled: 1}",
        [
            f"{ARGS}.enabled: 1: must be true or false",
            f'{ARGS}.namespaces: "default": {NEITHER}',
        ],
    ),
    "no annotation": (
        '{keys: ["a b", priority]}',
        [f'{ARGS}.keys[0]: "a b": this is no annotation key; use a name, maybe behind a DNS prefix and a slash'],
    ),
}


@pytest.mark.parametrize(("args", "want"), MISTAKES.values(), ids=MISTAKES.keys())
def test_every_mistake_in_the_arguments_is_named(args: str, want: list[str]) -> None:
    """All at once, each with its place, its value and a remedy."""
    reading = read_configuration((CONFIGURATION % args).encode(), "f.yaml", Registry(BUILTIN))
    assert sorted(map(str, reading.problems)) == sorted(f"f.yaml: {line}" for line in want)


@pytest.mark.parametrize("args", ["{}", "{namespaces: {a: 3}}", "{namespaces: [a], max: 3}"])
def test_a_profile_builds_it_though_it_has_no_extension_point(args: str) -> None:
    """It is named in multiPoint like any other plugin, gets its arguments, and is found by what it can do."""
    reading = read_configuration((CONFIGURATION % args).encode(), "f.yaml", Registry(BUILTIN))
    assert not reading.problems
    assert not [notice for notice in reading.notices if "PriorityAnnotation" in str(notice)]
    (profile,) = reading.profiles
    (found,) = Instances(profile).having(ReadsPriority)
    assert isinstance(found, PriorityAnnotation)
    bound = {"{}": None}.get(args, 3)
    assert bound is None or found.args.bound("a") == bound


def test_it_is_not_in_the_default_set() -> None:
    """Nobody's annotations count unless the profile says so; the other plugins do not mind it."""
    registry = Registry(BUILTIN)
    assert Instances(build_profile(ProfileConfiguration(), registry)).first(ReadsPriority) is None
    enabled = PluginSet(enabled=(EnabledPlugin("PriorityAnnotation"),))
    plain, with_it = (
        build_profile(ProfileConfiguration(multi_point=each), registry) for each in (PluginSet(), enabled)
    )
    names = [[plugin.name for plugin in profile.plugins] for profile in (plain, with_it)]
    assert names[1] == [*names[0], "PriorityAnnotation"]


def test_conformance() -> None:
    """The promises of every plugin hold."""
    check_plugin(PriorityAnnotation)
