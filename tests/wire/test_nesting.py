from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moorage.core.claims import DeviceChoice, DeviceRequest
from moorage.wire import nesting
from moorage.wire.kinds import BY_ID, KINDS
from moorage.wire.nesting import flattened

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.sampled_from('[]{}"\\\n,:a')),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.sampled_from('[{"\\')), inner),
    max_leaves=30,
)


def cut(value: Any, depth: int) -> Any:
    """The same, told recursively."""
    if not isinstance(value, list | dict):
        return value
    if depth == 0:
        return 0
    if isinstance(value, list):
        return [cut(each, depth - 1) for each in value]
    return {key: cut(each, depth - 1) for key, each in value.items()}


@pytest.mark.parametrize("chunk", [1, 7, 1 << 20])
@given(value=VALUES, depth=st.integers(0, 4))
@settings(max_examples=60, deadline=None)
def test_what_lies_too_deep_becomes_a_number(chunk: int, value: Any, depth: int) -> None:
    """Everything else stays as it is, whatever strings hold, and wherever the text is cut into pieces."""
    whole, nesting._CHUNK = nesting._CHUNK, chunk
    try:
        assert json.loads(flattened(json.dumps(value).encode(), depth)) == cut(value, depth)
    finally:
        nesting._CHUNK = whole


def test_any_depth_is_read() -> None:
    """A million levels take no stack."""
    data = b'{"a":' + b"[" * 1_000_000 + b"]" * 1_000_000 + b',"b":1}'
    assert flattened(data, 1) == b'{"a":0,"b":1}'


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.id)
def test_every_kind_says_what_it_cannot_read(kind: Any) -> None:
    """Deeply nested JSON is a ValueError for the caller, never a RecursionError."""
    deep = b"[" * 3000 + b"]" * 3000
    data = b'{"metadata":{"name":"x"},"spec":' + deep + b',"status":' + deep + b',"opaque":' + deep + b"}"
    for text in (data, msgspec.Raw(data)):
        with pytest.raises(ValueError, match=kind.name):
            kind.decode(text)


def test_a_claim_with_opaque_parameters() -> None:
    """What a driver is told is none of our business, however it looks."""
    parameters = b"[" * 1200 + b"]" * 1200
    config = b'{"opaque":{"driver":"d","parameters":{"x":' + parameters + b"}}}"
    data = (
        b'{"metadata":{"name":"c","namespace":"ns"},"spec":{"devices":{"config":['
        + config
        + b'],"requests":[{"name":"r","exactly":{"deviceClassName":"gpu"}}]}}}'
    )
    claim = BY_ID["ResourceClaim"].decode(flattened(data, 64))
    assert claim.requests == (DeviceRequest("r", DeviceChoice(device_class="gpu")),)
    assert claim.config[0].parameters.startswith('{"x":[[[')
