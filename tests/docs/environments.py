"""Environments as a reader has them: Moorage from its wheel, a copy of examples/, nothing of the source tree."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

from tests.docs.fences import ROOT
from tests.docs.sessions import Shell

Installer = Callable[[str], Shell]
"""Name -> the environment of that name, made on first use."""


def build_wheel(project: Path, folder: Path) -> Path:
    """Build a project's wheel into the folder."""
    command = [sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", str(folder), str(project)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    (wheel,) = folder.glob("*.whl")
    return wheel


def install_wheel(shell: Shell, wheel: Path) -> None:
    """Install a wheel and nothing else."""
    flags = ["--quiet", "--no-index", "--no-deps", "--ignore-installed", "--disable-pip-version-check"]
    shell.run("python", "-m", "pip", "install", *flags, wheel)


def new_shell(folder: Path, wheel: Path) -> Shell:
    """Make an environment in an empty folder."""
    environment, work = folder / "env", folder / "work"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    (site_packages,) = environment.glob("lib/python3*/site-packages")
    # Dependencies and build tools are those of the environment that runs the tests; no index is needed.
    here = sysconfig.get_path("purelib")
    (site_packages / "dependencies.pth").write_text(f"import site; site.addsitedir({here!r})\n")
    shutil.copytree(ROOT / "examples", work / "examples")
    shell = Shell(work, _environ(environment / "bin", folder / "home"))
    install_wheel(shell, wheel)
    return shell


def _environ(programs: Path, home: Path) -> dict[str, str]:
    """The caller's variables, without those that would change what is shown or found."""
    hidden = ("KUBECONFIG", "PYTHONPATH", "VIRTUAL_ENV", "COLUMNS", "FORCE_COLOR", "NO_COLOR", "MAKEFLAGS", "MAKELEVEL")
    kept = {key: value for key, value in os.environ.items() if key not in hidden and not key.startswith("PYTEST_")}
    home.mkdir()
    more = {"PATH": f"{programs}:{os.environ['PATH']}", "HOME": str(home), "PYTHONDONTWRITEBYTECODE": "1"}
    return {**kept, **more, "PIP_NO_INDEX": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
