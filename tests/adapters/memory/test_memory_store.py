"""The store answers as the API server does, and its log tells the whole story."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moorage.adapters.memory.changes import ChangeType
from moorage.adapters.memory.clock import Clock
from moorage.adapters.memory.errors import AlreadyExists, ApiError, BadRequest, Conflict, Expired, Invalid, NotFound
from moorage.adapters.memory.manifests import manifest, node_manifest, pod_manifest
from moorage.adapters.memory.objects import KubeObject, ObjectKey, condition_of, key_of, node_of
from moorage.adapters.memory.store import Store, resource_name

META = {"name": "a", "namespace": "default"}


@pytest.fixture
def store() -> Store:
    return Store(Clock())


def bound_pod(store: Store, name: str = "a", **spec: Any) -> KubeObject:
    pod = store.create(pod_manifest(name, **spec))
    return store.bind("default", name, pod["metadata"]["uid"], "n1")


def test_create_gives_identity_and_does_not_take_it_from_the_caller(store: Store) -> None:
    """uid, creation time, version and generation are the server's; the caller's object is left as it was."""
    given = pod_manifest("a")
    given["metadata"].update(uid="mine", resourceVersion="99", deletionTimestamp="2020-01-01T00:00:00Z")
    pod = store.create(given)
    metadata = pod["metadata"]
    assert metadata["uid"] != "mine"
    assert metadata["creationTimestamp"] == "2026-01-01T00:00:00Z"
    assert metadata["generation"] == 1
    assert "deletionTimestamp" not in metadata
    assert given["metadata"]["resourceVersion"] == "99"


def test_load_keeps_what_a_snapshot_says(store: Store) -> None:
    """Identity, times and status of a snapshot survive; a uid that is taken is replaced."""
    given = pod_manifest("a")
    given["metadata"].update(uid="mine", creationTimestamp="2020-01-01T00:00:00Z", generation=7)
    given["status"] = {"phase": "Running"}
    pod = store.load(given)
    assert (pod["metadata"]["uid"], pod["metadata"]["generation"]) == ("mine", 7)
    assert pod["status"] == {"phase": "Running"}
    twin = store.load({**given, "metadata": {**given["metadata"], "name": "b"}})
    assert twin["metadata"]["uid"] != "mine"


@pytest.mark.parametrize(
    ("call", "want", "message"),
    [
        pytest.param(lambda s: s.get("Pod", "default", "x"), NotFound, 'pods "x" not found', id="get unknown"),
        pytest.param(lambda s: s.create(pod_manifest("a")), AlreadyExists, 'pods "a" already exists', id="taken"),
        pytest.param(lambda s: s.create({"metadata": {"name": "x"}}), BadRequest, "kind is missing", id="no kind"),
        pytest.param(lambda s: s.create(manifest("Pod", "")), Invalid, "metadata.name", id="no name"),
        pytest.param(lambda s: s.bind("default", "x", "", "n1"), NotFound, "not found", id="bind unknown"),
        pytest.param(lambda s: s.bind("default", "a", "other", "n1"), Conflict, "Precondition failed", id="bind uid"),
        pytest.param(
            lambda s: s.bind("default", "bound", "", "n2"), Conflict, 'already assigned to node "n1"', id="bind bound"
        ),
        pytest.param(lambda s: s.bind("default", "gated", "", "n1"), Conflict, "schedulingGates", id="bind gated"),
        pytest.param(lambda s: s.bind("default", "ending", "", "n1"), Conflict, "being deleted", id="bind ending"),
        pytest.param(lambda s: s.delete("Pod", "default", "a", uid="other"), Conflict, "UID", id="delete uid"),
        pytest.param(
            lambda s: s.patch("Pod", "default", "a", {"spec": {"nodeName": "n1"}}), Invalid, "nodeName", id="by patch"
        ),
        pytest.param(
            lambda s: s.replace({**pod_manifest("a"), "metadata": {**META, "resourceVersion": "1"}}),
            Conflict,
            "has been modified",
            id="stale replace",
        ),
    ],
)
def test_refusals(store: Store, call: Callable[[Store], object], want: type[ApiError], message: str) -> None:
    """Each refusal has the API server's type and words, and changes nothing."""
    store.create(node_manifest("n1"))
    store.create(pod_manifest("a"))
    bound_pod(store, "bound")
    store.create(pod_manifest("gated", schedulingGates=[{"name": "g"}]))
    store.create({**pod_manifest("ending"), "metadata": {**META, "name": "ending", "finalizers": ["x/y"]}})
    store.delete("Pod", "default", "ending")
    before = store.resource_version
    with pytest.raises(want, match=message) as caught:
        call(store)
    assert caught.value.code == want.code
    assert store.resource_version == before


def test_bind_writes_what_the_api_server_writes(store: Store) -> None:
    """Node, PodScheduled and topology labels are set, the nomination is cleared, the generation stays."""
    store.create(node_manifest("n1", zone="z1"))
    pod = store.create(pod_manifest("a", labels={"app": "x"}))
    store.patch_status("Pod", "default", "a", {"nominatedNodeName": "n2"})
    bound = store.bind("default", "a", pod["metadata"]["uid"], "n1")
    assert node_of(bound) == "n1"
    assert condition_of(bound, "PodScheduled")["status"] == "True"
    assert "nominatedNodeName" not in bound["status"]
    assert bound["metadata"]["labels"] == {"app": "x", "topology.kubernetes.io/zone": "z1"}
    assert bound["metadata"]["generation"] == 1
    assert node_of(pod) == ""
    assert [p["metadata"]["name"] for p in store.pods_on("n1")] == ["a"]


def test_a_request_that_changes_nothing_commits_nothing(store: Store) -> None:
    """An empty or repeated write gives no new version and no change."""
    store.create(pod_manifest("a"))
    watch, before = store.watch(), store.resource_version
    store.patch("Pod", "default", "a", {"metadata": {"labels": None}})
    store.patch_status("Pod", "default", "a", {})
    store.replace(store.get("Pod", "default", "a"))
    assert store.resource_version == before
    assert watch.pull() == []


def test_status_is_a_part_of_its_own(store: Store) -> None:
    """Spec and status are written apart from each other; only a new spec is a new generation."""
    store.create(pod_manifest("a"))
    store.patch_status("Pod", "default", "a", {"phase": "Running"})
    store.patch("Pod", "default", "a", {"spec": {"priority": 5}, "status": {"phase": "Failed"}})
    pod = store.get("Pod", "default", "a")
    assert pod["status"]["phase"] == "Running"
    assert pod["metadata"]["generation"] == 2
    replaced = store.replace({**pod, "status": {"phase": "Failed"}, "metadata": {**pod["metadata"], "labels": {}}})
    assert replaced["status"]["phase"] == "Running"
    assert replaced["metadata"]["generation"] == 2


@pytest.mark.parametrize(
    ("bind", "phase", "asked_s", "spec_s", "want_s"),
    [
        pytest.param(False, "Pending", None, 30, None, id="unbound goes at once"),
        pytest.param(True, "Succeeded", None, 30, None, id="finished goes at once"),
        pytest.param(True, "Running", None, None, 30, id="default grace"),
        pytest.param(True, "Running", None, 7, 7, id="the pod's own grace"),
        pytest.param(True, "Running", 3, 7, 3, id="asked grace"),
        pytest.param(True, "Running", 0, 7, None, id="forced"),
        pytest.param(True, "Running", -1, 7, 1, id="negative means one second"),
    ],
)
def test_grace(
    store: Store, bind: bool, phase: str, asked_s: int | None, spec_s: int | None, want_s: int | None
) -> None:
    """A pod on a node is marked for the granted period; None means that it is gone."""
    pod = store.create(pod_manifest("a", terminationGracePeriodSeconds=spec_s))
    if bind:
        store.bind("default", "a", pod["metadata"]["uid"], "n1")
    store.patch_status("Pod", "default", "a", {"phase": phase})
    store.delete("Pod", "default", "a", grace_s=asked_s)
    left = store.find("Pod", "default", "a")
    assert (None if left is None else left["metadata"]["deletionGracePeriodSeconds"]) == want_s


def test_a_second_deletion_only_shortens(store: Store) -> None:
    """A longer grace changes nothing, a shorter one does, zero ends it."""
    bound_pod(store)
    store.delete("Pod", "default", "a", grace_s=10)
    store.delete("Pod", "default", "a", grace_s=20)
    assert store.get("Pod", "default", "a")["metadata"]["deletionGracePeriodSeconds"] == 10
    store.delete("Pod", "default", "a", grace_s=5)
    assert store.get("Pod", "default", "a")["metadata"]["deletionGracePeriodSeconds"] == 5
    store.delete("Pod", "default", "a", grace_s=0)
    assert store.find("Pod", "default", "a") is None


def test_finalizers_hold_an_object_until_they_are_removed(store: Store) -> None:
    """Deletion is marked, and happens with the last finalizer."""
    store.create(manifest("ConfigMap", "c", "default", finalizers=["x/y"]))
    store.delete("ConfigMap", "default", "c")
    assert store.get("ConfigMap", "default", "c")["metadata"]["deletionTimestamp"]
    store.patch("ConfigMap", "default", "c", {"metadata": {"finalizers": None}})
    assert store.find("ConfigMap", "default", "c") is None


def test_watches_read_only_their_kinds_from_where_they_are(store: Store) -> None:
    """Each watch has its own place; replay shows the present first; a closed one is expired."""
    store.create(node_manifest("n1"))
    live, replayed = store.watch(("Pod",)), store.watch(("Node", "Pod"), replay=True)
    pod = store.create(pod_manifest("a"))
    store.delete("Pod", "default", "a")
    assert [c.type for c in live.pull()] == [ChangeType.ADDED, ChangeType.DELETED]
    assert live.pull() == []
    assert [(c.kind, c.type.value) for c in replayed.pull()] == [
        ("Node", "ADDED"),
        ("Pod", "ADDED"),
        ("Pod", "DELETED"),
    ]
    deleted = store.watch(("Pod",))
    live.close()
    with pytest.raises(Expired):
        live.pull()
    assert deleted.pull() == []
    assert pod["metadata"]["resourceVersion"] == "2"


def test_the_log_forgets_what_everyone_has_read(store: Store) -> None:
    """Long runs do not grow the log."""
    watch = store.watch()
    for number in range(10_000):
        store.create(manifest("ConfigMap", f"c{number}", "default"))
        watch.pull()
    assert len(store._log._changes) < 5_000
    watch.close()
    assert store._log._changes == []


def test_the_same_seed_gives_the_same_names() -> None:
    """Generated uids and names come from the seed alone."""

    def names(seed: int) -> list[str]:
        store = Store(Clock(), seed=seed)
        made = [store.create({"kind": "Pod", "metadata": {"generateName": "a-", "namespace": "d"}}) for _ in range(3)]
        return [name for obj in made for name in (obj["metadata"]["name"], obj["metadata"]["uid"])]

    assert names(1) == names(1)
    assert names(1) != names(2)
    assert len(set(names(1))) == 6


@pytest.mark.parametrize(
    ("kind", "want"),
    [
        ("Pod", "pods"),
        ("PriorityClass", "priorityclasses"),
        ("NetworkPolicy", "networkpolicies"),
        ("CSIStorageCapacity", "csistoragecapacities"),
    ],
)
def test_resource_names(kind: str, want: str) -> None:
    """Messages name the resource as the API does."""
    assert resource_name(kind) == want


# Any sequence of requests

NAMES = st.sampled_from(["a", "b", "c"])
NODES = st.sampled_from(["n1", "n2"])
REQUESTS = st.one_of(
    st.tuples(st.just("create"), NAMES),
    st.tuples(st.just("own"), NAMES, NAMES),
    st.tuples(st.just("label"), NAMES, st.sampled_from(["x", "y"])),
    st.tuples(st.just("status"), NAMES, st.sampled_from(["Running", "Failed"])),
    st.tuples(st.just("bind"), NAMES, NODES),
    st.tuples(st.just("delete"), NAMES, st.sampled_from([None, 0, 5])),
    st.tuples(st.just("replace"), NAMES),
)


def request(store: Store, step: tuple[Any, ...]) -> None:
    verb, name, *rest = step
    match verb:
        case "create":
            store.create(pod_manifest(name))
        case "own":
            owner = store.get("Pod", "default", rest[0])
            reference = {"apiVersion": "v1", "kind": "Pod", "name": rest[0], "uid": owner["metadata"]["uid"]}
            store.patch("Pod", "default", name, {"metadata": {"ownerReferences": [reference]}})
        case "label":
            store.patch("Pod", "default", name, {"metadata": {"labels": {"l": rest[0]}}})
        case "status":
            store.patch_status("Pod", "default", name, {"phase": rest[0]})
        case "bind":
            store.bind("default", name, "", rest[0])
        case "delete":
            store.delete("Pod", "default", name, grace_s=rest[0])
        case "replace":
            store.replace({**store.get("Pod", "default", name), "spec": {"containers": []}})


@settings(max_examples=150, deadline=None)
@given(st.lists(REQUESTS, max_size=40))
def test_versions_rise_and_the_log_replays_to_the_same_state(steps: list[tuple[Any, ...]]) -> None:
    """Whatever is asked: versions rise strictly, the log rebuilds the state, the indexes agree with the objects."""
    store = Store(Clock())
    watch = store.watch()
    for step in steps:
        try:
            request(store, step)
        except ApiError:
            continue
    changes = watch.pull()
    versions = [int(change.object["metadata"]["resourceVersion"]) for change in changes]
    assert versions == sorted(set(versions))
    assert versions[-1:] in ([], [store.resource_version])
    replayed: dict[ObjectKey, KubeObject] = {}
    for change in changes:
        if change.type is ChangeType.DELETED:
            assert replayed.pop(key_of(change.object)) is change.old
        else:
            assert replayed.get(key_of(change.object)) is change.old
            replayed[key_of(change.object)] = change.object
    assert replayed == {key_of(pod): pod for pod in store.list("Pod")}
    check_indexes(store)


def check_indexes(store: Store) -> None:
    pods = store.list("Pod")
    for node in ("n1", "n2"):
        assert {id(p) for p in store.pods_on(node)} == {id(p) for p in pods if node_of(p) == node}
    for pod in pods:
        uid = pod["metadata"]["uid"]
        assert store.find_uid(uid) is pod
        owned = [p for p in pods if any(r["uid"] == uid for r in p["metadata"].get("ownerReferences") or ())]
        assert {id(p) for p in store.children(pod)} == {id(p) for p in owned}
