"""Valid workloads of the kinds that are gangs without a PodGroup, by kind."""

from __future__ import annotations

from typing import Any

_COUNTED = {"replicas": 2, "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": []}}}
_POLICY = {"schedulingPolicy": {"minAvailable": 2}, "cleanPodPolicy": "Running"}


def _kubeflow(specs: str, **more: Any) -> dict[str, Any]:
    return {
        "spec": {specs: {"Master": {**_COUNTED, "replicas": 1}, "Worker": _COUNTED}, "runPolicy": _POLICY, **more},
        "status": {"replicaStatuses": {"Worker": {"active": 1, "succeeded": 1}}},
    }


WORKLOADS: dict[str, dict[str, Any]] = {
    "PodGang": {
        "spec": {
            "podgroups": [
                {"name": "a", "minReplicas": 2, "podReferences": [{"namespace": "default", "name": "a-0"}]},
                {"name": "b", "minReplicas": 1, "podReferences": [{"namespace": "default", "name": "b-0"}]},
            ],
            "priorityClassName": "high",
        }
    },
    "JobSet": {
        "spec": {
            "startupPolicy": {"startupPolicyOrder": "InOrder"},
            "replicatedJobs": [
                {"name": "a", "replicas": 2, "template": {"spec": {"parallelism": 4, "completions": 4}}},
                {
                    "name": "b",
                    "replicas": 1,
                    "dependsOn": [{"name": "a", "status": "Ready"}],
                    "template": {"metadata": {"annotations": {"a": "b"}}, "spec": {"parallelism": 2}},
                },
            ],
            "suspend": False,
        }
    },
    "LeaderWorkerSet": {
        "spec": {
            "replicas": 3,
            "startupPolicy": "LeaderReady",
            "leaderWorkerTemplate": {"size": 4, "subGroupPolicy": {}},
        }
    },
    "TrainJob": {"spec": {"runtimeRef": {"name": "torch"}, "trainer": {"numNodes": 2}}},
    "PyTorchJob": _kubeflow("pytorchReplicaSpecs", elasticPolicy={"minReplicas": 1, "maxReplicas": 3}),
    "TFJob": _kubeflow("tfReplicaSpecs"),
    "XGBoostJob": _kubeflow("xgbReplicaSpecs"),
    "JAXJob": _kubeflow("jaxReplicaSpecs"),
    "PaddleJob": _kubeflow("paddleReplicaSpecs", elasticPolicy={"minReplicas": 1}),
    "MPIJob": {
        "spec": {
            "mpiReplicaSpecs": {"Launcher": {**_COUNTED, "replicas": 1}, "Worker": _COUNTED},
            "runPolicy": _POLICY,
            "launcherCreationPolicy": "WaitForWorkersReady",
        }
    },
    "RayCluster": {
        "spec": {
            "headGroupSpec": {"template": {"spec": {"containers": []}}},
            "workerGroupSpecs": [
                {
                    "groupName": "gpu",
                    "replicas": 2,
                    "minReplicas": 1,
                    "maxReplicas": 4,
                    "numOfHosts": 2,
                    "suspend": False,
                }
            ],
        }
    },
    "RayJob": {"spec": {"entrypoint": "python a.py", "suspend": False}},
    "RayService": {"spec": {"rayClusterConfig": {"headGroupSpec": {}}}},
    "SparkApplication": {"spec": {"driver": {"cores": 1}, "executor": {"instances": 2, "cores": 1}}},
    "AppWrapper": {"spec": {"components": [{"podSets": [{"replicas": 2, "path": "template.spec.template"}]}]}},
    "Revision": {"spec": {"containers": []}},
}
