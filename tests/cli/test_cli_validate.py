"""`moorage validate`: every problem, with its place, on stdout."""

from __future__ import annotations

from pathlib import Path

import pytest

from moorage.cli.main import run

GOOD_POD = "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: c, image: x}]}}"
BAD_POD = "{apiVersion: v1, kind: Pod, metadata: {name: q, annotations: {moorage.dev/priority: high}}, spec: {}}"
GOOD_CONFIG = "{apiVersion: kubescheduler.config.k8s.io/v1, kind: KubeSchedulerConfiguration}"
BAD_CONFIG = "{apiVersion: kubescheduler.config.k8s.io/v1, kind: KubeSchedulerConfiguration, parallelism: -1, nope: 1}"
KEEPER = "{apiVersion: moorage.dev/v1alpha1, kind: KeeperConfiguration}"
STRANGE = "{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: i}}"


def check(text: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, list[str]]:
    """The exit code and the lines on stdout for a file of this content."""
    file = folder / "f.yaml"
    file.write_text(text)
    code = run(["validate", "-f", str(file)])
    return code, capsys.readouterr().out.splitlines()


@pytest.mark.parametrize(
    ("documents", "said"),
    [
        pytest.param([GOOD_POD], "ok: 1 object", id="a pod"),
        pytest.param([GOOD_CONFIG, KEEPER], "ok: 2 objects", id="a configuration"),
        pytest.param([GOOD_POD, GOOD_CONFIG, STRANGE], "ok: 2 objects, not looked into: Ingress", id="a mixture"),
        pytest.param([], "ok: 0 objects", id="nothing"),
    ],
)
def test_good_files(documents: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Files without problems end with 0 and one line."""
    assert check("\n---\n".join(documents), tmp_path, capsys) == (0, [said])


@pytest.mark.parametrize(
    ("documents", "wanted"),
    [
        pytest.param([BAD_POD], [["f.yaml", "Pod default/q", "annotations[moorage.dev/priority]", "high"]], id="a pod"),
        pytest.param([BAD_CONFIG], [["parallelism", "-1"], ["nope"]], id="a configuration"),
        pytest.param(
            [GOOD_CONFIG, GOOD_CONFIG], [["f.yaml", "document 2", "KubeSchedulerConfiguration", "twice"]], id="twice"
        ),
        pytest.param(["{apiVersion: moorage.dev/v1alpha1, kind: KeperConfiguration}"], [["Keeper"]], id="misspelt"),
        pytest.param(["a: ["], [["f.yaml", "not YAML"]], id="broken YAML"),
        pytest.param(
            [BAD_POD, GOOD_POD, "a: [\n", BAD_CONFIG],
            [["document 1", "high"], ["not YAML"], ["parallelism"], ["nope"]],
            id="everything at once",
        ),
    ],
)
def test_bad_files(
    documents: list[str], wanted: list[list[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Problems end with 1, each in one line on stdout."""
    code, lines = check("\n---\n".join(documents), tmp_path, capsys)
    assert code == 1
    assert len(lines) == len(wanted)
    for parts in wanted:
        assert any(all(part in line for part in parts) for line in lines)


def test_missing_files_are_wrong_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file that cannot be read is not an answer: 2, with all of them on stderr."""
    good = tmp_path / "good.yaml"
    good.write_text(GOOD_POD)
    missing = [str(tmp_path / "a.yaml"), str(tmp_path)]
    arguments = [word for file in (*missing, str(good)) for word in ("-f", file)]
    assert run(["validate", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert len(captured.err.splitlines()) == 2
    for file in missing:
        assert f"error: {file}: " in captured.err


DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  annotations:
    smart-scheduler.io/schedule-strategy: %s
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata:
      labels: {app: web}
    spec:
      containers: [{name: web, image: "nginx:1.21"}]
"""
POLICY = """
apiVersion: moorage.dev/v1alpha1
kind: PlacementPolicy
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  rules: %s
"""
STRATEGY = "base=1,weight=1,nodeSelector=node-type:ondemand;weight=2,nodeSelector=node-type:spot"


def test_good_strategies(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A strategy that can be kept is no problem, in an annotation and in a policy."""
    rules = "[{base: 1, weight: 1, nodeSelector: {node-type: ondemand}}, {weight: 2, nodeSelector: {node-type: spot}}]"
    text = f"{DEPLOYMENT % STRATEGY}\n---\n{POLICY % rules}"
    assert check(text, tmp_path, capsys) == (0, ["ok: 2 objects"])


def test_every_mistake_of_a_strategy_is_shown_with_its_column(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line each, with the file, the object, the annotation, the column and the remedy."""
    code, lines = check(DEPLOYMENT % STRATEGY.replace("base=1", "base=x").replace("2,n", "2,N"), tmp_path, capsys)
    where = "Deployment default/web: metadata.annotations[smart-scheduler.io/schedule-strategy]: column"
    assert code == 1
    assert [line.partition(f"f.yaml: {where} ")[2] for line in lines] == [
        '6: base is "x"; write a whole number from 0 to 1000000, in the digits 0 to 9',
        '58: "NodeSelector" is no field of a rule; write nodeSelector=',
    ]


def test_what_a_cron_job_gives_its_jobs_is_looked_at(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A strategy counts on the CronJob, on its Jobs and on their pods."""
    bad = "{annotations: {moorage.dev/schedule-strategy: 'weight=1'}}"
    template = f"{{metadata: {bad}, spec: {{restartPolicy: Never, containers: [{{name: web, image: nginx}}]}}}}"
    spec = f"{{schedule: '* * * * *', jobTemplate: {{metadata: {bad}, spec: {{template: {template}}}}}}}"
    owner = "{name: web, annotations: {moorage.dev/schedule-strategy: 'weight=1'}}"
    text = f"{{apiVersion: batch/v1, kind: CronJob, metadata: {owner}, spec: {spec}}}"
    code, lines = check(text, tmp_path, capsys)
    assert code == 1
    assert [line.partition("default/web: ")[2].partition(".annotations")[0] for line in lines] == [
        "metadata",
        "spec.jobTemplate.metadata",
        "spec.jobTemplate.spec.template.metadata",
    ]


def test_every_mistake_of_a_policy_is_shown_with_its_field(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What the API server would refuse is refused here, with a remedy."""
    rules = "[{base: 1.5, weight: 0, nodeSelector: {a: b}}, 'weight=1', {weight: 0, nodeSelector: {a: yes}}]"
    code, lines = check((POLICY % rules).replace("  selector: {matchLabels: {app: web}}\n", ""), tmp_path, capsys)
    assert code == 1
    assert [line.partition("PlacementPolicy default/web: ")[2].split(": ")[0] for line in lines] == [
        "spec.selector",
        "spec.rules[0].base",
        "spec.rules[1]",
        "spec.rules[2].nodeSelector[a]",
    ]
