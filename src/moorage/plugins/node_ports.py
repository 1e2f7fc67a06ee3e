"""NodePorts: the host ports that a pod wants must be free on the node."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import ClassVar

import numpy as np

from moorage.core.arrays import Rows
from moorage.core.edits import DropHostPort
from moorage.core.pods import HostPort, PodTemplate
from moorage.framework.changes import Change, What
from moorage.framework.cycle import Cycle
from moorage.framework.plugin import Plugin, Reads
from moorage.framework.remedies import Rejected, Remedy
from moorage.framework.status import SKIP, Reason, Rejections, Status

_TAKEN = (Reason("node(s) didn't have free ports for the requested pod ports"),)


class NodePorts(Plugin):
    """Keeps pods off nodes where another pod uses their host ports."""

    name: ClassVar[str] = "NodePorts"
    reads: ClassVar[Reads] = Reads.PODS
    wakes: ClassVar[What] = What.NODE_ADDED | What.POD_REMOVED

    def sign(self, template: PodTemplate) -> tuple[HostPort, ...]:
        """The host ports, nothing else."""
        return template.host_ports

    def helps(self, template: PodTemplate, change: Change) -> bool:
        """A pod that leaves helps if it held a port that this one wants."""
        if change.what is not What.POD_REMOVED or change.pod is None:
            return True
        return _collide(template.host_ports, change.pod.template.host_ports)

    def pre_filter(self, cycle: Cycle) -> Status | None:
        """Skip pods without host ports."""
        return None if cycle.template.host_ports else SKIP

    def filter(self, cycle: Cycle, rows: Rows) -> Rejections | None:
        """Reject rows on which a wanted port is taken."""
        taken = cycle.state.ports.conflicting_rows(cycle.template.host_ports)
        if not taken:
            return None
        column = np.zeros(cycle.state.capacity, dtype=np.int64)
        column[list(taken)] = 1
        return Rejections(column[rows], _TAKEN)

    def filter_row(self, cycle: Cycle, row: int) -> bool:
        """Whether all wanted ports are free on one row."""
        wanted = cycle.template.host_ports
        held = (record.pod.template.host_ports for record in cycle.state.records_on(row))
        return not any(ports and _collide(wanted, ports) for ports in held)

    def remedies(self, rejected: Rejected) -> Iterator[Remedy]:
        """Give up the one port that is taken, or all."""
        ports = rejected.pod.template.host_ports
        for port in ports:
            left = tuple(each for each in ports if each != port)
            if len(ports) > 1 and rejected.accepts(replace(rejected.pod.template, host_ports=left)):
                yield Remedy((DropHostPort(port),), 2.5)
        yield Remedy(tuple(map(DropHostPort, ports)), 2.5 * len(ports))


def _collide(wanted: Iterable[HostPort], held: tuple[HostPort, ...]) -> bool:
    """Whether the two cannot share a node; the empty address means all of a node's addresses."""
    return any(
        (a.protocol, a.port) == (b.protocol, b.port) and (a.address == b.address or not a.address or not b.address)
        for a in wanted
        for b in held
    )
