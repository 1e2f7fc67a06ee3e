"""The syntax of RE2's regular expressions as a tree.

What RE2 does not have (look-around, back-references) is an error, in Go's words. Repetition counts go up to 1,000, also
where counted repetitions are nested.
"""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

MOST_REPEATED = 1000
MOST_NESTED = 1000
_MOST_RUNE = 0x10FFFF


class PatternError(ValueError):
    """The text is not a regular expression; the message says why and names the part."""


Test: TypeAlias = Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class One:
    """One character that passes a test."""

    test: Test


@dataclass(frozen=True, slots=True)
class Assertion:
    """A place; `flag` is one of the bits below."""

    flag: int


@dataclass(frozen=True, slots=True)
class Sequence:
    """One after the other."""

    parts: tuple[Tree, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """The first that leads to a match."""

    parts: tuple[Tree, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """Something again and again; `most` is -1 for no limit."""

    part: Tree
    least: int
    most: int
    greedy: bool


Tree: TypeAlias = One | Assertion | Sequence | Choice | Repeat
BEGIN_LINE, END_LINE, BEGIN_TEXT, END_TEXT, BOUNDARY, NO_BOUNDARY = 1, 2, 4, 8, 16, 32
EMPTY = Sequence(())

_COUNT = re.compile(r"\{([0-9]{1,9})(?:(,)([0-9]{0,9}))?\}", re.ASCII)
_FLAGS = re.compile(r"\(\?([imsU]*)(-[imsU]+)?([:)])", re.ASCII)
_OCTAL = re.compile(r"[0-7]{1,3}")
_NAME = re.compile(r"\(\?P?<([A-Za-z_][A-Za-z0-9_]*)>", re.ASCII)
_SIMPLE = {"a": "\a", "f": "\f", "t": "\t", "n": "\n", "r": "\r", "v": "\v"}
_WORD = frozenset(string.ascii_letters + string.digits + "_")
_SPACE = frozenset("\t\n\f\r ")
_PERL: dict[str, Test] = {
    "d": frozenset(string.digits).__contains__,
    "w": _WORD.__contains__,
    "s": _SPACE.__contains__,
}
_POSIX: dict[str, frozenset[str]] = {
    "alnum": frozenset(string.ascii_letters + string.digits),
    "alpha": frozenset(string.ascii_letters),
    "ascii": frozenset(map(chr, range(128))),
    "blank": frozenset("\t "),
    "cntrl": frozenset(map(chr, (*range(32), 127))),
    "digit": frozenset(string.digits),
    "graph": frozenset(map(chr, range(33, 127))),
    "lower": frozenset(string.ascii_lowercase),
    "print": frozenset(map(chr, range(32, 127))),
    "punct": frozenset(string.punctuation),
    "space": frozenset("\t\n\v\f\r "),
    "upper": frozenset(string.ascii_uppercase),
    "word": _WORD,
    "xdigit": frozenset(string.hexdigits),
}
_CATEGORIES = {"C": "cfos", "L": "lmotu", "M": "cen", "N": "dlo", "P": "cdefios", "S": "ckmo", "Z": "lps"}


def word_character(char: str) -> bool:
    """Whether a character is part of a word."""
    return char in _WORD


def _not(test: Test) -> Test:
    return lambda char: not test(char)


def _any_of(tests: list[Test]) -> Test:
    return lambda char: any(test(char) for test in tests)


def _between(low: str, high: str) -> Test:
    return lambda char: low <= char <= high


def _folds(char: str) -> frozenset[str]:
    """A character in all of its cases."""
    found = {char, char.lower(), char.upper(), char.casefold(), char.upper().lower(), char.lower().upper()}
    found |= {"K": {"\u212a"}, "S": {"\u017f"}}.get(char.upper(), set())
    return frozenset(each for each in found if len(each) == 1)


def _folding(test: Test) -> Test:
    return lambda char: any(test(each) for each in _folds(char))


def _category(name: str) -> Test:
    return lambda char: unicodedata.category(char).startswith(name)


@dataclass(slots=True)
class _Group:
    """What has been read since a bracket was opened."""

    at: int
    flags: frozenset[str]
    choices: list[Tree]
    parts: list[Tree]

    def tree(self) -> Tree:
        last = _sequence(self.parts)
        return Choice((*self.choices, last)) if self.choices else last


def _sequence(parts: list[Tree]) -> Tree:
    return parts[0] if len(parts) == 1 else Sequence(tuple(parts))


class PatternReader:
    """Reads one pattern."""

    def __init__(self, pattern: str) -> None:
        self._text = pattern
        self._at = 0
        self._flags: frozenset[str] = frozenset()
        self._groups = [_Group(0, self._flags, [], [])]
        self._counts: dict[int, int] = {}
        self._kept: list[Tree] = []

    def read(self) -> Tree:
        """The tree of the pattern."""
        repeated = -1
        while self._at < len(self._text):
            char = self._text[self._at]
            start = self._at
            if char in "*+?" or (char == "{" and _COUNT.match(self._text, self._at)):
                self._repeat(repeated)
                repeated = start
                continue
            repeated = -1
            self._piece(char)
            if self._at == start:
                raise PatternError(f"unexpected character: `{char}`")
        if len(self._groups) > 1:
            raise PatternError(f"missing closing ): `{self._text}`")
        return self._groups[0].tree()

    def _piece(self, char: str) -> None:
        if char == "(":
            self._open()
        elif char == ")":
            self._close()
        elif char == "|":
            group = self._groups[-1]
            group.choices.append(_sequence(group.parts))
            group.parts = []
            self._at += 1
        elif char == "[":
            self._add(One(self._class()))
        elif char == "\\":
            self._escape()
        else:
            self._at += 1
            self._add(self._plain(char))

    def _add(self, tree: Tree) -> None:
        self._groups[-1].parts.append(tree)

    def _plain(self, char: str) -> Tree:
        if char == ".":
            return One(lambda _: True) if "s" in self._flags else One(lambda each: each != "\n")
        if char == "^":
            return Assertion(BEGIN_LINE if "m" in self._flags else BEGIN_TEXT)
        if char == "$":
            return Assertion(END_LINE if "m" in self._flags else END_TEXT)
        return self._literal(char)

    def _literal(self, char: str) -> Tree:
        if "i" in self._flags:
            return One(_folds(char).__contains__)
        return One(char.__eq__)

    # --- groups ---

    def _open(self) -> None:
        start = self._at
        if not self._text.startswith("(?", start):
            self._at += 1
        else:
            match = _FLAGS.match(self._text, start) or _NAME.match(self._text, start)
            if match is None or (match.re is _FLAGS and not any(match.groups()[:2]) and match[3] == ")"):
                raise self._bad_group(start)
            self._at = match.end()
            if match.re is _FLAGS:
                before = self._flags
                self._flags = (before | frozenset(match[1])) - frozenset(match[2] or "")
                if match[3] == ")":
                    return
                self._push(start, before)
                return
        self._push(start, self._flags)

    def _push(self, start: int, flags: frozenset[str]) -> None:
        if len(self._groups) >= MOST_NESTED:
            raise PatternError(f"expression nests too deeply: `{self._text}`")
        self._groups.append(_Group(start, flags, [], []))

    def _bad_group(self, start: int) -> PatternError:
        rest = self._text[start:]
        if rest.startswith(("(?P<", "(?<")):
            end = rest.find(">")
            return PatternError(f"invalid named capture: `{rest[: end + 1] if end >= 0 else rest}`")
        match = re.match(r"\(\?[imsU-]*", rest)
        known = match.end() if match else 2
        return PatternError(f"invalid or unsupported Perl syntax: `{rest[: known + 1]}`")

    def _close(self) -> None:
        if len(self._groups) == 1:
            raise PatternError(f"unexpected ): `{self._text}`")
        self._at += 1
        group = self._groups.pop()
        self._flags = group.flags
        self._add(group.tree())

    # --- repetition ---

    def _repeat(self, repeated: int) -> None:
        """An operator; `repeated` is where the one right before it begins, or -1."""
        start = self._at
        match = _COUNT.match(self._text, start)
        if match is None:
            least, most = {"*": (0, -1), "+": (1, -1), "?": (0, 1)}[self._text[start]]
            self._at += 1
        else:
            least = int(match[1])
            most = least if match[2] is None else int(match[3]) if match[3] else -1
            self._at = match.end()
        lazy = self._text.startswith("?", self._at)
        self._at += lazy
        operator = self._text[start : self._at]
        if match is not None and (least > MOST_REPEATED or most > MOST_REPEATED or (0 <= most < least)):
            raise PatternError(f"invalid repeat count: `{match.group()}`")
        if not self._groups[-1].parts:
            raise PatternError(f"missing argument to repetition operator: `{operator}`")
        if repeated >= 0:
            raise PatternError(f"invalid nested repetition operator: `{self._text[repeated : self._at]}`")
        self._add(self._repeated(least, most, lazy, match))

    def _repeated(self, least: int, most: int, lazy: bool, match: re.Match[str] | None) -> Repeat:
        part = self._groups[-1].parts.pop()
        count = self._count(part) * (max(least, most, 1) if match else 1)
        if match is not None and count > MOST_REPEATED:
            raise PatternError(f"invalid repeat count: `{match.group()}`")
        tree = Repeat(part, least, most, greedy=lazy == ("U" in self._flags))
        self._counts[id(tree)] = count
        self._kept.append(tree)
        return tree

    def _count(self, tree: Tree) -> int:
        """How often the innermost part of it is repeated at most, by counts."""
        if isinstance(tree, Repeat):
            return self._counts[id(tree)]
        if isinstance(tree, Sequence | Choice):
            found = self._counts.get(id(tree))
            if found is None:
                found = self._counts[id(tree)] = max(map(self._count, tree.parts), default=1)
                self._kept.append(tree)
            return found
        return 1

    # --- escapes ---

    def _escape(self) -> None:
        following = self._text[self._at + 1 : self._at + 2]
        if following == "Q":
            end = self._text.find("\\E", self._at)
            quoted = self._text[self._at + 2 : end if end >= 0 else None]
            self._at = end + 2 if end >= 0 else len(self._text)
            for char in quoted:
                self._add(self._literal(char))
            if not quoted:
                self._add(EMPTY)
            return
        place = {"A": BEGIN_TEXT, "z": END_TEXT, "b": BOUNDARY, "B": NO_BOUNDARY}.get(following)
        if place is not None:
            self._at += 2
            self._add(Assertion(place))
            return
        test = self._class_escape()
        self._add(One(test) if test is not None else self._literal(self._character()))

    def _class_escape(self) -> Test | None:
        """The test of an escape that stands for many characters."""
        name = self._text[self._at + 1 : self._at + 2]
        if name.lower() in _PERL and name.isascii():
            self._at += 2
            test = _PERL[name.lower()]
            return _not(test) if name.isupper() else test
        return self._property() if name in ("p", "P") else None

    def _property(self) -> Test:
        start = self._at
        self._at += 2
        if self._text.startswith("{", self._at):
            end = self._text.find("}", self._at)
            if end < 0:
                raise PatternError(f"invalid character class range: `{self._text[start:]}`")
            name, self._at = self._text[self._at + 1 : end], end + 1
        else:
            name = self._text[self._at : self._at + 1]
            self._at += 1
        negative = (self._text[start + 1] == "P") != name.startswith("^")
        name = name.removeprefix("^")
        if name == "Any":
            return (lambda _: False) if negative else (lambda _: True)
        if name[:1] not in _CATEGORIES or name[1:] not in ("", *_CATEGORIES[name[0]]):
            raise PatternError(f"invalid character class range: `{self._text[start : self._at]}`")
        test = _category(name)
        test = _folding(test) if "i" in self._flags else test
        return _not(test) if negative else test

    def _character(self) -> str:
        """The character that an escape stands for."""
        start = self._at
        char = self._text[start + 1 : start + 2]
        self._at += 2
        if not char:
            raise PatternError("trailing backslash at end of expression: ``")
        if char in _SIMPLE:
            return _SIMPLE[char]
        if char in "01234567":
            return self._octal(start, char)
        if char == "x":
            return self._hexadecimal(start)
        if char.isascii() and not char.isalnum():
            return char
        raise PatternError(f"invalid escape sequence: `\\{char}`")

    def _octal(self, start: int, char: str) -> str:
        if char != "0" and not self._text[self._at : self._at + 1].isdigit():
            raise PatternError(f"invalid escape sequence: `\\{char}`")
        digits = _OCTAL.match(self._text, start + 1)
        if digits is None:
            raise PatternError(f"invalid escape sequence: `\\{char}`")
        self._at = digits.end()
        return chr(int(digits.group(), 8))

    def _hexadecimal(self, start: int) -> str:
        match = re.compile(r"([0-9a-fA-F]{2})|\{([0-9a-fA-F]{1,8})\}").match(self._text, self._at)
        code = int(match[1] or match[2], 16) if match else _MOST_RUNE + 1
        if match is None or code > _MOST_RUNE:
            digits = re.compile(r"\{?[0-9a-fA-F]*").match(self._text, self._at)
            raise PatternError(f"invalid escape sequence: `{self._text[start : digits.end() if digits else self._at]}`")
        self._at = match.end()
        return chr(code)

    # --- classes ---

    def _class(self) -> Test:
        start = self._at
        self._at += 1
        negative = self._text.startswith("^", self._at)
        self._at += negative
        tests: list[Test] = []
        first = True
        while first or not self._text.startswith("]", self._at):
            if self._at >= len(self._text):
                raise PatternError(f"missing closing ]: `{self._text[start:]}`")
            tests.append(self._element(start))
            first = False
        self._at += 1
        test = _any_of(tests)
        test = _folding(test) if "i" in self._flags else test
        return _not(test) if negative else test

    def _element(self, start: int) -> Test:
        if self._text.startswith("[:", self._at):
            end = self._text.find(":]", self._at + 2)
            if end >= 0:
                return self._posix(end)
        if self._text[self._at] == "\\":
            test = self._class_escape()
            if test is not None:
                return test
        begin = self._at
        low = self._class_character(start)
        if not (self._text.startswith("-", self._at) and self._text[self._at + 1 : self._at + 2] not in ("]", "")):
            return low.__eq__
        self._at += 1
        high = self._class_character(start)
        if high < low:
            raise PatternError(f"invalid character class range: `{self._text[begin : self._at]}`")
        return _between(low, high)

    def _class_character(self, start: int) -> str:
        if self._at >= len(self._text):
            raise PatternError(f"missing closing ]: `{self._text[start:]}`")
        if self._text[self._at] == "\\":
            return self._character()
        self._at += 1
        return self._text[self._at - 1]

    def _posix(self, end: int) -> Test:
        name = self._text[self._at + 2 : end]
        found = _POSIX.get(name.removeprefix("^"))
        if found is None:
            raise PatternError(f"invalid character class range: `{self._text[self._at : end + 2]}`")
        self._at = end + 2
        return _not(found.__contains__) if name.startswith("^") else found.__contains__
