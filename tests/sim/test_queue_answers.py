"""What `simulate` and `validate` say about queues."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from moorage.adapters.memory.manifests import node_manifest, pod_manifest
from moorage.cli.main import run

GPU = "nvidia.com/gpu"
KAI = "scheduling.run.ai/v2"
VOLCANO = "scheduling.volcano.sh/v1beta1"


def queue(name: str, parent: str = "", api: str = "moorage.dev/v1alpha1", **fields: Any) -> dict[str, Any]:
    spec = {**({"parent": parent} if parent else {}), **fields}
    return {"apiVersion": api, "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def gpus(**terms: Any) -> dict[str, Any]:
    return {GPU: terms}


def pod(name: str, of: str, gpu: int, **fields: Any) -> dict[str, Any]:
    made = pod_manifest(name, labels={"moorage.dev/queue": of, "moorage.dev/preemptible": "true"}, **fields)
    made["spec"]["containers"][0]["resources"] = {"requests": {GPU: str(gpu)}, "limits": {GPU: str(gpu)}}
    return made


CLUSTER = [
    {**node_manifest("n1"), "status": {"capacity": {GPU: "4", "pods": "110"}}},
    queue("research"),
    queue("team-a", "research", resources=gpus(quota="1", weight=3)),
    queue("team-b", "research", resources=gpus(quota="2", weight=1)),
    pod("a-1", "team-a", 1, nodeName="n1"),
    pod("a-2", "team-a", 8),
    pod("b-1", "team-b", 1, nodeName="n1"),
    pod("b-2", "team-b", 2, nodeName="n1"),
]
"""Nothing can move: the pod that waits is larger than the only node."""


def written(folder: Path, objects: list[dict[str, Any]], name: str = "cluster.yaml") -> str:
    (folder / name).write_text(yaml.safe_dump_all(objects))
    return str(folder / name)


def document(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert run(["simulate", *arguments, "-o", "json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def said(capsys: pytest.CaptureFixture[str], *arguments: str, code: int) -> str:
    assert run([*arguments]) == code
    out, err = capsys.readouterr()
    return out + err


def test_queues_are_in_the_document(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The unit that is left after the quotas goes to the larger weight; a parent has what its children have."""
    queues = document(capsys, "-f", written(tmp_path, CLUSTER))["queues"]
    assert queues["team-a"] == {"allocated": {GPU: "1"}, "fairShare": {GPU: "2"}, "waiting": {GPU: "8"}}
    assert queues["team-b"] == {"allocated": {GPU: "3"}, "fairShare": {GPU: "2"}, "waiting": {GPU: "0"}}
    assert queues["research"] == {"allocated": {GPU: "4"}, "fairShare": {GPU: "4"}, "waiting": {GPU: "8"}}


def test_without_queues_the_document_has_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A label alone makes no queue."""
    others = [each for each in CLUSTER if each["kind"] != "Queue"]
    assert "queues" not in document(capsys, "-f", written(tmp_path, others))


def test_what_counts_in_no_queue_is_not_divided(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Pods of a queue that does not exist, or that is a parent, hold what nobody else gets."""
    objects = [*CLUSTER[:7], pod("stray", "nowhere", 1, nodeName="n1"), pod("high", "research", 1, nodeName="n1")]
    queues = document(capsys, "-f", written(tmp_path, objects))["queues"]
    assert queues["research"]["fairShare"] == {GPU: "2"}
    assert queues["research"]["allocated"] == {GPU: "2"}


def test_the_tree_is_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Children stand below their parent, indented."""
    printed = said(capsys, "simulate", "-f", written(tmp_path, CLUSTER), "--queues", code=0)
    lines = [line.split() for line in printed.partition("QUEUE ")[2].splitlines()]
    assert ["team-a", "100", GPU, "1", "3", "-", "2", "1", "8", "50%"] in lines
    assert ["team-b", "100", GPU, "2", "1", "-", "2", "3", "0", "150%"] in lines
    assert "\n  team-a" in printed


@pytest.mark.parametrize(
    ("setting", "share"),
    [
        ("team-a/quota.nvidia.com/gpu=4", {"team-a": "4", "team-b": "2"}),
        ("team-b/quota.nvidia.com/gpu=3", {"team-a": "1", "team-b": "3"}),
        ("team-b/weight.nvidia.com/gpu=9", {"team-a": "1", "team-b": "3"}),
        ("team-a/weight.nvidia.com/gpu=0", {"team-a": "1", "team-b": "3"}),
        ("team-a/limit.nvidia.com/gpu=1", {"team-a": "1", "team-b": "3"}),
        ("team-b/priority=200", {"team-a": "1", "team-b": "3"}),
        ("team-b/parent=", {"team-a": "4", "team-b": "2"}),
        ("team-b/quota.nvidia.com/gpu=", {"team-a": "3", "team-b": "1"}),
    ],
)
def test_a_queue_is_changed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], setting: str, share: dict[str, str]
) -> None:
    """Quota, weight, limit, priority and parent; an empty value takes a field away."""
    found = document(capsys, "-f", written(tmp_path, CLUSTER), "--set-queue", setting)
    assert {name: found["queues"][name]["fairShare"][GPU] for name in share} == share
    path, _, value = setting.removeprefix("team-").partition("/")[2].partition("=")
    words = f"set {path} of queue {setting[:6]} to {value or 'its default'}"
    assert found["difference"]["changes"] == [words]


def test_a_queue_of_kai_is_changed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It keeps everything else: its quota and its parent."""
    terms = {"quota": 1, "overQuotaWeight": 3, "limit": -1}
    theirs = queue("team-a", api=KAI, parentQueue="research", resources={"gpu": terms})
    objects = [theirs if each["metadata"]["name"] == "team-a" else each for each in CLUSTER]
    before = document(capsys, "-f", written(tmp_path, objects))["queues"]
    found = document(capsys, "-f", written(tmp_path, objects), "--set-queue", "team-b/weight.nvidia.com/gpu=3")
    assert found["queues"] == before
    found = document(capsys, "-f", written(tmp_path, objects), "--set-queue", "team-a/weight.nvidia.com/gpu=0")
    assert found["queues"]["team-a"]["fairShare"] == {GPU: "1"}
    assert found["queues"]["research"] == before["research"]


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("team-x/priority=1", "there is no queue 'team-x'; did you mean team-"),
        ("team-a/qouta.cpu=1", "'qouta' is no field of a queue; did you mean quota?"),
        ("team-a/quota=1", "name the resource, such as quota.nvidia.com/gpu"),
        ("team-a/priority.cpu=1", "write priority"),
        ("team-a", "write NAME/FIELD=VALUE"),
        ("team-a/quota.cpu=many", "'many' is not a quantity"),
        ("team-a/priority=high", "spec.priority"),
        ("research/parent=team-a", "is part of itself"),
        ("research/parent=nobody", "which does not exist"),
    ],
)
def test_what_cannot_be_set(tmp_path: Path, capsys: pytest.CaptureFixture[str], setting: str, words: str) -> None:
    """One line that says why."""
    assert words in said(capsys, "simulate", "-f", written(tmp_path, CLUSTER), "--set-queue", setting, code=2)


def test_good_queues_are_valid(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Also those without a weight or with 0, without an end, and those whose parent is in another file."""
    children = [
        queue("a", "all", resources=gpus(quota="-1", weight=0, limit="4")),
        queue("b", "all", resources={"cpu": {}}, namespaces={"matchLabels": {"team": "b"}}, reclaimMinRuntime="5m"),
    ]
    files = written(tmp_path, children), written(tmp_path, [queue("all")], "parents.yaml")
    assert "ok: 3 objects" in said(capsys, "validate", "-f", files[0], "-f", files[1], code=0)


@pytest.mark.parametrize(
    ("objects", "words"),
    [
        ([queue("a", priorty=5)], "Queue a: spec.priorty: 5: is not a field; did you mean priority?"),
        ([queue("a", resources=gpus(qouta="1"))], f'spec.resources[{GPU}].qouta: "1": is not a field'),
        ([queue("a", resources=gpus(quota="1x"))], "'1x' is not a quantity"),
        ([queue("a", resources=gpus(weight=-1))], "weight"),
        ([queue("a", reclaimMinRuntime="soon")], "spec.reclaimMinRuntime"),
        ([queue("a", "b"), queue("b", "a")], "is part of itself"),
        ([queue("alpha"), queue("b", "alpa")], 'spec.parent: "alpa": is no queue of these files'),
        ([pod("p", "", 1)], "must not be empty"),
    ],
)
def test_what_is_wrong_with_queues(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], objects: list[dict[str, Any]], words: str
) -> None:
    """Fields, quantities, durations, trees and labels."""
    assert words in said(capsys, "validate", "-f", written(tmp_path, objects), code=1)


def suggested(folder: Path, capsys: pytest.CaptureFixture[str], objects: list[dict[str, Any]], pod: str) -> Any:
    """What `explain` says, and what becomes of the pod with the objects of its first suggestion."""
    assert run(["explain", pod, "-f", written(folder, objects), "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    changed = {(each["kind"], each["metadata"]["name"]): each for each in found["suggestions"][0]["objects"]}
    after = [changed.pop((each["kind"], each["metadata"]["name"]), each) for each in objects]
    pods = document(capsys, "-f", written(folder, [*after, *changed.values()]))["pods"]
    return found, next(each for each in pods if each["name"] == pod)["node"]


def test_a_limit_is_named_and_raised(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """At each level that is in the way."""
    objects = [
        CLUSTER[0],
        queue("all", resources=gpus(quota="4", limit="1")),
        queue("a", "all", resources=gpus(quota="4", limit="1")),
        pod("runs", "a", 1, nodeName="n1"),
        pod("waits", "a", 2),
    ]
    found, node = suggested(tmp_path, capsys, objects, "waits")
    assert f"queue a has 1 of its limit of 1 {GPU}" in found["message"]
    words = f"Raise the limit of queue a from 1 to 3 {GPU} and raise the limit of queue all from 1 to 3 {GPU}"
    assert found["suggestions"][0]["text"] == f"{words}; it then fits on n1."
    assert node == "n1"


def test_a_quota_is_named_and_raised(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A pod that may not be evicted waits beside idle devices."""
    terms = {"quota": 1, "overQuotaWeight": 1, "limit": -1}
    fixed = pod("waits", "a", 2)
    fixed["metadata"]["labels"]["moorage.dev/preemptible"] = "false"
    objects = [CLUSTER[0], queue("a", api=KAI, resources={"gpu": terms}), fixed]
    found, node = suggested(tmp_path, capsys, objects, "waits")
    texts = [each["text"] for each in found["suggestions"]]
    assert f"Raise the quota of queue a from 1 to 2 {GPU}; it then fits on n1." in texts
    assert any("moorage.dev/preemptible" in text for text in texts)
    assert node == "n1"


@pytest.mark.parametrize(
    ("mine", "other", "want"),
    [
        pytest.param(
            queue("a", api=KAI, resources={"gpu": {"quota": 1, "limit": -1}}),
            queue("b", api=KAI, resources={"gpu": {"quota": 1, "overQuotaWeight": 4, "limit": -1}}),
            [
                ("the quota of queue a from 1 to 2 nvidia.com/gpu", {"gpu": {"quota": 2, "limit": -1}}),
                (
                    "the weight of queue a from 1 to 2 for nvidia.com/gpu",
                    {"gpu": {"quota": 1, "limit": -1, "overQuotaWeight": 2}},
                ),
            ],
            id="kai",
        ),
        pytest.param(
            queue("a", api=VOLCANO, weight=1, deserved={GPU: "1"}),
            queue("b", api=VOLCANO, weight=4, deserved={GPU: "1"}),
            [
                ("the quota of queue a from 1 to 2 nvidia.com/gpu", {"weight": 1, "deserved": {GPU: "2"}}),
                ("the weight of queue a from 1 to 2", {"weight": 2, "deserved": {GPU: "1"}}),
            ],
            id="volcano",
        ),
        pytest.param(
            queue("a", api=VOLCANO, capability={GPU: "1"}),
            queue("b", api=VOLCANO, deserved={GPU: "1"}),
            [("the limit of queue a from 1 to 2 nvidia.com/gpu", {"capability": {GPU: "2"}})],
            id="limit-of-volcano",
        ),
    ],
)
def test_larger_bounds_of_other_kinds(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    mine: dict[str, Any],
    other: dict[str, Any],
    want: list[tuple[str, dict[str, Any]]],
) -> None:
    """A queue of KAI or Volcano is changed in its own fields, and stays one of theirs."""
    room = "limit" in want[0][0]
    objects = [
        CLUSTER[0],
        mine,
        other,
        pod("a-0", "a", 1, nodeName="n1"),
        *(pod(f"b-{number}", "b", 1, nodeName="n1") for number in range(2 if room else 3)),
        pod("waits", "a", 1),
    ]
    found, node = suggested(tmp_path, capsys, objects, "waits")
    end = "; it then fits on n1." if room else "; it then fits on n1 once default/b-2 has made room."
    assert [each["text"] for each in found["suggestions"]][: len(want)] == [f"Raise {words}{end}" for words, _ in want]
    for suggestion, (_, spec) in zip(found["suggestions"], want, strict=False):
        wanted = {"resources": spec} if mine["apiVersion"] == KAI else spec
        assert suggestion["objects"] == [{**mine, "spec": wanted}]
    assert node == "n1"


@pytest.mark.parametrize(("behind", "quota", "weight"), [(False, 2, 2), (True, 3, 12)])
def test_a_larger_share_is_suggested(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], *, behind: bool, quota: int, weight: int
) -> None:
    """A quota or a weight with which another queue gives way; enough for what stands before the pod in its queue."""
    objects = [
        CLUSTER[0],
        queue("a", resources=gpus(quota="1")),
        queue("b", resources=gpus(quota="1", weight=4)),
        pod("a-0", "a", 1, nodeName="n1"),
        *(pod(f"b-{number}", "b", 1, nodeName="n1") for number in range(3)),
        *([pod("ahead", "a", 1)] if behind else []),
        pod("waits", "a", 1),
    ]
    found, node = suggested(tmp_path, capsys, objects, "waits")
    assert found["queue"][-1 - behind].startswith("with this pod queue a would be beyond its share")
    texts = [each["text"] for each in found["suggestions"]]
    end = f"; it then fits on n1 once default/b-{1 if behind else 2} has made room."
    assert texts[0] == f"Raise the quota of queue a from 1 to {quota} {GPU}{end}"
    assert texts[1] == f"Raise the weight of queue a from 1 to {weight} for {GPU}{end}"
    assert node == "n1"


@pytest.mark.parametrize(
    ("terms", "running", "verdict", "words"),
    [
        ({"quota": "4", "limit": "3"}, 0, "would be beyond", f"Raise the limit of queue a from 3 to 4 {GPU}"),
        ({"quota": "2"}, 4, "would be beyond", f"Raise the quota of queue a from 2 to 4 {GPU}"),
        ({"quota": "4"}, 4, "stays within", ""),
    ],
    ids=["limit", "quota", "enough"],
)
def test_a_gang_is_judged_as_a_whole(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], terms: Any, running: int, verdict: str, words: str
) -> None:
    """All of its members have to be within the share, and within the limit."""
    group = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup", "metadata": {"name": "g"}}
    objects = [CLUSTER[0], queue("a", resources=gpus(**terms)), queue("b", resources=gpus(quota="0"))]
    objects += [{**group, "spec": {"minMember": 4}}, *(pod(f"b-{n}", "b", 1, nodeName="n1") for n in range(running))]
    for number in range(4):
        objects.append(pod(f"g-{number}", "a", 1))
        objects[-1]["metadata"]["labels"]["scheduling.x-k8s.io/pod-group"] = "g"
    if not words:
        for each in objects:  # they cannot go, or the gang would have its place
            if each["metadata"]["name"].startswith("b-"):
                each["metadata"]["labels"]["moorage.dev/preemptible"] = "false"
    assert run(["explain", "g-0", "-f", written(tmp_path, objects), "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert f"with this gang queue a {verdict} its share" in " ".join(found["queue"])
    texts = [each["text"] for each in found["suggestions"]]
    assert any(words in each for each in texts)
    smaller = any("Let 3 members of pod group default/g be enough" in each for each in texts)
    assert smaller == bool(words)


def test_what_is_no_queue_is_said_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The pod names it by a label that it could do without."""
    file = written(tmp_path, [CLUSTER[0], queue("a"), pod("waits", "none", 1)])
    told = said(capsys, "explain", "waits", "-f", file, code=0)
    assert told.count("queue none does not exist") == 1 + told.count("FairShare: queue none does not exist")
    assert "Remove the pod's label moorage.dev/queue, by which it names its queue; it then fits on n1." in told


def test_a_limit_is_raised_for_all_that_comes_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A pod before this one would take what a limit has left; and this one could ask for less."""
    objects = [CLUSTER[0], queue("a", resources=gpus(limit="1")), pod("ahead", "a", 2), pod("waits", "a", 2)]
    found, node = suggested(tmp_path, capsys, objects, "waits")
    texts = [each["text"] for each in found["suggestions"]]
    assert f"Raise the limit of queue a from 1 to 4 {GPU}; it then fits on n1." in texts
    assert f"Lower the {GPU} request from 2 to 1; it then fits on n1." in texts
    assert node == "n1"


def test_the_part_of_a_queue_that_may_have_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What it uses is not a part of anything; very small weights are weights."""
    objects = [CLUSTER[0], queue("a", resources=gpus(weight=0)), pod("idle", "a", 1)]
    assert ">900%" in said(capsys, "simulate", "-f", written(tmp_path, objects), "--queues", code=0)
    objects[1] = queue("a", resources=gpus(weight=0.0001))
    assert " 0.001 " in said(capsys, "simulate", "-f", written(tmp_path, objects), "--queues", code=0)


@pytest.mark.parametrize(
    ("gpu", "words"),
    [
        (8, "with this pod queue team-a would be beyond its share: no other queue has to give anything up for it"),
        (1, "with this pod queue team-a stays within its share: it may take back what others have beyond theirs"),
    ],
)
def test_whose_share_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str], gpu: int, words: str) -> None:
    """Each level that governs what the pod asks for; then whether anybody has to give way. Those of team-b need not."""
    kept = [each for each in CLUSTER if each["metadata"]["name"] not in ("a-2", "b-1", "b-2")]
    fixed = pod("b-1", "team-b", 3, nodeName="n1")
    fixed["metadata"]["labels"]["moorage.dev/preemptible"] = "false"
    file = written(tmp_path, [*kept, fixed, pod("a-2", "team-a", gpu)])
    assert run(["explain", "a-2", "-f", file, "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    spared = ["queue team-b is beyond its share, and 1 pod of it may not be evicted"] if gpu == 1 else []
    assert found["queue"] == [f"queue team-a has 1 of its fair share of 2 {GPU} (quota 1)", words, *spared]
    assert words in said(capsys, "explain", "a-2", "-f", file, code=0)
