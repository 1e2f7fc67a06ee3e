"""Checks of literals that are known to be wrong before anything is evaluated."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from moorage.cel.errors import Problems
from moorage.cel.formatting import format_problem
from moorage.cel.parsing import children
from moorage.cel.patternsyntax import PatternError, PatternReader
from moorage.cel.syntax import Call, ListNode, Literal, MapNode, Node
from moorage.cel.times import parse_duration, parse_timestamp
from moorage.cel.types import Type, unwrapped


def validate(tree: Node, problems: Problems, final: Callable[[Type | None], Type]) -> None:
    """Report durations, timestamps and patterns that are none, and lists and maps of mixed types.

    `final` is the type of a node after everything is known. What `format` is given may be mixed.
    """
    waiting, seen = [(tree, False)], {id(tree)}
    while waiting:
        node, exempt = waiting.pop()
        if isinstance(node, Call):
            _check(node, problems)
            if node.function == "format":
                exempt = True
                _check_format(node, problems, final)
        elif isinstance(node, ListNode) and not exempt:
            _same(((each, index in node.optional) for index, each in enumerate(node.elements)), problems, final)
        elif isinstance(node, MapNode) and not exempt:
            _same(((each.key, False) for each in node.entries), problems, final, every=True)
            _same(((each.value, each.optional) for each in node.entries), problems, final, every=True)
        for child in children(node):
            if id(child) not in seen:
                seen.add(id(child))
                waiting.append((child, exempt))


def _same(
    nodes: Iterable[tuple[Node, bool]],
    problems: Problems,
    final: Callable[[Type | None], Type],
    every: bool = False,
) -> None:
    """All nodes must have the type of the first; of lists only the first that has not is reported."""
    first: Type | None = None
    for node, optional in nodes:
        found = final(node.type)
        found = unwrapped(found)[0] if optional else found
        if first is None:
            first = found
        elif found != first:
            problems.add(node.at, f"expected type '{first.shown()}' but found '{found.shown()}'")
            if not every:
                return


def _check(node: Call, problems: Problems) -> None:
    literal = node.args[0] if node.args else None
    if not isinstance(literal, Literal) or not isinstance(literal.value, str):
        return
    if node.function == "duration":
        wrong = parse_duration(literal.value) is None
    elif node.function == "timestamp":
        wrong = parse_timestamp(literal.value) is None
    elif node.function == "matches":
        wrong = not _is_pattern(literal.value)
    else:
        return
    if wrong:
        problems.add(literal.at, f"invalid {node.function} argument")


def _check_format(node: Call, problems: Problems, final: Callable[[Type | None], Type]) -> None:
    """A literal format with a list of arguments, whose types are known."""
    args = node.args[0] if node.args else None
    if isinstance(node.target, Literal) and isinstance(node.target.value, str) and isinstance(args, ListNode):
        found = format_problem(node.target.value, [final(each.type) for each in args.elements])
        if found is not None:
            index, message = found
            problems.add(node.at if index < 0 else args.elements[index].at, message)


def _is_pattern(text: str) -> bool:
    try:
        PatternReader(text).read()
    except PatternError:
        return False
    return True
