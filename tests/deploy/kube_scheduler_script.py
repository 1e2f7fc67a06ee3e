"""The executable `kube-scheduler` as the image has it, run by the interpreter of the tests."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from tests.deploy.chart import ROOT


def _module() -> ModuleType:
    """deploy/image.py, which is no module of a package."""
    spec = importlib.util.spec_from_file_location("image", ROOT / "deploy/image.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


image = _module()


def kube_scheduler(folder: Path) -> tuple[str, str]:
    """The beginning of its command line; the script is written into this folder."""
    (folder / "bin").mkdir()
    return sys.executable, str(image.add_kube_scheduler(folder))
