"""No annotation that users write is read without `moorage validate` knowing it."""

from __future__ import annotations

import re
from pathlib import Path

import moorage
from moorage.sim.annotations import _KNOWN, _LABELS_OF_PODS
from tests.sim.other_keys import OTHERS

KEY = re.compile(r'"(moorage\.dev/[a-z][a-z-]*)"')


def test_every_key_is_known_to_validate() -> None:
    """A new annotation: add its rule to `sim/annotations.py`, or its key to `tests/sim/other_keys.py`."""
    texts = (path.read_text() for path in Path(moorage.__path__[0]).rglob("*.py"))
    read = {key for text in texts for key in KEY.findall(text)}
    assert read == OTHERS | {key for key in {*_KNOWN, *_LABELS_OF_PODS} if KEY.fullmatch(f'"{key}"')}
