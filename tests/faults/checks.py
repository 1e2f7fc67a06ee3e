"""What the auditor holds against a history. Pure, and nothing here is Moorage's.

Each check returns breaches, a line each; `audit` runs all of them. What a scenario does itself, or expects, is said in
`Terms`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from tests.faults.history import (
    DELETED,
    History,
    Object,
    Revision,
    allocatable,
    clash,
    host_ports,
    is_finished,
    is_leaving,
    is_ready,
    node_of,
    refuses,
    requests,
)

LATE_S = 1.0
"""How long a change of a node may be on its way to the scheduler that binds to it."""
GANG_LABEL = "faults.moorage.dev/gang"
GANG_SIZE = "faults.moorage.dev/gang-size"
"""Every member of a gang says so, however the gang is declared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What a scenario allows."""

    ours: frozenset[str] = frozenset()
    """schedulerNames whose binds are judged; none: all."""
    pending: frozenset[str] = frozenset()
    """Pods that need not be bound at the end."""
    removed: frozenset[str] = frozenset()
    """Pods that the scenario deletes itself: budgets do not hold for these."""
    events_may_be_lost: bool = False
    """A process that is killed takes what it wanted to say along."""
    kept_elsewhere: frozenset[str] = frozenset()
    """Resources that nodes do not offer, since an extender accounts for them."""
    late_s: float = LATE_S
    """`LATE_S`, and how late the auditor itself was."""
    gaps: bool = False
    """The API server itself was ended: its watch cache begins anew, and the auditor lists as everybody does."""
    blind: bool = False
    """The view of nodes was frozen: nobody could know what became of them."""


@dataclass(frozen=True, slots=True)
class End:
    """How a run came out, but for the choice of nodes."""

    bound: frozenset[str]
    gangs: frozenset[str]
    """Gangs that run as a whole."""
    evicted: frozenset[str]

    def differs(self, calm: End) -> list[str]:
        """What is not as in the run without the fault."""
        said = []
        for what in ("bound", "gangs", "evicted"):
            ours, theirs = getattr(self, what), getattr(calm, what)
            if ours != theirs:
                more, less = sorted(ours - theirs)[:5], sorted(theirs - ours)[:5]
                said.append(f"{what} differs from the run without the fault: more {more}, missing {less}")
        return said


def audit(history: History, terms: Terms) -> list[str]:
    """Every breach."""
    return [
        *([] if terms.gaps else history.gaps),
        *moved(history),
        *overcommitted(history, terms),
        *stranded(history, terms),
        *misplaced(history, terms),
        *partial(history, terms),
        *budgets_broken(history, terms),
        *events_doubled(history, terms),
        *devices_doubled(history),
        *bound_without_devices(history, terms),
        *reserved_for_nobody(history),
    ]


def end_of(history: History, terms: Terms) -> End:
    """How it came out."""
    pods = [pod for pod in history.last("pods").values() if not is_leaving(pod)]
    whole = {gang for gang, (have, size) in _gangs(pods).items() if have >= size}
    gone = {each.uid: each.object for each in history.of("pods") if each.change == DELETED or is_leaving(each.object)}
    evicted = [pod for pod in gone.values() if _name(pod) not in terms.removed]
    return End(_titles(pod for pod in pods if node_of(pod)), frozenset(whole), _titles(evicted))


def moved(history: History) -> list[str]:
    """No pod is bound twice or moved."""
    homes: dict[str, str] = {}
    found = []
    for each in history.of("pods"):
        node = node_of(each.object)
        if node and homes.setdefault(each.uid, node) != node:
            found.append(f"{each.name} was on {homes[each.uid]} and then on {node}")
            homes[each.uid] = node
    return found


def overcommitted(history: History, terms: Terms) -> list[str]:
    """No bind takes a node beyond its allocatable, in any resource, or to a host port that is taken.

    Where others bind too, only what could be seen at our bind counts: pods of theirs that had been there for a second.
    """
    return [line for line, could_be_seen in _excesses(history, terms) if could_be_seen]


def races(history: History, terms: Terms) -> list[str]:
    """Overcommitment that nobody could see coming: two schedulers bound at the same moment."""
    return [line for line, could_be_seen in _excesses(history, terms) if not could_be_seen]


def overfull(history: History) -> list[str]:
    """Nodes that hold more than they have at the end, whichever scheduler put it there."""
    pods = [pod for pod in history.last("pods").values() if not is_finished(pod)]
    found = []
    for node in history.last("nodes").values():
        here = [_Load.of(pod, Terms()) for pod in pods if node_of(pod) == _name(node)]
        if any(_excess(load, [other for other in here if other is not load], node) for load in here):
            found.append(_name(node))
    return found


@dataclass(frozen=True, slots=True)
class _Load:
    """What a pod takes of its node."""

    name: str
    amounts: Mapping[str, Decimal]
    ports: frozenset[tuple[str, int, str]]

    @classmethod
    def of(cls, pod: Object, terms: Terms) -> _Load:
        amounts = {name: amount for name, amount in requests(pod).items() if name not in terms.kept_elsewhere}
        return cls(_name(pod), amounts, frozenset(host_ports(pod)))


def _excesses(history: History, terms: Terms) -> Iterator[tuple[str, bool]]:
    """Each bind of ours that exceeds a node, and whether that could be seen."""
    loads: dict[str, _Load] = {}

    def load(each: Revision) -> _Load:
        if each.uid not in loads:
            loads[each.uid] = _Load.of(each.object, terms)
        return loads[each.uid]

    for each, there, node in _binds(history, terms):
        if node is None:
            continue
        here = [other for other in there.values() if not is_finished(other.object) and other.uid != each.uid]
        line = _excess(load(each), [load(other) for other in here], node)
        if line:
            seen = [
                other for other in here if _is_ours(other.object, terms) or each.seen_s - other.seen_s >= terms.late_s
            ]
            yield line, bool(_excess(load(each), [load(other) for other in seen], node))


def _excess(pod: _Load, others: Sequence[_Load], node: Object) -> str:
    room, name = allocatable(node), node["metadata"]["name"]
    for resource, asked in pod.amounts.items():
        used = asked + sum(other.amounts.get(resource, Decimal(0)) for other in others)
        if asked and used > room.get(resource, Decimal(0)):
            return f"{pod.name} bound to {name}: {used} of {resource}, it has {room.get(resource, 0)}"
    if any(clash(pod.ports, other.ports) for other in others):
        return f"{pod.name} bound to {name}, where its host port is taken"
    return ""


def misplaced(history: History, terms: Terms) -> list[str]:
    """No bind to a node that was gone, cordoned or tainted for more than a second."""
    if terms.blind:
        return []
    found = []
    since: dict[str, tuple[float, Object | None]] = {}
    seen: set[str] = set()
    for each in history.revisions:
        if each.kind == "nodes":
            since[each.name] = _standing(each, since.get(each.name))
        elif each.kind == "pods" and node_of(each.object) and each.uid not in seen:
            seen.add(each.uid)
            changed_s, node = since.get(node_of(each.object), (0.0, None))
            why = "gone" if node is None else refuses(node, each.object)
            if why and _is_ours(each.object, terms) and each.seen_s - changed_s > terms.late_s:
                late_s = f"for {each.seen_s - changed_s:.1f} s" if changed_s else "and never was there"
                found.append(f"{each.name} was bound to {node_of(each.object)}, which was {why} {late_s}")
    return found


def _standing(each: Revision, before: tuple[float, Object | None] | None) -> tuple[float, Object | None]:
    """Since when a node has refused what it refuses now, and its state; None once it is gone."""
    if each.change == DELETED:
        return each.seen_s, None
    if before is not None and before[1] is not None and _shut(before[1]) == _shut(each.object):
        return before[0], each.object
    return each.seen_s, each.object


def _shut(node: Object) -> object:
    spec = node.get("spec") or {}
    taints = sorted((taint["key"], taint.get("value") or "", taint["effect"]) for taint in spec.get("taints") or [])
    return bool(spec.get("unschedulable")), taints, is_leaving(node)


def stranded(history: History, terms: Terms) -> list[str]:
    """No schedulable pod is without a node at the end; gangs are schedulable as a whole."""
    pods = [pod for pod in history.last("pods").values() if not is_leaving(pod) and not is_finished(pod)]
    nodes = {node["metadata"]["name"]: node for node in history.last("nodes").values()}
    standing = [pod for pod in pods if node_of(pod)]
    units: dict[str, list[Object]] = defaultdict(list)
    for pod in pods:
        excused = _name(pod) in terms.pending or pod["spec"].get("schedulingGates") or not _is_ours(pod, terms)
        if not node_of(pod) and not excused:
            units[_gang(pod) or _title(pod)].append(pod)
    return [
        f"{unit} has no node, and there is room for it"
        for unit, members in units.items()
        if _fit(members, standing, nodes, terms)
    ]


def _fit(members: Sequence[Object], standing: Sequence[Object], nodes: Mapping[str, Object], terms: Terms) -> bool:
    """Whether all of them find a node, one after the other; what only affinity decides is not looked at."""
    there = list(standing)
    for pod in members:
        wanted = pod["spec"].get("nodeSelector") or {}
        for name, node in nodes.items():
            labels = node["metadata"].get("labels") or {}
            if refuses(node, pod) or any(labels.get(key) != value for key, value in wanted.items()):
                continue
            here = [_Load.of(other, terms) for other in there if node_of(other) == name]
            if not _excess(_Load.of(pod, terms), here, node):
                there.append({**pod, "spec": {**pod["spec"], "nodeName": name}})
                break
        else:
            return False
    return True


def partial(history: History, terms: Terms) -> list[str]:
    """No gang runs in part; asked 30 s after the fault."""
    pods = [pod for pod in history.last("pods").values() if not is_leaving(pod) and not is_finished(pod)]
    gangs = {gang: count for gang, count in _gangs(pods).items() if gang not in terms.pending}
    return [f"{have} of {size} members of {gang} run" for gang, (have, size) in gangs.items() if 0 < have < size]


def budgets_broken(history: History, terms: Terms) -> list[str]:
    """No pod is sent away while its budget forbids it."""
    pods: dict[str, Object] = {}
    budgets: dict[str, Object] = {}
    found = []
    for each in history.revisions:
        if each.kind == "poddisruptionbudgets":
            budgets[each.uid] = each.object
        if each.kind != "pods":
            continue
        before = pods.pop(each.uid, None)
        if each.change != DELETED:
            pods[each.uid] = each.object
        leaves = each.change == DELETED or is_leaving(each.object)
        stood = before is not None and is_ready(before) and not is_leaving(before)
        if leaves and stood and each.name not in terms.removed:
            found += _short(each, pods, budgets.values())
    return found


def _short(each: Revision, pods: Mapping[str, Object], budgets: Iterable[Object]) -> list[str]:
    found = []
    for budget in budgets:
        selector = (budget["spec"].get("selector") or {}).get("matchLabels") or {}
        if budget["metadata"]["namespace"] != each.namespace or not selector or not _matches(each.object, selector):
            continue
        healthy = sum(
            _matches(pod, selector)
            and pod["metadata"]["namespace"] == each.namespace
            and is_ready(pod)
            and not is_leaving(pod)
            for pod in pods.values()
        )
        if healthy < (need := _needed(budget)):
            found.append(
                f"{each.name} was sent away, {healthy} of {need} that {budget['metadata']['name']} wants are left"
            )
    return found


def _needed(budget: Object) -> int:
    spec = budget["spec"]
    if spec.get("minAvailable") is not None:
        return int(spec["minAvailable"])
    return int((budget.get("status") or {}).get("expectedPods", 0)) - int(spec.get("maxUnavailable", 0))


def events_doubled(history: History, terms: Terms) -> list[str]:
    """One Scheduled event per bind of ours: not two, and not none unless a process was killed."""
    said: Counter[str] = Counter()
    for event in history.last("events").values():
        if event.get("reason") == "Scheduled":
            regarding = event.get("regarding") or event.get("involvedObject") or {}
            series = (event.get("series") or {}).get("count", 1)
            said[regarding.get("uid", "")] += max(int(series), int(event.get("deprecatedCount") or 1))
    bound = {each.uid: each.name for each, _, _ in _binds(history, terms)}
    found = [f"{bound.get(uid, uid)} has {count} Scheduled events" for uid, count in said.items() if count > 1]
    if not terms.events_may_be_lost:
        found += [f"{name} was bound without a Scheduled event" for uid, name in bound.items() if not said[uid]]
    return found


def devices_doubled(history: History) -> list[str]:
    """No device is held by two claims at any time."""
    holders: dict[tuple[str, str, str], Revision] = {}
    found = []
    for each in history.of("resourceclaims"):
        held = set() if each.change == DELETED else _devices(each.object)
        for device in [device for device, holder in holders.items() if holder.uid == each.uid and device not in held]:
            del holders[device]
        for device in held:
            holder = holders.setdefault(device, each)
            if holder.uid != each.uid:
                found.append(f"{'/'.join(device)} is held by {holder.name} and by {each.name}")
    return found


def bound_without_devices(history: History, terms: Terms) -> list[str]:
    """When a pod is bound, its claims hold devices of that node and are reserved for it."""
    claims: dict[str, Object] = {}
    seen: set[str] = set()
    found = []
    for each in history.revisions:
        if each.kind == "resourceclaims":
            claims[f"{each.namespace}/{each.name}"] = each.object
        if each.kind != "pods" or not node_of(each.object) or each.uid in seen or not _is_ours(each.object, terms):
            continue
        seen.add(each.uid)
        for name in _claim_names(each.object):
            status = claims.get(f"{each.namespace}/{name}", {}).get("status") or {}
            where = {pool for _, pool, _ in _devices({"status": status})}
            if each.uid not in {consumer["uid"] for consumer in status.get("reservedFor") or ()}:
                found.append(f"{each.name} was bound, and {name} is not reserved for it")
            elif where != {node_of(each.object)}:
                found.append(f"{each.name} was bound to {node_of(each.object)}, and {name} holds devices of {where}")
    return found


def reserved_for_nobody(history: History) -> list[str]:
    """At the end no claim is reserved for a pod that is gone."""
    pods = set(history.last("pods"))
    return [
        f"{_name(claim)} is reserved for {consumer['name']}, which is gone"
        for claim in history.last("resourceclaims").values()
        for consumer in (claim.get("status") or {}).get("reservedFor") or ()
        if consumer["uid"] not in pods
    ]


def _devices(claim: Object) -> set[tuple[str, str, str]]:
    """What a claim holds."""
    allocation = (claim.get("status") or {}).get("allocation") or {}
    results = (allocation.get("devices") or {}).get("results") or ()
    return {(each["driver"], each["pool"], each["device"]) for each in results}


def _claim_names(pod: Object) -> list[str]:
    status = pod.get("status") or {}
    special = status.get("extendedResourceClaimStatus")
    made = [each.get("resourceClaimName") for each in status.get("resourceClaimStatuses") or ()]
    named = [each.get("resourceClaimName") for each in pod["spec"].get("resourceClaims") or ()]
    return [str(name) for name in (*named, *made, special and special["resourceClaimName"]) if name]


# --- what the checks share ---


def _binds(history: History, terms: Terms) -> Iterator[tuple[Revision, Mapping[str, Revision], Object | None]]:
    """Each bind of ours, with the pods on its node, by uid, and the node if there is one.

    A pod that came with its node in its spec was bound by nobody. `seen_s` of the others says since when they stand
    there: that is what could be known.
    """
    waiting: set[str] = set()
    there: dict[str, dict[str, Revision]] = defaultdict(dict)
    nodes: dict[str, Object] = {}
    for each in history.revisions:
        if each.kind == "nodes":
            nodes[each.name] = each.object
            if each.change == DELETED:
                del nodes[each.name]
        if each.kind != "pods":
            continue
        node = node_of(each.object)
        if each.change == DELETED:
            there[node].pop(each.uid, None)
            waiting.discard(each.uid)
        elif not node:
            waiting.add(each.uid)
        else:
            before = there[node].get(each.uid)
            since_s = each.seen_s if before is None else before.seen_s
            there[node][each.uid] = Revision(each.kind, each.change, each.object, each.version, since_s)
            if each.uid in waiting:
                waiting.discard(each.uid)
                if _is_ours(each.object, terms):
                    yield each, there[node], nodes.get(node)


def _titles(pods: Iterable[Object]) -> frozenset[str]:
    """Names of pods; of those that a controller made, whose names differ from run to run, the app and their number."""
    counts = Counter(map(_title, pods))
    return frozenset(f"{title} x{count}" if title.endswith("*") else title for title, count in counts.items())


def _gangs(pods: Sequence[Object]) -> dict[str, tuple[int, int]]:
    """Gang -> members that have a node, and how many it needs."""
    found: dict[str, tuple[int, int]] = {}
    for pod in pods:
        if gang := _gang(pod):
            have, _ = found.get(gang, (0, 0))
            found[gang] = have + bool(node_of(pod)), int(pod["metadata"]["labels"][GANG_SIZE])
    return found


def _gang(pod: Object) -> str:
    return str((pod["metadata"].get("labels") or {}).get(GANG_LABEL, ""))


def _matches(pod: Object, selector: Mapping[str, str]) -> bool:
    labels = pod["metadata"].get("labels") or {}
    return all(labels.get(key) == value for key, value in selector.items())


def _is_ours(pod: Object, terms: Terms) -> bool:
    return not terms.ours or pod["spec"].get("schedulerName") in terms.ours


def _name(pod: Object) -> str:
    return str(pod["metadata"]["name"])


def _title(pod: Object) -> str:
    """A pod's name, or for one that a controller made, which differs from run to run, its app and nothing else."""
    meta = pod["metadata"]
    app = (meta.get("labels") or {}).get("app")
    return f"{app}/*" if meta.get("generateName") and app else _name(pod)
