"""Every page of the dashboard on a journal, in a real Chromium."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from playwright.sync_api import expect

from moorage.app.dashboard_journal import JournalShow
from moorage.app.plugins import find_plugins
from moorage.core.events import NodeSeen, PodSeen
from moorage.testing.builders import make_node, make_pod
from tests.adapters.journal.recording import RecordedEngine
from tests.dashboard.conftest import PATIENCE_MS, Visit
from tests.dashboard.hours import record_hours
from tests.dashboard.recorded import record
from tests.dashboard.serving import reading_of, served_journal

pytestmark = pytest.mark.xdist_group("browser")
expect.set_options(timeout=PATIENCE_MS)


def test_every_page_on_a_journal(tmp_path: Path, visit: Visit) -> None:
    """The end of the journal first; any other moment by the slider."""
    times_s = record(tmp_path)
    with served_journal(tmp_path) as url:
        page = visit(url)
        expect(page.get_by_role("heading", name=re.compile("z1, spot"))).to_be_visible()
        expect(page.get_by_text("Pods on nodes").locator("..")).to_contain_text("3")

        page.get_by_role("link", name=re.compile("^Queue")).click()
        expect(page.get_by_role("table")).to_contain_text("Insufficient cpu")
        page.get_by_role("link", name="default/web-3").click()
        expect(page.get_by_role("table", name=re.compile("rejected, by reason"))).to_contain_text("NodeResourcesFit")

        page.get_by_role("link", name=re.compile("^Timeline")).click()
        expect(page.get_by_role("table")).to_contain_text("default/web-0")
        expect(page.get_by_role("table")).to_contain_text("started")
        page.get_by_role("link", name=re.compile("^Strategies")).click()
        expect(page.get_by_role("heading", name="ReplicaSet default/web")).to_be_visible()
        page.get_by_role("link", name=re.compile("^Spot")).click()
        expect(page.get_by_text("No node has given notice.")).to_be_visible()
        page.get_by_role("link", name=re.compile("^What if")).click()
        expect(page.get_by_text("What-ifs need whole objects")).to_be_visible()

        page.get_by_role("link", name=re.compile("^Map")).click()
        slider = page.get_by_role("slider", name="Moment of the journal that is shown")
        slider.evaluate(f"(e) => {{ e.value = {times_s[1] + 0.1}; e.dispatchEvent(new Event('change')); }}")
        expect(page.get_by_text("Pods on nodes").locator("..")).to_contain_text("1")
        page.get_by_role("link", name=re.compile("^Timeline")).click()
        expect(page.get_by_role("table")).to_contain_text("default/web-1")
        expect(page.get_by_role("table")).not_to_contain_text("default/web-2")


def test_a_journal_that_grows(tmp_path: Path) -> None:
    """The end is the end by then; moments before it stay what they were."""
    engine = RecordedEngine(tmp_path)
    began_s = time.time()
    engine.handle([NodeSeen(make_node("n1", cpu="4"))], began_s)
    engine.journal.flush()
    show = JournalShow(tmp_path, reading_of().profiles, find_plugins().registry)
    last_s = show.span[1]
    engine.handle([PodSeen(make_pod("late", cpu="1"))], time.time())
    engine.journal.close()
    end_s = show.moment(last_s)
    assert end_s == show.span[1] > last_s
    assert show.at(end_s).pod("default/late") is not None
    assert show.moment(last_s) == last_s
    assert show.at(last_s).pod("default/late") is None
    assert show.moment(began_s - 60.0) == show.span[0]


def test_charts_of_a_journal_lead_to_its_moments(tmp_path: Path, visit: Visit, monkeypatch: pytest.MonkeyPatch) -> None:
    """A click on a chart shows that moment on all pages; a range that is zoomed into is the slider's."""
    record_hours(tmp_path, monkeypatch, 0.5)
    nothing = re.compile(r"\b0 of")
    with served_journal(tmp_path) as url:
        page = visit(url)
        page.get_by_role("link", name=re.compile("^Charts")).click()
        chart = page.get_by_role("application", name=re.compile("^CPU in cores"))
        expect(page.get_by_role("button", name="All", exact=True)).to_have_attribute("aria-pressed", "true")
        before = page.get_by_role("slider").evaluate("(e) => e.value")
        chart.focus()
        page.keyboard.press("Home")
        page.keyboard.press("Enter")
        expect(page.get_by_text("CPU requested", exact=True).locator("..")).to_contain_text(nothing)
        assert float(page.get_by_role("slider").evaluate("(e) => e.value")) < float(before) - 1000
        box = page.locator(".u-over").first.bounding_box()
        assert box is not None
        page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 40)
        page.mouse.down()
        page.mouse.move(box["x"] + box["width"] * 0.8, box["y"] + 40, steps=5)
        page.mouse.up()
        expect(page.get_by_role("button", name="Show the whole range")).to_be_visible()
        expect(page.get_by_text("CPU requested", exact=True).locator("..")).not_to_contain_text(nothing)
        page.get_by_role("link", name=re.compile("^Queue")).click()
        slider = page.get_by_role("slider", name="Moment of the journal that is shown")
        assert slider.evaluate("(e) => e.max - e.min") < 700
        page.get_by_role("link", name=re.compile("^Timeline")).click()
        expect(page.get_by_role("table")).to_contain_text("default/job-")
        page.get_by_role("button", name="Show the whole range").click()
        expect(page.get_by_role("button", name="Show the whole range")).to_be_hidden()
