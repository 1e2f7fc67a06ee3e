"""`simulate` answers as a live cluster does: the same files through both, for every kind of workload.

The cluster is the real API server with the real workload controllers and `moorage scheduler`; 200 random files are
`make simlive`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from moorage.framework.plugin import Plugin
from moorage.plugins.controller_spread import ControllerSpread
from moorage.plugins.placement_strategy import PlacementStrategy
from moorage.plugins.spot_placement import SpotPlacement
from tests.simlive.comparing import differing_counts, differing_nodes
from tests.simlive.files import HOSTNAME, KINDS, SCHEDULER, ZONE, Object, node, random_file, workload
from tests.simlive.live import Live, live

pytestmark = pytest.mark.xdist_group("simlive")

CAPACITY = "node.kubernetes.io/capacity"
OWN_RULES = "own-rules"
ENOUGH_SEEDS = 200
"""Many, as ties have many outcomes on empty nodes; a seed that gives what live had ends the search."""
PLUGINS: tuple[type[Plugin], ...] = (PlacementStrategy, ControllerSpread, SpotPlacement)
_RULES = f"base=1,weight=1,nodeSelector={CAPACITY}:on-demand;weight=2,nodeSelector={CAPACITY}:spot"
STRATEGY = {"moorage.dev/schedule-strategy": _RULES}


@pytest.fixture(scope="module")
def cluster(control_plane_assets: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:  # noqa: ARG001
    """A live cluster with two profiles: the default set, and one with the rules of strategies, hosts and spot."""
    own = {"multiPoint": {"enabled": [{"name": plugin.name} for plugin in PLUGINS]}}
    profiles: list[Object] = [{"schedulerName": SCHEDULER}, {"schedulerName": OWN_RULES, "plugins": own}]
    with live(tmp_path_factory.mktemp("simlive"), profiles) as found:
        yield found


def nodes() -> list[Object]:
    """Two zones of three equal nodes, on-demand and spot; a node of one is hardly ever as good as one of the other."""
    labels = [{ZONE: "z0", CAPACITY: "on-demand"}, {ZONE: "z1", CAPACITY: "spot"}]
    return [
        *(node(f"n{number}", "8", "32Gi", labels[0]) for number in range(3)),
        *(node(f"n{number}", "7", "20Gi", labels[1]) for number in range(3, 6)),
    ]


def every_kind(
    wishes: Callable[[str], dict[str, Any]] = lambda _: {},
    *,
    gang: bool = False,
    annotations: dict[str, str] | None = None,
    scheduler: str = SCHEDULER,
) -> list[Object]:
    """One workload of each kind, of four pods; `wishes` are parts of the pods' spec, by the name of the workload."""
    found = []
    for place, kind in enumerate(KINDS):
        own: Object = {"replicas": 4}
        if kind in ("Job", "CronJob"):
            own = {"parallelism": 4, "completions": 4}
        elif kind == "DaemonSet":
            own = {}
        elif kind == "StatefulSet":
            own |= {"serviceName": "w", "podManagementPolicy": "Parallel"}
        name, is_gang = f"w{place}", gang and kind != "DaemonSet"
        spec = {"cpu": f"{place + 4}00m", "memory": "1Gi", "schedulerName": scheduler, **wishes(name)}
        made = workload(kind, name, own, is_gang, **spec)
        if annotations:
            made["metadata"]["annotations"] = annotations
        found.append(made)
    return found


def spread(when: str, key: str) -> Callable[[str], dict[str, Any]]:
    """A constraint of each workload's own."""

    def wishes(name: str) -> dict[str, Any]:
        selector = {"matchLabels": {"app": name}}
        constraint = {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": when, "labelSelector": selector}
        return {"topologySpreadConstraints": [{**constraint, "matchLabelKeys": ["pod-template-hash"]}]}

    return wishes


def apart(name: str) -> dict[str, Any]:
    """Away from pods of one's own kind where possible, and near to the first workload."""
    terms = {
        "podAntiAffinity": {"labelSelector": {"matchLabels": {"app": name}}, "topologyKey": HOSTNAME},
        "podAffinity": {"labelSelector": {"matchLabels": {"app": "w0"}}, "topologyKey": ZONE},
    }
    preferred = "preferredDuringSchedulingIgnoredDuringExecution"
    return {"affinity": {part: {preferred: [{"weight": 60, "podAffinityTerm": term}]} for part, term in terms.items()}}


@pytest.mark.parametrize(
    ("objects", "plugins"),
    [
        pytest.param(every_kind(), (), id="the default set"),
        pytest.param(every_kind(spread("ScheduleAnyway", HOSTNAME)), (), id="soft spread"),
        pytest.param(every_kind(spread("DoNotSchedule", ZONE)), (), id="hard spread"),
        pytest.param(every_kind(apart), (), id="affinity"),
        pytest.param(every_kind(gang=True), (), id="gangs"),
        pytest.param(every_kind(annotations=STRATEGY, scheduler=OWN_RULES), PLUGINS, id="strategies"),
        pytest.param(every_kind(scheduler=OWN_RULES), PLUGINS, id="spot"),
        pytest.param(every_kind(annotations={"moorage.dev/min-hosts": "3"}, scheduler=OWN_RULES), PLUGINS, id="hosts"),
    ],
)
def test_every_kind_is_simulated_as_live(
    cluster: Live, objects: list[Object], plugins: tuple[type[Plugin], ...]
) -> None:
    """Pod by pod in the live order, and the file itself by how many pods of each workload equal nodes have."""
    file = [*nodes(), *objects]
    rest = cluster.play(file)
    assert {pod["metadata"]["ownerReferences"][0]["kind"] for pod in rest.pods} == {*KINDS} - {"Deployment", "CronJob"}
    assert differing_nodes(rest, plugins) == []
    assert differing_counts(file, rest, plugins, seeds=ENOUGH_SEEDS) == []


@pytest.mark.parametrize("number", range(3))
def test_random_files_are_simulated_as_live(cluster: Live, number: int) -> None:
    """A share of `make simlive`."""
    file = random_file(number)
    rest = cluster.play(file)
    assert differing_nodes(rest) == []
    assert differing_counts(file, rest, seeds=ENOUGH_SEEDS) == []
