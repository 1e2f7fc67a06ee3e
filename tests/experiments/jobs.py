"""What processes of tests compute."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from moorage.cli.experiment_jobs import run_job


def add(asked: Mapping[str, Any], data: Mapping[str, bytes]) -> dict[str, Any]:
    """A sum."""
    return {"sum": asked["number"] + int(data["number"]), "process": os.getpid()}


def die_once(asked: Mapping[str, Any], data: Mapping[str, bytes]) -> dict[str, Any]:
    """The same; the process of the first job that finds no mark is killed."""
    mark = Path(asked["mark"]) if "mark" in asked else None
    if mark is not None and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return add(asked, data)


def die(asked: Mapping[str, Any], data: Mapping[str, bytes]) -> dict[str, Any]:
    """The same, but for jobs that are deadly."""
    if asked.get("deadly"):
        os.kill(os.getpid(), signal.SIGKILL)
    return add(asked, data)


def refuse_one(asked: Mapping[str, Any], data: Mapping[str, bytes]) -> dict[str, Any]:
    """A combination, but for one seed."""
    if asked["seed"] == 1:
        raise MemoryError("too large")
    return run_job(asked, data)
