"""How long the dashboard takes on a large cluster: `python -m tests.dashboard.measure [NODES] [PODS]`.

Prints the time from opening the address to the drawn charts of six hours and to the drawn map, how long the page takes
for an update, and how long a pod's explanation takes. Nothing is asserted: the machine decides.
"""

from __future__ import annotations

import asyncio
import sys
import time

from playwright.sync_api import Page

from moorage.adapters.dashboard.backend import DashboardBackend
from moorage.core.events import NodeSeen, PodSeen
from moorage.testing.builders import make_node, make_pod
from moorage.views.world import Told
from tests.dashboard.browsers import running_browser
from tests.dashboard.hours import served_hours
from tests.dashboard.serving import served_world

STOPWATCH = """() => {
  globalThis.spent = [];
  const apply = moorage.apply.bind(moorage);
  moorage.apply = (event) => {
    const from = performance.now();
    apply(event);
    requestAnimationFrame(() => spent.push(performance.now() - from));
  };
}"""
WHEN_DRAWN = """() => {
  globalThis.drawn = [];
  new MutationObserver((changes) => {
    const added = changes.flatMap((each) => [...each.addedNodes]);
    for (const node of added) if (node.querySelector?.("canvas")) drawn.push(performance.now());
  }).observe(document, { childList: true, subtree: true });
}"""
CAPACITY = "node.kubernetes.io/capacity"


def large(nodes: int, pods: int) -> list[Told]:
    """A cluster of this size, most of it in use, and some pods that wait."""
    told: list[Told] = [
        NodeSeen(
            make_node(
                f"ip-10-{i // 250}-{i % 250}.zone-{'abc'[i % 3]}.example.internal",
                zone=f"zone-{'abc'[i % 3]}",
                cpu="16",
                memory="64Gi",
                labels={CAPACITY: "spot" if i % 5 < 2 else "on-demand"},
            )
        )
        for i in range(nodes)
    ]
    names = [each.node.name for each in told if isinstance(each, NodeSeen)]
    for i in range(pods):
        place = names[(i * 7919 + i // 97) % nodes]
        name = f"app-{i % 400}-7d9f8c6b5-{i:05}"
        told.append(PodSeen(make_pod(name, node=place, cpu=f"{250 * (1 + i % 6)}m", memory="1Gi")))
    told += [PodSeen(make_pod(f"waiting-{i}", cpu="64", memory="1Gi")) for i in range(100)]
    return told


async def busy(backend: DashboardBackend) -> None:
    """A hundred pods a second come and stay."""
    number = 0
    while True:
        for _ in range(10):
            number += 1
            place = f"ip-10-{number % 10}-{number % 250}.zone-a.example.internal"
            backend.put(PodSeen(make_pod(f"late-{number}", node=place, cpu="10m")))
        await asyncio.sleep(0.1)


def first_view_s(page: Page, url: str) -> float:
    """From opening the address until the map is drawn."""
    began_s = time.perf_counter()
    page.goto(url)
    page.wait_for_selector("canvas")
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    return time.perf_counter() - began_s


def charts() -> None:
    """The charts of six hours: from opening the address until the first and the last one are drawn."""
    with served_hours() as url, running_browser() as browser:
        for scheme, width in (("light", 1360), ("dark", 1360), ("light", 420), ("dark", 2200)):
            page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)  # type: ignore[arg-type]
            page.add_init_script(f"history.replaceState(null, '', '#/charts'); ({WHEN_DRAWN})()")
            page.goto(url)
            page.wait_for_function("() => globalThis.drawn?.length >= 9")
            page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
            first, last = page.evaluate("[drawn[0], performance.now()]")
            print(f"charts, {scheme}, {width} wide: {first / 1000:.2f} s, all {last / 1000:.2f} s")  # noqa: T201
            page.close()


def main(nodes: int, pods: int) -> None:
    """Measure and print."""
    charts()
    began_s = time.perf_counter()
    told = large(nodes, pods)
    print(f"{nodes} nodes and {pods} pods made in {time.perf_counter() - began_s:.1f} s")  # noqa: T201
    began_s = time.perf_counter()
    with served_world(told, later=busy) as url, running_browser() as browser:
        print(f"taken over in {time.perf_counter() - began_s:.1f} s")  # noqa: T201
        page = browser.new_page(viewport={"width": 1360, "height": 900})
        times_s = [first_view_s(page, url) for _ in range(5)]
        print("first view: " + ", ".join(f"{each:.2f} s" for each in times_s))  # noqa: T201
        page.evaluate(STOPWATCH)
        page.wait_for_timeout(5000)
        spent = page.evaluate("spent")
        loads = page.evaluate("moorage.loads")
        middle = sorted(spent)[len(spent) // 2] if spent else float("nan")
        print(f"{len(spent)} updates in 5 s, {middle:.1f} ms each until drawn (median), {loads} load of the page")  # noqa: T201
        began_s = time.perf_counter()
        page.evaluate("location.hash = '#/pod/default%2Fwaiting-1'")
        page.get_by_role("heading", name="Why not elsewhere").wait_for()
        print(f"a pod's page: {time.perf_counter() - began_s:.2f} s")  # noqa: T201


if __name__ == "__main__":
    numbers = [int(text) for text in sys.argv[1:]]
    main(*(numbers or [5000, 50_000]))
