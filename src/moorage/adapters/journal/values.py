"""Core values as bytes, and back: what events carry, written so that reading gives equal values of the same types.

Texts, numbers, tuples and `FrozenDict` are what they are in msgpack; everything else is an extension that names its
class. Only the values of `moorage.core` can be named (frozen dataclasses, named tuples, enums), and each field must be
of the declared type. Fields that have their default value are left out.

Values of annotations whose key mentions a secret are replaced by a digest under a key that exists only in this process:
equal values stay equal, and the originals cannot be recovered.
"""

from __future__ import annotations

import dataclasses
import hashlib
import re
import secrets
from collections.abc import Callable, Mapping
from enum import Enum
from functools import cache, lru_cache
from importlib import import_module
from operator import attrgetter
from pkgutil import iter_modules
from typing import Any, TypeVar

import msgspec

from moorage import core
from moorage.adapters.journal.shapes import check_of, hints_of
from moorage.core.frozen import FrozenDict

Result = TypeVar("Result")

_CORE = "moorage.core."
_DATACLASS, _ENUM, _SET, _NAMED, _LIST, _DICT, _LARGE = range(1, 8)
_PLAIN = frozenset({str, float, bool, bytes, type(None)})
_TEXTS = {str}
_SECRET = re.compile(r"secret|token|passw|pwd|credential|private|(api|access)[-_.]?key|\bauth\b", re.IGNORECASE)
_LARGEST = 1 << 63
_DEEPEST = 32
"""No core value is nested like that."""
_MOST_DIGITS = 64
_MOST_SAID = 200


class ReadError(Exception):
    """The folder holds no journal, or one that cannot be read; the text is one line."""


class Unreadable(ReadError):  # noqa: N818 - says what the bytes are
    """Bytes that no version of ours has written, or a newer one has."""


class Packer:
    """Turns values into what msgpack can say."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(16)
        self._encode = msgspec.msgpack.Encoder().encode

    def dumps(self, value: object) -> bytes:
        """A value as bytes."""
        return self._encode(self.pack(value))

    def pack(self, value: Any) -> Any:
        """A value as something that msgspec encodes as it should."""
        kind = type(value)
        if kind in _PLAIN:
            return value
        if kind is int:
            return value if -_LARGEST <= value < _LARGEST else self._ext(_LARGE, str(value))
        if kind is tuple:
            return [each if type(each) in _PLAIN else self.pack(each) for each in value]
        if kind is FrozenDict and _has_text_keys(value):
            return {key: each if type(each) in _PLAIN else self.pack(each) for key, each in value.items()}
        return self._special(value, kind)

    def _special(self, value: Any, kind: type) -> msgspec.msgpack.Ext:
        if dataclasses.is_dataclass(kind):
            return self._ext(_DATACLASS, [_name_of(kind), self._fields(value, kind)])
        if isinstance(value, Enum):
            return self._ext(_ENUM, [_name_of(kind), value.value])
        if kind is frozenset:
            return self._ext(_SET, [self.pack(each) for each in sorted(value)])
        if isinstance(value, tuple):
            return self._ext(_NAMED, [_name_of(kind), [self.pack(each) for each in value]])
        if kind is list:
            return self._ext(_LIST, [self.pack(each) for each in value])
        if isinstance(value, Mapping):
            return self._ext(_DICT, [[self.pack(key), self.pack(each)] for key, each in value.items()])
        raise TypeError(f"a value of type {kind.__name__} cannot be written to a journal")

    def _fields(self, value: Any, kind: type) -> dict[str, Any]:
        names, defaults, get = _shape_of(kind)
        found = {}
        for name, field, default in zip(names, get(value), defaults, strict=True):
            if field is default or (field == default and type(field) is type(default)):
                continue
            found[name] = field if type(field) in _PLAIN else self.pack(field)
        if "annotations" in found:
            found["annotations"] = self._masked(found["annotations"])
        return found

    def _masked(self, annotations: dict[str, str]) -> dict[str, str]:
        if not any(map(_is_secret, annotations)):
            return annotations
        return {key: self._mask(text) if _is_secret(key) else text for key, text in annotations.items()}

    def _mask(self, text: str) -> str:
        return f"masked:{hashlib.blake2b(text.encode(), digest_size=12, key=self._key).hexdigest()}"

    def _ext(self, code: int, content: object) -> msgspec.msgpack.Ext:
        return msgspec.msgpack.Ext(code, self._encode(content))


def loads(data: bytes) -> Any:
    """The value that `Packer.dumps` wrote."""
    return reading(lambda: unpacked(decode(data)))


def reading(read: Callable[[], Result]) -> Result:
    """What a function reads; `Unreadable`, in one line, whatever it is that strangers' bytes make it raise."""
    try:
        return read()
    except Unreadable:
        raise
    except Exception as error:  # noqa: BLE001 - arbitrary bytes
        text = " ".join(str(error).split())[:_MOST_SAID]
        raise Unreadable(f"a value cannot be read: {type(error).__name__}: {text}") from None


def unpacked(value: Any, depth: int = 0) -> Any:
    """What was decoded, as it was before it was packed."""
    kind = type(value)
    if kind in _PLAIN or kind is int:
        return value
    if depth > _DEEPEST:
        raise Unreadable(f"a value is nested more than {_DEEPEST} levels deep")
    if kind is list:
        return tuple([unpacked(each, depth + 1) for each in value])
    if kind is dict:
        return FrozenDict({_text(key): unpacked(each, depth + 1) for key, each in value.items()})
    if kind is msgspec.msgpack.Ext:
        return _restored(value.code, decode(value.data), depth + 1)
    raise Unreadable(f"a value is of a type that no journal has: {kind.__name__}")


def _restored(code: int, content: Any, depth: int) -> Any:
    if code in (_DATACLASS, _NAMED, _ENUM):
        name, told = content
        kind = _known().get(name)
        if kind is None:
            raise Unreadable(
                f"a value has the unknown type {name!r:.80}; read the journal with the version that wrote it"
            )
        if code == _ENUM:
            return kind(told)
        if code == _NAMED:
            return made(kind, dict(zip(hints_of(kind), [unpacked(each, depth) for each in told], strict=False)))
        return made(kind, {name: unpacked(each, depth) for name, each in told.items()})
    if code == _SET:
        return frozenset([unpacked(each, depth) for each in content])
    if code == _LIST:
        return [unpacked(each, depth) for each in content]
    if code == _DICT:
        return FrozenDict({unpacked(key, depth): unpacked(each, depth) for key, each in content})
    if code == _LARGE and isinstance(content, str) and len(content) <= _MOST_DIGITS:
        return int(content)
    raise Unreadable(f"a value has the unknown type {code}; read the journal with the version that wrote it")


def made(kind: type[Result], told: Mapping[str, Any]) -> Result:
    """A core value of these fields, each of the declared type; the others have their defaults."""
    hints = hints_of(kind)
    for name, value in told.items():
        if name not in hints or name.startswith("_"):
            raise Unreadable(f"a {kind.__name__} has no field {name!r:.80}")
        if not check_of(hints[name])(value):
            raise Unreadable(f"the field {name} of a {kind.__name__} holds a {type(value).__name__}, or has one in it")
    return kind(**told)


def _text(key: Any) -> str:
    if type(key) is not str:
        raise Unreadable(f"a key is no text but a {type(key).__name__}")
    return key


decode: Callable[[bytes], Any] = msgspec.msgpack.Decoder().decode
"""Plain values; what is more than that stays packed, for `unpacked`."""


@cache
def _known() -> Mapping[str, Any]:
    """The values of the core by name: frozen dataclasses, named tuples and enums, and nothing else."""
    found = {}
    for module in iter_modules(core.__path__, _CORE):
        for each in vars(import_module(module.name)).values():
            if isinstance(each, type) and each.__module__ == module.name and _is_value(each):
                found[_name_of(each)] = each
    return found


def _is_value(kind: type) -> bool:
    if dataclasses.is_dataclass(kind):
        return bool(kind.__dataclass_params__.frozen)  # type: ignore[attr-defined]
    return issubclass(kind, Enum) or (issubclass(kind, tuple) and hasattr(kind, "_fields"))


@cache
def _name_of(kind: type) -> str:
    if not kind.__module__.startswith(_CORE) or not _is_value(kind):
        raise TypeError(f"a value of type {kind.__module__}.{kind.__name__} cannot be written to a journal")
    return f"{kind.__module__.removeprefix(_CORE)}:{kind.__name__}"


@lru_cache(maxsize=4096)
def _is_secret(key: str) -> bool:
    return _SECRET.search(key) is not None


def _has_text_keys(value: Mapping[Any, Any]) -> bool:
    return set(map(type, value)) <= _TEXTS


@cache
def _shape_of(kind: type) -> tuple[tuple[str, ...], tuple[Any, ...], Callable[[Any], tuple[Any, ...]]]:
    """Fields that are compared, their defaults, and how to get them all; the others follow from those."""
    fields = [each for each in dataclasses.fields(kind) if each.init and each.compare and not each.name.startswith("_")]
    names = tuple(field.name for field in fields)
    defaults = tuple(
        field.default if field.default_factory is dataclasses.MISSING else field.default_factory() for field in fields
    )
    if len(names) > 1:
        return names, defaults, attrgetter(*names)
    return names, defaults, lambda value: tuple(getattr(value, name) for name in names)
