"""Semantic versions in expressions of the Common Expression Language, as Kubernetes' library has them."""

from __future__ import annotations

import string
from functools import total_ordering
from typing import ClassVar

from moorage.cel import costs
from moorage.cel import types as ty
from moorage.cel.functions import Function, Library, method, overload, remembered
from moorage.cel.types import Type
from moorage.cel.values import UINT_MAX, CelError, Foreign, Value
from moorage.core.values import dataclass

_DIGITS = frozenset(string.digits)
_WORD = frozenset(string.ascii_letters + string.digits + "-")


class SemverError(ValueError):
    """The text is not a semantic version; the message says why."""


@total_ordering
@dataclass(frozen=True, slots=True, eq=False)
class Semver(Foreign):
    """A version; what is behind `+` does not count."""

    type: ClassVar[Type] = ty.struct("kubernetes.Semver")
    go_name: ClassVar[str] = "cel.Semver"
    hashable: ClassVar[bool] = False
    numbers: tuple[int, int, int]
    prerelease: tuple[tuple[int, int, str], ...] = ()
    """Numbers come before words: (0, number, "") or (1, 0, word)."""

    def _key(self) -> tuple[tuple[int, int, int], bool, tuple[tuple[int, int, str], ...]]:
        return self.numbers, not self.prerelease, self.prerelease

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Semver) and self._key() == other._key()

    def __lt__(self, other: Semver) -> bool:
        return self._key() < other._key()

    def __hash__(self) -> int:
        return hash(self._key())


def _number(text: str, name: str) -> int:
    if not _DIGITS.issuperset(text):
        raise SemverError(f'Invalid character(s) found in {name.lower()} number "{text}"')
    if len(text) > 1 and text[0] == "0":
        raise SemverError(f'{name} number must not contain leading zeroes "{text}"')
    return _unsigned(text)


def _unsigned(text: str) -> int:
    if not text:
        raise SemverError('strconv.ParseUint: parsing "": invalid syntax')
    number = int(text) if len(text) <= 20 else UINT_MAX + 1
    if number > UINT_MAX:
        raise SemverError(f'strconv.ParseUint: parsing "{text}": value out of range')
    return number


def _prerelease(text: str) -> tuple[int, int, str]:
    if not text:
        raise SemverError("Prerelease is empty")
    if _DIGITS.issuperset(text):
        if len(text) > 1 and text[0] == "0":
            raise SemverError(f'Numeric PreRelease version must not contain leading zeroes "{text}"')
        return 0, _unsigned(text), ""
    if not _WORD.issuperset(text):
        raise SemverError(f'Invalid character(s) found in prerelease "{text}"')
    return 1, 0, text


def parse_semver(text: str) -> Semver:
    """A version of exactly the form of semver.org; raises SemverError."""
    if not text:
        raise SemverError("Version string empty")
    parts = text.split(".", 2)
    if len(parts) != 3:
        raise SemverError("No Major.Minor.Patch elements found")
    major, minor = _number(parts[0], "Major"), _number(parts[1], "Minor")
    rest, plus, build = parts[2].partition("+")
    patch, dash, words = rest.partition("-")
    numbers = major, minor, _number(patch, "Patch")
    prerelease = tuple(map(_prerelease, words.split("."))) if dash else ()
    for word in build.split(".") if plus else ():
        if not word:
            raise SemverError("Build meta data is empty")
        if not _WORD.issuperset(word):
            raise SemverError(f'Invalid character(s) found in build meta data "{word}"')
    return Semver(numbers, prerelease)


def _normalised(text: str) -> str:
    """A version without its `v` and leading zeros, and with all three numbers."""
    parts = text.removeprefix("v").split(".", 2)
    for index, part in enumerate(parts):
        if len(part) > 1:
            trimmed = part.lstrip("0")
            parts[index] = trimmed if trimmed[:1] and trimmed[0] in _DIGITS else "0" + trimmed
    if len(parts) < 3:
        if set("+-") & set(parts[-1]):
            raise SemverError("short version cannot contain PreRelease/Build meta data")
        parts += ["0"] * (3 - len(parts))
    return ".".join(parts)


@remembered
def _exact(text: str) -> Value:
    try:
        return parse_semver(text)
    except SemverError as error:
        return CelError(str(error))


@remembered
def _tolerant(text: str) -> Value:
    try:
        return parse_semver(_normalised(text))
    except SemverError as error:
        return CelError(str(error))


def _semver(text: str, normalise: bool = False) -> Value:
    return _tolerant(text) if normalise else _exact(text)


def _part(index: int) -> Value:
    def number(version: Semver) -> int:
        found = version.numbers[index]
        return found if found < 2**63 else found - 2**64

    return number


_V = {"semver": Semver.type}
LIBRARY = Library(
    (
        Function(
            "semver",
            (
                overload("string_to_semver", "string -> semver", _semver, **_V),
                overload("string_bool_to_semver", "string, bool -> semver", _semver, **_V),
            ),
            cost=costs.first_argument,
            fixed=True,
        ),
        Function(
            "isSemver",
            (
                overload("is_semver_string", "string -> bool", lambda *args: isinstance(_semver(*args), Semver)),
                overload(
                    "is_semver_string_bool", "string, bool -> bool", lambda *args: isinstance(_semver(*args), Semver)
                ),
            ),
            cost=costs.first_argument,
            fixed=True,
        ),
        Function(
            "isGreaterThan",
            (method("semver_is_greater_than", "semver, semver -> bool", lambda a, b: b < a, **_V),),
        ),
        Function("isLessThan", (method("semver_is_less_than", "semver, semver -> bool", lambda a, b: a < b, **_V),)),
        Function(
            "compareTo",
            (method("semver_compare_to", "semver, semver -> int", lambda a, b: (b < a) - (a < b), **_V),),
        ),
        Function("major", (method("semver_major", "semver -> int", _part(0), **_V),)),
        Function("minor", (method("semver_minor", "semver -> int", _part(1), **_V),)),
        Function("patch", (method("semver_patch", "semver -> int", _part(2), **_V),)),
    )
)
