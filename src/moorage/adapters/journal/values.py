"""Core values as bytes, and back: what events carry, written so that reading gives equal values of the same types.

Texts, numbers, tuples and `FrozenDict` are what they are in msgpack; everything else is an extension that names its
class. Only classes of `moorage.core` can be named, so reading never runs anything but their constructors. Fields that
have their default value are left out.

Values of annotations whose key speaks of a secret are replaced by a digest under a key that is thrown away with the
process: equal ones stay equal, and nobody can tell what they were.
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
from typing import Any

import msgspec

from moorage.core.frozen import FrozenDict

_CORE = "moorage.core."
_DATACLASS, _ENUM, _SET, _NAMED, _LIST, _DICT, _LARGE = range(1, 8)
_PLAIN = frozenset({str, float, bool, bytes, type(None)})
_TEXTS = {str}
_SECRET = re.compile(r"secret|token|passw|pwd|credential|private|(api|access)[-_.]?key|\bauth\b", re.IGNORECASE)
_LARGEST = 1 << 63


class Unreadable(ValueError):  # noqa: N818 - says what the bytes are
    """Bytes that no version of ours has written, or a newer one has; the text is one line."""


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
    try:
        return unpacked(decode(data))
    except Unreadable:
        raise
    except (msgspec.MsgspecError, TypeError, ValueError, KeyError, AttributeError, RecursionError) as error:
        raise Unreadable(f"a value cannot be read: {error}") from None


def unpacked(value: Any) -> Any:
    """What was decoded, with tuples and `FrozenDict` in place of lists and dictionaries."""
    kind = type(value)
    if kind is list:
        return tuple(map(unpacked, value))
    if kind is dict:
        return FrozenDict({key: unpacked(each) for key, each in value.items()})
    return value


def _restored(code: int, data: memoryview) -> Any:
    content = decode(bytes(data))
    if code in (_DATACLASS, _NAMED, _ENUM):
        name, told = content
        cls = _class_of(name)
        if code == _ENUM:
            return cls(told)
        if code == _NAMED:
            return cls(*unpacked(told))
        return cls(**{key: unpacked(each) for key, each in told.items()})
    if code == _SET:
        return frozenset(unpacked(content))
    if code == _LIST:
        return [unpacked(each) for each in content]
    if code == _DICT:
        return {unpacked(key): unpacked(each) for key, each in content}
    if code == _LARGE:
        return int(content)
    raise Unreadable(f"a value has the unknown type {code}; read the journal with the version that wrote it")


decode: Callable[[bytes], Any] = msgspec.msgpack.Decoder(ext_hook=_restored).decode


@cache
def _name_of(kind: type) -> str:
    if not kind.__module__.startswith(_CORE):
        raise TypeError(f"a value of type {kind.__module__}.{kind.__name__} cannot be written to a journal")
    return f"{kind.__module__.removeprefix(_CORE)}:{kind.__name__}"


@cache
def _class_of(name: str) -> Any:
    module, _, cls = name.partition(":")
    try:
        found = getattr(import_module(_CORE + module), cls)
    except (ImportError, AttributeError):
        found = None
    if not (isinstance(found, type) and found.__module__ == _CORE + module):
        raise Unreadable(f"a value has the unknown type {name}; read the journal with the version that wrote it")
    return found


@lru_cache(maxsize=4096)
def _is_secret(key: str) -> bool:
    return _SECRET.search(key) is not None


def _has_text_keys(value: Mapping[Any, Any]) -> bool:
    return set(map(type, value)) <= _TEXTS


@cache
def _shape_of(kind: type) -> tuple[tuple[str, ...], tuple[Any, ...], Callable[[Any], tuple[Any, ...]]]:
    """Fields that the constructor takes, their defaults, and how to get them all; private ones are computed."""
    fields = [field for field in dataclasses.fields(kind) if field.init and not field.name.startswith("_")]
    names = tuple(field.name for field in fields)
    defaults = tuple(
        field.default if field.default_factory is dataclasses.MISSING else field.default_factory() for field in fields
    )
    if len(names) > 1:
        return names, defaults, attrgetter(*names)
    return names, defaults, lambda value: tuple(getattr(value, name) for name in names)
