"""DaemonSet: one pod on every node that it wants."""

from __future__ import annotations

from moorage.adapters.memory.controllers.eligibility import eligible_nodes
from moorage.adapters.memory.controllers.reconciler import Reconciler
from moorage.adapters.memory.controllers.replicasets import random_name
from moorage.adapters.memory.controllers.templates import daemon_spec, daemon_target, pod_from, template_of
from moorage.adapters.memory.objects import FINISHED, KubeObject, is_ready, is_terminating, status_of


class DaemonSets(Reconciler):
    """The DaemonSet controller."""

    def reconcile(self, owner: KubeObject) -> None:
        """Make a pod for each wanted node without one; delete finished pods and those on unwanted nodes."""
        template, namespace = template_of(owner), owner["metadata"]["namespace"]
        wanted = eligible_nodes(template, self._store.list("Node"))
        for pod in self._store.children(owner, kind="Pod"):
            unwanted = daemon_target(pod) not in wanted
            if not is_terminating(pod) and (unwanted or status_of(pod).get("phase") in FINISHED):
                self._store.delete("Pod", namespace, pod["metadata"]["name"])
        served = {daemon_target(pod) for pod in self._store.children(owner, kind="Pod")}
        for node in wanted:
            if node not in served:
                name = random_name(self._store, owner)
                self._admission.create(pod_from(owner, name, template, spec=daemon_spec(template, node)))
        pods = self._store.children(owner, kind="Pod")
        counts = {
            "desiredNumberScheduled": len(wanted),
            "currentNumberScheduled": len({daemon_target(pod) for pod in pods} & set(wanted)),
            "numberReady": sum(1 for pod in pods if is_ready(pod)),
        }
        self._store.put_status(owner, {**status_of(owner), **counts})
