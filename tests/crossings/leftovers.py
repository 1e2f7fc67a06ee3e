"""What an engine still knows of pods when everything has been deleted.

Every object that the engine holds is looked through for the uids of pods; a memory that is bounded by itself, as a log
of changes, may have some.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

_PLAIN = (str, int, float, bytes, bool, type(None), type, np.ndarray, ModuleType)
_CALLS = (FunctionType, BuiltinFunctionType, MethodType)
KEPT = {
    "_log": "a log of changes forgets the oldest",
    "changes": "a log of changes forgets the oldest",
    "samples": "bounded by time",
    "_told": "warnings that were given, bounded by number",
    "ends": "bounded by time",
    "_times": "bounded by time",
    "_owners": "bounded by time",
    "_debts": "bounded by time",
    "_table": "who stands on which row, looked at again when the row is used",
    "_seen": "what the last search for room was made for",
    "_change": "the last change that queues were woken for",
    "_recent": "what was disturbed lately, bounded by time",
    "_spared": "whom the last search for room spared while they were on their way",
    "efforts": "what the searches of an unfinished round have found out",
    "_efforts": "what the last searches for room have found out",
    "_kinds": "kinds of pods, bounded by number",
    "_matched": "the plan as it was computed last",
    "_in": "the plan as it was computed last",
}
"""Attributes that may name pods which are gone -> what bounds them."""
_MOST = 200_000


def leftovers(engine: Any, uids: Collection[str]) -> list[str]:
    """Where the engine holds the uid of a pod; paths, each once."""
    found: dict[str, None] = {}
    seen: set[int] = set()
    todo: deque[tuple[str, Any]] = deque([("engine", engine)])
    while todo and len(seen) < _MOST:
        path, value = todo.popleft()
        for name, each in _parts(value):
            if isinstance(each, str):
                if each in uids:
                    found[f"{path}{name}"] = None
            elif not isinstance(each, (*_PLAIN, *_CALLS)) and id(each) not in seen:
                seen.add(id(each))
                todo.append((f"{path}{name}", each))
    return list(found)


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, each in list(value.items()):
            yield "{}", key
            yield "[]", each
    elif isinstance(value, (list, tuple, set, frozenset, deque)):
        for each in list(value):
            yield "[]", each
    else:
        names = [*getattr(value, "__dict__", ())]
        for kind in type(value).__mro__:
            slots = kind.__dict__.get("__slots__", ())
            names += [slots] if isinstance(slots, str) else [*slots]
        for name in names:
            if name not in KEPT:
                yield f".{name}", getattr(value, name, None)
