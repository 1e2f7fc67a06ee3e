"""Pictures of every page for docs/screenshots, taken of the demo: `make screenshots`."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from playwright.sync_api import Browser, Page

from tests.dashboard.browsers import running_browser
from tests.dashboard.hours import served_hours
from tests.dashboard.serving import served_demo

CAPACITY = "node.kubernetes.io/capacity"
SIZE = {"width": 1280, "height": 800}


def opened(browser: Browser, url: str, scheme: str) -> Page:
    page = browser.new_page(viewport=SIZE, color_scheme=scheme)  # type: ignore[arg-type]
    page.goto(url)
    page.wait_for_selector("html[data-ready=yes]", state="attached")
    return page


def turn_to(page: Page, place: str, heading: str) -> None:
    page.evaluate(f"location.hash = '#/{place}'")
    page.get_by_role("heading", level=1, name=heading).wait_for()


def waiting_pod(page: Page) -> None:
    turn_to(page, "queue", "Queue")
    page.get_by_role("link", name="default/batch-1-").first.click()
    page.locator("ol.ranked li").first.wait_for()


def edited_strategy(page: Page) -> None:
    turn_to(page, "strategies", "Strategies and spread")
    page.get_by_role("button", name="Edit the strategy").first.click()
    text = f"base=1,weight=1,nodeSelector={CAPACITY}:on-demand;weight=0,nodeSelector={CAPACITY}:spot"
    page.get_by_label("Strategy: rules with ; between them").fill(text)
    page.get_by_role("table", name=re.compile("would move")).wait_for()


def answered_what_if(page: Page) -> None:
    turn_to(page, "whatif", "What if")
    form = page.get_by_role("form", name="Drain a node")
    form.get_by_label("Node").fill("node-a1")
    form.get_by_role("button", name="Add").click()
    page.get_by_role("button", name="Try it out").click()
    page.get_by_role("heading", name="Utilisation").wait_for()


def drawn_charts(page: Page) -> None:
    page.set_viewport_size({"width": 1280, "height": 1240})
    turn_to(page, "charts", "Charts")
    page.get_by_role("button", name="6 h").click()
    page.wait_for_function("() => document.querySelectorAll('.chart canvas').length >= 8")
    page.evaluate("() => new Promise((done) => setTimeout(done, 300))")


def take(folder: Path) -> None:
    """One picture of each page."""
    folder.mkdir(parents=True, exist_ok=True)

    def save(page: Page, name: str) -> None:
        page.mouse.move(0, 0)
        page.screenshot(path=folder / f"{name}.png")

    with running_browser() as browser:
        with served_demo(from_s=42.0, speed=0.0) as url:
            page = opened(browser, url, "light")
            save(page, "map")
            waiting_pod(page)
            save(page, "pod")
            turn_to(page, "queue", "Queue")
            page.get_by_role("link", name="default/batch-1-").first.wait_for()
            save(page, "queue")
            turn_to(page, "timeline", "Timeline")
            page.get_by_role("table").wait_for()
            save(page, "timeline")
            answered_what_if(page)
            save(page, "what-if")
        with served_demo("spot", from_s=10.5, speed=0.0) as url:
            page = opened(browser, url, "light")
            turn_to(page, "spot", "Spot capacity")
            page.get_by_role("table").first.wait_for()
            save(page, "spot")
        with served_demo("busy", from_s=20.0, speed=0.0) as url:
            save(opened(browser, url, "dark"), "map-dark")
        with served_hours() as url:
            for scheme, name in (("light", "charts"), ("dark", "charts-dark")):
                page = opened(browser, url, scheme)
                drawn_charts(page)
                save(page, name)
        with served_demo(from_s=5.0, speed=0.0) as url:
            page = opened(browser, url, "dark")
            edited_strategy(page)
            save(page, "strategies-dark")


if __name__ == "__main__":
    take(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/screenshots"))
