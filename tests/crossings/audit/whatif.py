"""The scene with some pods gone and some placed: what a plan would leave."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.crossings.audit.scene import Object, Scene, uid_of


@dataclass
class WhatIf:
    """A scene seen without some pods and with others on nodes; pods are placed and taken back like a stack."""

    scene: Scene
    gone: frozenset[str] = frozenset()
    """Uids."""
    frees_idle: bool = False
    """Whether a claim that nobody uses is taken to give its devices back."""
    placed: list[tuple[Object, str]] = field(default_factory=list)
    """Pod and node, in the order in which they were placed."""

    def on(self, node: str) -> Iterator[Object]:
        """The pods on a node."""
        known = set()
        for pod in self.scene.on(node):
            known.add(uid_of(pod))
            if uid_of(pod) not in self.gone:
                yield pod
        yield from (pod for pod, where in self.placed if where == node and uid_of(pod) not in known)

    def standing(self) -> Iterator[tuple[Object, str]]:
        """All pods on nodes, with the node."""
        for node in self.scene.nodes:
            for pod in self.on(node):
                yield pod, node
