"""`moorage tune`: what is found, whether it is better, and that the same file gives the same answer."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from moorage.cli.experiment_jobs import run_job
from moorage.cli.main import run
from moorage.sim.experiments.comparing import DifferenceVerdict
from moorage.sim.experiments.conduct import Conducted, ExperimentProgress
from moorage.sim.experiments.document import Experiment
from moorage.sim.experiments.searches import TuningGoal
from moorage.sim.tuning.halves import TuningError, halves_of
from moorage.sim.tuning.judging import choose, front, thinned
from moorage.sim.tuning.searching import Searched, TriedConfiguration
from moorage.sim.tuning.stages import Tuned, run_appraisal, run_search
from tests.tuning.clusters import CLUSTER, SEARCH, document, experiment_of, write_document

UP, DOWN = TuningGoal("allocated", "cpu", larger=True), TuningGoal("pending", "", larger=False)
BOTH = [{"measure": "allocated", "of": "cpu"}, {"measure": "placed"}]


class Bench:
    """Runs combinations in this process, and counts those that are new."""

    def __init__(self) -> None:
        self.known: dict[str, dict[str, Any]] = {}
        self.asked: list[Mapping[str, Any]] = []

    def conduct(self, experiment: Experiment, tell: Any) -> Conducted:
        found = Conducted()
        for each in experiment.combinations():
            key = json.dumps(each.asked, sort_keys=True)
            if key not in self.known:
                self.asked.append(each.asked)
                self.known[key] = run_job(each.asked, experiment.data[each.input])
            found.answers[each] = self.known[key]
        tell(ExperimentProgress(len(found.answers), 0, 0, experiment.number))
        return found


def tuned_by(bench: Bench, experiment: Experiment, choice: int | None = None) -> Tuned:
    assert experiment.search is not None
    halves = halves_of(experiment, experiment.search)
    searched = run_search(halves, experiment.search, bench.conduct, lambda _: None)
    return run_appraisal(halves, experiment.search, searched, bench.conduct, lambda _: None, choice)


def test_packing_is_found_and_is_better_where_it_was_not_searched(tmp_path: Path) -> None:
    """Spreading leaves no room for large pods; the search finds that out, and the other half agrees."""
    bench = Bench()
    tuned = tuned_by(bench, experiment_of(tmp_path, document()))
    assert tuned.appraisal.better
    (((compared,),)) = tuned.appraisal.objectives
    assert compared.verdict is DifferenceVerdict.BETTER
    assert compared.after > compared.before + 0.1
    splits = {tuple(asked["split"]) for asked in bench.asked}
    assert splits == {(0, 2), (1, 2)}
    judged = [asked for asked in bench.asked if asked["split"] == [1, 2]]
    assert {asked["configuration"] for asked in judged} == {"", tuned.front[tuned.chosen].text}


def test_the_same_file_gives_the_same_trials(tmp_path: Path) -> None:
    """However often, and the first trial is what there is today; another seed searches elsewhere."""
    first, second, other = (
        tuned_by(Bench(), experiment_of(tmp_path, document(search={**SEARCH, "trials": 8, "seed": seed})))
        for seed in (0, 0, 1)
    )
    assert first.searched == second.searched
    assert first.rows == second.rows
    assert [each.values for each in first.searched.trials] != [each.values for each in other.searched.trials]
    today = first.searched.trials[0].values
    assert (today["NodeResourcesFit weight"], today["NodeResourcesBalancedAllocation weight"]) == (1, 1)


def test_two_objectives_have_a_front(tmp_path: Path) -> None:
    """No compromise is beaten by another, and one may be chosen by its number."""
    experiment = experiment_of(tmp_path, document(search={**SEARCH, "objectives": BOTH}))
    tuned = tuned_by(Bench(), experiment, choice=0)
    assert tuned.chosen == 0
    for one in tuned.front:
        assert not any(
            other.objectives != one.objectives
            and all(a >= b for a, b in zip(other.objectives, one.objectives, strict=True))
            for other in tuned.searched.valid
        )
    with pytest.raises(TuningError, match="--choose: there are"):
        tuned_by(Bench(), experiment, choice=99)


def test_inputs_without_arrivals_are_divided_by_seeds(tmp_path: Path) -> None:
    """One seed cannot be divided."""
    (tmp_path / "c.yaml").write_text("{apiVersion: v1, kind: Node, metadata: {name: n}}")
    inputs = [{"name": "c", "manifests": ["c.yaml"]}]
    experiment = experiment_of(tmp_path, document(inputs=inputs, seeds={"first": 3, "count": 7}))
    assert experiment.search is not None
    halves = halves_of(experiment, experiment.search)
    assert ([*halves.searched.seeds], [*halves.judged.seeds]) == ([3, 4, 5], [6, 7, 8, 9])
    assert (halves.searched_text, halves.judged_text) == ("c, seeds 3 to 5", "c, seeds 6 to 9")
    alone = experiment_of(tmp_path, document(inputs=inputs, seeds={"count": 1}))
    with pytest.raises(TuningError, match="one seed cannot be divided"):
        halves_of(alone, experiment.search)


def trial(number: int, *objectives: float) -> TriedConfiguration:
    return TriedConfiguration(number, {}, f"text {number}", objectives)


def test_the_front_and_the_choice() -> None:
    """Best in the first objective first; chosen is the first that loses nothing against today."""
    trials = [trial(1, 0.9, 50), trial(2, 0.8, 10), trial(3, 0.7, 20), trial(4, 0.6, 5), trial(5, 0.9, 50), trial(6)]
    found = front(Searched((0.7, 30), trials), (UP, DOWN))
    assert [each.number for each in found] == [1, 2, 4]
    assert choose(found, (0.7, 30), (UP, DOWN)) == 1
    assert choose(found, (0.95, 1), (UP, DOWN)) == 0
    many = [trial(number, number) for number in range(100)]
    assert [each.number for each in thinned(many, 3)] == [0, 50, 99]


# --- the command ---


def tune(path: Path, *arguments: str) -> int:
    return run(["tune", str(path), "--workers", "1", *arguments])


def test_the_command_writes_a_configuration_that_can_be_used(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Valid, with its effects in comments, and with the command that replays a journal; again, nothing is computed."""
    path = write_document(tmp_path, document(search={**SEARCH, "trials": 6, "batch": 3, "seeds": 2}))
    assert tune(path) == 0
    text = capsys.readouterr().out
    written = tmp_path / "small-tuning/tuned.yaml"
    assert "tuned-1 is better than default. What changes for certain:\n  made: allocated cpu " in text
    assert f"moorage replay DIR --config {written}" in text
    assert (
        "Searched with every other pod of made, 2 seeds (0, 1); judged with the other pods of made, seeds 0 to 5."
        in text
    )
    content = written.read_text()
    assert (
        "# Judged with the other pods of made, seeds 0 to 5, beside the configuration default:\n#   made: all"
        in content
    )
    assert f"# What it would have decided yesterday: moorage replay DIR --config {written}" in content
    assert run(["validate", "-f", str(written)]) == 0
    assert len((tmp_path / "small-tuning/trials.csv").read_text().splitlines()) == 7
    kept = sorted((tmp_path / "small-tuning/combinations").iterdir())
    times = [each.stat().st_mtime_ns for each in kept]
    capsys.readouterr()
    assert tune(path, "-o", "json", "--write", str(tmp_path / "other.yaml")) == 0
    found = json.loads(capsys.readouterr().out)
    assert [each.stat().st_mtime_ns for each in kept] == times
    assert sorted((tmp_path / "small-tuning/combinations").iterdir()) == kept
    assert (found["better"], found["chosen"], len(found["trials"])) == (True, "tuned-1", 6)
    (body,) = yaml.safe_load_all((tmp_path / "other.yaml").read_text())
    assert body == yaml.safe_load(content)


def test_nothing_better_is_an_answer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Pods that all fit fit anywhere: exit code 1, one line, and no file that somebody could install."""
    pods = [{**CLUSTER["pods"][0], "weight": 1}]
    easy = {**CLUSTER, "pods": pods, "count": 20}
    path = write_document(
        tmp_path,
        document(search={**SEARCH, "trials": 3}, inputs=[{"name": "easy", "generator": easy}], seeds={"count": 5}),
    )
    assert tune(path) == 1
    assert "Nothing that was found is better than default; keep it.\n" in capsys.readouterr().out
    assert not (tmp_path / "small-tuning/tuned.yaml").exists()


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no search": ({"search": None}, "search: required; name objectives and parameters"),
    "no such figure": (
        {"search": {**SEARCH, "objectives": [{"measure": "allocated", "of": "gpu"}], "trials": 1}},
        "the results have no allocated gpu; allocated is known of cpu, memory",
    ),
    "a name that is needed": (
        {"configurations": [{"name": "tuned-1"}], "search": {**SEARCH, "trials": 1}},
        'configurations: "tuned-1": is the name of what a search finds; call it something else',
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_be_tuned_is_one_line(case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2, and what to do."""
    changes, want = WRONG[case]
    body = document(**{"seeds": {"count": 2}, **changes})
    assert tune(write_document(tmp_path, body)) == 2
    *_, line = capsys.readouterr().err.strip().splitlines()
    assert want in line, line


def test_a_missing_library_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the remedy."""
    monkeypatch.setitem(sys.modules, "optuna", None)
    assert tune(write_document(tmp_path, document())) == 2
    assert "error: optuna is not installed; run pip install 'moorage[tune]'" in capsys.readouterr().err
