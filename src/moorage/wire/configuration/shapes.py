"""A document takes its shape, and every field that does not fit is named.

The model is filled even when fields are wrong: wrong values are taken out and the reading is tried again, so that the
checks that follow find the rest of the problems in the same run. `UNREADABLE` stands where a required text was missing.
"""

from __future__ import annotations

import types
from collections.abc import Sequence
from typing import Any, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from moorage.framework.registry import closest
from moorage.wire.configuration.findings import Findings, field_path
from moorage.wire.problems import ABSENT

UNREADABLE = "\0"

_MOST_REPAIRS = 8
_EXPECTED = {
    "missing": "required; add it",
    "string_type": "must be text; put it in quotes if it is meant as text",
    "int_type": "must be an integer",
    "int_from_float": "must be an integer",
    "float_type": "must be a number",
    "bool_type": "must be true or false",
    "list_type": "must be a list",
    "tuple_type": "must be a list",
    "model_type": "must be a mapping of fields to values",
    "dict_type": "must be a mapping",
}
_LEGACY_FIELDS = {
    "healthzBindAddress": "not a field of v1; use the flags --secure-port and --bind-address",
    "metricsBindAddress": "not a field of v1; use the flags --secure-port and --bind-address",
    "algorithmSource": "not a field of v1; describe the plugins in profiles",
}

Model = TypeVar("Model", bound=BaseModel)


def without_nulls(value: Any) -> Any:
    """A copy in which no mapping has a null: for Kubernetes a null field is one that was not given."""
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    return value


def read_shape(model: type[Model], document: dict[str, Any], findings: Findings) -> Model:
    """The document as the model, as far as it fits; what does not is reported. The document is consumed."""
    for _ in range(_MOST_REPAIRS):
        try:
            return model.model_validate(document)
        except ValidationError as error:
            known = Findings(findings.source)
            known.problems = list(findings.problems)
            for details in error.errors(include_url=False):
                if not known.touches(field_path(details["loc"])):
                    report(details, model, findings)
                _repair(document, details)
    return model.model_construct()


def report(details: ErrorDetails, model: type[BaseModel], findings: Findings, start: str = "") -> None:
    """One error of pydantic as a problem; the model is for suggesting the field that was probably meant."""
    kind, location = details["type"], details["loc"]
    value = details["input"]
    if kind == "missing":
        message, value = _EXPECTED[kind], ABSENT
    elif kind == "extra_forbidden":
        message = _unknown_field(str(location[-1]), model, location[:-1])
    elif kind == "value_error":
        message = str(details["ctx"]["error"])
    else:
        message = _EXPECTED.get(kind, _lower_first(details["msg"]))
    findings.problem(field_path(location, start), value, message)


def _unknown_field(name: str, model: type[BaseModel], location: Sequence[str | int]) -> str:
    if name in _LEGACY_FIELDS:
        return _LEGACY_FIELDS[name]
    fields = _fields_at(model, location)
    meant = closest(name, fields)
    if meant:
        return f"unknown field; did you mean {meant}?"
    return f"unknown field; remove it, or use one of {', '.join(fields)}" if fields else "unknown field; remove it"


def _fields_at(model: type[BaseModel], location: Sequence[str | int]) -> list[str]:
    """The fields of the model that stands at this place, as documents write them."""
    here: type[BaseModel] | None = model
    for part in location:
        if isinstance(part, str) and here is not None:
            fields = {field.alias or name: field for name, field in here.model_fields.items()}
            here = _model_in(fields[part].annotation) if part in fields else None
    return [] if here is None else [field.alias or name for name, field in here.model_fields.items()]


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """The model in `Model`, `Model | None`, `list[Model]` and the like."""
    if isinstance(annotation, type) and get_origin(annotation) is None:
        return annotation if issubclass(annotation, BaseModel) else None
    if get_origin(annotation) in (Union, types.UnionType, list, tuple):
        return next((found for argument in get_args(annotation) if (found := _model_in(argument))), None)
    return None


def _repair(document: dict[str, Any], details: ErrorDetails) -> None:
    """Take the wrong value out; where something must stand, put something that the checks know to pass over."""
    *above, last = details["loc"]
    holder: Any = document
    for part in above:
        holder = holder[part]
    if details["type"] == "missing":
        holder[last] = UNREADABLE
    elif isinstance(last, int):
        holder[last] = {}
    else:
        holder.pop(last, None)


def _lower_first(text: str) -> str:
    return text[:1].lower() + text[1:]
