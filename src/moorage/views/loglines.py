"""Which lines of the log are kube-scheduler's own, so that they are shown as it shows them: with texts in quotes."""

from __future__ import annotations

from typing import Final

KUBERNETES_MARK: Final = "as_in_kubernetes"
"""A field of such a line while it is on its way; it is never shown."""
AS_IN_KUBERNETES: Final = {KUBERNETES_MARK: True}
