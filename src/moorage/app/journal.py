"""The journal of a scheduler: where it is written, and what it says about the configuration."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

from moorage.adapters.journal.writer import Journal
from moorage.adapters.serving.configz import documents
from moorage.core.values import dataclass
from moorage.engine.engine import Engine
from moorage.framework.configuration import Configuration
from moorage.framework.profiles import Profile

DEFAULT_BYTES = 1 << 30
_CREDENTIALS = re.compile(
    r"(?<=://)[^/@\s\"]*@|(?<=[?&])[^=&\s\"]*(?:token|secret|key|sig|password)[^=&\s\"]*=[^&\s\"]*", re.IGNORECASE
)
"""Parts of addresses that may be secret."""


@dataclass(frozen=True, slots=True)
class JournalOptions:
    """Options of the journal."""

    folder: Path
    size_bytes: int = DEFAULT_BYTES


def open_journal(
    options: JournalOptions | None, engine: Engine, document: str, *, seed: int, version: str
) -> Journal | None:
    """The journal of an engine that knows nothing yet; None without options. Raises JournalError."""
    if options is None:
        return None
    return Journal(options.folder, engine, document, seed=seed, version=version, size_bytes=options.size_bytes)


def document_of(configuration: Configuration, profiles: Sequence[Profile]) -> str:
    """The effective configuration, without secrets, as a text that `--config` takes."""
    return _CREDENTIALS.sub("", "\n".join(map(json.dumps, documents(configuration, profiles))))
