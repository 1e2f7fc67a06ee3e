"""Every rule of the auditor finds what breaches it, and is content with the same story told well."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.crossings.audit.auditor import RULES
from tests.crossings.audit.orders import Move, Order, Verb
from tests.crossings.audit.quantities import milli
from tests.crossings.audit.quiet import Quiet
from tests.crossings.bodies import (
    HOST,
    RACK,
    Body,
    body,
    budget,
    claim_spec,
    claim_template,
    device_class,
    local_volume,
    node,
    queue,
    slice_of,
    volume_claim,
)
from tests.crossings.stories import STRICT, Story, bound, pod, replica_set

Tale = Callable[[bool], Story]
"""Tells a story; whether badly."""


def amounts(bad: bool) -> Story:
    """Two pods need more cores than the node has."""
    story = Story(cpu=3)
    story.bind(pod("a", "2"))
    story.bind(pod("b", "2" if bad else "1"))
    return story


def host_ports(bad: bool) -> Story:
    """Two pods have one port of the node."""
    story = Story()
    for name, port in (("a", 80), ("b", 80 if bad else 81)):
        given = pod(name)
        given["spec"]["containers"][0]["ports"] = [{"containerPort": 1, "hostPort": port}]
        story.bind(given)
    return story


def gpu_shares(bad: bool) -> Story:
    """Two pods have more than one GPU of it together."""
    story = Story(["SharedDevices"])
    for name, share in (("a", "0.6"), ("b", "0.6" if bad else "0.4")):
        story.bind(pod(name, notes={"gpu-fraction": share}), notes={"moorage.dev/devices": "0"})
    return story


def claim_of(name: str, device: str, user: str) -> Body:
    result = {"request": "d", "driver": "gpu.example.com", "pool": "n0", "device": device}
    status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": [{"uid": user}]}
    metadata = {"uid": f"u-{name}"}
    return body(
        "resource.k8s.io/v1", "ResourceClaim", name, "default", metadata=metadata, spec=claim_spec("any"), status=status
    )


def devices(bad: bool) -> Story:
    """One device has two claims."""
    story = Story()
    story.put(device_class("any"), slice_of("n0", [{"name": "d0"}, {"name": "d1"}]))
    story.put(claim_of("a", "d0", "u-a"), claim_of("b", "d0" if bad else "d1", "u-b"))
    return story


def volumes(bad: bool) -> Story:
    """A pod is on another node than its volume."""
    story = Story()
    story.put(node("n1"))
    volume, claim = local_volume("disk", "n1" if bad else "n0"), volume_claim("data", "local")
    claim["metadata"]["uid"] = "u-data"
    claim["spec"]["volumeName"] = "disk"
    volume["spec"]["claimRef"] = {"namespace": "default", "name": "data", "uid": "u-data"}
    story.put(volume, claim)
    story.bind(pod("a", spec={"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]}))
    return story


def placed(bad: bool) -> Story:
    """A pod is bound to a node that it does not want."""
    story = Story()
    story.bind(pod("a", spec={"nodeSelector": {HOST: "n1" if bad else "n0"}}))
    return story


def limit(bad: bool) -> Story:
    """A queue has more than its limit, counted in shares of a GPU."""
    story = Story(["SharedDevices"])
    story.put(queue("qa", {"nvidia.com/gpu": {"quota": "0", "limit": "500m" if bad else "1"}}))
    story.bind(pod("a", queue="qa", notes={"gpu-fraction": "0.6"}), notes={"moorage.dev/devices": "0"})
    return story


def fixed_quota(bad: bool) -> Story:
    """A pod that may not be evicted is beyond the quota, counted in devices of its claim."""
    story = Story()
    resource = "deviceclass.resource.kubernetes.io/any"
    story.put(device_class("any"), claim_template("one", "any", 1))
    story.put(queue("qa", {resource: {"quota": "0" if bad else "1"}}))
    given = pod("a", queue="qa", labels={"moorage.dev/preemptible": "false"})
    given["spec"]["resourceClaims"] = [{"name": "device", "resourceClaimTemplateName": "one"}]
    given["status"]["resourceClaimStatuses"] = [{"name": "device", "resourceClaimName": "c"}]
    story.put(slice_of("n0", [{"name": "d0"}]), claim_of("c", "d0", "u-a"))
    story.bind(given)
    return story


def partial(bad: bool) -> Story:
    """One of two members runs; it never ran whole."""
    story = Story(cpu=1 if bad else 2)
    story.put(replica_set("g", 2))
    members = [pod(f"g{n}", owner="g", group="g", least=2) for n in range(2)]
    story.put(*members)
    for each in members[: 1 if bad else 2]:
        story.put(bound(each, "n0"))
    return story


def level(bad: bool) -> Story:
    """Members of a gang that wants one rack are in two."""
    story = Story()
    topology = body("moorage.dev/v1alpha1", "Topology", "t", spec={"levels": [RACK, HOST]})
    story.put(topology, *(node(f"m{n}", labels={RACK: f"r{n if bad else 0}"}) for n in range(2)))
    for number in range(2):
        notes = {"moorage.dev/topology-required": RACK}
        story.bind(pod(f"g{number}", group="g", least=2, notes=notes), f"m{number}")
    return story


def strict_budget(bad: bool) -> Story:
    """A budget that wants both pods loses one."""
    story = Story(arguments=STRICT)
    both = [story.bind(pod(name, labels={"team": "a"}, owner="o")) for name in "ab"]
    story.put(replica_set("o", 2), budget("b", {"team": "a"}, minAvailable=2 if bad else 1))
    claimant = pod("c", "3", priority=10)
    story.put(claimant)
    story.evict(both[:1], claimant)
    story.put(bound(claimant, "n0"))
    return story


def bare_moved(bad: bool) -> Story:
    """A pod that nobody makes again is moved."""
    story = Story()
    if not bad:
        story.put(replica_set("o"))
    victim, claimant = story.bind(pod("a", "2", owner="o")), pod("c", "4")
    story.put(claimant)
    story.evict([victim], claimant, message="moorage: moved so that another pod fits")
    story.put(bound(claimant, "n0"))
    return story


def bare_kept(bad: bool) -> Story:
    """The keeper moves a pod that nobody makes again."""
    story = Story()
    if not bad:
        story.put(replica_set("o"))
    story.bind(pod("a", owner="o"))
    story.auditor.moved([Move("u-a", "default/a", "repack", None)])
    return story


def guaranteed(bad: bool) -> Story:
    """A queue within its quota loses a pod to the queue beside it."""
    story = Story(cpu=1)
    story.put(
        queue("qa", {"cpu": {"quota": "1" if bad else "0"}}), queue("qb", {"cpu": {"quota": "1"}}), replica_set("o")
    )
    victim, claimant = story.bind(pod("a", queue="qa", owner="o")), pod("b", queue="qb")
    story.put(claimant)
    story.evict([victim], claimant, message="moorage: reclaimed for queue qb, as queue qa had more")
    story.put(bound(claimant, "n0"))
    return story


def needless(bad: bool) -> Story:
    """Two pods go where one would have been enough."""
    story = Story(cpu=2)
    victims = [story.bind(pod(name)) for name in "ab"]
    claimant = pod("c", "1" if bad else "2", priority=10)
    story.put(claimant)
    story.evict(victims, claimant)
    story.put(bound(claimant, "n0"))
    return story


def in_vain(bad: bool) -> Story:
    """Somebody was evicted, and whom that was for does not run."""
    story = Story(cpu=1)
    victim, claimant = story.bind(pod("a")), pod("c", priority=10)
    story.put(claimant)
    story.evict([victim], claimant)
    story.bind(pod("thief")) if bad else story.put(bound(claimant, "n0"))
    return story


def excused(_: bool) -> Story:
    """A more important pod got the room."""
    story = Story(cpu=1)
    victim, claimant = story.bind(pod("a")), pod("c", priority=10)
    story.put(claimant)
    story.evict([victim], claimant)
    story.bind(pod("king", priority=20))
    return story


def partial_victim(bad: bool) -> Story:
    """Of a gang of two one was evicted, the other runs on."""
    story = Story(cpu=2)
    story.put(replica_set("g", 2))
    members = [story.bind(pod(f"g{n}", owner="g", group="g", least=2)) for n in range(2)]
    claimant = pod("c", "2" if not bad else "1", priority=10)
    story.put(claimant)
    story.evict(members[: 1 if bad else 2], claimant)
    story.put(bound(claimant, "n0"), pod("g9", owner="g", group="g", least=2))
    return story


def idle(bad: bool) -> Story:
    """A pod waits beside room."""
    story = Story(cpu=1)
    story.put(pod("a", "1" if bad else "2"))
    return story


def idle_gang(bad: bool) -> Story:
    """A gang waits in whose rack there is room for all of it."""
    story = Story(cpu=1)
    topology = body("moorage.dev/v1alpha1", "Topology", "t", spec={"levels": [RACK, HOST]})
    story.put(topology, *(node(f"m{n}", cpu=1, labels={RACK: f"r{0 if bad else n}"}) for n in range(2)))
    notes = {"moorage.dev/topology-required": RACK}
    story.put(*(pod(f"g{n}", group="g", least=2, notes=notes) for n in range(2)))
    return story


def starving(bad: bool) -> Story:
    """A queue within its quota waits for what a queue beyond its own has borrowed."""
    story = Story(cpu=1)
    story.put(queue("qa", {"cpu": {"quota": "0"}}), queue("qb", {"cpu": {"quota": "1" if bad else "0"}}))
    story.bind(pod("a", queue="qa"))
    story.put(pod("b", queue="qb"))
    return story


def stolen(bad: bool) -> Story:
    """The room goes to a queue beyond its quota."""
    story = Story(cpu=1)
    story.put(queue("qb", {"cpu": {"quota": "0" if bad else "1"}}))
    victim, claimant = story.bind(pod("a")), pod("c", priority=10)
    story.put(claimant)
    story.evict([victim], claimant)
    story.bind(pod("thief", priority=20, queue="qb"))
    return story


def untold(bad: bool) -> Story:
    """Nobody says why a pod waits."""
    story = Story(cpu=1)
    given = pod("a", "2")
    if bad:
        given["status"] = {}
    story.put(given)
    return story


def writes(bad: bool) -> Story:
    """The same is written about a pod again and again."""
    story = Story(cpu=1)
    story.put(pod("a", "2"))
    for _ in range(5 if bad else 2):
        story.order(Order(Verb.STATUS, "u-a", "default/a"))
    return story


def rounds(bad: bool) -> Story:
    """Room is searched for again and again."""
    story = Story(cpu=1)
    story.put(pod("a", "2"))
    story.auditor.quiet.rounds += 5 if bad else 2
    story.order()
    return story


def exchange(bad: bool) -> Story:
    """Two pods evict each other for ever."""
    story = Story(cpu=1)
    for number in range(20 if bad else 2):
        story.order(Order(Verb.EVICT, f"u-{number}", f"default/{number}", reason="PreemptionByScheduler"))
    return story


TALES: dict[str, list[Tale]] = {
    "overcommitted": [amounts, host_ports, gpu_shares, devices],
    "placement": [volumes, placed],
    "limit": [limit, fixed_quota],
    "partial gang": [partial],
    "level": [level],
    "budget": [strict_budget],
    "bare pod": [bare_moved, bare_kept],
    "guarantee": [guaranteed],
    "needless": [needless],
    "in vain": [in_vain, stolen],
    "starving": [starving],
    "partial victim": [partial_victim],
    "idle": [idle],
    "gang idle": [idle_gang],
    "untold": [untold],
    "rest": [writes, rounds],
    "exchange": [exchange],
}
"""The word for a breach -> stories of it."""

_TOLD = [(word, tale) for word, tales in TALES.items() for tale in tales]


@pytest.mark.parametrize(("word", "tale"), _TOLD, ids=lambda each: getattr(each, "__name__", each))
def test_a_breach_is_found(word: str, tale: Tale) -> None:
    """The rule is named; other rules may be breached by the same story."""
    assert word in tale(True).rest()


@pytest.mark.parametrize("tale", [tale for _, tale in _TOLD], ids=lambda tale: tale.__name__)
def test_what_is_well_is_no_breach(tale: Tale) -> None:
    assert tale(False).rest() == set()


def test_every_rule_has_a_story() -> None:
    """A rule that nothing can breach judges nothing."""
    told = {
        *("Overcommit", "Placement", "QueueBounds", "Gangs", "StrictBudgets", "BarePods", "Guarantee", "Needless"),
        *("InVain", "Idle", "Starving", "Quiet"),
    }
    assert {rule.__name__ for rule in (*RULES, Quiet)} == {*told, "GivenDevices", "ClaimUsers"}


def test_room_that_goes_to_a_more_important_pod_is_excused() -> None:
    """kube-scheduler does the same; it is counted apart."""
    story = excused(True)
    assert story.rest() == set()
    assert story.auditor.excused == {"in vain, as a more important pod came first": 1}


@pytest.mark.parametrize(
    ("text", "amount"), [("1", 1000), ("250m", 250), ("0.5", 500), ("1Ki", 1_024_000), ("2k", 2_000_000), ("-1", -1000)]
)
def test_quantities_are_read(text: str, amount: int) -> None:
    assert milli(text) == amount
