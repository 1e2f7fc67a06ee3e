"""Replicas of `moorage scheduler` as an operator runs them: processes of their own on the real API server."""

from __future__ import annotations

import json
import signal
from collections import Counter
from pathlib import Path

import pytest

from moorage.bench.controlplane import ControlPlane
from moorage.cli.main import run
from tests.app.sites import LEASES, QUICK, Site, error_lines, eventually
from tests.contract.manifests import a_node

LARGE, FITTING = "600m", 106
"""What a large pod asks for, and how many of them fit on the node."""

# `moorage` whose engine waits, or works without a pause, while a file exists.


@pytest.fixture
def site(empty_control_plane: ControlPlane, tmp_path: Path) -> Site:
    """Give a site with one large node."""
    assert empty_control_plane.request("POST", "/api/v1/nodes", a_node("n", cpu="64", pods="500")).status == 201
    return Site(empty_control_plane, tmp_path)


def test_a_standby_takes_over_from_a_leader_that_is_told_to_stop(site: Site) -> None:
    """With the default durations: it does not wait until the lease expires. The standby is ready all the time."""
    config = str(site.config("leaderElect: true"))
    with site.replica("a", "--config", config) as a:
        site.add_pods("first")
        eventually(lambda: bool(site.term_of("first")), "the first pod is bound", a)
        with site.replica("b", "--config", config) as b:
            eventually(b.ready, "the standby is ready", b)
            assert (a.leads(site.lease_name), b.leads(site.lease_name)) == (1.0, 0.0)
            eventually(lambda: "lock is held by" in b.log, "the standby says who leads", b)
            a.signal(signal.SIGTERM)
            site.add_pods("second")
            eventually(lambda: bool(site.term_of("second")), "the second pod is bound", a, b, within_s=10)
            assert a.ended() == 0
            holder = site.lease()["holderIdentity"]
            assert site.term_of("second") == f"1/{holder}"
            assert site.term_of("first").startswith("0/")
            assert b.leads(site.lease_name) == 1.0
            for want in ("new leader elected", "successfully acquired lease"):
                assert want in b.log
            eventually(lambda: "successfully renewed lease" in b.log, "the lease is renewed", b)
            b.signal(signal.SIGTERM)
            assert b.ended() == 0
    assert not site.lease().get("holderIdentity")
    assert not error_lines(a.log + b.log)


def test_who_may_not_have_the_lease_is_not_ready_and_says_so(site: Site) -> None:
    """It would never lead; with the rights it does, without a restart. It stays alive meanwhile."""
    config = str(site.config(f"{QUICK}, resourceNamespace: kube-public"))
    with site.replica("a", "--config", config) as a:
        problem = f"the lease kube-public/{site.lease_name} cannot be had: leases"
        eventually(lambda: problem in a.ask("/readyz")[1], "it says that it lacks rights", a)
        status, text = a.ask("/readyz")
        assert (status, "is forbidden" in text) == (500, True)
        assert (a.ask("/healthz"), a.ask("/livez")) == ((200, "ok"), (200, "ok"))
        site.grant("kube-public")
        eventually(a.ready, "it is ready", a)
        eventually(lambda: a.leads(site.lease_name) == 1.0, "it leads", a)


def test_a_standby_takes_over_from_a_leader_that_was_killed(site: Site) -> None:
    """As soon as the lease has expired."""
    config = str(site.config(QUICK))
    with site.replica("a", "--config", config) as a:
        site.add_pods("first")
        eventually(lambda: bool(site.term_of("first")), "the first pod is bound", a)
        with site.replica("b", "--config", config) as b:
            eventually(b.ready, "the standby is ready", b)
            a.signal(signal.SIGKILL)
            site.add_pods("second")
            eventually(lambda: site.term_of("second").startswith("1/"), "the second pod is bound", a, b, within_s=20)


def test_a_leader_whose_loop_hangs_loses_its_lease_and_ends(site: Site) -> None:
    """The thread that renews the lease does not cover for it: one line, exit code 1, and the standby goes on."""
    config = str(site.config(QUICK))
    with site.replica("a", "--config", config, troubled=True) as a:
        site.add_pods("first")
        eventually(lambda: bool(site.term_of("first")), "the first pod is bound", a)
        with site.replica("b", "--config", config) as b:
            eventually(b.ready, "the standby is ready", b)
            site.hang.touch()
            site.add_pods("second")
            eventually(lambda: site.term_of("second").startswith("1/"), "the second pod is bound", a, b)
            assert a.ended() == 1
    (line,) = error_lines(a.log)
    assert "leadership lost: the loop of this process has shown no sign of life" in line
    assert "Traceback" not in a.log


def test_a_leader_whose_loop_is_busy_keeps_its_lease(site: Site) -> None:
    """Turns without a pause, each almost as long as a retry period, for longer than the lease lives."""
    config = str(site.config(QUICK))
    with (
        site.replica("a", "--config", config, troubled=True) as a,
        site.replica("b", "--config", config, troubled=True) as b,
    ):
        site.busy.touch()
        eventually(lambda: bool(site.lease().get("holderIdentity")), "somebody leads", a, b)
        holder = site.lease()["holderIdentity"]
        renewed = set()

        def renewals() -> int:
            renewed.add(site.lease()["renewTime"])
            return len(renewed)

        eventually(lambda: renewals() > 8, "the lease is renewed", a, b)
        assert site.lease()["holderIdentity"] == holder
        assert site.lease()["leaseTransitions"] == 0
        assert (a.process.poll(), b.process.poll()) == (None, None)


def test_a_leader_that_was_suspended_binds_nothing_in_its_old_term(site: Site) -> None:
    """It has binds to send when it wakes up, and sends none. What both bound fits, and no pod was bound twice."""
    config = str(site.config(QUICK, qps=20))  # slow, so that binds wait in the queue when the leader is stopped
    names = [f"p{number}" for number in range(120)]
    with site.replica("a", "--config", config) as a:
        eventually(lambda: a.leads(site.lease_name) == 1.0, "the first leads", a)
        with site.replica("b", "--config", config) as b:
            eventually(b.ready, "the standby is ready", b)
            site.add_pods(*names, cpu=LARGE)
            eventually(lambda: sum(site.terms().values()) >= 10, "some pods are bound", a)
            a.signal(signal.SIGSTOP)
            eventually(lambda: len(site.terms()) == 2, "the standby binds", b)
            old = next(term for term in site.terms() if term.startswith("0/"))
            before = site.terms()[old]
            a.signal(signal.SIGCONT)
            assert a.ended() == 1
            eventually(site.settled, "every pod is bound or known not to fit", b, within_s=200)
            assert sum(site.terms().values()) == FITTING
            assert site.terms()[old] == before
            events = site.plane.request("GET", "/apis/events.k8s.io/v1/namespaces/default/events").json()["items"]
            scheduled = Counter(event["regarding"]["name"] for event in events if event["reason"] == "Scheduled")
            assert set(scheduled.values()) == {1}
    (line,) = error_lines(a.log)
    assert "leadership lost:" in line


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGKILL], ids=["told to stop", "killed"])
def test_nothing_is_overcommitted_when_leaders_change_in_the_middle_of_a_burst(
    site: Site, ending: signal.Signals
) -> None:
    """The new leader reads the cluster anew before its first decision."""
    config = str(site.config(QUICK))
    with site.replica("a", "--config", config) as a:
        eventually(lambda: a.leads(site.lease_name) == 1.0, "the first leads", a)
        with site.replica("b", "--config", config) as b:
            eventually(b.ready, "the standby is ready", b)
            for number in range(150):
                site.add_pods(f"p{number}", cpu=LARGE)
                if number == 75:
                    a.signal(ending)
            eventually(site.settled, "every pod is bound or known not to fit", b, within_s=200)
            assert sum(site.terms().values()) == FITTING
            assert len(site.terms()) == 2


@pytest.mark.parametrize(
    ("arguments", "want_lease"),
    [
        pytest.param([], False, id="no configuration"),
        pytest.param(["--leader-elect"], True, id="no configuration but the flag"),
        pytest.param(["--config", "CONFIG", "--leader-elect=false"], False, id="the flag turns it off"),
        pytest.param(["--leader-elect", "--dry-run"], False, id="dry runs write nothing"),
    ],
)
def test_who_takes_part_in_an_election(site: Site, arguments: list[str], want_lease: bool) -> None:
    """The replicas that were asked to. Without a configuration none is, and the lease has its default name."""
    site.plane.request("DELETE", f"{LEASES}/moorage")
    config = str(site.config(QUICK))
    given = [config if each == "CONFIG" else each for each in arguments]
    with site.replica("a", *given) as a:
        eventually(lambda: "profiles=" in a.log, "it schedules", a)
        lease = site.lease("moorage")
        assert bool(lease) == want_lease
        assert not site.lease()
        a.signal(signal.SIGTERM)
        assert a.ended() == 0
        if want_lease:
            assert lease["leaseDurationSeconds"] == 15
            assert not site.lease("moorage").get("holderIdentity")


def test_a_replica_without_permission_says_so_and_stands_by(site: Site, tmp_path: Path) -> None:
    """Once, in words that name the lease; it goes on trying, and is alive meanwhile."""
    config = tmp_path / "elsewhere.yaml"
    config.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        f"leaderElection: {{resourceNamespace: default, {QUICK}}}\nprofiles: [{{schedulerName: moorage}}]\n"
    )
    with site.replica("a", "--config", str(config), "--log-format=json") as a:
        eventually(lambda: "failed to acquire or renew lease" in a.log, "it complains", a)
        assert a.ask("/healthz") == (200, "ok")
        a.signal(signal.SIGTERM)
        assert a.ended() == 0
    lines = [json.loads(line) for line in a.log.splitlines() if line.startswith("{")]
    (complaint,) = [line for line in lines if line["event"].startswith("failed to acquire or renew lease")]
    assert complaint["lease"] == "default/moorage"
    assert "forbidden" in complaint["error"]


def test_the_flag_is_checked_like_the_configuration(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """What the file says of an election that it turns off matters once the flag turns it on."""
    config = tmp_path / "config.yaml"
    config.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "leaderElection: {leaderElect: false, leaseDuration: 5s, resourceName: kube-scheduler}\n"
    )
    assert run(["scheduler", "--config", str(config), "--leader-elect"]) == 2
    said = capfd.readouterr().err
    assert f"error: {config}: leaderElection.leaseDuration" in said
    assert "note: " in said
    assert "the lease that a stock kube-scheduler holds" in said
