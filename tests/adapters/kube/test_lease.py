"""Leader election on the real API server: who leads, who waits, and what happens to the Lease in between."""

from __future__ import annotations

import asyncio
import base64
import json
import random
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from moorage.adapters.kube.client import KubeClient
from moorage.adapters.kube.credentials import from_kubeconfig
from moorage.adapters.kube.direct import DirectTransport
from moorage.adapters.kube.errors import ServerError, Unreachable
from moorage.adapters.kube.fence import FencedTransport
from moorage.adapters.kube.lease import LeaderElector
from moorage.adapters.kube.leaserecord import MOST_ANNOTATED, Lease, LeaseRecord, Term, changed_lease, parse_lease
from moorage.adapters.kube.microtime import micro_time
from moorage.adapters.kube.resources import LEASES, NAMESPACES
from moorage.adapters.kube.transport import AiohttpTransport, Request, Response
from moorage.bench.controlplane import ControlPlane
from moorage.framework.configuration import LeaderElection

NAME = "moorage"
PATIENCE_S = 30


@dataclass
class Replica:
    """An elector and what became of it."""

    elector: LeaderElector
    terms: list[Term] = field(default_factory=list)
    lost: str = ""
    task: asyncio.Task[None] | None = None

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            following = group.create_task(self.elector.follow())
            self.terms.append(await self.elector.acquire())
            self.lost = await self.elector.hold()
            following.cancel()

    async def vanish(self) -> None:
        """End as after SIGKILL: nothing is given back."""
        assert self.task is not None
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)

    async def leave(self) -> None:
        """End as after SIGTERM."""
        await self.vanish()
        await self.elector.release()


class Election:
    """One Lease on the real API server, and replicas that want it."""

    def __init__(self, client: KubeClient, namespace: str) -> None:
        self.client = client
        self.namespace = namespace
        self.replicas: list[Replica] = []

    def settings(self, **changes: Any) -> LeaderElection:
        values: dict[str, Any] = {"lease_duration_s": 3.0, "renew_deadline_s": 2.0, "retry_period_s": 0.5, **changes}
        return LeaderElection(resource_name=NAME, resource_namespace=self.namespace, **values)

    def join(self, name: str, client: KubeClient | None = None, **options: Any) -> Replica:
        settings = self.settings(**options.pop("changes", {}))
        replica = Replica(LeaderElector(client or self.client, settings, name, **options))
        replica.task = asyncio.create_task(replica.run())
        self.replicas.append(replica)
        return replica

    def leaders(self) -> list[Replica]:
        return [replica for replica in self.replicas if replica.elector.leading()]

    async def lease(self) -> dict[str, Any]:
        content: dict[str, Any] = json.loads(await self.client.get(LEASES, NAME, self.namespace))
        return content

    async def renewals(self, count: int) -> None:
        """Wait until the holder has renewed the lease so many times."""
        seen = {(await self.lease())["spec"]["renewTime"]}
        async with asyncio.timeout(PATIENCE_S):
            while len(seen) <= count:
                await asyncio.sleep(0.05)
                seen.add((await self.lease())["spec"]["renewTime"])

    async def change(self, **spec: Any) -> None:
        await self.client.patch(LEASES, NAME, {"spec": spec}, self.namespace)


async def until(condition: Callable[[], bool], what: str = "") -> None:
    try:
        async with asyncio.timeout(PATIENCE_S):
            while not condition():  # noqa: ASYNC110 - the server has no event to wait for
                await asyncio.sleep(0.01)
    except TimeoutError:
        pytest.fail(f"not in time: {what}")


@asynccontextmanager
async def election_on(plane: ControlPlane, kubeconfig: Path | None = None) -> AsyncIterator[Election]:
    """An election in a namespace of its own; never more than one replica leads, which is looked at all the time."""
    namespace = f"lease-{random.getrandbits(40):x}"
    async with KubeClient(from_kubeconfig([plane.admin_kubeconfig])) as admin:
        await admin.create(NAMESPACES, {"metadata": {"name": namespace}})
    async with KubeClient(from_kubeconfig([kubeconfig or plane.admin_kubeconfig])) as client:
        election = Election(client, namespace)
        most = 0

        async def look() -> None:
            nonlocal most
            while True:
                most = max(most, len(election.leaders()))
                await asyncio.sleep(0.002)

        looking = asyncio.create_task(look())
        try:
            yield election
        finally:
            tasks = [looking, *(replica.task for replica in election.replicas if replica.task)]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        assert most <= 1, "two led at the same time"


def play(
    plane: ControlPlane, scenario: Callable[[Election], Coroutine[Any, Any, None]], kubeconfig: Path | None = None
) -> None:
    async def run() -> None:
        async with election_on(plane, kubeconfig) as election:
            await scenario(election)

    asyncio.run(run())


def test_one_of_three_leads_and_keeps_the_lease(control_plane: ControlPlane) -> None:
    """All start at once; losing a race on the server is no trouble; the lease says what it should."""

    async def scenario(election: Election) -> None:
        for name in "abc":
            election.join(name)
        await until(lambda: len(election.leaders()) == 1, "one leads")
        first = (await election.lease())["spec"]
        assert first["holderIdentity"] == election.leaders()[0].elector.identity
        assert first["leaseDurationSeconds"] == 3
        assert first["leaseTransitions"] == 0
        await election.renewals(8)  # that takes longer than the lease lives without them
        later = (await election.lease())["spec"]
        assert later["holderIdentity"] == first["holderIdentity"]
        assert later["acquireTime"] == first["acquireTime"]
        assert later["renewTime"] > first["renewTime"]
        assert sum(len(replica.terms) for replica in election.replicas) == 1

    play(control_plane, scenario)


def test_a_released_lease_is_taken_over_at_once(control_plane: ControlPlane) -> None:
    """The standby hears of it by its watch: neither the lease nor the standby's timer has to run out."""

    async def scenario(election: Election) -> None:
        long = {"lease_duration_s": 600.0, "renew_deadline_s": 300.0, "retry_period_s": 200.0}
        leader = election.join("leader", changes=long)
        await until(lambda: bool(leader.terms), "the first leads")
        standby = election.join("standby", changes=long)
        await until(lambda: standby.elector.holder == "leader", "the standby has seen the lease")
        await leader.leave()
        assert not leader.elector.leading()
        await until(lambda: bool(standby.terms), "the standby leads")
        assert standby.terms == [Term(1, "standby")]
        assert str(standby.terms[0]) == "1/standby"

    play(control_plane, scenario)


def test_a_release_leaves_a_lease_that_nobody_holds(control_plane: ControlPlane) -> None:
    """As client-go leaves it; a standby that leaves touches nothing."""

    async def scenario(election: Election) -> None:
        leader = election.join("leader")
        await until(lambda: bool(leader.terms), "the first leads")
        standby = election.join("standby")
        await until(lambda: standby.elector.holder == "leader", "the standby has seen the lease")
        await standby.leave()
        assert (await election.lease())["spec"]["holderIdentity"] == "leader"
        await leader.leave()
        spec = (await election.lease())["spec"]
        assert not spec.get("holderIdentity")
        assert spec["leaseDurationSeconds"] == 1
        assert spec["leaseTransitions"] == 0

    play(control_plane, scenario)


def test_the_lease_of_a_leader_that_vanished_expires(control_plane: ControlPlane) -> None:
    """Not before its duration, as seen from the standby, and whatever the clocks of the machines say."""

    async def scenario(election: Election) -> None:
        leader = election.join("leader", now_s=lambda: time.time() + 86_400)
        await until(lambda: bool(leader.terms), "the first leads")
        standby = election.join("standby", now_s=lambda: time.time() - 86_400)
        await until(lambda: standby.elector.holder == "leader", "the standby has seen the lease")
        await leader.vanish()
        vanished_s = time.monotonic()
        await until(lambda: bool(standby.terms), "the standby leads")
        assert time.monotonic() - vanished_s > 2, "the last renewal was at most a retry period old"
        assert standby.terms == [Term(1, "standby")]

    play(control_plane, scenario)


def test_a_deleted_lease_is_made_again_in_the_same_term(control_plane: ControlPlane) -> None:
    """The leader goes on; standbys that knew the lease do not take the chance."""

    async def scenario(election: Election) -> None:
        leader = election.join("leader")
        await until(lambda: bool(leader.terms), "the first leads")
        standby = election.join("standby")
        await until(lambda: standby.elector.holder == "leader", "the standby has seen the lease")
        old = await election.lease()
        await election.client.delete(LEASES, NAME, election.namespace)

        async def made_again() -> dict[str, Any]:
            items = json.loads(await election.client.list(LEASES, election.namespace))["items"]
            return items[0] if items else old

        async with asyncio.timeout(PATIENCE_S):
            while (new := await made_again())["metadata"]["uid"] == old["metadata"]["uid"]:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert new["spec"]["holderIdentity"] == "leader"
        assert new["spec"]["leaseTransitions"] == old["spec"]["leaseTransitions"]
        assert new["spec"]["acquireTime"] == old["spec"]["acquireTime"]
        await election.renewals(8)  # that takes longer than the lease lives without them
        assert leader.elector.leading()
        assert not standby.terms

    play(control_plane, scenario)


def test_a_deleted_lease_of_a_vanished_leader_is_a_later_term(control_plane: ControlPlane) -> None:
    """Terms never repeat as long as somebody remembers the last one."""

    async def scenario(election: Election) -> None:
        leader = election.join("leader")
        await until(lambda: bool(leader.terms), "the first leads")
        standby = election.join("standby")
        await until(lambda: standby.elector.holder == "leader", "the standby has seen the lease")
        await leader.vanish()
        await election.client.delete(LEASES, NAME, election.namespace)
        await until(lambda: bool(standby.terms), "the standby leads")
        assert standby.terms == [Term(1, "standby")]

    play(control_plane, scenario)


@pytest.mark.parametrize("holder", ["somebody", ""], ids=["another", "nobody"])
def test_who_is_not_named_has_lost_at_once(control_plane: ControlPlane, holder: str) -> None:
    """The watch tells the leader; it does not wait for its deadline."""

    async def scenario(election: Election) -> None:
        slow = {"lease_duration_s": 600.0, "renew_deadline_s": 300.0, "retry_period_s": 200.0}
        leader = election.join("leader", changes=slow)
        await until(lambda: bool(leader.terms), "the first leads")
        await election.change(holderIdentity=holder or None, leaseDurationSeconds=600)
        await until(lambda: bool(leader.lost), "the leader has lost")
        assert not leader.elector.leading()
        assert (f"is held by {holder}" if holder else "has no holder") in leader.lost

    play(control_plane, scenario)


def test_changes_by_others_cost_nothing_and_stay(control_plane: ControlPlane) -> None:
    """A renewal that collides with a label is tried again, and the label survives."""

    async def scenario(election: Election) -> None:
        leader = election.join("leader")
        await until(lambda: bool(leader.terms), "the first leads")
        for number in range(20):
            labels = {"metadata": {"labels": {"touched": str(number)}}}
            await election.client.patch(LEASES, NAME, labels, election.namespace)
            await asyncio.sleep(0.1)
        await election.renewals(1)
        assert (await election.lease())["metadata"]["labels"] == {"touched": "19"}
        assert leader.elector.leading()
        assert not leader.lost

    play(control_plane, scenario)


def test_a_hung_loop_loses_the_lease(control_plane: ControlPlane) -> None:
    """And it takes part again in nothing until it shows a sign of life."""

    async def scenario(election: Election) -> None:
        ticked_s = time.monotonic()
        leader = election.join("leader", heartbeat_s=lambda: ticked_s)
        await until(lambda: bool(leader.lost), "the leader has lost")
        assert "no sign of life" in leader.lost
        hung = election.join("hung", heartbeat_s=lambda: ticked_s)
        healthy = election.join("healthy")
        await until(lambda: bool(healthy.terms), "the healthy one leads")
        assert not hung.terms

    play(control_plane, scenario)


class BrokenTransport(AiohttpTransport):
    """A network that can be cut."""

    cut = False

    async def send(self, request: Request) -> Response:
        if self.cut:
            raise Unreachable("the network is down")
        return await super().send(request)


def test_a_leader_that_cannot_renew_knows_it_before_the_standby_leads(control_plane: ControlPlane) -> None:
    """The renew deadline is shorter than the lease; a short outage before it is survived."""

    async def scenario(election: Election) -> None:
        network = BrokenTransport()
        async with KubeClient(election.client.credentials, transport=network) as client:
            leader = election.join("leader", client)
            await until(lambda: bool(leader.terms), "the first leads")
            standby = election.join("standby")
            network.cut = True
            await asyncio.sleep(0.7)
            network.cut = False
            await election.renewals(1)
            assert leader.elector.leading()
            network.cut = True
            await until(lambda: bool(leader.lost), "the leader has lost")
            assert "was not renewed within 2 s: the network is down" in leader.lost
            await until(lambda: bool(standby.terms), "the standby leads")
            await leader.vanish()
        await network.aclose()

    play(control_plane, scenario)


class SlowTransport(AiohttpTransport):
    """A network that takes its time with writes when it is told to, and carries them out all the same."""

    def __init__(self) -> None:
        super().__init__()
        self.slow = False
        self.writing, self.go_on = asyncio.Event(), asyncio.Event()
        self.sent: set[asyncio.Task[Response]] = set()

    async def send(self, request: Request) -> Response:
        if not self.slow or request.method == "GET":
            return await super().send(request)
        self.writing.set()
        task = asyncio.create_task(self._later(request))
        self.sent.add(task)
        return await asyncio.shield(task)

    async def _later(self, request: Request) -> Response:
        await self.go_on.wait()
        return await super().send(request)


def test_who_leaves_while_taking_the_lease_gives_it_back(control_plane: ControlPlane) -> None:
    """The write is out when it is told to stop; if it were forgotten, nobody would lead until the lease expires."""

    async def scenario(election: Election) -> None:
        network = SlowTransport()
        async with KubeClient(election.client.credentials, transport=network) as client:
            leader = election.join("leader")
            await until(lambda: bool(leader.terms), "the first leads")
            patient = {"lease_duration_s": 60.0, "renew_deadline_s": 40.0}
            standby = election.join("standby", client, changes=patient)
            await until(lambda: standby.elector.holder == "leader", "the standby has seen the lease")
            network.slow = True
            await leader.leave()
            await network.writing.wait()
            leaving = asyncio.create_task(standby.leave())
            await until(lambda: standby.task is not None and standby.task.done(), "the standby has stopped waiting")
            network.slow = False
            network.go_on.set()
            await asyncio.gather(leaving, *network.sent)
            spec = (await election.lease())["spec"]
            assert (spec["holderIdentity"], spec["leaseTransitions"]) == ("", 1)
            assert not standby.terms
        await network.aclose()

    play(control_plane, scenario)


@pytest.mark.parametrize(
    "verbs",
    [
        pytest.param(["create", "get", "update", "list", "watch"], id="all it asks for"),
        pytest.param(["create", "get", "update"], id="without watching"),
    ],
)
def test_few_permissions_are_enough(control_plane: ControlPlane, tmp_path: Path, verbs: list[str]) -> None:
    """Leases alone, and nothing else; who may not watch is slower, but works."""
    user = f"elector-{random.getrandbits(40):x}"
    certificate, key = control_plane.client_certificate(user, ())
    content = yaml.safe_load(control_plane.admin_kubeconfig.read_text())
    content["users"][0]["user"] = {
        "client-certificate-data": base64.b64encode(certificate).decode(),
        "client-key-data": base64.b64encode(key).decode(),
    }
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(yaml.safe_dump(content))
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    rule = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": verbs}
    role = {"metadata": {"name": user}, "rules": [rule]}
    binding = {
        "metadata": {"name": user},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": user},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
    }
    assert control_plane.request("POST", f"{rbac}/clusterroles", role).status == 201
    assert control_plane.request("POST", f"{rbac}/clusterrolebindings", binding).status == 201

    async def scenario(election: Election) -> None:
        leader = election.join("leader")
        await until(lambda: bool(leader.terms), "the first leads")
        standby = election.join("standby")
        await until(lambda: standby.elector.holder == "leader", "the standby has seen the lease")
        await leader.leave()
        await until(lambda: bool(standby.terms), "the standby leads")

    play(control_plane, scenario, kubeconfig)


def test_a_fence_lets_only_leaders_write(control_plane: ControlPlane) -> None:
    """Reads always go through, writes while the answer is yes."""

    async def scenario(election: Election) -> None:
        leading = True
        async with aclosing(DirectTransport()) as behind:
            fenced = FencedTransport(behind, lambda: leading)
            client = KubeClient(election.client.credentials, transport=fenced)
            body = {"metadata": {"name": "fenced"}}
            await client.create(LEASES, body, election.namespace)
            leading = False
            with pytest.raises(Unreachable, match="not the leader"):
                await client.delete(LEASES, "fenced", election.namespace)
            assert json.loads(await client.get(LEASES, "fenced", election.namespace))["metadata"]["name"] == "fenced"

    play(control_plane, scenario)


@pytest.mark.parametrize(
    ("content", "want"),
    [
        pytest.param({}, LeaseRecord(), id="no spec"),
        pytest.param({"spec": None}, LeaseRecord(), id="null spec"),
        pytest.param({"spec": {"holderIdentity": None, "leaseTransitions": None}}, LeaseRecord(), id="null fields"),
        pytest.param(
            {"spec": {"holderIdentity": "a", "leaseDurationSeconds": 15, "leaseTransitions": 7, "renewTime": "now"}},
            LeaseRecord("a", 15, "", "now", 7),
            id="a holder",
        ),
    ],
)
def test_leases_are_read(content: dict[str, Any], want: LeaseRecord) -> None:
    """Absent and null mean the same."""
    assert parse_lease(json.dumps(content).encode()).record == want


@pytest.mark.parametrize("body", [b"", b"[]", b'{"spec": {"leaseTransitions": "many"}}'])
def test_a_lease_that_cannot_be_read_is_an_error_of_the_server(body: bytes) -> None:
    """Never a fault of ours."""
    with pytest.raises(ServerError, match="the lease cannot be read"):
        parse_lease(body)


def test_what_others_wrote_into_a_lease_stays() -> None:
    """Labels, versions and fields that are not ours go back as they came."""
    content = {"metadata": {"resourceVersion": "5"}, "spec": {"strategy": "x", "leaseTransitions": 1}}
    changed = changed_lease(Lease(LeaseRecord(), content), LeaseRecord("me", 15, "then", "now", 2))
    assert changed["metadata"] == {"resourceVersion": "5"}
    assert changed["spec"]["strategy"] == "x"
    assert changed["spec"]["leaseTransitions"] == 2
    assert content["spec"] == {"strategy": "x", "leaseTransitions": 1}, "the lease itself is not touched"


def test_annotations_of_others_that_leave_no_room_do_not_stop_a_leader() -> None:
    """The API server would refuse the renewal, and the lease would be lost; ours is left out instead."""
    for size, stands in ((MOST_ANNOTATED - len("theirs" + "ours" + "x"), True), (MOST_ANNOTATED, False)):
        content = {"metadata": {"resourceVersion": "5", "annotations": {"theirs": "a" * size}}}
        changed = changed_lease(Lease(LeaseRecord(), content), LeaseRecord("me"), {"ours": "x"})
        assert ("ours" in changed["metadata"]["annotations"]) is stands
        assert changed["metadata"]["annotations"]["theirs"] == "a" * size
        assert changed["spec"]["holderIdentity"] == "me"


def test_times_are_written_with_six_decimals() -> None:
    """The API server refuses anything else."""
    assert micro_time(1_700_000_000.25) == "2023-11-14T22:13:20.250000Z"
