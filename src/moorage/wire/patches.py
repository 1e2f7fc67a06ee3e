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


def in_version(body: Mapping[str, Any], kind: str, version: str) -> Mapping[str, Any]:
    """An object that is made, in an older version of its API than the newest: claims of v1beta1 have no `exactly`."""
    if (kind, version) != ("ResourceClaim", "v1beta1"):
        return body
    devices = body["spec"]["devices"]
    requests = [{"name": each["name"], **each["exactly"]} for each in devices["requests"]]
    return {**body, "spec": {**body["spec"], "devices": {**devices, "requests": requests}}}
