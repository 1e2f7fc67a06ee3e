"""What a tenant writes about devices on its own pod is no fact about anybody else's.

The scheduler knows what it has given to pods, and reads it from their status; annotations are for agents on nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

import pytest

from moorage.adapters.memory.manifests import node_manifest, pod_manifest
from moorage.core.commands import Bind
from moorage.core.echo import Echo
from moorage.core.nodes import Node
from moorage.core.pods import Pod
from moorage.plugins.shared_devices import SharedDevices
from moorage.testing import make_node
from moorage.wire.assignments import ASSIGNED, assignment, condition_of_assignment
from moorage.wire.pod import pod_from_builtin
from tests.crossings.test_levels import simulated
from tests.engine.play import Play

DEVICES = "moorage.dev/devices"
GPU = "nvidia.com/gpu"


def share(
    name: str, fraction: str | None, said: str | None = None, node: str = "", given: Sequence[int] | None = None
) -> Pod:
    """A pod that asks for a share; `said`: its annotation about devices; `given`: what its status says."""
    notes = {key: text for key, text in (("gpu-fraction", fraction), (DEVICES, said)) if text is not None}
    body = pod_manifest(name, annotations=notes, cpu="10m")
    body["spec"] |= {"nodeName": node} if node else {}
    body["metadata"]["uid"] = f"default/{name}"
    if given is not None:
        body["status"] = {"conditions": [record(given)]}
    return pod_from_builtin(body)


def record(devices: Sequence[int], milli: int = 900, node: str = "n") -> dict[str, str]:
    """The condition of a pod that was given so much of each of these devices."""
    text = f'{{"node":"{node}","devices":{list(devices)},"milli":{milli},"memoryMilli":{milli},"memoryMiB":0}}'
    return {"type": ASSIGNED, "status": "True", "reason": "Assigned", "message": text}


def play(devices: int = 2) -> Play:
    """A scheduler and a node."""
    found = Play(SharedDevices())
    found.see(make_node("n", cpu="64", resources={GPU: devices}))
    found.engine.state.shares()
    return found


def left(found: Play) -> list[int]:
    """What the devices of the node have left, in thousandths."""
    return [int(milli) for milli in found.engine.state.shares().milli[:, 0]]


def bind_of(found: Play) -> Bind:
    """The only bind of the last call."""
    [bind] = found.of(Bind)
    return bind


def test_a_pod_that_waits_was_given_nothing_whatever_it_says() -> None:
    """Device 0 is a neighbour's: the pod gets the other one, and its Binding says so."""
    found = play()
    found.see(share("neighbour", "0.9", node="n", given=[0]))
    found.see(share("tenant", "0.9", said="0"))
    bind = bind_of(found)
    assert bind.annotations[DEVICES] == "1"
    assert bind.assigned is not None
    assert bind.assigned.devices == (1,)
    assert left(found) == [100, 100]


def test_a_pod_that_waits_blocks_no_second_device() -> None:
    """It asks for a part of one device, and names both."""
    found = play()
    found.see(share("tenant", "0.4", said="0,1"))
    assert sorted(left(found)) == [600, 1000]


@pytest.mark.parametrize(("fraction", "said"), [("0.9", "0"), ("0.1", "1"), (None, None), ("nonsense", "0,1")])
def test_what_is_written_on_a_running_pod_gives_nobody_its_device(fraction: str | None, said: str | None) -> None:
    """Devices and amounts are those that it was given, also after the next leader has read the pod."""
    found, late = play(), play()
    found.see(share("tenant", "0.9", said="1", node="n", given=[1]))
    edited = share("tenant", fraction, said, node="n", given=[1])
    for each in (found, late):
        each.see(edited)
        assert left(each) == [1000, 100]
        each.see(share("next", "0.5"))
        assert bind_of(each).annotations[DEVICES] == "0"


@pytest.mark.parametrize("said", ["7", "0", "0,1", "63,64", ",,"], ids=["absent", "full", "two", "many", "nothing"])
def test_what_another_scheduler_gave_takes_no_more_than_is_asked_for(said: str) -> None:
    """A pod without a record counts for a device that has room, and the neighbour's stays the neighbour's."""
    found = play()
    found.see(share("neighbour", "0.9", node="n", given=[0]), share("strange", "0.5", said=said, node="n"))
    assert left(found) == [100, 500]


def test_what_another_scheduler_gave_is_believed_where_it_can_be() -> None:
    """KAI, HAMi and others write what they give in annotations only."""
    found = play(3)
    found.see(share("strange", "0.5", said="2", node="n"))
    assert left(found) == [1000, 1000, 500]
    found.see(share("strange", "0.5", said="0", node="n"))
    assert left(found) == [1000, 1000, 500]


def test_a_new_leader_counts_what_is_known_before_what_is_said() -> None:
    """In whichever order it hears of the pods, and of the node."""
    pods = (
        share("strange", "0.9", said="0", node="n"),
        share("neighbour", "0.9", node="n", given=[0]),
        share("plain", "0.1", node="n"),
    )
    node = make_node("n", cpu="64", resources={GPU: 3})
    things: tuple[Node | Pod, ...] = (*pods, node)
    for order in permutations(things):
        found = Play(SharedDevices())
        found.see(*order)
        assert left(found)[0] in (0, 100)
        assert min(left(found)) >= 0


NOT_OURS = {
    "about another node": record([0], node="m")["message"],
    "no device": record([])["message"],
    "a device that nothing has": record([64])["message"],
    "more than a device": record([0], 1001)["message"],
    "less than nothing": record([0], -900)["message"],
    "no JSON": "{",
    "another form": '{"node":"n"}',
    "too long": record([0])["message"] + " " * 4096,
    "nested": "[" * 1000,
}


@pytest.mark.parametrize("text", NOT_OURS.values(), ids=NOT_OURS.keys())
def test_a_record_that_cannot_be_ours_says_nothing(text: str) -> None:
    """And costs nothing."""
    assert assignment(text, "n") is None


def test_a_record_on_a_pod_without_a_node_says_nothing() -> None:
    """It is left of a start that came to nothing: the devices may be others' by now."""
    assert share("a", "0.9", given=[0]).assigned is None


def test_a_record_is_read_as_it_was_written() -> None:
    """What the leader writes and what the next one reads is the same."""
    found = play()
    found.see(share("a", "0.3"))
    given = bind_of(found).assigned
    assert given is not None
    read = assignment(condition_of_assignment(given).message, "n")
    assert read is not None
    assert read.confirms(given.ask, given.devices)


def test_the_echo_of_a_bind_confirms_it() -> None:
    """A pod that the watch shows as it was bound is nothing new."""
    found = play()
    pod = share("a", "0.3")
    found.see(pod)
    events = Echo([pod]).events([bind_of(found)])
    found.handle(*events)
    assert left(found) == [700, 1000]


def test_a_simulated_pod_says_what_it_was_given() -> None:
    """The embedded cluster has the record with the bind; what the pod itself said is overwritten."""
    node = node_manifest("n")
    node["status"]["capacity"][GPU] = "2"
    outcome = simulated([node, pod_manifest("a", annotations={"gpu-fraction": "0.5", DEVICES: "1"})])
    assert outcome.world is not None
    [body] = outcome.world.cluster.store.list("Pod")
    [said] = [each for each in body["status"]["conditions"] if each["type"] == ASSIGNED]
    given = assignment(said["message"], "n")
    assert given is not None
    assert given.devices == (0,)
    assert body["metadata"]["annotations"][DEVICES] == "0"
