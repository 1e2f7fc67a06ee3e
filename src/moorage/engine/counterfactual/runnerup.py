"""For a pod that has a node: which node came second, by how much, and what would have to differ for it to win."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from moorage.core.phrases import counted
from moorage.core.values import dataclass
from moorage.engine.explain import NodeExplanation

if TYPE_CHECKING:
    from moorage.engine.opinion import Opinion


@dataclass(frozen=True, slots=True)
class RunnerUp:
    """The best of the other nodes that fit, compared with the pod's own."""

    node: str
    gap: int
    """By how much its total is lower; negative if the pod stands on a node that is not the best today."""
    by_plugin: dict[str, int]
    """Plugin -> the pod's node minus this one, where they differ; adds up to `gap`."""
    text: str

    def document(self) -> dict[str, Any]:
        """As JSON has it."""
        return {"node": self.node, "gap": self.gap, "byPlugin": self.by_plugin, "text": self.text}


def runner_up(opinion: Opinion) -> RunnerUp | None:
    """None for a pod without a node, and where no other node fits."""
    chosen = opinion.stands_on or opinion.node
    fitting = {name: node for name, node in opinion.nodes.items() if node.competes}
    if chosen is None or chosen not in fitting or len(fitting) < 2:
        return None
    name = min((each for each in fitting if each != chosen), key=lambda each: (-fitting[each].total, each))
    leads = _leads(fitting[chosen], fitting[name])
    gap = sum(leads.values())
    return RunnerUp(name, gap, leads, _text(chosen, name, gap, leads))


def _leads(first: NodeExplanation, second: NodeExplanation) -> dict[str, int]:
    plugins = dict.fromkeys((*first.scores, *second.scores))
    found = {plugin: first.scores.get(plugin, 0) - second.scores.get(plugin, 0) for plugin in plugins}
    return {plugin: lead for plugin, lead in found.items() if lead}


def _text(chosen: str, name: str, gap: int, leads: dict[str, int]) -> str:
    if gap < 0:
        return f"{name} scores {-gap} more than {chosen} and would win today."
    if gap == 0:
        return f"{name} scores as much as {chosen}; the tie went by a hash, so any point more would let it win."
    needed: list[str] = []
    missing = gap
    for plugin, lead in sorted(leads.items(), key=lambda item: -item[1]):
        if missing < 0 or lead <= 0:
            break
        needed.append(f"{plugin} (+{lead})")
        missing -= lead
    rival = f"{name} comes second, {counted(gap, 'point')} behind {chosen}"
    verb = "win" if missing < 0 else "draw level"
    return f"{rival}; it would {verb} if it scored as well in {' and '.join(needed)}."
