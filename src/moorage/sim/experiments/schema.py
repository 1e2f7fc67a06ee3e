"""The schema of an `Experiment` for editors and other tools, made from the shapes that read it."""

from __future__ import annotations

from typing import Any

from moorage.sim.experiments.running import MEASURES
from moorage.sim.experiments.shapes import ExperimentShape
from moorage.wire.configuration import EXPERIMENT_KIND, MOORAGE_API

_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def experiment_schema() -> dict[str, Any]:
    """A JSON schema. It says which fields there are and of which types; `moorage validate` knows more."""
    made = ExperimentShape.model_json_schema(by_alias=True)
    fields = made["properties"]
    fields["apiVersion"] = {"const": MOORAGE_API}
    fields["kind"] = {"const": EXPERIMENT_KIND}
    fields["measures"] = {"type": "array", "items": {"enum": list(MEASURES)}, "minItems": 1}
    fields["inputs"]["minItems"] = 1
    made["required"] = [*made["required"], "inputs"]
    return {"$schema": _DIALECT, **made, "title": EXPERIMENT_KIND}
