"""Named formats in expressions of the Common Expression Language: names that Kubernetes validates."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import ClassVar

from moorage.cel import types as ty
from moorage.cel.functions import Function, Library, method, overload
from moorage.cel.times import parse_timestamp
from moorage.cel.types import Type
from moorage.cel.urls import UrlError, parse_url
from moorage.cel.values import NONE, Foreign, Optional, Value, size
from moorage.core.values import dataclass

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", re.ASCII)
_LABEL_1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?", re.ASCII)
_NAME = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]", re.ASCII)
_UUID = re.compile(r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}", re.ASCII | re.IGNORECASE)
_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?", re.ASCII)
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)


@dataclass(frozen=True, slots=True, eq=False)
class NamedFormat(Foreign):
    """A format, the length of the expression that costs are computed with, and what is wrong with a text."""

    type: ClassVar[Type] = ty.struct("kubernetes.NamedFormat")
    go_name: ClassVar[str] = "cel.Format"
    hashable: ClassVar[bool] = False
    name: str
    length: int
    problems: Callable[[str], list[str]]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NamedFormat) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)


def _too_long(most: int) -> str:
    return f"must be no more than {most} characters"


def _label(pattern: re.Pattern[str], words: str, most: int = 63, prefix: bool = False) -> Callable[[str], list[str]]:
    def problems(text: str) -> list[str]:
        found = [] if len(text) <= most else [_too_long(most)]
        text = text[:-1] + "a" if prefix and len(text) > 1 and text.endswith("-") else text
        return (
            found
            if pattern.fullmatch(text)
            else [*found, f"must be {words}, regex used for validation is '{pattern.pattern}'"]
        )

    return problems


def _subdomain(prefix: bool) -> Callable[[str], list[str]]:
    pattern = re.compile(rf"{_LABEL.pattern}(\.{_LABEL.pattern})*", re.ASCII)
    return _label(pattern, "a lowercase RFC 1123 subdomain", 253, prefix)


def _qualified(text: str) -> list[str]:
    parts = text.split("/")
    if len(parts) > 2:
        return ["a qualified name must consist of an optional DNS subdomain prefix and '/', and a name"]
    found = [f"prefix part {each}" for each in (_subdomain(prefix=False)(parts[0]) if len(parts) == 2 else ())]
    if not parts[-1]:
        return [*found, "name part must be non-empty"]
    return [*found, *(f"name part {each}" for each in _label(_NAME, "alphanumeric")(parts[-1]))]


def _label_value(text: str) -> list[str]:
    return _label(_NAME, "a valid label")(text) if text else []


def _uri(text: str) -> list[str]:
    try:
        parse_url(text)
    except UrlError as error:
        return [str(error)]
    return []


def _date(text: str) -> bool:
    return bool(_DATE.fullmatch(text)) and parse_timestamp(f"{text}T00:00:00Z") is not None


def _holds(test: Callable[[str], object], message: str) -> Callable[[str], list[str]]:
    return lambda text: [] if test(text) else [message]


_FORMATS = {
    "dns1123Label": NamedFormat("DNS1123Label", 30, _label(_LABEL, "a lowercase RFC 1123 label")),
    "dns1123Subdomain": NamedFormat("DNS1123Subdomain", 60, _subdomain(prefix=False)),
    "dns1035Label": NamedFormat("DNS1035Label", 30, _label(_LABEL_1035, "a DNS-1035 label")),
    "qualifiedName": NamedFormat("QualifiedName", 60, _qualified),
    "dns1123LabelPrefix": NamedFormat("DNS1123LabelPrefix", 30, _label(_LABEL, "a label", prefix=True)),
    "dns1123SubdomainPrefix": NamedFormat("DNS1123SubdomainPrefix", 60, _subdomain(prefix=True)),
    "dns1035LabelPrefix": NamedFormat("DNS1035LabelPrefix", 30, _label(_LABEL_1035, "a label", prefix=True)),
    "labelValue": NamedFormat("LabelValue", 40, _label_value),
    "uri": NamedFormat("URI", 1104, _uri),
    "uuid": NamedFormat("uuid", 72, _holds(_UUID.fullmatch, "does not match the UUID format")),
    "byte": NamedFormat("byte", 84, _holds(lambda text: text and _BASE64.fullmatch(text), "invalid base64")),
    "date": NamedFormat("date", 72, _holds(_date, "invalid date")),
    "datetime": NamedFormat("datetime", 72, _holds(parse_timestamp, "invalid datetime")),
}


def _validate(named: NamedFormat, text: str) -> Value:
    problems = named.problems(text)
    return Optional(True, problems) if problems else NONE


def _cost(args: tuple[Value, ...], _: Value) -> int:
    if not isinstance(args[0], NamedFormat):
        return 1
    return math.ceil((1.0 + size(args[1])) * 0.1) * math.ceil(args[0].length * 0.25)


def _constant(name: str) -> Function:
    return Function(
        f"format.{name}", (overload(f"format.{name}", "-> format", lambda: _FORMATS[name], format=NamedFormat.type),)
    )


def _named(name: str) -> Optional:
    return Optional(True, _FORMATS[name]) if name in _FORMATS else NONE


LIBRARY = Library(
    (
        *map(_constant, _FORMATS),
        Function(
            "format.named", (overload("format-named", "string -> optional(format)", _named, format=NamedFormat.type),)
        ),
        Function(
            "validate",
            (
                method(
                    "format-validate", "format, string -> optional(list(string))", _validate, format=NamedFormat.type
                ),
            ),
            cost=_cost,
        ),
    )
)
