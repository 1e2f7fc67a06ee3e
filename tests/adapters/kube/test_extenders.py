"""Extenders asked over HTTP: what they are sent, and what their answers mean."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web

from moorage.adapters.kube.binder import Binder
from moorage.adapters.kube.errors import CredentialsError
from moorage.adapters.kube.extendercall import tls_context
from moorage.adapters.kube.extenders import Extenders
from moorage.core.commands import AskExtenders, AskPreemption, Bind, PodRef, Victims
from moorage.core.events import BindDone, BindOutcome, ExtendersAnswered, PreemptionAnswered
from moorage.core.limits import EXTENDER_TEXT_CHARS
from moorage.framework.configuration import Extender, ExtenderTls
from tests.adapters.kube.extender_server import ExtenderServer, Say, extender_server

if TYPE_CHECKING:
    from tests.adapters.kube.conftest import ScriptedServer, ServerFactory

POD = PodRef("ns", "p", "uid-p")
VICTIM = PodRef("ns", "v", "uid-v")
NODES = ("n1", "n2", "n3")
META = {"managedFields": [{}], "resourceVersion": "7"}

Play = Callable[[Extenders, ExtenderServer, "ScriptedServer"], Awaitable[None]]


def api_object(kind: str, name: str, **spec: Any) -> dict[str, Any]:
    return {"kind": kind, "apiVersion": "v1", "metadata": {"name": name, "uid": f"uid-{name}", **META}, "spec": spec}


def plain(name: str, **spec: Any) -> dict[str, Any]:
    """The same object as extenders get it."""
    return {"metadata": {"name": name, "uid": f"uid-{name}", "resourceVersion": "7"}, "spec": spec}


async def api_server(request: web.Request) -> web.StreamResponse:
    """Pods of any name, three nodes, and watches in which nothing happens."""
    if "watch" in request.query:
        if "sendInitialEvents" in request.query:
            return web.json_response({"kind": "Status", "code": 422, "reason": "Invalid"}, status=422)
        await asyncio.sleep(60)
    name = request.path.rsplit("/", 1)[1]
    if name == "nodes":
        nodes = [api_object("Node", node) for node in NODES]
        return web.json_response({"metadata": {"resourceVersion": "7"}, "items": nodes})
    if name == "pods":
        there = {"metadata": {"name": "w", "namespace": "ns", "uid": "uid-w"}}
        return web.json_response({"metadata": {}, "items": [there]})
    return web.json_response(api_object("Pod", name))


def said_of(answer: Any) -> Any:
    """The answer without who was heard."""
    return replace(answer, heard=(), faults=())


def perform(factory: ServerFactory, say: Say, extenders: list[Extender], play: Play) -> None:
    """Run a play with extenders that all live at one address, told apart by their verbs."""

    async def run() -> None:
        async with factory(api_server) as api, api.client() as client, extender_server(say) as server:
            known = [e if e.url_prefix else replace(e, url_prefix=server.url) for e in extenders]
            asked = Extenders(known, client, lambda _: None, jitter=lambda: 0.5)
            task = asyncio.ensure_future(asked.run())
            try:
                await play(asked, server, api)
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                await asked.close()

    asyncio.run(run())


def ask(factory: ServerFactory, say: Say, *extenders: Extender) -> tuple[ExtendersAnswered, list[tuple[str, Any]]]:
    """The answer about three nodes, and what the extenders were asked."""
    found: list[ExtendersAnswered] = []
    seen: list[tuple[str, Any]] = []

    async def play(asked: Extenders, server: ExtenderServer, _: ScriptedServer) -> None:
        found.append(await asked.ask(AskExtenders(POD, NODES, tuple(range(len(extenders))))))
        seen.extend(server.seen)

    perform(factory, say, list(extenders), play)
    return found[0], seen


BY_NAME = Extender("", filter_verb="filter", node_cache_capable=True)
WHOLE = Extender("", filter_verb="filter")
SCORES = Extender("", prioritize_verb="score", weight=3, node_cache_capable=True)


def test_names_are_sent_to_those_who_know_the_nodes(scripted_server: ServerFactory) -> None:
    """The whole pod, the names, and null for the nodes."""
    answer, seen = ask(scripted_server, lambda _, q: {"NodeNames": q["NodeNames"][:2]}, BY_NAME)
    assert seen == [("filter", {"Pod": plain("p"), "Nodes": None, "NodeNames": list(NODES)})]
    assert answer.kept == ("n1", "n2")


def test_whole_nodes_are_sent_to_the_others(scripted_server: ServerFactory) -> None:
    """As a NodeList; only the nodes of the answer count, not its names."""
    nodes = [{"metadata": api_object("Node", node)["metadata"], "spec": {}} for node in NODES]
    items = {"metadata": {}, "items": nodes}
    answer, seen = ask(scripted_server, lambda _, q: {"Nodes": q["Nodes"]}, WHOLE)
    assert seen == [("filter", {"Pod": plain("p"), "Nodes": items, "NodeNames": None})]
    assert answer.kept == NODES
    answer, _ = ask(scripted_server, lambda *_: {"NodeNames": ["n1"]}, WHOLE)
    assert answer.kept == ()


FILTERED: dict[str, tuple[Any, dict[str, Any]]] = {
    "nothing kept": ({}, {}),
    "null": (None, {}),
    "keys of any case": ({"nodenames": ["n3"], "failednodes": {"n1": "a"}}, {"kept": ("n3",), "failed": {"n1": "a"}}),
    "whole nodes back, though sent names": ({"Nodes": {"items": [plain("n2")]}}, {"kept": ("n2",)}),
    "both kinds of failure": (
        {"NodeNames": [], "FailedNodes": {"n1": "a"}, "FailedAndUnresolvableNodes": {"n2": "b"}},
        {"failed": {"n1": "a"}, "unresolvable": {"n2": "b"}},
    ),
    "an error": ({"Error": "no idea", "NodeNames": ["n1"]}, {"error": "no idea"}),
    "an unknown node": (
        {"NodeNames": ["n9"]},
        {"error": "extender URL keeps node n9, which it was not asked about"},
    ),
    "no JSON": (web.Response, {"error": "extender URL: the answer is not JSON: Input data was truncated"}),
    "something else": ({"NodeNames": "n1"}, {"error": "extender URL: NodeNames is not a list of strings"}),
    "not 200": (
        lambda: web.Response(status=503),
        {"error": "failed filter with extender at URL URL/filter, code 503"},
    ),
}


@pytest.mark.parametrize(("said", "want"), FILTERED.values(), ids=FILTERED.keys())
def test_what_filter_answers(scripted_server: ServerFactory, said: Any, want: dict[str, Any]) -> None:
    """Read as Go reads it; an error ends the attempt."""
    found: list[tuple[ExtendersAnswered, str]] = []

    async def play(asked: Extenders, server: ExtenderServer, _: ScriptedServer) -> None:
        found.append((await asked.ask(AskExtenders(POD, NODES, (0,))), server.url))

    perform(scripted_server, lambda *_: said() if callable(said) else said, [BY_NAME], play)
    answer, url = found[0]
    assert said_of(replace(answer, error=answer.error.replace(url, "URL"))) == ExtendersAnswered("uid-p", **want)


def test_each_sees_what_the_one_before_kept(scripted_server: ServerFactory) -> None:
    """In order; scores are asked for what is left, and nobody is asked about nothing."""

    def say(verb: str, question: Any) -> Any:
        if verb == "score":
            return [{"Host": name, "Score": 2} for name in question["NodeNames"]]
        dropped = verb
        left = [name for name in question["NodeNames"] if name != dropped]
        return {"NodeNames": left, "FailedNodes": {dropped: f"by {dropped}"}}

    first, second = replace(BY_NAME, filter_verb="n2"), replace(BY_NAME, filter_verb="n9")
    answer, seen = ask(scripted_server, say, first, second, SCORES)
    assert [(verb, question["NodeNames"]) for verb, question in seen] == [
        ("n2", ["n1", "n2", "n3"]),
        ("n9", ["n1", "n3"]),
        ("score", ["n1", "n3"]),
    ]
    assert answer.kept == ("n1", "n3")
    assert answer.failed == {"n2": "by n2", "n9": "by n9"}
    assert answer.scores == {"n1": 60, "n3": 60}


def test_scores_add_up_and_failing_ones_are_silent(scripted_server: ServerFactory) -> None:
    """Ten times the weight each; nobody must answer."""

    def say(verb: str, _: Any) -> Any:
        return [{"host": "n1", "score": 10}] if verb == "score" else web.Response(status=500)

    answer, _ = ask(scripted_server, say, SCORES, replace(SCORES, weight=1), replace(SCORES, prioritize_verb="down"))
    assert said_of(answer) == ExtendersAnswered("uid-p", NODES, scores={"n1": 400})


def test_one_node_needs_no_scores(scripted_server: ServerFactory) -> None:
    """It is taken anyway."""
    answer, seen = ask(scripted_server, lambda *_: {"NodeNames": ["n2"]}, BY_NAME, SCORES)
    assert [verb for verb, _ in seen] == ["filter"]
    assert (answer.kept, answer.scores) == (("n2",), {})


def everywhere(value: bytes) -> web.Response:
    return web.Response(body=b'{"Error":%b,"NodeNameToMetaVictims":%b}' % (value, value))


GARBAGE: dict[str, Callable[[], web.Response]] = {
    "deeply nested": lambda: web.Response(body=b"[" * 200_000),
    "nested in an object": lambda: web.Response(body=b'{"NodeNames":' + b'{"a":' * 5000 + b"1" + b"}" * 5000 + b"}"),
    "nested in what is read": lambda: everywhere(b"[" * 500 + b"]" * 500),
    "no UTF-8": lambda: everywhere(b'"\xff\xfe"'),
    "a page": lambda: web.Response(text="<html>"),
    "too long": lambda: web.Response(body=b'{"NodeNames":["' + b"x" * 8_000_000 + b'"]}'),
    "a number for everything": lambda: web.Response(body=b"7"),
}


@pytest.mark.parametrize("said", GARBAGE.values(), ids=GARBAGE.keys())
def test_garbage_is_the_error_of_that_extender(scripted_server: ServerFactory, said: Callable[[], Any]) -> None:
    """It ends the attempt, unless the extender may be ignored; the next question is answered as ever."""
    found: list[Any] = []
    everything = replace(BY_NAME, prioritize_verb="score", preempt_verb="preempt", bind_verb="bind")
    offer = Victims("n1", (VICTIM,), 0)

    async def play(asked: Extenders, _: ExtenderServer, __: ScriptedServer) -> None:
        asked._report = found.append
        for place in (0, 1):
            asked.submit(AskExtenders(POD, NODES, (place,), token=2 * place))
            asked.submit(AskPreemption(POD, (offer,), (place,), token=2 * place + 1))
        async with asyncio.timeout(30):
            while len(found) < 4:  # noqa: ASYNC110 - there is nothing to wait on but the answers
                await asyncio.sleep(0.01)
            found.sort(key=lambda answer: answer.token)
            found.extend([await asked.bind(Bind(POD, "n1", extender=place)) for place in (0, 1)])

    perform(scripted_server, lambda *_: said(), [everything, replace(everything, ignorable=True)], play)
    nodes, victims, ignored_nodes, ignored_victims, refusal, own_bind = found
    assert nodes.error
    assert victims.error
    assert (ignored_nodes.kept, ignored_nodes.error) == (NODES, "")
    assert (ignored_victims.candidates, ignored_victims.error) == ((offer,), "")
    assert refusal
    assert own_bind is None
    assert max(len(nodes.error), len(refusal)) < 2000
    assert [place for answer in found[:4] for place, _ in answer.faults] == [0, 0, 1, 1], "whose fault it was is told"
    assert not any(answer.heard for answer in found[:4])


def test_one_that_hangs_holds_up_nobody_else(scripted_server: ServerFactory) -> None:
    """Questions to different extenders are open at once; each answer says who was heard."""
    found: list[Any] = []
    hanging = asyncio.Event()

    async def say(verb: str, _: Any) -> Any:
        if verb == "hang":
            await hanging.wait()
        return {"NodeNames": list(NODES)}

    async def play(asked: Extenders, _: ExtenderServer, __: ScriptedServer) -> None:
        asked._report = found.append
        asked.submit(AskExtenders(POD, NODES, (0,), token=1))
        asked.submit(AskExtenders(POD, NODES, (1,), token=2))
        async with asyncio.timeout(30):
            while not found:  # noqa: ASYNC110 - there is nothing to wait on but the answers
                await asyncio.sleep(0.01)
            hanging.set()
            while len(found) < 2:  # noqa: ASYNC110
                await asyncio.sleep(0.01)

    perform(scripted_server, say, [replace(BY_NAME, filter_verb="hang"), BY_NAME], play)
    assert [(answer.token, answer.heard, answer.kept) for answer in found] == [(2, (1,), NODES), (1, (0,), NODES)]


def test_an_answer_may_repeat_the_question(scripted_server: ServerFactory) -> None:
    """The limit grows with what was asked: whole nodes come back whole. Long reasons are cut."""
    many = tuple(f"n{number:06d}" for number in range(100_000))
    found: list[ExtendersAnswered] = []

    async def play(asked: Extenders, _: ExtenderServer, __: ScriptedServer) -> None:
        found.append(await asked.ask(AskExtenders(POD, many, (0,))))

    def say(_: str, question: Any) -> Any:
        return {"NodeNames": question["NodeNames"], "FailedNodes": {"x": "y" * 5000}}

    perform(scripted_server, say, [BY_NAME], play)
    assert found[0].kept == many
    assert found[0].failed["x"] == "y" * (EXTENDER_TEXT_CHARS - 3) + "..."


DOWN = Extender(
    "http://127.0.0.1:1/x", filter_verb="filter", preempt_verb="preempt", bind_verb="bind", http_timeout_s=2
)


def test_an_extender_that_is_down(scripted_server: ServerFactory) -> None:
    """Ends the attempt with its address, unless it may be ignored."""
    answer, _ = ask(scripted_server, lambda *_: {}, DOWN)
    assert answer.error.startswith('Post "http://127.0.0.1:1/x/filter": ')
    answer, _ = ask(scripted_server, lambda *_: {"NodeNames": ["n1"]}, BY_NAME, replace(DOWN, ignorable=True))
    assert said_of(answer) == ExtendersAnswered("uid-p", ("n1",))


def test_an_extender_that_is_slow(scripted_server: ServerFactory) -> None:
    """The time limit of the configuration counts."""

    async def run() -> None:
        never = asyncio.Event()

        async def wait(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await never.wait()
            writer.close()

        listener = await asyncio.start_server(wait, "127.0.0.1", 0)
        port = listener.sockets[0].getsockname()[1]
        slow = Extender(f"http://127.0.0.1:{port}", filter_verb="f", node_cache_capable=True, http_timeout_s=0.05)
        async with scripted_server(api_server) as api, api.client() as client:
            asked = Extenders([slow], client, lambda _: None, jitter=lambda: 0.5)
            answer = await asked.ask(AskExtenders(POD, NODES, (0,)))
            await asked.close()
        never.set()
        listener.close()
        await listener.wait_closed()
        assert answer.error == f'Post "http://127.0.0.1:{port}/f": http://127.0.0.1:{port}: no answer in time'

    asyncio.run(run())


def test_questions_are_answered_by_events(scripted_server: ServerFactory) -> None:
    """One for each; the same version of a pod is read once."""
    answers: list[Any] = []
    offer = Victims("n1", (VICTIM,), 0)

    async def play(asked: Extenders, _: ExtenderServer, api: ScriptedServer) -> None:
        asked._report = answers.append
        nodes, victims = AskExtenders(POD, NODES, (0,), "7"), AskPreemption(POD, (offer,), (), "7")
        questions: list[AskExtenders | AskPreemption] = [nodes, nodes, victims]
        for count, question in enumerate(questions, 1):
            asked.submit(question)
            while len(answers) < count:  # noqa: ASYNC110 - there is nothing to wait on but the answers
                await asyncio.sleep(0.01)
        assert [seen.path for seen in api.seen] == ["/api/v1/namespaces/ns/pods/p"]

    perform(scripted_server, lambda _, q: {"NodeNames": q["NodeNames"]}, [BY_NAME], play)
    nodes, victims = ExtendersAnswered("uid-p", NODES), PreemptionAnswered("uid-p", (offer,))
    assert list(map(said_of, answers)) == [nodes, nodes, victims]


# --- evictions ---

PREEMPT = Extender("", preempt_verb="preempt")
OFFERS = (Victims("n1", (VICTIM,), 1), Victims("n2", (VICTIM, PodRef("ns", "u", "uid-u")), 0))


def ask_preemption(factory: ServerFactory, say: Say, *extenders: Extender) -> tuple[PreemptionAnswered, list[Any]]:
    found: list[PreemptionAnswered] = []
    seen: list[Any] = []

    async def play(asked: Extenders, server: ExtenderServer, _: ScriptedServer) -> None:
        found.append(await asked.ask_preemption(AskPreemption(POD, OFFERS, tuple(range(len(extenders))))))
        seen.extend(question for _, question in server.seen)

    perform(factory, say, list(extenders), play)
    return found[0], seen


def meta(**nodes: tuple[list[str], int]) -> dict[str, Any]:
    victims = {
        node: {"Pods": [{"UID": uid} for uid in uids], "NumPDBViolations": broken}
        for node, (uids, broken) in nodes.items()
    }
    return {"NodeNameToMetaVictims": victims}


def test_victims_are_sent_by_uid_or_whole(scripted_server: ServerFactory) -> None:
    """As the extender wishes; it always answers by uid."""
    said = meta(n1=(["uid-v"], 1))
    answer, seen = ask_preemption(scripted_server, lambda *_: said, replace(PREEMPT, node_cache_capable=True))
    offered = meta(n1=(["uid-v"], 1), n2=(["uid-v", "uid-u"], 0))
    assert seen == [{"Pod": plain("p"), "NodeNameToVictims": None, **offered}]
    assert said_of(answer) == PreemptionAnswered("uid-p", OFFERS[:1])
    answer, seen = ask_preemption(scripted_server, lambda *_: said, PREEMPT)
    whole = {
        "n1": {"Pods": [plain("v")], "NumPDBViolations": 1},
        "n2": {"Pods": [plain("v"), plain("u")], "NumPDBViolations": 0},
    }
    assert seen == [{"Pod": plain("p"), "NodeNameToVictims": whole, "NodeNameToMetaVictims": None}]
    assert said_of(answer) == PreemptionAnswered("uid-p", OFFERS[:1])


PREEMPTED: dict[str, tuple[Any, bool, PreemptionAnswered]] = {
    "other pods of the node": (
        meta(n2=(["uid-w"], 2)),
        False,
        PreemptionAnswered("uid-p", (Victims("n2", (PodRef("ns", "w", "uid-w"),), 2),)),
    ),
    "nothing": ({}, False, PreemptionAnswered("uid-p")),
    "no victims": (
        meta(n1=([], 0)),
        False,
        PreemptionAnswered("uid-p", error='expected at least one victim pod on node "n1"'),
    ),
    "no victims, ignorable": (
        meta(n1=([], 0), n2=(["uid-v"], 0)),
        True,
        PreemptionAnswered("uid-p", (Victims("n2", (VICTIM,), 0),)),
    ),
    "a pod that is not there": (
        meta(n1=(["uid-x"], 0)),
        False,
        PreemptionAnswered("uid-p", error="extender URL wants to evict pod uid-x, which is not on node n1"),
    ),
    "a pod that is not there, ignorable": (meta(n1=(["uid-x"], 0)), True, PreemptionAnswered("uid-p", OFFERS)),
}


@pytest.mark.parametrize(("said", "ignorable", "want"), PREEMPTED.values(), ids=PREEMPTED.keys())
def test_what_preempt_answers(
    scripted_server: ServerFactory, said: Any, ignorable: bool, want: PreemptionAnswered
) -> None:
    """What is left counts; an answer that makes no sense is an error, or ignored."""
    extender = replace(PREEMPT, node_cache_capable=True, ignorable=ignorable)
    found: list[PreemptionAnswered] = []

    async def play(asked: Extenders, server: ExtenderServer, _: ScriptedServer) -> None:
        answer = await asked.ask_preemption(AskPreemption(POD, OFFERS, (0,)))
        found.append(replace(answer, error=answer.error.replace(server.url, "URL")))

    perform(scripted_server, lambda *_: said, [extender], play)
    assert list(map(said_of, found)) == [want]


# --- binding ---

BIND = Extender("", bind_verb="bind")
BINDS = {
    "done": (BIND, {}, None, BindDone("uid-p", BindOutcome.BOUND, "n1"), ["bind"]),
    "refused": (BIND, {"Error": "no"}, None, BindDone("uid-p", BindOutcome.FAILED, "n1", "no"), ["bind"]),
    "refused, and yet bound": (BIND, {"Error": "no"}, "n1", BindDone("uid-p", BindOutcome.BOUND, "n1"), ["bind"]),
    "refused, ignorable": (
        replace(BIND, ignorable=True),
        {"Error": "no"},
        None,
        BindDone("uid-p", BindOutcome.BOUND, "n1"),
        ["bind", "POST"],
    ),
    "no sense, ignorable": (
        replace(BIND, ignorable=True),
        [],
        None,
        BindDone("uid-p", BindOutcome.BOUND, "n1"),
        ["bind", "POST"],
    ),
}


@pytest.mark.parametrize(("extender", "said", "node", "want", "steps"), BINDS.values(), ids=BINDS.keys())
def test_an_extender_binds(
    scripted_server: ServerFactory, extender: Extender, said: Any, node: str | None, want: BindDone, steps: list[str]
) -> None:
    """It gets names and uid; after an error the pod on the server tells the truth."""
    asked_for: list[Any] = []

    async def api(request: web.Request) -> web.StreamResponse:
        if request.method == "POST":
            asked_for.append("POST")
            return web.json_response({}, status=201)
        return web.json_response(api_object("Pod", "p", nodeName=node))

    def say(verb: str, question: Any) -> Any:
        assert question == {"PodName": "p", "PodNamespace": "ns", "PodUID": "uid-p", "Node": "n1"}
        asked_for.append(verb)
        return said

    async def run() -> None:
        async with scripted_server(api) as server, server.client() as client, extender_server(say) as target:
            asked = Extenders([replace(extender, url_prefix=target.url)], client, print, jitter=lambda: 0.5)
            binder = Binder(client, lambda _: None, jitter=lambda: 0.5, delegate=asked.bind)
            assert await binder.bind(Bind(POD, "n1", extender=0)) == want
            await asked.close()

    asyncio.run(run())
    assert asked_for == steps


def test_a_bind_of_an_extender_that_is_gone_is_refused(scripted_server: ServerFactory) -> None:
    """It was decided with another configuration; the pod is to be tried again, and nobody fails."""
    said: list[str | None] = []

    async def play(asked: Extenders, _: ExtenderServer, __: ScriptedServer) -> None:
        said.append(await asked.bind(Bind(POD, "n1", extender=1)))

    perform(scripted_server, lambda *_: {}, [BIND], play)
    assert said == ["the extender that was to bind is not configured any more"]


# --- TLS ---


def test_whom_to_trust(tmp_path: Path, authority_pem: bytes) -> None:
    """Without a CA enableHTTPS trusts anybody, as in kube-scheduler; files that cannot be read are named."""
    assert tls_context(Extender("http://h"), "t") is None
    open_to_all = tls_context(Extender("https://h", enable_https=True), "t")
    assert open_to_all is not None
    assert not open_to_all.check_hostname
    ca = tmp_path / "ca.pem"
    ca.write_bytes(authority_pem)
    careful = tls_context(Extender("https://h", enable_https=True, tls=ExtenderTls(ca_file=str(ca))), "t")
    assert careful is not None
    assert careful.check_hostname
    missing = Extender("https://h", tls=ExtenderTls(ca_file=str(tmp_path / "none")))
    with pytest.raises(CredentialsError, match=r"^extenders\[0\]\.tlsConfig\.caFile: .*none: cannot be read"):
        tls_context(missing, "extenders[0].tlsConfig")


def test_https(scripted_server: ServerFactory, authority_pem: bytes) -> None:
    """With the extender's CA and its name."""

    async def both(request: web.Request) -> web.StreamResponse:
        if request.path == "/filter":
            return web.json_response({"NodeNames": json.loads(await request.read())["NodeNames"]})
        return await api_server(request)

    async def run(name: str) -> ExtendersAnswered:
        async with scripted_server(both) as server, server.client() as client:
            tls = ExtenderTls(ca_data=authority_pem, server_name=name)
            extender = Extender(server.url, filter_verb="filter", node_cache_capable=True, enable_https=True, tls=tls)
            asked = Extenders([extender], client, print, jitter=lambda: 0.5)
            answer = await asked.ask(AskExtenders(POD, NODES, (0,)))
            await asked.close()
            return answer

    assert asyncio.run(run("kubernetes.example")).kept == NODES
    assert "certificate is not trusted" in asyncio.run(run("other.example")).error
