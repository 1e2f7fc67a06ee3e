"""Outcomes of extension points: documented codes, not exceptions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum

from moorage.core.arrays import Ints, Mask
from moorage.core.commands import Command, Victims
from moorage.core.values import dataclass


class Code(StrEnum):
    """What an extension point answered. Names are kube-scheduler's."""

    SUCCESS = "Success"
    """Go on."""
    UNSCHEDULABLE = "Unschedulable"
    """No; removing pods might help."""
    UNRESOLVABLE = "UnschedulableAndUnresolvable"
    """No; removing pods cannot help."""
    WAIT = "Wait"
    """Permit only: ask again later."""
    PENDING = "Pending"
    """No; something else has to happen first. Waking up from it skips the backoff."""
    SKIP = "Skip"
    """Nothing to say about this pod: the Filter or Score is left out. Bind: let the next plugin do it."""
    ERROR = "Error"
    """The plugin failed; the pod is tried again after an error backoff."""


@dataclass(frozen=True, slots=True)
class Status:
    """A code with the reasons that a person will read and the plugin that gave them (filled in by the runner)."""

    code: Code
    reasons: tuple[str, ...] = ()
    plugin: str = ""
    commands: tuple[Command, ...] = ()
    """PostFilter only: what is to be done so that a later attempt may succeed."""

    @property
    def message(self) -> str:
        """The reasons as one text."""
        return ", ".join(self.reasons)

    @property
    def resolvable(self) -> bool:
        """Whether removing pods might help."""
        return self.code is Code.UNSCHEDULABLE


SKIP = Status(Code.SKIP)


def unschedulable(*reasons: str) -> Status:
    """Not now; preemption might help."""
    return Status(Code.UNSCHEDULABLE, reasons)


def unresolvable(*reasons: str) -> Status:
    """Not now, and preemption cannot help."""
    return Status(Code.UNRESOLVABLE, reasons)


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a node was rejected; `resolvable` says whether removing pods from the node could change it."""

    text: str
    resolvable: bool = True


MAX_REASONS = 62
"""Reasons are bits of an int64; a plugin with more to say must merge them."""


@dataclass(frozen=True, slots=True)
class Rejections:
    """What Filter returns: bit i of `bits[j]` is set where `reasons[i]` rejects row j of the rows it was given."""

    bits: Ints
    reasons: Sequence[Reason]
    failure: str = ""
    """Why the whole attempt fails, whatever other rows say; all rows are rejected then."""

    def given(self, bits: int) -> list[Reason]:
        """The reasons whose bits are set."""
        return [reason for number, reason in enumerate(self.reasons) if bits >> number & 1]

    def unresolvable_mask(self) -> Mask:
        """The rows that it rejects even if pods are removed from them, bool[n]."""
        fixed = sum([1 << number for number, reason in enumerate(self.reasons) if not reason.resolvable])
        mask: Mask = (self.bits & fixed) != 0
        return mask


@dataclass(frozen=True, slots=True)
class OnlyNodes:
    """What PreFilter may return to say that only these nodes need to be looked at."""

    names: frozenset[str]


@dataclass(frozen=True, slots=True)
class Hold:
    """What Permit and PreBind return to wait: do these commands, ask again when something happens or at the deadline.

    The engine asks again after every event the plugin `wakes` on, and unreserves at `deadline_s`.
    """

    deadline_s: float
    commands: tuple[Command, ...] = ()
    reason: str = ""
    objects: tuple[tuple[str, str], ...] = ()
    """Kinds and keys of the objects that are waited for, if it is only them. The engine then asks again when one of
    them changes, or a pod leaves that uses the same claim: thousands of pods that wait cost the others nothing.
    """


@dataclass(frozen=True, slots=True)
class Nomination:
    """What PostFilter returns when it made room: the node for the pod (None: clear an old one) and the evictions."""

    node: str | None
    victims: tuple[str, ...] = ()
    """uids of the pods to evict, most important last."""
    message: str = ""
    """Tail of the FailedScheduling message, starting with `preemption: `."""
    candidates: tuple[Victims, ...] = ()
    """What else it could have been, best first and with what it is; only where the cycle asks for them."""


@dataclass(frozen=True, slots=True)
class GangNomination:
    """What PostFilter returns for a gang when it made room: a node for each of the members that were asked about."""

    nodes: Mapping[str, str]
    """Member's uid -> node. Members that are not named here stay without one."""
    victims: tuple[str, ...] = ()
    """uids of the pods to evict, most important last."""
    message: str = ""
    """Tail of the FailedScheduling message, starting with `preemption: `."""
