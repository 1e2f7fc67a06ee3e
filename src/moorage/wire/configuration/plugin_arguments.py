"""The `pluginConfig` of a profile: the arguments of plugins, as their classes declare them."""

from __future__ import annotations

import json
from typing import Any

from pydantic import ValidationError
from pydantic.alias_generators import to_camel

from moorage.framework.arguments import PluginArgs
from moorage.framework.defaults import KUBE_SCHEDULER_PLUGINS
from moorage.framework.plugin import Plugin
from moorage.framework.registry import Registry
from moorage.framework.workloadkinds import ALL_KINDS, WorkloadKindsArgs
from moorage.wire.configuration.findings import Findings, field_path
from moorage.wire.configuration.plugin_sets import unknown_plugin
from moorage.wire.configuration.schema import PluginConfigShape
from moorage.wire.configuration.shapes import UNREADABLE, report
from moorage.wire.workloadkinds import NAMES, unknown_names

_KINDS = f"one of {', '.join(NAMES)}, or {ALL_KINDS} for all of them"
API_VERSION = "kubescheduler.config.k8s.io/v1"


def read_arguments(
    path: str, shapes: list[PluginConfigShape], registry: Registry, findings: Findings
) -> dict[str, PluginArgs]:
    """The arguments by the plugins' own names; those with problems are left out."""
    result: dict[str, PluginArgs] = {}
    first: dict[str, int] = {}
    for index, shape in enumerate(shapes):
        here = f"{path}[{index}]"
        name = registry.canonical(shape.name)
        if name == UNREADABLE:
            continue
        if name in first:
            findings.problem(f"{here}.name", shape.name, f"configured twice; remove this or {path}[{first[name]}]")
            continue
        first[name] = index
        cls = registry.get(name)
        if cls is None:
            _without_plugin(f"{here}.name", shape.name, registry, findings)
        elif (args := _validate(f"{here}.args", shape.args, cls, findings)) is not None:
            result[name] = args
    return result


def default_arguments(path: str, cls: type[Plugin], findings: Findings) -> None:
    """Complain where a plugin runs without arguments but cannot do without them."""
    try:
        cls.Args()
    except ValidationError as error:
        for details in error.errors(include_url=False):
            findings.problem(path, cls.name, f"this plugin needs arguments; {field_path(details['loc'])} is not given")


def _without_plugin(path: str, name: str, registry: Registry, findings: Findings) -> None:
    if name in KUBE_SCHEDULER_PLUGINS:
        findings.notice(path, name, "has no effect: this plugin of kube-scheduler is not built yet")
    else:
        findings.problem(path, name, unknown_plugin(name, registry))


def _validate(path: str, args: Any, cls: type[Plugin], findings: Findings) -> PluginArgs | None:
    if args is None:
        args = {}
    if not isinstance(args, dict):
        findings.problem(path, args, "must be a mapping of arguments to values")
        return None
    if not _is_of_kind(path, args, cls, findings):
        return None
    declared = {field.alias or name for name, field in cls.Args.model_fields.items()}
    plain = {key: value for key, value in args.items() if key in declared or key not in ("apiVersion", "kind")}
    try:
        # Through JSON, because strict models take a list for a tuple and a text for an enumeration only from there.
        found = cls.Args.model_validate_json(json.dumps(plain), by_alias=True, by_name=False)
    except ValidationError as error:
        for details in error.errors(include_url=False):
            report(details, cls.Args, findings, path)
        return None
    for name, value in found:
        if isinstance(value, WorkloadKindsArgs):
            _check_kinds(f"{path}.{to_camel(name)}", value, findings)
    return found


def _check_kinds(path: str, choice: WorkloadKindsArgs, findings: Findings) -> None:
    for index, name in unknown_names(choice):
        findings.problem(f"{path}.disabled[{index}]", name, f"is no kind that can be a gang; write {_KINDS}")


def _is_of_kind(path: str, args: dict[str, Any], cls: type[Plugin], findings: Findings) -> bool:
    """Arguments may say what they are, as kube-scheduler's documents do; then they must say the right thing."""
    kinds = {f"{name}Args" for name in (cls.name, *cls.aliases)}
    fits = True
    if "kind" in args and args["kind"] not in kinds:
        findings.problem(f"{path}.kind", args["kind"], f"must be {cls.name}Args, or left out")
        fits = False
    if "apiVersion" in args and cls.name in KUBE_SCHEDULER_PLUGINS and args["apiVersion"] != API_VERSION:
        findings.problem(f"{path}.apiVersion", args["apiVersion"], f"must be {API_VERSION}, or left out")
        fits = False
    return fits
