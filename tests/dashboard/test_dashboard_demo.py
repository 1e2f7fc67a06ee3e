"""Every page of the dashboard on the embedded demo, in a real Chromium."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.dashboard.conftest import PATIENCE_MS, Visit
from tests.dashboard.serving import served_demo

pytestmark = pytest.mark.xdist_group("browser")

CAPACITY = "node.kubernetes.io/capacity"
expect.set_options(timeout=PATIENCE_MS)


@pytest.fixture(scope="module")
def demo() -> Iterator[str]:
    """The default demo at a moment at which pods wait for room; its time stands still."""
    with served_demo(from_s=42.0, speed=0.0) as url:
        yield url


def open_page(page: Page, name: str, heading: str | None = None) -> None:
    page.get_by_role("navigation", name="Pages").get_by_role("link", name=re.compile(f"^{name}")).click()
    expect(page.get_by_role("heading", level=1)).to_have_text(heading or name)


def test_the_map_shows_every_node(demo: str, visit: Visit) -> None:
    """Groups by zone and capacity; the table says the same; the keyboard leads to a node."""
    page = visit(demo)
    for group in ("zone-a, on-demand", "zone-b, spot", "zone-c, on-demand"):
        expect(page.get_by_role("heading", name=re.compile(group))).to_be_visible()
    page.get_by_role("application", name=re.compile("zone-b, spot")).focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator("#announce")).to_contain_text("node-b2")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("node-b2")
    expect(page.get_by_role("table", name=re.compile("pods?$"))).to_contain_text("default/")
    open_page(page, "Map", "Cluster map")
    page.get_by_role("button", name="Table").click()
    expect(page.get_by_role("row")).to_have_count(10)
    assert "token" not in page.url


def test_the_queue_shows_who_waits_and_why(demo: str, visit: Visit) -> None:
    """The engine's own queue, with the places that its pods are in."""
    page = visit(demo)
    open_page(page, "Queue")
    table = page.get_by_role("table", name=re.compile("waiting pods?"))
    expect(table).to_contain_text("batch-1-")
    expect(table).to_contain_text("Insufficient cpu")
    page.get_by_role("button", name="Gated").click()
    expect(page.get_by_text("No pending pods here.")).to_be_visible()
    page.get_by_role("button", name="All").click()


def test_a_waiting_pod_is_told_what_would_help(demo: str, visit: Visit) -> None:
    """Why not elsewhere, by reason; and suggestions that carry whole objects."""
    page = visit(demo)
    open_page(page, "Queue")
    page.get_by_role("link", name="default/batch-1-").first.click()
    expect(page.get_by_role("table", name=re.compile("rejected, by reason"))).to_contain_text("NodeResourcesFit")
    help_section = page.locator("section", has=page.get_by_role("heading", name="What would help"))
    expect(help_section.get_by_role("listitem").first).to_be_visible()
    help_section.get_by_text(re.compile("The changed")).first.click()
    expect(help_section.locator("pre").first).to_contain_text('"kind"')


def test_a_bound_pod_says_why_it_stands_there(demo: str, visit: Visit) -> None:
    """Scores of the nodes that fit, best first, and what rejects the others."""
    page = visit(demo)
    page.keyboard.press("/")
    page.keyboard.type("default/api")
    page.keyboard.press("Enter")
    page.get_by_role("link", name="default/api-").first.click()
    expect(page.get_by_role("main")).to_contain_text("It is on node-")
    expect(page.get_by_role("heading", name="Why here")).to_be_visible()
    expect(page.get_by_role("table", name=re.compile("rejected, by reason"))).to_contain_text("NodeResourcesFit")


def test_spot_shows_capacity_and_savings(demo: str, visit: Visit) -> None:
    """What spot nodes cost and what the same would cost on demand."""
    page = visit(demo)
    open_page(page, "Spot", "Spot capacity")
    expect(page.get_by_text("Saved an hour")).to_be_visible()
    expect(page.locator("main")).to_contain_text("USD")


def test_the_timeline_has_decisions_and_evictions(demo: str, visit: Visit) -> None:
    """Newest first, and filtered."""
    page = visit(demo)
    open_page(page, "Timeline")
    expect(page.get_by_role("table")).to_contain_text("web is scaled up from 6 to 16")
    page.get_by_role("button", name="Evictions and removals").click()
    expect(page.get_by_role("table")).to_contain_text("DeletionByTaintManager")
    expect(page.get_by_role("table")).not_to_contain_text("web is scaled up")
    page.get_by_role("button", name="All").click()


def test_a_what_if_says_who_moves_and_who_waits(demo: str, visit: Visit) -> None:
    """Draining a node evicts its pods; a node that is not there is refused in words."""
    page = visit(demo)
    open_page(page, "What if")
    form = page.get_by_role("form", name="Drain a node")
    form.get_by_label("Node").fill("node-a1")
    form.get_by_role("button", name="Add").click()
    page.get_by_role("button", name="Try it out").click()
    expect(page.get_by_role("heading", name=re.compile("Pods that would be evicted"))).to_be_visible()
    expect(page.get_by_role("heading", name="Utilisation")).to_be_visible()
    page.get_by_role("button", name="Take out: Drain node-a1").click()
    form.get_by_label("Node").fill("no-such-node")
    form.get_by_role("button", name="Add").click()
    page.get_by_role("button", name="Try it out").click()
    expect(page.get_by_text(re.compile("no-such-node")).last).to_be_visible()


def test_a_strategy_is_checked_as_it_is_typed(demo: str, visit: Visit) -> None:
    """Every mistake with its column; nothing can be applied before it is gone."""
    page = visit(demo)
    open_page(page, "Strategies", "Strategies and spread")
    page.get_by_role("button", name="Edit the strategy of Deployment default/api").click()
    area = page.get_by_label("Strategy: rules with ; between them")
    area.fill("base=x,weight=1,nodeSelektor=a:b")
    expect(page.get_by_role("listitem").filter(has_text="column")).not_to_have_count(0)
    expect(area).to_have_attribute("aria-invalid", "true")
    expect(page.get_by_role("button", name="Apply")).to_be_disabled()


def test_editing_a_strategy_moves_pods(visit: Visit) -> None:
    """The preview names the moves; after Apply the keeper makes them, and the page shows it without a reload."""
    with served_demo(from_s=5.0, speed=4.0) as url:
        page = visit(url)
        open_page(page, "Strategies", "Strategies and spread")
        page.get_by_role("button", name="Edit the strategy of Deployment default/api").click()
        wanted = f"weight=1,nodeSelector={CAPACITY}:on-demand;weight=0,nodeSelector={CAPACITY}:spot"
        page.get_by_label("Strategy: rules with ; between them").fill(wanted)
        expect(page.get_by_role("table", name=re.compile("would move"))).to_contain_text("default/api-")
        page.get_by_role("button", name="Apply").click()
        expect(page.get_by_text("Applied.")).to_be_visible()
        rules = page.get_by_role("table", name=re.compile("Pods by rule"))
        expect(rules.get_by_role("row").nth(1).get_by_role("cell").nth(4)).to_have_text("4")
        expect(rules.get_by_role("row").nth(2).get_by_role("cell").nth(4)).to_have_text("0")
        assert page.evaluate("moorage.loads") == 1
        assert page.evaluate("moorage.news") > 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_light_and_dark(demo: str, visit: Visit, scheme: str) -> None:
    """The system's wish counts until somebody chooses."""
    page = visit(demo, color_scheme=scheme)
    dark = "getComputedStyle(document.documentElement).colorScheme"
    assert page.evaluate(dark) == scheme
    page.get_by_role("button", name=re.compile("Theme")).click()
    page.get_by_role("button", name="Theme: light").click()
    expect(page.get_by_role("button", name="Theme: dark")).to_be_visible()
    assert page.evaluate(dark) == "dark"


def test_landmarks_headings_and_focus(demo: str, visit: Visit) -> None:
    """One main, a navigation, a search, a first heading, captions on tables, and a skip link that comes first."""
    page = visit(demo)
    for name in ("Map", "Queue", "Strategies", "Spot", "Timeline", "What if"):
        page.get_by_role("navigation", name="Pages").get_by_role("link", name=re.compile(f"^{name}")).click()
        expect(page.get_by_role("heading", level=1)).to_have_count(1)
        expect(page.get_by_role("main")).to_have_count(1)
        assert page.evaluate("[...document.querySelectorAll('table')].every((t) => t.caption?.textContent)")
        unnamed = (
            "[...document.querySelectorAll('button,a[href]')].filter((e) => !(e.textContent.trim() || e.ariaLabel))"
        )
        assert page.evaluate(f"{unnamed}.length") == 0
    expect(page.get_by_role("search")).to_have_count(1)
    page.reload()
    page.wait_for_selector("html[data-ready=yes]", state="attached")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
