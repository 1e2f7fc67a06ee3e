"""Core values as bytes: what is read equals what was written, and nothing but values can be read."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from moorage.adapters.journal.records import commands_bytes, commands_of
from moorage.adapters.journal.values import Packer, Unreadable, loads
from moorage.core.affinity import NodeAffinity, NodeTerm, PodAffinity, PodTerm, SpreadConstraint
from moorage.core.commands import Bind, Command, PatchObject, PodRef, Victims
from moorage.core.events import BindOutcome, ExtendersAnswered, PatchDone, PodSeen, PreemptionAnswered
from moorage.core.frozen import FrozenDict
from moorage.core.pods import Pod, PodTemplate
from moorage.core.selectors import Operator, Requirement, Selector
from moorage.testing.builders import make_node, make_pod
from moorage.wire.kinds import KINDS
from tests.adapters.journal.shadow import Passage
from tests.core.fullpods import OTHER

REQUIREMENT = Requirement("disk", Operator.IN, ("ssd", "nvme"))
SELECTOR = Selector((REQUIREMENT,))
PATCH = PatchObject(
    PodRef("ns", "a", "u"),
    "PersistentVolumeClaim",
    "ns",
    "c",
    FrozenDict(spec=FrozenDict(a=(1, FrozenDict(b=None)))),
    uid="x",
)
VALUES: dict[str, Any] = {
    "plain": (1, -5, 2**70, 1.5, True, None, "text", b"bytes", ()),
    "frozen dictionary": FrozenDict({"a": (1, 2), "b": FrozenDict(c="d")}),
    "numbers as keys": FrozenDict({1: "a"}),
    "set": frozenset({"b", "a"}),
    "enum": BindOutcome.ELSEWHERE,
    "node": make_node("n1", cpu="4", zone="z1", taints=["a=b:NoSchedule"], labels={"x": "y"}),
    "template": make_pod("a", cpu="500m", labels={"app": "a"}, ports=[80], owner="web").template,
    "template with rules": PodTemplate(
        node_affinity=NodeAffinity(required=(NodeTerm((REQUIREMENT,)),)),
        pod_affinity=PodAffinity(required=(PodTerm(SELECTOR, "zone", ("ns",)),)),
        spread=(SpreadConstraint(1, "zone", True, SELECTOR),),
        annotations=FrozenDict({"pod-group": "g"}),
    ),
    "answer to a patch": PatchDone(PATCH, ok=False, message="no"),
    "answers of extenders": ExtendersAnswered("u", ("n1",), {"n2": "full"}, {}, {"n1": 3}),
    "candidates of extenders": PreemptionAnswered("u", (Victims("n1", (PodRef("a", "b", "c"),), 0),)),
}


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES.keys())
def test_a_value_comes_back_as_it_was(value: Any) -> None:
    """Equal, of the same type, and with the same hash where it has one."""
    found = loads(Packer().dumps(value))
    assert found == value
    assert type(found) is type(value)
    if not isinstance(value, PatchDone | ExtendersAnswered):
        assert hash(found) == hash(value)


def test_commands_come_back_as_they_were() -> None:
    """Also what is in them of a type that msgspec does not know."""
    bind = Bind(PodRef("ns", "a", "u"), "n1", annotations=FrozenDict({"moorage.dev/devices": "[0]"}))
    commands: list[Command] = [bind, bind._replace(annotations=FrozenDict()), PATCH]
    found = commands_of(commands_bytes(commands))
    assert found == commands
    assert [type(each) for each in (found[0].annotations, found[2].patch)] == [FrozenDict, FrozenDict]  # type: ignore[union-attr]


@pytest.mark.parametrize("name", [field.name for field in fields(Pod)])
def test_every_field_of_a_pod_comes_back(name: str, tmp_path: Path) -> None:
    """A new field: it has its place in the row of a pod, also if it is the only one that says something."""
    pod = replace(make_pod("a"), **{name: getattr(OTHER, name)})
    passage = Passage(tmp_path)
    [seen] = passage.through(passage.scribe.turn([PodSeen(pod)], 1.0, 1, [])).events
    assert [getattr(seen.pod, each.name) for each in fields(Pod)] == [getattr(pod, each.name) for each in fields(Pod)]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.name != "Pod"], ids=lambda kind: str(kind.id))
def test_every_kind_that_is_read_can_be_written(kind: Any) -> None:
    """Whatever a watch brings can be part of a journal."""
    metadata = {"name": "a", "labels": {"x": "y"}, "annotations": {"moorage.dev/min-hosts": "2"}}
    extra: dict[str, Any] = {}
    if kind.name == "PriceList":
        extra = {
            "apiVersion": "moorage.dev/v1alpha1",
            "kind": "PriceList",
            "currency": "EUR",
            "prices": [{"pricePerHour": "1"}],
        }
    extra |= {"provisioner": "p"} if kind.name == "StorageClass" else {}
    extra |= {"storageClassName": "s"} if kind.name == "CSIStorageCapacity" else {}
    extra |= {"spec": {"attacher": "a", "nodeName": "n", "source": {}}} if kind.name == "VolumeAttachment" else {}
    value = kind.from_builtin({"metadata": metadata, **extra})
    assert loads(Packer().dumps(value)) == value


def test_secrets_in_annotations_are_masked() -> None:
    """The text is not there, and equal texts stay equal."""
    packer = Packer()
    one, same, other = (
        make_pod("a", annotations={"example.com/api-token": text, "moorage.dev/min-hosts": "3"}).template
        for text in ("hunter2", "hunter2", "hunter3")
    )
    assert b"hunter2" not in packer.dumps(one)
    assert loads(packer.dumps(one)) == loads(packer.dumps(same)) != loads(packer.dumps(other))
    assert loads(packer.dumps(one)).annotations["moorage.dev/min-hosts"] == "3"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xc1",
        msgspec.msgpack.encode(msgspec.msgpack.Ext(99, b"")),
        msgspec.msgpack.encode(msgspec.msgpack.Ext(1, msgspec.msgpack.encode(["os:system", {}]))),
        msgspec.msgpack.encode(msgspec.msgpack.Ext(1, msgspec.msgpack.encode(["..cli.main:run", {}]))),
        msgspec.msgpack.encode(msgspec.msgpack.Ext(1, msgspec.msgpack.encode(["pods:dataclass", {}]))),
        msgspec.msgpack.encode(msgspec.msgpack.Ext(1, msgspec.msgpack.encode(["pods:Pod", {"no": 1}]))),
    ],
    ids=["nothing", "rubbish", "unknown type", "module", "another room", "function", "unknown field"],
)
def test_bytes_that_are_no_value_are_refused(data: bytes) -> None:
    """One error, whatever is wrong with them."""
    with pytest.raises(Unreadable):
        loads(data)
