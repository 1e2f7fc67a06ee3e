"""What a plain YAML scalar means, as kubectl and kube-scheduler read it.

Kubernetes' own YAML reading follows YAML 1.1 for booleans (`yes` and `on` are true), reads `0644` and `0o644` as octal,
takes underscores out of numbers, and knows neither timestamps nor base-60 numbers: those stay strings. A float without
a fraction becomes an integer, because that is how it is written into JSON on its way to the API server. What JSON
cannot say (`.inf`, `.nan`, `1e999`) stays a string, so that the field that gets it can complain about the text that the
user wrote.

One departure: a lone `y` or `n` is text here, a boolean there. Python's YAML writers leave these letters unquoted where
they mean text, and a name or a label of one letter is far more common than a boolean of one letter.
"""

from __future__ import annotations

import math
import re
from typing import TypeAlias

Scalar: TypeAlias = str | int | float | bool | None

_TRUE = ("yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON")
_FALSE = ("no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF")
_NULL = ("", "~", "null", "Null", "NULL")
_WORDS: dict[str, Scalar] = dict.fromkeys(_TRUE, True) | dict.fromkeys(_FALSE, False) | dict.fromkeys(_NULL)

_NUMBER_START = frozenset("+-.0123456789")
_INTEGER = re.compile(
    r"(?P<sign>[-+]?)(?:0[bB](?P<binary>[01]+)|0[xX](?P<hex>[0-9a-fA-F]+)|0[oO]?(?P<octal>[0-7]+)|(?P<decimal>0|[1-9][0-9]*))\Z",
    re.ASCII,
)
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?\Z", re.ASCII)
_BASES = {"binary": 2, "hex": 16, "octal": 8, "decimal": 10}
_LONGEST_NUMBER = 80
"""Longer texts stay strings: no field of Kubernetes holds such a number, and reading digits takes quadratic time."""
_LARGEST_WHOLE_FLOAT = 1e21
"""From here on JSON writes floats with an exponent."""


def resolve_plain(text: str) -> Scalar:
    """The value of a plain (unquoted, untagged) scalar."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in _NUMBER_START or len(text) > _LONGEST_NUMBER:
        return text
    return _resolve_number(text)


def _resolve_number(text: str) -> Scalar:
    digits = text.replace("_", "")
    match = _INTEGER.match(digits)
    if match and match.lastgroup:
        number = int(match[match.lastgroup], _BASES[match.lastgroup])
        return -number if match["sign"] == "-" else number
    if not _FLOAT.match(digits):
        return text
    fraction = float(digits)
    if math.isinf(fraction):
        return text
    if fraction.is_integer() and abs(fraction) < _LARGEST_WHOLE_FLOAT:
        return int(fraction)
    return fraction


def resolve_tagged(tag: str, text: str) -> Scalar:
    """The value of a scalar with an explicit tag; `ValueError` where text and tag do not fit, or the tag is unknown."""
    name = tag.removeprefix("tag:yaml.org,2002:")
    if name in ("str", "!", "timestamp"):
        return text
    value = resolve_plain(text)
    fits = {
        "null": value is None,
        "bool": isinstance(value, bool),
        "int": isinstance(value, int) and not isinstance(value, bool),
        "float": isinstance(value, int | float) and not isinstance(value, bool),
    }
    if name not in fits:
        raise ValueError(f"the tag {tag} is unknown to Kubernetes; write the value without it")
    if not fits[name]:
        raise ValueError(f"the value does not fit its tag !!{name}")
    return value


class PlainScalars(dict[str, Scalar]):
    """Remembers what each plain text means: a cluster's manifests repeat the same few thousand texts."""

    def __missing__(self, text: str) -> Scalar:
        value = self[text] = resolve_plain(text)
        return value
