"""What one object may cost: everything in it that is counted or kept stops at one of these numbers.

They are far above what people write and low enough that the largest object that an API server accepts (1.5 MB) costs
the decision thread less than 50 ms. Lists are truncated at their limits while an object is decoded, and this is
reported:
- a pending pod over a limit is not scheduled (its rules would be kept in part only), its condition says why;
- of a bound pod the first entries count, the rest is ignored everywhere;
- both get an event `LimitExceeded` that names field, number and limit, as do nodes, of which the first entries count;
- an object of another kind is not read at all: the log names it, and `moorage_objects_skipped_total` counts it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import NamedTuple, TypeVar

T = TypeVar("T")

REASON = "LimitExceeded"
"""Reason of the event, and what keeps the pod out of the queue."""

POD_TERMS = 50
"""Entries of all lists of `podAffinity` and `podAntiAffinity` together: required affinity counts first, then preferred,
then anti-affinity."""
AMOUNT = 1 << 49
"""Of any resource, in the unit that it is counted in: half a pebibyte of memory. A pod that asks for more asks for this
much, and a node that offers this much or more offers one less, so that such a pod fits nowhere. Sums over the pods of
a node cannot overflow, as a node with more than `NODE_PODS` has no room for another one."""
NODE_PODS = (1 << 13) - 1
"""Pods per node, whatever its allocatable says."""
SPREAD_CONSTRAINTS = 50
"""Entries of `topologySpreadConstraints`."""
NODE_TERMS = 64
"""Alternatives, and preferences, of a pod's `nodeAffinity`."""
SELECTOR_PARTS = 4096
"""Requirements, their values and namespaces in all selectors and terms of a pod together; later ones do not count."""
POD_LABELS = 1024
"""Labels of a pod."""
NODE_SELECTOR = 256
"""Entries of `nodeSelector`."""
TOLERATIONS = 256
"""Entries of `tolerations`."""
CONTAINERS = 256
"""Entries of each of `containers` and `initContainers`, and of their statuses, of which kubelets write one for each."""
RESOURCE_NAMES = 64
"""Different resources that a pod names, or a node offers. The status of a pod counts for all that its spec names. What
only statuses name is no container's: those beyond the limit are dropped silently, as are names in a pod's `limits`,
which do not affect scheduling."""
HOST_PORTS = 256
"""Different host ports of a pod."""
VOLUMES = 256
"""Entries of a pod's `volumes`, and disks that they name."""
RESOURCE_CLAIMS = 256
"""Entries of `resourceClaims`."""
NODE_LABELS = 400
"""Labels of a node: each key that no other node has takes a column over all nodes."""
TAINTS = 256
"""Taints of a node."""
NODE_IMAGES = 1024
"""Images of a node; kubelets report 50 by default."""
IMAGE_NAMES = 16
"""Names of an image of a node; kubelets report 5."""
NODE_CONDITIONS = 128
"""Conditions of a node."""
FEATURES = 256
"""Declared features of a node."""
OBJECT_SELECTOR_PARTS = 256
"""Requirements and their values in the selector of any object beside pods and nodes (workload, service, budget, claim,
capacity, policy). An object with more is not read: a log line names it, and `moorage_objects_skipped_total` counts it.
The same holds for `RESOURCE_NAMES`, `NODE_SELECTOR` and `TOLERATIONS` in PodGroups, RuntimeClasses and Queues."""
OBJECT_TERM_PARTS = 4096
"""The same in the node terms of a volume, a storage class or the allocation of a ResourceClaim, which may list nodes;
likewise. More than `NODE_TERMS` terms are not read either."""
CSI_DRIVERS = 256
"""Drivers of a CSINode; one with more is not read, likewise."""
DEVICE_REQUESTS = 256
"""Requests of a ResourceClaim, and what they name as alternatives, together; API servers allow 32 requests, and 8
alternatives of each. A claim with more is not read, likewise."""
DEVICE_PARTS = 64
"""Entries of any other list or map in a ResourceClaim, a DeviceClass or a device of a ResourceSlice (selectors,
tolerations, constraints, configurations, allocated devices and their conditions, attributes, capacities, counters,
taints), likewise; API servers allow 32 or fewer of each."""
SLICE_DEVICES = 256
"""Devices of a ResourceSlice, likewise; API servers allow 128."""
SLICE_REQUIREMENTS = 256
"""Requirements of the node selectors of a ResourceSlice and its devices together, likewise; drivers write one."""
DEVICE_TEXT = 16_384
"""Characters of a CEL expression, and of the parameters of a configuration, likewise; API servers allow 10,240."""
SHARED_DEVICES = 64
"""Devices of a node that pods may share; those beyond it are not used. A pod that asks for more is not placed."""
TEMPLATE_BYTES = 64 << 10
"""Size of the parts of a pod that make up its template. Larger templates are not shared between equal pods."""

ASSIGNMENT_CHARS = 2048
"""Length of the message of the condition `moorage.dev/Devices`: enough for a name and 64 devices. A longer one says
nothing."""
GANG_RECORD_CHARS = 1 << 19
"""Length of the message of the condition `moorage.dev/GangStart`: enough for some 5,000 members. A longer one, or one
that is nested, is not taken for a record."""
EXTENDER_ANSWER_BYTES = 4 << 20
"""Length of an HTTP extender's response, beyond twice the length of the request, which it may repeat. A longer one is
not read to its end: it is an error of the extender."""
EXTENDER_TEXT_CHARS = 1000
"""Length of each reason in an extender's response; longer ones are truncated, and end in dots."""
JSON_DEPTH = 64
"""How deep JSON of lists and watches may be nested where it is too deep to be decoded as it is. Deeper levels are
replaced by the number 0. No field that Moorage reads is nested that deeply; an object in which one is, is skipped."""
OBJECTS_TOLD = 1000
"""How many unreadable objects of a kind are remembered as already logged. Beyond that the oldest is forgotten, and
logged once more if it changes. Such objects are counted in `moorage_objects_skipped_total` every time."""

TOPOLOGY_LEVELS = 16
"""Levels of a Topology; one with more is not read, likewise."""
HYPER_NODE_MEMBERS = 1024
"""Entries of `members` of a HyperNode, likewise."""
PATTERN_CHARS = 128
"""Characters of a pattern of names in a HyperNode, likewise."""
SLICE_LAYERS = 4
"""Layers of slices of a gang; one with more waits, and its message says so."""
SUB_GROUPS = 64
"""Sub-groups of a gang, likewise."""
WORKLOAD_ROLES = 256
"""Entries of any list or map that says how many pods a workload makes, such as the replicatedJobs of a JobSet. An
object with more is not read, likewise."""
STRATEGY_TEXT = 16_384
"""Characters of a placement strategy: of the annotation, or of all rules of a PlacementPolicy as JSON. A longer one is
not read: its pods may be placed anywhere, as with any strategy that cannot be parsed."""
STRATEGY_RULES = 32
"""Rules of a placement strategy, likewise."""
STRATEGY_LABELS = 32
"""Labels in the nodeSelector of one rule, likewise."""
STRATEGY_STEPS = 100_000
"""Sum of the weights, divided by their greatest common divisor, times the number of rules, likewise: the maximum number
of steps to compute how many pods each rule gets."""
STRATEGY_MISTAKES = 20
"""Mistakes of a strategy that are reported; parsing ends with the last of them."""
STRATEGY_CACHE_BYTES = 4 << 20
"""Approximate size of the cache of parsed strategies; the oldest are parsed again when they are needed."""
POLICIES = 100
"""PlacementPolicies of one namespace, the first by name; the others apply to no pod, and their status says so."""
POLICY_REQUIREMENTS = 64
"""Requirements in the selector of a PlacementPolicy, and values in each; one with more applies to no pod, likewise."""

REMEMBERED_PODS = 512
"""How many templates are remembered after their last pod is gone, in case another one is created."""
REMEMBERED_POD_BYTES = 4 << 20
"""The approximate size of those templates."""
KEPT_TEMPLATE_BYTES = 16 << 20
"""The size of the templates in each table of kept answers; beyond it the table starts over."""

LEDGER = 50_000
"""Pods that the webhook has admitted and not seen yet; further ones are placed without being counted."""
LEDGER_OF_GROUP = 10_000
"""The same, of one owner."""
LEDGER_FAILURES = 500
"""Owners of which the webhook remembers that a strategy could not be applied, until their pods exist."""


class Excess(NamedTuple):
    """A field with more entries than its limit."""

    field: str
    found: int
    limit: int

    def __str__(self) -> str:
        return f"{self.field} has {self.found} entries, at most {self.limit} count"


class Cutter:
    """Truncates lists at their limits while an object is decoded, and records what was truncated."""

    __slots__ = ("_parts", "_resources", "_terms", "excess")

    def __init__(self) -> None:
        self.excess: list[Excess] = []
        self._parts = self._terms = 0
        self._resources: dict[str, None] = {}

    def cut(self, entries: Sequence[T] | None, limit: int, field: str) -> Sequence[T]:
        """The first `limit` entries of a list; of null none."""
        if entries is None:
            return ()
        if len(entries) <= limit:
            return entries
        self._tell(field, len(entries), limit)
        return entries[:limit]

    def _tell(self, field: str, found: int, limit: int) -> None:
        """Fields of the same name are reported once."""
        if all(each.field != field for each in self.excess):
            self.excess.append(Excess(field, found, limit))

    def terms(self, entries: Sequence[T] | None, field: str) -> Sequence[T]:
        """The first entries of a list of terms about pods, as far as there is room beside those of other lists."""
        found = self.cut(entries, POD_TERMS - self._terms, field)
        self._terms += len(found)
        return found

    def cut_map(self, entries: Mapping[str, T] | None, limit: int, field: str) -> Mapping[str, T] | None:
        """The first `limit` entries of a mapping."""
        if entries is None or len(entries) <= limit:
            return entries
        self.excess.append(Excess(field, len(entries), limit))
        return dict(islice(entries.items(), limit))

    def part(self, size: int, field: str) -> bool:
        """Whether a part of a selector with so many values counts."""
        before = self._parts
        self._parts += 1 + size
        if self._parts <= SELECTOR_PARTS:
            return True
        if before <= SELECTOR_PARTS:
            self.excess.append(Excess(f"{field} and what is before it in selectors", self._parts, SELECTOR_PARTS))
        return False

    def resources(self, quantities: Mapping[str, T] | None, field: str) -> Mapping[str, T] | None:
        """What is said about the first resources that the object names."""
        if not quantities:
            return quantities
        names = self._resources
        for name in quantities:
            if name not in names:
                if len(names) >= RESOURCE_NAMES:
                    self._tell_resources(len(quantities), field)
                    return {name: each for name, each in quantities.items() if name in names}
                names[name] = None
        return quantities

    def _tell_resources(self, found: int, field: str) -> None:
        told = f"{field} with its resource names"
        if not any(each.field.endswith("resource names") for each in self.excess):
            self.excess.append(Excess(told, max(found, RESOURCE_NAMES + 1), RESOURCE_NAMES))


def describe(excess: Iterable[Excess]) -> str:
    """What is over a limit, in one line."""
    return "; ".join(map(str, excess))
