"""Files become objects; every problem is one line that names its place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from moorage.core.nodes import Node
from moorage.wire.manifests import Manifests, load_manifests, parse_manifests
from moorage.wire.problems import ABSENT, Problem

NODE = "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\n"
POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: c, image: i}]}\n"


def parse(text: str) -> Manifests:
    return parse_manifests("f.yaml", text.encode())


def titles(found: Manifests) -> list[str]:
    return [manifest.title for manifest in found.objects]


@pytest.mark.parametrize(
    ("text", "want_titles"),
    [
        pytest.param(NODE, ["Node n1"], id="one document"),
        pytest.param(f"{NODE}---\n{POD}", ["Node n1", "Pod default/a"], id="several documents"),
        pytest.param(f"---\n# nothing\n---\n{NODE}---\n---\n", ["Node n1"], id="empty documents are skipped"),
        pytest.param(
            "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Node, metadata: {name: n1}}\n"
            "- {apiVersion: v1, kind: Pod, metadata: {name: a, namespace: x}}\n",
            ["Node n1", "Pod x/a"],
            id="List",
        ),
        pytest.param(
            '{"kind": "PodList", "apiVersion": "v1", "items": [{"metadata": {"name": "a"}}]}',
            ["Pod default/a"],
            id="items of a PodList take kind and apiVersion from it",
        ),
        pytest.param(
            "kind: List\napiVersion: v1\nitems: [{kind: NodeList, apiVersion: v1, items: [{metadata: {name: n}}]}]",
            ["Node n"],
            id="list in a list",
        ),
        pytest.param("kind: List\napiVersion: v1\nitems: null", [], id="a list of nothing"),
        pytest.param("\ufeff" + NODE, ["Node n1"], id="byte order mark"),
        pytest.param(
            '{"kind":"Node","apiVersion":"v1","metadata":{"name":"a"}}\n{"kind":"Node","apiVersion":"v1","metadata":{"name":"b"}}',
            ["Node a", "Node b"],
            id="JSON values one after the other",
        ),
        pytest.param(
            "{kind: Node, apiVersion: v1, metadata: {name: a}}", ["Node a"], id="YAML that starts with a brace"
        ),
        pytest.param(
            "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: i, namespace: x}",
            ["Ingress x/i"],
            id="kinds that are not read are objects as well",
        ),
        pytest.param(
            "apiVersion: v1\nkind: Node\nmetadata: {name: n1, namespace: x}",
            ["Node n1"],
            id="a node has no namespace",
        ),
    ],
)
def test_objects_are_found_wherever_they_stand(text: str, want_titles: list[str]) -> None:
    """Documents, lists and JSON streams give the same flat sequence of objects, without problems."""
    found = parse(text)
    assert titles(found) == want_titles
    assert found.problems == []


@pytest.mark.parametrize(
    ("text", "want_lines"),
    [
        pytest.param(
            "kind: Node\nmetadata: {name: n}",
            ["f.yaml: apiVersion: is missing; every object needs it"],
            id="apiVersion",
        ),
        pytest.param(
            "apiVersion: v1\nmetadata: {}",
            [
                "f.yaml: kind: is missing; every object needs it",
                "f.yaml: metadata.name: is missing; every object needs it",
            ],
            id="kind and name, both told",
        ),
        pytest.param(
            "apiVersion: v1\nkind: Node\nmetadata: {name: 7}",
            ["f.yaml: metadata.name: 7: must be text; put it in quotes"],
            id="a name that is a number",
        ),
        pytest.param(
            "apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: on}",
            ["f.yaml: metadata.namespace: true: must be text; put it in quotes"],
            id="a namespace that is a truth value",
        ),
        pytest.param(
            "apiVersion: v1\nkind: Node\nmetadata: n1",
            ['f.yaml: metadata: "n1": must be a mapping with a name'],
            id="metadata is no mapping",
        ),
        pytest.param(
            "just text",
            [
                'f.yaml: "just text": is not a Kubernetes object; write a mapping with apiVersion, kind and metadata',
            ],
            id="not a mapping",
        ),
        pytest.param(
            "kind: List\napiVersion: v1\nitems: [{apiVersion: v1, kind: Node, metadata: {name: n}}, 3]",
            ["f.yaml, item 2: 3: is not a Kubernetes object; write a mapping with apiVersion, kind and metadata"],
            id="an item that is no mapping",
        ),
        pytest.param(
            "kind: List\napiVersion: v1\nitems: 3",
            ["f.yaml: items: 3: must be a list of objects"],
            id="items is no list",
        ),
    ],
)
def test_what_an_object_lacks_is_told_with_its_place(text: str, want_lines: list[str]) -> None:
    """Each problem is one line: file, place, field, value, remedy."""
    assert [str(problem) for problem in parse(text).problems] == want_lines


def test_problems_of_all_files_and_documents_are_collected(tmp_path: Path) -> None:
    """A broken document hides neither the documents behind it nor the other files."""
    first, second = tmp_path / "first.yaml", tmp_path / "second.yaml"
    first.write_text(f"{NODE}---\nkind: [\n---\nkind: Pod\napiVersion: v1\n---\n{POD}")
    second.write_text("a: 1\na: 2\n")
    missing = str(tmp_path / "missing.yaml")
    found = load_manifests([str(first), missing, str(tmp_path), str(second)])
    assert titles(found) == ["Node n1", "Pod default/a"]
    places = [problem.source.replace(str(tmp_path), "") for problem in found.problems]
    assert places == ["/first.yaml:6:1", "/first.yaml, document 3", "/missing.yaml", "", "/second.yaml:2:1"]
    assert [problem.message for problem in found.problems[2:]] == [
        "no such file; check the path",
        "is a directory; name the files in it",
        "the key 'a' stands twice in one mapping; remove one",
    ]


def test_the_later_of_equal_objects_counts() -> None:
    """It takes the earlier one's place in the order, and a warning says so."""
    found = parse(f"{NODE}---\n{POD}---\n{NODE}spec: {{unschedulable: true}}\n")
    assert titles(found) == ["Node n1", "Pod default/a"]
    assert found.objects[0].body["spec"] == {"unschedulable": True}
    assert [str(warning) for warning in found.warnings] == [
        "f.yaml, document 3: Node n1: stands in the input twice; this one counts, not the one in f.yaml, document 1"
    ]
    assert found.problems == []


def test_a_missing_namespace_and_the_default_one_are_the_same() -> None:
    """As for the API server, an object without namespace is in `default`."""
    found = parse(f"{POD}---\n{POD.replace('name: a', 'name: a, namespace: default')}")
    assert titles(found) == ["Pod default/a"]
    assert len(found.warnings) == 1


def test_groups_of_the_same_kind_are_different_objects() -> None:
    """A native PodGroup and one of the CRD may have the same name."""
    text = "apiVersion: scheduling.k8s.io/v1beta1\nkind: PodGroup\nmetadata: {name: g}\n"
    found = parse(f"{text}---\n{text.replace('k8s.io/v1beta1', 'x-k8s.io/v1alpha1')}")
    assert [manifest.api_version for manifest in found.objects] == [
        "scheduling.k8s.io/v1beta1",
        "scheduling.x-k8s.io/v1alpha1",
    ]
    assert found.warnings == []


def test_an_unknown_version_of_a_known_kind_is_pointed_out() -> None:
    """It is ignored, but not silently: the line names the versions that are read."""
    found = parse("apiVersion: apps/v1beta1\nkind: Deployment\nmetadata: {name: d}")
    assert [str(warning) for warning in found.warnings] == [
        'f.yaml: apiVersion: "apps/v1beta1": this Deployment is ignored; it is read as apps/v1'
    ]


def test_an_empty_file_is_pointed_out() -> None:
    """Nothing is wrong with it, but it is hardly meant."""
    assert [str(warning) for warning in parse("# later\n").warnings] == ["f.yaml: holds no objects"]


def test_a_dash_is_standard_input() -> None:
    """Its objects and its problems say where they come from."""
    found = load_manifests(["-"], read_stdin=f"{NODE}---\nx: 1\n".encode)
    assert titles(found) == ["Node n1"]
    assert {problem.source for problem in found.problems} == {"standard input, document 2"}


@pytest.mark.parametrize(
    ("status", "want"),
    [
        pytest.param("{allocatable: {cpu: 2}}", {"cpu": 2000}, id="good"),
        pytest.param("{allocatable: {cpu: 12qi}}", "f.yaml: Node n1: status.allocatable.cpu: '12qi'", id="quantity"),
        pytest.param("{allocatable: 3}", "f.yaml: Node n1: status.allocatable: 3", id="type"),
    ],
)
def test_reading_an_object_gives_its_value_or_a_problem(status: str, want: Any) -> None:
    """`Manifest.read` never raises for what users write."""
    manifest = parse(f"{NODE}status: {status}\n").objects[0]
    assert manifest.known is not None
    got = manifest.read(manifest.known)
    if isinstance(want, dict):
        assert isinstance(got, Node)
        assert got.allocatable == want
    else:
        assert isinstance(got, Problem)
        assert str(got).startswith(want)


@pytest.mark.parametrize(
    ("problem", "want_line"),
    [
        pytest.param(Problem("f", "a.b", 1, "is bad"), "f: a.b: 1: is bad", id="all parts"),
        pytest.param(Problem("f", "", ABSENT, "is bad"), "f: is bad", id="no field, no value"),
        pytest.param(Problem("f", "a", "x\ny", "is\nbad"), 'f: a: "x\\ny": is bad', id="never two lines"),
        pytest.param(Problem("f", "a", None, "is bad"), "f: a: null: is bad", id="null is a value"),
        pytest.param(
            Problem("f", "a", "x" * 500, "is bad"), f'f: a: "{"x" * 119}...: is bad', id="long values are cut"
        ),
        pytest.param(Problem("f", "a", {"b": {1}}, "is bad"), 'f: a: {"b": "{1}"}: is bad', id="anything can be shown"),
    ],
)
def test_a_problem_is_one_line(problem: Problem, want_line: str) -> None:
    """File, field, value and remedy, in that order, whatever the value."""
    assert str(problem) == want_line
