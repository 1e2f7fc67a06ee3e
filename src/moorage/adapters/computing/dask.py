"""Jobs on a Dask cluster, whose workers need nothing but the wheel of Moorage.

Data goes to the cluster as a task of its own, not as scattered values: a task is computed again where a worker that had
its result is lost. Jobs of lost workers are tried again by Dask itself.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Generator, Mapping
from importlib import import_module
from typing import Any

from moorage.adapters.computing import Data, Function, Job, JobAnswer, RunnerError

_CONNECT_S = 10
_AT_ONCE = 1_000
"""Jobs that the cluster knows of at a time."""
_UNDER_WAY = ("pending", "lost")
"""What Dask says of a job that is computed again: its worker was lost after it was done, and its result with it."""
_SETTINGS = {"distributed.admin.large-graph-warning-threshold": "10GB"}


def carry(data: Data) -> Data:
    """A task whose result is the data."""
    return data


class DaskCluster:
    """A runner on the cluster of a scheduler, such as `tcp://10.0.0.1:8786`."""

    def __init__(self, address: str) -> None:
        try:
            self._distributed: Any = import_module("distributed")
            self._config: Any = import_module("dask.config")
        except ImportError as error:
            raise RunnerError(f"{error.name} is not installed; run pip install 'moorage[dask]'") from None
        logging.getLogger("distributed").setLevel(logging.CRITICAL)
        try:
            self._distributed.comm.resolve_address(address)  # a client that cannot even try is never closed
            with self._config.set(_SETTINGS):
                self._client = self._distributed.Client(address, timeout=_CONNECT_S, set_as_default=False)
        except (OSError, ValueError, TypeError) as error:
            reason = " ".join(str(error).split()) or type(error).__name__
            raise RunnerError(f"{address}: no Dask scheduler answers ({reason}); check the address") from None

    def run(
        self, function: Function, jobs: Mapping[str, Job], data: Mapping[str, Data]
    ) -> Generator[JobAnswer, None, None]:
        """Run all jobs; see `JobRunner`."""
        waiting = deque(jobs)
        names: dict[Any, str] = {}
        try:
            with self._config.set(_SETTINGS):
                carried = {name: self._client.submit(carry, dict(each), pure=False) for name, each in data.items()}
                done = self._distributed.as_completed(loop=self._client.loop, raise_errors=False)
                self._fill(waiting, names, done, function, jobs, carried)
                for future in done:
                    if future.status in _UNDER_WAY:
                        done.add(future)
                        continue
                    yield self._answer(future, names.pop(future.key))
                    future.release()
                    self._fill(waiting, names, done, function, jobs, carried)
        finally:
            self._client.close()

    def _fill(
        self,
        waiting: deque[str],
        names: dict[Any, str],
        done: Any,
        function: Function,
        jobs: Mapping[str, Job],
        carried: Mapping[str, Any],
    ) -> None:
        while waiting and len(names) < _AT_ONCE:
            name = waiting.popleft()
            asked, data = jobs[name]
            future = self._client.submit(function, asked, carried[data], pure=False)
            names[future.key] = name
            done.add(future)

    def _answer(self, future: Any, name: str) -> JobAnswer:
        if future.status == "finished":
            return JobAnswer(name, future.result())
        error = future.exception() if future.status == "error" else None
        reason = f"{type(error).__name__}: {' '.join(str(error).split())}" if error is not None else future.status
        return JobAnswer(name, None, f"the Dask cluster could not compute it: {reason}")
