"""Which kinds of workloads are gangs without a PodGroup: what a configuration may say about it.

The rows of the kinds that are known are in `wire.workloadrows`; entries here become rows, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

from pydantic import AfterValidator, Field, model_validator

from moorage.framework.arguments import PluginArgs

if TYPE_CHECKING:
    from moorage.framework.profiles import Profile

ALL_KINDS = "*"
DEEPEST = 16
MOST_KINDS = 64
_STEP = re.compile(r"[A-Za-z0-9_-]+(\[\])*|\*")
_GROUP = re.compile(r"(?=.{1,253}/)[a-z0-9]([a-z0-9.-]*[a-z0-9])?\.[a-z0-9.-]*[a-z0-9]/v[a-z0-9]+")


def is_path(text: str) -> bool:
    """Whether a text is a path: names joined by dots, `[]` after a list, `*` for the keys of a map."""
    parts = text.split(".")
    return len(parts) <= DEEPEST and parts[0] != ALL_KINDS and all(_STEP.fullmatch(part) for part in parts)


def _path(text: str) -> str:
    if not is_path(text):
        raise ValueError("must be a path such as spec.workers[] or spec.replicaSpecs.*")
    return text


def _field(text: str) -> str:
    if not is_path(text) or "[" in text or ALL_KINDS in text:
        raise ValueError("must be the path of one field such as template.spec.parallelism")
    return text


def _factor(text: str) -> str:
    for part in text.replace("&", "|").split("|"):
        _field(part)
    if "&" in text and "|" in text:
        raise ValueError("must use either & (the smaller one) or | (the first that is not 0), not both")
    return text


def _api_version(text: str) -> str:
    if not _GROUP.fullmatch(text):
        raise ValueError("must be a group and a version such as example.com/v1")
    return text


Path = Annotated[str, AfterValidator(_path)]
FieldPath = Annotated[str, AfterValidator(_field)]
Factor = Annotated[str, AfterValidator(_factor)]
Label = Annotated[str, Field(max_length=317)]


class OwnMembers(PluginArgs):
    """Where pods are counted; every entry of a list or a map is a role."""

    path: Path
    """The object, list or map that says how many pods there are."""
    count: tuple[Factor, ...] = ("replicas",)
    """Factors of their number, as paths below; what is not given counts as 1."""
    name: FieldPath | None = None
    """Path of the role's name, below; of a map the key is the name."""
    role: str = ""
    """The name of a role that has no other."""
    off: FieldPath | None = None
    """Path of a flag, below: where it is true, there are none."""


class OwnKind(PluginArgs):
    """A kind of the user's own."""

    api_version: Annotated[str, AfterValidator(_api_version)]
    kind: Annotated[str, Field(pattern=r"^[A-Z][A-Za-z0-9]{0,62}$")]
    plural: Annotated[str, Field(pattern=r"^[a-z0-9-]{0,63}$")] = ""
    """As in the path of the API; empty: the kind in small letters with an s."""
    members: Annotated[tuple[OwnMembers, ...], Field(min_length=1, max_length=16)]
    minimum: Annotated[tuple[FieldPath, ...], Field(max_length=16)] = ()
    """Paths of how many pods must be placed together; the first that is given counts, and without one all pods do."""
    pod_label: Label = ""
    """A label that only pods of this kind have; one whose owner is not known yet waits a little for it."""
    role_label: Label = ""
    rank_labels: Annotated[tuple[Label, ...], Field(max_length=4)] = ()
    split_label: Label = ""
    """Every value of this label of the pods is a gang of its own."""

    @property
    def id(self) -> str:
        """What events call the kind; own kinds always say their group."""
        return f"{self.kind}.{self.group}"

    @property
    def group(self) -> str:
        """The API group."""
        return self.api_version.partition("/")[0]


class WorkloadKindsArgs(PluginArgs):
    """Which kinds are gangs, and how those are read that are not known."""

    disabled: Annotated[tuple[str, ...], Field(max_length=MOST_KINDS)] = ()
    """Kinds that are left alone; `*` stands for all of the known ones."""
    own: Annotated[tuple[OwnKind, ...], Field(max_length=MOST_KINDS)] = ()

    @model_validator(mode="after")
    def _no_kind_twice(self) -> WorkloadKindsArgs:
        names = [kind.id for kind in self.own]
        for index, name in enumerate(names):
            if name in names[:index]:
                raise ValueError(f"own[{index}] describes {name} for the second time; remove one of the two")
        return self


class GangPlacementArgs(PluginArgs):
    """Arguments of a plugin that places gangs."""

    workload_kinds: WorkloadKindsArgs = WorkloadKindsArgs()
    """Which kinds of workloads are gangs without a PodGroup."""


def choices_of(profiles: Iterable[Profile]) -> list[WorkloadKindsArgs]:
    """What the plugins of profiles say; nothing if none of them places gangs."""
    found = (plugin.args for profile in profiles for plugin in profile.plugins)
    return [args.workload_kinds for args in found if isinstance(args, GangPlacementArgs)]
