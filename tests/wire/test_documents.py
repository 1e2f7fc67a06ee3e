"""YAML and JSON mean what they mean to kubectl."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from moorage.wire import yaml_documents
from moorage.wire.documents import read_documents


@pytest.fixture(params=["libyaml", "pure python"])
def _parser(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run with both parsers that PyYAML may have."""
    if request.param == "pure python":
        monkeypatch.setattr(yaml_documents, "Parser", yaml.SafeLoader)


def read_one(text: str) -> Any:
    documents, faults = read_documents(text.encode())
    assert faults == []
    (document,) = documents
    return document.value


def faults_of(text: str) -> list[tuple[int, int, str]]:
    _, faults = read_documents(text.encode())
    return [(fault.line, fault.column, fault.message) for fault in faults]


@pytest.mark.parametrize(
    ("scalar", "want"),
    [
        ("text", "text"), ("1", 1), ("-17", -17), ("+3", 3), ("0", 0), ("0644", 420), ("0o644", 420), ("0x1F", 31),
        ("0b101", 5), ("1_000", 1000), ("089", 89), ("1.5", 1.5), ("1.0", 1), ("1e3", 1000), (".5", 0.5),
        ("1e999", "1e999"), (".inf", ".inf"), (".nan", ".nan"), ("nan", "nan"), ("true", True), ("True", True),
        ("false", False), ("yes", True), ("on", True), ("y", "y"), ("off", False), ("n", "n"),
        ("~", None), ("null", None), ("", None),
        ('"on"', "on"), ("'1'", "1"), ('""', ""), ("2024-01-01", "2024-01-01"),
        ("2024-01-01T10:00:00Z", "2024-01-01T10:00:00Z"),
        ("12:30:45", "12:30:45"), ("1:30", "1:30"), ("500m", "500m"), ("1Gi", "1Gi"), ("1E3", 1000), ("v1", "v1"),
        ("1.2.3", "1.2.3"), ("１２", "１２"), ("9" * 100, "9" * 100), ("!!str 1", "1"), ("!!int 7", 7),
        ("!!float 2", 2), ("=", "="), ("-", [None]), ("|\n  a\n  b", "a\nb\n"),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("_parser")
def test_scalars_are_read_as_kubernetes_reads_them(scalar: str, want: Any) -> None:
    """No timestamps, no base-60 numbers, octal and YAML 1.1 booleans as in kubectl; quotes make text."""
    text = "k:\n- \n" if scalar == "-" else f"k: {scalar}\n"
    got = read_one(text)["k"]
    assert (type(got), got) == (type(want), want)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param(
            '{y: "on", 1: a, true: b, 0x1: c}', {"y": "on", "1": "a", "true": "b", "0x1": "c"}, id="keys are text"
        ),
        pytest.param("a: &x {b: 1}\nc: *x\n", {"a": {"b": 1}, "c": {"b": 1}}, id="alias"),
        pytest.param("a: &x 1\nc: *x\n", {"a": 1, "c": 1}, id="alias of a scalar"),
        pytest.param("&k a: 1\nb: *k\n", {"a": 1, "b": "a"}, id="anchor on a key"),
        pytest.param("a: &x k\n*x : 1\n", {"a": "k", "k": 1}, id="alias as key"),
        pytest.param(
            "a: &x {b: 1, c: 2}\nd: {<<: *x, c: 3}\n", {"a": {"b": 1, "c": 2}, "d": {"c": 3, "b": 1}}, id="own keys win"
        ),
        pytest.param(
            "a: &x {b: 1}\nd: &y {b: 2, c: 3}\ne:\n  <<: [*x, *y]\n",
            {"a": {"b": 1}, "d": {"b": 2, "c": 3}, "e": {"b": 1, "c": 3}},
            id="of several merged the first wins",
        ),
        pytest.param('"<<": 1\n', {"<<": 1}, id="a quoted << is a key"),
        pytest.param("[]", [], id="empty list"),
        pytest.param("a: !!map {b: !!seq [1]}", {"a": {"b": [1]}}, id="tags that say nothing new"),
    ],
)
@pytest.mark.usefixtures("_parser")
def test_structure_is_read_as_kubernetes_reads_it(text: str, want: Any) -> None:
    """Keys are the text as written; anchors, aliases and merges work."""
    assert read_one(text) == want


def test_aliases_share_nothing() -> None:
    """A change of one object must not change another one."""
    value = read_one("a: &x {b: [1]}\nc: *x\n")
    value["c"]["b"].append(2)
    assert value["a"] == {"b": [1]}


@pytest.mark.parametrize(
    ("text", "want_line", "want_column", "want_part"),
    [
        pytest.param("a: 1\nb: [\n", 3, 1, "not YAML", id="unclosed list"),
        pytest.param("a: b: c\n", 1, 5, "mapping values are not allowed", id="two colons"),
        pytest.param("a:\n\t- 1\n", 2, 1, "not YAML", id="tab"),
        pytest.param("a: 1\na: 2\n", 2, 1, "the key 'a' stands twice", id="key twice"),
        pytest.param("x:\n  - {a: 1, a: 2}\n", 2, 12, "the key 'a' stands twice", id="key twice, inside"),
        pytest.param("a: *nowhere\n", 1, 4, "the alias *nowhere has no anchor", id="alias without anchor"),
        pytest.param("a: &x\n  b: *x\n", 2, 6, "stands inside the value it names", id="alias in its own anchor"),
        pytest.param("a: !foo 1\n", 1, 4, "the tag !foo is unknown", id="unknown tag"),
        pytest.param("a: !foo {b: 1}\n", 1, 4, "the tag !foo is unknown", id="unknown tag on a mapping"),
        pytest.param("a: !!int x\n", 1, 4, "does not fit its tag !!int", id="tag that does not fit"),
        pytest.param("x: 1\n[a]: 2\n", 2, 1, "a key must be text", id="list as key"),
        pytest.param("a: {<<: 1}\n", 1, 5, "<< takes a mapping", id="merge of a number"),
        pytest.param('{"a": 1,\n "b" 2}', 2, 6, "not JSON", id="broken JSON"),
        pytest.param('{"a": 1, "a": 2}', 1, 0, "a key stands twice in one object: 'a'", id="JSON key twice"),
        pytest.param("[" * 5000, 1, 201, "nested more than 200 levels", id="too deep"),
    ],
)
def test_faults_say_where_and_why(text: str, want_line: int, want_column: int, want_part: str) -> None:
    """One fault, with line and column from 1."""
    (fault,) = faults_of(text)
    assert fault[:2] == (want_line, want_column)
    assert want_part in fault[2]


def test_deep_json_is_a_fault() -> None:
    """However deep the nesting, there is a line and no traceback."""
    faults = faults_of('{"a":' * 100_000 + "1" + "}" * 100_000)
    assert len(faults) == 1


@pytest.mark.parametrize(
    "data", [pytest.param(b"a: \xff\xfe\n", id="not UTF-8"), pytest.param(b"a: \x00\n", id="control character")]
)
def test_text_that_is_no_text_is_a_fault(data: bytes) -> None:
    """Binary files are refused with a remedy."""
    _, faults = read_documents(b"ok: 1\n---\n" + data)
    assert [fault.line for fault in faults] == [3]
    assert "UTF-8" in faults[0].message


def test_aliases_cannot_explode() -> None:
    """A few lines that mean a billion values are refused quickly."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 10)]
    (fault,) = faults_of("\n".join(lines))
    assert "aliases expand to more than" in fault[2]


def test_reading_goes_on_behind_a_broken_document() -> None:
    """Each document that can be read is there under its number and line, each that cannot has its fault."""
    documents, faults = read_documents(b"a: 1\n---\nb: [\n---\nc: 3\n---\nd: d: d\n---\ne: 5\n")
    assert [(document.number, document.line, document.value) for document in documents] == [
        (1, 1, {"a": 1}),
        (3, 5, {"c": 3}),
        (5, 9, {"e": 5}),
    ]
    assert [fault.line for fault in faults] == [4, 7]


def test_a_fault_in_a_flow_document_is_told_by_the_reader_that_got_further() -> None:
    """YAML in braces is not called broken JSON."""
    (fault,) = faults_of("{a: 1,\n b: 2,\n c: [}\n")
    assert "not YAML" in fault[2]
