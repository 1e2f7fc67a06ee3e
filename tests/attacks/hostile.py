"""What a hostile tenant can write into its own namespace, as objects that an API server accepts: a function each."""

from __future__ import annotations

import json
from typing import Any, Protocol

from tests.attacks.arena import EVIL, GOOD, Object, deployment, pod, requesting


class Attempt(Protocol):
    """One attempt."""

    __name__: str

    def __call__(self) -> list[Object]:
        """The objects that the hostile tenant creates."""


MANY = 2000
FLOOD = 150
_HOST = "kubernetes.io/hostname"
_REQUIRED, _PREFERRED = (
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
)
_EVERYONE: dict[str, Any] = {}
"""A label selector that matches every pod."""


def _term(number: int, *, key: str = _HOST, everyone: bool = False) -> Object:
    selector = _EVERYONE if everyone else {"matchLabels": {f"k{number}": f"v{number}"}}
    return {"topologyKey": key, "labelSelector": selector}


def _affinity(kind: str, how: str, count: int, *, own_keys: bool = False) -> Object:
    terms = [_term(number, key=f"evil.example/{number}" if own_keys else _HOST) for number in range(count)]
    if how == _PREFERRED:
        return {
            kind: {how: [{"weight": 1 + number % 100, "podAffinityTerm": term} for number, term in enumerate(terms)]}
        }
    return {kind: {how: terms}}


# --- one large object ---


def anti_affinity_terms() -> list[Object]:
    return [pod("a", affinity=_affinity("podAntiAffinity", _REQUIRED, MANY))]


def anti_affinity_terms_bound() -> list[Object]:
    return [pod("a", nodeName="n1", affinity=_affinity("podAntiAffinity", _REQUIRED, MANY))]


def anti_affinity_keys_bound() -> list[Object]:
    return [pod("a", nodeName="n1", affinity=_affinity("podAntiAffinity", _REQUIRED, MANY, own_keys=True))]


def affinity_terms_bound() -> list[Object]:
    return [pod("a", nodeName="n1", affinity=_affinity("podAffinity", _REQUIRED, MANY))]


def preferred_terms() -> list[Object]:
    return [pod("a", affinity=_affinity("podAffinity", _PREFERRED, MANY))]


def preferred_terms_bound() -> list[Object]:
    return [pod("a", nodeName="n1", affinity=_affinity("podAntiAffinity", _PREFERRED, MANY))]


def spread_constraints() -> list[Object]:
    constraints = [
        {
            "maxSkew": 1,
            "topologyKey": f"evil.example/{number}",
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": _EVERYONE,
        }
        for number in range(MANY)
    ]
    return [pod("a", topologySpreadConstraints=constraints)]


def anti_affinity_against_everybody() -> list[Object]:
    """Terms without `namespaces` concern the own namespace only."""
    return [
        pod(f"a{number}", nodeName=f"n{number}", affinity={"podAntiAffinity": {_REQUIRED: [_term(0, everyone=True)]}})
        for number in range(12)
    ]


def spread_over_everybody() -> list[Object]:
    hard = {"maxSkew": 1, "topologyKey": _HOST, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": _EVERYONE}
    return [deployment("a", 30, EVIL, topologySpreadConstraints=[hard])]


def resource_names() -> list[Object]:
    return [requesting("a", {f"evil.example/r{number}": "1" for number in range(MANY)})]


def resource_names_bound() -> list[Object]:
    return [requesting("a", {f"evil.example/r{number}": "1" for number in range(MANY)}, nodeName="n1")]


def amounts_that_overflow() -> list[Object]:
    amounts = (
        {"memory": "9Ei"},
        {"memory": "9P"},
        {"ephemeral-storage": "9Ei"},
        {"evil.example/r": "9223372036854775807"},
    )
    return [requesting(f"a{number}", given, nodeName="n1") for number, given in enumerate([*amounts, *amounts])]


def amounts_pending() -> list[Object]:
    return [requesting(f"a{number}", {"memory": "9Ei", "cpu": "9P"}) for number in range(4)]


def tolerations() -> list[Object]:
    given = [
        {"key": f"k{number}", "operator": "Equal", "value": f"v{number}", "effect": "NoSchedule"}
        for number in range(MANY)
    ]
    return [pod("a", tolerations=given), pod("b", nodeName="n1", tolerations=given)]


def node_terms() -> list[Object]:
    terms = [
        {"matchExpressions": [{"key": f"k{number}", "operator": "In", "values": ["a", "b"]}]} for number in range(MANY)
    ]
    return [pod("a", affinity={"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": terms}}})]


def node_values() -> list[Object]:
    terms = [
        {"matchExpressions": [{"key": _HOST, "operator": "In", "values": [f"v{number}" for number in range(20_000)]}]}
    ]
    return [pod("a", affinity={"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": terms}}})]


def node_selectors() -> list[Object]:
    return [pod("a", nodeSelector={f"k{number}": "v" for number in range(MANY)})]


def labels() -> list[Object]:
    many = {"app": "a", **{f"k{number}": f"v{number}" for number in range(MANY)}}
    return [pod("a", meta={"labels": many}), pod("b", meta={"labels": many}, nodeName="n1")]


def host_ports() -> list[Object]:
    ports = [{"containerPort": number, "hostPort": number} for number in range(1, MANY)]
    container = {"name": "c", "image": "i", "ports": ports}
    return [pod("a", containers=[container]), pod("b", nodeName="n1", containers=[container])]


def volumes() -> list[Object]:
    given = [{"name": f"v{number}", "persistentVolumeClaim": {"claimName": f"c{number}"}} for number in range(MANY)]
    return [pod("a", volumes=given), pod("b", nodeName="n1", volumes=given)]


def containers() -> list[Object]:
    given = [
        {"name": f"c{number}", "image": f"i{number}", "resources": {"requests": {"cpu": "1m"}}}
        for number in range(MANY)
    ]
    return [pod("a", containers=given)]


def gates() -> list[Object]:
    return [pod("a", schedulingGates=[{"name": f"evil.example/g{number}"} for number in range(MANY)])]


def owners() -> list[Object]:
    references = [
        {"apiVersion": "v1", "kind": "X", "name": f"o{number}", "uid": f"u{number}"} for number in range(MANY)
    ]
    return [pod("a", meta={"ownerReferences": references})]


# --- annotations and conditions ---


def strategy_of_250_kb() -> list[Object]:
    text = ";".join(f"weight=1,nodeSelector=k{number}:v{number}" for number in range(8000))
    return [deployment("a", 3, EVIL, annotations={"smart-scheduler.io/schedule-strategy": text})]


def strategy_of_mistakes() -> list[Object]:
    return [deployment("a", 3, EVIL, annotations={"moorage.dev/schedule-strategy": "x=;" * 80_000})]


def hosts_beyond_reason() -> list[Object]:
    given = ("9" * 4000, "-1", "１２", "1e9", "0x10")
    return [
        deployment(f"a{number}", 2, EVIL, annotations={"moorage.dev/min-hosts": text})
        for number, text in enumerate(given)
    ]


def priority_by_annotation() -> list[Object]:
    return [pod(f"a{number}", meta={"annotations": {"priority": "2000000000"}}) for number in range(20)]


def gang_record_of_brackets() -> list[Object]:
    condition = {"type": "moorage.dev/GangStart", "status": "True", "message": "[" * 3000}
    given = pod("a", meta={"annotations": {"pod-group": "g", "moorage.dev/pod-group-min-available": "1"}})
    return [{**given, "status": {"conditions": [condition]}}]


def gang_record_of_lies() -> list[Object]:
    """A start record that names the other tenant's pods."""
    message = json.dumps({"members": [f"{GOOD}-plain-a-{number}" for number in range(6)], "needed": 1})
    condition = {"type": "moorage.dev/GangStart", "status": "True", "message": message}
    given = pod("a", meta={"annotations": {"pod-group": "gang-a", "moorage.dev/pod-group-min-available": "2"}})
    return [{**given, "status": {"conditions": [condition]}}]


# --- other people's names ---


def _claiming(owner: str, count: int = 5) -> list[Object]:
    reference = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "name": owner,
        "uid": f"deployment-{GOOD}-{owner}",
        "controller": True,
    }
    return [
        pod(f"{owner}-x{number}", nodeName=f"n{2 * number}", meta={"ownerReferences": [reference]})
        for number in range(count)
    ]


def owner_of_the_split() -> list[Object]:
    return [*_claiming("split-a"), *_claiming("split-b")]


def owner_of_the_hosts() -> list[Object]:
    return [*_claiming("hosts-a"), *_claiming("hosts-b")]


def gang_of_the_same_name() -> list[Object]:
    given = {"pod-group": "gang-a", "moorage.dev/pod-group-min-available": "100"}
    return [pod(f"a{number}", meta={"annotations": given}) for number in range(5)]


def gang_in_another_namespace() -> list[Object]:
    given = {"pod-group": f"{GOOD}/gang-a", "moorage.dev/pod-group-min-available": "100"}
    return [pod(f"a{number}", meta={"annotations": given}) for number in range(5)]


def labels_of_the_victims() -> list[Object]:
    return [
        pod(f"{app}-{number}", nodeName=f"n{number}", meta={"labels": {"app": f"{app}-a"}})
        for app in ("apart", "even", "split", "hosts", "gang")
        for number in range(12)
    ]


def budget_over_everybody() -> list[Object]:
    meta = {"name": "a", "namespace": EVIL}
    return [
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": meta,
            "spec": {"maxUnavailable": 0, "selector": _EVERYONE},
        }
    ]


def policy_over_everybody() -> list[Object]:
    rules = [{"name": "r", "weight": 1, "nodeSelector": {"node-type": "ondemand"}}]
    meta = {"name": "a", "namespace": EVIL}
    spec = {"workloads": _EVERYONE, "rules": rules}
    return [{"apiVersion": "moorage.dev/v1alpha1", "kind": "PlacementPolicy", "metadata": meta, "spec": spec}]


# --- floods ---


def impossible_pods() -> list[Object]:
    return [pod(f"a{number}", nodeSelector={"no": "where"}) for number in range(FLOOD)]


def impossible_pods_all_different() -> list[Object]:
    return [
        pod(f"a{number}", nodeSelector={"no": str(number)}, meta={"labels": {f"k{number}": "v"}})
        for number in range(FLOOD)
    ]


def impossible_gangs() -> list[Object]:
    return [
        requesting(f"g{gang}-{number}", {"cpu": "63" if number else "65"}) | {
            "metadata": {
                "name": f"g{gang}-{number}", "namespace": EVIL, "uid": f"evil-g{gang}-{number}", "labels": {"app": "g"},
                "annotations": {"pod-group": f"g{gang}", "moorage.dev/pod-group-min-available": "4"},
            }
        }
        for gang in range(10)
        for number in range(4)
    ]  # fmt: skip


def selectors_all_different() -> list[Object]:
    return [
        pod(
            f"a{number}",
            nodeName=f"n{number % 12}",
            affinity={"podAntiAffinity": {_PREFERRED: [{"weight": 1, "podAffinityTerm": _term(number)}]}},
        )
        for number in range(FLOOD)
    ]


def strategies_all_different() -> list[Object]:
    return [
        deployment(
            f"a{number}",
            1,
            EVIL,
            annotations={"moorage.dev/schedule-strategy": f"weight={1 + number},nodeSelector=node-type:spot"},
        )
        for number in range(FLOOD)
    ]


ATTEMPTS: tuple[Attempt, ...] = (
    anti_affinity_terms, anti_affinity_terms_bound, anti_affinity_keys_bound, affinity_terms_bound, preferred_terms,
    preferred_terms_bound, spread_constraints, anti_affinity_against_everybody, spread_over_everybody, resource_names,
    resource_names_bound, amounts_that_overflow, amounts_pending, tolerations, node_terms, node_values, node_selectors,
    labels, host_ports, volumes, containers, gates, owners, strategy_of_250_kb, strategy_of_mistakes,
    hosts_beyond_reason, priority_by_annotation, gang_record_of_brackets, gang_record_of_lies, owner_of_the_split,
    owner_of_the_hosts, gang_of_the_same_name, gang_in_another_namespace, labels_of_the_victims, budget_over_everybody,
    policy_over_everybody, impossible_pods, impossible_pods_all_different, impossible_gangs, selectors_all_different,
    strategies_all_different,
)  # fmt: skip
