"""Claims for devices, and their templates, with something changed: plain specs, changed in place.

`RewriteError` is raised where a claim does not hold what is to be changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from typing import Any

from moorage.core.edits import (
    AddAlternative,
    ClaimEdit,
    DropConstraint,
    FreeClaim,
    LowerCapacity,
    LowerCount,
    SetSelector,
    TolerateDevice,
)
from moorage.wire.podrewriting import Plain, RewriteError, tolerate

_MOST_ALTERNATIVES = 8


def rewrite_claim(spec: Plain, edit: ClaimEdit) -> None:
    """Change the spec of a claim."""
    devices = spec.get("devices")
    if not isinstance(devices, dict):
        raise RewriteError("the claim asks for no devices")
    if isinstance(edit, DropConstraint):
        constraints = devices.get("constraints") or []
        if edit.index >= len(constraints):
            raise RewriteError(f"there is no constraint {edit.index}")
        devices["constraints"] = [each for index, each in enumerate(constraints) if index != edit.index]
        if not devices["constraints"]:
            del devices["constraints"]
    elif isinstance(edit, AddAlternative):
        _add_alternative(_request(devices, edit.request.partition("/")[0]), edit)
    elif not isinstance(edit, FreeClaim):  # which changes no spec
        request, _, alternative = edit.request.partition("/")
        _REWRITES[type(edit)](_choice(_request(devices, request), alternative), edit)


def freed(claim: Plain) -> Plain:
    """A claim that holds nothing."""
    status = claim.get("status") or {}
    claim["status"] = {
        key: value for key, value in status.items() if key not in ("allocation", "reservedFor", "devices")
    }
    if not claim["status"]:
        del claim["status"]
    return claim


def _request(devices: Plain, name: str) -> Plain:
    return _named(devices.get("requests"), name)


def _choice(request: Plain, alternative: str) -> Plain:
    """The part of a request that says what it asks for; in v1beta1 that is the request itself."""
    if not alternative:
        return request.get("exactly") or request
    return _named(request.get("firstAvailable"), alternative)


def _named(items: Iterable[Plain] | None, name: str) -> Plain:
    found = next((each for each in items or () if each.get("name") == name), None)
    if found is None:
        raise RewriteError(f"there is no {name}")
    return found


def _add_alternative(request: Plain, edit: AddAlternative) -> None:
    """A request for exactly one sort becomes one of alternatives, the first of which it was."""
    if "firstAvailable" not in request:
        exactly = deepcopy(_choice(request, ""))
        if exactly.get("adminAccess") or "deviceClassName" not in exactly:
            raise RewriteError("a request with admin access has no alternatives")
        known = {key: value for key, value in exactly.items() if key not in ("name", "adminAccess")}
        for key in [*request]:
            if key != "name":
                del request[key]
        request["firstAvailable"] = [{"name": "first", **known}]
    alternatives = request["firstAvailable"]
    if len(alternatives) >= _MOST_ALTERNATIVES:
        raise RewriteError("there are as many alternatives as there can be")
    last = alternatives[-1]
    names = {each.get("name") for each in alternatives}
    name = next(name for number in range(len(names) + 1) if (name := f"other-{number}") not in names)
    counted = {key: last[key] for key in ("allocationMode", "count") if key in last}
    alternatives.append({"name": name, "deviceClassName": edit.device_class, **counted})


def _set_selector(choice: Plain, edit: SetSelector) -> None:
    selectors = choice.get("selectors") or []
    if edit.index >= len(selectors):
        raise RewriteError(f"there is no selector {edit.index}")
    changed = [{"cel": {"expression": edit.expression}}] if edit.expression else []
    choice["selectors"] = [*selectors[: edit.index], *changed, *selectors[edit.index + 1 :]]
    if not choice["selectors"]:
        del choice["selectors"]


def _lower_count(choice: Plain, edit: LowerCount) -> None:
    choice["allocationMode"], choice["count"] = "ExactCount", edit.count


def _lower_capacity(choice: Plain, edit: LowerCapacity) -> None:
    capacity: Mapping[str, Any] = choice.get("capacity") or {}
    requests = capacity.get("requests") or {}
    if edit.capacity not in requests:
        raise RewriteError(f"the request names no {edit.capacity}")
    choice["capacity"] = {**capacity, "requests": {**requests, edit.capacity: edit.amount}}


_REWRITES: dict[type, Callable[[Plain, Any], None]] = {
    SetSelector: _set_selector,
    TolerateDevice: lambda choice, edit: tolerate(choice, edit.taint),
    LowerCount: _lower_count,
    LowerCapacity: _lower_capacity,
}
