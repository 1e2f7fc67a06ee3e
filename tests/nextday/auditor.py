"""The auditor: the end of a cell held against what must be. Pure, and shares no code with Moorage.

It looks for six kinds of breach:
- ends: a rollout or a scale-up stands still though stock kube-scheduler would end it, or what runs is too little;
- idle: a pod waits though a node takes it and the rule lets it;
- evicted: somebody was evicted whom the rule does not name;
- rule: the rule is broken at the end though it could hold;
- words: the rule alone stops a rollout, and the event or `explain` does not name what ends it;
- answers: two components answer differently about the same pod.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tests.nextday.rules import GROUP, Eviction, Rule
from tests.nextday.scene import Object, Scene, annotation, answer_of, app_of, is_ready, is_whole, name_of, node_of

KINDS = ("ends", "idle", "evicted", "rule", "words", "answers")
WAY_OUT = re.compile(r"maxSurge:? ?0")
"""The strategy that ends a rollout which finds no free node."""


@dataclass(frozen=True, slots=True)
class Breach:
    """What was seen and must not be."""

    kind: str
    what: str

    def __str__(self) -> str:
        return f"{self.kind}: {' '.join(self.what.split())}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What must come of a workload."""

    app: str
    ends: bool = True
    """All of it runs, of the newest revision."""
    running: int = 0
    """How many of it run at least if it cannot end."""
    most: int | None = None
    """How many of it may run at most."""
    stands: bool = False
    """It must not end: what is said of stock kube-scheduler would not be true."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What must come of a cell."""

    wanted: Sequence[Wanted]
    may_go: frozenset[str] = frozenset()
    """Workloads whose pods the rule allows to be evicted."""
    rule_stops: frozenset[str] = frozenset()
    """Workloads whose rollout the rule alone stops: what is said must name the way out."""
    says: str = ""
    """What must be said about a waiting pod or a workload, as a pattern; nothing: whatever is said is well."""

    @property
    def all_end(self) -> bool:
        """Whether nothing is stopped."""
        return all(each.ends for each in self.wanted)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What came of a cell."""

    scene: Scene
    evicted: Sequence[Eviction] = ()
    explained: Mapping[str, str] = field(default_factory=dict)
    """What `explain` said about pods that wait."""
    fits: Mapping[str, bool] = field(default_factory=dict)
    """Whether `explain` found a node for a pod that waits."""
    simulated: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """Workload -> how many pods each node got in `simulate`, in descending order."""


def rollout_ends(replicas: int, slots: int, *, surge: int = 1, unavailable: int = 0, recreate: bool = False) -> bool:
    """Whether a rollout under stock kube-scheduler ends where so many pods find a node at a time.

    The Deployment controller keeps replicas - unavailable pods available, so without a node for one more pod and
    without leave to go below, nothing can begin.
    """
    if slots < replicas:
        return False
    return recreate or unavailable > 0 or (surge > 0 and slots > replicas)


def judge(seen: Seen, expected: Expected, rule: Rule) -> list[Breach]:
    """Everything that is wrong with the end of a cell."""
    return [
        *_unfinished(seen.scene, expected),
        *_idle(seen.scene, rule),
        *_evicted(seen, expected, rule),
        *(Breach("rule", what) for what in rule.broken(seen.scene)),
        *_too_many(seen.scene, expected),
        *_words(seen, expected),
        *_answers(seen),
    ]


def is_over(scene: Scene, expected: Expected) -> bool:
    """Whether all that must end has ended."""
    return not any(True for _ in _unfinished(scene, expected))


def is_answered(scene: Scene) -> bool:
    """Whether everybody who waits has been told why."""
    return all(answer_of(pod) for pod in scene.waiting())


def _unfinished(scene: Scene, expected: Expected) -> list[Breach]:
    found = []
    for wanted in expected.wanted:
        pods = scene.of(wanted.app)
        running = sum(bool(node_of(pod)) and is_ready(pod) for pod in pods)
        if wanted.stands and is_whole(scene.deployment(wanted.app)):
            found.append(Breach("ends", f"{wanted.app} has ended, and should stand still"))
        if wanted.ends and not is_whole(scene.deployment(wanted.app)):
            status = scene.deployment(wanted.app).get("status") or {}
            counts = ", ".join(f"{key} {status.get(key, 0)}" for key in ("updatedReplicas", "availableReplicas"))
            want = scene.deployment(wanted.app)["spec"]["replicas"]
            waits = "; ".join(sorted({answer_of(pod)[:200] for pod in pods if not node_of(pod)}))
            found.append(Breach("ends", f"{wanted.app} of {want} stands at {counts}, {running} running: {waits}"))
        elif running < wanted.running:
            found.append(Breach("ends", f"{wanted.app} has {running} running instead of {wanted.running}"))
    return found


def _too_many(scene: Scene, expected: Expected) -> list[Breach]:
    running = {wanted: sum(bool(node_of(pod)) for pod in scene.of(wanted.app)) for wanted in expected.wanted}
    return [
        Breach("rule", f"{wanted.app} has {count} pods with a node, and {wanted.most} may have one")
        for wanted, count in running.items()
        if wanted.most is not None and count > wanted.most
    ]


def _idle(scene: Scene, rule: Rule) -> list[Breach]:
    """Pods that wait beside a node; a gang of which none has a node needs one for each."""
    units: dict[str, list[Object]] = defaultdict(list)
    started = {annotation(pod, *GROUP) for pod in scene.living() if node_of(pod)}
    for pod in scene.waiting():
        group = annotation(pod, *GROUP)
        units[name_of(pod) if group is None or group in started else f"gang {group}"].append(pod)
    found = []
    for unit, pods in units.items():
        places = {name_of(pod): [name_of(n) for n in scene.nodes if rule.lets(pod, n, scene)] for pod in pods}
        if len(pods) == 1 and (there := places[name_of(pods[0])]):
            found.append(Breach("idle", f"{unit} waits though {there[0]} takes it: {answer_of(pods[0])[:200]}"))
        elif len(pods) > 1 and matched(places) == len(pods):
            found.append(Breach("idle", f"{unit} waits though all {len(pods)} fit: {answer_of(pods[0])[:200]}"))
    return found


def matched(places: Mapping[str, Sequence[str]]) -> int:
    """How many can have a place of their own at the same time."""
    taken: dict[str, str] = {}

    def seated(who: str, tried: set[str]) -> bool:
        for place in places[who]:
            if place not in tried:
                tried.add(place)
                if place not in taken or seated(taken[place], tried):
                    taken[place] = who
                    return True
        return False

    return sum(seated(who, set()) for who in places)


def _evicted(seen: Seen, expected: Expected, rule: Rule) -> list[Breach]:
    wrong = [one for one in seen.evicted if one.app not in expected.may_go and not rule.names(one, seen.scene)]
    named = ", ".join(sorted(one.pod for one in wrong))
    found = [Breach("evicted", f"{len(wrong)} pods that no rule names: {named}")] if wrong else []
    for app, times in Counter(one.app for one in seen.evicted).items():
        pods = len(seen.scene.of(app))
        if times > pods:
            found.append(Breach("evicted", f"{app} of {pods} pods lost one {times} times"))
    return found


def _words(seen: Seen, expected: Expected) -> list[Breach]:
    found = []
    for pod in seen.scene.waiting():
        if app_of(pod) not in expected.rule_stops:
            continue
        told = {"the event": seen.scene.said_of(pod), "explain": seen.explained.get(name_of(pod))}
        for who, text in told.items():
            if text is not None and not WAY_OUT.search(text):
                found.append(Breach("words", f"{who} about {name_of(pod)} names no way out: {text[-300:]}"))
    if expected.says:
        notes = "\n".join([*(str(e.get("note")) for e in seen.scene.events), *map(answer_of, seen.scene.waiting())])
        if not re.search(expected.says, notes):
            found.append(Breach("words", f"nothing says {expected.says}: {notes[-300:]}"))
    return found


def _answers(seen: Seen) -> list[Breach]:
    found = [
        Breach("answers", f"{name} waits, and explain finds a node for it: {seen.explained.get(name, '')[:300]}")
        for name, fits in seen.fits.items()
        if fits
    ]
    for app, simulated in seen.simulated.items():
        where: dict[str, int] = defaultdict(int)
        for pod in seen.scene.of(app):
            where[node_of(pod)] += 1
        live = sorted(where.values(), reverse=True)
        if live != list(simulated):
            found.append(Breach("answers", f"{app} is spread {live}, and simulate says {list(simulated)}"))
    return found
