"""Writes to claims that were ordered, and whose effect is not seen yet.

A device stays taken while a write that allocates it may still arrive, whatever becomes of its pod in the meantime. The
end of a claim, by deallocation or deletion, is ordered once, not again at every attempt until the watch shows it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from moorage.core.commands import PatchObject, Verb
from moorage.core.events import PatchDone
from moorage.core.frozen import FrozenDict

UNANSWERED = ""
_NOTHING: FrozenDict[str, Any] = FrozenDict()


class UnansweredWrites:
    """What was ordered, by claim."""

    def __init__(self) -> None:
        self.allocating: dict[str, dict[str, str]] = {}
        """Key of a claim -> uid of the pod that allocates -> `UNANSWERED`, or the version that has to be seen."""
        self.given_up: dict[str, set[str]] = {}
        """The same of pods that gave up in the meantime: key -> uids."""
        self.leaving: dict[str, dict[str, str]] = {}
        """The same of pods whose reservation is taken back."""
        self.ending: dict[str, str] = {}
        """Key of a claim -> the version that it had when its end was ordered."""

    def ordered(self, command: PatchObject, version: str) -> None:
        """A write to a claim goes out; `version` is the claim's as far as it is known."""
        if takes_all(command):
            self.ending[_key(command)] = version
        elif _allocates(command):
            self.allocating.setdefault(_key(command), {})[command.pod.uid] = UNANSWERED
        elif takes_back(command):
            self.leaving.setdefault(_key(command), {})[command.pod.uid] = UNANSWERED

    def ends(self, key: str, version: str) -> bool:
        """Whether the end of a claim in this version is ordered already."""
        return self.ending.get(key) == version

    def answered(self, answer: PatchDone, seen: str | None) -> bool:
        """A write was answered; `seen` is the version that the watch has shown, None if the claim is gone.

        Returns whether all is known about an allocation now, or the end of a claim was refused. Of a write that failed
        without a clear refusal, the version that the answer names is the first to show what became of it.
        """
        command, made = answer.command, answer.version
        key, uid = _key(command), command.pod.uid
        if not answer.ok and takes_all(command):
            return self.ending.pop(key, None) is not None
        leaves = takes_back(command)
        index = self.leaving if leaves else self.allocating
        if not (leaves or _allocates(command)) or uid not in index.get(key, ()):
            return False
        if made and seen is not None and not _reaches(seen, made):
            index[key][uid] = made
            return False
        if leaves:
            _drop(self.leaving, key, uid)
        return True

    def resolved(self, key: str, seen: str | None) -> Iterator[str]:
        """The watch shows a claim in a version, or that it is gone: uids of pods of whose writes all is known now."""
        for uid, made in [*self.leaving.get(key, {}).items()]:
            if made and (seen is None or _reaches(seen, made)):
                _drop(self.leaving, key, uid)
        if self.ending.get(key, seen) != seen:
            del self.ending[key]
        for uid, made in [*self.allocating.get(key, {}).items()]:
            if made and (seen is None or _reaches(seen, made)):
                yield uid

    def give_up(self, key: str, uid: str) -> bool:
        """A pod needs its devices no more; whether a write may still give them to its claim."""
        if uid not in self.allocating.get(key, ()):
            return False
        self.given_up.setdefault(key, set()).add(uid)
        return True

    def end(self, key: str, uid: str) -> bool:
        """All is known about the write of a pod; whether the pod had given up."""
        _drop(self.allocating, key, uid)
        given_up = uid in self.given_up.get(key, ())
        _drop(self.given_up, key, uid)
        return given_up


def _key(command: PatchObject) -> str:
    return f"{command.namespace}/{command.name}"


def takes_all(command: PatchObject) -> bool:
    """Whether a write takes everything from its claim, or deletes it."""
    return command.verb is Verb.DELETE or command.patch.get("status", _NOTHING).get("allocation", 0) is None


def _allocates(command: PatchObject) -> bool:
    return command.patch.get("status", _NOTHING).get("allocation") is not None


def takes_back(command: PatchObject) -> bool:
    """Whether a write takes back the reservation of its pod."""
    reserved = command.patch.get("status", _NOTHING).get("reservedFor")
    return bool(reserved) and any("$patch" in each for each in reserved)


def _drop(index: dict[str, dict[str, str]] | dict[str, set[str]], key: str, uid: str) -> None:
    members = index.get(key)
    if members is not None and uid in members:
        if isinstance(members, set):
            members.discard(uid)
        else:
            del members[uid]
        if not members:
            del index[key]


def _reaches(seen: str, made: str) -> bool:
    """Whether a version is at least as new; versions that are no numbers cannot be told apart."""
    return int(seen) >= int(made) if seen.isdecimal() and made.isdecimal() else True
