"""What an engine knows that cannot be computed again: the facts of which an image of it consists.

For every part of the engine its facts are listed with their types, by attribute. Other attributes follow from the
configuration or from the facts, or are only counted for metrics; `REBUILT` names them, so that a test finds a new
attribute that is in neither list. Queued pods, units and binding cycles are values with an identity: everything that
refers to one must refer to the same one again. All of their fields are facts, including new ones.

A part that has a method `tidy` is tidied before it is written and after it was read.
Nodes, pods on nodes and other objects are not here: an image contains them as events of the cluster.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

from moorage.core.claims import Allocation
from moorage.core.commands import RecordEvent
from moorage.core.deviceindex import DeviceIndex
from moorage.core.disruption.ledger import DisruptionLedger, Disturbance
from moorage.core.evictions import Evictions
from moorage.core.membership import GangKey
from moorage.core.nominations import Nominations
from moorage.core.pods import Pod
from moorage.core.queueusage import Sample, UsageRecord
from moorage.core.resources import Requests
from moorage.core.trials import Side, SideTally, TrialRecord
from moorage.core.unanswered import UnansweredWrites
from moorage.core.volumeindex import Reservation, VolumeIndex
from moorage.core.volumes import ClaimRef
from moorage.engine.asking import Asking, _Question
from moorage.engine.bindingcycles import BindingCycle, BindingCycles, GangBinding
from moorage.engine.breakers import Breaker, Breakers
from moorage.engine.context import EngineContext
from moorage.engine.deadlines import Deadlines
from moorage.engine.engine import Engine
from moorage.engine.evictor import Evictor
from moorage.engine.gangreleases import GangReleases
from moorage.engine.gangroom import GangRoom
from moorage.engine.gangs import Gangs
from moorage.engine.gangturns import GangTurns
from moorage.engine.makingroom import Evicted, MakingRoom
from moorage.engine.notices import Notices
from moorage.engine.pacing import Pacing
from moorage.engine.planning import Planning
from moorage.engine.provisioning import Provisioning
from moorage.engine.queue import SchedulingQueue
from moorage.engine.recovery import Recovery
from moorage.engine.sharing import Sharing
from moorage.engine.sides import Sides
from moorage.engine.stalegangs import StaleGangs
from moorage.engine.turnover import Turnover
from moorage.engine.units import QueuedPod, Unit
from moorage.engine.warnings import Warnings
from moorage.engine.words import WaitingWords, Word
from moorage.framework.changes import Change
from moorage.framework.cycle import Cycle

ENTITIES: tuple[type, ...] = (QueuedPod, Unit, BindingCycle, GangBinding)
"""Values with an identity, by their number in images."""

_Place = tuple[str, str]

FACTS: Mapping[type, Mapping[str, Any]] = {
    Engine: {
        "_context": EngineContext,
        "gangs": Gangs,
        "_notices": Notices,
        "_words": WaitingWords,
        "_rooms": MakingRoom,
    },
    EngineContext: {
        "queue": SchedulingQueue,
        "bindings": BindingCycles,
        "evictor": Evictor,
        "warnings": Warnings,
        "turnover": Turnover,
        "changes": list[Change],
        "_alarms": list[tuple[float, int, Unit]],
        "_tokens": int,
        "planning": Planning | None,
        "asking": Asking | None,
        "sharing": Sharing | None,
        "sides": Sides,
    },
    Sides: {
        "on": bool,
        "recalled": bool,
        "refused": str | None,
        "record": TrialRecord | None,
        "_began_s": float,
        "_judge_s": float,
        "_worse_since_s": float | None,
        "_tallies": dict[Side, SideTally],
        "_pending": dict[Side, int],
    },
    Sharing: {"wanting": dict[str, Unit], "moved": set[str], "leaving": set[str]},
    MakingRoom: {
        "expected": dict[str, Evicted],
        "stale": StaleGangs,
        "usage": UsageRecord,
    },
    UsageRecord: {"samples": list[Sample]},
    StaleGangs: {
        "releases": GangReleases,
        "_met": dict[GangKey, None],
        "_due_s": dict[GangKey, float],
        "_succeeded": set[GangKey],
    },
    SchedulingQueue: {
        "_pods": dict[str, QueuedPod],
        "_gangs": dict[str, Unit],
        "_by_key": dict[GangKey, Unit],
        "_active": list[tuple[tuple[Any, ...], int, Unit]],
        "_postponed": list[tuple[tuple[Any, ...], int, Unit]],
        "_backing_off": list[tuple[float, tuple[Any, ...], int, Unit]],
        "_after_error": list[tuple[float, tuple[Any, ...], int, Unit]],
        "_by_plugin": dict[str, dict[str, Unit]],
        "_unschedulable": dict[str, Unit],
        "_gated": dict[str, Unit],
        "_lines": dict[int, dict[str, Unit]],
        "_line_count": int,
        "_tickets": int,
        "_flush_s": float | None,
        "pacing": Pacing,
    },
    Pacing: {
        "_slow_until_s": dict[str, float],
        "_aside": dict[str, list[tuple[tuple[Any, ...], int, Unit]]],
    },
    BindingCycles: {
        "_cycles": dict[str, BindingCycle],
        "_held": dict[str, BindingCycle],
        "_ready": dict[str, BindingCycle],
        "_posted": dict[str, int],
        "_beyond": dict[str, int],
    },
    Evictor: {"_notes": dict[str, RecordEvent], "stayed": set[str]},
    Turnover: {"ends": deque[tuple[float, Requests]], "placed_s": dict[str, float]},
    Warnings: {"_told": set[tuple[str, str, str, str]]},
    Notices: {"_due": list[tuple[float, str]], "_listed": set[str]},
    WaitingWords: {"due": dict[str, dict[str, Word]], "_budget": float, "_counted_s": float},
    Gangs: {
        "term": str,
        "recovery": Recovery,
        "_room": GangRoom,
        "provisioning": Provisioning,
        "_recording": dict[int, GangBinding],
        "_controlled": dict[_Place, dict[GangKey, None]],
        "_controllers": dict[GangKey, set[_Place]],
    },
    GangRoom: {"turns": GangTurns, "_idle": Deadlines},
    Provisioning: {
        "_due": Deadlines,
        "_misfits": dict[GangKey, None],
        "_asked": dict[GangKey, None],
        "_concerned": dict[GangKey, None],
        "_rests": dict[GangKey, float],
        "_unserved_until_s": float,
    },
    Deadlines: {"_at_s": dict[GangKey, float]},
    GangTurns: {
        "favoured": GangKey | None,
        "_began_s": float,
        "_until_s": float,
        "_kept": dict[str, None],
        "_doubtful": bool,
        "_priority_kept": int,
        "_open_s": float,
        "_pauses": float,
        "_term_s": float,
        "_in_line": dict[GangKey, None],
        "_called": GangKey | None,
        "_called_until_s": float,
        "_served": dict[str, float],
        "_last": dict[GangKey, float],
    },
    Recovery: {
        "_concerned": dict[GangKey, None],
        "_gang_bindings": dict[GangKey, list[GangBinding]],
        "_starting": set[GangKey],
        "_carriers": dict[GangKey, str],
        "_running": set[GangKey],
        "_whole": dict[GangKey, int],
        "_deadlines": Deadlines,
        "_overdue": dict[GangKey, None],
        "_told": dict[GangKey, str],
        "releases": GangReleases,
        "evictions": GangReleases,
        "_remnants": dict[GangKey, int],
    },
    GangReleases: {"_told": dict[GangKey, str]},
    Planning: {
        "inside": dict[str, dict[str, int]],
        "_dirty": dict[str, tuple[str, GangKey | None]],
        "_failed": dict[str, None],
        "_news": dict[str, tuple[list[str], list[str]]],
    },
    Asking: {
        "breakers": Breakers,
        "_open": dict[int, _Question],
        "_busy": set[int],
        "_waiting": dict[frozenset[int], list[tuple[tuple[Any, ...], int, QueuedPod]]],
        "_tickets": int,
        "_meanwhile": dict[str, list[Change]],
    },
    Breakers: {"all": list[Breaker]},
    Cycle: {
        "memo": dict[str, Any],
        "misfit_s": float | None,
        "expires_s": float | None,
        "feasible": int,
        "warnings": tuple[tuple[str, str], ...],
    },
    # Of the cluster's state, what objects do not say.
    Evictions: {
        "_unanswered": dict[str, set[str]],
        "_waits_for": dict[str, set[str]],
        "_failed": set[str],
        "ordered": set[str],
    },
    Nominations: {"count": int, "_node_of": dict[str, str], "_pods_on": dict[str, dict[str, Pod]]},
    DeviceIndex: {"reservations": dict[str, dict[str, Allocation]]},
    UnansweredWrites: {
        "allocating": dict[str, dict[str, str]],
        "given_up": dict[str, set[str]],
        "leaving": dict[str, dict[str, str]],
        "ending": dict[str, str],
    },
    VolumeIndex: {
        "_reservations": dict[str, Reservation],
        "_claimed": dict[str, dict[str, ClaimRef]],
        "_selected": dict[str, dict[str, str]],
    },
    DisruptionLedger: {"_recent": dict[str, Disturbance], "_written": dict[str, int]},
}

REBUILT: Mapping[type, frozenset[str]] = {
    Engine: frozenset(
        # parts that others lead to, and what the configuration says
        [
            "state",
            "queue",
            "runners",
            "bindings",
            "faults",
            "_sort",
            "_failing",
            "_placing",
            "_gates",
            "_handlers",
            "_reconfiguration",
            "_woken_by",
            "_paced",
            "device_health",
            "stopped_after",
            "document",
        ]
    ),
    EngineContext: frozenset(
        [
            "state",
            "runners",
            "fallback",
            "faults",
            "priorities",
            "observer",
            "_alarm_numbers",
            "stop",
            "paced",
            "_answers_to_all",
        ]
    ),
    Sides: frozenset(["_state", "terms", "runners", "fallback", "_covered", "_selected"]),
    Sharing: frozenset(
        [
            "_context",
            "_state",
            "_ledger",
            "_sort",
            "_plugins",
            "_fallback",
            "_units",
            "_builds",
            "_change",
            "waits",
            "leaves",
            "asked",
            "failures",
            "_in_vain",
            "_turns",
            "_waking",
        ]
    ),
    MakingRoom: frozenset(
        [
            "_context",
            "_state",
            "_calm",
            "_calm_until_s",
            "_sharing",
            "_seen",
            "_again_s",
            "_memory",
            "_efforts",
            "_askings",
            "_spared",
            "_waits_s",
            "_look_s",
            "_turns",
            "_broken",
            "_written",
            "rounds",
            "unfinished",
        ]
    ),
    StaleGangs: frozenset(["_context"]),
    UsageRecord: frozenset(["terms"]),
    SchedulingQueue: frozenset(
        ["get", "key", "gate", "helps", "kind", "backoff", "arrivals", "shared", "_line_of", "_kind_of"]
    ),
    Pacing: frozenset({"room", "untouched"}),
    BindingCycles: frozenset(["get", "waited", "_deadlines", "_interests", "_wakes"]),
    Evictor: frozenset(["_state", "_queue", "_sides", "_turnover"]),
    Turnover: frozenset(["_count"]),
    Warnings: frozenset(),
    Notices: frozenset(["_context", "_failing"]),
    WaitingWords: frozenset(["_context", "left_out"]),
    Gangs: frozenset(
        ["_context", "_state", "_queue", "_placing", "_failing", "_notices", "_found", "tried", "plans", "turns"]
    ),
    GangRoom: frozenset(["_context", "_state", "_failing"]),
    Provisioning: frozenset(["_context", "_state", "_needs"]),
    Deadlines: frozenset(["_heap"]),
    GangTurns: frozenset(["_context", "_priority", "_needs"]),
    Recovery: frozenset(["_context", "_state", "_vanished"]),
    GangReleases: frozenset(["_context", "_reason", "_condition"]),
    Planning: frozenset(
        [
            "_context",
            "_state",
            "_sort",
            "_plans",
            "_usable",
            "_units",
            "_members",
            "_nodes_at",
            "_gangs",
            "_reranked",
            "_recalled",
            "_concern",
        ]
    ),
    Asking: frozenset(["_extenders", "_state", "_queue", "_endings", "_token", "_order", "_interests"]),
    Breakers: frozenset({"_news"}),
    Cycle: frozenset(["pod", "template", "state", "now", "only", "asked", "domain", "work"]),
    Evictions: frozenset(),
    Nominations: frozenset(["position", "_log", "_undo", "_queues"]),
    DeviceIndex: frozenset(
        [
            "_objects",
            "views",
            "backing",
            "backing_version",
            "_special",
            "_standing",
            "_holders",
            "_shares",
            "_consumed",
            "_reservations",
            "_reserved",
            "freed",
            "restated",
            "writes",
        ]
    ),
    UnansweredWrites: frozenset(),
    VolumeIndex: frozenset(["_objects", "_by_class", "_capacities", "_attachments"]),
    DisruptionLedger: frozenset(["_state", "_version", "_budgets", "_count", "_spent", "_spent_until_s"]),
}
"""Attributes that are no facts."""
