"""Metrics of dynamic resource allocation: searches for devices, what claims got, waits for drivers, devices in use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from moorage.adapters.metrics.tally import Tallies, exponential_bounds
from moorage.core.commands import Verb
from moorage.core.devicecounts import DeviceCounts
from moorage.core.deviceindex import RESOURCE_CLAIM, RESOURCE_SLICE
from moorage.core.devices import ResourceSlice
from moorage.core.events import PatchDone
from moorage.engine.engine import Engine
from moorage.framework.contract import CountsDevices

WAIT_BOUNDS_S = exponential_bounds(0.1, 2, 14)


class DeviceMetrics:
    """Those that are counted turn by turn, and those that are read when metrics are scraped."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._created: Counter[str] = Counter()
        self._ended: Counter[tuple[str, str, str]] = Counter()
        self._waited_s = Tallies(
            "scheduler_dra_bindingconditions_wait_duration_seconds",
            "How long pods waited until drivers had made devices ready.",
            ("profile", "driver", "status"),
            WAIT_BOUNDS_S,
        )

    def written(self, answer: PatchDone) -> None:
        """A write of the scheduler was answered."""
        if answer.command.verb is Verb.CREATE and answer.command.kind == RESOURCE_CLAIM:
            self._created["success" if answer.ok else "failure"] += 1

    def observe(self) -> None:
        """Take note of waits that ended."""
        for profile, counts in self._counting():
            while counts.waits:
                wait = counts.waits.popleft()
                labels = (profile, wait.driver, wait.status)
                self._ended[labels] += 1
                self._waited_s.observe(labels, wait.seconds)

    def _counting(self) -> Iterable[tuple[str, DeviceCounts]]:
        for runner in self._engine.all_runners.values():
            for plugin in runner.plugins.having(CountsDevices):
                yield runner.profile.scheduler_name, plugin.counts

    def collect(self) -> Iterable[Metric]:
        """All of them; nothing where no pod has ever asked for devices."""
        yield from self._searches()
        created = CounterMetricFamily(
            "dynamic_resource_allocation_resourceclaim_creates",
            "ResourceClaims that were made for extended resources.",
            labels=("status", "admin_access"),
        )
        for status, number in self._created.items():
            created.add_metric((status, "false"), number)
        yield created
        ended = CounterMetricFamily(
            "scheduler_dra_bindingconditions_allocations",
            "Attempts that waited for drivers to make devices ready, by driver.",
            labels=("profile", "driver", "status"),
        )
        for labels, number in self._ended.items():
            ended.add_metric(labels, number)
        yield ended
        yield self._waited_s.family()
        yield from self._devices()

    def _searches(self) -> Iterable[Metric]:
        searches = CounterMetricFamily(
            "moorage_device_searches",
            "Searches for devices on a node, by what came of them.",
            labels=("profile", "result"),
        )
        steps = CounterMetricFamily(
            "moorage_device_search_steps", "Steps of searches for devices.", labels=("profile",)
        )
        allocations = CounterMetricFamily(
            "moorage_device_allocations", "Claims for which devices were chosen.", labels=("profile",)
        )
        found: Counter[tuple[str, str]] = Counter()
        sums: dict[str, tuple[int, int]] = {}
        for profile, counts in self._counting():
            for result, number in counts.searches.items():
                found[profile, result] += number
            before = sums.get(profile, (0, 0))
            sums[profile] = (before[0] + counts.steps, before[1] + counts.allocations)
        for labels, number in found.items():
            searches.add_metric(labels, number)
        for profile, (step_count, allocated) in sums.items():
            if step_count:
                steps.add_metric((profile,), step_count)
                allocations.add_metric((profile,), allocated)
        return searches, steps, allocations

    def _devices(self) -> Iterable[Metric]:
        published = GaugeMetricFamily("moorage_devices", "Devices that drivers publish.", labels=("driver",))
        used = GaugeMetricFamily("moorage_devices_in_use", "Devices that claims hold.", labels=("driver",))
        state = self._engine.state
        slices: Mapping[str, ResourceSlice] = state.objects.get(RESOURCE_SLICE, {})
        numbers: Counter[str] = Counter()
        for part in slices.values():
            numbers[part.driver] += len(part.devices)
        allocations = (state.devices.allocation(key) for key in state.objects.get(RESOURCE_CLAIM, ()))
        held = {each.id for found in allocations if found is not None for each in found.devices}
        for family, counts in ((published, numbers), (used, Counter(each.driver for each in held))):
            for driver, number in counts.items():
                family.add_metric((driver,), number)
        return published, used
