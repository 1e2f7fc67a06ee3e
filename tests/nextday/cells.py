"""The cells of the table, and the laboratory that runs them on one control plane."""

from __future__ import annotations

import contextlib
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from moorage.bench.controlplane import ControlPlane, Options
from moorage.bench.kubelet import KubeletPace, KubeletThread, kubelet_thread
from tests.nextday.auditor import Breach, judge
from tests.nextday.examples import EXAMPLES
from tests.nextday.installation import Installation, installed
from tests.nextday.operations import HIGH_CLASS, OPERATIONS
from tests.nextday.stage import AUDIT_POLICY, Stage

_CONTROLLERS = (
    "deployment",
    "replicaset",
    "statefulset",
    "garbage-collector",
    "disruption",
    "node-lifecycle",
    "taint-eviction",
)
SEEDED = ("rollout-", "scale-", "node-loss")
"""Operations that are tried with three seeds."""
SEEDS = 3
HEARTBEAT_S = 1.0
LOST_AFTER = "--node-monitor-grace-period=5s"
LOOKS_OFTEN = "--node-monitor-period=500ms"


@dataclass(frozen=True, slots=True)
class Cell:
    """An operation on an example with a capacity."""

    example: str
    operation: str
    capacity: str
    seed: int = 1

    @property
    def name(self) -> str:
        """By which it is chosen."""
        return f"{self.example}/{self.operation}/{self.capacity}/{self.seed}"

    @property
    def disturbs(self) -> bool:
        """Whether the processes of the example are not as they were afterwards."""
        return self.operation in {"rights", "second-installation", "leader-killed", "watch-late"}


@dataclass(slots=True)
class Row:
    """What came of a cell."""

    cell: str
    commit: str
    seconds: float = 0.0
    breaches: list[str] = field(default_factory=list)
    failed: str = ""
    """Why the suite itself could not judge it."""

    @property
    def ok(self) -> bool:
        """Whether it was judged and nothing was breached."""
        return not self.breaches and not self.failed

    def as_json(self) -> dict[str, Any]:
        """As it is kept."""
        return {**asdict(self), "ok": self.ok}


def cells(seeds: int = SEEDS) -> list[Cell]:
    """The whole table, example by example."""
    return [
        Cell(example, operation.name, capacity, seed)
        for example in EXAMPLES
        for operation in OPERATIONS.values()
        if example in operation.examples
        for capacity in operation.capacities
        for seed in range(1, seeds + 1 if operation.name.startswith(SEEDED) else 2)
    ]


class Laboratory:
    """One control plane with the real controllers, virtual nodes, and one installed example at a time."""

    def __init__(self, plane: ControlPlane, kubelet: KubeletThread, folder: Path, commit: str) -> None:
        self._plane = plane
        self._kubelet = kubelet
        self._folder = folder
        self._commit = commit
        self._stack = ExitStack()
        self._there: Installation | None = None
        self._number = 0

    def run(self, cell: Cell) -> Row:
        """Run a cell and judge it."""
        row, began_s = Row(cell.name, self._commit), time.monotonic()
        self._number += 1
        try:
            breaches = self._played(cell, self._installation(cell.example))
            row.breaches = list(dict.fromkeys(map(str, breaches)))
            row.failed = "; ".join(self._installation(cell.example).ended())
        except Exception as error:  # noqa: BLE001 - a cell that breaks must not end the table
            row.failed = f"{type(error).__name__}: {str(error)[:500]} {_where(error)}"
        if cell.disturbs or row.failed:
            self.close()
        row.seconds = round(time.monotonic() - began_s, 1)
        return row

    def close(self) -> None:
        """End the installed example."""
        self._there = None
        stack, self._stack = self._stack, ExitStack()
        stack.close()

    def _played(self, cell: Cell, installation: Installation) -> list[Breach]:
        example = EXAMPLES[cell.example]
        namespace, rng = f"c{self._number}", Random(cell.seed)
        stage = Stage(self._plane, self._kubelet, installation, example, cell.capacity, namespace, rng)
        found: list[Breach] = []
        stage.open()
        try:
            for number, expected in enumerate(OPERATIONS[cell.operation].story(stage), start=1):
                breaches = judge(stage.settle(expected), expected, example.rule)
                found += [Breach(each.kind, f"(stop {number}) {each.what}") for each in breaches]
        finally:
            stage.close()
        return found

    def _installation(self, example: str) -> Installation:
        folder = EXAMPLES[example].folder
        if self._there is None or self._there.example != folder:
            self.close()
            logs = self._folder / f"{example}-{self._number}"
            self._there = self._stack.enter_context(installed(self._plane, folder, logs))
        return self._there


@contextlib.contextmanager
def laboratory(folder: Path, commit: str) -> Iterator[Laboratory]:
    """A control plane that serves many cells; logs go to the folder."""
    with ControlPlane.start(Options(audit_policy=AUDIT_POLICY)) as plane, ExitStack() as stack:
        controllers = ",".join(f"{name}-controller" for name in _CONTROLLERS)
        plane.start_controller_manager(f"--controllers={controllers}", LOST_AFTER, LOOKS_OFTEN)
        pace = KubeletPace(heartbeat_s=HEARTBEAT_S)
        kubelet = stack.enter_context(kubelet_thread(plane.admin_kubeconfig, pace=pace))
        body = {"metadata": {"name": HIGH_CLASS}, "value": 1000}
        assert plane.request("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", body).status == 201
        lab = Laboratory(plane, kubelet, folder, commit)
        stack.callback(lab.close)
        yield lab


def chosen(only: Sequence[str], seeds: int = SEEDS) -> list[Cell]:
    """The cells whose names begin with one of these, or contain it between slashes; all without any."""
    return [cell for cell in cells(seeds) if not only or any(_matches(cell, word) for word in only)]


def _matches(cell: Cell, word: str) -> bool:
    return cell.name.startswith(word) or f"/{word}/" in f"/{cell.name}/"


def _where(error: BaseException) -> str:
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "/nextday/" in frame.filename]
    return f"at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
