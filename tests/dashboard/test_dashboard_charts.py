"""The page of charts, in a real Chromium."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import pytest
from playwright.sync_api import Locator, Page, expect

from moorage.core.events import NodeSeen, PodSeen
from moorage.core.pods import Condition
from moorage.testing.builders import make_node, make_pod
from tests.dashboard.conftest import PATIENCE_MS, Visit
from tests.dashboard.hours import served_hours
from tests.dashboard.serving import served_demo, served_world

pytestmark = pytest.mark.xdist_group("browser")
expect.set_options(timeout=PATIENCE_MS)
TITLES = (
    "CPU",
    "Memory",
    "nvidia.com/gpu",
    "Pending pods by reason",
    "Binds and evictions",
    "Time from creation to bind",
    "Spot share of allocated CPU",
    "Cost of the nodes in use",
    "Leaders",
)


@pytest.fixture(scope="module")
def hours() -> Iterator[str]:
    """A cluster that was looked at for an hour and a half."""
    with served_hours(hours=1.5) as url:
        yield url


def panel(page: Page, title: str) -> Locator:
    start = re.escape(title).replace("/", r"\/")
    return page.locator(".chart-panel", has=page.get_by_role("heading", name=re.compile(f"^{start}")))


def wait_until_drawn(page: Page, title: str) -> None:
    """Until a chart has ink for its axes and lines."""
    pixels = "c.getContext('2d').getImageData(0, 0, c.width, c.height).data.filter((v, i) => i % 4 === 3 && v)"
    page.wait_for_function(f"(c) => {pixels}.length > 1000", arg=panel(page, title).locator("canvas").element_handle())


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_chart_is_drawn(hours: str, visit: Visit, scheme: str) -> None:
    """Each has its unit, the latest values, and a text for people who do not see it."""
    page = visit(f"{hours}#/charts", color_scheme=scheme)
    for title in TITLES:
        expect(panel(page, title).locator("canvas")).to_be_visible()
        wait_until_drawn(page, title)
    expect(panel(page, "CPU").locator("small").first).to_have_text("cores")
    expect(panel(page, "CPU").get_by_role("button", name="Allocatable 640")).to_be_visible()
    expect(panel(page, "Leaders").get_by_role("button", name=re.compile("moorage-a"))).to_be_visible()
    expect(
        page.get_by_role("application", name=re.compile("^CPU in cores: Allocated to pods on nodes [0-9]+"))
    ).to_be_visible()


def test_ranges_zoom_and_keyboard(hours: str, visit: Visit) -> None:
    """Dragging and the keyboard zoom all charts alike; Escape and the button lead back."""
    page = visit(f"{hours}#/charts")
    chart = page.get_by_role("application", name=re.compile("^CPU in cores"))
    page.get_by_role("button", name="15 min").click()
    expect(page.get_by_role("button", name="15 min")).to_have_attribute("aria-pressed", "true")
    chart.focus()
    page.keyboard.press("ArrowLeft")
    expect(panel(page, "CPU").locator("output")).to_contain_text("2026")
    expect(panel(page, "Memory").locator("output")).to_contain_text("2026")
    expect(page.locator("#announce")).to_contain_text("Allocated to pods on nodes")
    page.keyboard.press("+")
    expect(page.get_by_role("button", name="Show the whole range")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="Show the whole range")).to_be_hidden()

    page.get_by_role("button", name="1 h", exact=True).click()
    box = panel(page, "Memory").locator(".u-over").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * 0.3, box["y"] + 40)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + 40, steps=5)
    page.mouse.up()
    expect(page.get_by_role("button", name="Show the whole range")).to_be_visible()
    page.get_by_role("button", name="Show the whole range").click()
    expect(page.get_by_role("button", name="1 h", exact=True)).to_have_attribute("aria-pressed", "true")


def test_values_as_a_table_and_lines_that_are_hidden(hours: str, visit: Visit) -> None:
    """The table says what the chart shows; a line can be hidden."""
    page = visit(f"{hours}#/charts")
    cost = panel(page, "Cost of the nodes in use")
    cost.get_by_text("Values as a table").click()
    table = cost.get_by_role("table", name=re.compile("USD per hour: [0-9]+ of [0-9]+ points"))
    expect(table.get_by_role("columnheader")).to_have_text(["Time", "Cost", "The same on demand"])
    expect(table.get_by_role("row").nth(1)).to_contain_text(re.compile(r"[0-9]+\.?[0-9]*"))
    line = cost.get_by_role("button", name=re.compile("^The same on demand"))
    line.click()
    expect(line).to_have_attribute("aria-pressed", "false")


def test_charts_follow_the_demo(visit: Visit) -> None:
    """What happens is added; nothing is loaded again as a whole."""
    with served_demo(from_s=20.0, speed=8.0) as url:
        page = visit(url)
        page.get_by_role("navigation", name="Pages").get_by_role("link", name="Charts").click()
        expect(panel(page, "Binds and evictions").locator("canvas")).to_be_visible()
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url) if "/api/series" in request.url else None)
        page.wait_for_function(
            "() => performance.getEntriesByType('resource').filter((e) => e.name.includes('/api/series')).length > 3"
        )
        assert asked
        assert all("step=" in url for url in asked)


def test_hostile_reasons_show_as_text(visit: Visit) -> None:
    """Reasons have names in them that tenants write."""
    script = "Insufficient <img src=x onerror=window.hacked=1>\u202e"
    condition = Condition("PodScheduled", "False", "Unschedulable", f"0/1 nodes are available: 1 {script}.")
    pod = replace(make_pod("a"), scheduled_condition=condition)
    with served_world([NodeSeen(make_node("n1")), PodSeen(pod)]) as url:
        page = visit(f"{url}#/charts")
        expect(panel(page, "Pending pods by reason")).to_contain_text(
            "Insufficient <img src=x onerror=window.hacked=1>⟨U+202E⟩"
        )
        assert page.evaluate("window.hacked") is None
        expect(panel(page, "Cost of the nodes in use")).to_contain_text("No prices are known")
        expect(panel(page, "Leaders")).to_contain_text("No leader was seen")


def test_a_narrow_window_has_one_chart_beside_the_other_none(hours: str, visit: Visit) -> None:
    """Charts are as wide as their panel, and the page does not scroll sideways."""
    page = visit(f"{hours}#/charts")
    page.set_viewport_size({"width": 400, "height": 800})
    expect(panel(page, "CPU").locator("canvas")).to_be_visible()
    page.wait_for_function("() => document.querySelector('.chart .uplot').getBoundingClientRect().width < 380")
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
