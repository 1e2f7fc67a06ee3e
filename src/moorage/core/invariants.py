"""Recounts the state from its nodes and pods and compares.

Tests run it at the teardown of every state test, and a scheduler that checks itself between turns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import partial

import numpy as np

from moorage.core.amounts import claim_keys, summed
from moorage.core.claimshares import published_devices
from moorage.core.columns import FIRST_COLUMNS, PODS_COLUMN, most_of
from moorage.core.deviceindex import RESOURCE_CLAIM
from moorage.core.nodeimages import ImageIndex
from moorage.core.nodeports import PortIndex
from moorage.core.ownercounts import strategy_group
from moorage.core.podterms import HeldTerm, held_terms
from moorage.core.queueledger import ASKS, HOLDS, LedgerEntry
from moorage.core.sharedevices import DeviceColumns, model_of
from moorage.core.sparsecounts import SparseCounts
from moorage.core.state import NOWHERE, ClusterState
from moorage.core.strategy import Stamp, stamp_of
from moorage.core.tally import Tally


class InvariantError(AssertionError):
    """What must hold does not: a mistake of ours. The text says what differs."""


def check(truth: bool, message: str) -> None:
    """Raise `InvariantError` with the message unless it is true."""
    if not truth:
        raise InvariantError(message)


def check_invariants(state: ClusterState) -> None:
    """Raise `InvariantError` with what differs; a plain return means that every invariant of the state holds."""
    living = {name: state.row_of(name) for name in state.node_names()}
    check(len(set(living.values())) == len(living), "two nodes share a row")
    check(sorted(int(row) for row in state.rows()) == sorted(r for r in living.values() if r is not None), "alive mask")
    _check_nodes(state)
    _check_pods(state)
    _check_pod_counts(state)
    _check_pod_terms(state)
    _check_owners(state)
    _check_shared_devices(state)
    _check_queues(state)


def _check_nodes(state: ClusterState) -> None:
    images = ImageIndex()
    for row in map(int, state.rows()):
        node = state.node(row)
        offered = {name: int(state.resources.allocatable[i, row]) for i, name in enumerate(state.resources.names)}
        want = {name: min(node.allocatable.get(name, 0), most_of(name)) for name in offered}
        check(offered == want, f"{node.name}: allocatable {offered}, want {want}")
        check(state.taints.sets[state.taints.ids[row]] == node.taints, f"{node.name}: taints")
        check(bool(state.unschedulable[row]) == node.unschedulable, f"{node.name}: unschedulable")
        for key, value in node.labels.items():
            column = state.labels.known(key)
            check(column is not None and column.values[column.ids[row]] == value, f"{node.name}: label {key}")
        images.set_row(row, node.images)
    check(images.snapshot() == state.images.snapshot(), "images")


def _check_pods(state: ClusterState) -> None:
    requested = np.zeros_like(state.resources.requested)
    scored = np.zeros_like(state.resources.score_requested)
    uses = Counter(name for row in state.rows() for name, some in state.node(int(row)).allocatable.items() if some)
    ports = PortIndex()
    for record in state.records():
        row = state.row_of(record.node)
        check(record.row == (NOWHERE if row is None else row), f"{record.pod.key}: row {record.row}, want {row}")
        if row is None:
            continue
        check(any(record is other for other in state.records_on(row)), f"{record.pod.key}: missing on its row")
        for name, amount in record.pod.requests.amounts:
            column = state.resources.known(name)
            if column is not None:
                requested[column, row] += amount
                uses[name] += 1
        requested[PODS_COLUMN, row] += 1
        scored[0, row] += record.pod.requests.score_cpu_milli
        scored[1, row] += record.pod.requests.score_memory_bytes
        ports.add(row, record.pod.template.host_ports)
    check(np.array_equal(requested, state.resources.requested), "requested columns differ from a recount")
    used = {name: number for name, number in uses.items() if name not in FIRST_COLUMNS}
    found = {name: number for name, number in state.resources.uses().items() if number}
    check(found == used, f"resources in use are {found}, want {used}")
    check(np.array_equal(scored, state.resources.score_requested), "score columns differ from a recount")
    check(ports.snapshot() == state.ports.snapshot(), "host ports differ from a recount")
    on_rows = sum(len(state.records_on(row)) for row in range(state.capacity))
    placed = sum(record.row != NOWHERE for record in state.records())
    check(on_rows == placed, f"{on_rows} pods on rows, {placed} placed records")


def _check_pod_counts(state: ClusterState) -> None:
    """Groups are recounted from the pods, counters from the groups."""
    want: dict[tuple[object, ...], Counter[int]] = {}
    for record in state.records():
        if record.row != NOWHERE:
            template, deleting = record.pod.template, record.pod.deleted_s is not None
            want.setdefault((template.namespace, template.labels, deleting), Counter())[record.row] += 1
    groups = list(state.pod_counts.groups())
    found = {(group.namespace, group.labels, group.deleting): _counter(group.rows) for group in groups}
    check(found == want, "groups of pods differ from a recount")
    for counter in state.pod_counts.counters():
        matching = [group for group in groups if counter.matches(group)]
        check(set(counter.groups) == set(matching), f"{counter.question}: groups")
        check(all(counter in group.counters for group in matching), f"{counter.question}: links")
        _check_tally(state, counter.tally, sum((_counter(g.rows) for g in matching), Counter()), str(counter.question))


def _check_pod_terms(state: ClusterState) -> None:
    want: dict[HeldTerm, Counter[int]] = {}
    for record in state.records():
        if record.row != NOWHERE:
            for term in held_terms(record.pod.template):
                want.setdefault(term, Counter())[record.row] += 1
    found = {holders.term: holders.tally for holders in state.pod_terms.all()}
    check(found.keys() == want.keys(), "terms of pods differ from a recount")
    for term, tally in found.items():
        _check_tally(state, tally, want[term], str(term))


def _check_owners(state: ClusterState) -> None:
    if not state.owners.followed:
        return
    want: dict[str, Counter[int]] = {}
    for record in state.records():
        if record.row != NOWHERE and state.owners.counts(record.pod):
            want.setdefault(strategy_group(record.pod.template), Counter())[record.row] += 1
    found = {key: _counter(counts) for key, counts in state.owners.all()}
    check(found == want, "live pods by owner differ from a recount")
    marked: dict[tuple[str, Stamp], Counter[int]] = {}
    for record in state.records():
        template = record.pod.template
        stamp = stamp_of(template)
        if stamp.text and record.row != NOWHERE and state.owners.counts(record.pod):
            marked.setdefault((strategy_group(template), stamp), Counter())[record.row] += 1
    stamped = {(key, stamp): _counter(counts) for key, stamp, counts in state.owners.all_stamped()}
    check(stamped == marked, "live pods by stamp differ from a recount")


def _check_shared_devices(state: ClusterState) -> None:
    """What is left of devices is what they have less what pods on their rows ask for."""
    if not state.shared_devices.followed:
        return
    want, found = DeviceColumns(state.capacity), state.shared_devices
    state.shares()
    want.follow((row, state.node(row)) for row in state.rows().tolist())
    for row in state.rows().tolist():
        want.publish(row, published_devices(state.devices, state.node(row)), model_of(state.node(row)))
    for record in state.records():
        ask = record.pod.share
        if record.row != NOWHERE and ask is not None and not ask.problem:
            check(bool(record.devices) or not found.devices(record.row).count, f"{record.pod.key}: has no device")
            if record.devices:
                want.stand(record.pod.uid, record.row, ask, record.devices)
    slots = len(want.milli)
    check(np.array_equal(want.milli, found.milli[:slots]), "compute left on devices differs from a recount")
    check(np.array_equal(want.memory, found.memory[:slots]), "memory left on devices differs from a recount")
    check(np.array_equal(want.room, found.room[:slots]), "room on devices differs from a recount")
    check(np.array_equal(want.offers, found.offers), "the number of devices differs from a recount")


def _check_queues(state: ClusterState) -> None:
    """What queues have and ask for is what their pods count for, and of the users of a claim one counts for it."""
    if not state.queues.active:
        return
    tree = state.queues.settle(state)
    entries = [state.queues.about(pod) for pod, _, _ in state.queues.entries()]
    firsts = _first_users(state, entries)
    has: dict[str, Counter[int]] = {name: Counter() for name in tree.nodes}
    asks: dict[str, Counter[int]] = {name: Counter() for name in tree.nodes}
    for entry in entries:
        pod, demand = entry.pod, entry.demand
        claims = (key for key in claim_keys(pod.template) if firsts.get(key) is entry)
        named = dict(summed((state.amounts.own(pod), *map(state.amounts.claim, claims))))
        found = {tree.resources[index]: amount for index, amount in demand.amounts}
        want = {name: amount for name, amount in named.items() if name in found or tree.names(name)}
        check(found == want, f"{pod.key} counts for {found}, want {want}")
        for node in () if demand.leaf is None else demand.leaf.path:
            has[node.name].update(dict(demand.amounts) if entry.counted & HOLDS else {})
            asks[node.name].update(dict(demand.amounts) if entry.counted & ASKS else {})
    for name, node in tree.nodes.items():
        for told, amounts, sums in (("has", node.allocated, has), ("asks for", node.requested, asks)):
            recounted = [sums[name][index] for index in range(len(tree.resources))]
            check(amounts == recounted, f"queue {name} {told} {amounts}, want {recounted}")


def _first_users(state: ClusterState, entries: Iterable[LedgerEntry]) -> dict[str, LedgerEntry]:
    """The pod that each claim counts for."""
    users: dict[str, list[LedgerEntry]] = {}
    for entry in entries:
        for key in claim_keys(entry.pod.template) if entry.counted else ():
            users.setdefault(key, []).append(entry)

    def place(key: str, entry: LedgerEntry) -> tuple[bool, int, float, str]:
        claim = state.object(RESOURCE_CLAIM, key)
        uids = [] if claim is None else [each.uid for each in claim.reserved_for]
        pod = entry.pod
        return not entry.holds, (*uids, pod.uid).index(pod.uid), pod.created_s, pod.uid

    return {key: min(found, key=partial(place, key)) for key, found in users.items()}


def _check_tally(state: ClusterState, tally: Tally, want: Counter[int], what: str) -> None:
    check(_counter(tally.rows) == want, f"{what}: rows differ from a recount")
    check(tally.rows.total == want.total() and tally.rows.places == len(want), f"{what}: total")
    for column in tally.columns():
        column.refresh(state)
        by_value: Counter[str] = Counter()
        for row, count in want.items():
            node = state.node(row)
            if column.key in node.labels and column.scope.admits(node):
                by_value[node.labels[column.key]] += count
        labels = state.labels.known(column.key)
        domains = tally.by_domain(column)
        found = {labels.values[domain] if labels else "": count for domain, count in _counter(domains).items()}
        check(found == by_value, f"{what}: domains of {column.key} are {found}, want {dict(by_value)}")
        check(domains.total == by_value.total() and domains.places == len(by_value), f"{what}: total of {column.key}")


def _counter(counts: SparseCounts) -> Counter[int]:
    indices, numbers = counts.above_zero()
    return Counter(dict(zip(indices.tolist(), numbers.tolist(), strict=True)))
