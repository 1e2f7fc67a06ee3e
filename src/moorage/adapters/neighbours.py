"""Files that a configuration file names: they are looked for beside it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from moorage.wire.place import STDIN

_MOST_BYTES = 1 << 20


def neighbours_of(file: str) -> Callable[[str], bytes | str]:
    """Reads files by names that are relative to the folder of `file`; a text says why one cannot be read."""
    folder = Path() if file == STDIN else Path(file).parent

    def read(name: str) -> bytes | str:
        try:
            path = folder / name
            if not path.is_file():  # a pipe or a device may have no end
                return "no such file beside the configuration; check the name" if not path.exists() else "is not a file"
            if path.stat().st_size > _MOST_BYTES:
                return f"is larger than {_MOST_BYTES} bytes"
            return path.read_bytes()
        except (OSError, ValueError) as error:
            return f"cannot be read ({getattr(error, 'strerror', None) or error}); make it readable"

    return read
