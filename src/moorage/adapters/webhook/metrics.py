"""What the webhook says about itself: controller-runtime's names for requests and for what it keeps up to date, and how
placements went.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from http.client import INTERNAL_SERVER_ERROR

from prometheus_client import Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from moorage.engine.admission import Admission, Outcome

PATH = "/mutate"
_BOUNDS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0)
_RECONCILE_BOUNDS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
CONTROLLER = "mutatingwebhookconfiguration"
RESULTS = ("success", "requeue", "requeue_after", "error")


class ReconcileMetrics(Collector):
    """controller-runtime's families about a controller: of the one object that the webhook keeps up to date."""

    def __init__(self) -> None:
        of = ("controller",)
        self._total = Counter(
            "controller_runtime_reconcile_total",
            "Total number of reconciliations per controller.",
            (*of, "result"),
            registry=None,
        )
        self._errors = Counter(
            "controller_runtime_reconcile_errors_total",
            "Total number of reconciliation errors per controller.",
            of,
            registry=None,
        )
        self._time = Histogram(
            "controller_runtime_reconcile_time_seconds",
            "Length of time per reconciliation per controller.",
            of,
            buckets=_RECONCILE_BOUNDS_S,
            registry=None,
        )
        never = {
            "controller_runtime_terminal_reconcile_errors_total": "Total number of terminal reconciliation errors.",
            "controller_runtime_reconcile_panics_total": "Total number of reconciliation panics per controller.",
        }
        self._never = [Counter(name, text, of, registry=None) for name, text in never.items()]
        workers = {
            "controller_runtime_max_concurrent_reconciles": ("Maximum number of concurrent reconciles.", 1),
            "controller_runtime_active_workers": ("Number of workers that are at work.", 0),
        }
        self._workers = [Gauge(name, text, of, registry=None) for name, (text, _) in workers.items()]
        for gauge, (_, value) in zip(self._workers, workers.values(), strict=True):
            gauge.labels(CONTROLLER).set(value)
        for counter in (self._errors, *self._never):
            counter.labels(CONTROLLER)
        self._results = {result: self._total.labels(CONTROLLER, result) for result in RESULTS}
        self._took = self._time.labels(CONTROLLER)

    def reconciled(self, result: str, took_s: float) -> None:
        """A look at the object has ended."""
        self._results[result].inc()
        self._took.observe(took_s)
        if result == "error":
            self._errors.labels(CONTROLLER).inc()

    def collect(self) -> Iterable[Metric]:
        """Everything as it is now; called for every scrape."""
        yield from _families(self._total, self._errors, self._time, *self._never, *self._workers)


class WebhookMetrics(Collector):
    """The metrics of one webhook; sizes are read when metrics are scraped."""

    def __init__(self, admission: Admission, certificate_expires_s: Callable[[], float]) -> None:
        self._admission = admission
        self._expires_s = certificate_expires_s
        self._requests = Counter(
            "controller_runtime_webhook_requests_total",
            "Total number of admission requests by HTTP status code.",
            ("webhook", "code"),
            registry=None,
        )
        self._latency = Histogram(
            "controller_runtime_webhook_latency_seconds",
            "Histogram of the latency of processing admission requests.",
            ("webhook",),
            buckets=_BOUNDS_S,
            registry=None,
        )
        self._in_flight = Gauge(
            "controller_runtime_webhook_requests_in_flight",
            "Current number of admission requests being served.",
            ("webhook",),
            registry=None,
        )
        self._panics = Counter(
            "controller_runtime_webhook_panics_total", "Total number of webhook panics.", registry=None
        )
        self.reconciling = ReconcileMetrics()
        self._placed = Counter(
            "smart_scheduler_pods_placed_total", "Pods that were given a rule of their strategy.", registry=None
        )
        self._errors = Counter(
            "smart_scheduler_placement_errors_total",
            "Pods that went through unchanged because their strategy could not be read or applied.",
            registry=None,
        )
        self._forwarded = Counter(
            "moorage_webhook_forwarded_total", "Pods that the replica which decides was asked about.", registry=None
        )
        self._codes = {code: self._requests.labels(PATH, str(code)) for code in (200, 400, 500)}
        self._served = self._latency.labels(PATH)
        self._open = self._in_flight.labels(PATH)

    def began(self) -> None:
        """A request has come."""
        self._open.inc()

    def answered(self, status: int, took_s: float) -> None:
        """A request is over."""
        self._open.dec()
        self._served.observe(took_s)
        child = self._codes.get(status)
        if child is None:
            child = self._codes[status] = self._requests.labels(PATH, str(status))
        child.inc()
        if status == INTERNAL_SERVER_ERROR:
            self._panics.inc()

    def decided(self, outcome: Outcome) -> None:
        """A pod that is really to be created was decided about."""
        if outcome is Outcome.PLACED:
            self._placed.inc()
        elif outcome is Outcome.FAILED:
            self._errors.inc()

    def forwarded(self) -> None:
        """The replica that decides has answered for a pod."""
        self._forwarded.inc()

    def collect(self) -> Iterable[Metric]:
        """Everything as it is now; called for every scrape."""
        yield from self.reconciling.collect()
        yield from _families(
            self._requests,
            self._latency,
            self._in_flight,
            self._panics,
            self._placed,
            self._errors,
            self._forwarded,
        )
        roster = self._admission.roster
        sizes = {
            "pods": ("Live pods in the webhook's picture of the cluster.", roster.pod_count),
            "ledger_pods": ("Pods that were admitted and not seen yet.", roster.ledger_count),
            "peers": ("Other replicas that work at the same time.", self._admission.peers),
            "certificate_expiry_timestamp_seconds": ("When the serving certificate ends.", self._expires_s()),
        }
        for name, (text, value) in sizes.items():
            yield GaugeMetricFamily(f"moorage_webhook_{name}", text, value=value)


def _families(*sources: Counter | Gauge | Histogram) -> Iterable[Metric]:
    """Without the creation time of each series, which is not needed and would double their number."""
    for source in sources:
        for family in source.collect():
            family.samples = [sample for sample in family.samples if not sample.name.endswith("_created")]
            yield family
