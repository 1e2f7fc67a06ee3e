"""promtool: the one of this machine, or that of the distribution's package, unpacked into the cache."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.controlplane.build import becoming, cache_folder

PACKAGE = "prometheus"
_DOWNLOAD_S = 300


def find_promtool() -> Path:
    """Its path; without one the test is skipped, and fails in CI."""
    found = _found()
    if found is None:
        text = "there is no promtool; put that of Prometheus on PATH, or try make promtool"
        if os.environ.get("CI"):
            pytest.fail(text, pytrace=False)
        pytest.skip(text)
    return found


def _found() -> Path | None:
    on_path = shutil.which("promtool")
    if on_path:
        return Path(on_path)
    unpacked = _folder() / "usr" / "bin" / "promtool"
    return unpacked if os.access(unpacked, os.X_OK) else None


def _folder() -> Path:
    return cache_folder(os.environ) / "promtool"


def fetch_promtool() -> None:
    """Unpack the package where there is no promtool and there are Debian's packages; nothing is installed."""
    if _found() is not None or shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        return
    print("fetching promtool for the tests of the alerts (once)", file=sys.stderr)  # noqa: T201
    _folder().parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as work:
        if not _download(Path(work)) and os.geteuid() == 0:
            subprocess.run(("apt-get", "-qq", "update"), check=False, timeout=_DOWNLOAD_S)
            _download(Path(work))
        for package in Path(work).glob("*.deb"):
            with becoming(_folder()) as unfinished:
                subprocess.run(("dpkg-deb", "--extract", package, unfinished), check=True)


def _download(folder: Path) -> bool:
    # apt gives up its rights for downloads, and may only go where others may.
    folder.chmod(0o755)
    command = ("apt-get", "-qq", "-o", "APT::Sandbox::User=root", "download", PACKAGE)
    return subprocess.run(command, cwd=folder, check=False, timeout=_DOWNLOAD_S).returncode == 0


if __name__ == "__main__":
    fetch_promtool()
