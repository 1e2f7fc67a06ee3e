"""What the engine and the plugin GangScheduling agree on."""

from __future__ import annotations

GANG_SCHEDULING = "GangScheduling"
"""Name of the plugin, and key of `cycle.memo` for the names of the nodes that a member has to stay on."""
