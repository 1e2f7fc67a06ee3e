"""The black-box cases of ../shared/conformance on `moorage scheduler`, on a real API server made for them.

    python -m tests.conformance.run [CASE-PREFIX ...] [--tier TIER ...]

The scheduler has the rights that Kubernetes gives to kube-scheduler, and messages have to match its wording. Exit code
1 if a case fails or the cases are not there.
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Container, Mapping, Sequence
from pathlib import Path

import yaml

from moorage.bench.assets import AssetsError, find_assets, kubernetes_version
from moorage.bench.controlplane import ControlPlane, ControlPlaneError, Options
from moorage.bench.processes import free_ports

HERE = Path(__file__).parent
CASES = HERE.parents[2] / "shared" / "conformance"
TIERS = ("core", "gang", "scoring", "extended", "contract", "fault", "serving")
"""Those whose features Moorage has: no extender of its own."""
PLANE = Options(feature_gates={"GenericWorkload": True}, runtime_config={"scheduling.k8s.io/v1beta1": True})
GANGS = (1, 37)
"""The first release that has the native PodGroups of `PLANE`; API servers refuse gates that they do not know."""

NEWER: Mapping[str, tuple[tuple[int, int], str]] = {
    "IPA-14": ((1, 31), "mismatchLabelKeys of pod affinity"),
    "NRF-13": ((1, 29), "restartable init containers"),
}
"""Cases that need what the API server has from a release on, and what that is; older ones drop the field."""


def arguments(plane: ControlPlane, port: int) -> list[str]:
    """How run.py is told about the scheduler under test."""
    start = [
        sys.executable, "-m", "moorage", "scheduler",
        "--kubeconfig", str(plane.scheduler_kubeconfig),
        "--config", str(HERE / "moorage.yaml"),
        "--bind-address", "127.0.0.1",
        "--secure-port", str(port),
        "-v", "2",
    ]  # fmt: skip
    return [
        sys.executable, str(CASES / "run.py"),
        "--kubeconfig", str(plane.admin_kubeconfig),
        "--cases", str(CASES / "cases.yaml"),
        "--scheduler-name", "moorage",
        "--second-profile", "second",
        "--profile-binpack", "binpack",
        "--profile-no-preemption", "no-preemption",
        "--annotation-prefix", "moorage.dev",
        "--serving", f"https://127.0.0.1:{port}",
        "--strict",
        "--start", shlex.join(start),
    ]  # fmt: skip


def run_cases(plane: ControlPlane, chosen: Sequence[str]) -> int:
    """Run the cases that these arguments of run.py choose; returns its exit code."""
    command = [*arguments(plane, free_ports(1)[0]), *chosen]
    return subprocess.run(command, cwd=CASES, check=False).returncode


def left_out(version: tuple[int, int]) -> dict[str, str]:
    """The cases that a release of Kubernetes is too old for, and why."""
    return {
        case: f"{what}: from Kubernetes {major}.{minor} on"
        for case, ((major, minor), what) in NEWER.items()
        if version < (major, minor)
    }


def all_but(cases: Container[str]) -> list[str]:
    """The ids of the other cases."""
    known = yaml.safe_load((CASES / "cases.yaml").read_text())["cases"]
    return [case["id"] for case in known if case["id"] not in cases]


def tell(cases: Mapping[str, str], junit: Path | None) -> None:
    """Say what was left out, also in the results."""
    for case, why in cases.items():
        sys.stdout.write(f"skip {case}  {why}\n")
    if junit and cases:
        results = ET.parse(junit)  # noqa: S314 written by our own child
        for case, why in cases.items():
            ET.SubElement(ET.SubElement(results.getroot(), "testcase", name=case), "skipped", message=why)
        results.write(junit, encoding="unicode", xml_declaration=True)


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("prefixes", nargs="*", metavar="CASE-PREFIX", help="only cases whose id starts so")
    parser.add_argument("--tier", nargs="+", default=TIERS, help=f"only these tiers; otherwise {', '.join(TIERS)}")
    parser.add_argument("--junit", type=Path, default=None, help="where results go, as JUnit XML")
    parser.add_argument("--log", type=Path, default=None, help="where the scheduler's output goes")
    options = parser.parse_args()
    if not (CASES / "run.py").is_file():
        sys.stderr.write(f"error: {CASES}: no conformance cases there; put the folder of run.py beside this checkout\n")
        return 1
    chosen = ["--tier", *options.tier]
    for name in ("log", "junit"):
        path = getattr(options, name)
        chosen += [f"--{name}", str(path.absolute())] if path else []
    try:
        version = kubernetes_version(find_assets())
        unmet = {} if options.prefixes else left_out(version)
        if only := options.prefixes or (all_but(unmet) if unmet else []):
            chosen += ["--only", *only]
        with ControlPlane.start(PLANE if version >= GANGS else Options()) as plane:
            code = run_cases(plane, chosen)
        tell(unmet, options.junit)
    except (AssetsError, ControlPlaneError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    return code


if __name__ == "__main__":
    sys.exit(main())
