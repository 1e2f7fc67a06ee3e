"""All workload controllers of a lifelike cluster as one part of it."""

from __future__ import annotations

from moorage.adapters.memory.admission import StoreAdmission
from moorage.adapters.memory.controllers.daemonsets import DaemonSets
from moorage.adapters.memory.controllers.deployments import Deployments
from moorage.adapters.memory.controllers.jobs import CronJobs, Jobs
from moorage.adapters.memory.controllers.lineage import Lineage
from moorage.adapters.memory.controllers.loop import ControllerLoop
from moorage.adapters.memory.controllers.replicasets import ReplicaSets
from moorage.adapters.memory.controllers.statefulsets import StatefulSets
from moorage.adapters.memory.store import Store


class Workloads:
    """Runs the controllers of all kinds on one store."""

    def __init__(self, store: Store, admission: StoreAdmission) -> None:
        replica_sets = ReplicaSets(store, admission)
        self._loop = ControllerLoop(
            store,
            Lineage(store),
            {
                "CronJob": CronJobs(store, admission).reconcile,
                "DaemonSet": DaemonSets(store, admission).reconcile,
                "Deployment": Deployments(store, admission).reconcile,
                "Job": Jobs(store, admission).reconcile,
                "ReplicaSet": replica_sets.reconcile,
                "ReplicationController": replica_sets.reconcile,
                "StatefulSet": StatefulSets(store, admission).reconcile,
            },
        )

    @property
    def refusals(self) -> tuple[str, ...]:
        """What the API server refuses to controllers at present."""
        return tuple(self._loop.refusals.values())

    def step(self) -> None:
        """Reconcile what changes concern."""
        self._loop.step()
