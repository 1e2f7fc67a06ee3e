"""Inputs that nobody would write: valid samples, changed here and there by structure, and then perhaps by bytes."""

from __future__ import annotations

import json
import re
from random import Random
from typing import Any

_MARK = "\u0001"
"""Begins a text that becomes something else once it was written as JSON."""
_TEXTS = (
    "",
    " ",
    "a",
    "A" * 64,
    "x" * 300,
    "0",
    "-1",
    "1e9",
    "١٢٣",
    "\u202e",
    "\ud800",
    "é" * 40,
    "a/b",
    "../..",
    "a\nb",
    "\x00",
    "9223372036854775808",
    "1Ei",
    "-0.5m",
    "100%",
    "%",
    "*",
    "null",
    "true",
    "2026-01-01T00:00:00Z",
    "<b>",
    "\x1b[31m",
    "In",
    "NotIn",
    "key=value:NoSchedule",
    "base=1,",
    "=",
    ",;,;",
    "{}",
    "[",
    "weight=-1",
    "\t",
    "\\",
    '"',
)
_NUMBERS = (0, -1, 1, 2, 255, 2**31 - 1, 2**31, 2**53 + 1, 2**63 - 1, 2**63, -(2**63), 2**64, 10**30, 0.5, -0.0, 1e308)
_RAW = ("1e400", "-1e400", "NaN", "Infinity", "00", "1.", "9" * 400, "0." + "1" * 400, "tru", "'a'", "")
_KEYS = ("", "name", "metadata", "spec", "status", "kind", "a" * 70, "x/y/z", "é", "__class__", "$ref", "items")
_BYTES = (
    b"\x00",
    b"\xff",
    b"\xed\xa0\x80",
    b"\xef\xbb\xbf",
    b"{",
    b"}",
    b"[",
    b"]",
    b'"',
    b"\\u12",
    b",",
    b":",
    b"\r\n",
    b"- ",
    b"---\n",
)


class Mutator:
    """Changes samples; the same seed makes the same changes."""

    def __init__(self, rng: Random, most_bytes: int = 1_500_000) -> None:
        self.rng = rng
        self.most_bytes = most_bytes
        self.big = rng.random() < 0.01
        """Whether this one may be large: 64 KB and more, thousands of items or levels."""

    # --- values ---

    def value(self, sample: Any) -> Any:
        """A sample with one to four changes."""
        for _ in range(self.rng.choice((1, 1, 1, 2, 2, 4))):
            sample = self._changed(sample)
        return sample

    def _changed(self, value: Any) -> Any:
        """Go down a random way and change what is there."""
        rng = self.rng
        if isinstance(value, dict) and value and rng.random() < 0.85:
            key = rng.choice(list(value))
            return self._dict(value, key) if rng.random() < 0.2 else {**value, key: self._changed(value[key])}
        if isinstance(value, list) and value and rng.random() < 0.85:
            at = rng.randrange(len(value))
            return (
                self._list(value, at)
                if rng.random() < 0.2
                else [*value[:at], self._changed(value[at]), *value[at + 1 :]]
            )
        if isinstance(value, str) and rng.random() < 0.4:
            return self.text(value)
        return self.odd(value)

    def _dict(self, value: dict[str, Any], key: str) -> dict[str, Any]:
        rng = self.rng
        rest = {name: each for name, each in value.items() if name != key}
        how = rng.randrange(5)
        if how == 0:
            return rest
        if how == 1:
            return {**rest, rng.choice(_KEYS): value[key]}
        if how == 2:
            return {**value, rng.choice(_KEYS): self.odd(None)}
        if how == 3:
            return {**value, f"{_MARK}twice": key}
        return {**value, **{f"{key}{number}": value[key] for number in range(self._many(value[key]))}}

    def _list(self, value: list[Any], at: int) -> list[Any]:
        rng = self.rng
        how = rng.randrange(4)
        if how == 0:
            return value[:at] + value[at + 1 :]
        if how == 1:
            return [*value, *[value[at]] * self._many(value[at])]
        if how == 2:
            return []
        return [*value, self.odd(None)]

    def _many(self, value: Any) -> int:
        """How often something is repeated; once in an input very often."""
        if not self.big:
            return self.rng.choice((1, 2, 20))
        self.big = False
        return min(3_000, 2 * self.most_bytes // 3 // (len(str(value)) + 10) + 1)

    def odd(self, before: Any) -> Any:
        """Something else in place of a value."""
        rng = self.rng
        how = rng.randrange(12)
        if how < 3:
            return rng.choice(_TEXTS)
        if how < 5:
            return rng.choice(_NUMBERS)
        if how == 5:
            return rng.choice((None, True, False))
        if how == 6:
            return rng.choice(([], {}, [None], [[]], {"": {}}, [before], {"a": before}))
        if how == 7:
            return f"{_MARK}raw{rng.choice(_RAW)}"
        if how == 8:
            depth = rng.choice((3_000, 100_000)) if self.big else rng.choice((2, 30, 300))
            return f"{_MARK}{rng.choice(('list', 'dict'))}{depth}"
        if how == 9:
            return self.text(before if isinstance(before, str) else "")
        if how == 10:
            return {rng.choice(_KEYS): before, rng.choice(_KEYS): rng.choice(_TEXTS)}
        return str(before) if not isinstance(before, str) else [before]

    def text(self, text: str) -> str:
        """A text with a few changes."""
        rng = self.rng
        for _ in range(rng.choice((1, 1, 2, 5))):
            at = rng.randrange(len(text) + 1)
            how = rng.randrange(7)
            if how == 0:
                text = text[:at] + rng.choice(_TEXTS) + text[at:]
            elif how == 1:
                text = text[:at] + text[at + rng.randint(1, 4) :]
            elif how == 2:
                text = (
                    text[:at] + chr(rng.choice((rng.randrange(128), rng.randrange(0x3000), 0x1F600))) + text[at + 1 :]
                )
            elif how == 3:
                text = text[:at] + text[rng.randrange(len(text) + 1) :]
            elif how == 4:
                text = text[:at] + str(rng.choice(_NUMBERS)) + text[at + 1 :]
            elif how == 5 and len(text) < 4_000:
                text = text * rng.choice((2, 3, 10))
            elif self.big:
                text = (text or "a=1;") * (rng.choice((70_000, 260_000)) // (len(text) or 4))
        return text

    # --- bytes ---

    def json(self, sample: Any) -> bytes:
        """JSON of a changed sample, or something that once was."""
        rng = self.rng
        text = json.dumps(self.value(sample) if rng.random() < 0.95 else sample, ensure_ascii=rng.random() < 0.5)
        data = _written(text).encode("utf-8", "surrogatepass")
        return (self.data(data) if rng.random() < 0.15 else data)[: self.most_bytes]

    def data(self, data: bytes) -> bytes:
        """Bytes with a few changes."""
        rng = self.rng
        for _ in range(rng.choice((1, 1, 2, 6))):
            at = rng.randrange(len(data) + 1)
            how = rng.randrange(6)
            if how == 0:
                data = data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :]
            elif how == 1:
                data = data[:at]
            elif how == 2:
                data = data[:at] + rng.choice(_BYTES) + data[at:]
            elif how == 3:
                data = data[:at] + data[at + rng.randint(1, 20) :]
            elif how == 4:
                data = data[:at] + data[max(0, at - rng.randint(1, 60)) :]
            else:
                data = data[:at] + rng.choice(_BYTES) * (rng.choice((5_000, 100_000)) if self.big else 40) + data[at:]
        return data[: self.most_bytes]


def _written(text: str) -> str:
    """What stands for something that no JSON encoder would write becomes that."""
    mark = json.dumps(_MARK)[1:-1]
    if mark not in text:
        return text
    parts = text.split(f'"{mark}')
    found = [parts[0]]
    for part in parts[1:]:
        told, _, rest = part.partition('"')
        nest = re.match(r"(list|dict)(\d{1,6})", told)
        if told.startswith("raw"):
            found.append(told[3:].replace("\\", "") + rest)
        elif nest is not None:
            depth = int(nest[2])
            opening, closing = ("[", "]") if nest[1] == "list" else ('{"a":', "}")
            found.append(opening * depth + ("" if nest[1] == "list" else "1") + closing * depth + rest)
        else:  # the name of a key whose value is that of another: written once more under that name
            key = rest.partition('"')[2].partition('"')[0]
            found.append(f'"{key}": null, "{key}"' + rest)
    return "".join(found)
