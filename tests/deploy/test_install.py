"""The first minute: what `make demo` installs, what it says meanwhile, and what it says if the registry is away."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
INSTALL = ROOT / "requirements/install.py"
LOCK = ROOT / "requirements/install.txt"


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """An environment with the build tools and Moorage, and what was printed meanwhile."""
    folder = tmp_path_factory.mktemp("install") / "venv"
    done = subprocess.run(
        [sys.executable, INSTALL, folder, LOCK], capture_output=True, text=True, check=False, timeout=280
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder, done.stdout.splitlines()


def test_every_step_has_a_line(environment: tuple[Path, list[str]]) -> None:
    """A newcomer sees what happens."""
    steps = [line for line in environment[1] if line.startswith("[")]
    assert [line[:5] for line in steps] == ["[1/4]", "[2/4]", "[3/4]", "[4/4]"]
    assert "install.txt, 7 at most" in steps[1]


def test_the_command_is_installed_and_reads_the_sources(environment: tuple[Path, list[str]]) -> None:
    """Changes of the sources are effective at once, and they are compiled."""
    folder, _ = environment
    assert (folder / "bin/moorage").exists()
    asked = "import moorage; print(moorage.__file__)"
    quiet = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(
        [folder / "bin/python", "-c", asked], capture_output=True, text=True, check=True, timeout=60, env=quiet
    )
    assert Path(done.stdout.strip()) == ROOT / "src/moorage/__init__.py"
    assert list((ROOT / "src/moorage/cli/__pycache__").glob("main.*.pyc"))


@contextmanager
def registry(answers: threading.Event) -> Iterator[str]:
    """A registry that has nothing, and is silent until it may answer."""

    class Silent(BaseHTTPRequestHandler):
        """Knows no package."""

        def do_GET(self) -> None:
            answers.wait(timeout=60)
            self.send_error(404)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Silent) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/simple"
        finally:
            answers.set()
            server.shutdown()
            thread.join()


def settings(index: str) -> Mapping[str, str]:
    own = {key: value for key, value in os.environ.items() if not key.startswith("PIP_")}
    return own | {"PIP_INDEX_URL": index, "PIP_NO_CACHE_DIR": "1", "PIP_CONFIG_FILE": os.devnull, "no_proxy": "*"}


def wanting(folder: Path) -> Path:
    """A lock with a package that the environment lacks."""
    lock = folder / "wanting.txt"
    lock.write_text(f"nowhere==1.0 --hash=sha256:{'0' * 64}\n")
    return lock


def test_a_slow_registry_is_named_while_it_is_waited_for(environment: tuple[Path, list[str]], tmp_path: Path) -> None:
    """The line stands there before there is an answer; and what is missing in the end is one line with the remedy."""
    answers = threading.Event()
    with registry(answers) as index:
        command: list[str | Path] = [sys.executable, "-u", INSTALL, environment[0], wanting(tmp_path)]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=settings(index)
        ) as child:
            assert child.stdout is not None
            assert child.stderr is not None
            waiting = next(line for line in child.stdout if "waiting" in line)
            answers.set()
            errors = child.stderr.read().splitlines()
        assert f"0 of 1 packages, waiting for {index}" in waiting
        assert child.returncode == 1
        assert len(errors) == 1
        assert f"could not be loaded from {index}: " in errors[0]
        assert "nowhere" in errors[0]
        assert "PIP_INDEX_URL" in errors[0]


def test_without_a_network_the_reason_and_the_remedy_are_one_line(
    environment: tuple[Path, list[str]], tmp_path: Path
) -> None:
    """What pip tries again is told meanwhile."""
    with registry(threading.Event()) as index:
        pass  # nobody listens there any more
    command: list[str | Path] = [sys.executable, INSTALL, environment[0], wanting(tmp_path)]
    with_one_retry = {**settings(index), "PIP_RETRIES": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, env=with_one_retry)
    assert done.returncode == 1
    assert f"{index} does not answer ([Errno 111] Connection refused); trying again" in done.stdout
    assert len(done.stderr.splitlines()) == 1
    assert "Connection refused; connect to the network, or set PIP_INDEX_URL to a mirror" in done.stderr


def test_a_folder_of_wheels_is_named_in_place_of_the_registry(
    environment: tuple[Path, list[str]], tmp_path: Path
) -> None:
    """Where no registry may be asked, none is blamed."""
    offline = {**settings("http://127.0.0.1:1/simple"), "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path)}
    command: list[str | Path] = [sys.executable, INSTALL, environment[0], wanting(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, env=offline)
    assert done.returncode == 1
    assert f"could not be loaded from {tmp_path}: " in done.stderr
    assert "127.0.0.1" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("target", "want"),
    [
        ("demo", ["runtime.txt", "install.txt"]),
        ("run", ["runtime.txt", "install.txt"]),
        ("generate-certs", ["runtime.txt", "install.txt"]),
        ("setup", ["dev.txt"]),
    ],
)
def test_what_runs_the_program_installs_the_runtime_only(target: str, want: list[str], tmp_path: Path) -> None:
    """Test tools are for the targets that use them."""
    for name in ("Makefile", "pyproject.toml", "requirements"):
        (tmp_path / name).symlink_to(ROOT / name)
    make = shutil.which("make")
    assert make is not None
    done = subprocess.run([make, "-n", target], capture_output=True, text=True, check=True, timeout=60, cwd=tmp_path)
    line = next(line for line in done.stdout.splitlines() if "requirements/install.py" in line)
    assert [Path(part).name for part in line.split() if part.endswith(".txt")] == want


def test_what_was_installed_for_everything_serves_the_demo_too(tmp_path: Path) -> None:
    """`make demo` after `make setup` installs nothing."""
    for name in ("Makefile", "pyproject.toml", "requirements"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / ".venv").mkdir()
    for stamp in (".runtime", ".ready"):
        (tmp_path / ".venv" / stamp).touch()
    command = ["make", "--no-print-directory", "-n", "demo"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60, cwd=tmp_path)
    assert done.stdout.split() == [".venv/bin/moorage", "demo"]
