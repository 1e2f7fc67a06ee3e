"""Virtual kubelets: bound pods run, deleted ones end, some run to completion.

One object plays the kubelets of all nodes. With delays of zero everything happens within the step; otherwise timers of
the virtual clock bring it about. A pod on a node that does not exist has no kubelet and stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from math import inf

from moorage.adapters.memory.changes import ChangeType
from moorage.adapters.memory.clock import Timer
from moorage.adapters.memory.objects import (
    FINISHED,
    KubeObject,
    condition_of,
    is_terminating,
    metadata_of,
    node_of,
    spec_of,
    status_of,
    timestamp,
    uid_of,
    with_conditions,
)
from moorage.adapters.memory.store import Store
from moorage.core.values import dataclass

RUN_SECONDS = "moorage.dev/run-seconds"
"""Annotation of a pod: it succeeds after running for so long."""
_SECONDS = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?", re.ASCII)
_RUNNING = tuple({"type": name, "status": "True"} for name in ("Initialized", "ContainersReady", "Ready"))
_COMPLETED = tuple({"type": name, "status": "False", "reason": "PodCompleted"} for name in ("ContainersReady", "Ready"))
_BEGUN = FINISHED | {"Running"}


@dataclass(frozen=True, slots=True)
class KubeletOptions:
    """How long things take."""

    start_delay_s: float = 0.0
    """From being bound to Running."""
    stop_delay_s: float | None = 0.0
    """From deletion to the end, at most the grace period; None: the whole grace period."""
    run_s: float | None = None
    """How long pods run that do not restart always, unless annotated; None: for ever."""
    ready_nodes: bool = True
    """Give nodes without a Ready condition one that says True."""


class Kubelets:
    """The kubelets of all nodes of a store."""

    def __init__(self, store: Store, options: KubeletOptions) -> None:
        self._store = store
        self._options = options
        self._watch = store.watch(("Node", "Pod"), replay=True)
        self._timers: dict[str, Timer] = {}
        self._stopping: dict[str, float] = {}
        """Delay that a terminating pod was given; only a shorter one changes it."""

    def step(self) -> None:
        """Look at every pod and node that changed."""
        for change in self._watch.pull():
            if change.kind == "Node":
                if change.type is ChangeType.ADDED:
                    self._join(change.object)
            elif change.type is ChangeType.DELETED:
                self._cancel(uid_of(change.object))
                self._stopping.pop(uid_of(change.object), None)
            elif node_of(change.object) and _needs_a_look(change.object):
                self._look_at(uid_of(change.object))

    def _join(self, node: KubeObject) -> None:
        name = node["metadata"]["name"]
        present = self._store.find("Node", "", name)
        if present is None:
            return
        if self._options.ready_nodes and not condition_of(present, "Ready"):
            self._store.set_condition("Node", "", name, {"type": "Ready", "status": "True", "reason": "KubeletReady"})
        for pod in self._store.pods_on(name):
            self._look_at(uid_of(pod))

    def _look_at(self, uid: str) -> None:
        """Do, or set a timer for, whatever comes next in the life of a bound pod."""
        pod = self._store.find_uid(uid)
        if pod is None or self._store.find("Node", "", node_of(pod)) is None:
            return
        if is_terminating(pod):
            delay_s = self._stop_delay_s(pod)
            if delay_s < self._stopping.get(uid, inf):
                self._stopping[uid] = delay_s
                self._after(uid, delay_s, self._end)
        elif status_of(pod).get("phase") not in _BEGUN and uid not in self._timers:
            self._after(uid, self._options.start_delay_s, self._run)

    def _stop_delay_s(self, pod: KubeObject) -> float:
        grace_s = float(metadata_of(pod).get("deletionGracePeriodSeconds") or 0)
        return grace_s if self._options.stop_delay_s is None else min(grace_s, self._options.stop_delay_s)

    def _run_s(self, pod: KubeObject) -> float | None:
        annotated = (metadata_of(pod).get("annotations") or {}).get(RUN_SECONDS)
        if annotated is not None:
            return parse_seconds(str(annotated))
        return None if spec_of(pod).get("restartPolicy", "Always") == "Always" else self._options.run_s

    def _run(self, pod: KubeObject) -> None:
        if is_terminating(pod) or status_of(pod).get("phase") in FINISHED:
            return
        now_s = self._store.clock.now_s
        status = {"startTime": timestamp(now_s), **status_of(pod), "phase": "Running"}
        self._store.put_status(pod, with_conditions(status, _RUNNING, now_s))
        run_s = self._run_s(pod)
        if run_s is not None:
            self._after(uid_of(pod), run_s, self._succeed)

    def _succeed(self, pod: KubeObject) -> None:
        if is_terminating(pod):
            return
        status = {**status_of(pod), "phase": "Succeeded"}
        self._store.put_status(pod, with_conditions(status, _COMPLETED, self._store.clock.now_s))

    def _end(self, pod: KubeObject) -> None:
        metadata = pod["metadata"]
        self._store.delete("Pod", metadata["namespace"], metadata["name"], grace_s=0, uid=metadata["uid"])

    def _after(self, uid: str, delay_s: float, action: Callable[[KubeObject], None]) -> None:
        """Do it now, or set the pod's one timer to it in place of what it was set to."""
        self._cancel(uid)
        if delay_s > 0:
            self._timers[uid] = self._store.clock.after(delay_s, partial(self._fire, uid, action))
        else:
            self._fire(uid, action)

    def _fire(self, uid: str, action: Callable[[KubeObject], None]) -> None:
        self._timers.pop(uid, None)
        pod = self._store.find_uid(uid)
        if pod is not None and self._store.find("Node", "", node_of(pod)) is not None:
            action(pod)

    def _cancel(self, uid: str) -> None:
        timer = self._timers.pop(uid, None)
        if timer is not None:
            timer.cancel()


def _needs_a_look(pod: KubeObject) -> bool:
    """Whether a kubelet may have something to do for a bound pod; spares those that just run."""
    return is_terminating(pod) or status_of(pod).get("phase") not in _BEGUN


def parse_seconds(text: str) -> float | None:
    """What `RUN_SECONDS` says; None if that is no number of seconds."""
    return float(text) if _SECONDS.fullmatch(text) else None
