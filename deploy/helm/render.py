"""Writes deploy/manifests/*.yaml from the chart, for clusters without helm, and the chart's CRDs: `make manifests`.

Each file can be applied alone or together with the others: the namespace and the configuration are in each of them, and
the same in all; the keeper has a configuration of its own. Only fence.yaml is an addition to scheduler.yaml. With
--check nothing is written; files that are not what the chart renders are named.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from moorage.bench.assets import AssetsError, find_assets

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "deploy" / "helm" / "moorage"
MANIFESTS = ROOT / "deploy" / "manifests"
CRDS = ROOT / "deploy" / "crds"
RELEASE, NAMESPACE = "moorage", "moorage-system"
SPOT_PROFILES = (
    "keeper.profiles[0].schedulerName=default-scheduler",
    "keeper.profiles[0].plugins.multiPoint.enabled[0].name=SpotPlacement",
    "keeper.profiles[0].pluginConfig[0].name=SpotPlacement",
    "keeper.profiles[0].pluginConfig[0].args.replicaClassLabel=replicas",
    "keeper.profiles[1].schedulerName=moorage",
)
"""For pods of a kube-scheduler that asks the extender of deploy/examples/spot-extender, and of `moorage scheduler`."""
FILES: dict[str, tuple[str, ...]] = {
    "scheduler.yaml": (),
    "fence.yaml": ("fence.enabled=true",),
    "extender.yaml": ("scheduler.enabled=false", "extender.enabled=true"),
    "webhook.yaml": ("scheduler.enabled=false", "webhook.enabled=true"),
    "shadow.yaml": ("scheduler.enabled=false", "shadow.enabled=true"),
    "keeper.yaml": ("scheduler.enabled=false", "keeper.enabled=true", *SPOT_PROFILES),
}
HELMS_OWN = ("helm.sh/chart:", "app.kubernetes.io/managed-by:", "# Source: ")
"""Lines that are true of what helm has installed only."""
FLOW_SCHEMAS = "flowSchemas.enabled=false"
"""Theirs have the same names in every file but other accounts, so a file would undo that of another."""

HEAD = "# Rendered from deploy/helm/moorage by `make manifests`; change the chart instead."
ADDITIONS = {"fence.yaml": "templates/fence.yaml"}
"""Files that hold what one template renders, and nothing else."""
NAMESPACE_DOCUMENT = f"""\
apiVersion: v1
kind: Namespace
metadata:
  name: {NAMESPACE}
  labels:
    pod-security.kubernetes.io/enforce: restricted
"""


def rendered(helm: Path, name: str) -> str:
    """The text of one file."""
    command = [str(helm), "template", RELEASE, str(CHART), "--namespace", NAMESPACE, "--kube-version", "1.30.0"]
    settings = FILES[name]
    if name in ADDITIONS:
        command += ["--show-only", ADDITIONS[name]]
    if "scheduler.enabled=false" in settings:
        settings = (*settings, FLOW_SCHEMAS)
    for setting in settings:
        command += ["--set", setting]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"error: helm template: {done.stderr.strip()}")
    lines = [line for line in done.stdout.splitlines() if not line.strip().startswith(HELMS_OWN)]
    values = f"Values: {', '.join(settings)}." if settings else "All values are the chart's."
    namespace = "" if name in ADDITIONS else NAMESPACE_DOCUMENT
    return f"{HEAD} {values}\n{namespace}" + "\n".join(line for line in lines if line.strip()) + "\n"


def wanted(helm: Path) -> dict[Path, str]:
    """Every file that is made here: the manifests, and the chart's copies of the CustomResourceDefinitions."""
    files = {MANIFESTS / name: rendered(helm, name) for name in FILES}
    return files | {CHART / "crds" / crd.name: crd.read_text() for crd in sorted(CRDS.glob("*.yaml"))}


def main() -> None:
    """Write the files, or compare them."""
    try:
        helm = find_assets() / "helm"
    except AssetsError as error:
        raise SystemExit(f"error: {error}") from None
    files = wanted(helm)
    stale = [path for path, text in files.items() if not path.exists() or path.read_text() != text]
    names = ", ".join(str(path.relative_to(ROOT)) for path in stale)
    if stale and "--check" in sys.argv:
        raise SystemExit(f"error: {names}: not what the chart renders; run make manifests")
    for path in stale:
        path.parent.mkdir(exist_ok=True)
        path.write_text(files[path])
    if stale:
        sys.stdout.write(f"wrote {names}\n")


if __name__ == "__main__":
    main()
