"""Names and numbers as parts of sentences."""

from __future__ import annotations

from collections.abc import Sequence

_LONGEST_LIST = 3


def joined(parts: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def listed(names: Sequence[str]) -> str:
    """The same of a few names; of more, the first ones and how many more there are."""
    if len(names) > _LONGEST_LIST:
        return f"{', '.join(names[:_LONGEST_LIST])} and {len(names) - _LONGEST_LIST} more"
    return joined(names)


def room_made(names: Sequence[str]) -> str:
    """` once a and b have made room`; empty for none."""
    return f" once {listed(names)} {'has' if len(names) == 1 else 'have'} made room" if names else ""


def counted(number: int, noun: str) -> str:
    """`1 pod`, `2 pods`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
