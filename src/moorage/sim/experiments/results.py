"""The results of an experiment in a folder: each combination as soon as it is computed, and tables of all of them.

`combinations/DIGEST.json` holds one combination, written at once or not at all; the digest says what it was made of, so
that a run that was interrupted goes on where it stopped, and one whose file has changed computes what has changed only.
Tables have a row for each combination and measure, in the order of the experiment; how long things took is apart
(`times.csv`), so that equal experiments have equal tables, byte by byte.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from moorage.sim.experiments.document import Combination

RESULTS_CSV, RESULTS_PARQUET, TIMES_CSV, REPORT_HTML = "results.csv", "results.parquet", "times.csv", "report.html"
_COMBINATIONS = "combinations"
_LARGEST = 1e100
"""Squares of such values are still numbers."""


class ResultRow(NamedTuple):
    """One figure of one combination."""

    input: str
    configuration: str
    change: str
    seed: int
    measure: str
    of: str
    value: float
    unit: str


class ResultsError(ValueError):
    """Results that cannot be read or written; the text is one line."""


def _is_answer(found: object) -> bool:
    """Whether a file has everything that tables and reports need: it may be damaged, or not be ours."""
    try:
        msgspec.convert(found, _KeptAnswer)
    except msgspec.ValidationError:
        return False
    return True


class _KeptResult(msgspec.Struct):
    rows: list[tuple[str, str, float, str]]
    series: dict[str, list[tuple[float, float]]]
    decisions: int
    warnings: list[str]


class _KeptAnswer(msgspec.Struct):
    result: _KeptResult
    seconds: float


class ResultFolder:
    """Where the results of an experiment are."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            (path / _COMBINATIONS).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ResultsError(f"{path}: cannot be made ({error.strerror}); name another folder") from None

    def find(self, digest: str) -> dict[str, Any] | None:
        """What was computed before; None if it was not, or cannot be read."""
        try:
            found = msgspec.json.decode((self.path / _COMBINATIONS / f"{digest}.json").read_bytes())
        except (OSError, msgspec.DecodeError, UnicodeDecodeError):
            return None
        return found if _is_answer(found) else None

    def keep(self, digest: str, answer: Mapping[str, Any]) -> None:
        """Write what was computed."""
        self._write(f"{_COMBINATIONS}/{digest}.json", msgspec.json.encode(answer))

    def write(self, name: str, content: bytes) -> Path:
        """Write a table or a report; the file it is in."""
        return self._write(name, content)

    def _write(self, name: str, content: bytes) -> Path:
        path = self.path / name
        unfinished = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            unfinished.write_bytes(content)
            unfinished.replace(path)
        except OSError as error:
            raise ResultsError(
                f"{path}: cannot be written ({error.strerror}); make room, or name another folder"
            ) from None
        return path


def rows_of(combination: Combination, result: Mapping[str, Any]) -> Iterator[ResultRow]:
    """The figures of a combination."""
    for measure, of, value, unit in result["rows"]:
        yield ResultRow(*combination.key, measure, of, float(value), unit)


# --- tables ---


def csv_bytes(rows: Iterable[ResultRow]) -> bytes:
    """A table as CSV; numbers are as short as they can be without losing anything."""
    return _table(ResultRow._fields, ((*row[:6], repr(row.value), row.unit) for row in rows))


def times_bytes(times: Iterable[tuple[Combination, int, float]]) -> bytes:
    """Of each combination how many decisions it took, and how many seconds of CPU."""
    columns = ("input", "configuration", "change", "seed", "decisions", "seconds")
    return _table(columns, ((*each.key, decisions, f"{seconds:.3f}") for each, decisions, seconds in times))


def _table(columns: Iterable[str], rows: Iterable[Iterable[object]]) -> bytes:
    out = StringIO(newline="")
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    return out.getvalue().encode()


def parquet_bytes(rows: Iterable[ResultRow]) -> bytes:
    """The same as Parquet; `ResultsError` where pyarrow is not installed."""
    pa, parquet = _pyarrow()
    columns = list(zip(*rows, strict=True)) or [() for _ in ResultRow._fields]
    types = [pa.string(), pa.string(), pa.string(), pa.int64(), pa.string(), pa.string(), pa.float64(), pa.string()]
    arrays = [pa.array(column, kind) for column, kind in zip(columns, types, strict=True)]
    sink = pa.BufferOutputStream()
    parquet.write_table(pa.table(arrays, names=list(ResultRow._fields)), sink)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def _pyarrow() -> tuple[Any, Any]:
    """The library and its part for Parquet: large, and only for this format."""
    try:
        return import_module("pyarrow"), import_module("pyarrow.parquet")
    except ImportError:
        raise ResultsError("pyarrow is not installed; run pip install 'moorage[parquet]', or use CSV") from None


# --- reading tables ---


def read_results(path: Path) -> list[ResultRow]:
    """The rows of a folder, a CSV file or a Parquet file; `ResultsError` if they cannot be read."""
    if path.is_dir():
        found = [path / name for name in (RESULTS_CSV, RESULTS_PARQUET) if (path / name).exists()]
        if not found:
            raise ResultsError(f"{path}: holds no {RESULTS_CSV}; name a folder that moorage experiment run wrote")
        path = max(found, key=lambda each: each.stat().st_mtime)
    try:
        records = _parquet_records(path) if path.suffix == ".parquet" else _csv_records(path)
        return [_row(path, number, record) for number, record in enumerate(records, 2)]
    except OSError as error:
        raise ResultsError(f"{path}: cannot be read ({error.strerror or error}); check the path") from None


def _csv_records(path: Path) -> list[Mapping[str, Any]]:
    try:
        with path.open(newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))
    except (csv.Error, UnicodeDecodeError) as error:
        raise ResultsError(f"{path}: is not CSV ({error})") from None


def _parquet_records(path: Path) -> list[Mapping[str, Any]]:
    pa, parquet = _pyarrow()
    try:
        records: list[Mapping[str, Any]] = parquet.read_table(path).to_pylist()
    except pa.ArrowInvalid as error:
        raise ResultsError(f"{path}: is not Parquet ({' '.join(str(error).split())})") from None
    return records


def _row(path: Path, number: int, record: Mapping[str, Any]) -> ResultRow:
    missing = [name for name in ResultRow._fields if record.get(name) is None]
    if missing:
        raise ResultsError(f"{path}:{number}: has no {missing[0]}; name a table that moorage experiment run wrote")
    texts = {name: str(record[name]) for name in ResultRow._fields}
    try:
        row = ResultRow(**{**texts, "seed": int(texts["seed"]), "value": float(texts["value"])})  # type: ignore[arg-type]
    except ValueError:
        raise ResultsError(f"{path}:{number}: seed or value is no number; name another table") from None
    if not abs(row.value) <= _LARGEST:  # not a number, neither
        raise ResultsError(f"{path}:{number}: value: {row.value} is no figure of a run; name another table")
    return row
