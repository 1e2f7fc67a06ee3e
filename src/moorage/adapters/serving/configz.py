"""The effective configuration as `/configz` shows it: a `KubeSchedulerConfiguration` with nothing left to be defaulted.

Every profile names its plugins point by point, in the order in which they run, with every argument; so it can be read
as a configuration file again and then means the same. Keys of extenders are left out.
"""

from __future__ import annotations

import base64
import contextlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from moorage.framework.arguments import PluginArgs
from moorage.framework.configuration import ALL, ClientConnection, Configuration, Extender, LeaderElection
from moorage.framework.plugin import Point
from moorage.framework.profiles import Profile
from moorage.framework.trying import TRIAL_KIND, Limit, TrialConfiguration, TrialPods

_API_VERSION = "kubescheduler.config.k8s.io/v1"
_TRIAL_API_VERSION = "moorage.dev/v1alpha1"


def configz(configuration: Configuration, profiles: Sequence[Profile]) -> bytes:
    """The answer of `/configz`, under the name that kube-scheduler gives it; a trial has a name of its own."""
    answer = {"componentconfig": effective_document(configuration, profiles)}
    if configuration.trial is not None:
        answer["trialconfig"] = trial_document(configuration.trial)
    return json.dumps(answer).encode()


def documents(configuration: Configuration, profiles: Sequence[Profile]) -> list[dict[str, Any]]:
    """Everything that a scheduler runs with, as the documents of one file."""
    trial = [] if configuration.trial is None else [trial_document(configuration.trial)]
    return [effective_document(configuration, profiles), *trial]


def effective_document(configuration: Configuration, profiles: Sequence[Profile]) -> dict[str, Any]:
    """The configuration that runs, as a document."""
    document = {
        "apiVersion": _API_VERSION,
        "kind": "KubeSchedulerConfiguration",
        "parallelism": configuration.parallelism,
        "leaderElection": _leader_election(configuration.leader_election),
        "clientConnection": _client_connection(configuration.client_connection),
        "enableProfiling": configuration.enable_profiling,
        "enableContentionProfiling": configuration.enable_contention_profiling,
        "percentageOfNodesToScore": configuration.percentage_of_nodes_to_score,
        "podInitialBackoffSeconds": configuration.pod_initial_backoff_s,
        "podMaxBackoffSeconds": configuration.pod_max_backoff_s,
        "profiles": [_profile(profile) for profile in profiles],
        "delayCacheUntilActive": configuration.delay_cache_until_active,
    }
    if configuration.extenders:
        document["extenders"] = [_extender(extender) for extender in configuration.extenders]
    return document


def trial_document(trial: TrialConfiguration) -> dict[str, Any]:
    """A trial as a document; its profiles stand in it, wherever they were read."""
    limits = trial.limits
    return {
        "apiVersion": _TRIAL_API_VERSION,
        "kind": TRIAL_KIND,
        "name": trial.name,
        "pods": _trial_pods(trial.pods),
        "duration": _duration(trial.duration_s),
        "atEnd": trial.at_end.value,
        "profiles": [_profile(profile) for profile in trial.built],
        "worse": {
            "minSamples": limits.min_samples,
            "for": _duration(limits.lasting_s),
            "pending": _limit(limits.pending),
            "evictions": _limit(limits.evictions),
            "failedBinds": _limit(limits.failed_binds),
            "waitingP99": {"ratio": limits.waiting_p99.ratio, "amount": _duration(limits.waiting_p99.amount)},
        },
    }


def _trial_pods(pods: TrialPods) -> dict[str, Any]:
    document: dict[str, Any] = {"workloadPercent": pods.workload_percent}
    if pods.namespaces is not None:
        document["namespaces"] = list(pods.namespaces)
    if pods.namespace_selector is not None:
        document["namespaceSelector"] = {
            "matchExpressions": [
                {"key": each.key, "operator": each.operator.value, "values": list(each.values)}
                for each in pods.namespace_selector.requirements
            ]
        }
    return document


def _limit(limit: Limit) -> Mapping[str, float]:
    return {"ratio": limit.ratio, "amount": limit.amount}


def _leader_election(election: LeaderElection) -> dict[str, Any]:
    return {
        "leaderElect": election.leader_elect,
        "leaseDuration": _duration(election.lease_duration_s),
        "renewDeadline": _duration(election.renew_deadline_s),
        "retryPeriod": _duration(election.retry_period_s),
        "resourceLock": election.resource_lock,
        "resourceName": election.resource_name,
        "resourceNamespace": election.resource_namespace,
    }


def _client_connection(connection: ClientConnection) -> dict[str, Any]:
    return {
        "kubeconfig": connection.kubeconfig,
        "acceptContentTypes": connection.accept_content_types,
        "contentType": connection.content_type,
        "qps": connection.qps,
        "burst": connection.burst,
    }


def _profile(profile: Profile) -> dict[str, Any]:
    plugins: dict[str, Any] = {"multiPoint": {"disabled": [{"name": ALL}]}}
    if profile.pointless:
        plugins["multiPoint"]["enabled"] = [{"name": plugin.name} for plugin in profile.pointless]
    for point in Point:
        names = [plugin.name for plugin in profile.at(point)]
        enabled = [{"name": n, "weight": profile.weights[n]} if point is Point.SCORE else {"name": n} for n in names]
        if enabled:
            plugins[point.value] = {"enabled": enabled}
    return {
        "schedulerName": profile.scheduler_name,
        "plugins": plugins,
        "pluginConfig": list(_arguments(profile)),
    }


def _arguments(profile: Profile) -> Iterable[dict[str, Any]]:
    for plugin in profile.plugins:
        if isinstance(plugin.args, PluginArgs) and type(plugin.args).model_fields:
            yield {"name": plugin.name, "args": _readable(plugin.args)}


def _readable(args: PluginArgs) -> dict[str, Any]:
    """The arguments as they would be written; a number that is not accepted there was a duration."""
    document = args.model_dump(mode="json", by_alias=True, exclude_none=True)
    try:
        type(args).model_validate_json(json.dumps(document))
    except ValidationError as error:
        for problem in error.errors():
            with contextlib.suppress(LookupError, TypeError):
                *path, last = problem["loc"]
                place: Any = document
                for step in path:
                    place = place[step]
                if isinstance(place[last], float):
                    place[last] = _duration(place[last])
    return document


def _extender(extender: Extender) -> dict[str, Any]:
    document: dict[str, Any] = {
        "urlPrefix": extender.url_prefix,
        "filterVerb": extender.filter_verb,
        "preemptVerb": extender.preempt_verb,
        "prioritizeVerb": extender.prioritize_verb,
        "bindVerb": extender.bind_verb,
        "weight": extender.weight,
        "enableHTTPS": extender.enable_https,
        "httpTimeout": _duration(extender.http_timeout_s),
        "nodeCacheCapable": extender.node_cache_capable,
        "managedResources": [
            {"name": resource.name, "ignoredByScheduler": resource.ignored_by_scheduler}
            for resource in extender.managed_resources
        ],
        "ignorable": extender.ignorable,
    }
    if extender.tls is not None:
        tls = extender.tls
        document["tlsConfig"] = {
            "insecure": tls.insecure,
            "serverName": tls.server_name,
            "certFile": tls.cert_file,
            "keyFile": tls.key_file,
            "caFile": tls.ca_file,
            "certData": base64.b64encode(tls.cert_data).decode(),
            "caData": base64.b64encode(tls.ca_data).decode(),
        }
    return document


def _duration(seconds: float) -> str:
    return f"{int(seconds)}s" if seconds == int(seconds) else f"{round(seconds * 1e9)}ns"
