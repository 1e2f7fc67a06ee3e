"""What `pip install moorage` gives: the wheel, made from the sdist, in an environment that holds nothing else."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from configparser import ConfigParser
from email import message_from_string
from pathlib import Path

import pytest

from moorage.bench.assets import find_assets

ROOT = Path(__file__).resolve().parents[2]
PLATFORMS = ("x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu", "x86_64-apple-darwin", "aarch64-apple-darwin")
OWN = {key: value for key, value in os.environ.items() if key not in {"PYTHONPATH", "VIRTUAL_ENV", "PIP_NO_INDEX"}}


def run(*command: str | Path, **more: str) -> str:
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=280, env={**OWN, **more}, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel that the sdist makes; `build` makes both, one from the other."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT)
    assert len(list(folder.glob("moorage-*.tar.gz"))) == 1
    (wheel,) = folder.glob("moorage-*.whl")
    return wheel


@pytest.fixture(scope="module")
def programs(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment into which nothing but the wheel was installed, with what it asks for."""
    folder = tmp_path_factory.mktemp("empty") / "env"
    run(sys.executable, "-m", "venv", folder)
    pins = _pins(ROOT / "requirements/runtime.txt", folder)
    run(folder / "bin/python", "-m", "pip", "install", "--quiet", "--no-compile", "--constraint", pins, wheel)
    return folder / "bin"


def _pins(lock: Path, folder: Path) -> Path:
    """The versions of the lock without hashes, which pip would demand of the wheel as well."""
    lines = (line.rstrip(" \\") for line in lock.read_text().splitlines() if not line.startswith(" "))
    pins = folder / "pins.txt"
    pins.write_text("\n".join(lines) + "\n")
    return pins


def test_it_runs_on_every_platform(wheel: Path) -> None:
    """There is nothing compiled in it."""
    assert wheel.name.endswith("-py3-none-any.whl")


def test_it_brings_its_commands_and_no_others(wheel: Path) -> None:
    """An executable called kube-scheduler would stand in the way of the real one."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (each for each in archive.namelist() if each.endswith(".dist-info/entry_points.txt"))
        scripts = ConfigParser()
        scripts.optionxform = str  # type: ignore[assignment, method-assign]
        scripts.read_string(archive.read(name).decode())
    assert set(scripts["console_scripts"]) == {"moorage", "kubectl-moorage", "kubectl_complete-moorage"}


def test_it_holds_what_it_reads_at_run_time(wheel: Path) -> None:
    """Types, the pages of the dashboard and the baseline of the benchmark are files of the package, not of the tree."""
    with zipfile.ZipFile(wheel) as archive:
        packed = {each for each in archive.namelist() if each.startswith("moorage/")}
    folder = ROOT / "src"
    kept = {
        str(each.relative_to(folder)) for each in folder.rglob("*") if each.is_file() and "__pycache__" not in str(each)
    }
    assert packed == kept


@pytest.mark.parametrize("platform", PLATFORMS)
def test_every_dependency_has_wheels_there(platform: str, wheel: Path, tmp_path: Path) -> None:
    """Nobody needs a compiler: the locked versions are wheels on Linux and macOS, x86 and arm."""
    uv = Path(sys.executable).parent / "uv"
    options = ("--quiet", "--only-binary", ":all:", "--python-platform", platform, "--python-version", "3.11")
    lock = tmp_path / "lock.txt"
    run(uv, "pip", "compile", *options, "--no-deps", ROOT / "requirements/runtime.txt", "--output-file", lock)
    found = {line.partition("==")[0] for line in lock.read_text().splitlines() if "==" in line}
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (each for each in archive.namelist() if each.endswith(".dist-info/METADATA"))
        metadata = message_from_string(archive.read(name).decode())
    needs = [line for line in metadata.get_all("Requires-Dist", []) if "extra ==" not in line]
    asked = {re.split(r"[^A-Za-z0-9_.-]", line)[0] for line in needs}
    assert asked <= found


def test_the_commands_work(programs: Path) -> None:
    """`moorage`, `python -m moorage` and kubectl's name for it."""
    version = run(programs / "moorage", "--version")
    assert version.startswith("moorage ")
    assert run(programs / "python", "-m", "moorage", "--version") == version
    assert "what-if" in run(programs / "kubectl-moorage", "--help")
    placed = run(programs / "moorage", "simulate", "-f", ROOT / "examples/cluster.yaml")
    assert "4 scheduled, 1 pending" in placed


def test_kubectl_finds_the_plugin_and_completes_it(programs: Path) -> None:
    """The real kubectl runs it as `kubectl moorage`, and asks it for what may come next."""
    assets = find_assets()
    kubectl = assets / "kubectl" if assets else shutil.which("kubectl")
    assert kubectl is not None
    path = {"PATH": f"{programs}:{os.environ['PATH']}"}
    assert "kubectl moorage" in run(kubectl, "moorage", "--help", **path)
    assert run(kubectl, "__complete", "moorage", "ex", **path).splitlines()[0].startswith("explain\t")
    assert run(kubectl, "__complete", "moorage", "explain", "-o", "", **path).splitlines() == ["table", "json", ":4"]
    assert run(kubectl, "__complete", "moorage", "what-if", "-f", "", **path).splitlines() == [":0"]
