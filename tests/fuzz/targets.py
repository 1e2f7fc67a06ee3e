"""What inputs are tried on: every decoder, every syntax, every document, journals, and the handlers of our servers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import msgspec
import yaml

from moorage.adapters.kube.errors import KubeError, StatusView, decode_answer, error_from_answer
from moorage.adapters.kube.httpanswer import AnswerReader, BadAnswerError
from moorage.adapters.kube.intake import KindIntake
from moorage.adapters.kube.leaserecord import parse_lease
from moorage.adapters.kube.watchstream import LineSplitter, decode_event, decode_page, initial_events_end, metadata_of
from moorage.core.annotations import annotated_count
from moorage.core.devicecel import CompileError, SelectableDevice, compile_selector
from moorage.core.devices import Version
from moorage.core.durations import parse_duration
from moorage.core.events import NodeSeen, ObjectSeen, PodSeen
from moorage.core.membership import gang_key, gang_size
from moorage.core.quantity import QuantityError, amount, parse_quantity, quantity_text
from moorage.core.strategies import read_strategy
from moorage.engine.engine import Engine
from moorage.engine.keeping.keeper import Keeper
from moorage.framework.keeping import KeeperConfiguration
from moorage.framework.profiles import build_profiles
from moorage.framework.registry import Registry
from moorage.plugins.builtin import BUILTIN
from moorage.plugins.priority_annotation import parse_priority
from moorage.sim.checks import check_file
from moorage.testing.builders import make_node
from moorage.wire.admission import read_review
from moorage.wire.configuration import default_reading, read_configuration
from moorage.wire.errors import QuestionError, WireError
from moorage.wire.extender import (
    ExtenderAnswerError,
    read_binding_result,
    read_filter_result,
    read_preemption_result,
    read_priorities,
)
from moorage.wire.extender_questions import (
    read_binding_question,
    read_node_question,
    read_preemption_question,
)
from moorage.wire.kinds import BY_ID, KINDS
from moorage.wire.policy_rules import read_rules
from moorage.wire.prices import parse_price_list
from moorage.wire.trialrecords import trial_record, trial_text
from tests.fuzz import samples
from tests.fuzz.journals import in_a_file, journal_input, read_journal
from tests.fuzz.mutation import Mutator
from tests.fuzz.servers import ask_dashboard, ask_extender, ask_metrics, ask_webhook

REGISTRY = Registry(BUILTIN)


@dataclass(frozen=True)
class Target:
    """Something that takes inputs."""

    name: str
    make: Callable[[Mutator], Any]
    run: Callable[[Any], object]
    refusals: tuple[type[Exception], ...] = ()
    """How it says no."""
    weight: float = 1.0
    most_bytes: int = 1_500_000
    """What an API server accepts; files of administrators are smaller."""


def _json(*values: Any) -> Callable[[Mutator], bytes]:
    return lambda mutator: mutator.json(mutator.rng.choice(values))


def _text(values: Iterable[str]) -> Callable[[Mutator], str]:
    texts = list(values)
    return lambda mutator: mutator.text(mutator.rng.choice(texts))


# --- what an API server says ---


def _kinds() -> list[Target]:
    found = []
    for kind in KINDS:
        intake = KindIntake(kind, lambda _: None)

        def run(data: bytes, intake: KindIntake = intake) -> None:
            try:
                intake.parse(msgspec.Raw(data))
            except WireError:
                intake.remains(msgspec.Raw(data))

        heavy = 4.0 if kind.id in ("Pod", "Node") else 1.0
        most = 1_500_000 if kind.served else 256_000  # what is not served comes from files and price sources
        found.append(Target(f"object {kind.id}", _json(samples.object_of(kind.name)), run, (), heavy, most))
    return found


def _watch(data: bytes) -> None:
    for line in LineSplitter().feed(data + b"\n"):
        event = decode_event(line)
        if event.type == "BOOKMARK":
            initial_events_end(event.object)
        metadata_of(event.object)


def _list(data: bytes) -> None:
    for item in decode_page(data).items or ():
        metadata_of(item)


def _http(mutator: Mutator) -> list[bytes]:
    body = mutator.json(samples.STATUS)
    head = f"HTTP/1.1 404 Not Found\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    chunked = (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        + f"{len(body):x}\r\n".encode()
        + body
        + b"\r\n0\r\n\r\n"
    )
    data = mutator.data(mutator.rng.choice((head + body, chunked)))
    cut = mutator.rng.randrange(len(data) + 1)
    return [data[:cut], data[cut:]]


def _read_http(pieces: list[bytes]) -> None:
    reader = AnswerReader()
    for piece in pieces:
        found = reader.feed(piece)
        if found is not None:
            _ = found[0].headers
            error_from_answer(found[0].status, found[0].headers, found[0].body)
            return
    reader.end()


def _error(data: bytes) -> None:
    error_from_answer(404, {"Retry-After": data[:20].decode("latin-1")}, data)
    decode_answer(data, StatusView)


# --- texts ---


def _syntaxes(text: str) -> None:
    read_strategy(text)
    read_rules([text, {"weight": 1, text: text, "nodeSelector": {text: text}}])
    parse_priority(text)
    annotated_count({"a": text}, ("a",), 1)
    gang_size({"moorage.dev/pod-group-min-available": text})
    gang_key("ns", text, {"a": text}, {"pod-group": text})


def _quantity(text: str) -> None:
    quantity_text(text)
    amount("example.com/gpu", text)
    parse_quantity(text)


_SELECTABLE = SelectableDevice(
    "gpu.example.com",
    {"model": "a100", "numa": 1, "healthy": True, "driverVersion": Version("1.10.0"), "lanes": [1, 2]},
    {"memory": "80Gi", "cores": "16"},
)


def _selector(text: str) -> None:
    selector = compile_selector(text)
    if not isinstance(selector, CompileError):
        selector.answer(_SELECTABLE)


# --- documents ---


@cache
def _documents(names: tuple[Any, ...]) -> list[tuple[bytes, list[Any]]]:
    return [(path.read_bytes(), [each for each in yaml.safe_load_all(path.read_text()) if each]) for path in names]


_LAUGHS = b"a: &a [x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b]\nd: [*c,*c,*c]\n"
"""Each name stands for many of the one before."""


def _file(paths: Iterable[Any]) -> Callable[[Mutator], bytes]:
    names = tuple(paths)

    def make(mutator: Mutator) -> bytes:
        data, values = mutator.rng.choice(_documents(names))
        how = mutator.rng.random()
        if how < 0.45:
            return mutator.json(mutator.rng.choice(values))
        if how < 0.5:
            return mutator.data(_LAUGHS + data)
        lines = data.splitlines(keepends=True)
        start = mutator.rng.randrange(len(lines))
        return mutator.data(b"".join(lines[start : start + mutator.rng.choice((10, 40, 400))]))

    return make


def _validate(data: bytes) -> None:
    check_file("fuzz.yaml", data, REGISTRY)


def _configure(data: bytes) -> None:
    reading = read_configuration(data, "fuzz.yaml", REGISTRY)
    if reading.configuration is not None and not reading.problems:
        build_profiles(reading.configuration, REGISTRY)


def _recall(data: bytes) -> None:
    record = trial_record(data.decode(errors="replace"))
    assert record is None or trial_record(trial_text(record)) is not None


def _kubeconfig(data: bytes) -> None:
    in_a_file(data)


# --- the engine ---


@cache
def _pristine() -> Any:
    configuration = default_reading(REGISTRY).configuration
    assert configuration is not None
    return configuration


def _some_objects(mutator: Mutator) -> list[tuple[str, bytes]]:
    name = mutator.rng.choice(list(BY_ID))
    pods = [("Pod", mutator.json(mutator.rng.choice((samples.POD, samples.LIGHT_POD)))) for _ in range(2)]
    return [*pods, (name, mutator.json(samples.object_of(BY_ID[name].name)))]


def _events(told: list[tuple[str, bytes]]) -> list[Any]:
    """What can be read of it, after some nodes."""
    events: list[Any] = [NodeSeen(make_node(name, cpu="8", zone="a")) for name in samples.NODES]
    for number, (name, data) in enumerate(told):
        try:
            value = BY_ID[name].decode(data)
        except WireError:
            continue
        if name == "Pod":
            waiting = {"node": None, "phase": "Pending", "uid": f"u{number}"} if number == 0 else {}
            events.append(PodSeen(replace(value, **waiting)))
        else:
            events.append(NodeSeen(value) if name == "Node" else ObjectSeen(name, value.key, value))
    return events


def _decide(told: list[tuple[str, bytes]]) -> None:
    """An engine must decide on it, and be asked again."""
    engine = Engine(build_profiles(_pristine(), REGISTRY), answers_to_all=True)
    engine.handle(_events(told), 1e9)
    engine.handle([], 1e9 + 400.0)
    faults = engine.faults.take()
    assert not faults, faults[0]


def _keep(told: list[tuple[str, bytes]]) -> None:
    """A keeper must look at it, and look again."""
    keeper = Keeper(build_profiles(_pristine(), REGISTRY), KeeperConfiguration())
    keeper.handle(_events(told), 1e9)
    keeper.handle([], 1e9 + 400.0)


TARGETS: tuple[Target, ...] = (
    *_kinds(),
    Target(
        "watch",
        _json(
            {"type": "ADDED", "object": samples.POD},
            {
                "type": "BOOKMARK",
                "object": {"metadata": {"resourceVersion": "1", "annotations": {"k8s.io/initial-events-end": "true"}}},
            },
            {"type": "ERROR", "object": samples.STATUS},
        ),
        _watch,
        (KubeError,),
        3.0,
    ),
    Target(
        "list",
        _json({"metadata": {"resourceVersion": "1", "continue": "x"}, "items": [samples.NODE]}),
        _list,
        (KubeError,),
        2.0,
    ),
    Target("lease", _json(samples.LEASE), parse_lease, (KubeError,)),
    Target("answer of the API server", _json(samples.STATUS), _error, (KubeError,)),
    Target("http answer", _http, _read_http, (BadAnswerError,), 2.0),
    Target("kubeconfig", _json(samples.KUBECONFIG), _kubeconfig, (KubeError,), 0.5, most_bytes=16_000),
    Target("extender question: nodes", _json(samples.QUESTION), read_node_question, (QuestionError,), 2.0),
    Target("extender question: victims", _json(samples.PREEMPTION), read_preemption_question, (QuestionError,)),
    Target("extender question: bind", _json(samples.BINDING), read_binding_question, (QuestionError,)),
    Target(
        "extender answer: names",
        _json(samples.FILTER_ANSWER),
        lambda data: read_filter_result(data, by_name=True),
        (ExtenderAnswerError,),
    ),
    Target(
        "extender answer: nodes",
        _json(samples.FILTER_ANSWER),
        lambda data: read_filter_result(data, by_name=False),
        (ExtenderAnswerError,),
    ),
    Target("extender answer: scores", _json(samples.PRIORITIES_ANSWER), read_priorities, (ExtenderAnswerError,)),
    Target("extender answer: bind", _json({"Error": "no"}), read_binding_result, (ExtenderAnswerError,)),
    Target(
        "extender answer: victims", _json(samples.PREEMPTION_ANSWER), read_preemption_result, (ExtenderAnswerError,)
    ),
    Target("admission review", _json(samples.review(samples.POD)), read_review, (QuestionError,), 2.0),
    Target("annotations", _text((*samples.STRATEGIES, *samples.TEXTS)), _syntaxes, (), 4.0),
    Target("quantities", _text(samples.TEXTS), _quantity, (QuantityError,), 2.0),
    Target("selectors", _text(samples.SELECTORS), _selector, (), 4.0, most_bytes=10_240),
    Target("durations", _text(samples.TEXTS), parse_duration, (ValueError,)),
    Target(
        "price list",
        _file([path for path in samples.FILES if path.name == "prices.yaml"]),
        lambda data: parse_price_list(data, "f"),
        (),
        0.5,
        most_bytes=16_000,
    ),
    Target("validate", _file(samples.FILES), _validate, (), 1.0, most_bytes=16_000),
    Target("configuration", _file(samples.CONFIGURATIONS), _configure, (), 1.0, most_bytes=16_000),
    Target("trial record", _json(samples.TRIAL), _recall, (), 1.0),
    Target("engine", _some_objects, _decide, (), 0.3),
    Target("keeper", _some_objects, _keep, (), 0.2),
    Target("journal", journal_input, read_journal, (), 0.3),
    Target("server: extender", _json(samples.QUESTION, samples.PREEMPTION, samples.BINDING), ask_extender, (), 0.5),
    Target("server: webhook", _json(samples.review(samples.POD)), ask_webhook, (), 0.5),
    Target(
        "server: dashboard",
        lambda mutator: (
            mutator.rng.random(),
            mutator.json(
                {
                    "text": samples.STRATEGIES[0],
                    "namespace": "default",
                    "kind": "Deployment",
                    "name": "web",
                    "key": "default/web-1",
                    "time": 1.0,
                }
            ),
            mutator.text("name=n1&q=a&key=default/a&since=0&place=active"),
        ),
        ask_dashboard,
        (),
        0.5,
    ),
    Target(
        "server: metrics",
        lambda mutator: (
            mutator.rng.random(),
            mutator.text("text/plain;version=0.0.4, application/openmetrics-text;q=0.5, */*"),
            mutator.text("verbose&exclude=ping"),
        ),
        ask_metrics,
        (),
        0.5,
    ),
)
