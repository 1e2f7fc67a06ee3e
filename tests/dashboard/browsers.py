"""A real Chromium: the one of this machine, or the distribution's, installed where that may be done."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
_INSTALL_S = 600


def find_browser() -> str:
    """The path of a browser; without one the test is skipped, and fails in CI."""
    found = _found()
    if found is None:
        text = f"there is no browser ({', '.join(NAMES)}); install the package chromium, or try make browser"
        if os.environ.get("CI"):
            pytest.fail(text, pytrace=False)
        pytest.skip(text)
    return found


def _found() -> str | None:
    return next((path for name in NAMES if (path := shutil.which(name))), None)


def install_browser() -> None:
    """Install the distribution's package where there is no browser and we may, in one process before all tests."""
    if _found() is not None or os.geteuid() != 0 or shutil.which("apt-get") is None:
        return
    print("installing chromium for the browser tests (once)")  # noqa: T201
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for arguments in (("update",), ("install", "--yes", "--no-install-recommends", "chromium")):
        subprocess.run(("apt-get", "-qq", *arguments), check=False, env=environment, timeout=_INSTALL_S)


@contextmanager
def running_browser() -> Iterator[Browser]:
    """A browser without a window."""
    # The sandbox of Chromium cannot be set up by root.
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_browser(), args=arguments)
        try:
            yield browser
        finally:
            browser.close()


if __name__ == "__main__":
    install_browser()
