"""Placement strategies as people write them: the values, the grammar, and every mistake with its column and its remedy.

    strategy  = rule *( ";" rule ) [ ";" ]
    rule      = field *( "," field )             base at most once; weight and nodeSelector exactly once; in any order
    field     = "base=" number | "weight=" number | "nodeSelector=" label *( "," label )
    label     = key ":" value                    as Kubernetes writes labels; the value may be empty
    number    = ASCII digits

Spaces, tabs and line breaks around `;`, `,`, `=` and `:` mean nothing, so that an annotation may span lines. Anything
else is a mistake: one must not learn from the split of some pods that a rule was left out. Columns count characters of
the whole text, from 1. How long and how complicated a strategy may be is in `limits`; a text that is too long is not
read at all, and reading ends after a number of mistakes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from difflib import get_close_matches
from math import gcd
from typing import NamedTuple

from moorage.core import limits
from moorage.core.labelnames import is_label_value, is_qualified_name

MAX_WEIGHT = 10_000
MAX_BASE = 1_000_000
BASE, WEIGHT, NODE_SELECTOR = "base", "weight", "nodeSelector"
FIELDS = (BASE, WEIGHT, NODE_SELECTOR)

_SPACE = " \t\r\n"
_DIGITS = re.compile(r"[0-9]+", re.ASCII)
_SHOWN_CHARACTERS = 60
_SHOWN_MISTAKES = 3
_EXAMPLE = "weight=1,nodeSelector=node-type:spot"
_RULE_REMEDY = f"write rules such as {_EXAMPLE}, with ; between them"
_LABEL_REMEDY = "write key:value, such as node-type:spot"
KEY_REMEDY = "write a name of letters, digits, - _ . (63 at most), maybe behind a DNS prefix and /"
VALUE_REMEDY = "write letters, digits, - _ . (63 at most), beginning and ending with a letter or digit"
WEIGHTLESS = ("all weights are 0", "give at least one rule a weight of 1 or more")
TWIN_REMEDY = "make one rule of them, with the sum of bases and weights"


class Rule(NamedTuple):
    """One rule: how many pods it gets first, its share of the others, and the labels of its nodes."""

    base: int
    weight: int
    selector: tuple[tuple[str, str], ...]
    """Labels that a node must have, in the order in which they were written; never empty, no key twice."""

    @property
    def labels(self) -> str:
        """The selector as it is written: `key:value,key:value`."""
        return ",".join(f"{key}:{value}" for key, value in self.selector)

    def __str__(self) -> str:
        base = f"{BASE}={self.base}," if self.base else ""
        return f"{base}{WEIGHT}={self.weight},{NODE_SELECTOR}={self.labels}"


class Strategy(NamedTuple):
    """A strategy that can be kept: at least one rule and one weight above 0, no two rules with equal selectors."""

    rules: tuple[Rule, ...]

    def __str__(self) -> str:
        return ";".join(map(str, self.rules))


class Mistake(NamedTuple):
    """One thing that is wrong with a strategy."""

    where: str
    """`column 8`; or the field in a PlacementPolicy, such as `spec.rules[1].weight`."""
    what: str
    remedy: str
    column: int = 0
    """From 1; 0 in a PlacementPolicy, where there are fields instead."""

    def __str__(self) -> str:
        return f"{self.where}: {self.what}; {self.remedy}"


class SyntaxRefusal(NamedTuple):
    """What is wrong with a strategy that cannot be used, as a value; `StrategyError(*refusal)` says it."""

    mistakes: tuple[Mistake, ...]
    too_large: bool = False


class StrategyError(ValueError):
    """A strategy that cannot be used, with everything that is wrong with it. One line, fit for an event."""

    def __init__(self, mistakes: Iterable[Mistake], too_large: bool = False) -> None:
        self.mistakes = tuple(mistakes)
        self.too_large = too_large
        """Whether it is refused for its size: beyond what `limits` allows a strategy to cost."""
        shown = [str(mistake) for mistake in self.mistakes[:_SHOWN_MISTAKES]]
        more = len(self.mistakes) - len(shown)
        super().__init__(". ".join(shown) + (f". And {more} more: see moorage validate" if more else ""))


class Mistakes:
    """Collects what is wrong, up to a number: then reading is over, see `TooManyMistakes`."""

    def __init__(self) -> None:
        self.found: list[Mistake] = []
        self.too_large = False

    def add(self, mistake: Mistake, *, too_large: bool = False) -> None:
        """Note a mistake; `too_large` if it is that something is beyond its limit."""
        self.too_large |= too_large
        self.found.append(mistake)
        if len(self.found) >= limits.STRATEGY_MISTAKES:
            self.found.append(mistake._replace(what="there may be more mistakes", remedy="mend these first"))
            raise TooManyMistakes

    def error(self) -> StrategyError:
        """All of them, in the order of their columns."""
        return StrategyError(sorted(self.found, key=lambda mistake: mistake.column), too_large=self.too_large)


class TooManyMistakes(Exception):  # noqa: N818 - it ends the reading, and is never seen outside
    """Enough is wrong already."""


class _Piece(NamedTuple):
    """A part of the text, without the spaces around it, and where it begins."""

    text: str
    column: int


class _Draft:
    """A rule while it is read. `given` says which fields were there, usable or not."""

    def __init__(self, number: int, column: int) -> None:
        self.number = number
        self.column = column
        self.given: set[str] = set()
        self.base = 0
        self.weight: int | None = None
        self.labels: dict[str, str] = {}


def parse_strategy(text: str) -> Strategy:
    """Read a strategy. Raises StrategyError, with the mistakes in the order of their columns, and nothing else."""
    refuse_length("column 1", len(text))
    reader = _Reader()
    drafts: list[_Draft] = []
    with suppress(TooManyMistakes):
        drafts = reader.rules(_trimmed(text, 1))
    if reader.mistakes.found:
        raise reader.mistakes.error()
    return Strategy(tuple(Rule(draft.base, draft.weight or 0, tuple(draft.labels.items())) for draft in drafts))


def refuse_length(where: str, length: int) -> None:
    """Raises StrategyError about a strategy of so many characters if it is too long to be read."""
    if length > limits.STRATEGY_TEXT:
        remedy = f"write at most {limits.STRATEGY_TEXT} characters"
        raise StrategyError([Mistake(where, f"the strategy has {length} characters", remedy, 1)], too_large=True)


def twins(selectors: Iterable[Iterable[tuple[str, str]]]) -> Iterator[tuple[int, int]]:
    """Indices of rules that have the labels of an earlier one, and its index; rules without labels are passed over."""
    first: dict[frozenset[tuple[str, str]], int] = {}
    for index, labels in enumerate(map(frozenset, selectors)):
        if labels and first.setdefault(labels, index) != index:
            yield index, first[labels]


def excess_of(rules: Sequence[tuple[int, int]]) -> tuple[int, str, str] | None:
    """The first thing that makes a strategy too large, given weight and number of labels of each rule: rule, what it
    is and what to do; None if it is not.
    """
    if len(rules) > limits.STRATEGY_RULES:
        return limits.STRATEGY_RULES, f"there are {len(rules)} rules", f"write at most {limits.STRATEGY_RULES}"
    for index, (_, labels) in enumerate(rules):
        if labels > limits.STRATEGY_LABELS:
            return index, f"rule {index + 1} has {labels} labels", f"write at most {limits.STRATEGY_LABELS}"
    weights = [weight for weight, _ in rules]
    total = sum(weights) // (gcd(*weights) or 1)
    if total * len(rules) > limits.STRATEGY_STEPS:
        most = limits.STRATEGY_STEPS // len(rules)
        return (
            0,
            f"the weights sum up to {total}",
            f"write at most {most} in all; only their ratio counts",
        )
    return None


class _Reader:
    """Reads the parts of a strategy and collects what is wrong with them."""

    def __init__(self) -> None:
        self.mistakes = Mistakes()

    def complain(self, column: int, what: str, remedy: str, *, too_large: bool = False) -> None:
        """Note a mistake."""
        self.mistakes.add(Mistake(f"column {column}", what, remedy, column), too_large=too_large)

    def rules(self, whole: _Piece) -> list[_Draft]:
        """Read all rules."""
        if not whole.text:
            self.complain(1, "the strategy is empty", _RULE_REMEDY)
            return []
        pieces = _split(whole, ";")
        if len(pieces) > 1 and not pieces[-1].text:
            del pieces[-1]  # a ; may also end the last rule
        drafts = [self.rule(number, piece) for number, piece in enumerate(pieces, 1)]
        self.judge(drafts)
        return drafts

    def rule(self, number: int, piece: _Piece) -> _Draft:
        """Read one rule."""
        draft = _Draft(number, piece.column)
        if not piece.text:
            self.complain(piece.column, f"rule {number} is empty", f"remove the extra ; or write {_EXAMPLE}")
            return draft
        behind_selector = False
        read = draft
        for field in _split(piece, ","):
            name, equals, value = _cut(field, "=")
            if equals:
                if name.text in read.given and {WEIGHT, NODE_SELECTOR} <= read.given:
                    read = self._next_rule(read, name)
                behind_selector = self._field(read, name, value)
            elif behind_selector:
                self._label(read, field)
            else:
                self._stray(read, field)
        for required in (WEIGHT, NODE_SELECTOR):
            if required not in draft.given:
                self._missing(draft, required)
        return draft

    def _next_rule(self, draft: _Draft, name: _Piece) -> _Draft:
        """A field comes again in a rule that has all it needs: said once, what follows is read as a rule of its own."""
        remedy = f"write ; before {name.text} if the next rule begins there, or remove it"
        self.complain(name.column, f"rule {draft.number} has {name.text} twice, behind a ,", remedy)
        return _Draft(draft.number + 1, name.column)

    def judge(self, drafts: list[_Draft]) -> None:
        """Look at all rules together, as far as they could be read."""
        excess = excess_of([(draft.weight or 0, len(draft.labels)) for draft in drafts])
        if excess is not None:
            rule, what, remedy = excess
            self.complain(drafts[rule].column, what, remedy, too_large=True)
        if all(draft.weight == 0 for draft in drafts):
            self.complain(drafts[0].column, *WEIGHTLESS)
        for rule, twin in twins(draft.labels.items() for draft in drafts):
            what = f"rule {drafts[rule].number} has the nodeSelector of rule {drafts[twin].number}"
            self.complain(drafts[rule].column, what, TWIN_REMEDY)

    def _field(self, draft: _Draft, name: _Piece, value: _Piece) -> bool:
        """Read `name=value`; True if labels may follow."""
        if name.text not in FIELDS:
            self._unknown(draft, name)
            return False
        if name.text in draft.given:
            self.complain(name.column, f"rule {draft.number} has {name.text} twice", "remove one of them")
        draft.given.add(name.text)
        if name.text == NODE_SELECTOR:
            self._label(draft, value)
            return True
        largest = MAX_BASE if name.text == BASE else MAX_WEIGHT
        number = self._number(name.text, value, largest)
        if name.text == BASE:
            draft.base = number or 0
        else:
            draft.weight = number
        return False

    def _number(self, name: str, value: _Piece, largest: int) -> int | None:
        if not _DIGITS.fullmatch(value.text):
            what = f"{name} is {shown(value.text)}" if value.text else f"{name} has no value"
            self.complain(value.column, what, f"write a whole number from 0 to {largest}, in the digits 0 to 9")
            return None
        digits = value.text.lstrip("0") or "0"
        if len(digits) > len(str(largest)) or int(digits) > largest:
            self.complain(value.column, f"{name} is {shown(value.text)}, which is too large", number_remedy(name))
            return None
        return int(digits)

    def _label(self, draft: _Draft, piece: _Piece) -> None:
        key, colon, value = _cut(piece, ":")
        if not piece.text:
            self.complain(piece.column, "a label is missing", f"{_LABEL_REMEDY}, or remove the comma")
        elif not colon:
            self.complain(piece.column, f"{shown(piece.text)} is no label", f"{_LABEL_REMEDY}; a : in between")
        elif not is_qualified_name(key.text):
            self.complain(key.column, f"{shown(key.text)} is no label key", KEY_REMEDY)
        elif ":" in value.text:
            second = value.column + value.text.index(":")
            self.complain(second, f"label {shown(piece.text)} has a second colon", "write key:value; values have none")
        elif not is_label_value(value.text):
            self.complain(value.column, f"{shown(value.text)} is no label value", VALUE_REMEDY)
        elif key.text in draft.labels:
            what = f"rule {draft.number} has the label key {shown(key.text)} twice"
            self.complain(key.column, what, "remove one; a node has one value for a key")
        else:
            draft.labels[key.text] = value.text

    def _stray(self, draft: _Draft, field: _Piece) -> None:
        if not field.text:
            self.complain(field.column, f"rule {draft.number} has an empty field", "remove the extra comma")
        elif ":" in field.text:
            remedy = f"write labels directly behind {NODE_SELECTOR}="
            self.complain(field.column, f"label {shown(field.text)} does not follow nodeSelector", remedy)
        else:
            self._unknown(draft, field)

    def _unknown(self, draft: _Draft, name: _Piece) -> None:
        meant = meant_field(name.text)
        remedy = f"write {meant}=" if meant else "write base=, weight= or nodeSelector=, and labels as key:value"
        self.complain(name.column, f"{shown(name.text)} is no field of a rule", remedy)
        draft.given.add(meant)  # so that it is not also said to be missing

    def _missing(self, draft: _Draft, name: str) -> None:
        example = "nodeSelector=node-type:spot" if name == NODE_SELECTOR else "weight=1, or weight=0 for its base only"
        self.complain(draft.column, f"rule {draft.number} has no {name}", f"add {example}")


def shown(text: str) -> str:
    """The text in quotes, without what would break a line, and cut where it is long."""
    clean = "".join(c if c.isprintable() else " " for c in text[: _SHOWN_CHARACTERS + 1])
    return f'"{clean}"' if len(text) <= _SHOWN_CHARACTERS else f'"{clean[:_SHOWN_CHARACTERS]}..."'


def number_remedy(name: str) -> str:
    """What to do about a number that is too large."""
    if name == BASE:
        return f"write at most {MAX_BASE}"
    return f"write at most {MAX_WEIGHT}; only the ratio counts, 20000 to 10000 is 2 to 1"


def meant_field(name: str) -> str:
    """The field that was probably meant; empty if none."""
    close = [known for known in FIELDS if known.lower() == name.lower()] or get_close_matches(name[:40], FIELDS, 1)
    return close[0] if close else ""


def _trimmed(text: str, column: int) -> _Piece:
    left = text.lstrip(_SPACE)
    return _Piece(left.rstrip(_SPACE), column + len(text) - len(left))


def _split(piece: _Piece, separator: str) -> list[_Piece]:
    found: list[_Piece] = []
    column = piece.column
    for part in piece.text.split(separator):
        found.append(_trimmed(part, column))
        column += len(part) + 1
    return found


def _cut(piece: _Piece, separator: str) -> tuple[_Piece, bool, _Piece]:
    """What stands before the first separator, whether there is one, and what stands behind it."""
    before, found, after = piece.text.partition(separator)
    return _trimmed(before, piece.column), bool(found), _trimmed(after, piece.column + len(before) + 1)
