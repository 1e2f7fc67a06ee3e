"""A change of an experiment as plain values, as `running.changes_of` reads them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from moorage.core.prices import PRICE_LIST
from moorage.sim.experiments.inputdocuments import InputReader
from moorage.sim.experiments.running import changes_of
from moorage.sim.experiments.shapes import AddNodesShape, ChangeShape
from moorage.sim.whatif_changes import ChangeError, check_changes
from moorage.wire.configuration.findings import Findings
from moorage.wire.manifests import parse_manifests
from moorage.wire.problems import ABSENT


class ChangeReader:
    """Reads the change that stands at a path."""

    def __init__(self, path: str, inputs: InputReader, findings: Findings) -> None:
        self._path, self._inputs, self._findings = path, inputs, findings

    def read(self, shape: ChangeShape) -> dict[str, Any]:
        """Only what is changed; everything that cannot be understood is reported."""
        values: dict[str, Any] = {
            "drain": self._texts("drain", shape.drain),
            "scale": self._texts("scale", shape.scale),
            "add_nodes": self._added(shape.add_nodes),
            "set_queue": self._texts("setQueue", shape.set_queue),
            "afresh": shape.afresh,
            "prices": "" if shape.prices is None else self._prices(shape.prices),
            "after_s": self._after_s(shape.after),
        }
        values = {name: value for name, value in values.items() if value}
        self._check(values)
        return values

    def _check(self, values: dict[str, Any]) -> None:
        """Report what cannot be understood, and what is not there."""
        try:
            changes = changes_of(values)
        except ChangeError as error:
            for problem in error.problems:
                self._findings.problem(self._path, ABSENT, problem)
            return
        for name, places in self._inputs.places.items():
            try:
                check_changes(changes, places)
            except ChangeError as error:
                for problem in error.problems:
                    self._findings.problem(self._path, ABSENT, f"in input {name}: {problem}")

    def _texts(self, field: str, texts: Sequence[Any]) -> list[str]:
        for index, text in enumerate(texts):
            if not isinstance(text, str):
                self._findings.problem(f"{self._path}.{field}[{index}]", text, "must be text")
        return [text for text in texts if isinstance(text, str)]

    def _added(self, shapes: Sequence[AddNodesShape]) -> list[list[Any]]:
        found: list[list[Any]] = []
        for index, added in enumerate(shapes):
            number = 1 if added.number is None else added.number
            if number < 1:
                self._findings.problem(f"{self._path}.addNodes[{index}].number", number, "must be 1 or more")
            found.append([number, added.like])
        return found

    def _after_s(self, after_s: float | None) -> float:
        if after_s is not None and after_s < 0:
            self._findings.problem(f"{self._path}.after", f"{after_s:g}s", "must be 0s or more")
        return after_s or 0.0

    def _prices(self, file: str) -> str:
        path = f"{self._path}.prices"
        content = self._inputs.content(file, path)
        if content is None:
            return ""
        manifests = parse_manifests(str(self._inputs.path(file)), content)
        self._findings.problems += manifests.problems
        if not any(each.kind == PRICE_LIST for each in manifests.objects) and not manifests.problems:
            self._findings.problem(path, file, f"holds no {PRICE_LIST} of moorage.dev/v1alpha1")
        return content.decode(errors="replace")
