"""Selectors of devices taken apart: the conditions that `&&` joins, what one compares, and a weaker one in its place.

For explanations. What is not understood is left as it is: a condition without a `Comparison` can still be dropped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from moorage.cel.errors import Problems
from moorage.cel.tokens import END, IDENTIFIER, STRING, Token, text_of, tokens_of
from moorage.core.devicepools import DeviceCandidate
from moorage.core.devices import Attribute, Version
from moorage.core.quantity import parse_quantity
from moorage.core.values import dataclass

MOST_CONDITIONS = 32
"""A selector of more is one condition."""
_SIDES = {"==": "==", "!=": "!=", ">=": "<=", "<=": ">=", ">": "<", "<": ">"}
"""Operators, and what they become when the sides change places."""
_METHODS = {"isGreaterThan": ">", "isLessThan": "<"}
_WORDS = {"==": "", "!=": "other than ", ">=": "at least ", "<=": "at most ", ">": "more than ", "<": "less than "}
_LITERAL = "literal"
_OPENING, _CLOSING = frozenset("([{"), frozenset(")]}")
_PATH = re.compile(r"device \. (attributes|capacity) \[ S \] (?:\. I|\[ S \])")
_REST = re.compile(
    r" (?P<op>==|!=|>=|<=|>|<) (?P<literal>S|-? ?N|true|false)"
    r"| \. (?P<method>I) \( (?P<maker>I) \( S \) \)(?: (?P<sign>==|!=|>=|<=|>|<) N)?"
    r"| (?P<within>in) \[ S(?: , S)* \]"
)


@dataclass(frozen=True, slots=True)
class Comparison:
    """A condition that compares one attribute or capacity with constants."""

    domain: str
    name: str
    is_capacity: bool
    operator: str
    """`==` and several values: one of them."""
    values: tuple[str, ...]
    """As people write them."""
    path: str
    """How the condition names it."""
    maker: str = ""
    """The function that its constant is made with: quantity or semver; `_LITERAL` for numbers and truth values."""

    @property
    def wanted(self) -> str:
        """What is wanted, in words."""
        word = _WORDS[self.operator]
        return ("" if self.is_capacity and self.operator == ">=" else word) + " or ".join(self.values)

    def value_of(self, candidate: DeviceCandidate) -> str | None:
        """What a device has, as people write it; None if it has none."""
        device, driver = candidate.device, candidate.id.driver
        if not self.is_capacity:
            value, found = device.attribute(driver, f"{self.domain}/{self.name}")
            return written(value) if found else None
        names = (f"{self.domain}/{self.name}", *((self.name,) if self.domain == driver else ()))
        return next((device.capacity[name].value for name in names if name in device.capacity), None)

    def weaker(self, values: Iterable[str]) -> str | None:
        """The condition that these values meet, too; None if that cannot be said by changing its constant."""
        if self.operator == "==" and not self.maker:
            return f"{self.path} in [{', '.join(_quoted(each) for each in dict.fromkeys((*self.values, *values)))}]"
        if self.maker != "quantity" or self.operator not in (">=", ">", "<=", "<"):
            return None
        try:
            order = sorted(values, key=parse_quantity)
        except ValueError:
            return None
        least = self.operator in (">=", ">")
        bound = order[0] if least else order[-1]
        return f"{self.path}.compareTo(quantity({_quoted(bound)})) {'>=' if least else '<='} 0"


def written(value: Attribute) -> str:
    """The value of an attribute as people write it."""
    if isinstance(value, tuple):
        return ", ".join(map(written, value))
    if isinstance(value, bool):
        return str(value).lower()
    return value.text if isinstance(value, Version) else str(value)


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


@lru_cache(maxsize=512)
def conditions(expression: str) -> tuple[str, ...]:
    """The conditions that an expression joins with `&&`; the expression itself if it does nothing of the kind."""
    problems = Problems(expression)
    tokens = tokens_of(expression, problems)
    cuts, depth = [0], 0
    for token in tokens:
        depth += (token.kind in _OPENING) - (token.kind in _CLOSING)
        if not depth and token.kind in ("||", "?") and not _is_optional(expression, token):
            return (expression.strip(),)
        if not depth and token.kind == "&&":
            cuts += [token.at, token.at + 2]
    cuts.append(len(expression))
    if problems.count or depth or len(cuts) > 2 * MOST_CONDITIONS:
        return (expression.strip(),)
    parts = (expression[start:end].strip() for start, end in zip(cuts[::2], cuts[1::2], strict=True))
    return tuple(map(_unwrapped, parts))


def _is_optional(expression: str, token: Token) -> bool:
    """Whether a question mark is one of `.?` or `[?`."""
    return expression[: token.at].rstrip()[-1:] in (".", "[")


def _unwrapped(part: str) -> str:
    """Without parentheses around the whole of it."""
    while part.startswith("(") and part.endswith(")"):
        depth = 0
        for token in tokens_of(part, Problems(part)):
            depth += (token.kind in _OPENING) - (token.kind in _CLOSING)
            if not depth and token.at < len(part) - 1:
                return part
        part = part[1:-1].strip()
    return part


@lru_cache(maxsize=512)
def comparison(condition: str) -> Comparison | None:
    """What a condition compares; None if it is none of the usual comparisons."""
    tokens = [token for token in tokens_of(condition, Problems(condition)) if token.kind != END]
    swapped = _swapped(tokens)
    return _read(tokens) or (_read(swapped) if swapped else None)


def _swapped(tokens: list[Token]) -> list[Token]:
    """`constant op path` as `path op constant`."""
    if len(tokens) > 2 and tokens[1].kind in _SIDES:
        sign = _SIDES[tokens[1].kind]
        return [*tokens[2:], Token(sign, sign, 0), tokens[0]]
    return []


def _read(tokens: list[Token]) -> Comparison | None:
    shape = " ".join(_letter(token) for token in tokens)
    path = _PATH.match(shape)
    rest = None if path is None else _REST.fullmatch(shape, path.end())
    if path is None or rest is None:
        return None
    size = path.group().count(" ") + 1
    before, after = tokens[:size], tokens[size:]
    names, values = _texts(before), _texts(after)
    named = names[1] if len(names) > 1 else before[-1].text
    operator, maker = _operator(rest, after)
    if operator is None:
        return None
    if not values:
        values = ["".join(token.text for token in after[1:])]
    spelt = "".join(token.text for token in before)
    return Comparison(names[0], named, path[1] == "capacity", operator, tuple(values), spelt, maker)


def _texts(tokens: Iterable[Token]) -> list[str]:
    return [text_of(token.text) or "" for token in tokens if token.kind == STRING]


def _operator(rest: re.Match[str], tokens: list[Token]) -> tuple[str | None, str]:
    """The operator that the shape amounts to, None if there is none; and what the constant is made with."""
    if rest["within"]:
        return "==", ""
    if rest["op"]:
        return rest["op"], "" if rest["literal"] == "S" else _LITERAL
    method, maker = (token.text for token in tokens if token.kind == IDENTIFIER)
    if rest["sign"]:
        return (rest["sign"] if method == "compareTo" and tokens[-1].text == "0" else None), maker
    return _METHODS.get(method), maker


def _letter(token: Token) -> str:
    """The sort of a token in a pattern: S a string, N a number, I a name; device and its fields as they are."""
    if token.kind == STRING:
        return "S"
    if token.kind.startswith("NUM_"):
        return "N"
    if token.kind == IDENTIFIER and token.text not in ("device", "attributes", "capacity"):
        return "I"
    return token.text
