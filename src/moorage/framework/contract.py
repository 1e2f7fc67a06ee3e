"""What a plugin may be asked: one protocol per extension point, and one per optional hook.

A plugin need not derive from any of these; having the method is enough. They are what the runner and the engine call,
and what mypy compares both sides with: `check: type[FilterPlugin] = MyPlugin` in a test finds a wrong signature.

Arrays: `rows` is `intp[n]`, ascending row numbers of the nodes to judge; what comes back has the same length and order.
A plugin never changes the state, `rows` or anything it was given, and gives the same answer for the same question,
whatever the order of the nodes. A method that raises fails the attempt of the pod and nothing else; only the order of
the queue (`queue_key`, `unit_key`) has nothing in its place, and must not raise.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

from moorage.core.arrays import Ints, Rows
from moorage.core.assignments import Assignment
from moorage.core.capacity import CapacityAim, CapacityTypes
from moorage.core.commands import Command
from moorage.core.devicecounts import DeviceCounts
from moorage.core.gangneeds import GangNeeds
from moorage.core.pods import Pod, PodTemplate
from moorage.core.state import ClusterState
from moorage.framework.changes import Change, What
from moorage.framework.cycle import Cycle
from moorage.framework.details import Detail
from moorage.framework.gangplans import GangPlan, RoomLimits
from moorage.framework.idle import Idle, Skew
from moorage.framework.plugin import Reads
from moorage.framework.remedies import Rejected, Remedy
from moorage.framework.status import GangNomination, Hold, Nomination, OnlyNodes, Rejections, Status

if TYPE_CHECKING:
    from moorage.framework.runner import Judgement, Runner

Slack: TypeAlias = Sequence[tuple[int, Ints]]
"""Resource columns, and how much more of each may be requested on the rows, int64[n]."""


class Named(Protocol):
    """Anything with the name of a plugin."""

    @property
    def name(self) -> str:
        """Its name in configurations and messages."""


class DescribedPlugin(Named, Protocol):
    """What every plugin says about itself; `Plugin` has defaults for all of it."""

    @property
    def reads(self) -> Reads:
        """What its answers depend on besides the pod."""

    @property
    def wakes(self) -> What:
        """The changes after which it may accept a pod that it rejected."""

    @property
    def kinds(self) -> frozenset[str]:
        """Other kinds that it reads from `state.objects`."""

    def sign(self, template: PodTemplate, /) -> Hashable:
        """The part of the pod that it reads."""

    def epoch(self, state: ClusterState, /) -> Hashable:
        """Changes whenever all kept answers become wrong at once."""

    def concerns(self, template: PodTemplate, state: ClusterState, /) -> bool:
        """Whether it has anything to say about such a pod at present."""

    def helps(self, template: PodTemplate, change: Change, /) -> bool:
        """Whether this change may let a pod fit that it rejected."""


# --- extension points, in the order in which a pod meets them ---


class PreEnqueuePlugin(DescribedPlugin, Protocol):
    """Asked by the queue before a pod may be tried."""

    def pre_enqueue(self, pod: Pod, /) -> Status | None:
        """None or SUCCESS: the pod may enter the queue."""


class QueueSortPlugin(DescribedPlugin, Protocol):
    """Asked by the queue for every pod that enters it; one plugin per process."""

    def queue_key(self, pod: Pod, since_s: float, /) -> tuple[Any, ...]:
        """The pod's place in the queue; the smallest key comes first."""


class PreFilterPlugin(DescribedPlugin, Protocol):
    """Asked once before the filters."""

    def pre_filter(self, cycle: Cycle, /) -> Status | OnlyNodes | None:
        """SKIP leaves the plugin's filter out; any other status but SUCCESS refuses the pod."""


class FilterPlugin(DescribedPlugin, Protocol):
    """Asked in profile order, each about the rows that the earlier ones passed."""

    def filter(self, cycle: Cycle, rows: Rows, /) -> Rejections | None:
        """None: all rows pass."""


class PostFilterPlugin(DescribedPlugin, Protocol):
    """Asked by the engine when no node passed; the first that nominates a node decides."""

    def post_filter(self, cycle: Cycle, runner: Runner, judgement: Judgement, /) -> Nomination | Status | None:
        """How room can be made, or why it cannot."""


class ScorePlugin(DescribedPlugin, Protocol):
    """Asked about the rows that passed every filter."""

    def score(self, cycle: Cycle, rows: Rows, /) -> Ints:
        """int64[n], 0 to 100 unless `normalize` brings it there."""


class ReservePlugin(DescribedPlugin, Protocol):
    """Asked by the engine once a node is chosen."""

    def reserve(self, cycle: Cycle, row: int, /) -> Status | None:
        """None or SUCCESS: what the pod needs there is held for it."""


class PermitPlugin(DescribedPlugin, Protocol):
    """Asked by the engine after Reserve, and again after every change in `wakes` while it holds the pod."""

    def permit(self, cycle: Cycle, row: int, /) -> Status | Hold | None:
        """`Hold`, or a status WAIT, lets the pod wait."""


class PreBindPlugin(DescribedPlugin, Protocol):
    """Asked by the engine after Permit, and again as Permit is."""

    def pre_bind(self, cycle: Cycle, row: int, /) -> Status | Hold | None:
        """As Permit."""


class BindPlugin(DescribedPlugin, Protocol):
    """Asked by the engine in profile order until one of them binds."""

    def bind(self, cycle: Cycle, row: int, /) -> Command | Status:
        """The command that binds the pod; SKIP lets the next plugin do it."""


class PostBindPlugin(DescribedPlugin, Protocol):
    """Told by the engine that the pod is bound; the node may be gone already."""

    def post_bind(self, cycle: Cycle, row: int, /) -> None:
        """Nothing is expected back."""


# --- optional methods beside an extension point ---


@runtime_checkable
class RowFilter(Protocol):
    """Beside Filter: a fast path for one row, which must agree with `filter`."""

    def filter_row(self, cycle: Cycle, row: int, /) -> bool:
        """True if the row passes."""


@runtime_checkable
class SoftFilter(DescribedPlugin, Protocol):
    """Beside Filter: which of the feasible rows are taken only if there is no other."""

    def filter_softly(self, cycle: Cycle, rows: Rows, /) -> Rejections | None:
        """Asked as Filter is, about rows that passed every filter; None: all rows are as good.

        The rejections stand if they leave a row, and are dropped otherwise. They are never a reason for a pod to wait,
        nor for evictions.
        """


@runtime_checkable
class SlackFilter(Named, Protocol):
    """Beside Filter with `Reads.AMOUNTS`: makes preemption and gangs faster."""

    def slack(self, cycle: Cycle, rows: Rows, /) -> Slack:
        """How much more may be requested beside the pod; `filter` passes while none is negative."""


@runtime_checkable
class GangPostFilter(Named, Protocol):
    """Beside PostFilter: room for a gang."""

    def post_filter_gang(
        self, cycles: Sequence[Cycle], runner: Runner, needs: GangNeeds, /
    ) -> GangNomination | Status | None:
        """Room for as many of the members as the gang needs (`needs.members`) to start."""


@runtime_checkable
class PreScore(Protocol):
    """Beside Score: asked once before it."""

    def pre_score(self, cycle: Cycle, rows: Rows, /) -> Status | None:
        """SKIP leaves the plugin's score out."""


@runtime_checkable
class RowScore(Protocol):
    """Beside Score: a fast path for one row, which must agree with `score`."""

    def score_row(self, cycle: Cycle, row: int, /) -> int:
        """The score of the row."""


@runtime_checkable
class Normalize(Protocol):
    """Beside Score: brings the raw scores of the feasible rows to 0 to 100."""

    def normalize(self, cycle: Cycle, scores: Ints, /) -> Ints:
        """int64[n]; must not change `scores`."""


@runtime_checkable
class BestStaysBest(Named, Protocol):
    """Beside Normalize: kept raw scores can decide where no other score tells the rows apart."""

    @property
    def best_stays_best(self) -> bool:
        """True: the rows with the highest raw score, and no others, get the highest normalised one."""


@runtime_checkable
class Unreserve(Named, Protocol):
    """Beside Reserve: gives back what was held."""

    def unreserve(self, cycle: Cycle, row: int, /) -> Sequence[Command] | None:
        """The node may be gone: find what is held for a pod by the pod, not by the row.

        Returns what takes back what was written for the pod; not carried out in what-ifs, and if the pod is gone or
        was bound by another process.
        """


@runtime_checkable
class ReservesInState(Named, Protocol):
    """Beside Reserve: all that it holds is in the state, where searches take it back like any other change."""

    @property
    def reserves_in_state(self) -> bool:
        """Whether that is so; else Reserve is asked where a decision is made or proven, not in every search."""


@runtime_checkable
class AnnotatesBinding(Named, Protocol):
    """Beside Reserve: has something written on the pod together with its Binding."""

    def binding_annotations(self, cycle: Cycle, row: int, /) -> Mapping[str, str]:
        """Annotations for the pod, which the API server copies to it when it is bound; empty for none."""


@runtime_checkable
class AssignsDevices(Named, Protocol):
    """Beside Reserve: knows which of the devices that pods share a pod gets, which is recorded before it is bound."""

    def assignment(self, cycle: Cycle, row: int, /) -> Assignment | None:
        """What the pod gets; None for nothing."""


# --- optional hooks for the engine, the extender, the keeper and metrics ---


@runtime_checkable
class AwaitsPods(Named, Protocol):
    """Asked by `moorage extender` before Filter.

    kube-scheduler does not tell an extender which node it chose, and asks about the next pod before the last one is
    bound. While a pod of the same group is being bound, the extender waits for it, a second at most.
    """

    def awaits(self, template: PodTemplate, state: ClusterState, /) -> Hashable | None:
        """The group of pods, such as their controller's uid, on whose nodes the answer for such a pod depends."""


@runtime_checkable
class ReadsPriority(Named, Protocol):
    """Asked by the engine when a pod is seen; the first of a profile decides."""

    def priority_of(self, template: PodTemplate, /) -> tuple[int, str | None]:
        """The effective priority, and a warning for the pod's owner if it cannot be parsed."""


@runtime_checkable
class PlansUnits(Named, Protocol):
    """A QueueSort plugin in whose order the engine allots whole nodes (`engine.planning`)."""

    def unit_key(self, priority: int, size: int, running: bool, created_s: float, name: str, /) -> tuple[Any, ...]:
        """The place in the plan of a unit of `size` pods; the smallest key comes first."""


@runtime_checkable
class OwnsNodes(Protocol):
    """A filter that gives every pod of its profile a node of its own; only such profiles are planned."""

    @property
    def one_pod_per_node(self) -> bool:
        """Whether it does."""


class GangPatience(Protocol):
    """How long the engine waits before it does something about a gang."""

    @property
    def reserve_after_seconds(self) -> float:
        """A gang that has not fit for this long gets the room that becomes free reserved."""

    @property
    def reserve_for_seconds(self) -> float:
        """How long such room is reserved at most."""

    @property
    def settle_seconds(self) -> float:
        """A gang of unknown size is complete when no member has been added for this long."""

    @property
    def recover_seconds(self) -> float:
        """How long the engine tries to complete a gang that was started in part."""

    @property
    def release_bare_pods(self) -> bool:
        """Whether members without a controller are deleted, too, when such a gang is released."""

    @property
    def provisioning_class(self) -> str:
        """The class of the ProvisioningRequests of gangs that wait for nodes; empty for none."""

    @property
    def provision_after_seconds(self) -> float:
        """How long a gang has waited when its request is written."""

    @property
    def arrival_seconds(self) -> float:
        """A gang evicts nobody while nodes have been on their way for less than this on which it would fit."""


@runtime_checkable
class PlacesGangs(Protocol):
    """Members of gangs are placed together in profiles that have such a plugin."""

    @property
    def gang_patience(self) -> GangPatience:
        """How patient the engine is with them."""


@runtime_checkable
class KeepsBudgets(Protocol):
    """Preempts pods for pods of its profile."""

    @property
    def pdb_policy(self) -> str:
        """`Strict`: no pod is evicted if that violates a disruption budget."""


class SharingTerms(Protocol):
    """How the engine shares the cluster among queues."""

    @property
    def default_queue(self) -> str:
        """The queue of pods that name none, nor does their namespace; empty for none."""

    @property
    def preemptible_below(self) -> int:
        """Pods of lower priority may be evicted for a share, unless a label says otherwise."""

    @property
    def consolidate(self) -> bool:
        """Whether pods are moved to other nodes so that a waiting one fits."""

    @property
    def stale_gang_seconds(self) -> float:
        """A gang with too few members left is evicted after this time; below 0 never."""

    @property
    def reclaim_multiplier(self) -> float:
        """How much further beyond its share a queue must be than the one that takes something from it."""

    @property
    def pdb_policy(self) -> str:
        """`Strict`: no pod is evicted if that violates a disruption budget."""

    @property
    def max_evictions_per_minute(self) -> int:
        """Evictions for shares in any minute; 0 means no limit."""

    @property
    def wait_for_ends_seconds(self) -> float:
        """Nobody is evicted for a unit for which pods that end by themselves make room within this time."""

    @property
    def min_runtime_seconds(self) -> float:
        """A pod that was placed stays for this long at least, where its queues say nothing about it."""

    @property
    def usage_factor(self) -> float:
        """How much what a queue used lately lowers its share; 0: not at all."""

    @property
    def usage_half_life_seconds(self) -> float:
        """After this time what was used counts half as much; 0: all of the window counts alike."""

    @property
    def usage_window_seconds(self) -> float:
        """What was used before does not count."""


@runtime_checkable
class SharesQueues(Named, Protocol):
    """Pods of profiles that have such a plugin may belong to queues (`engine.sharing`)."""

    @property
    def sharing_terms(self) -> SharingTerms:
        """How the cluster is shared."""


@runtime_checkable
class GivesFractions(Named, Protocol):
    """Pods of profiles that have such a plugin get the fractions of devices that they ask for, and count for these."""

    @property
    def gives_fractions(self) -> bool:
        """Whether it does."""


@runtime_checkable
class PlansGangs(Named, Protocol):
    """Asked by the engine where the members of a gang go, before the first of them is placed."""

    @property
    def replace_after_seconds(self) -> float:
        """A running gang whose lost members have found no room for this long is placed anew as a whole."""

    def concerns_gang(self, state: ClusterState, needs: GangNeeds, templates: Collection[PodTemplate], /) -> bool:
        """Whether anything else is to be asked about a gang; must cost next to nothing where it is not."""

    def plan_gang(
        self, members: Sequence[Cycle], runner_of: Callable[[Cycle], Runner], needs: GangNeeds, limits: RoomLimits, /
    ) -> GangPlan | Status | None:
        """The nodes of the members; or why they cannot be placed; or None if the gang is no concern of the plugin.

        `limits` is what turned out about room when an earlier plan for this attempt was carried out.
        """

    def order_gang(self, placed: Sequence[Cycle], rows: Sequence[int], /) -> Mapping[str, int] | None:
        """The rows that members of a gang without a plan found, exchanged so that they are in the order of ranks.

        By uid; None if they may stay as they are.
        """

    def gang_domains(self, members: Sequence[Cycle], needs: GangNeeds, /) -> Sequence[Rows] | None:
        """The rows of each domain that evictions may free for the gang; None if it is no concern of the plugin."""

    def gang_places(self, members: Sequence[Cycle], needs: GangNeeds, /) -> Mapping[str, Sequence[Rows]]:
        """Role -> sets of rows: in the set in which a plan puts a member it may lie anywhere, as far as levels say."""


@runtime_checkable
class TellsCapacity(Protocol):
    """Asked by the keeper, so that the profile and the keeper mean the same by spot."""

    @property
    def capacity_types(self) -> CapacityTypes:
        """How spot nodes are recognised."""


@runtime_checkable
class PlacesByCapacity(Protocol):
    """Asked by the keeper about the pods of a controller."""

    def capacity_aim(self, template: PodTemplate, state: ClusterState, /) -> CapacityAim | None:
        """On which capacity they should stand; None if that does not matter, or is not known."""


@runtime_checkable
class SpreadsHosts(Protocol):
    """Asked by the keeper about the pods of a controller."""

    def hosts(self, template: PodTemplate, state: ClusterState, /) -> int:
        """The least number of nodes that they must be spread over, 0 if there is none."""


@runtime_checkable
class FollowsStrategies(Protocol):
    """A filter that enforces placement strategies; the keeper repairs splits only in profiles that have one."""

    @property
    def follows_strategies(self) -> bool:
        """Whether it does."""


@runtime_checkable
class ComparesRows(Named, Protocol):
    """A filter that judges a row by the other rows that it is asked about, which earlier filters have passed."""

    @property
    def compares_rows(self) -> bool:
        """Whether it does."""


@runtime_checkable
class PreemptsDevices(Named, Protocol):
    """A filter that accepts a node once pods with devices that it needs are removed, with what their claims hold."""

    @property
    def preempts_devices(self) -> bool:
        """Whether it does."""


@runtime_checkable
class ReadsState(Named, Protocol):
    """A plugin that reads the state where it is asked without a cycle: in PreEnqueue and in `helps`."""

    def attach(self, state: ClusterState, /) -> None:
        """Told once, before anything else, by the runner that the plugin belongs to."""


@runtime_checkable
class TellsCounts(Named, Protocol):
    """A rule that counts pods or nodes, and can say what it counted."""

    def counted(self, cycle: Cycle, /) -> str:
        """What it counted for the pod, in a line of bounded length; empty if the pod is no concern of it.

        Asked before each attempt where the log is to tell (`-v 4`), never for a decision.
        """


@runtime_checkable
class TellsDetails(Named, Protocol):
    """A filter that can say more of rows that it rejects than its reasons. Asked for explanations only."""

    def details(self, cycle: Cycle, rows: Rows, /) -> Mapping[int, Sequence[Detail]]:
        """Row -> what it found there, after `filter` was asked in the same cycle; of bounded size and time."""


@runtime_checkable
class SuggestsRemedies(Named, Protocol):
    """A filter that knows what would make it accept a pod. Asked for explanations, never by a decision."""

    def remedies(self, rejected: Rejected, /) -> Iterable[Remedy]:
        """Remedies for this pod on this row, in any order; the engine finds out which of them suffice."""


@runtime_checkable
class RemedyGroups(Named, Protocol):
    """Beside `remedies`: groups of rows that differ for it in more than their reasons; a few rows of each are tried."""

    def remedy_groups(self, state: ClusterState, rows: Rows, /) -> Ints:
        """int64[n]: rows with equal numbers have the same remedies."""


@runtime_checkable
class SeparatesPods(Named, Protocol):
    """A filter that may reject a node because of pods on other nodes of its domain; asked as `remedies` is."""

    def separates(self, template: PodTemplate, other: PodTemplate, /) -> Iterable[str]:
        """The topology keys in whose domains a pod like `other` may be why one like `template` is rejected."""


@runtime_checkable
class LearnsWorkload(Protocol):
    """A plugin that reads `state.workload`, which the engine keeps up to date where there is one."""

    @property
    def learns_workload(self) -> bool:
        """Whether it does."""


@runtime_checkable
class TellsIdle(Named, Protocol):
    """A plugin that knows how much of what is idle is of no use. Read by metrics."""

    def idle(self, state: ClusterState, /) -> Mapping[str, Idle]:
        """By resource."""


@runtime_checkable
class TellsSkew(Named, Protocol):
    """A plugin that knows how evenly pods are spread. Read by views."""

    def skews(self, template: PodTemplate, state: ClusterState, /) -> Iterable[Skew]:
        """One for each spread constraint that such pods write themselves."""


@runtime_checkable
class CountsDevices(Protocol):
    """Read by metrics."""

    @property
    def counts(self) -> DeviceCounts:
        """Searches for devices, and what came of them."""


@runtime_checkable
class CountsEvictions(Protocol):
    """Read by metrics."""

    @property
    def attempts(self) -> int:
        """How many times preemption was attempted."""

    @property
    def guarded(self) -> int:
        """How many evictions the rate limit held back."""
