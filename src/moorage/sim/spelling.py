"""Keys of annotations and labels that are almost ones that Moorage reads."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import SequenceMatcher

_LONGEST_KEY = 100
_NEAR_NAME, _NEAR_PREFIX = 0.7, 0.8


def meant_key(key: str, known: Iterable[str]) -> str | None:
    """The known key that was probably meant, None for a stranger's.

    Prefix and name must both be near, as others use names like `pod-group` under prefixes of their own. The prefix may
    also be missing altogether, unless the name is one word, which may mean anything.
    """
    if len(key) > _LONGEST_KEY:
        return None
    nearest = max(((_likeness(key, each), each) for each in known), default=(0.0, ""))
    return nearest[1] if nearest[0] else None


def _likeness(key: str, known: str) -> float:
    """How near a key is to a known one, from 0 to 1; 0 as well if it is not near."""
    prefix, _, name = key.lower().rpartition("/")
    known_prefix, _, known_name = known.lower().rpartition("/")
    if not prefix and known_prefix:
        return float(name == known_name and "-" in name) / 2
    if not known_prefix:
        # Without a prefix there is less to go by.
        return 0.0 if prefix else _ratio(name, known_name, _NEAR_PREFIX)
    near = _ratio(prefix, known_prefix, _NEAR_PREFIX)
    return near * _ratio(name, known_name, _NEAR_NAME) if near else 0.0


def _ratio(one: str, other: str, least: float) -> float:
    """How alike two texts are, 0 if that is less than `least`."""
    matcher = SequenceMatcher(None, one, other)
    if matcher.real_quick_ratio() < least or matcher.quick_ratio() < least:
        return 0.0
    ratio = matcher.ratio()
    return ratio if ratio >= least else 0.0
