"""The page of queues and shares, in a real Chromium."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from moorage.core.events import NodeSeen, ObjectSeen, PodSeen
from moorage.core.queues import QUEUE
from moorage.testing.builders import make_node, make_pod
from moorage.views.world import Told
from moorage.wire.kinds import BY_ID
from tests.dashboard.conftest import PATIENCE_MS, Visit
from tests.dashboard.serving import served_world

pytestmark = pytest.mark.xdist_group("browser")
expect.set_options(timeout=PATIENCE_MS)
GPU = "nvidia.com/gpu"


def queue(name: str, parent: str = "", **terms: object) -> Told:
    resources = {GPU: terms} if terms else {}
    body = {"metadata": {"name": name}, "spec": {"parent": parent, "resources": resources}}
    return ObjectSeen(QUEUE, name, BY_ID[QUEUE].from_builtin(body))


def pod(name: str, of: str, gpu: int, node: str | None = None) -> Told:
    return PodSeen(make_pod(name, labels={"moorage.dev/queue": of}, node=node, requests={GPU: gpu}))


def cluster() -> list[Told]:
    return [
        NodeSeen(make_node("n1", resources={GPU: "8"})),
        queue("research", quota="6"),
        queue("team-a", "research", quota="2", weight=3, limit="6"),
        queue("team-b", "research", quota="2"),
        queue("lost", "nowhere", quota="1"),
        pod("a-0", "team-a", 1, "n1"),
        pod("a-1", "team-a", 4),
        *(pod(f"b-{number}", "team-b", 2, "n1") for number in range(3)),
    ]


def row(page: Page, name: str) -> str:
    found = page.get_by_role("table", name="4 queues").get_by_role("row").filter(has_text=name).first
    return " ".join(found.inner_text().split())


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_tree_shows_use_share_and_waiting(visit: Visit, theme: str) -> None:
    """Each queue with its numbers; bars have lines at share and quota; a queue that cannot be used says why."""
    with served_world(cluster()) as url:
        page = visit(url)
        page.emulate_media(color_scheme="dark" if theme == "dark" else "light")
        page.get_by_role("navigation", name="Pages").get_by_role("link", name="Shares").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Queues and shares")
        expect(page.get_by_role("table", name="4 queues")).to_contain_text("team-a")
        assert row(page, "team-a") == f"team-a {GPU} 1 4 5 2 6 3 100 20%"
        assert row(page, "team-b") == f"team-b {GPU} 6 0 3 2 - 1 100 200%"
        assert "names the parent nowhere, which does not exist" in row(page, "lost")
        assert page.locator(".share-bar > i.over").count() >= 1
        assert page.locator(".share-bar").first.bounding_box()


@pytest.mark.parametrize("width", [420, 1600])
def test_bars_are_in_sight(visit: Visit, width: int) -> None:
    """Also on the screen of a phone: what is beside the bars may be scrolled to."""
    with served_world(cluster()) as url:
        page = visit(f"{url}#/shares")
        page.set_viewport_size({"width": width, "height": 800})
        expect(page.get_by_role("table", name="4 queues")).to_contain_text("team-a")
        boxes = [each.bounding_box() for each in page.locator(".share-bar").all()]
        assert all(box is not None and box["x"] + box["width"] <= width for box in boxes)
        assert page.evaluate("document.documentElement.scrollWidth") == width


def test_use_and_shares_over_time(visit: Visit) -> None:
    """A chart of what the queues have of a resource, and one of their shares; a line for each queue."""
    with served_world(cluster()) as url:
        page = visit(f"{url}#/charts")
        for title, value in (("allocated", "team-b 6"), ("fair shares of", "team-b 3")):
            panel = page.locator(".chart-panel", has=page.get_by_role("heading", name=f"Queues: {title} {GPU}"))
            expect(panel.locator("canvas")).to_be_visible()
            expect(panel.get_by_role("button", name=value)).to_be_visible()


def test_a_queue_beyond_nothing(visit: Visit) -> None:
    """A part of nothing is just large."""
    told = [NodeSeen(make_node("n1", resources={GPU: "8"})), queue("free", weight=0), pod("p", "free", 1, "n1")]
    with served_world(told) as url:
        page = visit(f"{url}#/shares")
        expect(page.get_by_role("table", name="1 queue")).to_contain_text(">900%")


def test_a_cluster_without_queues_says_so(visit: Visit) -> None:
    """And a queue that comes shows without a reload."""
    with served_world([NodeSeen(make_node("n1"))]) as url:
        page = visit(f"{url}#/shares")
        expect(page.get_by_text(re.compile("There are no Queue objects"))).to_be_visible()
        expect(page.get_by_role("table")).to_be_hidden()


def test_hostile_names_show_as_text(visit: Visit) -> None:
    """Resources and parents are written by strangers."""
    script = "<img src=x onerror=window.hacked=1>"
    body = {"metadata": {"name": script}, "spec": {"parent": script + "2", "resources": {}}}
    told = ObjectSeen(QUEUE, script, BY_ID[QUEUE].from_builtin(body))
    with served_world([NodeSeen(make_node("n1")), told]) as url:
        page = visit(f"{url}#/shares")
        expect(page.get_by_role("table", name="1 queue")).to_contain_text(script)
        assert page.evaluate("window.hacked") is None
