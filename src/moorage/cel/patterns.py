"""Regular expressions of RE2's syntax, matched in time linear in the text.

A pattern becomes a program of at most `MOST_PROGRAM` instructions for a machine that is in many places at once. Whether
a text matches is asked with sets of places, whose steps are remembered; where it matches, with places in the order of
preference. Both are spent from the account of the evaluation.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

from moorage.cel import patternsyntax as syntax
from moorage.cel.patternsyntax import PatternError, Test, Tree
from moorage.cel.steps import Step, done, run
from moorage.cel.work import spend

MOST_PROGRAM = 20_000
_MOST_REMEMBERED = 20_000
"""Places in all sets that a pattern remembers; beyond that it starts over."""
_MOST_KEPT, _LONGEST_KEPT = 64, 256
"""How many texts a pattern remembers its answer about, and how long they are."""
_MATCH = -1


@dataclass(frozen=True, slots=True)
class _Char:
    test: Test
    next: int


@dataclass(frozen=True, slots=True)
class _Split:
    first: int
    second: int


@dataclass(frozen=True, slots=True)
class _Assert:
    flag: int
    next: int


_Instruction: TypeAlias = _Char | _Split | _Assert


def nullable(tree: Tree) -> bool:
    """Whether nothing at all can match it; a repetition of it that may end does so before its last choices."""
    waiting = [tree]
    while waiting:
        each = waiting.pop()
        if isinstance(each, syntax.One):
            return False
        if isinstance(each, syntax.Sequence):
            waiting.extend(each.parts)
        elif isinstance(each, syntax.Choice):
            if not any(map(nullable, each.parts)):
                return False
        elif isinstance(each, syntax.Repeat) and each.least:
            waiting.append(each.part)
    return True


class _Compiler:
    """A tree to a program, from its end to its beginning: every part is given what comes after it."""

    def __init__(self) -> None:
        self.program: list[_Instruction] = []

    def _emit(self, instruction: _Instruction) -> int:
        if len(self.program) >= MOST_PROGRAM:
            raise PatternError("expression too large")
        self.program.append(instruction)
        return len(self.program) - 1

    def compile(self, tree: Tree, after: int) -> Step[int]:
        """The place where the tree begins."""
        if isinstance(tree, syntax.One):
            return done(self._emit(_Char(tree.test, after)))
        if isinstance(tree, syntax.Assertion):
            return done(self._emit(_Assert(tree.flag, after)))
        if isinstance(tree, syntax.Sequence):
            return self._sequence(tree, after)
        return self._choice(tree, after) if isinstance(tree, syntax.Choice) else self._repeat(tree, after)

    def _sequence(self, tree: syntax.Sequence, after: int) -> Step[int]:
        for part in reversed(tree.parts):
            after = yield self.compile(part, after)
        return after

    def _choice(self, tree: syntax.Choice, after: int) -> Step[int]:
        place: int = yield self.compile(tree.parts[-1], after)
        for part in reversed(tree.parts[:-1]):
            first: int = yield self.compile(part, after)
            place = self._emit(_Split(first, place))
        return place

    def _split(self, inside: int, after: int, greedy: bool) -> _Split:
        return _Split(inside, after) if greedy else _Split(after, inside)

    def _repeat(self, tree: syntax.Repeat, after: int) -> Step[int]:
        place, copies = after, tree.least
        if tree.most < 0:
            loop = self._emit(_Split(after, after))
            inside: int = yield self.compile(tree.part, loop)
            self.program[loop] = self._split(inside, after, tree.greedy)
            place, copies = (inside, copies - 1) if copies else (loop, 0)
            if not tree.least and nullable(tree.part):
                place = self._emit(self._split(inside, after, tree.greedy))
        else:
            for _ in range(tree.most - tree.least):
                inside = yield self.compile(tree.part, place)
                place = self._emit(self._split(inside, after, tree.greedy))
        for _ in range(copies):
            place = yield self.compile(tree.part, place)
        return place


class Matcher:
    """A compiled pattern."""

    def __init__(self, pattern: str) -> None:
        compiler = _Compiler()
        self._start = run(compiler.compile(syntax.PatternReader(pattern).read(), _MATCH))
        self._program = compiler.program
        self._asserts = any(isinstance(each, _Assert) for each in self._program)
        self._closures: dict[tuple[frozenset[int], int], tuple[frozenset[int], bool]] = {}
        self._moves: dict[tuple[frozenset[int], str], frozenset[int]] = {}
        self._remembered = 0
        self._said: dict[str, bool] = {}
        """What was said of the latest texts."""
        spend(len(self._program))

    def search(self, text: str) -> bool:
        """Whether any part of the text matches."""
        found = self._said.get(text)
        if found is None:
            found = self._searched(text)
            if len(text) <= _LONGEST_KEPT:
                if len(self._said) >= _MOST_KEPT:
                    self._said.clear()
                self._said[text] = found
        spend(1)
        return found

    def _searched(self, text: str) -> bool:
        spend(len(text))
        begin = frozenset((self._start,))
        places = begin
        for at in range(len(text) + 1):
            flags = self._flags(text, at) if self._asserts else 0
            found = self._closures.get((places, flags))
            if found is None:
                found = self._closed(places, flags)
            reached, matched = found
            if matched:
                return True
            if at < len(text):
                char = text[at]
                moved = self._moves.get((reached, char))
                places = self._moved(reached, char, begin) if moved is None else moved
        return False

    def _closed(self, places: frozenset[int], flags: int) -> tuple[frozenset[int], bool]:
        """The characters that are expected next, and whether the end is reached."""
        self._make_room(len(places))
        seen: set[int] = set()
        waiting = list(places)
        while waiting:
            place = waiting.pop()
            if place in seen:
                continue
            seen.add(place)
            if place == _MATCH:
                continue
            instruction = self._program[place]
            if isinstance(instruction, _Split):
                waiting += (instruction.first, instruction.second)
            elif isinstance(instruction, _Assert) and instruction.flag & flags:
                waiting.append(instruction.next)
        spend(len(seen))
        expected = frozenset(each for each in seen if each != _MATCH and isinstance(self._program[each], _Char))
        found = self._closures[places, flags] = (expected, _MATCH in seen)
        return found

    def _moved(self, places: frozenset[int], char: str, begin: frozenset[int]) -> frozenset[int]:
        """Where a character leads from these places; a match may begin anywhere."""
        self._make_room(len(places))
        spend(len(places))
        found = self._moves[places, char] = begin | frozenset(self._after(places, char))
        return found

    def _make_room(self, more: int) -> None:
        """Forget everything if there would be too much of it; a set is at most so much larger than what leads to it."""
        self._remembered += 1 + more + len(self._program) // 8
        if self._remembered > _MOST_REMEMBERED:
            self._closures.clear()
            self._moves.clear()
            self._remembered = 0

    def _after(self, places: frozenset[int], char: str) -> list[int]:
        steps = (self._program[place] for place in places)
        return [each.next for each in steps if isinstance(each, _Char) and each.test(char)]

    def _flags(self, text: str, at: int) -> int:
        before, after = text[at - 1 : at], text[at : at + 1]
        flags = (syntax.BEGIN_TEXT if at == 0 else 0) | (syntax.END_TEXT if at == len(text) else 0)
        flags |= syntax.BEGIN_LINE if before in ("", "\n") else 0
        flags |= syntax.END_LINE if after in ("", "\n") else 0
        boundary = _in_word(before) != _in_word(after)
        return flags | (syntax.BOUNDARY if boundary else syntax.NO_BOUNDARY)

    def find(self, text: str, start: int = 0) -> tuple[int, int] | None:
        """The leftmost match from a position on, the preferred one of those that begin there."""
        threads: list[tuple[int, int]] = []
        best: tuple[int, int] | None = None
        for at in range(start, len(text) + 1):
            if best is None:
                threads.append((self._start, at))
            if not threads:
                break
            reached, ended = self._ranked(threads, self._flags(text, at) if self._asserts else 0)
            if ended is not None:
                best = (ended, at)
            char = text[at : at + 1]
            threads = [(step.next, begun) for step, begun in reached if char and step.test(char)]
        return best

    def _ranked(self, threads: list[tuple[int, int]], flags: int) -> tuple[list[tuple[_Char, int]], int | None]:
        """The expected characters in order of preference up to a match, and where that match begins."""
        seen: set[int] = set()
        reached: list[tuple[_Char, int]] = []
        waiting = threads[::-1]
        while waiting:
            place, begun = waiting.pop()
            if place in seen:
                continue
            seen.add(place)
            if place == _MATCH:
                spend(len(seen))
                return reached, begun
            instruction = self._program[place]
            if isinstance(instruction, _Char):
                reached.append((instruction, begun))
            elif isinstance(instruction, _Split):
                waiting += ((instruction.second, begun), (instruction.first, begun))
            elif instruction.flag & flags:
                waiting.append((instruction.next, begun))
        spend(len(seen))
        return reached, None

    def find_all(self, text: str, most: int) -> list[str]:
        """All matches that do not overlap, at most so many unless that is negative."""
        found: list[str] = []
        at, end = 0, -1
        while at <= len(text) and (most < 0 or len(found) < most):
            match = self.find(text, at)
            if match is None:
                break
            accepted = match[1] != at or match[0] != end
            at = at + 1 if match[1] == at else match[1]
            end = match[1]
            if accepted:
                found.append(text[match[0] : match[1]])
        return found


def _in_word(char: str) -> bool:
    return bool(char) and syntax.word_character(char)


@lru_cache(maxsize=64)
def matcher(pattern: str) -> Matcher:
    """The matcher of a pattern; raises PatternError."""
    return Matcher(pattern)


__all__ = ["Matcher", "PatternError", "matcher"]
