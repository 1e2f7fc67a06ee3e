"""What a run amounted to, counted from the history of pods as the arena counts it from its watch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.contention.outside import ApiServer
from tests.contention.shapes import Body, JobPlan

_OVER = {"Succeeded": "done", "Failed": "done"}


@dataclass(frozen=True)
class Note:
    """A pod is in another state from now on: waits, on, done or gone."""

    at_s: float
    uid: str
    job: str
    state: str


@dataclass
class Story:
    """The states of all pods over time."""

    plans: Mapping[str, JobPlan]
    now_s: float = 0.0
    notes: list[Note] = field(default_factory=list)
    states: dict[str, str] = field(default_factory=dict)
    bound: Counter[str] = field(default_factory=Counter)
    """Job -> pods on nodes at present."""

    def saw(self, at_s: float, what: str, pod: Body) -> None:
        """A pod changed."""
        uid, job = pod["metadata"]["uid"], pod["metadata"]["labels"]["job-name"]
        state = "on" if pod["spec"].get("nodeName") else "waits"
        state = "gone" if what in ("deleting", "gone") else _OVER.get(pod["status"].get("phase", ""), state)
        before = self.states.get(uid, "")
        if before not in (state, "gone"):
            self.bound[job] += (state == "on") - (before == "on")
            self.states[uid] = state
            self.notes.append(Note(at_s, uid, job, state))


@dataclass(frozen=True)
class Figures:
    """Of one run."""

    pods: int
    complete: bool
    """Whether all Jobs ended in time."""
    jobs_left: int
    makespan_s: float
    utilisation: float
    useful: float
    """The same, of pods that ran to their end: what evicted ones had done is lost."""
    evictions: int
    partial_longest_s: float
    """For how long some pods of a gang, and not all, stood on nodes at most."""
    partial_over_1s: int
    """Gangs that were partial for more than a second."""
    requests: Mapping[str, int]
    """Of the scheduler, by kind."""
    attempts: int = 0
    """Of gangs."""
    cycles: int = 0
    """Of pods."""
    rounds: int = 0
    """Of making room."""
    cpu_s: float = 0.0
    """Of `Engine.handle`."""
    waits_s: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Kind of job -> how long they waited for their start: mean, longest."""

    @property
    def requests_per_pod(self) -> float:
        return sum(self.requests.values()) / self.pods

    @property
    def words_per_pod(self) -> float:
        """Events and conditions, which people read."""
        return sum(self.requests.get(kind, 0) for kind in ("event", "series", "condition", "nomination")) / self.pods

    def lines(self) -> list[str]:
        """As a small table."""
        rows = [
            ("all jobs done", f"{self.complete} ({self.jobs_left} left)"),
            ("makespan", f"{self.makespan_s:.1f} s"),
            ("utilisation", f"{self.utilisation:.3f}; {self.useful:.3f} by pods that were not evicted"),
            ("evictions", str(self.evictions)),
            ("partial gangs", f"longest {self.partial_longest_s:.2f} s, {self.partial_over_1s} for more than 1 s"),
            ("requests a pod", f"{self.requests_per_pod:.1f}; {_table(self.requests)}"),
            (
                "attempts",
                f"{self.attempts} of gangs, {self.cycles} cycles of pods, {self.rounds} rounds of making room",
            ),
            ("CPU of handle", f"{self.cpu_s:.2f} s, {1000 * self.cpu_s / self.pods:.2f} ms a pod"),
        ]
        rows += [
            (f"wait of {kind}", f"mean {mean:.1f} s, longest {most:.1f} s")
            for kind, (mean, most) in self.waits_s.items()
        ]
        return [f"{name:20} {value}" for name, value in rows]


def _table(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items(), key=lambda each: -each[1]))


OTHERS = ("kubelet", "job-controller")


def utilisation(story: Story, capacity: float) -> tuple[float, float]:
    """The share of the capacity that pods on nodes had until the last one ended, and when that was."""
    ends = [note.at_s for note in story.notes if note.state in ("on", "done")]
    end_s = max(ends, default=0.0)
    area = used = last_s = 0.0
    on: set[str] = set()
    for note in story.notes:
        area, last_s = area + used * (note.at_s - last_s), note.at_s
        weight = story.plans[note.job].weight
        used += weight * ((note.state == "on") - (note.uid in on))
        (on.add if note.state == "on" else on.discard)(note.uid)
    area -= used * max(0.0, last_s - end_s)
    return area / capacity / max(end_s, 1e-9), end_s


def _work(story: Story) -> float:
    done = [story.plans[note.job] for note in story.notes if note.state == "done"]
    return sum(plan.weight * plan.run_s for plan in done)


def evictions(story: Story) -> int:
    """Pods that were deleted while they stood on nodes."""
    on: set[str] = set()
    count = 0
    for note in story.notes:
        count += note.state == "gone" and note.uid in on
        (on.add if note.state == "on" else on.discard)(note.uid)
    return count


def partial_spells(story: Story) -> dict[str, float]:
    """Gang -> the longest time in which some, and not all, of its pods stood on nodes before one had ended."""
    on: Counter[str] = Counter()
    states: dict[str, str] = {}
    since: dict[str, float] = {}
    longest: dict[str, float] = {}
    finished: set[str] = set()
    for note in story.notes:
        job = note.job
        on[job] += (note.state == "on") - (states.get(note.uid) == "on")
        states[note.uid] = note.state
        if note.state == "done":
            finished.add(job)
        partial = 0 < on[job] < story.plans[job].size and job not in finished
        if partial:
            since.setdefault(job, note.at_s)
        elif job in since:
            longest[job] = max(longest.get(job, 0.0), note.at_s - since.pop(job))
    for job, at_s in since.items():
        longest[job] = max(longest.get(job, 0.0), story.notes[-1].at_s - at_s)
    return longest


def waits(story: Story) -> dict[str, tuple[float, float]]:
    """Size of jobs -> mean and longest time from their arrival until all their pods stood on nodes at once."""
    on: Counter[str] = Counter()
    whole: dict[str, float] = {}
    states: dict[str, str] = {}
    for note in story.notes:
        on[note.job] += (note.state == "on") - (states.get(note.uid) == "on")
        states[note.uid] = note.state
        if on[note.job] >= story.plans[note.job].size:
            whole.setdefault(note.job, note.at_s)
    by_size: dict[str, list[float]] = {}
    for job, at_s in whole.items():
        plan = story.plans[job]
        by_size.setdefault(f"{_kind(plan)}", []).append(at_s - plan.at_s)
    return {kind: (sum(times) / len(times), max(times)) for kind, times in sorted(by_size.items())}


def _kind(plan: JobPlan) -> str:
    parts = plan.name.split("-")
    return parts[-2] if len(parts) > 1 else "jobs"


def figures_of(story: Story, server: ApiServer, capacity: float, left: Mapping[str, int]) -> Figures:
    """What a run amounted to, but for what the scheduler says of itself."""
    share, end_s = utilisation(story, capacity)
    spells = partial_spells(story)
    return Figures(
        pods=sum(plan.size for plan in story.plans.values()),
        complete=not any(left.values()),
        jobs_left=sum(count > 0 for count in left.values()),
        makespan_s=end_s,
        utilisation=share,
        useful=_work(story) / capacity / max(end_s, 1e-9),
        evictions=evictions(story),
        partial_longest_s=max(spells.values(), default=0.0),
        partial_over_1s=sum(spell > 1 for spell in spells.values()),
        requests={kind: count for kind, count in server.requests.items() if kind not in OTHERS},
        waits_s=waits(story),
    )
