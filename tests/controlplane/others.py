"""Programs of others that some drills need: each built once from the module proxy, as the control plane is.

A folder beside this file has a go.mod that says which versions. What a module has besides code, such as CRDs, is read
from the module cache.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from tests.controlplane import build

_FLAGS = ("-trimpath", "-buildvcs=false", "-mod=readonly", "-ldflags=-s -w")


def program(source: str, name: str, package: str) -> Path:
    """A program of the module in the folder `source`, built first if need be."""
    root, here = build.cache_folder(os.environ) / "controlplane", build.HERE / source
    digest = hashlib.sha256(b"".join((here / file).read_bytes() for file in ("go.mod", "go.sum"))).hexdigest()
    folder = root / f"{name}-{digest[:16]}"
    found = folder / name
    if not found.exists():
        root.mkdir(parents=True, exist_ok=True)
        with build.locked(root):
            go, env = build.find_go(root)
            log = root / f"{folder.name}.log"
            with build.becoming(folder) as unfinished:
                command = [go, "build", *_FLAGS, "-o", str(unfinished / name), package]
                build.run(command, what=name, env=env, log=log, cwd=here)
    return found


def module_folder(source: str, module: str) -> Path:
    """Where the module cache has a module that the folder `source` requires."""
    go, env = build.find_go(build.cache_folder(os.environ) / "controlplane")
    command = [go, "list", "-mod=readonly", "-m", "-f", "{{.Dir}}", module]
    answer = subprocess.run(command, cwd=build.HERE / source, env=env, capture_output=True, text=True, check=True)
    return Path(answer.stdout.strip())


def documents(*files: Path) -> Iterator[dict[str, Any]]:
    """The objects in files of YAML."""
    for file in files:
        yield from (document for document in yaml.safe_load_all(file.read_text()) if document)
