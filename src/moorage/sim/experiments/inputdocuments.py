"""The inputs of an experiment: which of the kinds each is, its settings, and the content of its files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from moorage.adapters.journal.frames import segments
from moorage.core.phrases import counted
from moorage.sim.experiments.reading import checked_names
from moorage.sim.experiments.shapes import GeneratorShape, InputShape, TraceShape
from moorage.sim.experiments.sources import (
    BY_SEED,
    GENERATOR,
    JOURNAL,
    MOST_PODS,
    OBJECTS,
    ORDERS,
    RECORDED,
    TRACE,
    make_source,
)
from moorage.sim.experiments.traceobjects import REQUESTS
from moorage.sim.experiments.traces import FORMATS, NODE_FIELDS, POD_FIELDS, TraceError, read_trace
from moorage.sim.whatif_changes import did_you_mean
from moorage.wire.configuration.findings import Findings, positive
from moorage.wire.configuration.shapes import UNREADABLE
from moorage.wire.problems import ABSENT

MOST_NODES = 100_000
_TEMPLATE = ("metadata", "spec")
_LARGEST = 1e9
"""Of weights, loads and speeds, so that sums and times stay numbers."""
_CHOICES = ("snapshot", "manifests", "journal", "trace", "generator")


class InputReader:
    """Reads inputs and the files of an experiment; `data` is what they hold, by the name of the input."""

    def __init__(self, folder: Path, findings: Findings) -> None:
        self._folder = folder
        self._findings = findings
        self.data: dict[str, dict[str, bytes]] = {}
        self.places: dict[str, Sequence[tuple[str, str, str]]] = {}
        """Name of an input -> kind, namespace and name of its objects, as far as they could be read."""

    # --- files ---

    def path(self, file: str) -> Path:
        """Where a file is that the document names."""
        return self._folder / file

    def content(self, file: str, field: str) -> bytes | None:
        """What a file holds; None and a problem if it cannot be read."""
        if file == UNREADABLE:
            return None
        try:
            return self.path(file).read_bytes()
        except FileNotFoundError:
            self._findings.problem(field, file, f"there is no file {self.path(file)}; check the path")
        except IsADirectoryError:
            self._findings.problem(field, file, "is a folder; name a file in it")
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            self._findings.problem(field, file, f"cannot be read ({reason}); make it readable")
        return None

    # --- inputs ---

    def read(self, shapes: Sequence[InputShape], seeds: Sequence[int]) -> list[dict[str, Any]]:
        """All inputs as plain values."""
        found = []
        for path, name, shape in checked_names("inputs", shapes, self._findings):
            given = [choice for choice in _CHOICES if getattr(shape, choice) is not None]
            if len(given) != 1:
                said = f"has {' and '.join(given)}" if given else "says nothing about its cluster"
                value = ABSENT if name == UNREADABLE else name
                self._findings.problem(path, value, f"{said}; write one of {', '.join(_CHOICES)}")
                continue
            before = len(self._findings.problems)
            self.data[name] = {}
            kind, settings = getattr(self, f"_{given[0]}")(path, name, shape)
            self._beside(path, name, shape, settings)
            if shape.horizon is not None:
                settings["horizon_s"] = positive(shape.horizon, f"{path}.horizon", self._findings)
                if kind == JOURNAL:
                    self._findings.problem(f"{path}.horizon", ABSENT, "a journal ends where it ends; remove it")
            one = {"name": name, "kind": kind, "settings": settings}
            if len(self._findings.problems) == before:
                self._try(path, one, seeds)
            found.append(one)
        if not shapes:
            self._findings.problem("inputs", ABSENT, "required; add at least one")
        return found

    def _try(self, path: str, given: Mapping[str, Any], seeds: Sequence[int]) -> None:
        """Make the cluster of an input once, so that everything that is wrong with it is known before all runs."""
        if given["kind"] == JOURNAL:
            return
        settings, data = given["settings"], self.data[given["name"]]
        try:
            if settings.get("order") == BY_SEED:
                known = read_trace(settings, data).orders
                missing = [seed for seed in seeds if seed not in known]
                if missing:
                    said = f"has no order of arrival for {counted(len(missing), 'seed')}, such as {missing[0]}"
                    has = ", ".join(map(str, sorted(known)[:20]))
                    self._findings.problem(f"{path}.trace.arrivals", ABSENT, f"{said}; it has {has}")
                    return
            source = make_source(given, data, seeds[0] if seeds else 0)
        except TraceError as error:
            self._findings.problems += error.problems
            return
        self._findings.problems += source.cluster.problems
        self.places[given["name"]] = [*source.cluster.places]

    def _beside(self, path: str, name: str, shape: InputShape, settings: dict[str, Any]) -> None:
        files = self._files(f"{path}.objects", shape.objects, name)
        if files:
            settings["objects"] = files

    def _files(self, path: str, files: Sequence[Any], name: str) -> list[str]:
        """Read files into the data of an input; the names that they have there."""
        found = []
        for index, file in enumerate(files):
            where = f"{path}[{index}]"
            if not isinstance(file, str):
                self._findings.problem(where, file, "must be the name of a file")
                continue
            content = self.content(file, where)
            if content is not None:
                self.data[name][file] = content
                found.append(file)
        return found

    def _snapshot(self, path: str, name: str, shape: InputShape) -> tuple[str, dict[str, Any]]:
        content = self.content(shape.snapshot or "", f"{path}.snapshot")
        if content is not None:
            self.data[name][shape.snapshot or ""] = content
        return OBJECTS, {"files": [] if content is None else [shape.snapshot]}

    def _manifests(self, path: str, name: str, shape: InputShape) -> tuple[str, dict[str, Any]]:
        if not shape.manifests:
            self._findings.problem(f"{path}.manifests", ABSENT, "is empty; name at least one file")
        return OBJECTS, {"files": self._files(f"{path}.manifests", shape.manifests or (), name)}

    def _journal(self, path: str, name: str, shape: InputShape) -> tuple[str, dict[str, Any]]:
        folder = self.path(shape.journal or "")
        try:
            files = segments(folder) if folder.is_dir() else []
        except OSError as error:
            reason = f"cannot be read ({error.strerror}); make it readable"
            self._findings.problem(f"{path}.journal", shape.journal, reason)
            return JOURNAL, {}
        if not files:
            remedy = "holds no journal; name a folder that moorage scheduler --journal wrote"
            self._findings.problem(f"{path}.journal", shape.journal, remedy)
        for file in files:
            content = self.content(str(file.resolve()), f"{path}.journal")
            if content is not None:
                self.data[name][file.name] = content
        return JOURNAL, {}

    def _trace(self, path: str, name: str, shape: InputShape) -> tuple[str, dict[str, Any]]:
        trace, path = shape.trace or TraceShape(nodes="", pods=""), f"{path}.trace"
        files = {key: text for key in ("nodes", "pods", "arrivals", "models") if (text := getattr(trace, key))}
        for key in ("nodes", "pods"):
            if key not in files:
                self._findings.problem(f"{path}.{key}", "", "required; name a CSV file")
        for key, file in files.items():
            content = self.content(file, f"{path}.{key}")
            if content is not None:
                self.data[name][key] = content
        order = trace.order or (BY_SEED if trace.arrivals else RECORDED)
        self._one_of(f"{path}.format", trace.format, tuple(FORMATS))
        self._one_of(f"{path}.order", order, ORDERS)
        self._one_of(f"{path}.gpuRequests", trace.gpu_requests, tuple(REQUESTS))
        if order == BY_SEED and not trace.arrivals:
            self._findings.problem(f"{path}.order", order, "needs a file; name it in arrivals")
        settings = {
            "files": files,
            "columns": self._columns(path, trace),
            "order": order,
            "gpu_requests": trace.gpu_requests,
            "only_gpu_nodes": trace.only_gpu_nodes,
            "durations": order == RECORDED if trace.durations is None else trace.durations,
            "interval_s": positive(trace.interval, f"{path}.interval", self._findings),
            "burst": self._number(f"{path}.burst", trace.burst, MOST_PODS),
            "load": self._above_zero(f"{path}.load", trace.load),
            "speed": self._above_zero(f"{path}.speed", trace.speed),
        }
        return TRACE, {key: value for key, value in settings.items() if value is not None}

    def _columns(self, path: str, trace: TraceShape) -> dict[str, dict[str, str]]:
        found: dict[str, dict[str, str]] = {}
        for part, fields in (("nodes", NODE_FIELDS), ("pods", POD_FIELDS)):
            given: Mapping[str, str] = getattr(trace.columns, part, {})
            for field in given:
                if field not in fields:
                    remedy = did_you_mean(field, fields)
                    self._findings.problem(f"{path}.columns.{part}.{field}", ABSENT, f"is not a field; {remedy}")
            found[part] = {**FORMATS.get(trace.format, FORMATS["csv"])[part], **given}
            if "name" not in found[part] and trace.format in FORMATS:
                self._findings.problem(f"{path}.columns.{part}.name", ABSENT, "required; name the column of names")
        return found

    def _generator(self, path: str, _name: str, shape: InputShape) -> tuple[str, dict[str, Any]]:
        made, path = shape.generator or GeneratorShape(nodes=[], pods=[]), f"{path}.generator"
        nodes = [
            {"name": name, "count": self._number(f"{where}.count", each.count, MOST_NODES),
             "capacity": each.capacity, "labels": each.labels}
            for where, name, each in checked_names(f"{path}.nodes", made.nodes, self._findings)
        ]  # fmt: skip
        pods = [
            {"name": name, "weight": self._above_zero(f"{where}.weight", each.weight) or 1.0,
             "template": self._template(f"{where}.template", each.template),
             "duration_s": positive(each.duration, f"{where}.duration", self._findings)}
            for where, name, each in checked_names(f"{path}.pods", made.pods, self._findings)
        ]  # fmt: skip
        for field, parts in (("nodes", nodes), ("pods", pods)):
            if not parts:
                self._findings.problem(f"{path}.{field}", ABSENT, "required; add at least one group")
        settings = {
            "source": self._findings.source,
            "nodes": nodes,
            "pods": pods,
            "interval_s": positive(made.interval, f"{path}.interval", self._findings) or 1.0,
            "burst": self._number(f"{path}.burst", made.burst, MOST_PODS),
            "count": self._number(f"{path}.count", made.count, MOST_PODS),
        }
        return GENERATOR, settings

    def _template(self, path: str, template: Mapping[str, Any]) -> Mapping[str, Any]:
        for field, value in template.items():
            if field not in _TEMPLATE:
                self._findings.problem(f"{path}.{field}", value, f"is not a field; {did_you_mean(field, _TEMPLATE)}")
            elif not isinstance(value, dict):
                self._findings.problem(f"{path}.{field}", value, "must be a mapping of fields to values")
        return {field: value for field, value in template.items() if isinstance(value, dict)}

    # --- values ---

    def _one_of(self, path: str, value: str, known: Sequence[str]) -> None:
        if value not in known:
            self._findings.problem(path, value, f"is unknown; write one of {', '.join(known)}")

    def _above_zero(self, path: str, value: float | None) -> float | None:
        if value is not None and not 1 / _LARGEST <= value <= _LARGEST:
            self._findings.problem(path, value, f"must be above 0, from {1 / _LARGEST:g} to {_LARGEST:g}")
        return value

    def _number(self, path: str, value: int | None, most: int) -> int:
        if value is None:
            self._findings.problem(path, ABSENT, f"required; write 1 to {most}")
        elif not 1 <= value <= most:
            self._findings.problem(path, value, f"must be 1 to {most}")
        else:
            return value
        return 1
