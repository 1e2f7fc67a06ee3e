"""What a process that computes combinations calls: plain values in, plain values out, never an exception.

It stands above the simulator since it finds the plugins that are installed where it runs.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Mapping
from functools import cache
from importlib.metadata import version
from typing import Any

from moorage.adapters.process import tune_process
from moorage.app.plugins import find_plugins
from moorage.framework.registry import Registry
from moorage.sim.experiments.running import CombinationError, run_combination


def run_job(asked: Mapping[str, Any], data: Mapping[str, bytes]) -> dict[str, Any]:
    """Run one combination (`running.run_combination`): its `result`, or `problems`; `seconds` of CPU; our `version`."""
    registry = _registry()
    began_s = time.process_time()
    answer: dict[str, Any] = {"version": version("moorage")}
    try:
        answer["result"] = run_combination(asked, data, registry)
    except CombinationError as error:
        answer["problems"] = list(error.problems)
    except Exception as error:  # noqa: BLE001 - a fault in one combination must not end the others
        answer["problems"] = [f"internal error: {type(error).__name__}: {' '.join(str(error).split())}"]
    gc.collect()  # parts of an engine refer to each other, and the collector runs rarely: each one would stay for long
    answer["seconds"] = time.process_time() - began_s
    return answer


@cache
def _registry() -> Registry:
    tune_process()
    return find_plugins().registry
