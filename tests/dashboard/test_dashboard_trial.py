"""The page of a configuration on trial, in a real Chromium."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from moorage.core.events import NodeSeen, TrialRecalled
from moorage.core.trials import SideCounts, TrialEnd, TrialPhase, TrialRecord, TrialVerdict
from moorage.testing.builders import make_node
from tests.dashboard.conftest import PATIENCE_MS, Visit
from tests.dashboard.serving import served_world

pytestmark = pytest.mark.xdist_group("browser")
expect.set_options(timeout=PATIENCE_MS)
HOSTILE = "<img src=x onerror=alert(1)>"
RECORD = TrialRecord(
    HOSTILE,
    "d",
    TrialPhase.ENDED,
    5400.0,
    TrialEnd.WORSE,
    TrialVerdict.WORSE,
    "pending is 12 where 3 is expected from the control",
    SideCounts(120, 4, 1, ((60, 120),)),
    SideCounts(30, 9, 0, ((80, 30),), 12),
)


def test_both_sides_and_the_verdict_are_shown(visit: Visit) -> None:
    """With its numbers and the reason for its end; its name is text, whatever it says."""
    with served_world([NodeSeen(make_node("n1")), TrialRecalled(RECORD)]) as url:
        page = visit(url)
        page.get_by_role("navigation", name="Pages").get_by_role("link", name="Trial").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Configuration on trial")
        table = page.get_by_role("table")
        expect(table).to_contain_text("Pending pods")
        rows = [" ".join(each.inner_text().split()) for each in table.get_by_role("row").all()]
        assert [row for row in rows if row.startswith(("Pending pods", "Evictions"))] == [
            "Pending pods 12 0",
            "Evictions 9 4",
        ]
        main = page.locator("main")
        expect(main).to_contain_text("It was worse than its limits allow, and went.")
        expect(main).to_contain_text("pending is 12 where 3 is expected from the control")
        expect(main).to_contain_text(HOSTILE)
        assert page.locator("main img").count() == 0


def test_without_a_trial_the_page_says_how_to_start_one(visit: Visit) -> None:
    """No empty tables."""
    with served_world([NodeSeen(make_node("n1"))]) as url:
        page = visit(url)
        page.get_by_role("navigation", name="Pages").get_by_role("link", name="Trial").click()
        expect(page.locator("main")).to_contain_text("There is no trial")
        assert not page.get_by_role("table").is_visible()
