"""Searching with regular expressions."""

from __future__ import annotations

from moorage.cel import costs
from moorage.cel.functions import Function, Library, method
from moorage.cel.patterns import PatternError, matcher
from moorage.cel.values import CelError, Value


def _find(text: str, pattern: str) -> Value:
    try:
        found = matcher(pattern).find(text)
    except PatternError as error:
        return CelError(f"Illegal regex: error parsing regexp: {error}")
    return text[found[0] : found[1]] if found else ""


def _find_all(text: str, pattern: str, most: int = -1) -> Value:
    try:
        return matcher(pattern).find_all(text, most)
    except PatternError as error:
        return CelError(f"Illegal regex: error parsing regexp: {error}")


LIBRARY = Library(
    (
        Function("find", (method("string_find_string", "string, string -> string", _find),), cost=costs.pattern),
        Function(
            "findAll",
            (
                method("string_find_all_string", "string, string -> list(string)", _find_all),
                method("string_find_all_string_int", "string, string, int -> list(string)", _find_all),
            ),
            cost=costs.pattern,
        ),
    )
)
