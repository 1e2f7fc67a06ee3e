"""Recorded clusters in CSV files: their nodes as objects, and their pods in the order in which they came, or another.

Every cell that cannot be read is a problem with its line and column; the most that are named is `_MOST_PROBLEMS`.
"""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from moorage.core.quantity import QuantityError, amount
from moorage.core.resources import CPU, MEMORY
from moorage.wire.problems import ABSENT, Problem

OPENB: Mapping[str, Mapping[str, str]] = {
    "nodes": {"name": "sn", "cpuMilli": "cpu_milli", "memoryMib": "memory_mib", "gpus": "gpu", "model": "model"},
    "pods": {
        "name": "name",
        "cpuMilli": "cpu_milli",
        "memoryMib": "memory_mib",
        "gpus": "num_gpu",
        "gpuMilli": "gpu_milli",
        "models": "gpu_spec",
        "created": "creation_time",
        "started": "scheduled_time",
        "deleted": "deletion_time",
    },
}
"""The columns of Alibaba's GPU trace of 2023."""
FORMATS: Mapping[str, Mapping[str, Mapping[str, str]]] = {"openb": OPENB, "csv": {"nodes": {}, "pods": {}}}
NODE_FIELDS = ("name", "cpu", "cpuMilli", "memory", "memoryMib", "gpus", "model")
POD_FIELDS = (
    "name", "namespace", "queue", "priority", "cpu", "cpuMilli", "memory", "memoryMib", "gpus", "gpuMilli", "models",
    "created", "started", "deleted", "duration",
)  # fmt: skip
_MIB = 1 << 20
_MOST_PROBLEMS = 20
_MOST_BYTES = 1 << 30
"""Of a file that is compressed."""
_MOST_ROWS = 2_000_000
_LARGEST = 1 << 53
_HIGHEST = 1 << 31
"""More than the priority of any pod."""
_WHOLE = 1000


class TraceNode(NamedTuple):
    """One line of nodes."""

    name: str
    cpu_milli: int
    memory_bytes: int
    gpus: int
    model: str


class TracePod(NamedTuple):
    """One line of pods."""

    name: str
    namespace: str
    queue: str
    priority: int
    cpu_milli: int
    memory_bytes: int
    gpus: int
    gpu_milli: int
    """Of each GPU, in thousandths."""
    models: str
    """The models that will do, separated by `|`; empty for any."""
    created_s: float
    run_s: float | None

    @property
    def kind(self) -> tuple[Any, ...]:
        """What pods of one template have in common."""
        return self[1:9]


class Trace(NamedTuple):
    """What the files of a trace say."""

    nodes: Sequence[TraceNode]
    pods: Sequence[TracePod]
    orders: Mapping[int, Sequence[int]]
    """Seed -> the lines of pods in the order of their arrival, where a file has orders."""


class TraceError(ValueError):
    """A trace that cannot be read; `problems` says why, one line each."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("; ".join(map(str, problems)))
        self.problems = tuple(problems)


def read_trace(settings: Mapping[str, Any], data: Mapping[str, bytes]) -> Trace:
    """Read the files `nodes`, `pods` and, where they are given, `arrivals` and `models`; `TraceError` if one is wrong.

    `settings` has `columns` (`nodes` and `pods`: field -> column) and `files` (what messages call the files). The
    latest trace is kept, as a process computes many combinations of one input.
    """
    columns = tuple((part, tuple(fields.items())) for part, fields in settings["columns"].items())
    return _read(tuple(settings["files"].items()), columns, tuple(data.items()))


@lru_cache(maxsize=1)
def _read(
    files: tuple[tuple[str, str], ...],
    fields: tuple[tuple[str, tuple[tuple[str, str], ...]], ...],
    contents: tuple[tuple[str, bytes], ...],
) -> Trace:
    names, data = dict(files), dict(contents)
    columns = {part: dict(each) for part, each in fields}
    problems: list[Problem] = []
    nodes = [*_rows(names["nodes"], data["nodes"], columns["nodes"], _node, problems)]
    models = _models(names["models"], data["models"], problems) if "models" in data else {}

    def pod(cells: _Cells) -> TracePod:
        found = _pod(cells)
        return found._replace(models=models[found.name]) if found.name in models else found

    pods = [*_rows(names["pods"], data["pods"], columns["pods"], pod, problems)]
    problems += _repeated(names["nodes"], nodes)
    orders = _orders(names["arrivals"], data["arrivals"], len(pods), problems) if "arrivals" in data else {}
    if problems:
        raise TraceError(problems[:_MOST_PROBLEMS])
    return Trace(nodes, pods, orders)


class _Cells:
    """The cells of a line, by field."""

    def __init__(self, cells: Mapping[str, str | None], columns: Mapping[str, str]) -> None:
        self._cells, self._columns = cells, columns

    def text(self, field: str, default: str = "") -> str:
        column = self._columns.get(field)
        return ((self._cells.get(column) or "").strip() if column is not None else "") or default

    def number(self, field: str, default: float = 0, most: int = _LARGEST) -> float:
        text = self.text(field)
        if not text:
            return default
        try:
            value = float(text)
        except ValueError:
            value = -1.0
        if not 0 <= value < most:  # not a number, neither
            said = "must be a number, 0 or more" if most == _LARGEST else f"must be a number from 0 to {most - 1}"
            raise _CellError(self._columns[field], text, said)
        return value

    def amount(self, resource: str, quantity: str, units: str, unit: int) -> int:
        """A resource, as a quantity or in units."""
        text = self.text(quantity)
        if not text:
            return round(self.number(units) * unit)
        try:
            found = amount(resource, text)
        except QuantityError as error:
            raise _CellError(self._columns[quantity], text, str(error)) from None
        if found < 0:
            raise _CellError(self._columns[quantity], text, "must not be negative")
        return found


class _CellError(ValueError):
    def __init__(self, column: str, value: str, message: str) -> None:
        super().__init__(message)
        self.column, self.value, self.message = column, value, message


def _node(cells: _Cells) -> TraceNode:
    return TraceNode(
        cells.text("name"),
        cells.amount(CPU, "cpu", "cpuMilli", 1),
        cells.amount(MEMORY, "memory", "memoryMib", _MIB),
        int(cells.number("gpus")),
        cells.text("model"),
    )


def _pod(cells: _Cells) -> TracePod:
    created_s = cells.number("created")
    run_s: float | None = cells.number("duration", -1)
    if run_s is not None and run_s < 0:
        deleted_s = cells.number("deleted", -1)
        run_s = None if deleted_s < 0 else max(deleted_s - cells.number("started", created_s), 0.0)
    gpus = int(cells.number("gpus"))
    return TracePod(
        cells.text("name"),
        cells.text("namespace", "default"),
        cells.text("queue"),
        int(cells.number("priority", most=_HIGHEST)),
        cells.amount(CPU, "cpu", "cpuMilli", 1),
        cells.amount(MEMORY, "memory", "memoryMib", _MIB),
        gpus,
        int(cells.number("gpuMilli", _WHOLE)) if gpus else 0,
        cells.text("models"),
        created_s,
        run_s,
    )


def _rows(
    file: str, data: bytes, columns: Mapping[str, str], read: Callable[[_Cells], Any], problems: list[Problem]
) -> Iterator[Any]:
    reader = csv.DictReader(_lines(file, data, problems))
    try:
        header = reader.fieldnames or ()
        missing = [column for column in columns.values() if column not in header]
        for column in missing:
            known = f"; it has {', '.join(header)}" if header else "; the file is empty"
            problems.append(Problem(file, "", column, f"there is no such column{known}"))
        if missing:
            return
        for cells in reader:
            if reader.line_num > _MOST_ROWS or len(problems) > _MOST_PROBLEMS:
                problems.append(Problem(f"{file}:{reader.line_num}", "", ABSENT, "no more is read; shorten the file"))
                return
            try:
                yield _named(read(_Cells(cells, columns)), columns["name"])
            except _CellError as error:
                problems.append(Problem(f"{file}:{reader.line_num}", error.column, error.value, error.message))
    except csv.Error as error:
        problems.append(Problem(f"{file}:{reader.line_num}", "", ABSENT, f"is not CSV: {error}"))


def _named(row: Any, column: str) -> Any:
    if not row.name:
        raise _CellError(column, "", "required; write a name")
    return row


def _lines(file: str, data: bytes, problems: list[Problem]) -> Iterator[str]:
    """The lines of a text that may be compressed with gzip."""
    if data[:2] == b"\x1f\x8b":
        try:
            with gzip.GzipFile(fileobj=io.BytesIO(data)) as packed:
                data = packed.read(_MOST_BYTES + 1)
        except (OSError, EOFError, zlib.error) as error:
            problems.append(Problem(file, "", ABSENT, f"is not gzip: {error}"))
            return iter(())
        if len(data) > _MOST_BYTES:
            problems.append(Problem(file, "", ABSENT, f"is larger than {_MOST_BYTES} bytes; shorten it"))
            return iter(())
    return iter(io.StringIO(data.decode("utf-8-sig", errors="replace"), newline=""))


def _models(file: str, data: bytes, problems: list[Problem]) -> dict[str, str]:
    """Name of a pod -> the models that it requires, from a file whose first two columns say so."""
    return {row[0]: row[1] for row in _plain(file, data, problems) if len(row) > 1}


def _orders(file: str, data: bytes, pods: int, problems: list[Problem]) -> dict[int, Sequence[int]]:
    """Seed -> numbers of lines, from lines `SEED,pods,NUMBER,NUMBER,...`; other lines are passed over."""
    found: dict[int, Sequence[int]] = {}
    for number, row in enumerate(_plain(file, data, problems), 1):
        if row[1:2] != ["pods"] or not row[2:]:
            continue
        try:
            found[int(row[0])] = order = [*map(int, row[2:])]
        except ValueError:
            problems.append(Problem(f"{file}:{number}", "", ABSENT, "must be a seed, `pods`, and numbers of lines"))
            continue
        if min(order) < 0 or max(order) >= pods:
            worst = max(order) if max(order) >= pods else min(order)
            problems.append(Problem(f"{file}:{number}", "", worst, f"there are {pods} pods, counted from 0"))
    if not found and not problems:
        problems.append(Problem(file, "", ABSENT, "has no line `SEED,pods,NUMBER,...`"))
    return found


def _plain(file: str, data: bytes, problems: list[Problem]) -> Iterator[list[str]]:
    csv.field_size_limit(_MOST_BYTES)
    try:
        yield from csv.reader(_lines(file, data, problems))
    except csv.Error as error:
        problems.append(Problem(file, "", ABSENT, f"is not CSV: {error}"))


def _repeated(file: str, nodes: Sequence[TraceNode]) -> Iterator[Problem]:
    seen: set[str] = set()
    for node in nodes:
        if node.name in seen:
            yield Problem(file, "", node.name, "stands twice; give each node a name of its own")
        seen.add(node.name)
    if not nodes:
        yield Problem(file, "", ABSENT, "has no nodes")
