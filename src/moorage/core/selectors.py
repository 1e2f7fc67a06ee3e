"""Label selectors: parsed once into a small value, then only algebra.

One `Requirement` serves label selectors (In, NotIn, Exists, DoesNotExist) and node selectors (Gt, Lt as well).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from enum import StrEnum

from moorage.core.values import dataclass

_INTEGER = re.compile(r"[+-]?[0-9]+\Z", re.ASCII)
_INT64_MAX = 2**63 - 1


class Operator(StrEnum):
    """The operators of Kubernetes' label and node selectors."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GT = "Gt"
    LT = "Lt"


_IN, _NOT_IN, _EXISTS, _DOES_NOT_EXIST, *_ = Operator
"""A member costs more to look up in its class than a comparison does."""


def parse_label_integer(text: str) -> int | None:
    """The 64-bit integer that Gt and Lt compare, or None where the text is not one."""
    if not _INTEGER.match(text):
        return None
    number = int(text)
    return number if -_INT64_MAX - 1 <= number <= _INT64_MAX else None


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition on one label key."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def matches_value(self, value: str | None) -> bool:
        """Whether a label with this value satisfies the condition; None means that the label is absent."""
        operator = self.operator
        if operator is _IN:
            return value is not None and value in self.values
        if operator is _NOT_IN:
            return value is None or value not in self.values
        if operator is _EXISTS:
            return value is not None
        if operator is _DOES_NOT_EXIST:
            return value is None
        if value is None or len(self.values) != 1:
            return False
        number, bound = parse_label_integer(value), parse_label_integer(self.values[0])
        if number is None or bound is None:
            return False
        return number > bound if self.operator is Operator.GT else number < bound


@dataclass(frozen=True, slots=True)
class Selector:
    """All requirements must hold; none at all selects everything (`EVERYTHING`)."""

    requirements: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether an object with these labels is selected."""
        for requirement in self.requirements:  # noqa: SIM110 - half the time of `all`, for every group of pods
            if not requirement.matches_value(labels.get(requirement.key)):
                return False
        return True


EVERYTHING = Selector()
NOTHING: Selector = Selector((Requirement("", Operator.IN, ()),))
"""Selects nothing; what a null label selector means to Kubernetes."""


def part_count(requirements: Iterable[Requirement]) -> int:
    """How many requirements and values these are: what they take in memory goes by that."""
    return sum([1 + len(each.values) for each in requirements])


def selector_from_labels(labels: Mapping[str, str]) -> Selector:
    """The selector that demands each of these labels, as `matchLabels` and `nodeSelector` do."""
    return Selector(tuple(Requirement(key, Operator.IN, (value,)) for key, value in sorted(labels.items())))
