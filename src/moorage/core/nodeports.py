"""Host ports in use, indexed by port so that a pod with ports asks only about its own."""

from __future__ import annotations

from collections.abc import Iterable

from moorage.core.pods import HostPort

_ANY = ""


class PortIndex:
    """(protocol, port) -> row -> address -> number of pods that hold it there."""

    def __init__(self) -> None:
        self._uses: dict[tuple[str, int], dict[int, dict[str, int]]] = {}

    def add(self, row: int, ports: Iterable[HostPort]) -> None:
        """A pod with these ports came to the row."""
        for port in ports:
            held = self._uses.setdefault((port.protocol, port.port), {}).setdefault(row, {})
            held[port.address] = held.get(port.address, 0) + 1

    def remove(self, row: int, ports: Iterable[HostPort]) -> None:
        """A pod with these ports left the row."""
        for port in ports:
            key = (port.protocol, port.port)
            by_row = self._uses[key]
            held = by_row[row]
            held[port.address] -= 1
            if not held[port.address]:
                del held[port.address]
            if not held:
                del by_row[row]
            if not by_row:
                del self._uses[key]

    def conflicting_rows(self, ports: Iterable[HostPort]) -> set[int]:
        """Rows on which at least one of the ports is taken; the unspecified address collides with every other."""
        found: set[int] = set()
        for port in ports:
            for row, held in self._uses.get((port.protocol, port.port), {}).items():
                if port.address == _ANY or _ANY in held or port.address in held:
                    found.add(row)
        return found

    def snapshot(self) -> dict[tuple[str, int], dict[int, dict[str, int]]]:
        """A plain copy for comparisons."""
        return {key: {row: dict(held) for row, held in rows.items()} for key, rows in self._uses.items()}
