"""The schema for editors."""

from __future__ import annotations

import json
from pathlib import Path

from moorage.cli.main import run
from moorage.sim.experiments.schema import experiment_schema

ROOT = Path(__file__).resolve().parents[2]


def test_the_file_is_what_the_command_prints() -> None:
    """`moorage experiment schema > deploy/schemas/experiment.json` after a change of the shapes."""
    assert json.loads((ROOT / "deploy/schemas/experiment.json").read_text()) == experiment_schema()
    assert run(["experiment", "schema"]) == 0


def test_fields_are_called_as_in_files() -> None:
    """Camel case, nothing unknown, and durations are texts."""
    made = experiment_schema()
    assert made["additionalProperties"] is False
    assert set(made["required"]) == {"apiVersion", "kind", "inputs"}
    assert {"snapshot", "manifests", "journal", "trace", "generator"} <= set(made["$defs"]["InputShape"]["properties"])
    assert "onlyGpuNodes" in made["$defs"]["TraceShape"]["properties"]
    assert made["$defs"]["TraceShape"]["properties"]["interval"]["anyOf"][0]["type"] == "string"
