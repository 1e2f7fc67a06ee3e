"""The worst object of every kind beside pods and nodes: bounded work and memory, and gone without a rest."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Iterator

import pytest

from moorage.core.invariants import check_invariants
from moorage.wire.errors import WireError
from moorage.wire.kinds import BY_ID, KINDS, NODE, POD
from tests.bounds.calls import LEFT_BYTES, MOST_CALLS, MOST_CALLS_OF_OTHERS, calls
from tests.bounds.object_limits import LEFT_OUT
from tests.bounds.object_shapes import OBJECT_SHAPES, object_json
from tests.bounds.world import World


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    made = World(60, pods_per_node=3)
    made.keep_company()
    yield made
    check_invariants(made.engine.state)


def test_every_kind_has_a_worst_object() -> None:
    """VolumeAttachments among them; lists of prices are the operator's, no API server has them."""
    assert {shape.kind for shape in OBJECT_SHAPES.values()} == {
        kind.id for kind in KINDS if kind.served and kind not in (NODE, POD)
    }


@pytest.mark.parametrize("name", OBJECT_SHAPES)
def test_the_worst_object_of_a_kind_is_bounded(world: World, name: str) -> None:
    """It costs few calls when it comes, as do pods that it concerns and others, and little is left when it is gone."""
    data = object_json(name)
    world.asks(name)
    world.look_for_devices()
    assert calls(lambda: world.object_comes(name, data)) < MOST_CALLS
    assert (world.object_key is None) == (name in LEFT_OUT)
    assert calls(lambda: world.asks(name)) < MOST_CALLS
    assert calls(world.other) < MOST_CALLS_OF_OTHERS
    assert calls(lambda: world.object_goes(name)) < MOST_CALLS
    world.asks(name)
    gc.collect()
    tracemalloc.start()
    try:
        world.object_comes(name, data)
        world.asks(name)
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] < 10 * len(data)
        world.object_goes(name)
        world.asks(name)
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] < LEFT_BYTES
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", LEFT_OUT)
def test_an_object_beyond_a_limit_is_left_out_and_one_at_it_is_read(world: World, name: str) -> None:
    """What is left out says which field has how many; at the limit it costs little to ask for it."""
    kind = BY_ID[OBJECT_SHAPES[name].kind]
    with pytest.raises(WireError, match=rf"^{kind.name} \S+: .* has \d+ entries; an object with more than \d+ is not"):
        kind.decode(object_json(name, LEFT_OUT[name] + 1))
    data = object_json(name, LEFT_OUT[name])
    world.look_for_devices()
    assert calls(lambda: world.object_comes(name, data)) < MOST_CALLS
    assert world.object_key is not None
    assert calls(lambda: world.asks(name)) < MOST_CALLS
    assert calls(world.look_for_devices) < MOST_CALLS
    assert calls(world.other) < MOST_CALLS_OF_OTHERS
    world.object_goes(name)
