"""Preemption for devices from a file to the report."""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path
from typing import Any

import pytest

from moorage.cli.simulate import SimulateOptions, answer

CLUSTER = """
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {cpu: "8", memory: 32Gi, pods: "110"}}
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu}
spec: {extendedResourceName: example.com/gpu}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: s}
spec:
  driver: gpu.example.com
  nodeName: n1
  pool: {name: n1, generation: 1, resourceSliceCount: 1}
  devices: [{name: g0}]
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: one-gpu, namespace: default}
spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu}}]}}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata:
  name: low-gpu
  namespace: default
  finalizers: [resource.kubernetes.io/delete-protection]
  ownerReferences: [{apiVersion: v1, kind: Pod, name: low, uid: low-uid, controller: true}]
spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu}}]}}
status:
  allocation:
    devices: {results: [{request: gpu, driver: gpu.example.com, pool: n1, device: g0}]}
    nodeSelector: {nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: In, values: [n1]}]}]}
  reservedFor: [{resource: pods, name: low, uid: low-uid}]
---
apiVersion: v1
kind: Pod
metadata: {name: low, namespace: default, uid: low-uid}
spec:
  nodeName: n1
  priority: 0
  containers: [{name: main, image: x, resources: {claims: [{name: gpu}]}}]
  resourceClaims: [{name: gpu, resourceClaimTemplateName: one-gpu}]
status: {phase: Running, resourceClaimStatuses: [{name: gpu, resourceClaimName: low-gpu}]}
---
apiVersion: v1
kind: Pod
metadata: {name: also-low, namespace: default}
spec:
  priority: 0
  containers: [{name: main, image: x, resources: {claims: [{name: gpu}]}}]
  resourceClaims: [{name: gpu, resourceClaimTemplateName: one-gpu}]
---
apiVersion: v1
kind: Pod
metadata: {name: urgent, namespace: default}
"""
BY_CLAIM = """
spec:
  priority: 1000
  containers: [{name: main, image: x, resources: {claims: [{name: gpu}]}}]
  resourceClaims: [{name: gpu, resourceClaimTemplateName: one-gpu}]
"""
BY_RESOURCE = """
spec:
  priority: 1000
  containers: [{name: main, image: x, resources: {limits: {example.com/gpu: "1"}}}]
"""
CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - schedulerName: default-scheduler
    pluginConfig: [{name: DynamicResources, args: {preemptDevices: ON}}]
"""


def simulated(folder: Path, spec: str, on: str) -> dict[str, Any]:
    (folder / "cluster.yaml").write_text(CLUSTER + spec)
    (folder / "config.yaml").write_text(CONFIG.replace("ON", on))
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        files = [str(folder / "cluster.yaml")]
        answer(SimulateOptions(files=files, config_file=str(folder / "config.yaml"), output_format="json"))
    found: dict[str, Any] = json.loads(out.getvalue())
    return found


@pytest.mark.parametrize(
    "spec", [pytest.param(BY_CLAIM, id="by claim"), pytest.param(BY_RESOURCE, id="by extended resource")]
)
def test_the_preemptor_gets_the_device(tmp_path: Path, spec: str) -> None:
    """Before any other pod that waits for it; without the argument nobody is evicted."""
    found = simulated(tmp_path, spec, "true")
    pods = {pod["name"]: pod for pod in found["pods"]}
    assert (pods["urgent"]["node"], pods["urgent"]["victims"]) == ("n1", ["default/low"])
    assert pods["also-low"]["node"] is None
    users = [
        (device["device"], [user["name"] for user in claim["reservedFor"]])
        for claim in found["claims"].values()
        for device in (claim["allocation"] or {"devices": {"results": []}})["devices"]["results"]
    ]
    assert users == [("g0", ["urgent"])]
    off = simulated(tmp_path, spec, "false")
    assert (off["evictions"], off["summary"]["pending"]) == ([], 2)
