"""A trial on the real API server: it goes by itself when it is worse, stays when it is better, and outlives leaders."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from moorage.bench.controlplane import ControlPlane
from moorage.cli.main import run
from moorage.wire.trialrecords import TRIAL_ANNOTATION
from tests.app.sites import LEASES, Replica, Site, eventually
from tests.contract.manifests import a_node, a_pod

PODS = 5
PATIENT = "leaseDuration: 12s, renewDeadline: 9s, retryPeriod: 1s"
"""For a machine that is busy with other things."""
TRIAL = """---
apiVersion: moorage.dev/v1alpha1
kind: TrialConfiguration
name: zones
pods: {namespaces: [tried]}
duration: 1h
atEnd: Keep
profiles: [%(profile)s]
worse: {minSamples: %(samples)s, for: 0s, pending: {amount: 2}}
"""
PLACED = 'moorage_trial_placed_pods{side="trial"}'
PLAIN = "{schedulerName: moorage}"
HARMLESS = "{schedulerName: moorage, plugins: {score: {disabled: [{name: ImageLocality}]}}}"
HARMFUL = (
    "{schedulerName: moorage, pluginConfig: [{name: NodeAffinity, args: {addedAffinity: "
    "{requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: "
    "[{matchExpressions: [{key: nowhere, operator: Exists}]}]}}}}]}"
)
"""A profile by which no pod fits anywhere."""


@pytest.fixture
def site(empty_control_plane: ControlPlane, tmp_path: Path) -> Site:
    """Give a site with one large node and a namespace for the trial."""
    assert empty_control_plane.request("POST", "/api/v1/nodes", a_node("n", cpu="64", pods="500")).status == 201
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "tried"}}
    assert empty_control_plane.request("POST", "/api/v1/namespaces", namespace).status in {201, 409}
    return Site(empty_control_plane, tmp_path)


class Tried:
    """A site whose configuration has a trial."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self._made = 0

    def config(self, profile: str, samples: int = PODS, control: str = PLAIN) -> str:
        file = self.site.config(PATIENT)
        terms = {"profile": profile, "samples": samples}
        file.write_text(file.read_text().replace(PLAIN, control) + TRIAL % terms)
        return str(file)

    def record(self) -> dict[str, Any]:
        """What the Lease says of the trial."""
        answer = self.site.plane.request("GET", f"{LEASES}/{self.site.lease_name}")
        metadata = answer.json()["metadata"] if answer.status == 200 else {}
        found: dict[str, Any] = json.loads(metadata.get("annotations", {}).get(TRIAL_ANNOTATION, "{}"))
        return found

    def create(self, namespace: str, count: int = PODS) -> list[str]:
        """Pods, by the paths at which they are read."""
        made = []
        for _ in range(count):
            self._made += 1
            name = f"p{self._made}"
            path = f"/api/v1/namespaces/{namespace}/pods"
            pod = {**a_pod(name), "metadata": {"name": name, "namespace": namespace}}
            assert self.site.plane.request("POST", path, pod).status == 201
            made.append(f"{path}/{name}")
        return made

    def bound(self, paths: list[str]) -> Callable[[], bool]:
        return lambda: all(self.site.plane.request("GET", path).json()["spec"].get("nodeName") for path in paths)

    def tell(self, what: str, condition: Callable[[], bool], *replicas: Replica, within_s: float = 90) -> None:
        eventually(condition, what, *replicas, within_s=within_s)


def metric(replica: Replica, name: str) -> float | None:
    lines = replica.ask("/metrics")[1].splitlines()
    return next((float(line.rpartition(" ")[2]) for line in lines if line.startswith(f"{name} ")), None)


def test_a_trial_that_is_worse_is_gone_though_its_leader_was_killed(site: Site) -> None:
    """The first leader begins it and is killed before there are enough pods; the next one goes on, and returns.

    Pods that the trial left pending are placed by the configuration, and a third leader does not begin it again.
    """
    tried = Tried(site)
    config = tried.config(HARMFUL, PODS + 1)
    with site.replica("a", "--config", config) as a:
        tried.tell("the trial runs", lambda: tried.record().get("phase") == "Running", a)
        others, spoilt = tried.create("default"), tried.create("tried")
        tried.tell("pods beside the trial are bound", tried.bound(others), a)
        before = tried.record()
        with site.replica("b", "--config", config) as b:
            tried.tell("the standby is ready", b.ready, b)
            a.signal(signal.SIGKILL)
            tried.tell("another process leads", lambda: b.leads(site.lease_name) == 1.0, b)
            assert tried.record()["digest"] == before["digest"]
            assert tried.record()["phase"] == "Running"
            more = [*tried.create("default", 2 * PODS), *tried.create("tried")]  # the counts may be those of a start
            tried.tell("the trial has ended", lambda: tried.record().get("phase") == "Ended", b)
            record = tried.record()
            assert (record["end"], record["verdict"]) == ("Worse", "Worse")
            assert record["ranSeconds"] > before.get("ranSeconds", 0.0)
            assert "pending" in record["message"]
            tried.tell("all pods are bound", tried.bound([*others, *spoilt, *more]), b)
            assert metric(b, "moorage_trial_in_force") == 0.0
            assert metric(b, 'moorage_trial_ended{reason="Worse"}') == 1.0
            with site.replica("c", "--config", config) as c:
                tried.tell("the standby is ready", c.ready, c)
                b.signal(signal.SIGTERM)
                tried.tell("the third leads", lambda: c.leads(site.lease_name) == 1.0, c)
                tried.tell("pods of the trial's namespace are bound", tried.bound(tried.create("tried")), c)
                assert (tried.record()["phase"], tried.record()["end"]) == ("Ended", "Worse")
    assert "a trial has ended" in b.log


def test_a_trial_that_is_not_worse_stays_over_leaders(site: Site) -> None:
    """The counts of the leader that was killed are those that the next one goes on from; at the end it is kept.

    The end comes with another duration in the file, which changes nothing else.
    """
    tried = Tried(site)
    config = tried.config(HARMLESS)
    with site.replica("a", "--config", config) as a:
        tried.tell("the trial runs", lambda: tried.record().get("phase") == "Running", a)
        first = [*tried.create("default"), *tried.create("tried")]
        tried.tell("pods are bound", tried.bound(first), a)
        tried.tell("the counts are kept", lambda: tried.record().get("trial", {}).get("placed") == PODS, a)
        with site.replica("b", "--config", config) as b:
            tried.tell("the standby is ready", b.ready, b)
            a.signal(signal.SIGKILL)
            second = [*tried.create("default"), *tried.create("tried")]
            tried.tell("pods are bound by the next leader", tried.bound(second), b)
            tried.tell("they are counted", lambda: metric(b, PLACED) == 2 * PODS, b)
            Path(config).write_text(Path(config).read_text().replace("duration: 1h", "duration: 1s"))
            tried.tell("its time is over", lambda: tried.record().get("phase") == "Kept", b)
            record = tried.record()
            assert (record["end"], record["verdict"]) == ("TimeOver", "Alike")
            assert (record["trial"]["placed"], record["control"]["placed"]) == (2 * PODS, 2 * PODS)
            assert metric(b, "moorage_trial_in_force") == 1.0
            assert metric(b, PLACED) == 2 * PODS


def test_a_trial_that_is_better_stays_over_leaders(site: Site) -> None:
    """By the configuration no pod fits anywhere, by the trial all do: at its end it is kept, and it places pods.

    The leader that began it is killed before there are enough pods, and the one that kept it afterwards.
    """
    tried = Tried(site)
    config = tried.config(HARMLESS, 2 * PODS, control=HARMFUL)
    with site.replica("a", "--config", config) as a:
        tried.tell("the trial runs", lambda: tried.record().get("phase") == "Running", a)
        waiting = tried.create("default")
        tried.tell("pods of the trial are bound", tried.bound(tried.create("tried")), a)
        with site.replica("b", "--config", config) as b:
            tried.tell("the standby is ready", b.ready, b)
            a.signal(signal.SIGKILL)
            waiting += tried.create("default", 2 * PODS)  # the counts may be those of a start
            placed = tried.create("tried", 2 * PODS)
            tried.tell("pods of the trial are bound by the next leader", tried.bound(placed), b)
            Path(config).write_text(Path(config).read_text().replace("duration: 1h", "duration: 1s"))
            tried.tell("its time is over", lambda: tried.record().get("phase") == "Kept", b)
            record = tried.record()
            assert (record["end"], record["verdict"]) == ("TimeOver", "Better"), record
            assert "pending is 0 where" in record["message"]
            with site.replica("c", "--config", config) as c:
                tried.tell("the standby is ready", c.ready, c)
                b.signal(signal.SIGKILL)
                tried.tell("the third leader places pods as the trial does", tried.bound(tried.create("tried")), c)
                assert metric(c, "moorage_trial_in_force") == 1.0
                assert (tried.record()["phase"], tried.record()["verdict"]) == ("Kept", "Better")
                assert not any(tried.bound([path])() for path in waiting)


def test_a_trial_ends_with_its_document_and_a_broken_one_spoils_nothing(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    """The file is changed while the scheduler runs: broken, mended, without the trial. `explain` knows that it runs."""
    tried = Tried(site)
    config = Path(tried.config(HARMFUL, 1000))
    good = config.read_text()
    with site.replica("a", "--config", str(config)) as a:
        tried.tell("the trial runs", lambda: tried.record().get("phase") == "Running", a)
        spoilt = tried.create("tried")
        explain = ["explain", "p1", "-n", "tried", "--config", str(config)]
        assert run([*explain, "--kubeconfig", str(site.plane.scheduler_kubeconfig)]) == 0
        assert "decided on by the profiles of the trial" in capsys.readouterr().out
        config.write_text(good.replace("duration: 1h", "duration: soon"))
        tried.tell("the trial has ended", lambda: tried.record().get("end") == "Broken", a)
        tried.tell("its pods are bound", tried.bound(spoilt), a)
        assert "duration" in tried.record()["message"]
        config.write_text(good)
        tried.tell("the trial runs again", lambda: tried.record().get("phase") == "Running", a)
        config.write_text(good.partition("---")[0])
        tried.tell("the trial was removed", lambda: tried.record().get("end") == "Removed", a)
        tried.tell("pods are bound", tried.bound(tried.create("tried")), a)
        assert a.process.poll() is None
