"""`moorage.core.values.dataclass` makes what `dataclasses.dataclass` makes, only later."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import weakref
from collections.abc import Callable
from dataclasses import FrozenInstanceError, field
from typing import Any

import pytest

from moorage.core import values

Decorator = Callable[..., Callable[[type], Any]]


def both(define: Callable[[Decorator], Any]) -> tuple[Any, Any]:
    """The class as Moorage makes it, and as the standard library does."""
    return define(values.dataclass), define(dataclasses.dataclass)


def a_point(make: Decorator) -> Any:
    @make(frozen=True, slots=True)
    class Point:
        """A point."""

        x: int
        y: int = 2
        tags: list[str] = field(default_factory=list, compare=False)
        kept: int = field(default=7, init=False, repr=False)

    return Point


def a_counter(make: Decorator) -> Any:
    @make(slots=True)
    class Counter:
        """A value that changes."""

        name: str
        seen: dict[str, int] = field(default_factory=dict)
        total: int = field(init=False, hash=False)

        def __post_init__(self) -> None:
            self.total = len(self.name)

    return Counter


def a_named(make: Decorator) -> Any:
    @make(frozen=True, slots=True, kw_only=True)
    class Named:
        """Fields by name only."""

        b: int = 0
        a: str

    return Named


def an_empty(make: Decorator) -> Any:
    @make(frozen=True, slots=True)
    class Empty:
        """No fields."""

    return Empty


def an_identity(make: Decorator) -> Any:
    @make(slots=True, eq=False, weakref_slot=True)
    class Identity:
        """Equal to itself only."""

        x: int = 1

    return Identity


def its_own(make: Decorator) -> Any:
    @make(frozen=True, slots=True)
    class Own:
        """Methods of its own stay."""

        x: int

        def __eq__(self, other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return 5

        def __repr__(self) -> str:
            return "own"

    return Own


def an_equal(make: Decorator) -> Any:
    @make(frozen=True, slots=True)
    class Equal:  # noqa: PLW1641 - what this is about
        """`__eq__` of its own, and no `__hash__`."""

        x: int

        def __eq__(self, other: object) -> bool:
            return True

    return Equal


def a_sum(make: Decorator) -> Any:
    @make(frozen=True, slots=True, order=True)
    class Ordered:
        """Left to the standard library."""

        x: int = 3

    return Ordered


def outcome(act: Callable[[], Any]) -> str:
    """What comes of it, in words that are the same for equal behaviour."""
    try:
        return repr(act())
    except (TypeError, AttributeError) as error:
        return f"{type(error).__name__}: {error}"


QUESTIONS: dict[str, tuple[Callable[[Decorator], Any], Callable[[Any], Any]]] = {
    "all defaults": (a_point, lambda cls: cls(1)),
    "by position": (a_point, lambda cls: cls(1, 3, ["a"])),
    "by name": (a_point, lambda cls: cls(tags=["a"], y=4, x=3)),
    "a field that is not an argument": (a_point, lambda cls: cls(1).kept),
    "an argument that is not one": (a_point, lambda cls: cls(1, kept=3)),
    "one missing": (a_point, lambda cls: cls()),
    "one too many": (a_point, lambda cls: cls(1, 2, [], 4)),
    "each its own list": (a_point, lambda cls: cls(1).tags is cls(1).tags),
    "equal": (a_point, lambda cls: (cls(1) == cls(1), cls(1) == cls(2), cls(1) != cls(1, tags=["a"]))),
    "equal to something else": (a_point, lambda cls: (cls(1) == (1, 2), cls(1).__eq__(3))),
    "hash": (a_point, lambda cls: hash(cls(1, 2))),
    "in a set": (a_point, lambda cls: len({cls(1), cls(1), cls(2)})),
    "assigned": (a_point, lambda cls: setattr(cls(1), "x", 3)),
    "deleted": (a_point, lambda cls: delattr(cls(1), "x")),
    "replaced": (a_point, lambda cls: dataclasses.replace(cls(1, 5), x=3)),
    "as a dictionary": (a_point, lambda cls: dataclasses.asdict(cls(1, 5))),
    "fields": (a_point, lambda cls: [(each.name, each.type, each.init) for each in dataclasses.fields(cls)]),
    "match": (a_point, lambda cls: cls.__match_args__),
    "slots": (a_point, lambda cls: (cls.__slots__, hasattr(cls(1), "__dict__"))),
    "frozen": (a_point, lambda cls: cls.__dataclass_params__.frozen),
    "copy": (a_point, lambda cls: (copy.copy(cls(1)), copy.deepcopy(cls(1, 2, ["a"])))),
    "post-init": (a_counter, lambda cls: cls("web")),
    "not hashable": (a_counter, lambda cls: hash(cls("web"))),
    "changed": (a_counter, lambda cls: setattr(cls("web"), "total", 4)),
    "compared after a change": (a_counter, lambda cls: cls("web", {"a": 1}) == cls("web")),
    "names only": (a_named, lambda cls: (cls(a="x"), cls(b=1, a="y"))),
    "names only, by position": (a_named, lambda cls: cls(1)),
    "no fields": (an_empty, lambda cls: (cls(), cls() == cls(), hash(cls()))),
    "identity": (an_identity, lambda cls: (cls() == cls(), len({cls(), cls()}), weakref.ref(cls()) is None)),
    "own methods": (its_own, lambda cls: (cls(1), cls(1) == 7, hash(cls(1)))),
    "own equality": (an_equal, lambda cls: (cls(1) == 7, hash(cls(1)))),
    "ordered": (a_sum, lambda cls: (cls(1) < cls(2), sorted([cls(2), cls()]))),
}


@pytest.mark.parametrize(("define", "ask"), QUESTIONS.values(), ids=QUESTIONS.keys())
def test_it_behaves_as_the_standard_one(define: Callable[[Decorator], Any], ask: Callable[[Any], Any]) -> None:
    """Every question has the same answer; asked twice, as the first call is the one that makes the method."""
    ours, theirs = both(define)
    want = outcome(lambda: ask(theirs))
    assert [outcome(lambda: ask(ours)), outcome(lambda: ask(ours))] == [want, want]


def test_methods_are_made_when_they_are_first_called() -> None:
    """Nothing is compiled at import; the first call leaves the real method in place of its stand-in."""
    cls = a_point(values.dataclass)
    before = cls.__init__
    cls(1)
    assert cls.__init__ is not before
    assert list(inspect.signature(cls).parameters) == ["x", "y", "tags"]


def test_a_value_that_contains_itself_can_be_shown() -> None:
    """`repr` ends."""
    one = a_counter(values.dataclass)("loop")
    one.seen["me"] = one
    assert "..." in repr(one)


def test_a_frozen_dataclass_of_a_stranger_may_derive_from_one() -> None:
    """The standard decorator accepts it as a frozen base."""

    @dataclasses.dataclass(frozen=True, slots=True)
    class Derived(a_point(values.dataclass)):  # type: ignore[misc]
        """One more field."""

        z: int = 9

    one = Derived(1, z=4)
    assert (one.x, one.y, one.z, one == Derived(1, z=4)) == (1, 2, 4, True)
    with pytest.raises(FrozenInstanceError):
        one.x = 3


@values.dataclass(frozen=True, slots=True)
class Sent:
    """Of a module, so that it can be found again."""

    x: int
    y: tuple[int, ...] = ()


def test_values_travel_between_processes() -> None:
    """A frozen value is restored without assignments."""
    assert pickle.loads(pickle.dumps(Sent(1, (2, 3)))) == Sent(1, (2, 3))  # noqa: S301 - our own bytes


def test_a_copy_computes_nothing_again() -> None:
    """It has the fields that were given, all others of the original, and is a value like any other."""

    @values.dataclass(frozen=True, slots=True)
    class Counted:
        name: str
        number: int = 0
        made: list[str] = field(default_factory=list, compare=False)

        def __post_init__(self) -> None:
            self.made.append(self.name)

    first = Counted("a", 1)
    second = values.copier(Counted, "name")(first, "b")
    assert second == Counted("b", 1)
    assert second.made is first.made
    assert first == Counted("a", 1)
    with pytest.raises(FrozenInstanceError):
        second.name = "c"
