"""The kinds of workloads that a configuration switches on: what to read, and what may be above pods."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from moorage.core.ownerchains import POD, OwnerChains, OwnerKind, OwnerKinds
from moorage.framework.profiles import Profile
from moorage.framework.workloadkinds import ALL_KINDS, OwnKind, WorkloadKindsArgs, choices_of
from moorage.wire.kinds import BY_ID, Kind, workload_kind
from moorage.wire.workloadrows import PLAIN_OWNERS, ROWS, CountedPods, WorkloadRow


class ChosenWorkloads(NamedTuple):
    """What follows from a configuration."""

    kinds: tuple[Kind, ...]
    """To be read besides the others."""
    owners: OwnerKinds
    marks: frozenset[str]

    def chains(self) -> OwnerChains:
        """A filter of events for these kinds."""
        return OwnerChains(self.owners, self.marks)


NO_WORKLOADS = ChosenWorkloads((), {}, frozenset())
NAMES = (*PLAIN_OWNERS, *(row.id for row in ROWS))
"""What `disabled` may name."""


def workloads_in(profiles: Iterable[Profile]) -> ChosenWorkloads:
    """What the profiles of a configuration switch on."""
    return workloads_of(choices_of(profiles))


def workloads_of(choices: Sequence[WorkloadKindsArgs]) -> ChosenWorkloads:
    """What several profiles switch on, together; nothing if no profile places gangs."""
    if not choices:
        return NO_WORKLOADS
    rows = [row for row in ROWS if any(_is_on(row.id, choice) for choice in choices)]
    own = {kind.id: kind for choice in choices for kind in choice.own}
    rows += [row_of(kind) for kind in own.values()]
    owners: dict[tuple[str, str], OwnerKind] = {("", POD): OwnerKind(POD)}
    for name in PLAIN_OWNERS:
        owners[BY_ID[name].group, name] = OwnerKind(name, asks=any(_is_on(name, choice) for choice in choices))
    for row in rows:
        owners[row.group, row.kind] = OwnerKind(row.id, waits=bool(row.members) and not row.only_asked)
    kinds = tuple(BY_ID[row.id] if row in ROWS else workload_kind(row) for row in rows)
    return ChosenWorkloads(kinds, owners, frozenset(row.mark for row in rows if row.mark))


def _is_on(name: str, choice: WorkloadKindsArgs) -> bool:
    return name not in choice.disabled and ALL_KINDS not in choice.disabled


def unknown_names(choice: WorkloadKindsArgs) -> Iterable[tuple[int, str]]:
    """The entries of `disabled` that name nothing."""
    known = {ALL_KINDS, *NAMES}
    return [(index, name) for index, name in enumerate(choice.disabled) if name not in known]


def row_of(kind: OwnKind) -> WorkloadRow:
    """A kind of the user's own as a row of the table."""
    group, _, version = kind.api_version.partition("/")
    members = tuple(
        CountedPods(each.path, each.count, name=each.name or "", role=each.role, off=each.off or "")
        for each in kind.members
    )
    return WorkloadRow(
        kind.kind,
        group,
        (version,),
        kind.plural or f"{kind.kind.lower()}s",
        members,
        kind.minimum,
        mark=kind.pod_label,
        role_label=kind.role_label,
        rank_labels=kind.rank_labels,
        split_label=kind.split_label,
        own=True,
    )
