"""What is wrong with an object, in one line: kind, name, field, value, remedy.

ValueError
  FieldError     a value cannot be used; knows its path inside the part that was being read
  WireError      the same, complete with kind and name of the object: the only one of the two that leaves this package
  QuestionError  what a caller of the extender or of the webhook asks cannot be understood
"""

from __future__ import annotations

import contextlib
import re
from typing import Any, Final

import msgspec

from moorage.core.objects import object_key

_AT = re.compile(r" - at `(?:key in )?\$?(?P<path>[^`]*)`\Z")
_STEP = re.compile(r"\.?([^.\[\]]+)|\[([0-9]+|\.\.\.)\]")
_LONGEST_VALUE = 80
_MISSING_FIELD = re.compile(r"Object missing required field `([^`]*)`")
_RETYPE = "write what the Kubernetes API documents for this field"

MISSING: Final = object()
"""Stands for the value of a field that should be there and is not."""

REFUSALS = (msgspec.MsgspecError, RecursionError, UnicodeDecodeError)
"""What msgspec raises about data that it cannot decode."""
_LONGEST_LOOK = 4096
"""Longer values are not decoded only to be shown."""
_NULL: Final = msgspec.Raw(b"null")
_raw = msgspec.json.Decoder(msgspec.Raw).decode
_raw_items = msgspec.json.Decoder(list[msgspec.Raw]).decode
_raw_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class QuestionError(ValueError):
    """A question that cannot be understood; the text is one line and says what is wrong."""


class FieldError(ValueError):
    """A value that cannot be used. `path` is relative to the part that was read; see `within`."""

    def __init__(self, path: str, value: object, problem: str, remedy: str) -> None:
        shown = "" if value is MISSING else f": {_show(value)}"
        super().__init__(f"{path or 'the object'}{shown} {problem}; {remedy}")
        self.path = path
        self.value = value
        self.problem = problem
        self.remedy = remedy

    def within(self, prefix: str) -> FieldError:
        """The same error seen from further out."""
        return FieldError(join_path(prefix, self.path), self.value, self.problem, self.remedy)


class WireError(ValueError):
    """An object that cannot be read."""

    def __init__(self, kind: str, key: str, problem: str) -> None:
        super().__init__(f"{kind} {key or '(no name)'}: {problem}")
        self.kind = kind
        self.key = key
        """`namespace/name`, `name`, or empty where it is not known."""
        self.problem = problem


def join_path(prefix: str, path: str) -> str:
    """A path inside a path; either may be empty."""
    if not prefix or not path:
        return prefix or path
    return prefix + path if path.startswith("[") else f"{prefix}.{path}"


def decode_part(decoder: msgspec.json.Decoder[Any], data: bytes, prefix: str) -> Any:
    """Decode a part of an object; what msgspec says about a misfit becomes a `FieldError`."""
    try:
        return decoder.decode(data)
    except REFUSALS as error:
        raise _translated(data, error).within(prefix) from None


def explain(kind: str, data: bytes, error: Exception) -> WireError:
    """The complete error for an object that could not be read."""
    if not isinstance(error, FieldError):
        error = _translated(data, error)
    return WireError(kind, _object_key(data), str(error))


def builtin_json(kind: str, obj: object) -> bytes:
    """An object of plain types as JSON."""
    try:
        return msgspec.json.encode(obj)
    except (TypeError, ValueError, *REFUSALS) as error:
        raise WireError(kind, "", f"cannot be written as JSON ({error}); use plain values only") from None


def _translated(data: bytes, error: Exception) -> FieldError:
    """What msgspec says, with the value that it does not show."""
    text = str(error)
    match = _AT.search(text)
    steps = [step[0] or step[1] for step in _STEP.findall(match["path"])] if match else []
    problem = _AT.sub("", text).replace(" | null", "").replace("`", "")
    path, value = "", None
    if isinstance(error, msgspec.ValidationError):
        with contextlib.suppress(*REFUSALS):
            value = _raw(data)
    if value is None:
        shown = bytes(memoryview(data)[:_LONGEST_VALUE]).decode("utf-8", "replace")
        return FieldError("", shown, f"cannot be read ({problem})", "write valid JSON")
    for step in steps:
        name, value = _descend(value, step, problem)
        path = join_path(path, name)
    if missing := _MISSING_FIELD.match(text):
        return FieldError(join_path(path, missing[1]), MISSING, "is missing", "add it")
    return FieldError(path, _loosely(value), f"does not fit ({problem.lower()})", _RETYPE)


def _descend(value: msgspec.Raw, step: str, problem: str) -> tuple[str, msgspec.Raw]:
    """One step of msgspec's path; `...` is a dictionary's value, of which msgspec does not say which.

    Only the parts on the path are read: an object may have a million parts, and all but one do not matter here.
    """
    try:
        if bytes(memoryview(value)[:1]) == b"[" and step.isdigit():
            items = _raw_items(value)
            return (f"[{step}]", items[int(step)]) if int(step) < len(items) else (step, value)
        fields = _raw_fields(value)
    except REFUSALS:
        return step, value
    for name, item in fields.items() if step == "..." else ():
        if bytes(memoryview(item)[:1]) != b'"' or "Expected str" not in problem:
            return name, item
    return step, fields.get(step, _NULL)


def _loosely(raw: msgspec.Raw) -> Any:
    """A value for people to look at; of a long one, how it begins."""
    view = memoryview(raw)
    if len(view) > _LONGEST_LOOK:
        return bytes(view[:_LONGEST_VALUE]).decode("utf-8", "replace")
    try:
        return msgspec.json.decode(raw)
    except REFUSALS:
        return bytes(view).decode("utf-8", "replace")


def _object_key(data: bytes) -> str:
    try:
        metadata = _raw_fields(_raw_fields(data).get("metadata", _NULL))
        name = msgspec.json.decode(metadata["name"], type=str)
    except (KeyError, *REFUSALS):
        return ""
    try:
        namespace = msgspec.json.decode(metadata.get("namespace", _NULL), type=str)
    except REFUSALS:
        namespace = ""
    return object_key(namespace, name)


def _show(value: object) -> str:
    shown = repr(value) if isinstance(value, str) else msgspec.json.encode(value).decode()
    return shown if len(shown) <= _LONGEST_VALUE else shown[: _LONGEST_VALUE - 3] + "..."
