"""What a command loads: a small one starts at once, since it imports nothing that it does not use."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
CLUSTER = str(EXAMPLES / "cluster.yaml")
SERVERS = {"aiohttp", "asyncio", "cryptography", "prometheus_client", "ssl", "structlog"}
"""What talks to API servers and answers requests."""
ENGINE = {"numpy", "pydantic", "msgspec", "yaml", "rich"}

_SHOW = "from moorage.cli.main import run; code = run(); import sys; print(*sys.modules, file=sys.stderr); exit(code)"


def loaded(*arguments: str, want_code: int = 0) -> set[str]:
    """The modules that a command line leaves loaded, with every package that one of them is in."""
    done = subprocess.run(
        [sys.executable, "-c", _SHOW, *arguments], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == want_code, done.stderr
    return set(done.stderr.splitlines()[-1].split())


@pytest.mark.parametrize("arguments", [["--help"], ["--version"]], ids=" ".join)
def test_the_help_needs_click_only(arguments: list[str]) -> None:
    """Neither the engine nor a server is loaded, and of Moorage nothing but the command line."""
    modules = loaded(*arguments)
    assert not modules & (SERVERS | ENGINE)
    assert {name for name in modules if name.startswith("moorage.")} == {
        "moorage.cli",
        "moorage.cli.main",
        "moorage.cli.options",
        "moorage.cli.output",
        "moorage.core",
        "moorage.core.values",
    }


@pytest.mark.parametrize("command", ["simulate", "validate", "explain"])
def test_the_help_of_a_command_needs_no_engine(command: str) -> None:
    """Options are declared without the code that uses them."""
    modules = loaded(command, "--help")
    assert not modules & (SERVERS | ENGINE)
    assert not {name for name in modules if name.startswith(("moorage.engine", "moorage.plugins", "moorage.wire"))}


SMALL = {
    "simulate": (["simulate", "-f", CLUSTER], 0),
    "simulate --config": (["simulate", "-f", CLUSTER, "--config", str(EXAMPLES / "profile.yaml")], 0),
    "validate": (["validate", "-f", CLUSTER], 0),
    "validate, with problems": (["validate", "-f", str(EXAMPLES / "broken.yaml")], 1),
    "explain": (["explain", "huge", "-f", CLUSTER], 0),
}


@pytest.mark.parametrize(("arguments", "code"), SMALL.values(), ids=SMALL.keys())
def test_a_command_on_files_loads_no_server_and_no_painter(arguments: list[str], code: int) -> None:
    """Files are read without the client of the API server, and tables in a pipe are written without rich."""
    modules = loaded(*arguments, want_code=code)
    assert not modules & (SERVERS | {"rich"})
    assert not {name for name in modules if name.startswith(("moorage.adapters.kube", "moorage.app.look"))}


@pytest.mark.parametrize("name", ["simulate", "explain"])
def test_without_a_configuration_its_documents_are_not_declared(name: str) -> None:
    """The models of configuration files are loaded with the first file."""
    schema = "moorage.wire.configuration.schema"
    arguments, code = SMALL[name]
    assert schema not in loaded(*arguments, want_code=code)
    assert schema in loaded(*arguments, "--config", str(EXAMPLES / "profile.yaml"), want_code=code)


def test_numpy_starts_no_threads() -> None:
    """OpenBLAS would start one per core; decisions are integer arithmetic."""
    ask = "import moorage.cli.main, numpy; print(len(list(__import__('pathlib').Path('/proc/self/task').iterdir())))"
    done = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.split() == ["1"]
