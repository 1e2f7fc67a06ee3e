"""What `/metrics/resources` answers: requests and limits of every pod, under kube-scheduler's names and labels.

There are several series for each pod, so making the text takes long: what is needed is noted at once, in the loop's
thread (`snapshot`), and the text is made wherever there is time. Pods that wait for other schedulers are not known
here, and so not told; kube-scheduler tells them.
"""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from moorage.adapters.exposition import encoder_of
from moorage.core.pods import Pod
from moorage.core.resources import CPU, EPHEMERAL_STORAGE, MEMORY
from moorage.engine.engine import Engine

LABELS = ("namespace", "pod", "node", "scheduler", "priority", "resource", "unit")
_UNITS = {CPU: "cores", MEMORY: "bytes", EPHEMERAL_STORAGE: "bytes", "storage": "bytes"}
_HUGE_PAGES, _ATTACHABLE = "hugepages-", "attachable-volumes-"
_MILLI = 1000


class PodResourcesPage(Collector):
    """Pods as they were at one moment."""

    def __init__(self, pods: Iterable[tuple[Pod, str]]) -> None:
        """`pods` are pods and the names of their nodes, empty where they have none yet."""
        self._pods = list(pods)

    def collect(self) -> Iterable[Metric]:
        """Both families."""
        requests = GaugeMetricFamily("kube_pod_resource_request", "What pods request, by pod.", labels=LABELS)
        limits = GaugeMetricFamily("kube_pod_resource_limit", "What pods may use at most, by pod.", labels=LABELS)
        for pod, node in self._pods:
            template = pod.template
            about = (template.namespace, pod.name, node, template.scheduler_name, str(template.priority))
            for family, amounts in ((requests, template.requests.amounts), (limits, template.limits)):
                for name, amount in amounts:
                    value = amount / _MILLI if name == CPU else float(amount)
                    family.add_metric((*about, name, _unit(name)), value)
        yield requests
        yield limits

    def render(self, accept: str) -> tuple[bytes, str]:
        """The text and its content type, in the format that the request's Accept header asks for."""
        registry = CollectorRegistry(auto_describe=False)
        registry.register(self)
        encode, content_type = encoder_of(accept)
        return encode(registry), content_type


def snapshot(engine: Engine) -> PodResourcesPage:
    """The pods that the engine knows: on nodes by what the API server says, all others as waiting."""
    state, queue = engine.state, engine.queue
    bound = [(record.pod, record.node) for record in state.records() if not record.assumed]
    return PodResourcesPage([*bound, *((entry.pod, "") for entry in queue.entries())])


def _unit(name: str) -> str:
    if name.startswith(_HUGE_PAGES):
        return "bytes"
    return "integer" if name.startswith(_ATTACHABLE) else _UNITS.get(name, "")
