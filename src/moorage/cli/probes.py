"""Addresses of probes, as commands take them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from moorage.adapters.serving.probes import Address


def probe_address(option: str, text: str) -> Address | None:
    """`HOST:PORT` or `:PORT` as its parts; None for an empty text, which means nowhere."""
    from moorage.cli.output import InputError  # noqa: PLC0415
    from moorage.wire.configuration.extending import split_address  # noqa: PLC0415 - pydantic

    if not text:
        return None
    found = split_address(text)
    if found is None:
        raise InputError([f"{option}: {text!r} is not an address; write HOST:PORT or :PORT, such as :8080"])
    return found
