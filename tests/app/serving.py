"""A scheduler that serves, and how to ask it, for tests."""

from __future__ import annotations

import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from moorage.bench.controlplane import ControlPlane

SCHEDULER = [sys.executable, "-m", "moorage", "scheduler"]


OPEN = "--authorization-always-allow-paths=/*"
"""The documented way to read everything without saying who one is."""


def ask(at: int | str, path: str, token: str = "", accept: str = "") -> tuple[int, str]:
    """Status and text of a port of ours, or of a URL; 0 while nobody listens."""
    tls = ssl.create_default_context()
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=tls))
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    headers |= {"Accept": accept} if accept else {}
    url = at if isinstance(at, str) else f"https://127.0.0.1:{at}"
    try:
        request = urllib.request.Request(url + path, headers=headers)  # noqa: S310 - it is our own
        with opener.open(request, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()
    except OSError:
        return 0, ""


def eventually(condition: Callable[[], bool], process: subprocess.Popen[bytes], log: Path, what: str) -> None:
    deadline = time.monotonic() + 90
    while not condition():
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, f"not in time: {what}\n{log.read_text()}"
        time.sleep(0.05)


@contextmanager
def running(plane: ControlPlane, log: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [*SCHEDULER, "--kubeconfig", str(plane.scheduler_kubeconfig), *arguments]
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output) as process:
        try:
            yield process
        finally:
            process.terminate()
            process.wait(20)
