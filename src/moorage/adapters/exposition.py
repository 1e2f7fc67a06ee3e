"""The format of a page of metrics, chosen by the Accept header."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

Encode = Callable[[Collector], bytes]


def encoder_of(accept: str) -> tuple[Encode, str]:
    """How a page is written, and its content type; the plain format where the header asks for none that there is."""
    try:
        found: tuple[Encode, str] = choose_encoder(accept)
    except (TypeError, ValueError):  # a version that is none, such as 0.0.4-x
        found = choose_encoder("")
    return found
