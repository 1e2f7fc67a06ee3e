"""What is left of a world that was made smaller is what its breach needs."""

from __future__ import annotations

from tests.crossings.bodies import Body, node
from tests.crossings.shrinking import Shrinker
from tests.crossings.world import World


def deed(name: str, replicas: int) -> Body:
    template = {"spec": {"nodeSelector": {"disk": "fast"}, "containers": []}}
    made = {"kind": "ReplicaSet", "metadata": {"name": name}, "spec": {"replicas": replicas, "template": template}}
    return {"at": 0.0, "do": "create", "object": made}


def breached(world: World) -> set[str]:
    """Two replicas of b, and the node n1."""
    replicas = [
        each["object"]["spec"].get("replicas", 1)
        for each in world.script
        if each["object"]["metadata"].get("name") == "b"
    ]
    there = any(each["metadata"]["name"] == "n1" for each in world.objects)
    return {"rule"} if there and sum(replicas) >= 2 else set()


def test_only_what_the_breach_needs_is_left() -> None:
    """Fewer deeds and objects, fewer pods, fewer words."""
    world = World(
        "w",
        capabilities=["a", "b"],
        objects=[node("n0"), node("n1"), node("n2")],
        script=[deed("a", 3), deed("b", 5), deed("c", 1)],
        crashes=[3, 8],
    )
    left = Shrinker("rule", breached).shrink(world)
    assert [each["metadata"]["name"] for each in left.objects] == ["n1"]
    assert [each["object"]["spec"] for each in left.script] == [
        {"replicas": 2, "template": {"spec": {"containers": []}}}
    ]
    assert (left.crashes, left.capabilities) == ([], [])


def test_it_stops_when_it_has_played_enough() -> None:
    played: list[World] = []

    def judge(world: World) -> set[str]:
        played.append(world)
        return set()

    Shrinker("rule", judge, most=3).shrink(World("w", script=[deed(str(n), 1) for n in range(8)]))
    assert len(played) == 3
