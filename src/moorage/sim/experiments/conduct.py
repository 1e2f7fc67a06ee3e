"""All combinations of an experiment: what was computed before is taken from the folder, the rest goes to a runner."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import field
from typing import Any

from moorage.adapters.computing import Function, Job, JobAnswer, JobRunner
from moorage.core.values import dataclass
from moorage.sim.experiments.document import Combination, Experiment, combination_digest, data_digest
from moorage.sim.experiments.results import ResultFolder, ResultRow, rows_of


@dataclass(frozen=True, slots=True)
class ExperimentProgress:
    """How far it is."""

    done: int
    """Combinations with a result, those of earlier runs included."""
    failed: int
    before: int
    """Combinations that were there already."""
    number: int


@dataclass(slots=True)
class Conducted:
    """What came of an experiment."""

    answers: dict[Combination, Mapping[str, Any]] = field(default_factory=dict)
    """In the order of the experiment: `result`, `seconds`."""
    failures: dict[Combination, Sequence[str]] = field(default_factory=dict)
    """Combination -> why it has no result, one line each."""

    def rows(self) -> Iterator[ResultRow]:
        """The figures of all combinations that have a result."""
        for combination, answer in self.answers.items():
            yield from rows_of(combination, answer["result"])

    def times(self) -> Iterator[tuple[Combination, int, float]]:
        """Combination, decisions, seconds of CPU."""
        for combination, answer in self.answers.items():
            yield combination, answer["result"]["decisions"], answer["seconds"]

    def warnings(self) -> list[str]:
        """What the simulations warned of, each once."""
        found = (
            f"{each.input}: {text}" for each, answer in self.answers.items() for text in answer["result"]["warnings"]
        )
        return list(dict.fromkeys(found))


def conduct(
    experiment: Experiment,
    folder: ResultFolder,
    runner: Callable[[int], JobRunner],
    function: Function,
    version: str,
    tell: Callable[[ExperimentProgress], None],
) -> Conducted:
    """Run everything that has no result yet; `runner` is asked for with the number of jobs, and only if there are any.

    `function` is called with what a combination asks for and the data of its input, and returns `result` or `problems`,
    `seconds` and `version`: results of another version of Moorage than this one are not taken.
    """
    data = {name: data_digest(each) for name, each in experiment.data.items()}
    wanted: dict[str, list[Combination]] = {}
    for each in experiment.combinations():
        wanted.setdefault(combination_digest(each.asked, data[each.input], version), []).append(each)
    found = {digest: known for digest in wanted if (known := folder.find(digest)) is not None}
    failed: dict[str, Sequence[str]] = {}
    jobs = {digest: Job(same[0].asked, same[0].input) for digest, same in wanted.items() if digest not in found}
    before = sum(len(wanted[digest]) for digest in found)

    def progress() -> ExperimentProgress:
        done, lost = (sum(len(wanted[digest]) for digest in each) for each in (found, failed))
        return ExperimentProgress(done, lost, before, experiment.number)

    tell(progress())
    if jobs:
        with closing(runner(len(jobs)).run(function, jobs, experiment.data)) as answers:
            for answer in answers:
                value, problems = _judged(answer, version)
                if value is not None:
                    folder.keep(answer.job, value)
                    found[answer.job] = value
                else:
                    failed[answer.job] = problems
                tell(progress())
    return _collected(wanted, found, failed)


def _judged(answer: JobAnswer, version: str) -> tuple[dict[str, Any] | None, Sequence[str]]:
    value = answer.value
    if value is None:
        return None, [answer.problem]
    if value.get("version") != version:
        return None, [f"a worker has Moorage {value.get('version')}, and this is {version}; install the same there"]
    if "result" not in value:
        return None, value.get("problems") or ["no reason is known"]
    return value, ()


def _collected(
    wanted: Mapping[str, Sequence[Combination]],
    found: Mapping[str, Mapping[str, Any]],
    failed: Mapping[str, Sequence[str]],
) -> Conducted:
    digests = {each.key: (digest, each) for digest, same in wanted.items() for each in same}
    conducted = Conducted()
    for digest, each in digests.values():
        if digest in found:
            conducted.answers[each] = found[digest]
        elif digest in failed:
            conducted.failures[each] = failed[digest]
    return conducted
