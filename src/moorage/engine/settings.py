"""What an engine is told by the configuration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from moorage.core.events import Event, TrialRecalled
from moorage.core.values import dataclass
from moorage.engine.backoff import Backoff
from moorage.framework.configuration import Configuration, Extender
from moorage.framework.profiles import Profile
from moorage.framework.trying import TrialConfiguration


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """What the configuration says about the queue, and the seed that breaks ties."""

    backoff: Backoff = field(default_factory=Backoff)
    seed: int = 0
    extenders: tuple[Extender, ...] = ()
    """HTTP extenders to call; the caller of the engine must answer its `AskExtenders` and `AskPreemption` commands."""
    trial: TrialConfiguration | None = None
    """Other profiles for some pods; the trial begins with a `TrialRecalled` event."""

    def every(self, profiles: Sequence[Profile]) -> tuple[Profile, ...]:
        """Profiles and those of the trial, for what all of them need together."""
        return (*profiles, *(() if self.trial is None else self.trial.built))

    def beginning(self) -> list[Event]:
        """What an engine is told where no cluster keeps anything of a trial: a trial begins at once."""
        return [] if self.trial is None else [TrialRecalled()]

    @classmethod
    def of(cls, configuration: Configuration, seed: int) -> EngineSettings:
        """Those of a configuration."""
        backoff = Backoff(configuration.pod_initial_backoff_s, configuration.pod_max_backoff_s)
        return cls(backoff, seed, configuration.extenders, configuration.trial)
