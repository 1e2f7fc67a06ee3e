"""Small worlds: objects that a scheduler has to deal with, the same for the same seed."""

from __future__ import annotations

from tests.faults.checks import GANG_LABEL, GANG_SIZE
from tests.faults.world import RUN, Object, World

HIGH = "faults-high"
"""A PriorityClass that the laboratory makes."""


def members(world: World, gang: str, size: int, *, cpu: str = "500m") -> list[Object]:
    """A gang, declared by annotations."""
    labels = {GANG_LABEL: gang, GANG_SIZE: str(size)}
    annotations = {"moorage.dev/pod-group": gang, "moorage.dev/pod-group-min-available": str(size)}
    return [world.pod(f"{gang}-{n}", cpu=cpu, labels=labels, annotations=annotations) for n in range(size)]


async def mixed(world: World) -> None:
    """Some pods alone, two that want the same host port, a gang, and one that has to evict another."""
    nodes = [world.node(f"n{number}", cpu="2") for number in range(3)]
    await world.add_nodes(*nodes, world.node("small", cpu="1", labels={"role": "small"}))
    victim = world.pod("victim", cpu="1", nodeName=f"{world.name}-small")
    await world.add_pods(victim, wanted=False)
    singles = [world.pod(f"single-{number}", cpu=world.rng.choice(("100m", "250m"))) for number in range(4)]
    ports = [world.pod(f"port-{number}", port=8080) for number in range(2)]
    selector = {RUN: world.name, "role": "small"}
    preemptor = world.pod("preemptor", cpu="1", priorityClassName=HIGH, nodeSelector=selector)
    pods = [*singles, *ports, preemptor, *members(world, "gang", 3)]
    world.rng.shuffle(pods)
    await world.add_pods(*pods)


async def tiny(world: World) -> None:
    """As few objects as make every kind of write: a pod, a gang of two, an eviction."""
    await world.add_nodes(world.node("n0", cpu="1"), world.node("n1", cpu="1"))
    await world.add_nodes(world.node("small", cpu="1", labels={"role": "small"}))
    await world.add_pods(world.pod("victim", cpu="1", nodeName=f"{world.name}-small"), wanted=False)
    selector = {RUN: world.name, "role": "small"}
    preemptor = world.pod("preemptor", cpu="1", priorityClassName=HIGH, nodeSelector=selector)
    pods = [world.pod("single"), preemptor, *members(world, "gang", 2, cpu="600m")]
    world.rng.shuffle(pods)
    await world.add_pods(*pods)


async def burst(world: World, count: int = 60, nodes: int = 6, *, stem: str = "pod") -> None:
    """Many equal pods and room for all of them."""
    need_milli = -(-count // nodes) * 100
    await world.add_nodes(*(world.node(f"n{number}", cpu=f"{need_milli + 400}m") for number in range(nodes)))
    await world.add_pods(*(world.pod(f"{stem}-{number:04}", cpu="100m") for number in range(count)))
