"""Where many independent computations run: on the cores of this machine, or on a Dask cluster.

A runner is given a function of a module, called with plain values only, and jobs for it: `asked`, and the name of the
`data` that it needs, which goes to each place once. It yields the answers as they come, each with the name of its job.
A job whose process dies is tried again; if it dies once more, the answer is a text that says so.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import Any, NamedTuple, Protocol, TypeAlias

Data: TypeAlias = Mapping[str, bytes]
Function: TypeAlias = Callable[[Mapping[str, Any], Data], dict[str, Any]]


class Job(NamedTuple):
    """One call."""

    asked: Mapping[str, Any]
    data: str
    """The name of what it needs."""


class JobAnswer(NamedTuple):
    """What came of a job: either of the two."""

    job: str
    value: dict[str, Any] | None
    problem: str = ""


class JobRunner(Protocol):
    """Runs jobs."""

    def run(
        self, function: Function, jobs: Mapping[str, Job], data: Mapping[str, Data]
    ) -> Generator[JobAnswer, None, None]:
        """Run all jobs; answers come in any order. Closing the iterator ends what is left."""


class RunnerError(ValueError):
    """A runner that cannot be used; the text is one line that says why, and what to do."""
