"""Where the programs of the test control plane are: etcd, Kubernetes' own, and helm.

They are those of $KUBEBUILDER_ASSETS (the convention of envtest), or those that tests/controlplane/build.py of a
checkout has built. Nothing is built here.
"""

from __future__ import annotations

import functools
import os
import re
import subprocess
import sys
from pathlib import Path

PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "helm")


class AssetsError(Exception):
    """The programs are not there; the message is one line that says where they were looked for and what to do."""


def find_assets() -> Path:
    """Return the folder that holds all six programs."""
    given = os.environ.get("KUBEBUILDER_ASSETS")
    if given and not _missing_from(folder := Path(given).expanduser().absolute()):
        return folder
    script = Path(__file__).resolve().parents[3] / "tests" / "controlplane" / "build.py"
    if script.is_file():
        answer = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True, check=False)
        if answer.returncode == 0:
            return Path(answer.stdout.splitlines()[-1])
        raise AssetsError(f"no test control plane; build it once (some 10 minutes): {sys.executable} {script}")
    if given:
        lacking = ", ".join(_missing_from(Path(given).expanduser()))
        raise AssetsError(f"KUBEBUILDER_ASSETS={given} lacks {lacking}; name a folder that holds {', '.join(PROGRAMS)}")
    raise AssetsError(f"no test control plane; set KUBEBUILDER_ASSETS to a folder that holds {', '.join(PROGRAMS)}")


@functools.cache
def kubernetes_version(folder: Path) -> tuple[int, int]:
    """Return the release of the folder's API server, such as (1, 37)."""
    command = [str(folder / "kube-apiserver"), "--version"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    found = re.search(r"\bv(\d+)\.(\d+)\.", answer.stdout)
    if found is None:
        raise AssetsError(f"{command[0]} does not tell its version; name another folder in KUBEBUILDER_ASSETS")
    return int(found[1]), int(found[2])


def _missing_from(folder: Path) -> list[str]:
    return [name for name in PROGRAMS if not os.access(folder / name, os.X_OK)]
