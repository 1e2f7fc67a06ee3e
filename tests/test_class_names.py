"""A public class name stands for one thing: readers, searches and error messages meet it without its module."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

SRC = Path(__file__).parents[1] / "src"

ERRORS = {"adapters/kube/errors.py", "adapters/memory/errors.py"}
"""Both are named after the API server's reasons, and adapters do not import each other."""

EXCEPTIONS = {
    "NodeAffinity": {"core/affinity.py", "plugins/node_affinity.py"},  # Kubernetes calls both so: a field and a plugin
}


def homes_of_classes() -> dict[str, set[str]]:
    """Public class at the top level of a module -> the modules that define it."""
    homes: dict[str, set[str]] = defaultdict(set)
    for file in SRC.rglob("*.py"):
        for node in ast.parse(file.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].add(file.relative_to(SRC / "moorage").as_posix())
    return homes


def test_no_two_classes_share_a_public_name() -> None:
    """Rename the newer of the two, or merge them if they are the same thing."""
    shared = {name: homes for name, homes in homes_of_classes().items() if len(homes) > 1 and homes != ERRORS}
    assert shared == EXCEPTIONS, "one name, two classes (or an exception that is no longer needed)"
