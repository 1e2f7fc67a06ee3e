"""Sizes on the command line: whole bytes, or with one of the suffixes that Kubernetes uses."""

from __future__ import annotations

import re
from typing import Any

import click

_SIZE = re.compile(r"([0-9]{1,12})(Ki|Mi|Gi|Ti|k|M|G|T)?(?:B)?", re.ASCII)
_FACTORS = {
    "": 1,
    "Ki": 1 << 10,
    "Mi": 1 << 20,
    "Gi": 1 << 30,
    "Ti": 1 << 40,
    "k": 10**3,
    "M": 10**6,
    "G": 10**9,
    "T": 10**12,
}
_SMALLEST = 8 << 20


class Size(click.ParamType[int]):
    """A number of bytes, 8Mi at least."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number; called by click."""
        match = _SIZE.fullmatch(str(value))
        found = int(match[1]) * _FACTORS[match[2] or ""] if match else 0
        if found < _SMALLEST:
            self.fail(f"{str(value)!r} is no size of at least 8Mi; write 256Mi or 1Gi", param, ctx)
        return found
