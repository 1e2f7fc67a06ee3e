"""What the engine knows of plugins is what they declare (`framework.contract`): it names none of them."""

from __future__ import annotations

import ast
from pathlib import Path

import moorage.engine
from moorage.plugins.builtin import BUILTIN


def test_the_engine_names_no_plugin() -> None:
    """A plugin by another name with the same declarations is treated alike."""
    names = {name for plugin in BUILTIN for name in (plugin.name, *plugin.aliases)}
    found = [
        f"{path.name}:{each.lineno}: {each.value}"
        for path in Path(moorage.engine.__path__[0]).rglob("*.py")
        for each in ast.walk(ast.parse(path.read_text()))
        if isinstance(each, ast.Constant) and each.value in names
    ]
    assert found == []
