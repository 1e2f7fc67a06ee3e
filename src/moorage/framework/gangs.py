"""What the engine and the plugin GangScheduling agree on."""

from __future__ import annotations

GANG_SCHEDULING = "GangScheduling"
"""Name of the plugin, which is also said to reject a gang that cannot start yet."""
