"""What an expression reads of a variable: values that are equal there give equal answers."""

from __future__ import annotations

from typing import TypeAlias

from moorage.cel.parsing import children
from moorage.cel.syntax import Call, Ident, Literal, Node, Select

Path: TypeAlias = tuple[str, ...]
"""Constant keys, one below the other."""
_INDEXES = frozenset({"_[_]", "_[?_]", "_?._"})


def paths_of(tree: Node, variable: str) -> frozenset[Path]:
    """The paths below a variable that an expression reads; the empty one if it reads the variable as a whole."""
    found: set[Path] = set()
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        path = _path(node, variable)
        if path is None:
            waiting.extend(children(node))
        else:
            found.add(path)
    return frozenset(found)


def _path(node: Node, variable: str) -> Path | None:
    """The path that a node is; None if it is none, or if a key is computed."""
    keys: list[str] = []
    while not isinstance(node, Ident):
        if isinstance(node, Select):
            keys.append(node.field)
            node = node.operand
        elif isinstance(node, Call) and node.function in _INDEXES:
            node, key = node.args
            if not isinstance(key, Literal) or not isinstance(key.value, str):
                return None
            keys.append(key.value)
        else:
            return None
    return tuple(reversed(keys)) if node.name == variable else None
