"""`moorage devices`: who has which device; from files or from a live cluster."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TextIO

import click

from moorage.cli.options import cluster_option, common_options, kubeconfig_option, output_option
from moorage.cli.output import GOOD, InputError, say

if TYPE_CHECKING:  # at run time these cost a start-up of numpy, and --help needs none of it
    from moorage.app.devices import DevicesSeen
    from moorage.core.nodes import Node
    from moorage.views.devices import DeviceEntry, DeviceHolding, Inventory, PoolEntry

_NOTHING, _ALL_NODES, _SOME_NODES = "-", "(all)", "(some)"
_MOST_DETAILS = 4


@click.command("devices", short_help="Show which devices there are, and who has them.")
@cluster_option
@click.option("--node", metavar="NAME", default=None, help="Only devices that this node can use.")
@click.option("--driver", metavar="NAME", default=None, help="Only devices of this driver.")
@click.option("--free", is_flag=True, help="Only devices that another claim could get, taints aside.")
@kubeconfig_option
@output_option("table", "json")
@common_options
def command(
    files: tuple[str, ...],
    node: str | None,
    driver: str | None,
    free: bool,
    kubeconfig: str | None,
    output_format: str,
) -> int:
    """List the devices of dynamic resource allocation: what they are, and which claims and pods have them.

    NODE is the node that can use the device, `(all)` or `(some)` nodes. Nothing is allocated, and nothing is written to
    the cluster; files are shown as they are.
    """
    from moorage.views.devices import document  # noqa: PLC0415 - numpy, not needed for --help

    if files and kubeconfig:
        raise click.UsageError("--filename and --kubeconfig exclude each other: devices are in files or in a cluster")
    found = _choose(_from_files(files) if files else _from_cluster(kubeconfig), node, driver, free=free)
    if output_format == "json":
        import msgspec  # noqa: PLC0415

        sys.stdout.write(msgspec.json.encode(document(found)).decode() + "\n")
    else:
        write_table(found, sys.stdout)
    return GOOD


def _from_files(files: Sequence[str]) -> DevicesSeen:
    from moorage.app.devices import DEVICE_OBJECTS, DevicesSeen  # noqa: PLC0415
    from moorage.core.nodes import Node  # noqa: PLC0415
    from moorage.core.state import ClusterState  # noqa: PLC0415
    from moorage.sim.inputs import read_cluster  # noqa: PLC0415
    from moorage.wire.manifests import load_manifests  # noqa: PLC0415

    given = read_cluster(load_manifests(files))
    if given.problems:
        raise InputError(given.problems)
    state = ClusterState()
    for manifest in given.places.values():
        kind = manifest.known
        if kind is not None and kind.id in (*DEVICE_OBJECTS, "Node"):
            value = manifest.read(kind)
            if isinstance(value, Node):
                state.upsert_node(value)
            else:
                state.put_object(kind.id, value.key, value)
    say("warning", given.warnings)
    return DevicesSeen(", ".join(dict.fromkeys(files)), state, given.warnings)


def _from_cluster(kubeconfig: str | None) -> DevicesSeen:
    from moorage.app.devices import look_at_devices  # noqa: PLC0415
    from moorage.app.look import LookError  # noqa: PLC0415
    from moorage.cli.logs import answering_logs  # noqa: PLC0415

    try:
        with answering_logs():
            seen = look_at_devices(kubeconfig)
    except LookError as error:
        raise InputError([error]) from None
    say("warning", seen.warnings)
    return seen


def _choose(seen: DevicesSeen, node: str | None, driver: str | None, *, free: bool) -> Inventory:
    from dataclasses import replace  # noqa: PLC0415

    from moorage.views.devices import AVAILABLE, drivers, inventory  # noqa: PLC0415

    found: Node | None = None
    if node is not None:
        row = seen.state.row_of(node)
        if row is None:
            raise InputError([f"{seen.source}: no node {node}; {_meant(node, seen.state.node_names())}"])
        found = seen.state.node(row)
    listed = inventory(seen.state, found, driver)
    if driver is not None and not listed.devices and not listed.pools and driver not in drivers(seen.state):
        raise InputError([f"{seen.source}: no devices of driver {driver}; {_meant(driver, drivers(seen.state))}"])
    if free:
        listed = replace(listed, devices=tuple(entry for entry in listed.devices if entry.state in AVAILABLE))
    return listed


def _meant(name: str, known: Iterable[str]) -> str:
    from difflib import get_close_matches  # noqa: PLC0415

    from moorage.core.phrases import listed  # noqa: PLC0415

    names = sorted(known)
    near = get_close_matches(name, names, n=3)
    if near:
        return f"did you mean {' or '.join(near)}?"
    return f"known: {listed(names)}" if names else "there is none at all"


# --- the table ---


def write_table(found: Inventory, out: TextIO) -> None:
    """Tables of devices, and of pools with counters or problems; and a line that sums up."""
    from moorage.core.phrases import counted  # noqa: PLC0415
    from moorage.sim import tables  # noqa: PLC0415 - not needed for --help

    if found.devices:
        columns = ("NODE", "DRIVER", "POOL", "DEVICE", "STATE", "CLAIMS", "PODS", "TAINTS", "DETAILS")
        tables.write_table(columns, [_device_row(entry) for entry in found.devices], out)
        out.write("\n")
    pools = [row for entry in found.pools for row in _pool_rows(entry)]
    if pools:
        tables.write_table(("DRIVER", "POOL", "COUNTER", "FREE", "TOTAL", "PROBLEM"), pools, out)
        out.write("\n")
    states = "".join(f", {number} {state}" for state, number in found.counts.items())
    out.write(f"{counted(len(found.devices), 'device')}{states}\n")


def _device_row(entry: DeviceEntry) -> tuple[str, ...]:
    name = entry.id
    node = entry.node or (_ALL_NODES if entry.everywhere else _SOME_NODES)
    claims = _joined(_claim(each) for each in entry.holdings)
    pods = _joined(pod for each in entry.holdings for pod in each.pods)
    taints = _joined(map(str, entry.taints))
    return (node, name.driver, name.pool, name.device, entry.state.value, claims, pods, taints, _details(entry))


def _claim(each: DeviceHolding) -> str:
    return f"{each.claim} (admin)" if each.admin else each.claim


def _joined(parts: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(parts)) or _NOTHING


def _details(entry: DeviceEntry) -> str:
    """What makes it another device than its neighbours: capacity, counters and attributes, the first few."""
    from moorage.views.devices import device_document  # noqa: PLC0415

    if entry.problem:
        return entry.problem
    attributes: Mapping[str, object] = device_document(entry)["attributes"]
    amounts = [
        f"{name}={f'{entry.consumed[name]} of ' if name in entry.consumed else ''}{text}"
        for name, text in entry.capacity.items()
    ]
    taken = [f"{name}={text}" for name, text in entry.counters.items()]
    said = [*amounts, *taken, *(f"{name}={_text(value)}" for name, value in attributes.items())]
    more = [f"{len(said) - _MOST_DETAILS} more"] if len(said) > _MOST_DETAILS else []
    return ", ".join([*said[:_MOST_DETAILS], *more]) or _NOTHING


def _text(value: object) -> str:
    if isinstance(value, list):
        return "[" + " ".join(map(_text, value)) + "]"
    return str(value).lower() if isinstance(value, bool) else "?" if value is None else str(value)


def _pool_rows(entry: PoolEntry) -> Iterable[tuple[str, ...]]:
    if not entry.counters:
        yield (*entry.id, _NOTHING, _NOTHING, _NOTHING, entry.problem or _NOTHING)
    for name, (left, total) in entry.counters.items():
        yield (*entry.id, name, left, total, entry.problem or _NOTHING)
