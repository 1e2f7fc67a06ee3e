"""The fence of the chart on a real API server: binds of a scheduler that leads no more are refused."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from moorage.bench.controlplane import ControlPlane
from tests.contract.manifests import a_node, a_pod
from tests.deploy.chart import (
    NAMESPACE,
    RELEASE,
    account_kubeconfig,
    component_process,
    make,
    make_namespace,
    released,
)
from tests.patience import eventually

pytestmark = [pytest.mark.xdist_group("chart"), pytest.mark.since(1, 30, "ValidatingAdmissionPolicies")]

PODS = "/api/v1/namespaces/default/pods"
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
TERM = "moorage.dev/term"
NOT_A_TERM = {
    "another holder": "3/somebody-else",
    "the term before": "2/us",
    "a term to come": "4/us",
    "no number": "/us",
    "nobody": "3/",
    "empty": "",
    "missing": None,
}


@pytest.fixture(scope="module")
def plane(control_plane_assets: None) -> Iterator[ControlPlane]:  # noqa: ARG001 it has to be there
    """An API server on which the chart is installed with its fence, and a node."""
    with ControlPlane.start() as started:
        make_namespace(started)
        make(started, "/api/v1/nodes", a_node("n1"))
        with released(started, "fence.enabled=true"):
            yield started


class Binder:
    """Binds pods with the rights of the scheduler's account, in a term of the test's choosing."""

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        self.plane = plane
        self._kubeconfig = account_kubeconfig(plane, folder, "scheduler")
        self._made = 0

    def bind(self, term: str | None) -> str:
        """Bind a new pod; empty if that was allowed, else what the API server said."""
        self._made += 1
        name = f"pod-{self._made}-{self._kubeconfig.parent.name[-24:].strip('_-')}".replace("_", "-").lower()
        make(self.plane, PODS, a_pod(name, cpu="1m", scheduler="nobody"))
        metadata = {"name": name, "annotations": {} if term is None else {TERM: term}}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": {"kind": "Node", "name": "n1"}}
        command = [str(self.plane.binary("kubectl")), "--kubeconfig", str(self._kubeconfig)]
        command += ["create", "--raw", f"{PODS}/{name}/binding", "-f", "-"]
        done = subprocess.run(command, input=json.dumps(body), capture_output=True, text=True, check=False)
        spec = self.plane.request("GET", f"{PODS}/{name}").json()["spec"]
        assert (done.returncode == 0) == ("nodeName" in spec), done.stderr
        return done.stderr


@pytest.fixture
def binder(plane: ControlPlane, tmp_path: Path) -> Binder:
    """Somebody who binds, while `us` leads in term 3 and the API server knows it."""
    plane.request("DELETE", f"{LEASES}/{RELEASE}")
    set_lease(plane, "us", 3)
    found = Binder(plane, tmp_path)
    eventually(lambda: not found.bind("3/us"), 60, lambda: "binds of the leader pass")
    eventually(lambda: found.bind("2/us"), 60, lambda: "the fence stands")
    return found


def set_lease(plane: ControlPlane, holder: str, transitions: int) -> None:
    """Let somebody lead."""
    spec = {"holderIdentity": holder, "leaseTransitions": transitions, "leaseDurationSeconds": 15}
    if plane.request("GET", f"{LEASES}/{RELEASE}").status == 404:
        make(plane, LEASES, {"metadata": {"name": RELEASE}, "spec": spec})
    else:
        assert plane.request("PATCH", f"{LEASES}/{RELEASE}", {"spec": spec}).status == 200


@pytest.mark.parametrize("case", NOT_A_TERM)
def test_only_binds_of_the_current_term_pass(binder: Binder, case: str) -> None:
    """The refusal names both terms."""
    term = NOT_A_TERM[case]
    given = "none" if term is None else term
    message = f"the bind is of leadership term {given}, and the current term is 3/us"
    assert message in binder.bind(term)
    assert not binder.bind("3/us")


def test_a_leader_who_was_replaced_binds_no_more(binder: Binder) -> None:
    """From when the API server has seen the new Lease; the new leader may."""
    set_lease(binder.plane, "them", 4)
    eventually(lambda: "the current term is 4/them" in binder.bind("3/us"), 30, lambda: "the old leader is refused")
    assert not binder.bind("4/them")
    assert binder.bind("3/us")


def test_without_a_lease_nobody_binds(binder: Binder) -> None:
    """A scheduler whose Lease was deleted makes it again before it goes on."""
    assert binder.plane.request("DELETE", f"{LEASES}/{RELEASE}").status == 200
    eventually(lambda: binder.bind("3/us"), 30, lambda: "binds are refused")


def test_a_released_lease_is_nobodys(binder: Binder) -> None:
    """The last leader has given it back, and no other has taken it yet."""
    set_lease(binder.plane, "", 3)
    eventually(lambda: "the current term is 3/" in binder.bind("3/us"), 30, lambda: "binds are refused")


def test_other_schedulers_are_none_of_its_business(binder: Binder) -> None:
    """Binds of kube-scheduler and of everybody else pass as if there were no fence."""
    plane = binder.plane
    make(plane, PODS, a_pod("other", cpu="1m", scheduler="nobody"))
    body = {"metadata": {"name": "other"}, "target": {"kind": "Node", "name": "n1"}}
    assert plane.request("POST", f"{PODS}/other/binding", body).status == 201


def test_moorage_passes_its_own_fence(plane: ControlPlane, tmp_path: Path) -> None:
    """The leader's pods are bound, and carry its term."""
    plane.request("DELETE", f"{LEASES}/{RELEASE}")
    with component_process(plane, tmp_path, "scheduler", "--secure-port=0", says="scheduling"):
        make(plane, PODS, a_pod("own", cpu="1m"))
        eventually(
            lambda: "nodeName" in plane.request("GET", f"{PODS}/own").json()["spec"],
            60,
            lambda: (tmp_path / "scheduler.log").read_text()[-2000:],
        )
        lease = plane.request("GET", f"{LEASES}/{RELEASE}").json()["spec"]
        pod = plane.request("GET", f"{PODS}/own").json()
        assert pod["metadata"]["annotations"][TERM] == f"{lease['leaseTransitions']}/{lease['holderIdentity']}"
