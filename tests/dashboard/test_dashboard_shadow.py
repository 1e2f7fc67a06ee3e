"""The page that compares another scheduler, in a real Chromium."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from playwright.sync_api import expect

from moorage.core.events import NodeSeen, PodSeen
from moorage.testing.builders import make_node, make_pod
from moorage.views.shadowview import WorldShadow
from moorage.views.world import Settled, World
from tests.dashboard.conftest import PATIENCE_MS, Visit
from tests.dashboard.serving import served_world
from tests.framework.readers import default_profile

pytestmark = pytest.mark.xdist_group("browser")
expect.set_options(timeout=PATIENCE_MS)
NODES = [NodeSeen(make_node("n1")), NodeSeen(make_node("n2"))]
EVIL = "<img src=x onerror=window.hacked=1>"


def shadowed(*binds: tuple[str, str]) -> WorldShadow:
    """A shadow that has seen pods come one after another and be bound by the stock scheduler, long ago."""
    shadow = WorldShadow([default_profile()], ["default-scheduler"])
    world = World([default_profile()], shadow=shadow)
    world.tell([*NODES, PodSeen(make_pod("before", node="n1")), Settled()], 0.0)
    for name, node in binds:
        pod = make_pod(name, cpu="2", memory="4Gi")
        world.tell([PodSeen(pod)], 0.0)
        world.tell([PodSeen(replace(pod, node=node))], 0.0)
    return shadow


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_page_shows_verdicts_and_differences(visit: Visit, theme: str) -> None:
    """With the plugins that they are due to; names of strangers are text."""
    with served_world([*NODES], shadow=shadowed(("a", "n2"), (EVIL, "n2"))) as url:
        page = visit(url)
        page.emulate_media(color_scheme="dark" if theme == "dark" else "light")
        page.get_by_role("navigation", name="Pages").get_by_role("link", name="Shadow").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Shadow")
        expect(page.get_by_role("table", name="2 decisions")).to_contain_text("different node")
        expect(page.get_by_text(re.compile("50.00% agreement"))).to_be_visible()
        expect(page.get_by_role("table", name="1 difference")).to_contain_text(EVIL)
        expect(page.get_by_role("table", name="1 difference")).to_contain_text("NodeResourcesFit +")
        expect(page.get_by_role("table", name="The cluster in figures")).to_contain_text("nodes in use")
        assert page.evaluate("window.hacked") is None


def test_a_dashboard_without_a_shadow_says_how_to_get_one(visit: Visit) -> None:
    """The page is there all the same."""
    with served_world([*NODES]) as url:
        page = visit(f"{url}#/shadow")
        expect(page.get_by_text(re.compile("start the dashboard with --shadow NAME"))).to_be_visible()


def test_what_was_there_before_is_no_decision() -> None:
    """Lists come before the beginning, even in one batch with it."""
    page = shadowed().page(0.0)
    assert (page["total"], page["agreement"]) == (0, None)
