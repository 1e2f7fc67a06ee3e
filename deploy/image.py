"""The content of the image, made without a container engine: `python deploy/image.py FOLDER`.

The Dockerfile runs this and copies the folder; the tests run it too. Build tools and dependencies are those of
requirements/, checked by their hashes. The folder holds an environment without pip, the executable `kube-scheduler`
beside `moorage` (no wheel has it: nobody should find it on the PATH by surprise), and `sbom.cdx.json`, a CycloneDX list
of what is in it. Needs Python with pip, the registry that pip is set up for, and nothing else of this project.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import uuid
import venv
from collections.abc import Iterable
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
BUILD_TOOLS = ("hatchling", "packaging", "pathspec", "pluggy", "tomlkit", "trove-classifiers")
"""The build backend and all that it needs; pip refuses to go on if one is missing."""
SBOM = "sbom.cdx.json"
_QUIET = ("--quiet", "--disable-pip-version-check")
_NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]*")

Document = dict[str, Any]


def locked(text: str, names: Iterable[str]) -> str:
    """The lines of a lock file that belong to these packages, hashes included."""
    wanted, chosen = set(names), []
    keeps = False
    for line in text.splitlines():
        found = _NAME.match(line)
        if found:
            keeps = found[0].lower() in wanted
        if keeps:
            chosen.append(line)
    return "\n".join(chosen) + "\n"


def run(*command: str | Path) -> None:
    """A step; what it says is shown where it fails."""
    done = subprocess.run(list(map(str, command)), check=False, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"error: {' '.join(map(str, command))}: {(done.stderr or done.stdout).strip()}")


def build_wheel(work: Path) -> tuple[Path, Path]:
    """The project's wheel, and a pip to install it with."""
    tools = work / "tools"
    venv.create(tools, with_pip=True)
    python = tools / "bin/python"
    requirements = work / "build.txt"
    requirements.write_text(locked((ROOT / "requirements/dev.txt").read_text(), BUILD_TOOLS))
    run(python, "-m", "pip", "install", *_QUIET, "--require-hashes", "-r", requirements)
    offline = ("--no-deps", "--no-index", "--no-build-isolation")
    run(python, "-m", "pip", "wheel", *_QUIET, *offline, "--wheel-dir", work, ROOT)
    (wheel,) = work.glob("moorage-*.whl")
    return wheel, python


def fill(folder: Path, wheel: Path, installer: Path) -> None:
    """An environment with the locked dependencies, those of traces included, and the wheel; without pip."""
    venv.create(folder, with_pip=False)
    pip = (installer, "-m", "pip", "--python", folder / "bin/python", "install", *_QUIET)
    run(*pip, "--require-hashes", "-r", ROOT / "requirements/image.txt")
    run(*pip, "--no-deps", "--no-index", wheel)


def add_kube_scheduler(folder: Path) -> Path:
    """The executable for manifests whose command is `kube-scheduler`: `moorage kube-scheduler` under that name."""
    script = folder / "bin/kube-scheduler"
    script.write_text(f"#!{folder}/bin/python\nfrom moorage.cli.kube_scheduler import main\n\nmain()\n")
    script.chmod(0o755)
    return script


def bill_of_materials(packages: Iterable[Distribution]) -> Document:
    """What is installed, as CycloneDX says it; the same packages give the same document."""
    found = sorted(packages, key=lambda package: package.name.lower())
    names = {_key(package.name): package for package in found}
    components = {key: _component(package) for key, package in names.items()}
    own = components.pop("moorage")
    needs = [
        {"ref": _purl(package), "dependsOn": sorted(_purl(names[key]) for key in _needs(package) if key in names)}
        for package in found
    ]
    body: Document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {**own, "type": "application"}},
        "components": list(components.values()),
        "dependencies": needs,
    }
    return {**body, "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(body, sort_keys=True))}"}


def _component(package: Distribution) -> Document:
    component: Document = {
        "type": "library",
        "bom-ref": _purl(package),
        "name": package.name,
        "version": package.version,
        "purl": _purl(package),
    }
    if "License-Expression" in package.metadata:
        return {**component, "licenses": [{"expression": package.metadata["License-Expression"]}]}
    return component


def _key(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _purl(package: Distribution) -> str:
    return f"pkg:pypi/{_key(package.name)}@{package.version}"


def _needs(package: Distribution) -> set[str]:
    """What it requires, extras aside."""
    plain = (text for text in package.requires or () if "extra ==" not in text)
    return {_key(found[0]) for text in plain if (found := _NAME.match(text))}


def main() -> None:
    """Make the folder."""
    if len(sys.argv) != 2:
        raise SystemExit("usage: python deploy/image.py FOLDER")
    folder = Path(sys.argv[1]).absolute()
    with tempfile.TemporaryDirectory() as work:
        wheel, installer = build_wheel(Path(work))
        fill(folder, wheel, installer)
    script = add_kube_scheduler(folder)
    (site_packages,) = folder.glob("lib/python3*/site-packages")
    document = bill_of_materials(distributions(path=[str(site_packages)]))
    (folder / SBOM).write_text(json.dumps(document, indent=1) + "\n")
    for executable in (folder / "bin/moorage", script):
        run(executable, "--version")


if __name__ == "__main__":
    main()
