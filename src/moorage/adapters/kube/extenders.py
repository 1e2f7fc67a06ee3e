"""Asks the HTTP extenders of the configuration, as kube-scheduler does, and answers the engine with events.

Invariants:
- Every AskExtenders is answered by one ExtendersAnswered, every AskPreemption by one PreemptionAnswered, whatever
  happens. Questions are taken one after the other.
- Filters are asked in order, each about the nodes that the one before kept; priorities all at once, and only where two
  nodes or more are left. Errors of an extender that may be ignored, and of any priority, count as silence.
- Pods are read from the API server when they are needed and kept by their version. Nodes are followed with a watch of
  their own, and only where an extender wants whole nodes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

import structlog

from moorage.adapters.kube.client import KubeClient
from moorage.adapters.kube.errors import KubeError
from moorage.adapters.kube.extendercall import ExtenderCall, ExtenderError, tls_context
from moorage.adapters.kube.objecttexts import NodeTexts, PodTexts
from moorage.adapters.kube.transport import AiohttpTransport, Transport
from moorage.core.commands import AskExtenders, AskPreemption, Bind, PodRef, Victims
from moorage.core.events import ExtendersAnswered, PreemptionAnswered
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

log = structlog.get_logger()


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
            parts.create_task(self._work())

    async def close(self) -> None:
        """Close the connections, if they are ours."""
        if self._own_transport is not None:
            await self._own_transport.aclose()

    async def _work(self) -> None:
        while True:
            question = await self._questions.get()
            if isinstance(question, AskExtenders):
                self._report(await self.ask(question))
            else:
                self._report(await self.ask_preemption(question))

    # --- nodes ---

    async def ask(self, question: AskExtenders) -> ExtendersAnswered:
        """Ask about nodes now."""
        uid, token = question.pod.uid, question.token
        try:
            pod = await self._pods.get(question.pod, question.resource_version)
            kept, failed, unresolvable = await self._filtered(question, pod.json)
            scores = await self._priorities(question, pod.json, kept) if len(kept) > 1 else {}
        except ExtenderError as error:
            return ExtendersAnswered(uid, error=str(error), token=token)
        except KubeError as error:
            return ExtendersAnswered(uid, error=f"reading objects for an extender: {error}", token=token)
        return ExtendersAnswered(uid, kept, failed, unresolvable, scores, token=token)

    async def _filtered(
        self, question: AskExtenders, pod: bytes
    ) -> tuple[tuple[str, ...], dict[str, str], dict[str, str]]:
        kept, failed, unresolvable = question.nodes, dict[str, str](), dict[str, str]()
        for call in [self._calls[place] for place in question.extenders]:
            verb = call.extender.filter_verb
            if not kept or not verb:
                continue
            try:
                body = await call.send(verb, await self._node_args(call, pod, kept))
                result = call.read(partial(read_filter_result, by_name=call.by_name), body)
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

    async def _priorities(self, question: AskExtenders, pod: bytes, kept: tuple[str, ...]) -> dict[str, int]:
        calls = [self._calls[place] for place in question.extenders if self._calls[place].extender.prioritize_verb]
        scores: dict[str, int] = {}
        for listed in await asyncio.gather(*(self._priority(call, pod, kept) for call in calls)):
            for name, score in listed:
                scores[name] = max(-_LARGEST, min(_LARGEST, scores.get(name, 0) + score))
        return scores

    async def _priority(self, call: ExtenderCall, pod: bytes, kept: tuple[str, ...]) -> list[tuple[str, int]]:
        extender = call.extender
        try:
            body = await call.send(extender.prioritize_verb, await self._node_args(call, pod, kept))
            listed = call.read(read_priorities, body)
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
        try:
            pod = await self._pods.get(question.pod, question.resource_version)
            for call in [self._calls[place] for place in question.extenders]:
                if offers:
                    offers = await self._left_over(call, pod.json, offers, refs)
        except ExtenderError as error:
            return PreemptionAnswered(uid, error=str(error), token=token)
        except KubeError as error:
            return PreemptionAnswered(uid, error=f"reading pods for an extender: {error}", token=token)
        left = [Victims(node, tuple(refs[u] for u in uids), broken) for node, (uids, broken) in offers.items()]
        return PreemptionAnswered(uid, tuple(left), token=token)

    async def _left_over(
        self, call: ExtenderCall, pod: bytes, offers: dict[str, MetaVictims], refs: dict[str, PodRef]
    ) -> dict[str, MetaVictims]:
        """What one extender leaves of the candidates; pods that it adds to the victims are added to `refs`."""
        ignorable = call.extender.ignorable
        try:
            whole: dict[str, bytes] | None = None
            if not call.by_name:
                uids = dict.fromkeys(uid for victims in offers.values() for uid in victims.uids)
                whole = {uid: (await self._pods.get(refs[uid])).json for uid in uids}
            body = await call.send(call.extender.preempt_verb, preemption_args(pod, offers, whole))
            found = call.read(read_preemption_result, body)
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
