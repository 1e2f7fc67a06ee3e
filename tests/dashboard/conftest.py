"""What the tests of the dashboard share: a browser, and pages that must not complain."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page

from tests.dashboard.browsers import running_browser

PATIENCE_MS = 90_000

_EXPECTED = re.compile(r"\(Conflict\)|net::ERR_")
"""Refusals that pages show in words, and servers that end before their visitors."""

Visit = Callable[..., Page]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One Chromium for all tests of a module; while it is there, its driver has this thread's event loop."""
    with running_browser() as found:
        yield found


@pytest.fixture
def visit(browser: Browser) -> Iterator[Visit]:
    """Open the address of a dashboard; whatever the page complains about fails the test."""
    complaints: list[str] = []
    contexts = []

    def note(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and not _EXPECTED.search(message.text):
            complaints.append(message.text)

    def go(url: str, **options: object) -> Page:
        context = browser.new_context(viewport={"width": 1360, "height": 900}, **options)  # type: ignore[arg-type]
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.on("console", note)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(url)
        page.wait_for_selector("html[data-ready=yes]", state="attached")
        return page

    yield go
    for context in contexts:
        context.close()
    assert complaints == []
