"""Objects that cannot be read, as the engine hears of them: by their metadata, and nobody else is concerned."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from moorage.adapters.kube.intake import KindIntake
from moorage.adapters.kube.watchstream import metadata_of
from moorage.core.events import Event, NodeGone, NodeSeen, ObjectGone, ObjectSeen, PodGone, PodSeen
from moorage.wire.kinds import BY_ID

BAD_REQUESTS = {"containers": [{"name": "c", "resources": {"requests": {"cpu": []}}}]}
GOOD_REQUESTS = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}


def raw(name: str, **more: Any) -> msgspec.Raw:
    metadata = {"name": name, "namespace": "ns", "uid": f"uid-{name}", "resourceVersion": "1"}
    return msgspec.Raw(msgspec.json.encode({"metadata": metadata, **more}))


def pod(node: str | None = None, *, good: bool = True, phase: str = "Running", name: str = "p") -> msgspec.Raw:
    spec = {**(GOOD_REQUESTS if good else BAD_REQUESTS), "nodeName": node}
    return raw(name, spec=spec, status={"phase": phase})


class Followed:
    """An intake, fed as the reflector feeds it, and what it emits: names of events and keys."""

    def __init__(self, kind: str) -> None:
        self._events: list[Event] = []
        self.intake = KindIntake(BY_ID[kind], self._events.append)

    def value(self, text: msgspec.Raw) -> Any:
        try:
            return self.intake.parse(text)
        except ValueError:
            return self.intake.remains(text)

    def modified(self, text: msgspec.Raw) -> list[str]:
        self.intake.upserted(self.value(text))
        return self.heard()

    def listed(self, *texts: msgspec.Raw) -> list[str]:
        self.intake.replaced([self.value(text) for text in texts])
        return self.heard()

    def deleted(self, text: msgspec.Raw) -> list[str]:
        self.intake.deleted(metadata_of(text))
        return self.heard()

    def heard(self) -> list[str]:
        told = [_words(event) for event in self._events]
        self._events.clear()
        return told


def _words(event: Event) -> str:
    match event:
        case PodSeen():
            return f"seen {event.pod.name} on {event.pod.node}"
        case PodGone():
            return f"gone {event.uid}"
        case NodeSeen():
            return f"seen {event.node.name}"
        case NodeGone():
            return f"gone {event.name}"
        case ObjectSeen() | ObjectGone():
            return f"{'seen' if isinstance(event, ObjectSeen) else 'gone'} {event.key}"
    raise AssertionError


@pytest.mark.parametrize(
    ("before", "after", "want"),
    [
        pytest.param(pod(), pod(good=False), ["gone uid-p"], id="a pod that waits is left out"),
        pytest.param(pod("n1"), pod("n1", good=False), [], id="a pod on a node keeps its room"),
        pytest.param(pod("n1"), pod("n2", good=False), ["gone uid-p"], id="what stood elsewhere keeps nothing"),
        pytest.param(pod(), pod("n1", good=False), ["gone uid-p"], id="a pod that waited and now stands is left out"),
        pytest.param(pod("n1"), pod("n1", good=False, phase="Failed"), ["gone uid-p"], id="a finished pod has no room"),
        pytest.param(pod("n1"), raw("p", spec=[]), ["gone uid-p"], id="a pod of which only the name can be read"),
    ],
)
@pytest.mark.parametrize("how", ["watch", "list"])
def test_a_known_pod_that_cannot_be_read_any_more(
    before: msgspec.Raw, after: msgspec.Raw, want: list[str], how: str
) -> None:
    """It is gone, unless it stands where it stood: then its room stays taken, until it is deleted."""
    followed = Followed("Pod")
    other = pod("n1", name="other")
    followed.listed(other, before)
    heard = followed.modified(after) if how == "watch" else followed.listed(other, after)[1:]
    assert heard == want
    assert followed.deleted(after) == ["gone uid-p"]
    assert followed.modified(pod("n3")) == ["seen p on n3"]
    assert followed.listed(other) == ["seen other on n1", "gone uid-p"]


@pytest.mark.parametrize(
    ("kind", "good", "bad", "key"),
    [
        pytest.param("Node", {}, {"spec": 7}, "x", id="Node"),
        pytest.param("Service", {"spec": {}}, {"spec": 7}, "ns/x", id="Service"),
        pytest.param("ResourceClaim", {}, {"spec": {"devices": 7}}, "ns/x", id="ResourceClaim"),
        pytest.param("PodDisruptionBudget", {"spec": {}}, {"spec": 7}, "ns/x", id="PodDisruptionBudget"),
    ],
)
@pytest.mark.parametrize("how", ["watch", "list"])
def test_other_kinds_that_cannot_be_read_any_more(
    kind: str, good: dict[str, Any], bad: dict[str, Any], key: str, how: str
) -> None:
    """What was known is gone; what was not known is not told; a deletion counts, whatever else the object says."""

    def text(content: dict[str, Any]) -> msgspec.Raw:
        metadata = {"name": "x", "namespace": None if kind == "Node" else "ns"}
        return msgspec.Raw(msgspec.json.encode({"metadata": metadata, **content}))

    followed = Followed(kind)
    assert followed.modified(text(bad)) == []
    assert followed.listed(text(good)) == [f"seen {key}"]
    assert (followed.modified if how == "watch" else followed.listed)(text(bad)) == [f"gone {key}"]
    assert followed.modified(text(good)) == [f"seen {key}"]
    assert followed.deleted(text(bad)) == [f"gone {key}"]
