"""JSON that is nested too deeply for any decoder here: made flat, so that the rest of it can be read.

API servers take objects whose opaque parts are nested thousands of levels deep. Decoders recurse, also over what they
skip, and refuse. So nothing here recurses, and the time is linear in the length.
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np

from moorage.core.limits import JSON_DEPTH

_CHUNK = 1 << 20
"""Bytes that are looked at together; bounds the memory that a large list takes."""
_QUOTE, _ZERO = ord('"'), ord("0")
_STEPS = np.zeros(256, np.int8)
_STEPS[list(b"{[")] = 1
_STEPS[list(b"}]")] = -1


def decode_whole(data: bytes | msgspec.Raw) -> Any:
    """JSON of an API server as plain values; what is nested too deeply without what lies deeper than `JSON_DEPTH`."""
    try:
        return msgspec.json.decode(data)
    except RecursionError:
        return msgspec.json.decode(flattened(bytes(data), JSON_DEPTH))


def flattened(data: bytes, depth: int) -> bytes:
    """The same JSON, in which objects and lists inside of more than `depth` others are the number 0."""
    # Pairs first, from the left, as escapes are read; then every quote that is left begins or ends a string.
    plain = data.replace(b"\\\\", b"__").replace(b'\\"', b"__") if b"\\" in data else data
    kept: list[bytes] = []
    quotes = level = 0
    was_deep = False
    for start in range(0, len(data), _CHUNK):
        piece = np.frombuffer(plain, np.uint8, min(_CHUNK, len(data) - start), start)
        quoted = quotes + np.cumsum(piece == _QUOTE)
        steps = _STEPS[piece]
        steps[quoted & 1 == 1] = 0
        levels = level + np.cumsum(steps, dtype=np.int64)
        deep = levels > depth
        before = np.concatenate(([was_deep], deep[:-1]))
        begins, ends = deep & ~before, before & ~deep
        text = np.frombuffer(data, np.uint8, len(piece), start).copy()
        text[begins] = _ZERO
        kept.append(text[~(deep | ends) | begins].tobytes())
        quotes, level, was_deep = int(quoted[-1]), int(levels[-1]), bool(deep[-1])
    return b"".join(kept)
