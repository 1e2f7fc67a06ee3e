"""How long units wait after failed attempts."""

from __future__ import annotations

from moorage.core.values import dataclass


@dataclass(frozen=True, slots=True)
class Backoff:
    """How long a pod waits after failed attempts."""

    initial_s: float = 1.0
    max_s: float = 10.0

    def after(self, failures: int) -> float:
        """Seconds to wait after so many failures."""
        if failures <= 0:
            return 0.0
        return min(self.max_s, self.initial_s * 2.0 ** min(failures - 1, 32))
