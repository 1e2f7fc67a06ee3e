"""The general pages, as plain values: overview, changes, a node, a search."""

from __future__ import annotations

from typing import Any

from moorage.core.columns import CPU_COLUMN, MEMORY_COLUMN
from moorage.core.nodes import Node
from moorage.core.pods import Pod
from moorage.core.quantity import format_amount
from moorage.core.resources import PODS
from moorage.views.devices import device_document, inventory, pool_document
from moorage.views.nodemap import MIB, zone_of
from moorage.views.queues import queue_counts
from moorage.views.shareddevices import shared_devices
from moorage.views.world import World

_MOST_FOUND = 100


def summary(world: World, now: float) -> dict[str, Any]:
    """The numbers that every page shows."""
    state = world.state
    rows = state.rows()
    requested, allocatable = state.resources.requested, state.resources.allocatable
    return {
        "now": now,
        "nodes": state.node_count,
        "pods": state.pod_count,
        "queue": queue_counts(world),
        "cpu": [int(requested[CPU_COLUMN][rows].sum()), int(allocatable[CPU_COLUMN][rows].sum())],
        "memory": [
            int(requested[MEMORY_COLUMN][rows].sum()) // MIB,
            int(allocatable[MEMORY_COLUMN][rows].sum()) // MIB,
        ],
        "notices": len(world.notices),
        "off": sum(split.off for split in world.splits),
        "versions": {
            "queue": world.versions.queue,
            "strategies": world.versions.strategies,
            "spot": world.versions.spot,
            "pods": world.versions.pods,
            "trial": world.versions.trial,
            "timeline": world.timeline.last,
            "series": world.series.version,
        },
    }


def node_page(world: World, node: Node) -> dict[str, Any]:
    """One node with its pods and the devices that it can use."""
    state = world.state
    row = state.row_of(node.name)
    amounts = [
        [name, *_texts(name, asked, offered), round(asked / offered, 4) if offered else None]
        for name, asked, offered in (() if row is None else state.resources.listed(row))
    ]
    records = [] if row is None else state.records_on(row)
    devices = inventory(state, node)
    return {
        "name": node.name,
        "zone": zone_of(node),
        "ready": node.ready,
        "unschedulable": node.unschedulable,
        "notices": [notice.words for notice in world.notices.get(node.name, ())],
        "resources": amounts,
        "labels": dict(node.labels),
        "taints": [f"{taint.key}={taint.value}:{taint.effect}" for taint in node.taints],
        "pods": sorted((_pod_row(world, record.pod) for record in records), key=lambda each: str(each["pod"])),
        "devices": [device_document(entry) for entry in devices.devices],
        "pools": [pool_document(entry) for entry in devices.pools],
        "shared": [] if row is None else shared_devices(state, row),
    }


def _texts(name: str, *amounts: int) -> list[str]:
    return [str(amount) if name == PODS else format_amount(name, amount) for amount in amounts]


def search(world: World, text: str) -> dict[str, Any]:
    """Pods and nodes whose name contains this text."""
    wanted = text.strip().lower()
    pods: list[dict[str, Any]] = []
    for key, uid in world.by_key.items():
        if wanted in key.lower():
            pods.append(_pod_row(world, world.pods[uid]))
            if len(pods) >= _MOST_FOUND:
                break
    nodes = [name for name in sorted(world.state.node_names()) if wanted in name.lower()]
    return {"pods": pods, "nodes": nodes[:_MOST_FOUND], "more": len(pods) >= _MOST_FOUND}


def _pod_row(world: World, pod: Pod) -> dict[str, Any]:
    settled = pod.node is not None or pod.deleted_s is not None
    return {
        "pod": pod.key,
        "node": pod.node or "",
        "phase": "Terminating" if pod.deleted_s is not None else pod.phase,
        "place": "" if settled else world.place(pod)[0].value,
        "requests": {name: format_amount(name, amount) for name, amount in pod.requests.amounts},
        "priority": pod.template.priority,
    }
