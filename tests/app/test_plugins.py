from __future__ import annotations

import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from moorage.app.plugins import GROUP, find_plugins
from moorage.framework.defaults import DEFAULT_PLUGINS
from moorage.framework.plugin import Plugin
from moorage.plugins.builtin import BUILTIN

MODULE = """
from moorage.framework.plugin import Plugin

class Quiet(Plugin):
    name = "Quiet"

class Nameless(Plugin):
    pass

class Taken(Plugin):
    name = "NodeName"

NUMBER = 7
"""


def point_at(value: str) -> EntryPoint:
    return EntryPoint(name="offered", value=value, group=GROUP)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of modules that a package might bring along."""
    (tmp_path / "quiet_plugins.py").write_text(MODULE)
    (tmp_path / "exits_plugins.py").write_text("raise SystemExit('go away')")
    (tmp_path / "typo_plugins.py").write_text("def broken(:\n")
    (tmp_path / "fails_plugins.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("quiet", "exits", "typo", "fails"):
        monkeypatch.delitem(sys.modules, f"{name}_plugins", raising=False)
    return tmp_path


def test_the_built_in_plugins_are_there() -> None:
    """Nothing needs to be installed for the default set, and every built-in plugin of it stands in its order."""
    found = find_plugins(installed=())
    assert found.registry.names() == tuple(cls.name for cls in BUILTIN)
    assert found.problems == ()
    defaults = [entry.name for entry in DEFAULT_PLUGINS if entry.name in found.registry]
    assert [name for name in found.registry.names() if name in defaults] == defaults


@pytest.mark.usefixtures("package")
def test_plugins_of_packages_are_found() -> None:
    """An entry point adds its class; finding it twice does no harm."""
    found = find_plugins(installed=[point_at("quiet_plugins:Quiet"), point_at("quiet_plugins:Quiet")])
    assert found.problems == ()
    cls = found.registry.get("Quiet")
    assert cls is not None
    assert issubclass(cls, Plugin)


BROKEN = {
    "no module": ("nowhere_plugins:Quiet", "the plugin cannot be loaded: ModuleNotFoundError: No module named"),
    "no class": ("quiet_plugins:Loud", "the plugin cannot be loaded: AttributeError"),
    "module that fails": (
        "fails_plugins:Quiet",
        "the plugin cannot be loaded: ZeroDivisionError: division by zero; repair",
    ),
    "module that exits": ("exits_plugins:Quiet", "the plugin cannot be loaded: SystemExit: go away"),
    "module that is not Python": ("typo_plugins:Quiet", "the plugin cannot be loaded: SyntaxError"),
    "not a class": ("quiet_plugins:NUMBER", "an object of type int is not a class derived from"),
    "not a plugin": ("quiet_plugins:Plugin.__class__", "builtins.type is not a class derived from"),
    "no name": ("quiet_plugins:Nameless", "quiet_plugins.Nameless has no name"),
    "a taken name": ("quiet_plugins:Taken", "the plugin name NodeName is taken by moorage.plugins."),
}


@pytest.mark.usefixtures("package")
@pytest.mark.parametrize(("value", "want"), BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_plugin_costs_only_itself(value: str, want: str) -> None:
    """One line names the entry point and the reason; the others are there all the same."""
    found = find_plugins(installed=[point_at(value), point_at("quiet_plugins:Quiet")])
    (problem,) = found.problems
    assert str(problem).startswith(f'an installed package: moorage.plugins.offered: "{value}": {want}')
    assert "\n" not in str(problem)
    assert "Quiet" in found.registry
    assert "NodeName" in found.registry


def test_an_installed_package_is_found_without_being_named(package: Path) -> None:
    """What stands in a package's entry points is found by a fresh interpreter, with the package's name for messages."""
    info = package / "quiet-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: quiet\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text("[moorage.plugins]\ngood = quiet_plugins:Quiet\nbad = quiet_plugins:Gone\n")
    program = (
        "from moorage.app.plugins import find_plugins\n"
        "found = find_plugins()\n"
        "print('Quiet' in found.registry)\n"
        "print(*found.problems, sep='\\n')\n"
    )
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(package)!r})\n{program}"]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    assert output[0] == "True"
    assert output[1].startswith(
        'package quiet 1.2: moorage.plugins.bad: "quiet_plugins:Gone": the plugin cannot be loaded'
    )
    assert len(output) == 2
