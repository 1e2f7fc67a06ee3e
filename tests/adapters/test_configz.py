"""The effective configuration: read as a configuration file again it means the same."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

from moorage.adapters.serving.configz import configz, effective_document
from moorage.app.journal import document_of
from moorage.app.plugins import find_plugins
from moorage.framework.trying import AtEnd
from moorage.wire.configuration import default_reading, read_configuration

CONFIGURATION = b"""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: true, leaseDuration: 20s, renewDeadline: 12500ms}
podInitialBackoffSeconds: 2
profiles:
- schedulerName: moorage
- schedulerName: packer
  plugins: {score: {disabled: [{name: ImageLocality}], enabled: [{name: NodeResourcesFit, weight: 7}]}}
  pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {type: MostAllocated}}}]
"""


def test_configz_is_the_whole_truth() -> None:
    """Read as a configuration file again it means the same: nothing in it was left to be defaulted."""
    registry = find_plugins().registry
    reading = read_configuration(CONFIGURATION, "file", registry)
    assert reading.configuration is not None
    document = effective_document(reading.configuration, reading.profiles)
    again = read_configuration(json.dumps(document).encode(), "configz", registry)
    assert not again.problems
    assert again.configuration is not None
    assert effective_document(again.configuration, again.profiles) == document
    score = document["profiles"][1]["plugins"]["score"]["enabled"]
    assert {"name": "NodeResourcesFit", "weight": 7} in score
    assert "ImageLocality" not in {entry["name"] for entry in score}
    assert document["leaderElection"]["leaseDuration"] == "20s"


EVERY_FIELD = b"""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
parallelism: 8
percentageOfNodesToScore: 50
podInitialBackoffSeconds: 2
podMaxBackoffSeconds: 20
enableProfiling: false
enableContentionProfiling: false
delayCacheUntilActive: true
leaderElection:
  leaderElect: false
  leaseDuration: 20s
  renewDeadline: 12500ms
  retryPeriod: 3s
  resourceLock: others
  resourceName: mine
  resourceNamespace: team
clientConnection:
  {kubeconfig: /etc/kubeconfig, acceptContentTypes: a/b, contentType: c/d, qps: 12.5, burst: 7}
extenders:
- urlPrefix: https://host:8888/scheduler
  filterVerb: filter
  preemptVerb: preempt
  prioritizeVerb: prioritize
  bindVerb: bind
  weight: 2
  enableHTTPS: true
  httpTimeout: 100ms
  nodeCacheCapable: true
  ignorable: true
  managedResources: [{name: example.com/gpu, ignoredByScheduler: true}]
  tlsConfig:
    {insecure: true, serverName: host, certFile: c, keyFile: k, caFile: a, certData: aGk=, keyData: aG8=, caData: aGE=}
"""
"""Every field with another value than its default."""
APART = ("profiles", "components", "trial", "server", "key_data")
"""What `/configz` resolves, other documents of the file, a flag, and a secret."""
TRIAL = """
---
apiVersion: moorage.dev/v1alpha1
kind: TrialConfiguration
name: packed
pods: {namespaces: [a, b], namespaceSelector: {matchLabels: {team: x}}, workloadPercent: 12.5}
duration: 90m
atEnd: Keep
profiles:
- schedulerName: moorage
  plugins: {multiPoint: {enabled: [{name: NodeResourcesFit, weight: 3}]}}
  pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {type: MostAllocated}}}]
worse:
  {minSamples: 7, for: 1500ms, pending: {ratio: 1.5}, evictions: {amount: 2}, failedBinds: {ratio: 2, amount: 1},
   waitingP99: {ratio: 3, amount: 2s}}
"""


def test_a_trial_is_part_of_what_is_written_down() -> None:
    """Read again, the documents give the same trial, by the same digest: a replay goes on with it."""
    registry = find_plugins().registry
    reading = read_configuration(CONFIGURATION + TRIAL.encode(), "file", registry)
    assert (reading.problems, reading.trial_problems) == ((), ())
    assert reading.configuration is not None
    trial = reading.configuration.trial
    assert trial is not None
    text = document_of(reading.configuration, reading.profiles)
    again = read_configuration(text.encode(), "journal", registry)
    assert again.configuration is not None
    found = again.configuration.trial
    assert found is not None
    assert (found.digest, found.limits, found.pods) == (trial.digest, trial.limits, trial.pods)
    assert (found.duration_s, found.at_end) == (5400.0, AtEnd.KEEP)
    assert document_of(again.configuration, again.profiles) == text
    assert json.loads(configz(reading.configuration, reading.profiles))["trialconfig"]["name"] == "packed"


def each_field(value: Any) -> Iterator[tuple[str, object, object]]:
    """Name, value and default of every field, also of those inside."""
    for field in fields(value):
        if field.name in APART:
            continue
        found = getattr(value, field.name)
        inside = [each for each in (found if isinstance(found, tuple) else (found,)) if is_dataclass(each)]
        if not inside:
            yield f"{type(value).__name__}.{field.name}", found, field.default
        for each in inside:
            yield from each_field(each)


def test_configz_has_every_field() -> None:
    """A field that is left out would be read back with its default."""
    registry = find_plugins().registry
    reading = read_configuration(EVERY_FIELD, "file", registry)
    assert reading.configuration is not None
    given = list(each_field(reading.configuration))
    assert [name for name, value, default in given if value == default] == []
    document = effective_document(reading.configuration, reading.profiles)
    again = read_configuration(json.dumps(document).encode(), "configz", registry)
    assert (reading.problems, again.problems) == ((), ())
    assert list(each_field(again.configuration)) == given
    assert "aG8=" not in json.dumps(document)


def test_configz_is_found_where_kube_scheduler_has_it() -> None:
    """Under `componentconfig`, with the defaults that run without a file."""
    reading = default_reading(find_plugins().registry)
    assert reading.configuration is not None
    document = json.loads(configz(reading.configuration, reading.profiles))["componentconfig"]
    assert document["kind"] == "KubeSchedulerConfiguration"
    assert [profile["schedulerName"] for profile in document["profiles"]] == ["moorage"]
