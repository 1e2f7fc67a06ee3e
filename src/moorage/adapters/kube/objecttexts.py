"""Pods and nodes as complete JSON texts, for extenders that are sent whole objects."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence

import msgspec

from moorage.adapters.kube.client import KubeClient
from moorage.adapters.kube.errors import NotFound, ServerError, decode_answer
from moorage.adapters.kube.reflector import Reflector
from moorage.adapters.kube.resources import NODES, PODS
from moorage.adapters.kube.watchstream import ObjectMeta
from moorage.core.commands import PodRef
from moorage.wire.extender import NamedObject, plain_node, plain_pod

_KEPT_PODS = 256


class _Meta(msgspec.Struct):
    name: str = ""
    namespace: str = ""
    uid: str = ""


class _Item(msgspec.Struct):
    metadata: _Meta


class _Page(msgspec.Struct):
    items: list[_Item] | None = None


def _read(plain: Callable[[bytes], NamedObject], body: bytes) -> NamedObject:
    try:
        return plain(body)
    except ValueError as failure:
        raise ServerError(f"an object cannot be read: {failure}") from None


class PodTexts:
    """Whole pods, read from the API server when needed."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client
        self._kept: OrderedDict[str, NamedObject] = OrderedDict()

    async def get(self, pod: PodRef, resource_version: str = "") -> NamedObject:
        """The pod as it is now, or as it was read before if that was this version."""
        known = self._kept.get(pod.uid)
        if known is not None and resource_version and known.resource_version == resource_version:
            return known
        found = _read(plain_pod, await self._client.get(PODS, pod.name, pod.namespace))
        if found.uid != pod.uid:
            raise NotFound(f"pod {pod.namespace}/{pod.name} is gone")
        self._kept[pod.uid] = found
        self._kept.move_to_end(pod.uid)
        if len(self._kept) > _KEPT_PODS:
            self._kept.popitem(last=False)
        return found

    async def on_node(self, node: str) -> dict[str, PodRef]:
        """The pods on a node, by uid."""
        body = await self._client.list(PODS, query={"fieldSelector": f"spec.nodeName={node}"})
        found = [item.metadata for item in decode_answer(body, _Page).items or ()]
        return {each.uid: PodRef(each.namespace, each.name, each.uid) for each in found}


class NodeTexts:
    """Whole nodes, kept up to date by a watch."""

    def __init__(self, client: KubeClient, jitter: Callable[[], float]) -> None:
        self._client = client
        self._nodes: dict[str, NamedObject] = {}
        self._reflector = Reflector(client, NODES, self, parse=plain_node, jitter=jitter)

    async def run(self) -> None:
        """Follow the nodes until cancelled."""
        await self._reflector.run()

    async def get(self, names: Sequence[str]) -> list[bytes]:
        """The nodes of these names; one that is not known yet is read, one that is gone is left out."""
        await self._reflector.settled()
        found: list[bytes] = []
        for name in names:
            node = self._nodes.get(name)
            if node is None:
                try:
                    node = _read(plain_node, await self._client.get(NODES, name))
                except NotFound:
                    continue
            found.append(node.json)
        return found

    def replaced(self, objects: list[NamedObject]) -> None:
        """Everything that exists now."""
        self._nodes = {node.name: node for node in objects}

    def upserted(self, obj: NamedObject) -> None:
        """A node was added or changed."""
        self._nodes[obj.name] = obj

    def deleted(self, meta: ObjectMeta) -> None:
        """A node was deleted."""
        self._nodes.pop(meta.name, None)
