"""Claims are made from templates, given back when their pods are gone, and drivers are ready at once."""

from __future__ import annotations

from typing import Any

from moorage.adapters.memory.cluster import SIMULATION, EmbeddedCluster
from moorage.adapters.memory.objects import KubeObject, status_of
from moorage.core.claims import DELETE_PROTECTION

API = "resource.k8s.io/v1"
SPEC = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}


def template() -> KubeObject:
    metadata = {"name": "t", "namespace": "default"}
    spec = {"metadata": {"labels": {"a": "b"}}, "spec": SPEC}
    return {"apiVersion": API, "kind": "ResourceClaimTemplate", "metadata": metadata, "spec": spec}


def pod(name: str = "p") -> KubeObject:
    claims = [{"name": "gpu", "resourceClaimTemplateName": "t"}, {"name": "own", "resourceClaimName": "shared"}]
    spec = {"containers": [{"name": "c"}], "resourceClaims": claims}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def claims_of(cluster: EmbeddedCluster) -> list[KubeObject]:
    cluster.step()
    return cluster.store.list("ResourceClaim")


def test_a_pod_gets_the_claims_of_its_templates() -> None:
    """As soon as the template is there; the pod's status names them, and they belong to it."""
    cluster = EmbeddedCluster(SIMULATION)
    made = cluster.create(pod())
    assert claims_of(cluster) == []
    cluster.create(template())
    (claim,) = claims_of(cluster)
    metadata = claim["metadata"]
    assert metadata["name"].startswith("p-gpu-")
    assert metadata["ownerReferences"][0]["uid"] == made["metadata"]["uid"]
    assert metadata["annotations"] == {"resource.kubernetes.io/pod-claim-name": "gpu"}
    assert (metadata["labels"], claim["spec"]) == ({"a": "b"}, SPEC)
    statuses = status_of(cluster.store.get("Pod", "default", "p"))["resourceClaimStatuses"]
    assert statuses == [{"name": "gpu", "resourceClaimName": metadata["name"]}]
    assert len(claims_of(cluster)) == 1


def reserved(cluster: EmbeddedCluster, *uids: str) -> dict[str, Any]:
    consumers = [{"resource": "pods", "name": uid, "uid": uid} for uid in uids]
    result = {"request": "r", "driver": "d", "pool": "p", "device": "g", "bindingConditions": ["ready"]}
    body = {"apiVersion": API, "kind": "ResourceClaim", "metadata": {"name": "shared", "namespace": "default"}}
    cluster.create({**body, "spec": SPEC})
    status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": consumers}
    return dict(cluster.store.patch_status("ResourceClaim", "default", "shared", status))


def test_drivers_set_binding_conditions() -> None:
    """Of the devices that have some."""
    cluster = EmbeddedCluster(SIMULATION)
    reserved(cluster, "u")
    (claim,) = claims_of(cluster)
    (device,) = status_of(claim)["devices"]
    assert (device["driver"], device["pool"], device["device"]) == ("d", "p", "g")
    assert [(each["type"], each["status"]) for each in device["conditions"]] == [("ready", "True")]


def test_the_last_pod_gives_the_devices_back() -> None:
    """Others keep them."""
    cluster = EmbeddedCluster(SIMULATION)
    uids = [cluster.create(pod(name))["metadata"]["uid"] for name in ("p", "q")]
    reserved(cluster, *uids)
    cluster.step()
    cluster.store.delete("Pod", "default", "p", grace_s=0)
    (claim,) = claims_of(cluster)
    assert [each["uid"] for each in status_of(claim)["reservedFor"]] == uids[1:]
    cluster.store.delete("Pod", "default", "q", grace_s=0)
    (claim,) = claims_of(cluster)
    assert not any(status_of(claim).get(field) for field in ("allocation", "reservedFor", "devices"))


def test_a_claim_that_no_pod_has_used_goes_when_it_is_deleted() -> None:
    """All that holds it is the finalizer that the scheduler wrote before the devices."""
    cluster = EmbeddedCluster(SIMULATION)
    cluster.create(template())
    cluster.create(pod())
    (claim,) = claims_of(cluster)
    kind, namespace, name = "ResourceClaim", "default", claim["metadata"]["name"]
    cluster.patch(kind, namespace, name, {"metadata": {"finalizers": [DELETE_PROTECTION]}})
    cluster.delete(kind, namespace, name)
    cluster.step()
    assert cluster.store.find(kind, namespace, name) is None
