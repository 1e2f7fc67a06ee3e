"""What a watch tells of a cluster, applied to a state.

The engine has handlers of its own, as it decides what each change means; those that only need an up-to-date state
follow.
"""

from __future__ import annotations

from moorage.core.events import Event, NodeGone, NodeSeen, ObjectGone, ObjectSeen, PodGone, PodSeen
from moorage.core.state import ClusterState

OBJECTS_SEEN = (NodeSeen, NodeGone, ObjectSeen, ObjectGone)
SEEN = (PodSeen, PodGone, *OBJECTS_SEEN)
"""Events that say what there is in the cluster; all others answer commands or are about the engine itself."""


def follow(state: ClusterState, event: Event) -> None:
    """Take over what was seen; answers to commands change nothing here."""
    match event:
        case PodSeen(pod):
            state.observe_pod(pod)
        case PodGone(uid):
            state.remove_pod(uid)
        case NodeSeen(node):
            state.upsert_node(node)
        case NodeGone(name):
            state.remove_node(name)
        case ObjectSeen(kind, key, value):
            state.put_object(kind, key, value)
        case ObjectGone(kind, key):
            state.remove_object(kind, key)
