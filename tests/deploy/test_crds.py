"""The CustomResourceDefinitions in deploy/crds: the real API server takes them, checks objects and shows columns."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from moorage.bench.controlplane import ControlPlane
from moorage.core.limits import STRATEGY_RULES
from moorage.core.strategy import StrategyError, targets
from moorage.core.strategy_syntax import MAX_BASE, MAX_WEIGHT
from moorage.wire.policy_rules import parse_rules

CRD = Path(__file__).resolve().parents[2] / "deploy" / "crds" / "placementpolicies.yaml"
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
    kubectl(control_plane, "apply", "--validate=strict", "-f", str(CRD))
    kubectl(control_plane, "wait", "--for=condition=Established", "--timeout=30s", "-f", str(CRD))
    yield control_plane
    kubectl(control_plane, "delete", "-f", str(CRD), "--timeout=30s")


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
