"""What an experiment runs on: the objects of a cluster, and the pods that come to it, made from an input and a seed.

An input is plain values, so that it can go to other processes and machines: `kind`, `settings`, and `data`, the bytes
of its files by name. The same input and seed give the same cluster and the same pods, everywhere.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any

from moorage.core.pods import Pod
from moorage.core.values import copier, dataclass
from moorage.sim.arrivals import Arrival
from moorage.sim.experiments.traceobjects import node_object, pod_object
from moorage.sim.experiments.traces import Trace, TraceError, TracePod, read_trace
from moorage.sim.inputs import ClusterInput, read_cluster
from moorage.sim.whatif import on_top
from moorage.wire.errors import WireError
from moorage.wire.kinds import Kind, pod_kind
from moorage.wire.manifests import Manifests, manifests_of, parse_manifests
from moorage.wire.problems import Problem
from moorage.wire.templates import TemplateTable

OBJECTS, TRACE, GENERATOR, JOURNAL = "objects", "trace", "generator", "journal"
KINDS = OBJECTS, TRACE, GENERATOR, JOURNAL
RECORDED, SHUFFLED, BY_SEED = "recorded", "shuffled", "arrivals"
ORDERS = RECORDED, SHUFFLED, BY_SEED
WHOLE_INPUT = (0, 1)
MOST_PODS = 1_000_000
"""That arrive in one simulation."""
_DEFAULT_INTERVAL_S = 1.0
_ROUNDED = 3
"""Random times are whole milliseconds, so that they do not depend on the last bit of a logarithm."""

_named: Callable[[Pod, str, str], Pod] = copier(Pod, "uid", "name")


@dataclass(slots=True)
class InputSource:
    """A cluster and its arrivals."""

    cluster: ClusterInput
    arrivals: Sequence[Arrival] = ()
    warnings: list[str] = field(default_factory=list)

    @property
    def pods(self) -> Iterator[Pod]:
        """Those that arrive."""
        return (each.pod for each in self.arrivals)


def make_source(
    given: Mapping[str, Any],
    data: Mapping[str, bytes],
    seed: int,
    split: tuple[int, int] = WHOLE_INPUT,
    own: Sequence[Kind] = (),
) -> InputSource:
    """The source of one combination; `TraceError` if a trace cannot be read, all else is in `cluster.problems`.

    `split` is (i, n): only every n-th pod of a trace or generator, from the i-th on. `own` are kinds of workloads that
    a configuration names.
    """
    return _MAKERS[given["kind"]](given["settings"], data, seed, split, own)


def _from_objects(
    settings: Mapping[str, Any], data: Mapping[str, bytes], _seed: int, _split: tuple[int, int], own: Sequence[Kind]
) -> InputSource:
    base = _joined(settings["files"], data, own)
    return InputSource(read_cluster(on_top(base, _beside(settings, data, own))))


def _beside(settings: Mapping[str, Any], data: Mapping[str, bytes], own: Sequence[Kind]) -> Manifests:
    """The objects beside what the input itself has, such as queues and prices."""
    return _joined(settings.get("objects", ()), data, own)


def _joined(names: Sequence[str], data: Mapping[str, bytes], own: Sequence[Kind]) -> Manifests:
    found = Manifests(own=own)
    for name in names:
        found = on_top(found, parse_manifests(name, data[name], own))
    return found


# --- traces ---


def _from_trace(
    settings: Mapping[str, Any], data: Mapping[str, bytes], seed: int, split: tuple[int, int], own: Sequence[Kind]
) -> InputSource:
    trace = read_trace(settings, data)
    if settings.get("only_gpu_nodes"):
        trace = trace._replace(nodes=[node for node in trace.nodes if node.gpus])
    convention = settings["gpu_requests"]
    nodes = manifests_of((node_object(node, convention) for node in trace.nodes), settings["files"]["nodes"], own)
    cluster = read_cluster(on_top(nodes, _beside(settings, data, own)))
    return InputSource(cluster, [] if cluster.problems else [*_trace_arrivals(trace, settings, seed, split)])


def _trace_arrivals(trace: Trace, settings: Mapping[str, Any], seed: int, split: tuple[int, int]) -> Iterator[Arrival]:
    templates = _Templates(settings["gpu_requests"], settings["files"]["pods"])
    recorded, speed = settings["order"] == RECORDED, settings.get("speed") or 1.0
    interval_s, burst = settings.get("interval_s") or _DEFAULT_INTERVAL_S, settings["burst"]
    first_s = min((pod.created_s for pod in trace.pods), default=0.0)
    for number, line in enumerate(_loaded(trace, settings.get("load"), _lines(trace, settings, seed, split))):
        pod = trace.pods[line]
        after_s = (pod.created_s - first_s) / speed if recorded else number // burst * burst * interval_s
        run_s = pod.run_s / speed if settings.get("durations") and pod.run_s is not None else None
        yield Arrival(after_s, templates.pod(pod, number), run_s)


def _lines(trace: Trace, settings: Mapping[str, Any], seed: int, split: tuple[int, int]) -> Iterator[int]:
    """Numbers of pods in the order of their arrival; without end where the order can go on and a load is wanted."""
    index, number = split
    if settings["order"] == BY_SEED:
        yield from (line for line in trace.orders[seed] if line % number == index)
        return
    lines = [*range(index, len(trace.pods), number)]
    if settings["order"] == RECORDED:
        yield from sorted(lines, key=lambda line: trace.pods[line].created_s)
        return
    load, (room, measure) = settings.get("load"), _load_of(trace)
    asked = sum(measure(trace.pods[line]) for line in lines)
    if load is not None and asked and load * room / asked * len(lines) > MOST_PODS:
        said = f"takes more than {MOST_PODS} pods; write a smaller one"
        raise TraceError([Problem(settings["files"]["pods"], "load", load, said)])
    dice = random.Random(seed)
    while lines:
        dice.shuffle(lines)
        yield from lines
        if load is None or not asked:  # pods that ask for nothing never make a load
            return


def _loaded(trace: Trace, load: float | None, lines: Iterator[int]) -> Iterator[int]:
    """As many as ask together for this part of all GPUs, or of all cpu where there are none."""
    if load is None:
        yield from lines
        return
    asked, (room, measure) = 0, _load_of(trace)
    for line in lines:
        asked += measure(trace.pods[line])
        if asked > load * room:
            return
        yield line


def _load_of(trace: Trace) -> tuple[int, Callable[[TracePod], int]]:
    """What nodes have of what a load is about, and how much of it a pod asks for."""
    gpus = sum(node.gpus for node in trace.nodes)
    return (1000 * gpus, _gpu_milli) if gpus else (sum(node.cpu_milli for node in trace.nodes), _cpu_milli)


def _gpu_milli(pod: TracePod) -> int:
    return pod.gpus * pod.gpu_milli


def _cpu_milli(pod: TracePod) -> int:
    return pod.cpu_milli


class _Templates:
    """Pods of which those that look alike share their template; `file` is what messages call the file."""

    def __init__(self, convention: str, file: str) -> None:
        self._convention = convention
        self._file = file
        self._kind = pod_kind(TemplateTable())
        self._models: dict[tuple[Any, ...], Pod] = {}

    def pod(self, line: TracePod, number: int) -> Pod:
        model = self._models.get(line.kind)
        if model is None:
            model = self._models[line.kind] = self._made(line)
        name = f"{line.name}-{number}"
        return _named(model, name, name)

    def _made(self, line: TracePod) -> Pod:
        try:
            made: Pod = self._kind.from_builtin(pod_object(line, self._convention))
        except WireError as error:
            said = f"no pod can be made of it: {error.problem}"
            raise TraceError([Problem(self._file, "", line.name, said)]) from None
        return made


# --- generators ---


def _from_generator(
    settings: Mapping[str, Any], data: Mapping[str, bytes], seed: int, split: tuple[int, int], own: Sequence[Kind]
) -> InputSource:
    nodes = manifests_of(_made_nodes(settings["nodes"]), settings["source"], own)
    models = manifests_of((_made_pod(group) for group in settings["pods"]), settings["source"], own)
    cluster = read_cluster(on_top(nodes, _beside(settings, data, own)))
    cluster.problems += read_cluster(models).problems
    return InputSource(cluster, [] if cluster.problems else [*_made_arrivals(settings, seed, split)])


def _made_nodes(groups: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    for group in groups:
        offered = {"pods": "110", **group["capacity"]}
        status = {
            "capacity": offered,
            "allocatable": offered,
            "conditions": [{"type": "Ready", "status": "True"}],
        }
        for number in range(group["count"]):
            name = f"{group['name']}-{number}"
            labels = {"kubernetes.io/hostname": name, **group["labels"]}
            metadata = {"name": name, "labels": labels}
            yield {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status}


def _made_pod(group: Mapping[str, Any]) -> dict[str, Any]:
    template = group["template"]
    metadata = {"namespace": "default", **(template.get("metadata") or {}), "name": group["name"], "uid": group["name"]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template.get("spec") or {}}


def _made_arrivals(settings: Mapping[str, Any], seed: int, split: tuple[int, int]) -> Iterator[Arrival]:
    """Pods at random times, `interval_s` apart on average, `burst` at once; each is of a group, by weight."""
    dice = random.Random(seed)
    kind = pod_kind(TemplateTable())
    groups = settings["pods"]
    models = [kind.from_builtin(_made_pod(group)) for group in groups]
    weights = [group["weight"] for group in groups]
    at_s, burst, (index, every) = 0.0, settings["burst"], split
    for number in range(settings["count"]):
        if number % burst == 0:
            at_s += dice.expovariate(1 / (settings["interval_s"] * burst))
        chosen = dice.choices(range(len(groups)), weights)[0]
        mean_s = groups[chosen]["duration_s"]
        run_s = None if mean_s is None else round(dice.expovariate(1 / mean_s), _ROUNDED)
        if number % every == index:
            name = f"{models[chosen].name}-{number}"
            yield Arrival(round(at_s, _ROUNDED), _named(models[chosen], name, name), run_s)


_MAKERS: Mapping[
    str, Callable[[Mapping[str, Any], Mapping[str, bytes], int, tuple[int, int], Sequence[Kind]], InputSource]
] = {OBJECTS: _from_objects, TRACE: _from_trace, GENERATOR: _from_generator}
