"""Dataclasses whose methods are made when they are first called.

The standard decorator writes and compiles the methods of every class at import, which costs half a millisecond each; a
command that runs for a moment uses few of several hundred classes. Here a class gets stand-ins, and the first call
replaces a stand-in by the real method. Fields, `replace`, matching and hashes are those of `dataclasses`, and the
constructor of a frozen value writes its slots directly, which is faster than `object.__setattr__`.

Use `dataclass(slots=True)`, with `frozen`, `eq`, `kw_only` or `weakref_slot`. Anything else, and a class that derives
from another dataclass, is left to the standard decorator.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

__all__ = ["copier", "dataclass"]

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(**options: bool) -> Callable[[type], type]:
        """Make dataclasses with these options."""

        def decorate(cls: type) -> type:
            known = options.get("slots") and options.keys() <= _OPTIONS
            if not known or any(map(dataclasses.is_dataclass, cls.__mro__[1:])):
                return dataclasses.dataclass(**options)(cls)
            return _with_stand_ins(cls, **options)

        return decorate


_OPTIONS = {"slots", "frozen", "eq", "kw_only", "weakref_slot"}
_ABSENT = object()
_LITERALS: dict[Any, str] = {list: "[]", dict: "{}"}
"""What makes the same as a default factory, sooner."""


def _with_stand_ins(cls: type, *, frozen: bool = False, eq: bool = True, **options: bool) -> type:
    own = cls.__dict__
    hashable = own.get("__hash__", MISSING) is not MISSING and not (own["__hash__"] is None and "__eq__" in own)
    made: Any = dataclasses.dataclass(init=False, repr=False, eq=False, **options)(cls)
    made.__dataclass_params__.frozen = frozen
    made.__dataclass_params__.eq = eq
    made.__init__ = _stand_in(made, "__init__", _constructor)
    if "__repr__" not in own:
        made.__repr__ = _show
    if eq and "__eq__" not in own:
        made.__eq__ = _stand_in(made, "__eq__", _equality)
    if eq and not hashable:
        made.__hash__ = _stand_in(made, "__hash__", _hash) if frozen else None
    if frozen:
        made.__setattr__ = _refuse_assignment
        made.__delattr__ = _refuse_deletion
        made.__getstate__ = _state
        made.__setstate__ = _restore
    result: type = made
    return result


def copier(cls: Any, *changed: str) -> Callable[..., Any]:
    """Make a function that copies a frozen value with slots, and takes the fields named here from its arguments.

    Nothing is computed again: `__post_init__` is not called. It takes a fraction of the time of `dataclasses.replace`.
    """
    names: dict[str, Any] = {"_new": object.__new__, "_cls": cls}
    body = ["made = _new(_cls)"]
    for field in dataclasses.fields(cls):
        names[f"_set_{field.name}"] = getattr(cls, field.name).__set__
        body.append(f"_set_{field.name}(made, {field.name if field.name in changed else f'value.{field.name}'})")
    return _compiled("copy", ["value", *changed], [*body, "return made"], names)


def _stand_in(cls: Any, name: str, make: Callable[[Any], Callable[..., Any]]) -> Callable[..., Any]:
    def method(*args: Any, **kwargs: Any) -> Any:
        real = make(cls)
        real.__qualname__ = f"{cls.__qualname__}.{name}"
        setattr(cls, name, real)
        return real(*args, **kwargs)

    return method


def _constructor(cls: Any) -> Callable[..., Any]:
    names: dict[str, Any] = {"_ABSENT": _ABSENT}
    positional, by_name, body = ["self"], ["*"], []
    for field in dataclasses.fields(cls):
        (by_name if field.kw_only else positional).append(_parameter(field, names))
        body.append(_assignment(cls, field, names))
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    parameters = [each for each in (*positional, *(by_name if by_name[1:] else ())) if each]
    return _compiled("__init__", parameters, body or ["pass"], names)


def _parameter(field: Field[Any], names: dict[str, Any]) -> str:
    """How the constructor takes the field, empty if it does not; the default is put into the names."""
    if field.default is not MISSING:
        names[f"_default_{field.name}"] = field.default
    elif field.default_factory is not MISSING:
        names[f"_make_{field.name}"] = field.default_factory
        names[f"_default_{field.name}"] = _ABSENT
    if not field.init:
        return ""
    return f"{field.name}=_default_{field.name}" if f"_default_{field.name}" in names else field.name


def _assignment(cls: Any, field: Field[Any], names: dict[str, Any]) -> str:
    name = field.name
    value = name
    if field.default_factory is not MISSING:
        made = _LITERALS.get(field.default_factory, f"_make_{name}()")
        value = f"{made} if {name} is _ABSENT else {name}" if field.init else made
    elif not field.init:
        if field.default is MISSING:
            return "pass"
        value = f"_default_{name}"
    if not cls.__dataclass_params__.frozen:
        return f"self.{name} = {value}"
    names[f"_set_{name}"] = getattr(cls, name).__set__
    return f"_set_{name}(self, {value})"


def _equality(cls: Any) -> Callable[..., Any]:
    names = [field.name for field in dataclasses.fields(cls) if field.compare]
    ours, theirs = ("".join(f"{each}.{name}, " for name in names) for each in ("self", "other"))
    body = [
        "if other.__class__ is self.__class__:",
        f"    return ({ours}) == ({theirs})",
        "return NotImplemented",
    ]
    return _compiled("__eq__", ["self", "other"], body, {})


def _hash(cls: Any) -> Callable[..., Any]:
    fields = [field for field in dataclasses.fields(cls) if (field.compare if field.hash is None else field.hash)]
    return _compiled(
        "__hash__", ["self"], [f"return hash(({''.join(f'self.{field.name}, ' for field in fields)}))"], {}
    )


def _compiled(name: str, parameters: list[str], body: list[str], names: dict[str, Any]) -> Callable[..., Any]:
    lines = "".join(f"    {line}\n" for line in body)
    exec(f"def {name}({', '.join(parameters)}):\n{lines}", names)  # noqa: S102 - field names of our own classes
    made: Callable[..., Any] = names.pop(name)
    return made


@recursive_repr()
def _show(self: Any) -> str:
    shown = ", ".join(f"{field.name}={getattr(self, field.name)!r}" for field in dataclasses.fields(self) if field.repr)
    return f"{type(self).__qualname__}({shown})"


def _refuse_assignment(self: Any, name: str, value: object) -> None:  # noqa: ARG001 - Python's interface
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_deletion(self: Any, name: str) -> None:  # noqa: ARG001
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: Any) -> list[Any]:
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _restore(self: Any, state: list[Any]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)
