"""`moorage shadow` beside a real kube-scheduler on a real API server; `make shadow-drill` has the large figures."""

from __future__ import annotations

from html import escape
from pathlib import Path

from tests.controlplane_fixtures import PlaneFactory
from tests.shadow.drill import Drill, problems
from tests.shadow.running import READER, UPSIDE_DOWN


def test_it_agrees_with_kube_scheduler_and_names_a_broken_profile(
    fresh_control_plane: PlaneFactory, tmp_path: Path
) -> None:
    """Same node or tie where pods come one by one; whatever differs in a burst is explained; no right to write."""
    drill = Drill(fresh_control_plane(users=(READER,)), tmp_path)
    drill.fill(20)
    results = {
        "single": drill.one_by_one("single", 60),
        "broken": drill.one_by_one("broken", 30, "--anonymous", config=UPSIDE_DOWN),
        "burst": drill.burst("burst", 80),
        "own": drill.burst("own", 30, "--mode=own"),
    }
    assert problems(results) == []
    assert results["burst"].report["agreement"] > 0.9
    assert [result.report["decisions"]["total"] for result in results.values()] == [60, 30, 80, 30]
    assert results["single"].report["decisions"]["order"] == 0, "one by one, there is nothing to be explained"
    own = results["own"].report["worlds"]
    assert own["there"]["pods"] == own["here"]["pods"] == 200
    page = (tmp_path / "broken.html").read_text()
    assert escape(results["broken"].report["conclusions"][0]) in page
    for text in (page, (tmp_path / "broken.json").read_text()):
        assert "broken-" not in text.replace("broken-on", ""), "no name of a pod"
        assert 'node-1"' not in text, "no name of a node"
        assert "bench/" not in text, "no name of a namespace"
