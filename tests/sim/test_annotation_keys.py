"""No annotation that users write is read without `moorage validate` knowing it."""

from __future__ import annotations

import re
from pathlib import Path

import moorage
from moorage.sim.annotations import _KNOWN, _LABELS_OF_PODS

KEY = re.compile(r'"(moorage\.dev/[a-z][a-z-]*)"')
OTHERS = {
    "moorage.dev/devices",
    "moorage.dev/fallback-from",
    "moorage.dev/keeper-cordoned",
    "moorage.dev/keeper-notice",
    "moorage.dev/keeper-repack",
    "moorage.dev/keeper-since",
    "moorage.dev/keeper-until",
    "moorage.dev/leaving",
    "moorage.dev/placed-by",
    "moorage.dev/plain-http",
    "moorage.dev/replica-address",
    "moorage.dev/replica-follows",
    "moorage.dev/replica-of",
    "moorage.dev/term",
    "moorage.dev/unhealthy-devices",
}
"""Written by Moorage itself, or not on workloads and pods."""


def test_every_key_is_known_to_validate() -> None:
    """A new annotation: add its rule to `sim/annotations.py`, or its key to OTHERS."""
    texts = (path.read_text() for path in Path(moorage.__path__[0]).rglob("*.py"))
    read = {key for text in texts for key in KEY.findall(text)}
    assert read == OTHERS | {key for key in {*_KNOWN, *_LABELS_OF_PODS} if KEY.fullmatch(f'"{key}"')}
