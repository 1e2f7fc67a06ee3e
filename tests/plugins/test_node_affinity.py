"""nodeSelector, required and preferred terms, and the affinity that a profile adds."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from moorage.core.affinity import NodeTerm
from moorage.core.nodes import Node
from moorage.core.pods import Pod
from moorage.framework.changes import Change, What
from moorage.plugins.node_affinity import NodeAffinity, NodeAffinityArgs
from moorage.testing import (
    GeneratedCluster,
    check_plugin,
    make_node,
    make_node_affinity,
    make_pod,
    make_state,
)
from moorage.testing.answers import ask

POD_REASON = "node(s) didn't match Pod's node affinity/selector"
ENFORCED_REASON = "node(s) didn't match scheduler-enforced node affinity"
SSD = make_node("ssd", labels={"disk": "ssd", "gen": "3"})
HDD = make_node("hdd", labels={"disk": "hdd", "gen": "old"})
BARE = make_node("bare")


def added(required: list[dict[str, Any]] | None = None, preferred: list[dict[str, Any]] | None = None) -> NodeAffinity:
    affinity: dict[str, Any] = {}
    if required is not None:
        affinity["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": required}
    if preferred is not None:
        affinity["preferredDuringSchedulingIgnoredDuringExecution"] = preferred
    return NodeAffinity(NodeAffinityArgs.model_validate({"addedAffinity": affinity}))


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(
    ("required", "want_matching"),
    [
        pytest.param([["disk In ssd,nvme"]], {"ssd"}, id="In"),
        pytest.param([["disk NotIn ssd"]], {"hdd", "bare"}, id="NotIn matches nodes without the label"),
        pytest.param([["disk Exists"]], {"ssd", "hdd"}, id="Exists"),
        pytest.param([["disk DoesNotExist"]], {"bare"}, id="DoesNotExist"),
        pytest.param([["gen Gt 2"]], {"ssd"}, id="Gt needs an integer"),
        pytest.param([["gen Lt 3"]], set(), id="Lt"),
        pytest.param([["disk Exists", "gen Gt 2"]], {"ssd"}, id="conditions of a term are ANDed"),
        pytest.param([["disk In hdd"], ["gen Gt 2"]], {"ssd", "hdd"}, id="terms are ORed"),
        pytest.param([[]], set(), id="an empty term matches nothing"),
        pytest.param([], set(), id="no terms match nothing"),
        pytest.param([[], ["disk In hdd"]], {"hdd"}, id="an empty term among others"),
        pytest.param([["metadata.name NotIn ssd"]], {"hdd", "bare"}, id="field NotIn"),
        pytest.param([["rack In r1"]], set(), id="a label that no node has"),
    ],
)
def test_required_terms(required: list[list[str]], want_matching: set[str]) -> None:
    """Nodes that match no term are rejected for good."""
    pod = make_pod("a", node_affinity=make_node_affinity(required=required))
    reasons = ask(NodeAffinity(), make_state([SSD, HDD, BARE]), pod).reasons
    assert {name for name, against in reasons.items() if not against} == want_matching
    assert {against for against in reasons.values() if against} <= {((POD_REASON, False),)}


def test_node_selector_and_terms_must_both_match() -> None:
    """Every label of nodeSelector is demanded, in addition to the terms."""
    affinity = make_node_affinity(required=[["gen Exists"]])
    pod = make_pod("a", node_selector={"disk": "hdd"}, node_affinity=affinity)
    reasons = ask(NodeAffinity(), make_state([SSD, HDD, BARE]), pod).reasons
    assert [name for name, against in reasons.items() if not against] == ["hdd"]


@pytest.mark.parametrize(
    ("required", "want_only"),
    [
        pytest.param([["metadata.name In ssd"]], {"ssd"}, id="one name"),
        pytest.param([["metadata.name In ssd"], ["metadata.name In gone", "disk Exists"]], {"ssd", "gone"}, id="union"),
        pytest.param([["metadata.name In ssd"], ["disk Exists"]], None, id="a term without names opens all nodes"),
        pytest.param([["metadata.name NotIn ssd"]], None, id="NotIn names nobody"),
    ],
)
def test_terms_that_name_nodes_narrow_the_search(required: list[list[str]], want_only: set[str] | None) -> None:
    """PreFilter hands back the names where every term has some, as kube-scheduler does for DaemonSet pods."""
    pod = make_pod("a", node_affinity=make_node_affinity(required=required))
    assert ask(NodeAffinity(), make_state([SSD, HDD]), pod).only == want_only


def test_terms_that_contradict_themselves_refuse_the_pod() -> None:
    """Two different names in one term leave no node."""
    affinity = make_node_affinity(required=[["metadata.name In ssd", "metadata.name In hdd"]])
    answer = ask(NodeAffinity(), make_state([SSD, HDD]), make_pod("a", node_affinity=affinity))
    assert answer.refusal == ("pod affinity terms conflict",)


def test_a_pod_without_wishes_skips_the_plugin() -> None:
    """Neither Filter nor Score has anything to do."""
    answer = ask(NodeAffinity(), make_state([SSD]), make_pod("a"))
    assert (answer.filter_skipped, answer.score_skipped) == (True, True)


def test_preferred_terms_add_up_and_the_best_node_scores_100() -> None:
    """Raw scores are sums of weights; normalised ones are integers out of 100, relative to the highest."""
    affinity = make_node_affinity(preferred=[(7, ["disk Exists"]), (5, ["gen Gt 2"]), (100, [])])
    answer = ask(NodeAffinity(), make_state([SSD, HDD, BARE]), make_pod("a", node_affinity=affinity))
    assert answer.scores == {"ssd": 12, "hdd": 7, "bare": 0}
    assert answer.normalized == {"ssd": 100, "hdd": 58, "bare": 0}


def test_preferences_that_no_node_meets_score_0() -> None:
    """Nothing to compare, nothing to give."""
    affinity = make_node_affinity(preferred=[(7, ["rack Exists"])])
    answer = ask(NodeAffinity(), make_state([SSD, HDD]), make_pod("a", node_affinity=affinity))
    assert answer.normalized == {"ssd": 0, "hdd": 0}


def test_added_affinity_rejects_in_its_own_words_and_comes_first() -> None:
    """A node that fails the profile's terms gives only that reason, also where it fails the pod's own."""
    plugin = added(required=[expression("disk", "In", "ssd")])
    state = make_state([SSD, HDD, BARE])
    assert ask(plugin, state, make_pod("a")).reasons == {
        "ssd": (),
        "hdd": ((ENFORCED_REASON, False),),
        "bare": ((ENFORCED_REASON, False),),
    }
    picky = ask(plugin, state, make_pod("a", node_selector={"gen": "9"})).reasons
    assert picky["ssd"] == ((POD_REASON, False),)
    assert picky["hdd"] == ((ENFORCED_REASON, False),)


def test_added_preferences_count_for_every_pod() -> None:
    """They are summed with the pod's own."""
    plugin = added(preferred=[{"weight": 4, "preference": expression("disk", "Exists")}])
    state = make_state([SSD, BARE])
    assert ask(plugin, state, make_pod("a")).scores == {"ssd": 4, "bare": 0}
    own = make_pod("a", node_affinity=make_node_affinity(preferred=[(6, ["disk In ssd"])]))
    assert ask(plugin, state, own).scores == {"ssd": 10, "bare": 0}


@pytest.mark.parametrize(
    ("term", "want_words"),
    [
        pytest.param(expression("disk", "Near", "x"), "operator", id="unknown operator"),
        pytest.param(expression("disk", "In"), "at least one value", id="In without values"),
        pytest.param(expression("disk", "Exists", "x"), "takes no values", id="Exists with values"),
        pytest.param(expression("gen", "Gt", "x"), "an integer", id="Gt with a word"),
        pytest.param(expression("gen", "Lt", "1", "2"), "exactly one value", id="Lt with two"),
        pytest.param(expression("-bad-", "Exists"), "no label key", id="bad key"),
        pytest.param(expression("disk", "In", "not valid"), "no label value", id="bad value"),
        pytest.param({"matchLabels": {}}, "matchLabels", id="unknown field"),
        pytest.param(
            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a", "b"]}]},
            "exactly one value",
            id="field with two values",
        ),
    ],
)
def test_bad_added_affinity_is_refused(term: dict[str, Any], want_words: str) -> None:
    """What kube-scheduler refuses to start with is refused here, with the remedy."""
    with pytest.raises(ValidationError, match=want_words):
        added(required=[term])


@pytest.mark.parametrize(
    ("node", "want_helps"), [pytest.param(SSD, True, id="matches"), pytest.param(HDD, False, id="does not match")]
)
def test_helps(node: Node, want_helps: bool) -> None:
    """A new or relabelled node helps if it matches now."""
    affinity = make_node_affinity(required=[["gen Gt 2"]])
    template = make_pod("a", node_selector={"disk": "ssd"}, node_affinity=affinity).template
    for what in (What.NODE_ADDED, What.NODE_LABELS):
        assert NodeAffinity().helps(template, Change(what, node=node)) is want_helps


def test_helps_looks_at_the_added_affinity_too() -> None:
    """A node that the profile forbids cannot help any of its pods."""
    plugin = added(required=[expression("disk", "In", "hdd")])
    assert not plugin.helps(make_pod("a").template, Change(What.NODE_ADDED, node=SSD))


def term_holds(term: NodeTerm, node: Node) -> bool:
    def number(text: str) -> int | None:
        return int(text) if text.isdecimal() else None

    def holds(key: str, operator: str, values: tuple[str, ...], present: dict[str, str]) -> bool:
        value = present.get(key)
        if operator in ("In", "NotIn"):
            return (value in values) is (operator == "In")
        if operator in ("Exists", "DoesNotExist"):
            return (value is not None) is (operator == "Exists")
        mine, bound = number(value or ""), number(values[0])
        return mine is not None and bound is not None and (mine > bound if operator == "Gt" else mine < bound)

    conditions = [(e, dict(node.labels)) for e in term.expressions] + [
        (f, {"metadata.name": node.name}) for f in term.fields
    ]
    return bool(conditions) and all(holds(r.key, r.operator, r.values, present) for r, present in conditions)


def reference_filter(pod: Pod, node: Node, _pods: list[Pod], _cluster: GeneratedCluster) -> list[str]:
    selected = all(node.labels.get(key) == value for key, value in pod.template.node_selector.items())
    affinity = pod.template.node_affinity
    if affinity is not None and affinity.required is not None:
        selected = selected and any(term_holds(term, node) for term in affinity.required)
    return [] if selected else [POD_REASON]


def reference_score(pod: Pod, node: Node, _pods: list[Pod], _cluster: GeneratedCluster) -> int:
    affinity = pod.template.node_affinity
    return sum(p.weight for p in affinity.preferred if term_holds(p.term, node)) if affinity else 0


def test_conformance() -> None:
    """The promises of every plugin hold, and generated clusters agree with the reference."""
    check_plugin(NodeAffinity, seeds=range(40), reference_filter=reference_filter, reference_score=reference_score)


def test_conformance_with_added_affinity() -> None:
    """The promises hold with arguments too."""
    term = {"matchExpressions": [{"key": "disk", "operator": "NotIn", "values": ["hdd"]}]}
    check_plugin(
        NodeAffinity,
        {
            "addedAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]},
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 3, "preference": term}],
            }
        },
    )
