"""The suites that meet an API server, on every release of Kubernetes that tests/controlplane can build.

    python -m tests.versions.run [--kubernetes 1.28.15 ...] [--suite chart ...] [--out FOLDER]

Prints a table of releases and suites in Markdown, and every reason for which something was left out. Output and JUnit
results of each suite are kept in the folder. Exit code 1 if a suite fails or a release cannot be built.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.conformance.run import CASES
from tests.controlplane.build import KUBERNETES, BuildError, build, cache_folder, releases

ROOT = Path(__file__).resolve().parents[2]
SUITES: Mapping[str, tuple[str, ...]] = {
    "client": ("pytest", "tests/adapters/kube", "-m", "controlplane"),
    "contract": ("pytest", "tests/contract", "-k", "real"),
    "conformance core, contract": ("tests.conformance.run", "--tier", "core", "contract"),
    "scheduler": ("pytest", "tests/app/test_scheduler.py", "tests/app/test_scheduler_storage.py"),
    "keeper": ("pytest", "tests/app/test_keeper.py", "tests/app/test_keeper_rules.py"),
    "extender": (
        "pytest",
        "tests/app/test_extender.py",
        "tests/app/test_extender_cluster.py",
        "tests/app/test_scheduler_extenders.py",
    ),
    "webhook": (
        "pytest",
        "tests/app/test_webhook.py",
        "tests/app/test_webhook_callers.py",
        "tests/app/test_webhook_cluster.py",
    ),
    "chart": (
        "pytest",
        "tests/deploy/test_chart_install.py",
        "tests/deploy/test_chart_rights.py",
        "tests/deploy/test_chart_guards.py",
        "tests/deploy/test_chart_fence.py",
        "tests/deploy/test_crds.py",
    ),
    "examples": (
        "pytest",
        "tests/deploy/test_controller_spread_scheduler.py",
        "tests/deploy/test_custom_k8s_scheduler.py",
        "tests/deploy/test_custom_scheduler.py",
        "tests/deploy/test_smart_scheduler.py",
        "tests/deploy/test_spot_extender.py",
        "tests/app/test_kube_scheduler.py",
        "-m",
        "controlplane",
    ),
}
"""By name: a module that writes JUnit results, and its arguments."""
OPEN = tuple(name for name in SUITES if (CASES / "run.py").is_file() or not name.startswith("conformance"))
"""Those that can be run: the conformance cases are beside this checkout, or are not there."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one suite went on one release."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    reasons: tuple[str, ...] = ()
    """Why cases were left out, each once."""

    @property
    def good(self) -> bool:
        """Something ran, and all of it passed."""
        return self.passed > 0 and not self.failed

    def __str__(self) -> str:
        if not self.passed and not self.failed:
            return "did not run"
        counts = {"passed": self.passed, "**failed**": self.failed, "left out": self.skipped}
        return ", ".join(f"{count} {word}" for word, count in counts.items() if count)


def outcome_of(results: Path) -> Outcome:
    """Read JUnit results; no file, or a broken one, means that the suite did not run."""
    try:
        cases = list(ET.parse(results).iter("testcase"))  # noqa: S314 written by our own child
    except (OSError, ET.ParseError):
        return Outcome()
    ends: Counter[str] = Counter()
    reasons: dict[str, None] = {}
    for case in cases:
        marks = {child.tag: child for child in case}
        if "failure" in marks or "error" in marks:
            ends["failed"] += 1
        elif (skip := marks.get("skipped")) is not None:
            ends["skipped"] += 1
            reasons[skip.get("message", "")] = None
        else:
            ends["passed"] += 1
    return Outcome(ends["passed"], ends["failed"], ends["skipped"], tuple(reasons))


def run_suite(name: str, assets: Path, out: Path) -> Outcome:
    """Run one suite on the programs of the folder `assets`."""
    module, *arguments = SUITES[name]
    stem = name.partition(" ")[0]
    results, log = out / f"{stem}.xml", out / f"{stem}.log"
    results.unlink(missing_ok=True)
    option = "--junit-xml" if module == "pytest" else "--junit"
    if module == "pytest" and "-m" not in arguments:
        arguments += ["-m", "long or not long"]
    command = [sys.executable, "-m", module, *arguments, option, str(results.absolute())]
    environment = {**os.environ, "KUBEBUILDER_ASSETS": str(assets)}
    with log.open("wb") as output:
        done = subprocess.run(command, cwd=ROOT, env=environment, stdout=output, stderr=output, check=False)
    found = outcome_of(results)
    # A run that broke off says so by its code only.
    return found if done.returncode == 0 or found.failed else Outcome(found.passed, 1, found.skipped, found.reasons)


def table(found: Mapping[str, Mapping[str, Outcome]]) -> str:
    """Suites in lines and releases in columns, as Markdown; then the reasons."""
    versions = list(found)
    lines = ["| suite | " + " | ".join(versions) + " |", "|---" * (len(versions) + 1) + "|"]
    names = list(dict.fromkeys(name for outcomes in found.values() for name in outcomes))
    lines += [f"| {name} | " + " | ".join(str(found[each][name]) for each in versions) + " |" for name in names]
    for version, outcomes in found.items():
        reasons = dict.fromkeys(reason for outcome in outcomes.values() for reason in outcome.reasons)
        if reasons:
            lines += ["", f"Left out on {version}:", "", *(f"- {reason}" for reason in reasons)]
    return "\n".join(lines) + "\n"


def run_release(version: str, suites: Sequence[str], out: Path) -> dict[str, Outcome]:
    """Build a release if need be, and run the suites on it."""
    try:
        assets = build(cache_folder(os.environ) / "controlplane", releases()[version])
    except BuildError as error:
        sys.stderr.write(f"versions: {version}: {error}\n")
        return dict.fromkeys(suites, Outcome())
    folder = out / version
    folder.mkdir(parents=True, exist_ok=True)
    found = {}
    for name in suites:
        found[name] = run_suite(name, assets, folder)
        sys.stderr.write(f"versions: {version}: {name}: {found[name]}\n")
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=f"Run suites on other releases of {', '.join(KUBERNETES)}.")
    parser.add_argument("--kubernetes", nargs="+", choices=list(releases()), default=list(releases()))
    parser.add_argument("--suite", nargs="+", choices=OPEN, default=OPEN)
    parser.add_argument("--out", type=Path, default=ROOT / "dist" / "versions", help="where results are kept")
    options = parser.parse_args(arguments)
    found = {version: run_release(version, options.suite, options.out) for version in options.kubernetes}
    text = table(found)
    (options.out / "table.md").write_text(text)
    sys.stdout.write(text)
    return 0 if all(outcome.good for outcomes in found.values() for outcome in outcomes.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
