"""An `Experiment` document becomes a value, with the content of every file that it names; or all problems are listed.

Paths in the document are relative to its file. Files are read here and travel by value from then on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import product
from pathlib import Path
from typing import Any

import msgspec

from moorage.core.values import dataclass
from moorage.framework.registry import Registry
from moorage.sim.experiments.changedocuments import ChangeReader
from moorage.sim.experiments.inputdocuments import InputReader
from moorage.sim.experiments.reading import check_name, checked_names
from moorage.sim.experiments.running import MEASURES
from moorage.sim.experiments.searches import SearchPlan, SearchReader
from moorage.sim.experiments.shapes import (
    ChangeShape,
    ConfigurationShape,
    ExperimentShape,
    SearchShape,
    SeedsShape,
)
from moorage.sim.experiments.sources import JOURNAL
from moorage.sim.whatif_changes import did_you_mean
from moorage.wire.configuration import EXPERIMENT_KIND, MOORAGE_API, read_configuration
from moorage.wire.configuration.findings import Findings
from moorage.wire.configuration.shapes import read_shape, without_nulls
from moorage.wire.documents import read_documents
from moorage.wire.place import show_file
from moorage.wire.problems import ABSENT, Problem

MOST_SEEDS = 10_000
MOST_COMBINATIONS = 100_000
_LARGEST_SEED = 2**63 - 1
_NONE = "none"
"""What the change of an experiment without changes is called."""


@dataclass(frozen=True, slots=True, eq=False)
class Combination:
    """One simulation: what its parts are called, and what `run_combination` is asked."""

    input: str
    configuration: str
    change: str
    seed: int
    asked: Mapping[str, Any]

    @property
    def key(self) -> tuple[str, str, str, int]:
        """Its names."""
        return self.input, self.configuration, self.change, self.seed

    def __str__(self) -> str:
        return f"{self.input}, {self.configuration}, {self.change}, seed {self.seed}"


@dataclass(frozen=True, slots=True)
class Experiment:
    """What a file says."""

    name: str
    inputs: Sequence[Mapping[str, Any]]
    """`name`, `kind`, `settings`."""
    data: Mapping[str, Mapping[str, bytes]]
    """Name of an input -> the content of its files."""
    configurations: Mapping[str, str]
    """Name -> text."""
    changes: Mapping[str, Mapping[str, Any]]
    seeds: Sequence[int]
    measures: Sequence[str]
    search: SearchPlan | None = None
    """What `moorage tune` searches."""
    split: tuple[int, int] | None = None
    """(i, n): only every n-th pod of traces and generators, from the i-th on."""

    def combinations(self) -> Iterator[Combination]:
        """All of them: inputs, in each the configurations, the changes and the seeds."""
        for given, (name, text), (change, values), seed in product(
            self.inputs, self.configurations.items(), self.changes.items(), self.seeds
        ):
            asked = {
                "input": given,
                "configuration": text,
                "change": values,
                "seed": seed,
                "measures": list(self.measures),
                **({} if self.split is None else {"split": list(self.split)}),
            }
            yield Combination(given["name"], name, change, seed, asked)

    @property
    def number(self) -> int:
        """Of combinations."""
        return len(self.inputs) * len(self.configurations) * len(self.changes) * len(self.seeds)


@dataclass(frozen=True, slots=True)
class ExperimentReading:
    """What a file says; with problems there is no experiment."""

    experiment: Experiment | None
    problems: tuple[Problem, ...] = ()
    notices: tuple[Problem, ...] = ()


def data_digest(data: Mapping[str, bytes]) -> str:
    """What files hold, whatever else they are."""
    found = sha256()
    for name, content in sorted(data.items()):
        found.update(f"{name}\0{len(content)}\0".encode())
        found.update(content)
    return found.hexdigest()


def combination_digest(asked: Mapping[str, Any], data: str, version: str) -> str:
    """What a combination is made of, names apart: equal digests have equal results. `data` is a `data_digest`."""
    parts = {**asked, "input": {**asked["input"], "name": ""}, "data": data, "version": version}
    return sha256(msgspec.json.encode(parts, order="sorted")).hexdigest()[:32]


def read_experiment(data: bytes, file: str, registry: Registry) -> ExperimentReading:
    """Read a file that holds one `Experiment`."""
    documents, faults = read_documents(data)
    problems = [Problem(fault.source(file), "", ABSENT, fault.message) for fault in faults]
    if not problems and len(documents) != 1:
        said = f"must hold one document, an {EXPERIMENT_KIND} of {MOORAGE_API}; it holds {len(documents)}"
        problems.append(Problem(show_file(file), "", ABSENT, said))
    if problems:
        return ExperimentReading(None, tuple(problems))
    return read_experiment_document(documents[0].value, file, registry)


def read_experiment_document(body: object, file: str, registry: Registry) -> ExperimentReading:
    """Read a document that was taken from a file already."""
    findings = Findings(show_file(file))
    if not isinstance(body, dict):
        findings.problem("", body, f"must be a mapping; write an {EXPERIMENT_KIND} of {MOORAGE_API}")
        return ExperimentReading(None, tuple(findings.problems))
    for name, wanted in (("apiVersion", MOORAGE_API), ("kind", EXPERIMENT_KIND)):
        if body.get(name) != wanted:
            findings.problem(name, body.get(name, ABSENT), f"write {wanted}")
    if findings.problems:
        return ExperimentReading(None, tuple(findings.problems))
    shape = read_shape(ExperimentShape, without_nulls(body), findings)
    return _Reader(file, registry, findings).read(shape)


class _Reader:
    def __init__(self, file: str, registry: Registry, findings: Findings) -> None:
        self._registry = registry
        self._findings = findings
        self._inputs = InputReader(Path(file).parent, findings)
        self._name = Path(file).stem

    def read(self, shape: ExperimentShape) -> ExperimentReading:
        if shape.name:
            check_name("name", shape.name, self._findings)  # it becomes the name of a folder
        seeds = self._seeds(shape.seeds)
        inputs = self._inputs.read(shape.inputs, seeds)
        configurations = self._configurations(shape.configurations)
        changes = self._changes(shape.changes, [given["kind"] for given in inputs])
        found = Experiment(
            shape.name or self._name,
            inputs,
            self._inputs.data,
            configurations,
            changes,
            seeds,
            self._measures(shape.measures),
            self._search(shape.search, configurations),
        )
        if found.number > MOST_COMBINATIONS:
            self._findings.problem("", ABSENT, f"makes {found.number} combinations; {MOST_COMBINATIONS} is the most")
        findings = self._findings
        problems = tuple({str(each): each for each in findings.problems}.values())
        return ExperimentReading(None if problems else found, problems, tuple(findings.notices))

    def _seeds(self, shape: SeedsShape) -> list[int]:
        findings = self._findings
        if shape.values is not None:
            if shape.first is not None or shape.count is not None:
                findings.problem("seeds", ABSENT, "has both values and a range; write values, or first and count")
            for index, seed in enumerate(shape.values):
                if not isinstance(seed, int) or isinstance(seed, bool) or not 0 <= seed <= _LARGEST_SEED:
                    findings.problem(f"seeds.values[{index}]", seed, "must be an integer, 0 or more")
                elif seed in shape.values[:index]:
                    findings.problem(f"seeds.values[{index}]", seed, "stands twice; remove one")
            if not 1 <= len(shape.values) <= MOST_SEEDS:
                findings.problem("seeds.values", len(shape.values), f"write 1 to {MOST_SEEDS} seeds")
            return [seed for seed in shape.values if isinstance(seed, int)]
        first, count = shape.first or 0, 1 if shape.count is None else shape.count
        if not 0 <= first <= _LARGEST_SEED - MOST_SEEDS:
            findings.problem("seeds.first", first, "must be 0 or more")
        if not 1 <= count <= MOST_SEEDS:
            findings.problem("seeds.count", count, f"must be 1 to {MOST_SEEDS}")
            count = 1
        return [*range(first, first + count)]

    def _configurations(self, shapes: Sequence[ConfigurationShape]) -> dict[str, str]:
        found: dict[str, str] = {}
        for path, name, shape in checked_names("configurations", shapes, self._findings):
            text, where = "", f"{self._findings.source}: {path}.document"
            if shape.file is not None and shape.document is not None:
                self._findings.problem(path, name, "has both a file and a document; remove one")
            elif shape.file is not None:
                content = self._inputs.content(shape.file, f"{path}.file")
                text, where = (content or b"").decode(errors="replace"), str(self._inputs.path(shape.file))
                if content is not None and not text.strip():
                    remedy = "is empty; write a KubeSchedulerConfiguration, or leave file out for the default profile"
                    self._findings.problem(f"{path}.file", shape.file, remedy)
            elif shape.document is not None:
                text = msgspec.json.encode(shape.document).decode()
            if text:
                reading = read_configuration(text.encode(), where, self._registry)
                self._findings.problems += reading.problems
                self._findings.notices += reading.notices
            found[name] = text
        if not shapes:
            return {"default": ""}
        return found

    def _changes(self, shapes: Sequence[ChangeShape], kinds: Sequence[str]) -> dict[str, Mapping[str, Any]]:
        found: dict[str, Mapping[str, Any]] = {}
        for path, name, shape in checked_names("changes", shapes, self._findings):
            values = ChangeReader(path, self._inputs, self._findings).read(shape)
            if values and JOURNAL in kinds:
                remedy = "a journal cannot be changed; name a snapshot or a trace as input, or remove the change"
                self._findings.problem(path, name, remedy)
            found[name] = values
        return found or {_NONE: {}}

    def _search(self, shape: SearchShape | None, configurations: Mapping[str, str]) -> SearchPlan | None:
        if shape is None or self._findings.problems:
            return None
        return SearchReader(configurations, self._registry, self._findings).read(shape)

    def _measures(self, names: Sequence[Any] | None) -> list[str]:
        if names is None:
            return [*MEASURES]
        for index, name in enumerate(names):
            if name not in MEASURES:
                remedy = did_you_mean(name, MEASURES) if isinstance(name, str) else f"write {', '.join(MEASURES)}"
                self._findings.problem(f"measures[{index}]", name, f"is not a measure; {remedy}")
        if not names:
            self._findings.problem("measures", ABSENT, f"is empty; leave it out, or write {', '.join(MEASURES)}")
        return [name for name in MEASURES if name in names]
