"""Circuit breakers: an extender that failed a few times in a row is not called for a while, then tried once.

Pure: failures and successes come in with their times. Open means that requests are refused; when the pause is over, the
next request is let through, and its result closes the circuit or opens it for twice as long.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from moorage.core.values import dataclass

FAILURES = 3
"""In a row, until a circuit opens."""
PAUSE_S = 1.0
LONGEST_PAUSE_S = 30.0
SHOWN_S = 30.0
"""How long after its pause a circuit is shown as open if there is no request to try it with."""


@dataclass(slots=True)
class Breaker:
    """One circuit."""

    name: str
    failures: int = 0
    """In a row."""
    error: str = ""
    """The last one's."""
    until_s: float | None = None
    """Until when no request is let through; None while closed."""
    _pause_s: float = PAUSE_S

    @property
    def is_open(self) -> bool:
        """Whether the last requests failed, and none has succeeded since."""
        return self.until_s is not None

    def shown_open(self, now: float) -> bool:
        """Whether to show it as open; not for ever if there is no request to try it with."""
        return self.until_s is not None and now < self.until_s + SHOWN_S

    def admits(self, now: float) -> bool:
        """Whether a request may be sent: closed, or time for a trial."""
        return self.until_s is None or self.until_s <= now

    def failed(self, error: str, now: float) -> bool:
        """A request failed; returns whether that opened the circuit."""
        opens = self.until_s is None and self.failures + 1 >= FAILURES
        self.failures, self.error = self.failures + 1, error
        if self.until_s is not None:
            self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)
        if opens or self.until_s is not None:
            self.until_s = now + self._pause_s
        return opens

    def succeeded(self) -> bool:
        """A request was answered; returns whether that closed the circuit."""
        closes = self.until_s is not None
        self.failures, self.error, self.until_s, self._pause_s = 0, "", None, PAUSE_S
        return closes


@dataclass(frozen=True, slots=True)
class Switched:
    """A circuit was opened or closed."""

    name: str
    open: bool
    error: str = ""


@dataclass(slots=True)
class Breakers:
    """One circuit per extender, by its place in the configuration."""

    all: Sequence[Breaker]
    _news: list[Switched] = field(default_factory=list)

    def heard(self, answered: Sequence[int], failed: Sequence[tuple[int, str]], now: float) -> None:
        """The results of a request: which extenders answered, and which failed with what error."""
        for place, error in failed:
            if self.all[place].failed(error, now):
                self._news.append(Switched(self.all[place].name, open=True, error=error))
        for place in answered:
            if self.all[place].succeeded():
                self._news.append(Switched(self.all[place].name, open=False))

    def take_news(self) -> list[Switched]:
        """Circuits that were opened or closed since the last call."""
        if not self._news:
            return []
        news, self._news = self._news, []
        return news
