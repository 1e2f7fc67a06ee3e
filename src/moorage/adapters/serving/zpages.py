"""`/statusz` and `/flagz`: what runs, since when and with which flags; text for people, JSON and YAML for programs.

Formats are those of Kubernetes' `config.k8s.io/v1beta1`: programs name the version in their Accept header, as in
`application/json;v=v1beta1;g=config.k8s.io;as=Statusz`.
"""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any

import yaml
from aiohttp import web

from moorage.adapters import clock
from moorage.adapters.serving.access import failure
from moorage.core.values import dataclass

_GROUP, _VERSION = "config.k8s.io", "v1beta1"
_JSON, _YAML, _TEXT = "application/json", "application/yaml", "text/plain"
_NOTE = "For debugging by people; the format may change at any time. Programs should request JSON."


@dataclass(frozen=True, slots=True)
class Component:
    """The server that is described."""

    name: str
    version: str
    flags: Mapping[str, str] = field(default_factory=dict)
    """Every flag of the command line and its value, given or not."""
    started_s: float = field(default_factory=clock.now_s)
    """Seconds since the epoch."""


def statusz(request: web.Request, component: Component, paths: Iterable[str]) -> web.Response:
    """The answer of `/statusz`."""
    uptime_s = int(clock.now_s() - component.started_s)
    runtime = f"{platform.python_implementation()} {platform.python_version()}"
    listed = sorted(paths)
    document = {
        "startTime": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(component.started_s)),
        "uptimeSeconds": uptime_s,
        "goVersion": runtime,
        "binaryVersion": component.version,
        "paths": listed,
    }
    lines = [
        "",
        f"Started  {time.strftime('%a %b %d %H:%M:%S UTC %Y', time.gmtime(component.started_s))}",
        f"Up  {uptime_s // 3600} hr {uptime_s // 60 % 60:02} min {uptime_s % 60:02} sec",
        f"Runtime version  {runtime}",
        f"Binary version  {component.version}",
        f"Paths  {' '.join(listed)}",
    ]
    return _page(request, component, "Statusz", document, lines)


def flagz(request: web.Request, component: Component) -> web.Response:
    """The answer of `/flagz`."""
    flags = dict(sorted(component.flags.items()))
    return _page(request, component, "Flagz", {"flags": flags}, [f"{name}={value}" for name, value in flags.items()])


def _page(
    request: web.Request, component: Component, kind: str, content: Mapping[str, Any], lines: Iterable[str]
) -> web.Response:
    media = _media(request.headers.get("Accept", ""), kind)
    if media == _TEXT:
        text = "\n".join(["", f"{component.name} {kind.lower()}", _NOTE, *lines, ""])
        return web.Response(text=text)
    if not media:
        accepted = f"only the following media types are accepted: {_JSON}, {_YAML}, {_TEXT}"
        return failure(406, "NotAcceptable", accepted)
    head = {"kind": kind, "apiVersion": f"{_GROUP}/{_VERSION}", "metadata": {"name": component.name}}
    document = {**head, **content}
    body = json.dumps(document) + "\n" if media == _JSON else yaml.safe_dump(document)
    return web.Response(body=body.encode(), headers={"Content-Type": f"{media};g={_GROUP};v={_VERSION};as={kind}"})


def _media(accept: str, kind: str) -> str:
    """The media type to answer with, by an Accept header; empty if none will do. JSON and YAML need a version."""
    wanted = {"g": _GROUP, "v": _VERSION, "as": kind}
    for clause in accept.split(",") if accept.strip() else ["*/*"]:
        media, *parameters = (part.strip() for part in clause.split(";"))
        if media in ("*/*", "text/*", _TEXT):
            return _TEXT
        given = dict(parameter.partition("=")[::2] for parameter in parameters)
        if media in (_JSON, _YAML) and wanted.items() <= given.items():
            return media
    return ""
