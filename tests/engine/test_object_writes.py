"""Writes that PreBind waits for: a failure ends the attempt, an old answer ends nothing."""

from __future__ import annotations

from collections.abc import Iterable

from moorage.core.commands import Bind, Command, PatchObject, PatchPodStatus
from moorage.core.events import Event, NodeSeen, ObjectSeen, PatchDone, PodSeen
from moorage.engine.engine import Engine
from moorage.framework.configuration import Configuration, ProfileConfiguration
from moorage.framework.profiles import build_profiles
from moorage.framework.registry import Registry
from moorage.plugins.builtin import BUILTIN
from moorage.testing import make_node, make_pod
from moorage.testing.storage import claims, make_claim, make_class, make_volume
from tests.engine.writes import seen


def started() -> tuple[Engine, PatchObject]:
    """A pod whose claim was asked to be provisioned for its node."""
    profiles = build_profiles(Configuration(profiles=(ProfileConfiguration("moorage"),)), Registry(BUILTIN))
    engine = Engine(profiles)
    pod = make_pod("p", scheduler_name="moorage", volumes=claims("c"))
    events: list[Event] = [NodeSeen(make_node("n")), ObjectSeen("StorageClass", "wait", make_class())]
    commands, _ = engine.handle([*events, seen(make_claim("c", resource_version="1")), PodSeen(pod)], 100.0)
    (command,) = (each for each in commands if isinstance(each, PatchObject))
    return engine, command


def of_type(commands: Iterable[Command], kind: type) -> list[Command]:
    return [command for command in commands if isinstance(command, kind)]


def test_the_pod_is_bound_when_its_claim_is() -> None:
    """A write that worked changes nothing by itself; the watch shows what came of it."""
    engine, command = started()
    commands, _ = engine.handle([PatchDone(command, ok=True)], 101.0)
    assert not of_type(commands, Bind)
    bound = make_claim("c", volume="v", selected_node="n")
    commands, _ = engine.handle([ObjectSeen("PersistentVolume", "v", make_volume("v")), seen(bound)], 102.0)
    assert len(of_type(commands, Bind)) == 1


def test_a_write_that_failed_ends_the_attempt() -> None:
    """The pod says so and comes back after its backoff, with a new write for the new version of the claim."""
    engine, command = started()
    commands, _ = engine.handle([PatchDone(command, ok=False, message="the claim was modified")], 101.0)
    conditions = [each.condition for each in of_type(commands, PatchPodStatus) if isinstance(each, PatchPodStatus)]
    (condition,) = (each for each in conditions if each is not None)
    assert condition.reason == "SchedulerError"
    assert "the claim was modified" in condition.message
    assert engine.state.volumes.reservation("default/p") is None
    assert engine.state.pod_count == 0
    commands, _ = engine.handle([seen(make_claim("c", resource_version="2"))], 120.0)
    (again,) = (each for each in commands if isinstance(each, PatchObject))
    assert again.resource_version == "2"
    commands, _ = engine.handle([PatchDone(command, ok=False, message="late")], 121.0)
    assert not commands, "the answer to an earlier attempt's write means nothing to this one"


def test_a_write_that_failed_says_nothing_about_a_pod_that_is_being_bound() -> None:
    """The answer was lost on its way, but the write worked, as the watch has shown: the bind must not be undone."""
    engine, command = started()
    bound = make_claim("c", volume="v", selected_node="n")
    commands, _ = engine.handle([ObjectSeen("PersistentVolume", "v", make_volume("v")), seen(bound)], 102.0)
    assert len(of_type(commands, Bind)) == 1
    commands, _ = engine.handle([PatchDone(command, ok=False, message="timed out")], 103.0)
    assert not commands
    assert engine.bindings.posted == 1
    assert engine.state.pod_count == 1
