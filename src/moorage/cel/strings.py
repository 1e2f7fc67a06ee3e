"""Functions of texts: positions, parts, replacement, joining."""

from __future__ import annotations

import string

from moorage.cel import costs
from moorage.cel.formatting import formatted
from moorage.cel.functions import Function, Library, method, overload
from moorage.cel.values import CelError, Value, shown
from moorage.cel.work import spend

_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)
_UPPER = str.maketrans(string.ascii_lowercase, string.ascii_uppercase)
_SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
_QUOTED = str.maketrans(
    {
        "\a": "\\a",
        "\b": "\\b",
        "\f": "\\f",
        "\n": "\\n",
        "\r": "\\r",
        "\t": "\\t",
        "\v": "\\v",
        "\\": "\\\\",
        '"': '\\"',
    }
)


def _out_of_range(index: int) -> CelError:
    return CelError(f"index out of range: {index}")


def _char_at(text: str, index: int) -> Value:
    return text[index : index + 1] if 0 <= index <= len(text) else _out_of_range(index)


def _index_of(text: str, part: str, start: int = 0) -> Value:
    if start < 0:
        return _out_of_range(start)
    return text.find(part, min(start, len(text))) if part else min(start, len(text))


def _last_index_of(text: str, part: str, start: int | None = None) -> Value:
    if start is None:
        return text.rfind(part)
    if start < 0:
        return _out_of_range(start)
    if not part:
        return min(start, len(text))
    return text.rfind(part, 0, start + len(part)) if start < len(text) else -1


def _replaced(text: str, old: str, new: str, most: int = -1) -> str:
    count = len(text) + 1 if not old else text.count(old)
    count = count if most < 0 else min(count, most)
    spend(len(text) + count * len(new))
    return text.replace(old, new, most)


def _split(text: str, separator: str, most: int = -1) -> list[str]:
    spend(len(text))
    if most == 0:
        return []
    if separator:
        return text.split(separator, most - 1 if most > 0 else -1)
    if 0 < most < len(text):
        return [*text[: most - 1], text[most - 1 :]]
    return list(text)


def _substring(text: str, start: int, end: int | None = None) -> Value:
    last = len(text) if end is None else end
    if end is not None and start > end:
        return CelError(f"invalid substring range. start: {start}, end: {end}")
    if not 0 <= start <= len(text):
        return _out_of_range(start)
    return text[start:last] if 0 <= last <= len(text) else _out_of_range(last)


def _joined(texts: list[Value], separator: str = "") -> Value:
    for each in texts:
        if not isinstance(each, str):
            return CelError(f"join: invalid input: {shown(each)}")
    spend(sum(map(len, texts)) + len(texts) * len(separator))
    return separator.join(texts)


LIBRARY = Library(
    (
        Function("charAt", (method("string_char_at_int", "string, int -> string", _char_at),)),
        Function("format", (method("string_format", "string, list(dyn) -> string", formatted),), eager=False),
        Function(
            "indexOf",
            (
                method("string_index_of_string", "string, string -> int", _index_of),
                method("string_index_of_string_int", "string, string, int -> int", _index_of),
            ),
            cost=costs.traversal,
        ),
        Function(
            "join",
            (
                method("list_join", "list(string) -> string", _joined),
                method("list_join_string", "list(string), string -> string", _joined),
            ),
            cost=costs.result_twice,
        ),
        Function(
            "lastIndexOf",
            (
                method("string_last_index_of_string", "string, string -> int", _last_index_of),
                method("string_last_index_of_string_int", "string, string, int -> int", _last_index_of),
            ),
            cost=costs.traversal,
        ),
        Function(
            "lowerAscii",
            (method("string_lower_ascii", "string -> string", lambda text: text.translate(_LOWER)),),
            cost=costs.first_argument,
        ),
        Function(
            "replace",
            (
                method("string_replace_string_string", "string, string, string -> string", _replaced),
                method("string_replace_string_string_int", "string, string, string, int -> string", _replaced),
            ),
            cost=costs.first_argument_twice,
        ),
        Function(
            "split",
            (
                method("string_split_string", "string, string -> list(string)", _split),
                method("string_split_string_int", "string, string, int -> list(string)", _split),
            ),
            cost=costs.first_argument_twice,
        ),
        Function(
            "strings.quote",
            (overload("strings_quote", "string -> string", lambda text: f'"{text.translate(_QUOTED)}"'),),
        ),
        Function(
            "substring",
            (
                method("string_substring_int", "string, int -> string", _substring),
                method("string_substring_int_int", "string, int, int -> string", _substring),
            ),
            cost=costs.first_argument,
        ),
        Function(
            "trim",
            (method("string_trim", "string -> string", lambda text: text.strip(_SPACE)),),
            cost=costs.first_argument,
        ),
        Function(
            "upperAscii",
            (method("string_upper_ascii", "string -> string", lambda text: text.translate(_UPPER)),),
            cost=costs.first_argument,
        ),
    )
)
