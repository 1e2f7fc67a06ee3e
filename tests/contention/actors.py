"""Who else is in the cluster: a Job controller that makes pods, and kubelets that run them."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from copy import deepcopy
from datetime import UTC, datetime
from typing import Any

from moorage.core.gangowners import GANG_ANNOTATION
from tests.contention.outside import ApiServer
from tests.contention.shapes import Body, JobPlan

EPOCH_S = 1_767_225_600.0
"""2026-01-01T00:00:00Z is time 0."""


def timestamp(now_s: float) -> str:
    return datetime.fromtimestamp(EPOCH_S + now_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Actors:
    """Whoever reacts to changes of pods; all requests take their time at the server."""

    def __init__(self, server: ApiServer) -> None:
        self.server, self.terms = server, server.terms
        self._tasks: set[asyncio.Task[None]] = set()
        server.listeners.append(self.saw)

    def saw(self, what: str, pod: Body) -> None:
        raise NotImplementedError

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class Kubelets(Actors):
    """Run bound pods for their time, and let deleted ones go after a while."""

    def __init__(self, server: ApiServer) -> None:
        super().__init__(server)
        self.run_s: dict[str, float] = {}
        """Pod -> how long it runs."""

    def saw(self, what: str, pod: Body) -> None:
        if what == "bound":
            self.begin(self._run(pod))
        elif what == "deleting":
            self.begin(self._stop(pod))

    async def _run(self, pod: Body) -> None:
        await asyncio.sleep(self.terms.start_s)
        await self.server.served("kubelet")
        if _stays(pod):
            started = timestamp(asyncio.get_running_loop().time())
            self.server.patch_status(pod, {"phase": "Running", "startTime": started})
        await asyncio.sleep(self.run_s[pod["metadata"]["uid"]])
        await self.server.served("kubelet")
        if _stays(pod):
            self.server.patch_status(pod, {"phase": "Succeeded"})

    async def _stop(self, pod: Body) -> None:
        await asyncio.sleep(self.terms.stop_s)
        await self.server.served("kubelet")
        self.server.remove(pod)


class JobController(Actors):
    """Makes the pods of Jobs, at its rate, and those that were evicted again."""

    def __init__(self, server: ApiServer, kubelets: Kubelets, scheduler: str) -> None:
        super().__init__(server)
        self._kubelets, self._scheduler = kubelets, scheduler
        self._next_s = 0.0
        self._serial = 0
        self._plans: dict[str, tuple[JobPlan, Body]] = {}
        self.left: dict[str, int] = {}
        """Job -> pods that have not succeeded yet."""
        self._ended: set[str] = set()
        self.done = asyncio.Event()

    def submit(self, plans: tuple[JobPlan, ...]) -> None:
        """Create each Job at its time."""
        loop = asyncio.get_running_loop()
        self.left = {plan.name: plan.size for plan in plans}
        for plan in plans:
            loop.call_at(plan.at_s, self._create, plan)

    def _create(self, plan: JobPlan) -> None:
        metadata = {"name": plan.name, "namespace": plan.namespace, "uid": f"job-{plan.name}"}
        notes = {GANG_ANNOTATION: "true"} if plan.size > 1 else {}
        times = {"creationTimestamp": timestamp(asyncio.get_running_loop().time())}
        spec = {"parallelism": plan.size, "completions": plan.size, "template": {"spec": {"containers": []}}}
        job = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {**metadata, **times, "annotations": notes},
            "spec": spec,
        }
        self._plans[plan.name] = plan, job
        self.server.put_object(job)
        for _ in range(plan.size):
            self._make(plan)

    def _make(self, plan: JobPlan, after_s: float = 0.0) -> None:
        now_s = asyncio.get_running_loop().time()
        self._next_s = max(self._next_s, now_s) + 1 / self.terms.pods_per_s
        self.begin(self._make_at(plan, max(self._next_s, now_s + after_s)))

    async def _make_at(self, plan: JobPlan, at_s: float) -> None:
        await asyncio.sleep(at_s - asyncio.get_running_loop().time())
        await self.server.served("job-controller")
        pod = self._pod(plan)
        self._kubelets.run_s[pod["metadata"]["uid"]] = plan.run_s
        self.server.create(pod)

    def _pod(self, plan: JobPlan) -> Body:
        self._serial += 1
        owner = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "name": plan.name,
            "uid": f"job-{plan.name}",
            "controller": True,
        }
        limits = {name: amount for name, amount in plan.requests.items() if "/" in name}
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"{plan.name}-{self._serial:05}",
                "namespace": plan.namespace,
                "uid": f"pod-{self._serial:05}",
                "creationTimestamp": timestamp(asyncio.get_running_loop().time()),
                "labels": {**plan.labels, "job-name": plan.name},
                "annotations": dict(plan.annotations),
                "ownerReferences": [owner],
            },
            "spec": {
                "schedulerName": self._scheduler,
                "priority": plan.priority,
                "terminationGracePeriodSeconds": 0,
                "containers": [
                    {"name": "c", "image": "x", "resources": {"requests": dict(plan.requests), "limits": limits}}
                ],
            },
            "status": {"phase": "Pending"},
        }

    def saw(self, what: str, pod: Body) -> None:
        plan, job = self._plans[pod["metadata"]["labels"]["job-name"]]
        uid = pod["metadata"]["uid"]
        if pod["status"].get("phase") == "Succeeded" and uid not in self._ended:
            self._ended.add(uid)
            self.left[plan.name] -= 1
            status = {"succeeded": plan.size - self.left[plan.name], "active": self.left[plan.name]}
            self.server.put_object({**deepcopy(job), "status": status})
            if not any(self.left.values()):
                self.done.set()
        elif what == "gone" and uid not in self._ended:
            self._make(plan, self.terms.again_s)


def _stays(pod: Body) -> bool:
    return not pod["metadata"].get("deletionTimestamp")
