"""The fenced blocks of a Markdown document, and what each promises to its reader.

```console            a session: `$ ` starts a command, `> ` continues it, other lines are its output
```console cluster    the same, on a live cluster
```python             is run, after those before it in the same document
```yaml file=F        is, line by line, the content of the file F; so with toml and python
```text               is read by people only
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = (
    "README.md",
    "CONTRIBUTING.md",
    "docs/architecture.md",
    "docs/devices.md",
    "docs/experiments.md",
    "docs/explain.md",
    "docs/performance.md",
    "docs/plugins.md",
    "docs/queues.md",
    "docs/shadow.md",
    "docs/simulate.md",
    "docs/trials.md",
    "docs/what-if.md",
    "docs/workloads.md",
)

_FENCE = re.compile(r"^```(\S*)\s*(.*)$")


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block."""

    document: str
    line: int
    """Of the opening fence, counted from 1."""
    language: str
    words: tuple[str, ...]
    """What follows the language."""
    lines: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.document}:{self.line}"

    @property
    def file(self) -> Path | None:
        """The file that the block repeats."""
        named = [word.removeprefix("file=") for word in self.words if word.startswith("file=")]
        return ROOT / named[0] if named else None


@dataclass(frozen=True, slots=True)
class Step:
    """A command, and the output that is shown for it."""

    command: str
    want: tuple[str, ...]


def blocks_of(document: str) -> list[Block]:
    """All blocks of a document, in order."""
    found: list[Block] = []
    opened: tuple[int, str, tuple[str, ...]] | None = None
    lines: list[str] = []
    for number, line in enumerate((ROOT / document).read_text().splitlines(), start=1):
        fence = _FENCE.match(line)
        if fence is None:
            lines.append(line)
        elif opened is None:
            opened, lines = (number, fence[1], tuple(fence[2].split())), []
        else:
            found.append(Block(document, *opened, tuple(lines)))
            opened = None
    if opened is not None:
        raise ValueError(f"{document}:{opened[0]}: the block has no end")
    return found


def all_blocks(*languages: str) -> list[Block]:
    """The blocks of all documents in these languages, or all of them."""
    return [
        block for document in DOCUMENTS for block in blocks_of(document) if not languages or block.language in languages
    ]


def steps_of(block: Block) -> list[Step]:
    """The commands of a session."""
    steps: list[tuple[list[str], list[str]]] = []
    for line in block.lines:
        if line.startswith("$ "):
            steps.append(([line[2:]], []))
        elif not steps:
            raise ValueError(f"{block}: a session starts with a command, not with {line!r}")
        elif line.startswith("> ") and not steps[-1][1]:
            steps[-1][0].append(line[2:])
        else:
            steps[-1][1].append(line)
    return [Step("\n".join(command), tuple(want)) for command, want in steps]


def matches(want: tuple[str, ...], got: list[str]) -> bool:
    """Whether the output is as shown: `...` stands for any text in a line, and alone on a line for any lines."""
    pattern = "".join(
        r"(?:.*\n)*?" if line.strip() == "..." else re.escape(line.rstrip()).replace(r"\.\.\.", ".*") + r"\n"
        for line in want
    )
    return re.fullmatch(pattern, "".join(f"{line.rstrip()}\n" for line in got)) is not None
