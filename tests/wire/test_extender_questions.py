"""The extender protocol from the side that answers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from moorage.core.commands import PodRef
from moorage.wire.errors import QuestionError
from moorage.wire.extender import (
    MetaVictims,
    binding_args,
    node_args,
    preemption_args,
    read_binding_result,
    read_filter_result,
    read_preemption_result,
    read_priorities,
)
from moorage.wire.extender_questions import (
    binding_answer,
    filter_answer,
    filter_error,
    preemption_answer,
    priorities_answer,
    read_binding_question,
    read_node_question,
    read_preemption_question,
)

POD = b'{"metadata":{"name":"a","namespace":"default","uid":"u"},"spec":{"containers":[{"name":"c","image":"i"}]}}'
NODES = {
    "go": b'{"metadata":{"name":"go","uid":"1","labels":{"x":"y"}},"spec":{},"status":{"big":12345678901234567890}}',
    "spaced": b'{ "metadata" : { "labels": {"name": "not-me"}, "name" : "spaced" }, "status": {"a": [1, 2.50]} }',
    "escaped\u00e9": b'{"metadata":{"name":"escaped\\u00e9"}}',
}


def test_whole_nodes_come_back_as_they_came() -> None:
    """Byte for byte, in the order of the question; names are null."""
    question = read_node_question(node_args(POD, NODES.values(), None))
    assert (question.pod.key, question.names) == ("default/a", list(NODES))
    answer = filter_answer(question, [0, 1], {"x": "why"}, {"y": "why ever"})
    assert b"%b,%b" % (NODES["go"], NODES["spaced"]) in answer
    content = json.loads(answer)
    assert list(content) == ["Nodes", "NodeNames", "FailedNodes", "FailedAndUnresolvableNodes", "Error"]
    assert (content["NodeNames"], content["Error"]) == (None, "")
    result = read_filter_result(answer, by_name=False)
    assert (result.kept, result.failed, result.unresolvable) == (("go", "spaced"), {"x": "why"}, {"y": "why ever"})


def test_names_come_back_as_names() -> None:
    """Nodes are null; no node at all is an empty list, never null."""
    question = read_node_question(node_args(POD, None, ["n1", "n2"]))
    assert (question.names, question.items) == (["n1", "n2"], None)
    assert json.loads(filter_answer(question, [1], {}, {}))["NodeNames"] == ["n2"]
    nothing = json.loads(filter_answer(question, [], {}, {}))
    assert (nothing["Nodes"], nothing["NodeNames"]) == (None, [])
    empty = read_node_question(b'{"Pod":%b,"Nodes":{"metadata":{},"items":null}}' % POD)
    assert json.loads(filter_answer(empty, [], {}, {}))["Nodes"] == {"metadata": {}, "items": []}


@pytest.mark.parametrize("keys", [(b"pod", b"nodenames"), (b"pod", b"NodeNames"), (b"Pod", b"nodeNames")], ids=str)
def test_keys_are_read_whatever_their_case(keys: tuple[bytes, bytes]) -> None:
    """As Go does, each of them."""
    pod, names = keys
    question = read_node_question(b'{"%b":%b,"nodes":null,"%b":["n1"]}' % (pod, POD, names))
    assert (question.pod.name, question.names) == ("a", ["n1"])


def test_answers_that_the_client_side_understands() -> None:
    """Errors, scores, victims and binds make the round trip."""
    assert read_filter_result(filter_error("oh"), by_name=True).error == "oh"
    assert read_priorities(priorities_answer(["n1", "n2"], [3, 0])) == [("n1", 3), ("n2", 0)]
    assert json.loads(priorities_answer(["n1"], [3])) == [{"Host": "n1", "Score": 3}]
    victims = {"n1": MetaVictims(("u1", "u2"), 1)}
    assert read_preemption_result(preemption_answer(victims)) == victims
    assert (read_binding_result(binding_answer("")), read_binding_result(binding_answer("no"))) == ("", "no")
    assert read_binding_question(binding_args(PodRef("ns", "a", "u"), "n1")) == (PodRef("ns", "a", "u"), "n1")


def test_victims_by_uid_and_whole() -> None:
    """Both forms of the question mean the same."""
    victims = {"n1": MetaVictims(("u",), 2)}
    by_uid = read_preemption_question(preemption_args(POD, victims))
    whole = read_preemption_question(preemption_args(POD, victims, {"u": POD}))
    assert by_uid.victims == whole.victims == victims


BAD_NODE_QUESTIONS: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "not JSON: "),
    "half": (b'{"Pod":', "not JSON: "),
    "not UTF-8": (b'{"Pod":%b,"NodeNames":["\xff"]}' % POD, "not JSON: "),
    "node not UTF-8": (
        b'{"Pod":%b,"Nodes":{"items":[{"metadata":{"name":"\xff"}}]}}' % POD,
        "Nodes.items[0]: not JSON: ",
    ),
    "a list": (b"[]", "not what the extender protocol (v1) says: "),
    "no pod": (b'{"NodeNames":[]}', "Pod is missing"),
    "null pod": (b'{"Pod":null,"NodeNames":[]}', "Pod is missing"),
    "no nodes": (b'{"Pod":%b}' % POD, "neither Nodes nor NodeNames"),
    "pod is a number": (b'{"Pod":1,"NodeNames":[]}', "Pod: "),
    "pod without name": (b'{"Pod":{"metadata":{},"spec":{}},"NodeNames":[]}', "Pod: "),
    "names are numbers": (b'{"Pod":%b,"NodeNames":[1]}' % POD, "not what the extender protocol (v1) says: "),
    "node without name": (b'{"Pod":%b,"Nodes":{"items":[{"metadata":{}}]}}' % POD, "Nodes.items[0].metadata.name"),
    "node is null": (b'{"Pod":%b,"Nodes":{"items":[null]}}' % POD, "Nodes.items[0]: "),
}


@pytest.mark.parametrize(("body", "want"), BAD_NODE_QUESTIONS.values(), ids=BAD_NODE_QUESTIONS.keys())
def test_bad_questions_say_what_is_wrong(body: bytes, want: str) -> None:
    """In one line."""
    with pytest.raises(QuestionError) as caught:
        read_node_question(body)
    assert str(caught.value).startswith(want)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("missing", ["PodName", "PodNamespace", "PodUID", "Node"])
def test_a_bind_names_everything(missing: str) -> None:
    """Nothing is guessed."""
    content: dict[str, Any] = {"PodName": "a", "PodNamespace": "d", "PodUID": "u", "Node": "n"}
    del content[missing]
    with pytest.raises(QuestionError, match=f"^{missing} is missing"):
        read_binding_question(json.dumps(content).encode())


def test_preemption_without_candidates() -> None:
    """One of both forms must be there."""
    with pytest.raises(QuestionError, match="neither NodeNameToVictims"):
        read_preemption_question(b'{"Pod":%b}' % POD)
