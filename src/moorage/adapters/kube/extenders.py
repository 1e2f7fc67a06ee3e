"""Calls the HTTP extenders of the configuration, as kube-scheduler does, and answers the engine with events.

Invariants:
- Every AskExtenders is answered by one ExtendersAnswered, every AskPreemption by one PreemptionAnswered, whatever
  happens, and says which extenders gave an answer and which failed. Requests are handled as they come: the engine has
  at most one open for each extender.
- Filters are asked in order, each about the nodes that the one before kept; priorities all at once, and only where two
  nodes or more are left. Errors of an extender that may be ignored, and of any priority, count as silence.
- Pods are read from the API server when they are needed and kept by their version. Nodes are followed with a watch of
  their own, and only where an extender wants whole nodes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import field
from functools import partial
from typing import Any, TypeAlias, TypeVar

import structlog

from moorage.adapters.kube.client import KubeClient
from moorage.adapters.kube.errors import KubeError
from moorage.adapters.kube.extendercall import ExtenderCall, ExtenderError, tls_context
from moorage.adapters.kube.objecttexts import NodeTexts, PodTexts
from moorage.adapters.kube.transport import AiohttpTransport, Transport
from moorage.core.commands import AskExtenders, AskPreemption, Bind, PodRef, Victims
from moorage.core.events import ExtendersAnswered, PreemptionAnswered
from moorage.core.values import dataclass
from moorage.framework.configuration import Extender
from moorage.wire.extender import (
    MetaVictims,
    binding_args,
    node_args,
    preemption_args,
    read_binding_result,
    read_filter_result,
    read_preemption_result,
    read_priorities,
)

_SCALE = 10
"""Extenders score from 0 to 10, plugins from 0 to 100."""
_LARGEST = 1 << 61

Question: TypeAlias = AskExtenders | AskPreemption
Answer: TypeAlias = ExtendersAnswered | PreemptionAnswered

T = TypeVar("T")

log = structlog.get_logger()


@dataclass(slots=True)
class _Hearing:
    """What became of the calls of one question, by the extenders' places."""

    answered: set[int] = field(default_factory=set)
    failed: dict[int, str] = field(default_factory=dict)

    def result(self) -> dict[str, Any]:
        """The fields of the answer."""
        return {"heard": tuple(sorted(self.answered - set(self.failed))), "faults": tuple(self.failed.items())}


class Extenders:
    """All extenders of a configuration. `report` gets the answers; `jitter` gives numbers between 0 and 1."""

    def __init__(
        self,
        extenders: Sequence[Extender],
        client: KubeClient,
        report: Callable[[Answer], None],
        *,
        jitter: Callable[[], float],
        transport: Transport | None = None,
    ) -> None:
        """Create it in the event loop that uses it. Raises CredentialsError where TLS files are no good."""
        contexts = [tls_context(extender, f"extenders[{place}].tlsConfig") for place, extender in enumerate(extenders)]
        self._own_transport = AiohttpTransport() if transport is None else None
        sender: Transport = transport or self._own_transport  # type: ignore[assignment]
        self._calls = [ExtenderCall(each, tls, sender) for each, tls in zip(extenders, contexts, strict=True)]
        self._report = report
        self._questions: asyncio.Queue[Question] = asyncio.Queue()
        self._pods = PodTexts(client)
        wants_nodes = any(not e.node_cache_capable and (e.filter_verb or e.prioritize_verb) for e in extenders)
        self._nodes = NodeTexts(client, jitter) if wants_nodes else None

    def submit(self, question: Question) -> None:
        """Queue a question; never blocks."""
        self._questions.put_nowait(question)

    async def run(self) -> None:
        """Answer questions until cancelled."""
        async with asyncio.TaskGroup() as parts:
            if self._nodes is not None:
                parts.create_task(self._nodes.run())
            while True:
                parts.create_task(self._answer(await self._questions.get()))

    async def close(self) -> None:
        """Close the connections, if they are ours."""
        if self._own_transport is not None:
            await self._own_transport.aclose()

    async def _answer(self, question: Question) -> None:
        if isinstance(question, AskExtenders):
            self._report(await self.ask(question))
        else:
            self._report(await self.ask_preemption(question))

    # --- nodes ---

    async def ask(self, question: AskExtenders) -> ExtendersAnswered:
        """Ask about nodes now."""
        uid, token = question.pod.uid, question.token
        hearing = _Hearing()
        try:
            pod = await self._pods.get(question.pod, question.resource_version)
            kept, failed, unresolvable = await self._filtered(question, pod.json, hearing)
            scores = await self._priorities(question, pod.json, kept, hearing) if len(kept) > 1 else {}
        except ExtenderError as error:
            return ExtendersAnswered(uid, error=str(error), token=token, **hearing.result())
        except KubeError as error:
            text = f"reading objects for an extender: {error}"
            return ExtendersAnswered(uid, error=text, token=token, **hearing.result())
        return ExtendersAnswered(uid, kept, failed, unresolvable, scores, token=token, **hearing.result())

    async def _call(self, place: int, verb: str, body: bytes, reader: Callable[[bytes], T], hearing: _Hearing) -> T:
        """Ask one extender, and take note of whether it answered."""
        call = self._calls[place]
        try:
            answer = call.read(reader, await call.send(verb, body))
        except ExtenderError as error:
            if error.silent:
                hearing.failed[place] = str(error)
            else:
                hearing.answered.add(place)
            raise
        hearing.answered.add(place)
        return answer

    async def _filtered(
        self, question: AskExtenders, pod: bytes, hearing: _Hearing
    ) -> tuple[tuple[str, ...], dict[str, str], dict[str, str]]:
        kept, failed, unresolvable = question.nodes, dict[str, str](), dict[str, str]()
        for place in question.extenders:
            call = self._calls[place]
            verb = call.extender.filter_verb
            if not kept or not verb:
                continue
            try:
                reader = partial(read_filter_result, by_name=call.by_name)
                result = await self._call(place, verb, await self._node_args(call, pod, kept), reader, hearing)
                if result.error:
                    raise ExtenderError(result.error)
                asked = set(kept)
                for name in result.kept:
                    if name not in asked:
                        raise ExtenderError(f"extender {call.url} keeps node {name}, which it was not asked about")
            except ExtenderError as error:
                if not call.extender.ignorable:
                    raise
                log.warning("extender ignored", extender=call.url, verb=verb, pod=question.pod.name, error=str(error))
                continue
            kept = result.kept
            failed.update(result.failed)
            unresolvable.update(result.unresolvable)
        return kept, failed, unresolvable

    async def _priorities(
        self, question: AskExtenders, pod: bytes, kept: tuple[str, ...], hearing: _Hearing
    ) -> dict[str, int]:
        # An extender that has just failed to filter would only cause another wait.
        places = [place for place in question.extenders if place not in hearing.failed]
        places = [place for place in places if self._calls[place].extender.prioritize_verb]
        scores: dict[str, int] = {}
        for listed in await asyncio.gather(*(self._priority(place, pod, kept, hearing) for place in places)):
            for name, score in listed:
                scores[name] = max(-_LARGEST, min(_LARGEST, scores.get(name, 0) + score))
        return scores

    async def _priority(
        self, place: int, pod: bytes, kept: tuple[str, ...], hearing: _Hearing
    ) -> list[tuple[str, int]]:
        call = self._calls[place]
        extender = call.extender
        try:
            body = await self._node_args(call, pod, kept)
            listed = await self._call(place, extender.prioritize_verb, body, read_priorities, hearing)
        except ExtenderError as error:
            log.warning("extender gave no scores", extender=call.url, error=str(error))
            return []
        return [(name, score * extender.weight * _SCALE) for name, score in listed]

    async def _node_args(self, call: ExtenderCall, pod: bytes, names: tuple[str, ...]) -> bytes:
        if call.by_name or self._nodes is None:
            return node_args(pod, None, names)
        return node_args(pod, await self._nodes.get(names), None)

    # --- evictions ---

    async def ask_preemption(self, question: AskPreemption) -> PreemptionAnswered:
        """Ask about evictions now."""
        uid, token = question.pod.uid, question.token
        refs = {ref.uid: ref for offer in question.candidates for ref in offer.pods}
        offers = {o.node: MetaVictims(tuple(ref.uid for ref in o.pods), o.violations) for o in question.candidates}
        hearing = _Hearing()
        try:
            pod = await self._pods.get(question.pod, question.resource_version)
            for place in question.extenders:
                if offers:
                    offers = await self._left_over(place, pod.json, offers, refs, hearing)
        except ExtenderError as error:
            return PreemptionAnswered(uid, error=str(error), token=token, **hearing.result())
        except KubeError as error:
            text = f"reading pods for an extender: {error}"
            return PreemptionAnswered(uid, error=text, token=token, **hearing.result())
        left = [Victims(node, tuple(refs[u] for u in uids), broken) for node, (uids, broken) in offers.items()]
        return PreemptionAnswered(uid, tuple(left), token=token, **hearing.result())

    async def _left_over(
        self, place: int, pod: bytes, offers: dict[str, MetaVictims], refs: dict[str, PodRef], hearing: _Hearing
    ) -> dict[str, MetaVictims]:
        """What one extender leaves of the candidates; pods that it adds to the victims are added to `refs`."""
        call = self._calls[place]
        ignorable = call.extender.ignorable
        try:
            whole: dict[str, bytes] | None = None
            if not call.by_name:
                uids = dict.fromkeys(uid for victims in offers.values() for uid in victims.uids)
                whole = {uid: (await self._pods.get(refs[uid])).json for uid in uids}
            body = preemption_args(pod, offers, whole)
            found = await self._call(place, call.extender.preempt_verb, body, read_preemption_result, hearing)
            for node, victims in found.items():
                await self._identify(call, node, victims, refs)
        except ExtenderError as error:
            if not ignorable:
                raise
            log.warning("extender ignored", extender=call.url, verb=call.extender.preempt_verb, error=str(error))
            return offers
        empty = [node for node, victims in found.items() if not victims.uids]
        if empty and not ignorable:
            raise ExtenderError(f'expected at least one victim pod on node "{empty[0]}"')
        return {node: victims for node, victims in found.items() if victims.uids}

    async def _identify(self, call: ExtenderCall, node: str, victims: MetaVictims, refs: dict[str, PodRef]) -> None:
        """Find out which pods an extender means; it may name others than it was offered."""
        if all(uid in refs for uid in victims.uids):
            return
        refs.update(await self._pods.on_node(node))
        for uid in victims.uids:
            if uid not in refs:
                raise ExtenderError(f"extender {call.url} wants to evict pod {uid}, which is not on node {node}")

    # --- binding ---

    async def bind(self, command: Bind) -> str | None:
        """Let an extender bind: empty if it did, else why not. None: it failed and may be ignored; bind yourself."""
        if command.extender is None:
            return None
        if command.extender >= len(self._calls):
            return "the extender that was to bind is not configured any more"
        call = self._calls[command.extender]
        try:
            body = await call.send(call.extender.bind_verb, binding_args(command.pod, command.node))
            refusal = call.read(read_binding_result, body)
        except ExtenderError as error:
            refusal = str(error)
        if not refusal or not call.extender.ignorable:
            return refusal
        log.warning("extender ignored", extender=call.url, verb=call.extender.bind_verb, error=refusal)
        return None
