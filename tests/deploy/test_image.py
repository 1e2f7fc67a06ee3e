"""The image as far as it can be made without a container engine: its content, its list of materials, the Dockerfile."""

from __future__ import annotations

import fnmatch
import json
import subprocess
import sys
import tomllib
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import pytest

from tests.deploy.chart import ROOT
from tests.deploy.kube_scheduler_script import image, kube_scheduler

STEPS = [line for line in (ROOT / "Dockerfile").read_text().splitlines() if line and not line.startswith("#")]


def stages() -> list[list[str]]:
    """The steps of each stage."""
    found: list[list[str]] = []
    for step in STEPS:
        if step.startswith("FROM "):
            found.append([])
        elif found:
            found[-1].append(step)
    return found


def test_the_dockerfile_runs_nothing_in_the_stage_that_is_shipped() -> None:
    """Two stages of one base; the second only copies, and its user is not root. It is what is built by default."""
    bases = [step.split()[1] for step in STEPS if step.startswith("FROM ")]
    assert bases == ["${PYTHON}"] * 2 + ["moorage"] * 2
    assert "ARG PYTHON=python:3.12-slim" in STEPS
    _, shipped, _, default = stages()
    assert not [step for step in shipped if step.startswith("RUN")]
    assert "USER 65532:65532" in shipped
    assert shipped[-1] == 'ENTRYPOINT ["moorage"]'
    assert default == []


def test_kube_scheduler_is_in_the_image_and_not_in_the_wheel(tmp_path: Path) -> None:
    """Where kube-scheduler's own image has it, and on the PATH; it is `moorage kube-scheduler`."""
    _, shipped, _, _ = stages()
    assert "COPY --from=build /opt/moorage/bin/kube-scheduler /usr/local/bin/kube-scheduler" in shipped
    with (ROOT / "pyproject.toml").open("rb") as file:
        assert "kube-scheduler" not in tomllib.load(file)["project"]["scripts"]
    script = Path(kube_scheduler(tmp_path)[1])
    assert script.read_text().startswith(f"#!{tmp_path}/bin/python\n")
    assert script.stat().st_mode & 0o777 == 0o755
    done = subprocess.run([sys.executable, script, "--nonsense"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "error: No such option '--nonsense'; see kube-scheduler --help\n")


def test_the_target_for_custom_scheduler_needs_no_arguments() -> None:
    """Its Deployment names neither a command nor a file: the image has both, and the file is that of the example."""
    _, _, target, _ = stages()
    copied, started = target
    assert copied == "COPY deploy/examples/custom-scheduler/config.yaml /etc/moorage/config.yaml"
    arguments = json.loads(started.removeprefix("CMD "))
    assert arguments == ["scheduler", "--config=/etc/moorage/config.yaml", "--leader-elect=false", "--v=2"]


def test_what_is_copied_is_there_and_is_sent_to_the_builder() -> None:
    """Every source of a COPY exists and is let through by .dockerignore."""
    copies = [step for stage in stages() for step in stage if step.startswith("COPY ") and "--from=" not in step]
    sources = [word for step in copies for word in step.split()[1:-1]]
    kept = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    assert sources
    for source in sources:
        assert (ROOT / source).exists(), source
        assert any(fnmatch.fnmatch(source, pattern) for pattern in kept), source


LOCK = """\
alpha==1.0 \\
    --hash=sha256:aa \\
    --hash=sha256:bb
alpha-two==2.0 ; python_version < '3' \\
    --hash=sha256:cc
beta==3.0 \\
    --hash=sha256:dd
"""


@pytest.mark.parametrize(
    ("names", "want"),
    [
        pytest.param(["beta"], ["beta==3.0 \\", "    --hash=sha256:dd"], id="the last"),
        pytest.param(["alpha"], LOCK.splitlines()[:3], id="one whose name another one begins with"),
        pytest.param(["gamma"], [], id="none"),
    ],
)
def test_a_part_of_the_lock_keeps_its_hashes(names: list[str], want: list[str]) -> None:
    """And nothing of its neighbours."""
    assert image.locked(LOCK, names).splitlines() == (want or [""])


def test_the_lock_has_every_build_tool() -> None:
    """One that is missing would end the build."""
    lines = image.locked((ROOT / "requirements/dev.txt").read_text(), image.BUILD_TOOLS).splitlines()
    assert sum("==" in line for line in lines) == len(image.BUILD_TOOLS)


def check_materials(document: dict[str, Any]) -> None:
    """What CycloneDX 1.6 asks of it, and that the graph is whole."""
    assert (document["bomFormat"], document["specVersion"], document["version"]) == ("CycloneDX", "1.6", 1)
    assert document["serialNumber"].startswith("urn:uuid:")
    own = document["metadata"]["component"]
    assert (own["type"], own["name"], own["licenses"]) == ("application", "moorage", [{"expression": "Apache-2.0"}])
    references = {own["bom-ref"], *(each["bom-ref"] for each in document["components"])}
    assert {each["ref"] for each in document["dependencies"]} == references
    assert all(set(each["dependsOn"]) <= references for each in document["dependencies"])
    (needed,) = (each["dependsOn"] for each in document["dependencies"] if each["ref"] == own["bom-ref"])
    assert {"pkg:pypi/aiohttp", "pkg:pypi/numpy"} <= {reference.partition("@")[0] for reference in needed}


def test_the_list_of_materials_is_whole_and_repeatable() -> None:
    """Of the environment that runs the tests, which has all that the image has."""
    documents = [image.bill_of_materials(distributions()) for _ in range(2)]
    check_materials(documents[0])
    assert documents[0] == documents[1]


@pytest.mark.long
def test_the_content_of_the_image_is_built_and_runs(tmp_path: Path) -> None:
    """Wheel, dependencies by their hashes, entry point; no pip in it, and exactly what the lock names."""
    folder = tmp_path / "opt"
    subprocess.run([sys.executable, ROOT / "deploy/image.py", folder], check=True)
    for name in ("moorage", "kube-scheduler"):
        done = subprocess.run([folder / "bin" / name, "--version"], capture_output=True, text=True, check=True)
        assert done.stdout.startswith("moorage ")
    assert not list(folder.glob("bin/pip*"))
    document = json.loads((folder / "sbom.cdx.json").read_text())
    check_materials(document)
    lock = (ROOT / "requirements/image.txt").read_text().splitlines()
    pinned = {line.split()[0].rstrip("\\") for line in lock if "==" in line and not line.startswith(" ")}
    assert {f"{each['name'].lower().replace('_', '-')}=={each['version']}" for each in document["components"]} <= {
        pin.lower().replace("_", "-") for pin in pinned
    }
    hello = ROOT / "examples/hello.yaml"
    subprocess.run([folder / "bin/moorage", "simulate", "-f", hello], check=True, capture_output=True)
