from __future__ import annotations

import msgspec
import structlog

from moorage.adapters.kube.leftout import LeftOut
from moorage.adapters.kube.resources import RESOURCE_CLAIMS
from moorage.adapters.kube.watchstream import metadata_of
from moorage.core.limits import OBJECTS_TOLD


def raw(number: int) -> msgspec.Raw:
    return msgspec.Raw(b'{"metadata":{"namespace":"ns","name":"o%d"}}' % number)


def test_what_was_told_is_forgotten_in_the_end() -> None:
    """Thousands of objects that cannot be read do not pile up; one that is made again is told of again."""
    left_out = LeftOut(RESOURCE_CLAIMS)
    with structlog.testing.capture_logs() as lines:
        for number in range(OBJECTS_TOLD + 10):
            left_out.add(raw(number), ValueError("no"))
        left_out.add(raw(OBJECTS_TOLD), ValueError("no"))
        assert len(lines) == OBJECTS_TOLD + 10
        left_out.forget(metadata_of(raw(OBJECTS_TOLD)))
        left_out.add(raw(OBJECTS_TOLD), ValueError("no"))
    assert len(lines) == OBJECTS_TOLD + 11
    assert left_out.count == OBJECTS_TOLD + 12
    assert left_out.remembered == OBJECTS_TOLD
