"""The laboratory: runs scenarios, each in a world of its own, and says what came of them."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import tempfile
import time
import traceback
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from moorage.adapters.kube.client import KubeClient
from moorage.adapters.kube.credentials import load_credentials
from moorage.bench.controlplane import ADMIN, ControlPlane, Options
from moorage.bench.kubelet import VirtualKubelet
from tests.faults import stopwatch
from tests.faults.auditor import Auditor
from tests.faults.checks import End
from tests.faults.workloads import HIGH
from tests.faults.world import World
from tests.gangs.cluster import Cluster, RefusedError

Place = Literal["shared", "controllers", "fresh"]
"""On an API server with others; on one where controllers run, one at a time; on one of its own, alone."""
Story = Callable[[World], Awaitable[None]]
PLANE = Options(audit_policy=stopwatch.POLICY)
_CONTROLLERS = ("deployment", "replicaset", "statefulset", "disruption", "garbage-collector", "resourceclaim")
CONTROLLERS = ",".join(f"{name}-controller" for name in _CONTROLLERS)
LONGEST_S = 900.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A row of the table."""

    name: str
    row: str
    """The fault in words."""
    story: Story
    calm: str | None = None
    """Whose end is compared: that of the same story without the fault, kept under this name. None: none is."""
    place: Place = "shared"


@dataclass(slots=True)
class Result:
    """What came of one run."""

    scenario: str
    seed: int
    seconds: float = 0.0
    figures: dict[str, float] = field(default_factory=dict)
    breaches: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether nothing was breached."""
        return not self.breaches

    @property
    def command(self) -> str:
        """How to see it again."""
        return f"python -m tests.faults.run --only {self.scenario} --seed {self.seed}"

    def __str__(self) -> str:
        figures = ", ".join(f"{name} {value:g}" for name, value in self.figures.items())
        return f"{self.scenario:<44}{self.seed:>5}  {'ok' if self.ok else 'BREACH':<7}{self.seconds:>6.1f} s  {figures}"


class Lab:
    """One API server with an auditor and kubelets; `opened` makes one."""

    def __init__(self, plane: ControlPlane, cluster: Cluster, auditor: Auditor, folder: Path, ends: Ends) -> None:
        self._plane = plane
        self._cluster = cluster
        self._auditor = auditor
        self._folder = folder
        self._ends = ends

    async def run(self, scenario: Scenario, seed: int) -> Result:
        """Run it with the fault, and before that without if nobody has yet."""
        result, began_s = Result(scenario.name, seed), time.monotonic()
        calm = None
        if scenario.calm is not None:
            calm = await self._ends.of(scenario.calm, seed, lambda: self._calm(scenario, seed, result))
        await self._play(scenario, seed, result, calm)
        result.seconds = time.monotonic() - began_s
        return result

    async def _calm(self, scenario: Scenario, seed: int, result: Result) -> End | None:
        before = len(result.breaches)
        end = await self._play(scenario, seed, result, None, faulty=False)
        result.breaches[before:] = [f"without the fault: {line}" for line in result.breaches[before:]]
        return end

    async def _play(
        self, scenario: Scenario, seed: int, result: Result, calm: End | None, *, faulty: bool = True
    ) -> End | None:
        world = await self._world(scenario, seed, faulty=faulty)
        end = None
        try:
            async with asyncio.timeout(LONGEST_S):
                await scenario.story(world)
                end = world.judge(calm)
        except TimeoutError:
            world.breaches.append(f"not over after {LONGEST_S:g} s")
        except (RefusedError, FileNotFoundError, RuntimeError, OSError, ExceptionGroup, AssertionError) as error:
            world.breaches.append(f"the scenario itself failed: {error!r} {_where(error)}")
        finally:
            await world.close()
        result.breaches += world.breaches
        if faulty:
            result.figures |= world.figures
        return end

    async def _world(self, scenario: Scenario, seed: int, *, faulty: bool) -> World:
        name = self._ends.named(f"{scenario.name}-{seed}" if faulty else f"{scenario.name}-{seed}-calm")
        folder = self._folder / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        await self._cluster.create("/api/v1/namespaces", {"metadata": {"name": name}})
        return World(name, self._plane, self._cluster, self._auditor, folder, seed, faulty=faulty)


class Ends:
    """How runs without a fault came out, each found once."""

    def __init__(self) -> None:
        self._ends: dict[tuple[str, int], End | None] = {}
        self._locks: dict[tuple[str, int], asyncio.Lock] = defaultdict(asyncio.Lock)
        self._names: set[str] = set()

    async def of(self, name: str, seed: int, play: Callable[[], Awaitable[End | None]]) -> End | None:
        """The end kept under this name, or that of the run that is played now."""
        async with self._locks[name, seed]:
            if (name, seed) not in self._ends:
                self._ends[name, seed] = await play()
            return self._ends[name, seed]

    def named(self, wish: str) -> str:
        """A name that nobody had before."""
        short = wish.replace(":", "-")[:40].strip("-")
        name = next(one for one in (short, *(f"{short}-{n}" for n in range(1000))) if one not in self._names)
        self._names.add(name)
        return name


@contextlib.asynccontextmanager
async def opened(plane: ControlPlane, folder: Path, ends: Ends) -> AsyncIterator[Lab]:
    """The admin's connection, the auditor and the kubelets of all nodes."""
    client = KubeClient(load_credentials(str(plane.admin_kubeconfig)), user_agent="virtual-kubelet")
    auditor = Auditor(plane.url, plane.token_of(ADMIN.name), plane.token_folder / "ca.crt")
    async with Cluster(plane) as cluster, auditor, client, VirtualKubelet(client, adopt_all=True):
        priority = {"metadata": {"name": HIGH}, "value": 1000}
        with contextlib.suppress(RefusedError):
            await cluster.create("/apis/scheduling.k8s.io/v1/priorityclasses", priority)
        yield Lab(plane, cluster, auditor, folder, ends)


@contextlib.contextmanager
def scratch(kept: Path | None) -> Iterator[Path]:
    """A folder for logs: a given one stays, another one goes."""
    if kept is not None:
        kept.mkdir(parents=True, exist_ok=True)
        yield kept
        return
    with tempfile.TemporaryDirectory(prefix="moorage-faults-") as folder:
        yield Path(folder)


def _where(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "/faults/" in frame.filename]
    return f"at {Path(ours[-1].filename).name}:{ours[-1].lineno}" if ours else ""
