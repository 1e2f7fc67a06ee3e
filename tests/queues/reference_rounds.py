"""Making room by plain loops: who has to go for whom, tried out on copies of the whole cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from tests.queues.reference import ENDLESS, RESOURCES, Need, Reference, RefJob, RefQueue


@dataclass(eq=False)
class Asking:
    """Pods of a job that are to be placed together: new ones, or victims (then `homes` says where they were)."""

    job: RefJob
    pods: list[str]
    homes: dict[str, str] | None = None
    among: int = 0
    """Of victims: how many pods of the job there were."""
    reclaims: bool = False
    """Whether it got its room by taking back a share."""


@dataclass(eq=False)
class Taken:
    """A unit that is taken from a job."""

    job: RefJob
    among: list[str]
    pods: list[str]


@dataclass(eq=False)
class Found:
    nodes: dict[str, str]
    lost: list[Taken]
    moves: dict[str, str]


MOST_LOOKS = MOST_CONTESTS = 8
Kind = tuple[object, ...]
Place = Callable[[Asking, list[Taken], dict[str, str]], dict[str, str] | None]


def make_room(ref: Reference, jobs: list[RefJob]) -> bool:
    """Carry out what can be done for waiting jobs; returns whether there was anything. What the next round would take
    back is not given.
    """
    most: dict[Kind, int] = {}
    found = None
    for look in range(MOST_LOOKS + 1):
        if found is None:
            found = Round(ref, most).make(jobs, MOST_LOOKS if look < MOST_LOOKS else 0)
    return bool(found)


class Round:
    """One round of making room."""

    def __init__(self, ref: Reference, most: dict[Kind, int]) -> None:
        self.ref = ref
        self.most = most
        """How many of a kind may get room, as others would lose it in the next round."""
        self.undone = False
        self.served: list[Asking] = []
        self.given: list[Asking] = []
        """Those that got room in the round before the one that is foreseen."""
        self.homes: dict[str, str] = {}
        self.promised = set(ref.kept)
        self.blame: dict[str, RefJob] = {}
        """Whom a pod has to leave its node for."""

    def save(self) -> tuple[Any, ...]:
        return dict(self.ref.at), set(self.ref.away)

    def restore(self, saved: tuple[Any, ...]) -> None:
        self.ref.at, self.ref.away = dict(saved[0]), set(saved[1])

    def make(self, jobs: list[RefJob], looks: int) -> bool | None:
        """Carry out what is possible; returns whether there was anything, None if it would not last."""
        ref, before = self.ref, self.save()
        jobs = [job for job in jobs if any(suits(node, job) for node in ref.nodes.values())]
        self.play(jobs)
        while looks and self.leaving() and self.foresee(jobs):
            looks -= 1
        placed = {pod: ref.at[pod] for each in self.served for pod in each.pods if pod in ref.at}
        leaving = self.leaving() if placed else []
        after = dict(ref.at)
        self.restore(before)
        if self.undone:
            return None
        for pod in leaving:
            ref.at.pop(pod)
            ref.evicted.append(pod)
            if pod in after:
                ref.at[pod] = after[pod]
                ref.kept.add(pod)
            else:
                ref.away.add(pod)
        ref.at.update(placed)
        self.start_at_once(leaving, before[0])
        ref.waiting -= set(placed)
        return bool(placed)

    def play(self, jobs: list[RefJob]) -> None:
        for step in (self.promise, self.consolidate, self.reclaim, self.preempt):
            jobs = self.serve(jobs, step)
        self.place_anew(jobs)
        self.go_home()

    def foresee(self, jobs: list[RefJob]) -> bool:
        """Play the next round; whether those that got room would only move in it, and so go there at once."""
        ref, saved, homes, blame = self.ref, self.save(), self.homes, self.blame
        self.given = given = self.standing()
        nodes = {pod: ref.at[pod] for each in given for pod in each.pods}
        self.served, self.homes, self.blame = [], {}, {}
        most, self.most = self.most, {}
        self.play([job for job in jobs if ref.next_pods(job)])
        left = {pod: ref.at[pod] for pod in nodes if pod in ref.at}
        kept = [kind(each) for each in given if all(pod in left for pod in each.pods)]
        moves = len(left) == len(nodes) and left != nodes
        if moves:
            homes = {pod: home for pod, home in self.homes.items() if pod not in nodes} | homes
            blame = blame | self.blame
        else:
            self.restore(saved)
            self.served = []
        self.served, self.homes, self.blame, self.given = [*given, *self.served], homes, blame, []
        self.most = most
        fewer = {each for each in map(kind, given) if kept.count(each) < [*map(kind, given)].count(each)}
        self.most.update({each: kept.count(each) for each in fewer})
        self.undone = bool(fewer)
        return moves

    def standing(self) -> list[Asking]:
        """Those that got room and still have it."""
        return [each for each in (*self.given, *self.served) if all(pod in self.ref.at for pod in each.pods)]

    def refused(self, asking: Asking) -> bool:
        """Whether as many of its kind have room as would keep it."""
        like = [each for each in self.standing() if kind(each) == kind(asking)]
        return len(like) >= self.most.get(kind(asking), ENDLESS)

    def start_at_once(self, leaving: list[str], homes: dict[str, str]) -> None:
        """Who has to wait for nobody's end takes its place, or another one if somebody is still there."""
        ref, served = self.ref, [each.job for each in self.served if any(pod in self.ref.at for pod in each.pods)]
        blamed = {self.taker(self.blame[pod], served) for pod in leaving}
        ref.leaving = {pod: homes[pod] for pod in leaving}
        for job in dict.fromkeys(served):
            pods = [pod for each in self.served if each.job is job for pod in each.pods if pod in ref.at]
            promised = {pod: ref.at.pop(pod) for pod in pods}
            at_once = job not in blamed
            if not at_once or not all(ref.put(pod, promised[pod]) or ref.put(pod) for pod in pods):
                ref.at.update(promised)
        ref.leaving = {}

    def taker(self, blamed: RefJob, served: list[RefJob]) -> RefJob:
        """Who gets the room that a pod left for a job: that, or another one of its queue, or just the first one."""
        same = (job for job in served if job.queue == blamed.queue)
        return blamed if blamed in served else next(same, served[0])

    def leaving(self) -> list[str]:
        return [pod for pod, home in self.homes.items() if self.ref.at.get(pod) != home]

    def go_home(self) -> None:
        """Of a job all that had to leave stay if they can, or none."""
        groups: dict[str, list[str]] = {}
        for pod in self.leaving():
            groups.setdefault(self.ref.job_of(pod).name, []).append(pod)
        for pods in groups.values():
            saved = self.save()
            if not all(self.back_home(pod) for pod in pods):
                self.restore(saved)

    def back_home(self, pod: str) -> bool:
        self.ref.at.pop(pod, None)
        self.ref.away.discard(pod)
        return self.ref.put(pod, self.homes[pod]) is not None

    def serve(self, jobs: list[RefJob], step: Callable[[Asking], bool]) -> list[RefJob]:
        ref, left = self.ref, list[RefJob]()
        todo = list(jobs)
        while todo:
            job = ref.pick(todo)
            asking = Asking(job, ref.next_pods(job))
            todo.remove(job)
            if asking.pods and not self.refused(asking) and step(asking):
                if ref.next_pods(job):
                    todo.append(job)
                continue
            left.append(job)
        return left

    # --- the ways ---

    def promise(self, asking: Asking) -> bool:
        return self.conclude(asking, self.attempt(asking, [], lambda *_: True))

    def consolidate(self, asking: Asking) -> bool:
        ref = self.ref
        if not asking.job.preemptible:
            return False
        for resource, amount in ref.need_of(asking.job, asking.pods).items():
            if sum(max(0, ref.free(node).get(resource, 0)) for node in ref.nodes) < amount:
                return False
        return self.conclude(asking, self.search(asking, lambda _: True, self.nothing))

    def nothing(self, _: Asking, lost: list[Taken]) -> bool:
        return not lost

    def reclaim(self, asking: Asking) -> bool:
        ref, job = self.ref, asking.job
        leaf, need = ref.queues[job.queue], ref.need_of(job, asking.pods)
        for r in RESOURCES:
            if ref.has(leaf, r) + need.get(r, 0) > ref.share(leaf, r):
                return False
            if not job.preemptible and ref.fixed(leaf, r) + need.get(r, 0) > leaf.of(r)[0]:
                return False
        found = self.search(asking, lambda other: other.queue != job.queue, self.fair)
        asking.reclaims = found is not None and bool(found.lost)
        return self.conclude(asking, found)

    def fair(self, asking: Asking, lost: list[Taken]) -> bool:
        ref, job = self.ref, asking.job
        need, path = ref.need_of(job, asking.pods), ref.path(job.queue)
        if not self.within_quotas(job, need):
            return False
        kept: dict[str, Need] = {}

        def keeps(queue: RefQueue) -> Need:
            return kept.get(queue.name) or {r: ref.has(queue, r) for r in RESOURCES}

        for unit in lost:
            if not self.may_take(asking, unit, keeps):
                return False
            gone = ref.need_of(unit.job, unit.pods)
            for queue in ref.path(unit.job.queue):
                kept[queue.name] = {r: keeps(queue)[r] - gone.get(r, 0) for r in RESOURCES}
        touched = {r for unit in lost for r in unit.job.need} | set(need)
        for queue in path:
            beside = [ref.queues[name] for name in kept if ref.queues[name].parent == queue.parent]
            for r in touched:
                mine = ratio(keeps(queue)[r] + need.get(r, 0), ref.share(queue, r))
                for other in beside:
                    theirs = ratio(keeps(other)[r], ref.share(other, r))
                    if other is not queue and mine > 1 and ref.share(other, r) > 0 and mine >= theirs:
                        return False
        return True

    def within_quotas(self, job: RefJob, need: Need) -> bool:
        """Whether a job that may not be evicted stays within the quotas; others need not."""
        ref = self.ref
        return job.preemptible or all(
            ref.fixed(queue, r) + need.get(r, 0) <= queue.of(r)[0] for queue in ref.path(job.queue) for r in RESOURCES
        )

    def may_take(self, asking: Asking, unit: Taken, keeps: Callable[[RefQueue], Need]) -> bool:
        """Whether the queues that part the two jobs allow that the one takes this unit of the other."""
        ref, need = self.ref, self.ref.need_of(asking.job, asking.pods)
        ours, theirs = ref.path(asking.job.queue), ref.path(unit.job.queue)
        taker = next(queue for queue in reversed(ours) if queue not in theirs)
        giver = next(queue for queue in reversed(theirs) if queue not in ours)
        has = keeps(giver)
        if any(has[r] > ref.may_have(giver, r) for r in RESOURCES):
            return True
        starved = all(ref.has(taker, r) + need.get(r, 0) <= taker.of(r)[0] for r in RESOURCES)
        return starved and any(has[r] > giver.of(r)[0] for r in RESOURCES)

    def preempt(self, asking: Asking) -> bool:
        ref, job = self.ref, asking.job
        need = ref.need_of(job, asking.pods)
        if not self.within_quotas(job, need):
            return False

        def lower(other: RefJob) -> bool:
            return other.queue == job.queue and other.priority < job.priority

        return self.conclude(asking, self.search(asking, lower, lambda *_: True))

    # --- the search ---

    def victims(self, wanted: Callable[[RefJob], bool], known: set[str]) -> Iterable[Taken]:
        """Units of running jobs, those that give first before the others."""
        ref = self.ref
        running: dict[str, tuple[RefJob, list[str], list[str]]] = {}
        for job in ref.jobs.values():
            pods = sorted(pod for pod in job.pods if pod in ref.at and pod not in self.promised and pod not in known)
            if pods and ref.governed(job) and job.preemptible and wanted(job):
                running[job.name] = job, pods, list(pods)
        gone: dict[str, Need] = {}
        while running:
            worst: dict[str, str] = {}
            for name, (job, _, left) in running.items():
                known_ = worst.get(job.queue)
                if known_ is None or ref.key(job, len(left)) > ref.key(running[known_][0], len(running[known_][2])):
                    worst[job.queue] = name
            units = {}
            for leaf, name in worst.items():
                job, _, left = running[name]
                units[leaf] = left[-1:] if len(left) > job.least else list(left)
            whole = {leaf: ref.need_of(running[name][0], running[name][2]) for leaf, name in worst.items()}
            leaf = ref.walk(whole, gone)
            job, among, left = running[worst[leaf]]
            for queue in ref.path(leaf):
                had = gone.setdefault(queue.name, {})
                for resource, amount in ref.need_of(job, units[leaf]).items():
                    had[resource] = had.get(resource, 0) + amount
            rest = left[: -len(units[leaf])]
            if rest:
                running[job.name] = job, among, rest
            else:
                del running[job.name]
            yield Taken(job, among, units[leaf])

    def search(
        self, asking: Asking, wanted: Callable[[RefJob], bool], check: Callable[[Asking, list[Taken]], bool]
    ) -> Found | None:
        recorded: list[Taken] = []
        found = self.attempt(asking, [], lambda *_: True) if self.served else None
        if found is not None:
            return found
        for count in range(1, len(asking.pods) + 1):
            part = Asking(asking.job, asking.pods[:count])
            found = self.attempt(part, recorded, check) if recorded else None
            if found is not None:
                continue
            known = {pod for unit in recorded for pod in unit.pods}
            found, more = self.extend(part, recorded, list(self.victims(wanted, known)), check)
            if found is None:
                return None
            recorded = more
        return found

    def extend(
        self,
        part: Asking,
        recorded: list[Taken],
        units: list[Taken],
        check: Callable[[Asking, list[Taken]], bool],
    ) -> tuple[Found | None, list[Taken]]:
        ref, added = self.ref, list[Taken]()
        for unit in units:
            added.append(unit)
            for node in dict.fromkeys(ref.at[pod] for pod in unit.pods):
                tried = [*recorded, *(each for each in added if any(ref.at[pod] == node for pod in each.pods))]
                found = self.attempt(part, tried, check)
                if found is not None:
                    return found, tried
        return None, []

    def attempt(self, part: Asking, victims: list[Taken], check: Callable[[Asking, list[Taken]], bool]) -> Found | None:
        """If nobody may lose anything, the pods may come first, too."""
        found = self.attempt_in_order(part, victims, check, self.place_all)
        if found is None and check == self.nothing:
            found = self.attempt_in_order(part, victims, check, self.place_first)
        return found

    def attempt_in_order(
        self, part: Asking, victims: list[Taken], check: Callable[[Asking, list[Taken]], bool], place: Place
    ) -> Found | None:
        ref, saved = self.ref, self.save()
        homes = {pod: ref.at[pod] for unit in victims for pod in unit.pods}
        for pod in homes:
            del ref.at[pod]
            ref.away.add(pod)
        nodes = place(part, victims, homes)
        self.restore(saved)
        if nodes is None:
            return None
        lost = [
            Taken(unit.job, unit.among, gone) for unit in victims if (gone := [p for p in unit.pods if p not in nodes])
        ]
        if not check(part, lost):
            return None
        moves = {pod: node for pod, node in nodes.items() if pod in homes and homes[pod] != node}
        return Found({pod: nodes[pod] for pod in part.pods}, lost, moves)

    def back(self, victims: list[Taken], homes: dict[str, str]) -> list[Asking]:
        back: dict[str, Asking] = {}
        for unit in victims:
            known = back.setdefault(unit.job.name, Asking(unit.job, [], homes, 0))
            known.pods = sorted([*known.pods, *unit.pods])
            known.among = max(known.among, len(unit.among))
        return list(back.values())

    def place_first(self, part: Asking, victims: list[Taken], homes: dict[str, str]) -> dict[str, str] | None:
        """The pods before the victims, of which the largest come first."""
        nodes = self.ref.put_all(part.pods)
        for job in sorted(self.back(victims, homes), key=self.size, reverse=True):
            while nodes is not None and job.pods:
                nodes = nodes if self.give_back(job, nodes, home_first=True) else None
        return nodes

    def size(self, asking: Asking) -> Fraction:
        need = self.ref.need_of(asking.job, self.next_back(asking))
        parts = [Fraction(need.get(r, 0), total) for r in RESOURCES if (total := self.ref.total(r))]
        return max(parts, default=Fraction(0))

    def place_all(self, part: Asking, victims: list[Taken], homes: dict[str, str]) -> dict[str, str] | None:
        nodes: dict[str, str] = {}
        queued, placed = self.back(victims, homes), False
        while queued or not placed:
            best = self.first([*([] if placed else [part]), *queued])
            if best.homes is None:
                placed = True
                done = self.ref.put_all(best.pods)
                if done is None:
                    return None
                nodes.update(done)
            elif not self.give_back(best, nodes, home_first=placed) or not best.pods:
                queued.remove(best)
        return nodes

    def next_back(self, asking: Asking) -> list[str]:
        active = asking.among - len(asking.pods)
        return asking.pods[: max(1, asking.job.least - active)]

    def give_back(self, asking: Asking, nodes: dict[str, str], *, home_first: bool) -> bool:
        ref, saved, found = self.ref, self.save(), dict[str, str]()
        assert asking.homes is not None
        for pod in self.next_back(asking):
            ref.away.discard(pod)
            node = (ref.put(pod, asking.homes[pod]) if home_first else None) or ref.put(pod)
            if node is None:
                self.restore(saved)
                return False
            found[pod] = node
        nodes.update(found)
        asking.pods = [pod for pod in asking.pods if pod not in found]
        return True

    def asking_key(self, asking: Asking) -> tuple[Any, ...]:
        if asking.homes is None:
            return self.ref.waiting_key(asking.job)
        return self.ref.key(asking.job, asking.among - len(asking.pods))

    def first(self, askings: list[Asking]) -> Asking:
        """Who comes next."""
        ref, best = self.ref, dict[str, Asking]()
        for asking in askings:
            known = best.get(asking.job.queue)
            if known is None or self.asking_key(asking) < self.asking_key(known):
                best[asking.job.queue] = asking
        if len(askings) == 1:
            return askings[0]
        needs: dict[str, Need] = {}
        for leaf, asking in best.items():
            pods = asking.pods if asking.homes is None else self.next_back(asking)
            needs[leaf] = ref.need_of(asking.job, pods)
        return best[ref.walk(needs)]

    # --- the result ---

    def conclude(self, asking: Asking, found: Found | None) -> bool:
        if found is None:
            return False
        ref = self.ref
        own = {pod for each in self.served for pod in each.pods}
        for pod in [*(pod for unit in found.lost for pod in unit.pods), *found.moves]:
            self.blame[pod] = asking.job
            if pod not in own:
                self.homes.setdefault(pod, ref.at[pod])
                ref.away.add(pod)
            del ref.at[pod]
            if pod in found.moves:
                ref.away.discard(pod)
                ref.at[pod] = found.moves[pod]
        ref.at.update(found.nodes)
        self.served.append(asking)
        return True

    def fits(self, asking: Asking) -> bool:
        return bool(asking.pods) and self.attempt(asking, [], lambda *_: True) is not None

    def losers(self) -> Iterator[Asking]:
        ref = self.ref
        for job in ref.jobs.values():
            out = sorted(pod for pod in job.pods if pod in self.homes and pod not in ref.at)
            if out:
                yield Asking(job, out, self.homes, sum(pod in ref.at for pod in job.pods) + len(out))

    def place_anew(self, waiting: list[RefJob]) -> None:
        """Room goes by the order of queues, but to nobody who could not have taken it."""
        ref, made, saved, barred = self.ref, self.served, self.save(), set[Kind]()
        before = self.places(made)
        for _ in range(0 if all(pod in ref.at for pod in self.homes) else MOST_CONTESTS):
            self.compete(waiting, barred)
            wrong = [] if self.places(self.served) == before else self.without_right([each.job for each in made])
            if not wrong:
                return
            self.restore(saved)
            self.served = made
            if any(each.job is maker.job for each in wrong for maker in made):
                return
            barred |= set(map(kind, wrong))

    def places(self, askings: list[Asking]) -> dict[str, str]:
        return {pod: self.ref.at.get(pod, "") for each in askings for pod in each.pods}

    def compete(self, waiting: list[RefJob], barred: set[Kind]) -> None:
        ref = self.ref
        jobs = [each.job for each in self.served]
        takers = {each.job.queue for each in self.served if each.reclaims}
        for each in self.served:
            for pod in each.pods:
                ref.at.pop(pod, None)
        todo = list(self.losers())
        self.served = []
        others = [Asking(job, ref.next_pods(job)) for job in dict.fromkeys([*jobs, *waiting])]
        others = [each for each in others if each.job.queue not in takers or self.fits(each)]
        losing = [each.job for each in todo]
        todo += [each for each in others if each.job not in losing]
        while todo:
            best = self.first(todo)
            todo.remove(best)
            if best.homes is not None:
                if self.give_back(best, {}, home_first=True) and best.pods:
                    todo.append(best)
                elif not best.pods:
                    todo += [Asking(best.job, ref.next_pods(best.job)) for each in others if each.job is best.job]
            elif kind(best) in barred or self.refused(best):
                continue
            elif self.promise(best) and ref.next_pods(best.job):
                todo.append(Asking(best.job, ref.next_pods(best.job)))

    # --- who may have it ---

    def without_right(self, makers: list[RefJob]) -> list[Asking]:
        """Those who got room that they could not have taken from those who leave, if those who made it take first."""
        ref, saved = self.ref, self.save()
        turns = list(self.homes)
        losers = sorted(self.losers(), key=lambda each: min(map(turns.index, each.pods)))
        left = [piece for each in losers for piece in self.pieces(each)]
        nodes = self.places(self.served)
        for pod in nodes:
            del ref.at[pod]
        for piece in left:
            self.home(piece)
        wrong = []
        for each in sorted(self.served, key=lambda each: (each.job not in makers, self.rank(each, makers))):
            before = self.save()
            taken = self.take(each, nodes, left)
            after = self.save()
            self.restore(before)
            if self.may_have(each, taken):
                self.restore(after)
                left = [piece for piece in left if piece not in taken]
            else:
                wrong.append(each)
        self.restore(saved)
        return wrong

    def rank(self, asking: Asking, makers: list[RefJob]) -> int:
        return makers.index(asking.job) if asking.job in makers else 0

    def pieces(self, loser: Asking) -> list[Taken]:
        """What a job lost: one pod after another as long as it has more than its minimum, then all at once."""
        found, among, left = list[Taken](), sorted(self.losing(loser)), list(loser.pods)
        while left:
            gone = left[-1:] if len(among) > loser.job.least else left
            found.append(Taken(loser.job, among, gone))
            among, left = [pod for pod in among if pod not in gone], left[: len(left) - len(gone)]
        return found

    def losing(self, loser: Asking) -> list[str]:
        return [pod for pod in loser.job.pods if pod in self.ref.at or pod in loser.pods]

    def home(self, piece: Taken) -> bool:
        saved = self.save()
        for pod in piece.pods:
            self.ref.away.discard(pod)
            if self.ref.put(pod, self.homes[pod]) is None:
                self.restore(saved)
                return False
        return True

    def take(self, asking: Asking, nodes: dict[str, str], left: list[Taken]) -> list[Taken]:
        """Who has to leave, so that a job has its nodes: rather those who left for it, then those who are there."""
        ref, here = self.ref, {nodes[pod] for pod in asking.pods}

        def place(piece: Taken) -> tuple[bool, bool, bool]:
            apart = not any(self.homes[pod] in here for pod in piece.pods)
            taboo = not apart and not self.may_have(asking, [piece])
            return self.blame[piece.pods[0]] is not asking.job, apart, taboo

        taken, more = list[Taken](), sorted(left, key=place)
        for pod in asking.pods:
            while ref.put(pod, nodes[pod]) is None:
                if not more:
                    ref.at[pod] = nodes[pod]
                    break
                piece = more.pop(0)
                taken.append(piece)
                for gone in piece.pods:
                    del ref.at[gone]
                    ref.away.add(gone)
        return [piece for piece in reversed(taken) if not self.home(piece)][::-1]

    def may_have(self, asking: Asking, taken: list[Taken]) -> bool:
        ref, job = self.ref, asking.job
        if any(piece.job.queue == job.queue and piece.job.priority >= job.priority for piece in taken):
            return False
        others = [piece for piece in taken if piece.job.queue != job.queue]
        leaf, need = ref.queues[job.queue], ref.need_of(job, asking.pods)
        within = all(ref.has(leaf, r) + need.get(r, 0) <= ref.share(leaf, r) for r in RESOURCES)
        return not others or (within and self.fair(asking, others))


def kind(asking: Asking) -> Kind:
    """Equal for jobs of a queue with equal pods; gangs have their names."""
    job = asking.job
    name = job.name if len(job.pods) > 1 else ""
    return job.queue, name, job.priority, job.preemptible, len(asking.pods), *sorted(job.need.items())


def suits(node: Need, job: RefJob) -> bool:
    return all(node.get(resource, 0) >= amount for resource, amount in job.need.items())


def ratio(amount: int, share: int) -> Fraction:
    if share:
        return Fraction(amount, share)
    return Fraction(ENDLESS) if amount else Fraction(0)
