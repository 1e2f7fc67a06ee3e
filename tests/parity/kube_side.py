"""Questions put to the real kube-scheduler, on a real API server without controllers.

One kube-scheduler serves all questions, one question after the other; between two of them everything that belongs to a
question is removed. What it scored stands in its log (`--vmodule=schedule_one=10`), everything else in the objects.
"""

from __future__ import annotations

import http.client
import json
import re
import ssl
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import yaml

from moorage.bench.controlplane import ADMIN, ControlPlane
from moorage.wire.kinds import KINDS
from tests.parity import claim_side
from tests.parity.moorage_side import CONFIG
from tests.parity.questions import Key, Object, Question, World, key_of

SETTLE_S = 0.02
"""Between the last change and the pod: watches of different kinds are not in step."""
PATIENCE_S = 15.0
STUCK_S = 3.0
"""After this a preemptor is taken to be stuck: kube-scheduler does not wake one that host ports kept out if the last of
its victims to go was not the one that had the port."""
ALONE_S = 0.3
"""How long a pod is watched that kube-scheduler is not expected to try."""
_POLL_S = 0.004
_SCORE = re.compile(
    r'"Plugin scored node for pod" pod="(?P<pod>[^"]+)" plugin="(?P<plugin>[^"]+)" node="(?P<node>[^"]+)"'
    r" score=(?P<score>-?\d+)"
)
_WITH_STATUS = frozenset(
    {"Node", "Pod", "PersistentVolume", "PersistentVolumeClaim", "PodDisruptionBudget", claim_side.CLAIM}
)
_MAKING_ROOM = (
    "found a potential placement",
    "deallocation of ResourceClaim completed",
    "deletion of ResourceClaim completed",
)
"""Conditions after which the pod is tried again at once."""
_AT_ONCE = {"gracePeriodSeconds": 0, "propagationPolicy": "Background"}
"""Without a policy, ReplicationControllers stay until a controller that does not run lets go of their pods."""
_LASTING = ("Namespace", "PriorityClass")
"""Kinds whose objects are the same in all questions."""
_PATHS = {kind.name: (kind.path(), kind.namespaced) for kind in reversed(KINDS)}


class RefusedError(Exception):
    """The API server does not take an object: the question is not one."""


class LeftoverError(Exception):
    """An object of a question cannot be removed: all further questions would be about another cluster."""


class KubeSide:
    """The real scheduler and its API server."""

    def __init__(self, plane: ControlPlane, log: Path, *, patience_s: float = PATIENCE_S) -> None:
        self._plane, self._patience_s = plane, patience_s
        self._host = plane.url.removeprefix("https://")
        self._tls = ssl.create_default_context(cafile=str(plane.token_folder / "ca.crt"))
        self._connection: http.client.HTTPSConnection | None = None
        self._headers = {"Authorization": f"Bearer {plane.token_of(ADMIN.name)}"}
        self._log = log
        self._log_end = 0
        self._made: set[Key] = set()
        self._lasting: set[Key] = set()

    def close(self) -> None:
        """Let go of the connection."""
        if self._connection is not None:
            self._connection.close()

    # --- the cluster ---

    @contextmanager
    def cluster(self, question: Question) -> Iterator[World]:
        """The objects of a question on the API server, for the length of the block."""
        try:
            for obj in question.objects:
                self.put(obj)
            yield World(question.objects)
        finally:
            self.clear()

    def put(self, obj: Object) -> None:
        """Create an object, or bring the one of its name to the same state."""
        key = key_of(obj)
        if key in self._lasting:
            return
        body = obj
        if key in self._made:
            self._ask("PATCH", self._path(key), _replacing(obj))
        else:
            status, answer = self._request("POST", self._path(key, collection=True), body)
            if status == 409 and obj["kind"] in _LASTING:
                self._ask("PATCH", self._path(key), {"metadata": obj["metadata"]})
            elif status != 201:
                raise RefusedError(f"{key}: {answer.get('message', answer)}")
            (self._lasting if obj["kind"] in _LASTING else self._made).add(key)
        if obj["kind"] in _WITH_STATUS and obj.get("status"):
            self._ask("PATCH", self._path(key) + "/status", {"status": obj["status"]})

    def remove(self, key: Key) -> None:
        """Delete an object at once, and again until it is gone: finalizers, or an API server that is busy."""
        deadline_s = time.monotonic() + self._patience_s
        while (why := self._kept(key)) is not None:
            if time.monotonic() > deadline_s:
                raise LeftoverError(f"{'/'.join(filter(None, key))} cannot be removed from the API server: {why}")
            time.sleep(_POLL_S)
        self._made.discard(key)

    def _kept(self, key: Key) -> str | None:
        """Try to delete an object; why it is still there, None if it is gone."""
        if key[0] == claim_side.CLAIM:
            self._request("PATCH", self._path(key), {"metadata": {"finalizers": None}})
        deleted, answer = self._request("DELETE", self._path(key), _AT_ONCE)
        if deleted not in (200, 202, 404):
            return str(answer.get("message", answer))
        status, found = self._request("GET", self._path(key))
        if status == 404:
            return None
        metadata = found.get("metadata", {})
        return f"it has the finalizers {metadata['finalizers']}" if metadata.get("finalizers") else f"GET says {status}"

    def clear(self) -> None:
        """Remove what belongs to the question: pods first, nodes last."""
        try:
            self._made |= {key_of(claim) for claim in self.claims()}
            for key in sorted(self._made, key=lambda key: (key[0] != "Pod", key[0] == "Node")):
                self.remove(key)
        except (RefusedError, http.client.HTTPException, OSError) as error:
            raise LeftoverError(f"the objects of a question cannot be removed from the API server: {error}") from error

    # --- the question ---

    def ask(self, pod: Object, *, settle_s: float = SETTLE_S) -> dict[str, Any]:
        """What kube-scheduler does with a pod; afterwards it is on its node, or removed."""
        time.sleep(settle_s)
        before = self._pods()
        self._log_end = self._log.stat().st_size
        self.put(pod)
        key = key_of(pod)
        self._make_claims(key)
        found = self._decided(key) if self._may_be_tried(pod) else self._left_alone(key)
        verdict: dict[str, Any] = {
            "node": found["spec"].get("nodeName"),
            "scores": self._scores(f"{key[1]}/{key[2]}"),
            "message": None,
            **self._devices(found),
        }
        verdict["bound"] = verdict["node"] is not None
        if verdict["node"] is None:
            condition = _scheduled(found)
            # Chosen, and waiting for volumes that nobody will bind, or stuck: the node is written down before.
            verdict["node"] = found["status"].get("nominatedNodeName")
            verdict["message"] = None if condition is None or verdict["node"] else condition.get("message")
        victims = sorted(before - self._pods())
        if victims:
            verdict = {**verdict, "scores": {}, "victims": [f"{namespace}/{name}" for _, namespace, name in victims]}
            self._made.difference_update(victims)
        if not verdict["bound"]:
            self.remove(key)
            self._collect(found["metadata"]["uid"])
        return verdict

    # --- device claims ---

    def claims(self) -> list[Object]:
        """The device claims of the question, as the API server has them."""
        items = self._ask("GET", _PATHS[claim_side.CLAIM][0])["items"]
        return [claim_side.cleaned(item) for item in items]

    def _make_claims(self, key: Key) -> None:
        """Do the claim controller's part: kube-scheduler does not try the pod before."""
        pod = self.read(key)
        claims, statuses = claim_side.make_claims(pod, self.read)
        for claim in claims:
            self.put(claim)
        if statuses:
            self._ask("PATCH", self._path(key) + "/status", {"status": {"resourceClaimStatuses": statuses}})

    def _may_be_tried(self, pod: Object) -> bool:
        """Whether the claims are there that the pod names; before that it is not tried, and gets no condition."""
        names = [entry.get("resourceClaimName") for entry in pod["spec"].get("resourceClaims") or ()]
        keys = [(claim_side.CLAIM, pod["metadata"]["namespace"], name) for name in names if name]
        return all(self._request("GET", self._path(key))[0] == 200 for key in keys)

    def _left_alone(self, key: Key) -> Object:
        time.sleep(ALONE_S)
        return self.read(key)

    def _devices(self, pod: Object) -> dict[str, Any]:
        """What the verdict says of devices, if there are claims in the question."""
        claims = self.claims()
        special = pod["status"].get("extendedResourceClaimStatus")
        return {"claims": claim_side.told(claims), "extendedResourceClaimStatus": special} if claims else {}

    def _collect(self, uid: str) -> None:
        """Remove the claims that were made for a pod which is gone."""
        for claim in self.claims():
            if any(owner["uid"] == uid for owner in claim["metadata"].get("ownerReferences") or ()):
                self.remove(key_of(claim))

    def read(self, key: Key) -> Object:
        """An object as the API server has it."""
        return self._ask("GET", self._path(key))

    def _decided(self, key: Key) -> Object:
        """Wait until the pod has a node, or a reason why not that will not change."""
        deadline_s = time.monotonic() + PATIENCE_S
        stuck_s = time.monotonic() + STUCK_S
        while True:
            found = self.read(key)
            status = found.get("status", {})
            condition = _scheduled(found)
            if found["spec"].get("nodeName"):
                return found
            nominated = status.get("nominatedNodeName")
            if nominated and _has_devices(found):
                if claim_side.awaits_driver(found, self.claims()):
                    return found
            elif (condition is None) == bool(nominated) and not _makes_room(condition):
                return found
            if nominated and time.monotonic() > stuck_s:
                return found
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"kube-scheduler has not decided on {key} after {PATIENCE_S:.0f} s: {status}")
            time.sleep(_POLL_S)

    def _pods(self) -> set[Key]:
        items = self._ask("GET", "/api/v1/pods")["items"]
        return {("Pod", item["metadata"]["namespace"], item["metadata"]["name"]) for item in items}

    def _scores(self, pod: str) -> dict[str, dict[str, int]]:
        """Node -> plugin -> weighted score, of the last attempt."""
        scores: dict[str, dict[str, int]] = {}
        with self._log.open() as lines:
            lines.seek(self._log_end)
            for line in lines:
                if '"Attempting to schedule pod"' in line and f'pod="{pod}"' in line:
                    scores.clear()
                found = _SCORE.search(line)
                if found and found["pod"] == pod:
                    scores.setdefault(found["node"], {})[found["plugin"]] = int(found["score"])
        return scores

    # --- requests ---

    def _path(self, key: Key, *, collection: bool = False) -> str:
        kind, namespace, name = key
        path, namespaced = _PATHS[kind]
        if namespaced:
            head, _, plural = path.rpartition("/")
            path = f"{head}/namespaces/{namespace or 'default'}/{plural}"
        return path if collection else f"{path}/{name}"

    def _ask(self, method: str, path: str, body: object = None) -> Object:
        status, answer = self._request(method, path, body)
        if status >= 300:
            raise RefusedError(f"{method} {path}: {answer.get('message', answer)}")
        return answer

    def _request(self, method: str, path: str, body: object = None) -> tuple[int, Object]:
        """One request on a connection that is kept: there are thousands."""
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        # Compact and sorted, as kube-scheduler 1.37.1 compares parameters of devices byte by byte.
        content = None if body is None else json.dumps(body, separators=(",", ":"), sort_keys=True)
        for attempt in (1, 2):
            if self._connection is None:
                self._connection = http.client.HTTPSConnection(self._host, context=self._tls, timeout=30)
            try:
                self._connection.request(method, path, content, {**self._headers, "Content-Type": kind})
                response = self._connection.getresponse()
                return response.status, json.loads(response.read())
            except (http.client.HTTPException, OSError):
                self._connection.close()
                self._connection = None
                if attempt == 2:
                    raise
        raise AssertionError("unreachable")


@contextmanager
def kube_scheduler() -> Iterator[KubeSide]:
    """A control plane of its own with a kube-scheduler that considers everything."""
    config = yaml.safe_load(CONFIG.read_text())
    config["clientConnection"] = {"qps": 1000, "burst": 1000}
    for profile in config["profiles"]:
        args = {"minCandidateNodesPercentage": 100, "minCandidateNodesAbsolute": 100}
        profile.setdefault("pluginConfig", []).append({"name": "DefaultPreemption", "args": args})
    with ControlPlane.start() as plane:
        scheduler = plane.start_scheduler("--vmodule=schedule_one=10", config=config)
        with closing(KubeSide(plane, scheduler.log)) as side:
            yield side


def _scheduled(pod: Object) -> Object | None:
    """The PodScheduled condition that says no."""
    for condition in pod.get("status", {}).get("conditions", ()):
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            found: Object = condition
            return found
    return None


def _makes_room(condition: Object | None) -> bool:
    message = (condition or {}).get("message", "")
    return any(text in message for text in _MAKING_ROOM)


def _has_devices(pod: Object) -> bool:
    """Whether a pod is on its way to a node while its claims are written."""
    return bool(pod["spec"].get("resourceClaims")) or not pod["spec"].get("volumes")


def _replacing(obj: Object) -> Object:
    """A merge patch that brings an object of the cluster to this state, fields that are gone included."""
    metadata, spec = obj["metadata"], obj.get("spec", {})
    patch: Object = {"metadata": {"labels": {**dict.fromkeys(_all_label_keys(), None), **metadata.get("labels", {})}}}
    if obj["kind"] == "ResourceSlice":
        patch["spec"] = spec
    if obj["kind"] == "Node":
        patch["spec"] = {"taints": spec.get("taints"), "unschedulable": spec.get("unschedulable")}
    return patch


def _all_label_keys() -> Iterable[str]:
    from tests.parity.drawing.nodes import LABEL_VALUES, REGION, ZONE  # noqa: PLC0415

    return (*LABEL_VALUES, REGION, ZONE)
