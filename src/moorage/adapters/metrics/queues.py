"""Metrics of queues, computed when they are scraped; there is a bound for how many queues and resources have any."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from moorage.core.quantity import fineness
from moorage.core.queueaccounts import QueueAccount
from moorage.core.resources import CPU
from moorage.engine.engine import Engine
from moorage.views.queuetree import accounts_of

MOST_QUEUES = 200
"""Queues with metrics of their own: those that hold or ask for something come first."""
MOST_RESOURCES = 8
"""Resources of a queue that have metrics: those that it names come first."""
_MILLI = 1000
_LABELS = ("queue", "resource")


def queue_families(engine: Engine) -> Iterable[Metric]:
    """What queues have, may have and wait for; in cores, bytes and pieces."""
    accounts = accounts_of(engine)
    if not accounts:
        return
    yield GaugeMetricFamily("moorage_queues", "Queues that there are.", value=len(accounts))
    allocated = GaugeMetricFamily("moorage_queue_allocated", "What the pods of a queue have.", labels=_LABELS)
    share = GaugeMetricFamily("moorage_queue_fair_share", "What a queue may have at present.", labels=_LABELS)
    waiting = GaugeMetricFamily("moorage_queue_waiting", "What the waiting pods of a queue ask for.", labels=_LABELS)
    accounts.sort(key=lambda account: (not _is_busy(account), account.queue.name))
    for account in accounts[:MOST_QUEUES]:
        for name in _resources(account):
            each, labels, unit = (
                account.holdings[name],
                (account.queue.name, name),
                _MILLI if name == CPU else fineness(name),
            )
            allocated.add_metric(labels, each.allocated / unit)
            share.add_metric(labels, each.share / unit)
            waiting.add_metric(labels, each.waiting / unit)
    yield from (allocated, share, waiting)


def _is_busy(account: QueueAccount) -> bool:
    return any(each.requested for each in account.holdings.values())


def _resources(account: QueueAccount) -> list[str]:
    named = account.queue.resources
    return sorted(account.holdings, key=lambda name: (name not in named, name))[:MOST_RESOURCES]
