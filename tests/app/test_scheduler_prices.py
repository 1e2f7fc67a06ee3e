"""`moorage scheduler` with prices from a file: they decide, and a changed file changes the next decision."""

from __future__ import annotations

import json
from pathlib import Path

from moorage.bench.controlplane import ControlPlane
from tests.app.scheduling import make_node, make_pod, pods_of, scheduler
from tests.patience import eventually


def write_prices(file: Path, small: str, large: str) -> None:
    """Put a list in place of the last one, as a careful writer does."""
    prices = [{"labels": {"size": size}, "pricePerHour": price} for size, price in (("s", small), ("l", large))]
    body = {"apiVersion": "moorage.dev/v1alpha1", "kind": "PriceList", "currency": "USD", "prices": prices}
    beside = file.with_suffix(".new")
    beside.write_text(json.dumps(body))
    beside.replace(file)


def test_a_changed_file_changes_the_next_decision(empty_control_plane: ControlPlane, tmp_path: Path) -> None:
    """Without a restart; the log says that prices were read, changed and could not be read."""
    plane, file, log = empty_control_plane, tmp_path / "prices.json", tmp_path / "log"
    source = {"file": str(file), "pollSeconds": 1}
    profile = {
        "schedulerName": "moorage",
        "plugins": {"multiPoint": {"enabled": [{"name": "CostAware", "weight": 100}]}},
        "pluginConfig": [{"name": "CostAware", "args": {"source": source}}],
    }
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "profiles": [profile],
    }
    config = tmp_path / "config.yaml"
    config.write_text(json.dumps(document))
    for name in ("s", "l"):
        make_node(plane, name, size=name)

    def said(words: str) -> None:
        eventually(lambda: words in log.read_text(), 30, words)

    def place_of(pod: str) -> str:
        make_pod(plane, pod)
        places: dict[str, str] = {}

        def bound() -> bool:
            places.update({each["metadata"]["name"]: each["spec"].get("nodeName", "") for each in pods_of(plane)})
            return bool(places.get(pod))

        eventually(bound, 30, f"{pod} bound")
        return places[pod]

    write_prices(file, "0.1", "0.9")
    with scheduler(plane, log, "--config", str(config)):
        said("prices read")
        assert place_of("first") == "s"
        write_prices(file, "0.9", "0.1")
        said("prices changed")
        assert place_of("second") == "l"
        file.write_text("prices: cheap")
        said("prices cannot be read")
        assert place_of("third") == "l"
