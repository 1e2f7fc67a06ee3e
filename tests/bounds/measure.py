"""Print what the worst object of each shape costs: `python -m tests.bounds.measure [NODES] [SHAPE ...]`."""

from __future__ import annotations

import sys

from moorage.adapters.process import tune_process
from tests.bounds.object_shapes import OBJECT_SHAPES
from tests.bounds.shapes import AT_LIMIT, NODE_SHAPES, POD_SHAPES
from tests.bounds.world import World, cost, object_cost


def main(arguments: list[str]) -> None:
    nodes = int(arguments[0]) if arguments else 500
    world = World(nodes)
    tune_process()
    tell(f"{nodes} nodes; another pod comes and goes in {min(world.other() for _ in range(5)):.2f} ms")
    tell(f"{'shape':<34}{'':<18}{'KB':>6}{'ms':>8}{'others ms':>11}{'gone ms':>9}{'kept KB':>9}{'left KB':>9}")
    for shape in arguments[1:] or [*POD_SHAPES, *NODE_SHAPES]:
        if shape in OBJECT_SHAPES:
            continue
        if shape in NODE_SHAPES:
            row(world, shape, "")
            continue
        row(world, shape, "pending")
        row(world, shape, "bound", node="n1")
        if shape in AT_LIMIT:
            row(world, shape, "pending, at limit", most=AT_LIMIT[shape])
            row(world, shape, "bound, at limit", node="n1", most=AT_LIMIT[shape])
    chosen = [shape for shape in arguments[1:] or OBJECT_SHAPES if shape in OBJECT_SHAPES]
    if chosen:
        objects(world, chosen)


def objects(world: World, shapes: list[str]) -> None:
    """Those of other kinds, with a pod that each concerns: before it comes, at first, and again."""
    head = f"{'KB':>6}{'ms':>8}{'asks ms':>9}{'again':>8}{'others ms':>11}{'gone ms':>9}{'kept KB':>9}{'left KB':>9}"
    tell(f"{'shape':<34}{'':<10}{head}")
    world.keep_company()
    for shape in shapes:
        found = object_cost(world, shape)
        how = "left out" if found.left_out else ""
        times = f"{found.came_ms:>8.1f}{found.first_ms:>9.2f}{found.next_ms:>8.2f}{found.other_ms:>11.2f}"
        kept = f"{found.left_ms:>9.1f}{found.kept_bytes // 1000:>9}{found.left_bytes // 1000:>9}"
        tell(f"{shape:<34}{how:<10}{found.size // 1000:>6}{times}{kept}")


def row(world: World, shape: str, how: str, node: str | None = None, most: int | None = None) -> None:
    found = cost(world, shape, node, most)
    times = f"{found.came_ms:>8.1f}{found.other_ms:>11.2f}{found.left_ms:>9.1f}"
    tell(
        f"{shape:<34}{how:<18}{found.size // 1000:>6}{times}{found.kept_bytes // 1000:>9}{found.left_bytes // 1000:>9}"
    )


def tell(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
