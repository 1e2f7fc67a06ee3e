"""What an expression reads of a variable: values that are equal there give equal answers."""

from __future__ import annotations

from typing import TypeAlias

from moorage.cel.parsing import children
from moorage.cel.syntax import Call, Ident, Literal, Node, Select

Path: TypeAlias = tuple[str, ...]
"""Constant keys, one below the other."""
_INDEXES = frozenset({"_[_]", "_[?_]", "_?._"})
_LONGEST = 64
"""Of a chain of keys; what has a longer one is not looked into."""


def paths_of(tree: Node, variable: str) -> frozenset[Path]:
    """The paths below a variable that an expression reads; the empty one if it reads the variable as a whole."""
    found: set[Path] = set()
    waiting, seen = [tree], set[int]()  # macros use one node in several places
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        base, keys, computed = _chain(node)
        waiting += computed
        if not isinstance(base, Ident):
            waiting += children(base)
        elif base.name == variable:
            found.add(keys)
    return frozenset(found)


def _chain(node: Node) -> tuple[Node, Path, list[Node]]:
    """What keys are selected from, these keys up to the first that is computed, and the computed ones."""
    keys: list[str] = []
    computed: list[Node] = []
    for _ in range(_LONGEST):
        if isinstance(node, Select):
            keys.append(node.field)
            node = node.operand
        elif isinstance(node, Call) and node.function in _INDEXES:
            node, key = node.args
            if isinstance(key, Literal) and isinstance(key.value, str):
                keys.append(key.value)
            else:
                keys.clear()
                computed.append(key)
        else:
            break
    return node, tuple(reversed(keys)), computed
