"""Files of others are what their authors published."""

from __future__ import annotations

import hashlib
from pathlib import Path

from moorage.adapters import dashboard

VENDOR = Path(dashboard.__path__[0]) / "static" / "vendor"
OURS = {"README.md", "SHA256SUMS"}


def test_files_of_others_have_their_checksums_and_their_licence() -> None:
    """`sha256sum --check SHA256SUMS` says the same; there is nothing beside what it lists."""
    lines = (line.partition("  ") for line in (VENDOR / "SHA256SUMS").read_text().splitlines())
    listed = {name: digest for digest, _, name in lines}
    found = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in VENDOR.iterdir()}
    assert {name: digest for name, digest in found.items() if name not in OURS} == listed
    assert "The MIT License" in (VENDOR / "uPlot.LICENSE.txt").read_text()
    assert all(f"`{name}`" in (VENDOR / "README.md").read_text() for name in listed)
