"""Patches of commands as plain values, ready to be written as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from moorage.core.commands import JsonText


def plain(value: Any) -> Any:
    """The same with dictionaries, lists, and the values of `JsonText`."""
    if isinstance(value, JsonText):
        return msgspec.json.decode(value.text)
    if isinstance(value, Mapping):
        return {name: plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return value
