"""The laboratory itself: time, the server, the reference and the auditor are right before they judge anything."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from tests.contention.audit import Auditor
from tests.contention.greedy import greedy
from tests.contention.lab import Laboratory, play
from tests.contention.outside import ApiServer, Terms
from tests.contention.room import Room
from tests.contention.shapes import RACK, SHAPES, JobPlan, QueuePlan, Shape, cohorts, cpu_nodes, fractions, gangs3_tight
from tests.contention.shapes import levels as levels_shape
from tests.contention.virtualtime import DeadlockError, run_virtually


def shape_of(*jobs: JobPlan, nodes: int = 1, cpus: int = 4, limit: int | None = None) -> Shape:
    queues = (QueuePlan("q", cpus * nodes, limit=limit),)
    return Shape("small", cpu_nodes(nodes, cpus), jobs, float(cpus * nodes), queues)


def test_virtual_time_jumps_and_notices_when_nothing_will_happen() -> None:
    """An hour passes at once; waiting for what never comes is an error, not a wait."""

    async def hour() -> float:
        await asyncio.sleep(3600)
        return asyncio.get_running_loop().time()

    assert run_virtually(hour()) == pytest.approx(3600, abs=0.01)
    with pytest.raises(DeadlockError):
        run_virtually(asyncio.wait_for(_never(), None))


async def _never() -> None:
    await asyncio.get_running_loop().create_future()


def test_the_server_works_on_few_requests_at_once() -> None:
    """Ten requests of 20 ms with two places take 100 ms."""

    async def ten() -> float:
        server = ApiServer(Terms(places=2, service_s=0.02), lambda _: None)
        await asyncio.gather(*(server.served("x") for _ in range(10)))
        return asyncio.get_running_loop().time()

    assert run_virtually(ten()) == pytest.approx(0.1, abs=0.005)


def test_the_sizes_are_those_that_were_published() -> None:
    """600 Jobs with 2,220 pods on 240 cpus; 600 gangs with 1,800 pods on 320."""
    kueue, gangs = cohorts(), gangs3_tight()
    assert (len(kueue.jobs), kueue.pods, kueue.capacity, len(kueue.queues)) == (600, 2220, 240.0, 15)
    assert (len(gangs.jobs), gangs.pods, gangs.capacity) == (600, 1800, 320.0)
    assert {job.size for job in cohorts(seed=1).jobs} > {1, 5, 20}


def test_the_reference_packs_by_rank_and_lets_small_jobs_pass() -> None:
    """The gang of 3 waits for the first job, the small one beside it does not."""
    jobs = (
        JobPlan("first", 2, 10.0, "q"),
        JobPlan("gang", 3, 10.0, "q", at_s=1.0),
        JobPlan("small", 1, 4.0, "q", at_s=2.0),
    )
    found = greedy(shape_of(*jobs))
    assert found.makespan_s == 20.0
    assert found.utilisation == pytest.approx((20 + 30 + 4) / 80)


def test_room_is_counted_by_domain_and_by_device() -> None:
    """Two shares of 0.6 need two GPUs; a gang of a rack fits where two free halves of different racks would not do."""
    room, share = Room(fractions(0.25)), JobPlan("share", 1, 1.0, weight=0.6)
    assert list(room.slots(share)) == [4, 4]
    assert list(room.slots(replace(share, weight=2.0))) == [2, 2]
    racks = Room(levels_shape(0.25))
    gang = JobPlan("gang", 17, 1.0, level=RACK)
    assert racks.places(gang, 16) is not None
    assert racks.places(gang, 17) is None
    assert racks.places(replace(gang, level=""), 17) is not None


def test_a_run_can_be_repeated() -> None:
    """The same shape gives the same history."""
    shape = SHAPES["no-queues"](0.25, 3)
    first, second = (replace(play(shape, limit_s=10.0), cpu_s=0.0) for _ in range(2))
    assert first == second
    assert first.requests["bind"] > 10


def test_the_auditor_sees_what_is_kept_out() -> None:
    """A scheduler that pauses leaves a job out that fits: the span is as long as the pause, and the job is named."""
    auditors: list[Auditor] = []

    def pause(lab: Laboratory) -> None:
        auditors.append(Auditor(lab))
        lab.clock.call_later(2.0, setattr, lab.loop, "paused", True)
        lab.clock.call_later(9.0, setattr, lab.loop, "paused", False)
        lab.clock.call_later(9.0, lab.loop.start_deciding)

    jobs = JobPlan("first", 2, 1.0, "q"), JobPlan("late", 2, 1.0, "q", at_s=3.0), JobPlan("huge", 5, 1.0, "q", at_s=3.0)
    play(shape_of(*jobs), limit_s=20.0, watch=pause)
    longest = auditors[0].findings.longest
    assert 5.0 < longest.length_s < 6.5
    assert longest.job == "late"


def test_the_auditor_knows_limits() -> None:
    """What is beyond the limit of its queue does not fit, however empty the cluster is."""
    auditors: list[Auditor] = []
    jobs = JobPlan("one", 2, 5.0, "q"), JobPlan("two", 2, 5.0, "q", at_s=1.0)
    figures = play(shape_of(*jobs, limit=3), limit_s=30.0, watch=lambda lab: auditors.append(Auditor(lab)))
    assert figures.complete
    assert auditors[0].findings.longest.length_s < 1.0
