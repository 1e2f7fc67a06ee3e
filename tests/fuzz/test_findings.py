"""What the laboratory found, each once more by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from moorage.adapters.kube.credentials import from_kubeconfig
from moorage.adapters.kube.errors import CredentialsError
from moorage.core.events import NodeSeen, PodSeen
from moorage.framework import plugin as framework
from moorage.framework.plugin import METHODS, Plugin
from moorage.framework.profiles import build_profiles
from moorage.sim.replay import rerun
from moorage.testing.builders import make_node, make_pod
from tests.adapters.journal.recording import REGISTRY, SPREADING, RecordedEngine, configuration_of
from tests.fuzz.servers import ask_dashboard, ask_metrics


@pytest.mark.parametrize(
    "body", [b'{"text": "\xff"}', b"[" * 200_000, b'{"text": "\xed\xa0\x80"}'], ids=["byte", "deep", "half a pair"]
)
def test_a_body_that_is_no_json_is_refused(body: bytes) -> None:
    """Bytes that are no UTF-8, or nested without end: 400, not a fault of the dashboard."""
    for chance in (0.55, 0.65, 0.85):
        ask_dashboard((chance, body, ""))


@pytest.mark.parametrize("version", ["0.0.4-x", "a", "1.é", ""])
def test_metrics_are_shown_whatever_format_is_asked_for(version: str) -> None:
    """An Accept header with a version that is none gets the plain format."""
    for kind in ("text/plain", "application/openmetrics-text"):
        ask_metrics((0.0, f"{kind};version={version}", ""))


def test_the_points_of_a_plugin_are_looked_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A configuration of 40 profiles had looked 144,000 times."""

    class Counted(dict[Any, str]):
        looks = 0

        def items(self) -> object:  # type: ignore[override]
            Counted.looks += 1
            return super().items()

    class Some(Plugin):
        name = "Some"

    monkeypatch.setattr(framework, "METHODS", Counted(METHODS))
    for _ in range(10):
        Some.points()
    assert Counted.looks == 1


def test_a_kubeconfig_is_not_read_to_its_depths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is nested like no kubeconfig is refused before a parser is asked for all of it."""
    path = tmp_path / "config"
    path.write_text('{"kind": ' + "[" * 16_000)
    monkeypatch.setattr("moorage.adapters.kube.kubeconfig.yaml.load", None)
    with pytest.raises(CredentialsError, match="nested too deeply"):
        from_kubeconfig([path])


def test_a_journal_that_jumps_in_time_is_not_retried_through(tmp_path: Path) -> None:
    """Pods that wait are tried again by themselves; centuries between two records are left out, with a line."""
    engine = RecordedEngine(tmp_path)
    engine.handle([NodeSeen(make_node("n", cpu="1")), PodSeen(make_pod("large", cpu="100"))], 10.0, 32)
    engine.handle([], 9e9, 32)
    engine.journal.close()
    configuration = configuration_of(SPREADING)
    result = rerun(tmp_path, REGISTRY, configuration, build_profiles(configuration, REGISTRY))
    assert any("retries in between are left out" in warning for warning in result.warnings)
