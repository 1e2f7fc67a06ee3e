"""One pod as the API server has it now: whether it exists, where it is, whether it is about to go."""

from __future__ import annotations

import msgspec

from moorage.adapters.kube.client import KubeClient
from moorage.adapters.kube.errors import NotFound, decode_answer
from moorage.adapters.kube.resources import PODS
from moorage.core.commands import PodRef


class _Meta(msgspec.Struct):
    uid: str
    deletion_timestamp: str | None = msgspec.field(default=None, name="deletionTimestamp")


class _Spec(msgspec.Struct):
    node_name: str | None = msgspec.field(default=None, name="nodeName")


class PodView(msgspec.Struct):
    """What is read of the pod."""

    metadata: _Meta
    spec: _Spec

    @property
    def is_going(self) -> bool:
        """Whether it is being deleted."""
        return self.metadata.deletion_timestamp is not None


async def read_pod(client: KubeClient, pod: PodRef) -> PodView | None:
    """Read a pod once; None if the server says that there is no such pod, or has another one of its name.

    Anything else that is not the pod raises: a 404 that speaks of something else proves nothing.
    """
    try:
        view = decode_answer(await client.get(PODS, pod.name, pod.namespace), PodView)
    except NotFound as error:
        if error.about(PODS.plural, pod.name):
            return None
        raise
    return view if view.metadata.uid == pod.uid else None
