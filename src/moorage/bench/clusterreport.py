"""What `moorage bench cluster` prints and keeps: a table, a JSON document and a chart."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from moorage.bench.clusterrounds import Row

FILE = "cluster"
_COLUMNS: tuple[tuple[str, str, int, str], ...] = (
    ("pods/s", "pods_per_s", 9, "{:.0f}"),
    ("ratio", "ratio", 7, "{:.2f}"),
    ("of limit", "share_of_limit", 10, "{:.0%}"),
    ("CPU ms/pod", "cpu_ms_per_pod", 12, "{:.2f}"),
    ("CPU ratio", "cpu_ratio", 11, "{:.2f}"),
    ("memory MB", "peak_memory_mb", 11, "{:.0f}"),
    ("event lag s", "last_event_lag_s", 13, "{:.2f}"),
    ("worst s", "worst_event_lag_s", 9, "{:.2f}"),
    ("p50 ms", "p50_ms", 9, "{:.0f}"),
    ("p99 ms", "p99_ms", 9, "{:.0f}"),
)
"""Heading, field, width and form."""


def table(rows: Sequence[Row]) -> Iterator[str]:
    """The lines of the table; what was not measured is a dash."""
    yield f"{'workload':<20}{'scheduler':<16}" + "".join(f"{heading:>{width}}" for heading, _, width, _ in _COLUMNS)
    for row in rows:
        values = row.document()
        cells = (f"{_cell(values[field], form):>{width}}" for _, field, width, form in _COLUMNS)
        yield f"{row.workload:<20}{row.contender:<16}" + "".join(cells)


def _cell(value: float | None, form: str) -> str:
    return "-" if value is None else form.format(value)


def notes(rows: Sequence[Row]) -> Iterator[str]:
    """What the table does not say and a reader has to know, one line each."""
    for row in rows:
        if row.lost_events:
            yield f"{row.workload}: {row.contender} wrote no Scheduled event for {row.lost_events} pods"
        if row.unbound:
            yield f"{row.workload}: {row.contender} left {row.unbound} pods without a node; figures are of the others"


def write_document(document: Mapping[str, Any], folder: Path) -> Path:
    """Write the JSON document; the path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{FILE}.json"
    path.write_text(json.dumps(document, indent=1) + "\n")
    return path
