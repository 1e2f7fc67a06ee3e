"""CheapNodes: pods of low priority go where an hour costs least."""

import numpy as np

from moorage.framework.arguments import PluginArgs
from moorage.framework.plugin import Plugin, Reads


class CheapNodesArgs(PluginArgs):
    """What a configuration may say: the node label that holds the price, and who looks at it."""

    label: str = "example.com/cents-per-hour"
    max_priority: int = 0


class CheapNodes(Plugin):
    """A free node scores 100, one that costs a dollar or does not say scores 0."""

    name = "CheapNodes"
    Args = CheapNodesArgs
    reads = Reads.NODE

    def sign(self, template):
        """All that matters of a pod: whether it looks at prices."""
        return template.priority <= self.args.max_priority

    def score(self, cycle, rows):
        """Return int64[len(rows)], 0 to 100."""
        prices = cycle.state.labels.known(self.args.label)
        if prices is None or not self.sign(cycle.template):
            return np.zeros(len(rows), dtype=np.int64)
        cents = [int(text) if text.isdecimal() else 100 for text in prices.values]
        by_value = 100 - np.minimum([*cents, 100], 100)  # the last entry is for nodes without the label, id -1
        return by_value[prices.ids[rows]]
