"""What all ways of comparing have in common: which schedulers are compared with which profiles, and the ledger."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from moorage.core.values import dataclass
from moorage.engine.engine import Engine
from moorage.engine.settings import EngineSettings
from moorage.engine.shadowing.ledger import KEPT, Ledger
from moorage.engine.shadowing.profiles import answering
from moorage.framework.profiles import Profile


@dataclass(frozen=True, slots=True)
class ShadowTerms:
    """What is compared with what."""

    profiles: Sequence[Profile]
    """The first one judges, or decides, where none has the name of a scheduler."""
    names: Collection[str]
    """Those of the other schedulers."""
    settings: EngineSettings | None = None
    kept: int = KEPT
    """How many differences are kept."""


class Shadow:
    """Compares the decisions of other schedulers once everything that there is has been told."""

    def __init__(self, terms: ShadowTerms) -> None:
        self.ledger = Ledger(terms.kept)
        self._names = frozenset(terms.names)
        self._begun = False

    def begin(self) -> None:
        """Everything that there is has been told: from now on, decisions are."""
        self._begun = True


def world_of(terms: ShadowTerms) -> Engine:
    """An engine whose profiles have the names of the other schedulers."""
    return Engine(answering(terms.profiles, terms.names), terms.settings)
