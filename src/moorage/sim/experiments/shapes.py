"""The shape of an `Experiment` document: which fields there are, of which types, and nothing about their sense.

Lists of plain values are `list[Any]`, so that each wrong item can be named (see `moorage.wire.configuration.schema`).
"""

from __future__ import annotations

from math import isfinite
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema

from moorage.framework.arguments import Seconds
from moorage.wire.configuration.schema import ConfigurationDocument, Int64, Shape


def _number(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        raise ValueError("must be a number")
    return value


Number = Annotated[Any, BeforeValidator(_number), WithJsonSchema({"type": "number"})]
"""A whole number stays one. Not a union: the place of a mistake would name its members."""


class ColumnsShape(Shape):
    """The columns of two CSV files: what a field is called there. Fields that are left out are not read."""

    nodes: Annotated[dict[str, str], Field(default_factory=dict)]
    pods: Annotated[dict[str, str], Field(default_factory=dict)]


class TraceShape(Shape):
    """Nodes and pods of a recorded cluster, as CSV files."""

    format: str = "openb"
    nodes: str
    pods: str
    arrivals: str = ""
    models: str = ""
    columns: ColumnsShape | None = None
    order: str = ""
    interval: Seconds | None = None
    burst: Int64 = 1
    load: float | None = None
    durations: bool | None = None
    speed: float | None = None
    gpu_requests: str = "koordinator"
    only_gpu_nodes: bool = False


class NodeGroupShape(Shape):
    """Equal nodes."""

    name: str
    count: Int64 | None = None
    capacity: Annotated[dict[str, Any], Field(default_factory=dict)]
    labels: Annotated[dict[str, str], Field(default_factory=dict)]


class PodGroupShape(Shape):
    """Pods that look alike, and how they come."""

    name: str
    weight: float | None = None
    template: Annotated[dict[str, Any], Field(default_factory=dict)]
    duration: Seconds | None = None


class GeneratorShape(Shape):
    """Arrivals that are made up, at random times: the same seed makes the same pods."""

    nodes: Annotated[list[NodeGroupShape], Field(default_factory=list)]
    pods: Annotated[list[PodGroupShape], Field(default_factory=list)]
    interval: Seconds | None = None
    burst: Int64 = 1
    count: Int64 | None = None


class InputShape(Shape):
    """A cluster, and what happens to it: exactly one of the five."""

    name: str
    snapshot: str | None = None
    manifests: list[Any] | None = None
    journal: str | None = None
    trace: TraceShape | None = None
    generator: GeneratorShape | None = None
    objects: Annotated[list[Any], Field(default_factory=list)]
    horizon: Seconds | None = None


class ConfigurationShape(Shape):
    """A KubeSchedulerConfiguration: in a file, or written here; neither: the default profile."""

    name: str
    file: str | None = None
    document: dict[str, Any] | None = None


class AddNodesShape(Shape):
    """New nodes."""

    like: str
    number: Int64 | None = None


class ChangeShape(Shape):
    """What is changed in the cluster, as `moorage simulate` does it."""

    name: str
    after: Seconds | None = None
    drain: Annotated[list[Any], Field(default_factory=list)]
    scale: Annotated[list[Any], Field(default_factory=list)]
    add_nodes: Annotated[list[AddNodesShape], Field(default_factory=list)]
    set_queue: Annotated[list[Any], Field(default_factory=list)]
    afresh: bool = False
    prices: str | None = None


class SeedsShape(Shape):
    """The seeds, one by one, or so many from the first on."""

    values: list[Any] | None = None
    first: Int64 | None = None
    count: Int64 | None = None


class ObjectiveShape(Shape):
    """A figure of the results, and which way it should go."""

    measure: str
    of: str = ""
    goal: str = ""


class ParameterShape(Shape):
    """A weight, or an argument, of a plugin: a range of numbers, or values."""

    plugin: str
    argument: str = ""
    min: Number | None = None
    max: Number | None = None
    step: Number | None = None
    values: list[Any] | None = None


class SearchShape(Shape):
    """What `moorage tune` searches."""

    configuration: str = ""
    profile: str = ""
    objectives: Annotated[list[ObjectiveShape], Field(default_factory=list)]
    parameters: Annotated[list[ParameterShape], Field(default_factory=list)]
    trials: Int64 | None = None
    batch: Int64 | None = None
    seed: Int64 | None = None
    seeds: Int64 | None = None


class ExperimentShape(ConfigurationDocument):
    """An `Experiment` of `moorage.dev/v1alpha1`."""

    name: str = ""
    inputs: Annotated[list[InputShape], Field(default_factory=list)]
    configurations: Annotated[list[ConfigurationShape], Field(default_factory=list)]
    changes: Annotated[list[ChangeShape], Field(default_factory=list)]
    seeds: SeedsShape = SeedsShape()
    measures: list[Any] | None = None
    search: SearchShape | None = None
