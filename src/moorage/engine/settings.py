"""What an engine is told by the configuration."""

from __future__ import annotations

from dataclasses import field

from moorage.core.values import dataclass
from moorage.engine.queue import Backoff
from moorage.framework.configuration import Configuration, Extender


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """What the configuration says about the queue, and the seed that breaks ties."""

    backoff: Backoff = field(default_factory=Backoff)
    seed: int = 0
    extenders: tuple[Extender, ...] = ()
    """HTTP extenders to call; the caller of the engine must answer its `AskExtenders` and `AskPreemption` commands."""

    @classmethod
    def of(cls, configuration: Configuration, seed: int) -> EngineSettings:
        """Those of a configuration."""
        backoff = Backoff(configuration.pod_initial_backoff_s, configuration.pod_max_backoff_s)
        return cls(backoff, seed, configuration.extenders)
