"""Resources that a node offers for the first time."""

from __future__ import annotations

from moorage.core.events import NodeSeen, PodSeen
from moorage.core.frozen import FrozenDict
from moorage.core.pods import Pod
from moorage.core.queues import Queue, ResourceShare
from moorage.testing import make_node, make_pod
from tests.queues.teams import GPU, Teams

TEAM = Queue("team", resources=FrozenDict({"cpu": ResourceShare(1000)}))


def pod(name: str, gpus: int, queue: str = "team") -> Pod:
    labels = {"moorage.dev/queue": queue}
    return make_pod(name, cpu="100m", requests={GPU: gpus}, labels=labels, scheduler_name="moorage")


def test_the_first_node_with_devices_comes_with_a_pod() -> None:
    """No queue names the devices, and a pod waits for them; another one with other requests comes with the node."""
    teams = Teams(TEAM, nodes=())
    teams.engine.handle([NodeSeen(make_node("plain", cpu="4"))], 0.0)
    teams.see(pod("first", 1))
    node = NodeSeen(make_node("devices", cpu="64", memory="64Gi", resources={GPU: 8}))
    teams.play([node, PodSeen(pod("second", 2))])
    tree = teams.engine.state.queues.settle(teams.engine.state)
    assert tree.nodes["team"].requested[tree.resources.index(GPU)] == 3000
