"""The page Repack, in a real Chromium: what moves would do, and what they save."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from moorage.core.events import NodeSeen, ObjectSeen, PodSeen
from moorage.core.frozen import FrozenDict
from moorage.core.prices import PRICE_LIST, PriceList, PriceRule
from moorage.testing.builders import make_node, make_pod
from moorage.views.world import Told
from tests.dashboard.conftest import PATIENCE_MS, Visit
from tests.dashboard.serving import served_world

pytestmark = pytest.mark.xdist_group("browser")
expect.set_options(timeout=PATIENCE_MS)
TYPE = "node.kubernetes.io/instance-type"


def cluster() -> list[Told]:
    """Three nodes with a pod each, and a pod that needs a whole node."""
    prices = PriceList("prices", "USD", (PriceRule(500_000, FrozenDict({TYPE: "m5"})),))
    return [
        *(NodeSeen(make_node(f"n{i}", labels={TYPE: "m5"})) for i in range(3)),
        ObjectSeen(PRICE_LIST, "prices", prices),
        *(PodSeen(make_pod(f"web-{i}", cpu="1", node=f"n{i}", owner="web", labels={"app": "web"})) for i in range(3)),
        PodSeen(make_pod("wide", cpu="4", owner="wide")),
    ]


def test_the_page_shows_moves_bound_and_saving(visit: Visit) -> None:
    """Two nodes could be empty, which is the most; one move would let the pod in that waits."""
    with served_world(cluster()) as url:
        page = visit(url)
        page.get_by_role("navigation", name="Pages").get_by_role("link", name="Repack").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Repack")
        expect(page.get_by_text("2 moves would empty 2 nodes of 3 in use")).to_be_visible()
        expect(page.get_by_text("that saves 1.0000 USD per hour")).to_be_visible()
        expect(page.get_by_text("1 move would make room for default/wide")).to_be_visible()
        expect(page.get_by_role("table", name="2 moves")).to_contain_text("default/web-")
        page.get_by_role("button", name="Plan again").click()
        expect(page.get_by_role("table", name="2 moves")).to_be_visible()


def test_a_cluster_that_is_packed_has_nothing_to_move(visit: Visit) -> None:
    """The page says so."""
    told: list[Told] = [NodeSeen(make_node("n0")), PodSeen(make_pod("web", cpu="1", node="n0", owner="web"))]
    with served_world(told) as url:
        page = visit(f"{url}#/repack")
        expect(page.get_by_text("0 moves would empty 0 nodes of 1 in use")).to_be_visible()
        expect(page.get_by_role("table")).to_have_count(0)
