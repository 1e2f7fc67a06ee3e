"""Names and annotations are written by strangers: whatever they hold is shown as text, and does nothing."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest
from playwright.sync_api import Browser, Page, expect

from moorage.adapters.dashboard.backend import DashboardBackend
from moorage.core.events import NodeSeen, PodSeen
from moorage.core.pods import Condition, Pod
from moorage.testing.builders import make_node, make_pod
from moorage.views.words import Happening, HappeningKind
from moorage.views.world import Told
from tests.dashboard.conftest import PATIENCE_MS, Visit
from tests.dashboard.serving import served_world

pytestmark = pytest.mark.xdist_group("browser")
expect.set_options(timeout=PATIENCE_MS)

HOSTILE = {
    "a script": "<script>window.hacked=1</script>",
    "an image": '<img src=x onerror="window.hacked=1">',
    "quotes": "\"'`><svg/onload=window.hacked=1>",
    "a template": "${window.hacked=1}{{hacked}}",
    "right to left": "a\u202egnp.exe\u202c",
    "a link": "javascript:window.hacked=1",
    "a path": "../../%2e%2e/#/map?x=1&y=2",
    "very long": "x" * 253,
}
SHOWN = {"right to left": "a\u27e8U+202E\u27e9gnp.exe\u27e8U+202C\u27e9"}


def waiting(name: str) -> Pod:
    """A pod that waits and whose every text is this one."""
    pod = make_pod(name, namespace=name, cpu="1", annotations={name: name}, labels={name: name})
    return replace(pod, scheduled_condition=Condition("PodScheduled", "False", "Unschedulable", f"because {name}"))


def told_of(name: str) -> list[Told]:
    node = make_node(name, zone=name, labels={"key": name}, cpu="4", taints=["dedicated=db:NoSchedule"])
    stands = make_pod(f"stands-{name}", namespace="default", node=name, cpu="1", annotations={"note": name})
    happened = Happening(1.0, HappeningKind.STORY, name, name, {"text": name})
    return [NodeSeen(node), PodSeen(stands), PodSeen(waiting(name)), happened]


def assert_untouched(page: Page) -> None:
    assert page.evaluate("window.hacked") is None
    assert page.evaluate("document.querySelectorAll('main script, main img, main svg, main iframe').length") == 0


@pytest.fixture(scope="module")
def hostile() -> Iterator[str]:
    """A cluster in which everything has such a name."""
    with served_world([each for name in HOSTILE.values() for each in told_of(name)]) as url:
        yield url


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_names_show_as_text(hostile: str, visit: Visit, kind: str) -> None:
    """On every page that shows a name; links with it lead where they should."""
    text = SHOWN.get(kind, HOSTILE[kind])
    page = visit(hostile)
    page.get_by_role("button", name="Table").click()
    expect(page.get_by_role("link", name=text, exact=True)).to_have_text(text)
    page.get_by_role("link", name=text, exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text(text)
    expect(page.get_by_role("link", name=f"default/stands-{text}", exact=True)).to_be_visible()
    assert_untouched(page)
    # By keyboard: names as long as these move the page about while it fills, and a click may miss.
    page.get_by_role("link", name=re.compile("^Queue")).press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Queue")
    expect(page.get_by_role("table")).to_contain_text(f"because {text}")
    page.get_by_role("link", name=f"{text}/{text}", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text(f"{text}/{text}")
    expect(page.get_by_role("heading", name="Why not elsewhere")).to_be_visible()
    page.get_by_text("Labels and annotations").click()
    expect(page.get_by_role("table", name="Annotations")).to_contain_text(text)
    assert_untouched(page)
    page.get_by_role("link", name=re.compile("^Timeline")).press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Timeline")
    expect(page.get_by_role("table")).to_contain_text(text)
    assert_untouched(page)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_markup_cannot_be_written_by_scripts(browser: Browser) -> None:
    """The content security policy refuses markup that is made of text, whichever script tries."""
    with served_world(told_of("n1")) as url:
        page = browser.new_page()
        page.goto(url)
        tried = (
            "(() => { try { document.body.innerHTML = '<b>x</b>'; return 'done'; } catch (e) { return e.name; } })()"
        )
        assert page.evaluate(tried) == "TypeError"
        assert page.evaluate("document.querySelectorAll('b').length") == 0
        page.close()


def test_updates_come_without_a_reload(visit: Visit) -> None:
    """5,000 nodes: changes are drawn as they come, from one load of the page."""
    nodes: list[Told] = [
        NodeSeen(make_node(f"n-{i:04}", zone=f"z{i % 3}", cpu="8", labels={"node.kubernetes.io/capacity": "spot"}))
        for i in range(5000)
    ]

    async def later(backend: DashboardBackend) -> None:
        for i in range(1000):
            backend.put(PodSeen(make_pod(f"p-{i}", node=f"n-{i:04}", cpu="4")))
            await asyncio.sleep(0.02)

    with served_world(nodes, later=later) as url:
        page = visit(url)
        page.evaluate("globalThis.mark = 1")
        expect(page.get_by_role("heading", name=re.compile("z0, spot"))).to_contain_text("1,667 nodes")
        # The page's policy forbids what waiting for an expression in the page would need.
        deadline_s = time.monotonic() + PATIENCE_MS / 1000
        while not page.evaluate("moorage.news >= 3 && moorage.summary.pods > 20"):
            assert time.monotonic() < deadline_s
            page.wait_for_timeout(100)
        assert page.evaluate("[globalThis.mark, moorage.loads, moorage.nodes.size]") == [1, 1, 5000]
