"""What is kept about pods: it goes with them, and is bounded by bytes, whatever tenants write into them."""

from __future__ import annotations

import weakref
from typing import Any

from moorage.core import limits
from moorage.core.annotations import MIN_HOSTS, annotated_count
from moorage.core.budgets import Budgets
from moorage.core.pods import PodTemplate
from moorage.core.state import ClusterState
from moorage.core.templatecache import TemplateCache
from moorage.framework.cycle import Cycle
from moorage.framework.runner import Runner
from moorage.plugins.default_binder import DefaultBinder
from moorage.plugins.inter_pod_affinity import InterPodAffinity
from moorage.plugins.node_resources_fit import NodeResourcesFit
from moorage.plugins.pod_topology_spread import PodTopologySpread
from moorage.plugins.priority_sort import PrioritySort
from moorage.testing import make_node, make_pod
from moorage.wire.pod import decode_pod
from moorage.wire.templates import TemplateTable
from tests.framework.readers import make_profile

KB_200 = 200 * 1024
PODS = 200
"""40 MB of annotations, more than twice what one table may hold."""


def test_decisions_about_large_pods_leave_little_behind() -> None:
    """Every table of the runner and of its plugins stays within its bytes, and still gives the right node."""
    state = ClusterState()
    state.upsert_node(make_node("n1", cpu="8"))
    affinity, spread = InterPodAffinity(), PodTopologySpread()
    profile = make_profile([PrioritySort(), NodeResourcesFit(), affinity, spread, DefaultBinder()])
    runner = Runner(profile, state)
    pods = [make_pod(f"p{number}", annotations={"a": f"{number:06}" * (KB_200 // 6)}) for number in range(PODS)]
    tables: list[TemplateCache[Any]] = [
        runner._classes._by_template,
        affinity._plans,
        spread._plans,
    ]
    for pod in pods:
        assert runner.decide(Cycle(pod, state, 0.0)) == state.row_of("n1")
        assert all(table.kept_bytes <= limits.KEPT_TEMPLATE_BYTES for table in tables)
    assert runner._classes._by_template.kept_bytes > 0
    del pod
    pods.clear()
    assert [(len(table), table.kept_bytes) for table in tables] == [(0, 0)] * len(tables)


def test_a_cache_counts_its_bytes() -> None:
    """Entries that are replaced count once, and starting over counts from nothing."""
    cache: TemplateCache[int] = TemplateCache(10)
    templates = [PodTemplate(namespace=f"n{number}") for number in range(25)]
    for number, template in enumerate(templates):
        cache.keep(template, number)
        cache.keep(template, -number)
        assert cache.get(template) == -number
        assert cache.kept_bytes == sum(each.size for each in templates if cache.get(each) is not None)
        assert len(cache) <= 10


def test_what_is_known_of_a_template_goes_with_it() -> None:
    """Others stay, and a template of the same value is another one."""
    cache: TemplateCache[str] = TemplateCache(10)
    gone, stays = PodTemplate(namespace="a"), PodTemplate(namespace="b")
    cache.keep(gone, "gone")
    cache.keep(stays, "stays")
    del gone
    assert len(cache) == 1
    assert cache.kept_bytes == stays.size
    assert cache.get(stays) == "stays"
    assert cache.get(PodTemplate(namespace="a")) is None


def test_a_cache_that_nobody_has_any_more_is_gone_at_once() -> None:
    """Also when it is full, and without the garbage collector, which runs rarely."""
    cache: TemplateCache[int] = TemplateCache(10)
    template = PodTemplate()
    cache.keep(template, 1)
    gone = weakref.ref(cache)
    del cache
    assert gone() is None
    del template


def test_budgets_forget_pods() -> None:
    """Budgets may stay the same for weeks; what was asked about them may not grow with every pod."""
    budgets = Budgets()
    for number in range(PODS):
        budgets.covering(make_pod(f"p{number}", annotations={"a": f"{number:06}" * (KB_200 // 6)}))
    assert len(budgets._of_template) == 0


def test_looks_are_remembered_by_bytes() -> None:
    """The decoder's table holds looks that no pod has within its bytes."""
    table = TemplateTable(most_bytes=1 << 20)
    for number in range(50):
        note = f"{number:06}" * (KB_200 // 6)
        body = f'{{"metadata":{{"name":"p","uid":"u","annotations":{{"a":"{note}"}}}},"spec":{{}}}}'
        decode_pod(body.encode(), table)
    assert len(table) <= (1 << 20) // KB_200


def test_a_long_annotation_is_shown_in_part() -> None:
    """Events and the memory of what was told hold a line, not 250 KB."""
    said = annotated_count({MIN_HOSTS[0]: "x" * KB_200}, MIN_HOSTS, 1)
    assert said is not None
    assert said.value is None
    assert len(said.text) < 100
