"""The CustomResourceDefinitions in deploy/crds: the real API server takes them, checks objects and shows columns."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from moorage.bench.controlplane import ControlPlane
from moorage.core.limits import STRATEGY_RULES
from moorage.core.queues import QUEUE
from moorage.core.strategy import StrategyError, targets
from moorage.core.strategy_syntax import MAX_BASE, MAX_WEIGHT
from moorage.wire.errors import WireError
from moorage.wire.kinds import BY_ID
from moorage.wire.policy_rules import parse_rules

CRD = Path(__file__).resolve().parents[2] / "deploy" / "crds" / "placementpolicies.yaml"
QUEUES = CRD.with_name("queues.yaml")
POLICIES = "/apis/moorage.dev/v1alpha1/namespaces/default/placementpolicies"
SELECTOR = {"matchLabels": {"app": "web"}}
RULES: list[Any] = [
    {"base": 1, "weight": 1, "nodeSelector": {"node-type": "ondemand"}},
    {"weight": 2, "nodeSelector": {"topology.kubernetes.io/zone": "us-west-1a", "node-type": "spot"}},
]


def kubectl(plane: ControlPlane, *arguments: str) -> str:
    command = [str(plane.binary("kubectl")), "--kubeconfig", str(plane.admin_kubeconfig), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def with_policies(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    """Give the API server with the CRD installed, as long as the test runs."""
    yield from installed(control_plane, CRD)


def installed(plane: ControlPlane, crd: Path) -> Iterator[ControlPlane]:
    kubectl(plane, "apply", "--validate=strict", "-f", str(crd))
    kubectl(plane, "wait", "--for=condition=Established", "--timeout=30s", "-f", str(crd))
    yield plane
    kubectl(plane, "delete", "-f", str(crd), "--timeout=30s")


def policy(name: str, rules: Any, selector: Any = SELECTOR) -> dict[str, Any]:
    spec = {"selector": selector, "rules": rules}
    return {"apiVersion": "moorage.dev/v1alpha1", "kind": "PlacementPolicy", "metadata": {"name": name}, "spec": spec}


def test_kubectl_shows_target_and_actual(with_policies: ControlPlane) -> None:
    """A policy is stored as written, its status is a subresource, and `kubectl get` has a column for each number."""
    created = with_policies.request("POST", POLICIES, policy("web", RULES))
    assert created.status == 201, created.content
    assert created.json()["spec"]["rules"] == RULES
    target, actual = targets(parse_rules(RULES), 6), (3, 2)
    status = {
        "observedGeneration": 1,
        "workloads": 1,
        "target": "/".join(map(str, target)),
        "actual": "/".join(map(str, actual)),
        "rules": [
            {"nodeSelector": "node-type:ondemand", "target": target[0], "actual": actual[0]},
            {"nodeSelector": "topology.kubernetes.io/zone:us-west-1a", "target": target[1], "actual": actual[1]},
        ],
    }
    patched = with_policies.request("PATCH", f"{POLICIES}/web/status", {"status": status})
    assert patched.status == 200, patched.content
    assert patched.json()["status"] == status
    titles, row = kubectl(with_policies, "get", "placement").splitlines()
    assert titles.split() == ["NAME", "WORKLOADS", "TARGET", "ACTUAL", "AGE"]
    assert row.split()[:4] == ["web", "1", "3/3", "3/2"]


REFUSED: dict[str, Any] = {
    "no rule": [],
    "no list": None,
    "no nodeSelector": [{"weight": 1}],
    "an empty nodeSelector": [{"weight": 1, "nodeSelector": {}}],
    "no weight": [{"nodeSelector": {"a": "b"}}],
    "all weights 0": [{"base": 1, "weight": 0, "nodeSelector": {"a": "b"}}],
    "a negative weight": [{"weight": -1, "nodeSelector": {"a": "b"}}],
    "a weight that is too large": [{"weight": MAX_WEIGHT + 1, "nodeSelector": {"a": "b"}}],
    "a base that is too large": [{"base": MAX_BASE + 1, "weight": 1, "nodeSelector": {"a": "b"}}],
    "a fraction": [{"weight": 0.5, "nodeSelector": {"a": "b"}}],
    "a text": ["weight=1,nodeSelector=a:b"],
    "a number as label": [{"weight": 1, "nodeSelector": {"a": 1}}],
    "a value that is none": [{"weight": 1, "nodeSelector": {"a": "b c"}}],
    "too many rules": [{"weight": 1, "nodeSelector": {"a": str(number)}} for number in range(STRATEGY_RULES + 1)],
}


def test_the_api_server_refuses_what_the_parser_refuses(with_policies: ControlPlane) -> None:
    """Schema and parser agree, so that a mistake shows when a policy is applied and not when pods are split."""
    taken = []
    for title, rules in REFUSED.items():
        answer = with_policies.request("POST", POLICIES, policy("bad", rules))
        if answer.status != 422:
            taken.append((title, answer.status, answer.content))
        with pytest.raises(StrategyError):
            parse_rules(rules or [])
    assert taken == []


def test_a_policy_needs_a_selector(with_policies: ControlPlane) -> None:
    """{} means all pods; nothing at all is a mistake."""
    assert with_policies.request("POST", POLICIES, policy("none", RULES, None)).status == 422
    assert with_policies.request("POST", POLICIES, policy("all", RULES, {})).status == 201


@pytest.fixture
def with_queues(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    """The same with queues."""
    yield from installed(control_plane, QUEUES)


def of_cpu(**terms: Any) -> dict[str, Any]:
    return {"resources": {"cpu": terms}}


def test_the_api_server_refuses_queues_that_cannot_be_read(with_queues: ControlPlane) -> None:
    """A mistake shows when a queue is applied, not as a queue that is not there; what can be read is taken."""
    amounts: list[Any] = ["-5", -5, "-1.5", "many", "", "1 Gi", "1e400", "0x10", "9" * 65]
    refused = [of_cpu(**{term: each}) for term in ("quota", "limit") for each in amounts]
    refused += [{f"{each}MinRuntime": text} for each in ("preempt", "reclaim") for text in ("soon", "-5m", "5", "")]
    refused += [of_cpu(weight=-1), {"priority": 1 << 40}]
    fine = [of_cpu(quota=each) for each in ("-1", -1, 0, "2", "500m", "1.5", ".5", "2Gi", "3e2", "1E", "+4")]
    fine += [{"reclaimMinRuntime": each} for each in ("0", "0s", "5m", "1h30m", "1.5h", "250ms")]
    found = []
    for spec in (*refused, *fine):
        body = {"apiVersion": "moorage.dev/v1alpha1", "kind": "Queue", "metadata": {"generateName": "q-"}, "spec": spec}
        status = with_queues.request("POST", "/apis/moorage.dev/v1alpha1/queues", body).status
        if status != (422 if spec in refused else 201):
            found.append((spec, status))
        if spec in fine:
            BY_ID[QUEUE].from_builtin({"metadata": {"name": "q"}, "spec": spec})
        elif spec != of_cpu(quota="9" * 65) and spec != of_cpu(limit="9" * 65):  # a large number is no mistake in files
            with pytest.raises(WireError):
                BY_ID[QUEUE].from_builtin({"metadata": {"name": "q"}, "spec": spec})
    assert found == []
