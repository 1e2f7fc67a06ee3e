"""The admission policy of docs/queues.md on the real API server: labels of queues stay as they were."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.controlplane_fixtures import PlaneFactory
from tests.patience import eventually

PAGE = Path(__file__).parents[2] / "docs" / "queues.md"
PLURALS = {
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
}
PODS = "/api/v1/namespaces/default/pods"


@pytest.mark.since(1, 30, "ValidatingAdmissionPolicy in v1")
def test_labels_of_running_pods_stay_as_they_were(fresh_control_plane: PlaneFactory) -> None:
    """Neither changed nor added nor dropped; other labels are free."""
    plane = fresh_control_plane()
    (text,) = re.findall(r"```text\n(apiVersion: admissionregistration.*?)```", PAGE.read_text(), re.DOTALL)
    for document in yaml.safe_load_all(text):
        plural = PLURALS[document["kind"]]
        answer = plane.request("POST", f"/apis/admissionregistration.k8s.io/v1/{plural}", document)
        assert answer.status == 201, answer.content
    spec = {"containers": [{"name": "c", "image": "i"}], "schedulerName": "nobody"}
    for name, labels in (("named", {"moorage.dev/queue": "a"}), ("plain", {}), ("bare", None)):
        metadata = {"name": name} | ({} if labels is None else {"labels": labels})
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        assert plane.request("POST", PODS, pod).status == 201

    def status(name: str, labels: dict[str, Any]) -> int:
        return plane.request("PATCH", f"{PODS}/{name}", {"metadata": {"labels": labels}}).status

    another = map("q{}".format, itertools.count())
    eventually(lambda: status("named", {"moorage.dev/queue": next(another)}) == 422, 60, "the policy is in force")
    assert status("named", {"moorage.dev/queue": None}) == 422
    assert status("named", {"moorage.dev/preemptible": "false"}) == 422
    assert status("plain", {"moorage.dev/queue": "a"}) == 422
    assert status("bare", {"moorage.dev/queue": "a"}) == 422
    assert [status(name, {"colour": "blue"}) for name in ("named", "plain", "bare")] == [200, 200, 200]
