"""Jobs on the cores of this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from moorage.adapters.computing import Job, JobAnswer
from moorage.adapters.computing.processes import LocalProcesses
from tests.experiments import jobs

DATA = {"ten": {"number": b"10"}, "twenty": {"number": b"20"}}


def job(number: int, data: str = "ten", **more: Any) -> Job:
    """Adds a number to ten or twenty."""
    return Job({"number": number, **more}, data)


def sums(answers: list[JobAnswer]) -> dict[str, int]:
    """Job -> its sum, of those that have one."""
    return {each.job: each.value["sum"] for each in answers if each.value is not None}


def test_every_job_is_answered() -> None:
    """Whatever the order; each with its own data."""
    asked = {f"job-{number}": job(number, "ten" if number % 2 else "twenty") for number in range(10)}
    answers = [*LocalProcesses(2).run(jobs.add, asked, DATA)]
    assert sums(answers) == {f"job-{number}": number + (10 if number % 2 else 20) for number in range(10)}
    processes = {each.value["process"] for each in answers if each.value is not None}
    assert 1 <= len(processes) <= 2


def test_a_job_of_a_killed_process_is_done_again(tmp_path: Path) -> None:
    """Nothing is lost."""
    asked = {f"job-{number}": job(number) for number in range(6)}
    asked["job-2"] = job(2, mark=str(tmp_path / "mark"))
    answers = [*LocalProcesses(2).run(jobs.die_once, asked, DATA)]
    assert (tmp_path / "mark").exists()
    assert sums(answers) == {f"job-{number}": number + 10 for number in range(6)}


def test_a_job_that_kills_its_process_concerns_no_other() -> None:
    """It is given up and the answer says why; all others are done."""
    asked = {f"job-{number}": job(number, deadly=number == 3) for number in range(6)}
    answers = {each.job: each for each in LocalProcesses(2).run(jobs.die, asked, DATA)}
    assert "signal 9" in answers["job-3"].problem
    assert answers["job-3"].value is None
    assert sums([*answers.values()]) == {f"job-{number}": number + 10 for number in range(6) if number != 3}


def test_no_process_outlives_an_iterator_that_is_closed() -> None:
    """As after an interrupt."""
    runner = LocalProcesses(2)
    answers = runner.run(jobs.add, {f"job-{number}": job(number) for number in range(10)}, DATA)
    next(answers)
    assert runner.pids
    answers.close()
    assert not runner.pids
