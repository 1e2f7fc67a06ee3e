"""CheapNodes keeps the promises of a plugin, and scores as a loop over nodes would."""

from cheap_nodes import CheapNodes

from moorage.testing import check_plugin


def price_score(pod, node, _pods_on_node, _cluster):
    """Write the rule down once more, for one pod and one node."""
    text = node.labels.get("gen", "")
    cents = int(text) if text.isdecimal() else 100
    return max(100 - cents, 0) if pod.template.priority <= 10 else 0


def test_conformance():
    """Generated nodes have no prices; their label `gen` (1 to 4, or old) stands in for one."""
    check_plugin(CheapNodes, {"label": "gen", "maxPriority": 10}, reference_score=price_score)


def test_defaults():
    """Without the label nothing is scored."""
    check_plugin(CheapNodes)
