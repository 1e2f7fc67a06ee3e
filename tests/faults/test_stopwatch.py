"""The stopwatch reads what kube-apiserver writes down."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.faults.stopwatch import waits, writes


def _line(name: str, second: float, *, part: str = "", code: int = 201, namespace: str = "run") -> str:
    about = {"resource": "pods", "namespace": namespace, "name": name} | ({"subresource": part} if part else {})
    event: dict[str, Any] = {"objectRef": about, "responseStatus": {"code": code}}
    event["userAgent"] = "moorage" if part else "lab"
    event |= {"requestReceivedTimestamp": _time(second - 0.125), "stageTimestamp": _time(second)}
    return json.dumps(event) + "\n"


def _time(second: float) -> str:
    return f"2026-01-01T00:00:{second:09.6f}Z"


def test_pods_wait_from_their_creation_to_the_bind_that_was_taken(tmp_path: Path) -> None:
    """Refused binds, other pods and a line that is being written do not count; a busy API server is not our fault."""
    log = tmp_path / "audit.log"
    lines = [_line(f"good-{number}", 1.0) for number in range(4)]
    lines += [_line("good-0", 1.5, part="binding", code=409), _line("good-0", 3.0, part="binding")]
    lines += [_line("good-1", 1.125, part="binding"), _line("good-2", 2.0, part="binding")]
    lines += [_line("other", 1.0), _line("other", 9.0, part="binding"), _line("good-0", 9.0, namespace="evil")]
    log.write_text("".join([*lines, _line("good-3", 9.0, part="binding")[:-5]]))
    found = waits(log, "run", "good")
    assert (found.seconds, found.creating_s) == ([0.125, 1.0, 2.0], [0.125] * 4)
    assert [found.part_s(part) for part in (0.0, 0.5, 0.99)] == [0.125, 1.0, 2.0]
    assert [found.own_s(part) for part in (0.0, 0.5, 0.99)] == [0.0, 0.75, 1.75]
    assert writes(log, "run", "moorage") == 5


def test_nobody_waits_for_ever_unnoticed(tmp_path: Path) -> None:
    """No bind is no good figure."""
    log = tmp_path / "audit.log"
    log.write_text(_line("good-0", 1.0))
    found = waits(log, "run", "good")
    assert found.part_s(0.5) == found.own_s(0.5) == float("inf")
