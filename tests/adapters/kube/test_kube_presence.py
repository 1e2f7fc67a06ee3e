"""Replicas that know of each other by their Leases: who is there, who is older, and who follows whom."""

from __future__ import annotations

from typing import cast

from moorage.adapters.kube.client import KubeClient
from moorage.adapters.kube.presence import ADDRESS, DURATION_S, FOLLOWS, Company, Presence
from moorage.wire.leases import LeaseMetaWire, LeaseSpecWire, LeaseWire


class Replica:
    """One presence, its clock, and what it was told last."""

    def __init__(self, me: str) -> None:
        self.now_s = 0.0
        self.company = Company()
        self.presence = Presence(
            cast("KubeClient", object()),
            "ns",
            "webhook",
            me,
            self._changed,
            jitter=lambda: 0.0,
            monotonic_s=lambda: self.now_s,
        )

    def _changed(self, company: Company) -> None:
        self.company = company

    def see(self, *leases: LeaseWire) -> Company:
        for each in leases:
            self.presence.upserted(each)
        return self.company


def lease(name: str, created: int, renewed: int = 0, follows: str = "", address: str | None = None) -> LeaseWire:
    notes = {ADDRESS: f"{name}:9443" if address is None else address, FOLLOWS: follows}
    meta = LeaseMetaWire(name, creation_timestamp=f"2026-01-01T00:00:{created:02}Z", annotations=notes)
    return LeaseWire(meta, LeaseSpecWire(renew_time=str(renewed)))


def test_the_older_ones_come_in_the_order_of_their_age() -> None:
    """Of equally old ones the name decides, so that all replicas see the same order."""
    subject = Replica("c")
    company = subject.see(lease("c", 3), lease("b", 3), lease("a", 3), lease("z", 1), lease("d", 9))
    assert company.others == 4
    assert company.elders == (("z", "z:9443"), ("a", "a:9443"), ("b", "b:9443"))


def test_one_that_does_not_say_where_it_is_cannot_be_followed() -> None:
    """An older version, for instance: it is there, and decides itself."""
    company = Replica("b").see(lease("b", 2), lease("a", 1, address=""))
    assert company == Company(1, (), followed=False)


def test_the_oldest_knows_whether_all_others_follow() -> None:
    """Each has to follow one that is there."""
    subject = Replica("a")
    assert not subject.see(lease("a", 1), lease("b", 2), lease("c", 3, follows="a")).followed
    assert subject.see(lease("b", 2, 1, follows="a")).followed
    assert not subject.see(lease("c", 3, 1, follows="gone")).followed


def test_a_lease_that_is_not_renewed_stops_counting() -> None:
    """By our own clock; and one that could not renew its own has no say any more."""
    subject = Replica("b")
    subject.see(lease("b", 2), lease("a", 1))
    subject.now_s = DURATION_S
    assert subject.see(lease("b", 2, 1)).others == 1
    subject.now_s += 1
    assert subject.see(lease("b", 2, 2)) == Company(0, (), followed=False)


def test_before_its_own_lease_is_seen_everybody_is_older() -> None:
    """So that two that start together never both decide."""
    assert Replica("a").see(lease("b", 5)).elders == (("b", "b:9443"),)
