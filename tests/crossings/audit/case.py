"""What all rules of an audit share: the scene, what the configuration says, and where breaches are noted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.crossings.audit.breach import Breach
from tests.crossings.audit.fitting import Fitting
from tests.crossings.audit.scene import Object, Scene, spec

SCHEDULER = "moorage"
_MOST = 40


class Terms:
    """What a configuration says, as far as rules need it."""

    def __init__(self, documents: Sequence[Mapping[str, Any]]) -> None:
        head: Mapping[str, Any] = next((each for each in documents if "profiles" in each), {"profiles": [{}]})
        profile: Mapping[str, Any] = next(iter(head["profiles"]), {})
        points = (profile.get("plugins") or {}).get("multiPoint") or {}
        self.plugins = {each["name"] for each in points.get("enabled") or ()}
        self._arguments = {each["name"]: each.get("args") or {} for each in profile.get("pluginConfig") or ()}
        self.extended = bool(head.get("extenders"))

    def says(self, plugin: str, argument: str) -> Any:
        """An argument of a plugin, None where it is not given."""
        return self._arguments.get(plugin, {}).get(argument)

    @property
    def strict(self) -> bool:
        """Whether budgets are never violated."""
        return all(self.says(plugin, "pdbPolicy") == "Strict" for plugin in ("FairShare", "DefaultPreemption"))

    @property
    def shares_gpus(self) -> bool:
        return "SharedDevices" in self.plugins

    @property
    def planned(self) -> bool:
        return "PlanSort" in self.plugins


@dataclass
class Case:
    """One audit on its way."""

    terms: Terms
    scene: Scene = field(default_factory=Scene)
    now_s: float = 0.0
    late: bool = False
    """Whether writes take their time, so that decisions may be about a past."""
    deeds: int = 0
    """How often somebody from outside has done something."""
    crashes: int = 0
    refused: bool = False
    """Whether the API server has refused writes."""
    breaches: list[Breach] = field(default_factory=list)
    excused: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.fitting = Fitting(self.scene, shares_gpus=self.terms.shares_gpus, extended=self.terms.extended)

    def say(self, rule: str, what: str) -> None:
        """A rule is breached."""
        if len(self.breaches) < _MOST:
            self.breaches.append(Breach(rule, what, round(self.now_s, 3)))

    def ours(self, pod: Object) -> bool:
        """Whether our scheduler places it."""
        return spec(pod).get("schedulerName") == SCHEDULER


class Rule:
    """Something that must hold. Each method is told what happens; those that a rule does not need do nothing."""

    def __init__(self, case: Case) -> None:
        self.case = case

    def ordered(self, orders: Sequence[Any]) -> None:
        """The scheduler has decided, and nothing of it is carried out yet."""

    def changed(self, kind: str, old: Object | None, new: Object | None) -> None:
        """The API server shows a change; the scene has it already."""

    def looked(self) -> None:
        """It is nearly at rest: `rested` follows when a turn of a gang, and the pause after it, would be over."""

    def rested(self) -> None:
        """Nothing has happened for long."""
