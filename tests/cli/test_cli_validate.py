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
