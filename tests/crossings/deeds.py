"""What can happen in a world, by the word in `do`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from moorage.adapters.memory.cluster import EmbeddedCluster
from moorage.adapters.memory.errors import ApiError
from tests.crossings.audit.fitting import fits
from tests.crossings.audit.scene import Scene
from tests.crossings.bodies import NAMESPACE, Body
from tests.crossings.leaders import ApiServer


class Doer:
    """Does what the script says; what the API server refuses does not happen."""

    def __init__(self, cluster: EmbeddedCluster, server: ApiServer, scene: Scene) -> None:
        self._cluster, self._server, self._scene = cluster, server, scene
        self._ways: Mapping[str, Callable[[Body], None]] = {
            "create": self._create,
            "delete": self._delete,
            "patch": self._patch,
            "status": self._status,
            "delete pods": self._delete_pods,
            "place": self._place,
            "fail": self._fail,
        }

    def perform(self, deed: Body) -> None:
        """Do it."""
        try:
            self._ways[deed["do"]](deed)
        except ApiError:
            return

    def _create(self, deed: Body) -> None:
        self._cluster.create(deed["object"])

    def _delete(self, deed: Body) -> None:
        self._cluster.delete(deed["kind"], deed.get("namespace", ""), deed["name"])

    def _patch(self, deed: Body) -> None:
        self._cluster.patch(deed["kind"], deed.get("namespace", ""), deed["name"], deed["patch"])

    def _status(self, deed: Body) -> None:
        self._cluster.store.patch_status(deed["kind"], deed.get("namespace", ""), deed["name"], deed["patch"])

    def _delete_pods(self, deed: Body) -> None:
        labelled = [
            each
            for each in self._cluster.store.list("Pod")
            if (each["metadata"].get("labels") or {}).get("app") == deed["app"]
        ]
        for each in labelled[: deed["count"]]:
            self._cluster.delete("Pod", each["metadata"]["namespace"], each["metadata"]["name"])

    def _place(self, deed: Body) -> None:
        """As another scheduler does: on the first node with room."""
        pod = self._cluster.store.get("Pod", NAMESPACE, deed["name"])
        for node in sorted(self._scene.nodes):
            if not fits(self._scene, pod, node):
                self._cluster.store.bind(NAMESPACE, deed["name"], "", node)
                return

    def _fail(self, deed: Body) -> None:
        self._server.failing.append((deed["what"], deed.get("skip", 0)))
