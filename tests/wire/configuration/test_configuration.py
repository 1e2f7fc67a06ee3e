from __future__ import annotations

from collections.abc import Callable

import pytest

from moorage.framework.configuration import Configuration
from moorage.framework.plugin import Point
from moorage.framework.registry import Registry
from moorage.wire.configuration import Reading, default_reading

Read = Callable[[str], Reading]
HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"

SEVERAL_PROFILES = (
    HEAD
    + """
percentageOfNodesToScore: 100
leaderElection:
  leaderElect: false
profiles:
- schedulerName: default-scheduler
- schedulerName: tight
  pluginConfig:
  - name: NodeResourcesFit
    args:
      apiVersion: kubescheduler.config.k8s.io/v1
      kind: NodeResourcesFitArgs
      ignoredResources: [example.com/gpu]
      scoringStrategy:
        type: MostAllocated
        resources:
        - {name: cpu, weight: 3}
        - name: memory
- schedulerName: heavy
  plugins:
    score:
      disabled:
      - name: NodeResourcesBalancedAllocation
      - name: ImageLocality
      - name: NodeAffinity
      enabled:
      - name: ImageLocality
        weight: 7
      - name: NodeAffinity
        weight: 5
"""
)


def test_several_profiles(accepted: Read) -> None:
    """Profiles differ in plugins, order, weights and arguments; each gets what it says."""
    reading = accepted(SEVERAL_PROFILES)
    plain, tight, heavy = reading.profiles
    assert [p.scheduler_name for p in reading.profiles] == ["default-scheduler", "tight", "heavy"]
    fit = next(plugin for plugin in tight.plugins if plugin.name == "NodeResourcesFit")
    assert fit.args.model_dump(mode="json", by_alias=True) == {
        "ignoredResources": ["example.com/gpu"],
        "scoringStrategy": {
            "type": "MostAllocated",
            "resources": [{"name": "cpu", "weight": 3}, {"name": "memory", "weight": 1}],
        },
    }
    assert plain.weights["NodeAffinity"] == 2
    want = {"TaintToleration": 3, "NodeResourcesFit": 1, "ImageLocality": 7, "NodeAffinity": 5}
    assert dict(heavy.weights) == want
    assert [plugin.name for plugin in heavy.at(Point.SCORE)] == list(want)
    assert reading.configuration is not None
    assert not reading.configuration.leader_election.leader_elect


def test_defaults_are_those_of_kube_scheduler_but_for_the_lease(accepted: Read) -> None:
    """A file that says nothing gives kube-scheduler's defaults, elects a leader, and holds a lease of its own."""
    reading = accepted(HEAD)
    configuration = reading.configuration
    assert configuration is not None
    assert [profile.scheduler_name for profile in reading.profiles] == ["default-scheduler"]
    election, client = configuration.leader_election, configuration.client_connection
    assert election.leader_elect
    assert (election.lease_duration_s, election.renew_deadline_s, election.retry_period_s) == (15, 10, 2)
    assert (election.resource_lock, election.resource_namespace, election.resource_name) == (
        "leases",
        "kube-system",
        "moorage",
    )
    assert (client.qps, client.burst, client.kubeconfig) == (50, 100, "")
    assert (configuration.parallelism, configuration.percentage_of_nodes_to_score) == (16, 0)
    assert (configuration.pod_initial_backoff_s, configuration.pod_max_backoff_s) == (1, 10)
    assert (configuration.enable_profiling, configuration.delay_cache_until_active) == (True, False)


def test_no_file_means_one_profile_and_no_election(registry: Registry) -> None:
    """Without --config the profile is called moorage."""
    reading = default_reading(registry)
    assert [profile.scheduler_name for profile in reading.profiles] == ["moorage"]
    assert reading.configuration == Configuration()


EVERYTHING = (
    HEAD
    + """
parallelism: 8
enableProfiling: false
podInitialBackoffSeconds: 2
podMaxBackoffSeconds: 2
leaderElection:
  leaseDuration: 1m30s
  renewDeadline: 20s
  retryPeriod: 1500ms
  resourceName: mine
  resourceNamespace: team
clientConnection:
  kubeconfig: /etc/kubeconfig
  qps: 12.5
  burst: 7
extenders:
- urlPrefix: https://host:8888/scheduler
  filterVerb: filter
  prioritizeVerb: prioritize
  weight: 2
  bindVerb: bind
  enableHTTPS: true
  httpTimeout: 100ms
  nodeCacheCapable: true
  ignorable: true
  tlsConfig: {insecure: true, caData: aGk=}
  managedResources:
  - name: example.com/gpu
    ignoredByScheduler: true
"""
)


def test_every_field_arrives(accepted: Read) -> None:
    """What the file says is what the value holds; durations are in seconds."""
    configuration = accepted(EVERYTHING).configuration
    assert configuration is not None
    election = configuration.leader_election
    assert (election.lease_duration_s, election.renew_deadline_s, election.retry_period_s) == (90, 20, 1.5)
    assert (election.resource_name, election.resource_namespace) == ("mine", "team")
    client = configuration.client_connection
    assert (client.kubeconfig, client.qps, client.burst) == ("/etc/kubeconfig", 12.5, 7)
    assert (configuration.parallelism, configuration.pod_initial_backoff_s, configuration.pod_max_backoff_s) == (
        8,
        2,
        2,
    )
    assert not configuration.enable_profiling
    assert not configuration.enable_contention_profiling
    (extender,) = configuration.extenders
    assert (extender.url_prefix, extender.bind_verb, extender.weight) == ("https://host:8888/scheduler", "bind", 2)
    assert (extender.enable_https, extender.http_timeout_s, extender.ignorable) == (True, 0.1, True)
    assert extender.tls is not None
    assert extender.tls.ca_data == b"hi"
    assert [resource.name for resource in extender.managed_resources] == ["example.com/gpu"]


def test_what_extenders_look_after_is_ignored_by_the_filter(accepted: Read) -> None:
    """In every profile, and in place of what its arguments say, as in kube-scheduler."""
    fit = "{name: NodeResourcesFit, args: {ignoredResources: [a.b/c]}}"
    profiles = f"profiles: [{{schedulerName: a}}, {{schedulerName: b, pluginConfig: [{fit}]}}]\n"
    resources = "[{name: example.com/gpu, ignoredByScheduler: true}, {name: example.com/tpu}]"
    extender = f"extenders: [{{urlPrefix: 'http://h', filterVerb: f, managedResources: {resources}}}]\n"
    configuration = accepted(HEAD + profiles + extender).configuration
    assert configuration is not None
    ignored = [profile.args["NodeResourcesFit"].model_dump()["ignored_resources"] for profile in configuration.profiles]
    assert ignored == [("example.com/gpu",)] * 2


GOOD = {
    "null means not given": "profiles: null\nleaderElection: null\nparallelism: null\nextenders: ~",
    "null inside": "profiles: [{schedulerName: a, plugins: {score: null}, pluginConfig: null}]",
    "arguments that are null": "profiles: [{pluginConfig: [{name: NodeResourcesFit, args: null}]}]",
    "arguments that are left out": "profiles: [{pluginConfig: [{name: NodeResourcesFit}]}]",
    "an alias": "profiles: [{plugins: {multiPoint: {enabled: [{name: ControllerSpread}]}}}]",
    "no election, so its durations do not matter": "leaderElection: {leaderElect: false, leaseDuration: 1s}",
    "zero durations mean the default": "leaderElection: {leaseDuration: 0s, retryPeriod: '0'}",
    "no limit on queries": "clientConnection: {qps: -1}",
    "all disabled, the needed ones enabled": (
        "profiles: [{plugins: {multiPoint: {disabled: [{name: '*'}],"
        " enabled: [{name: PrioritySort}, {name: DefaultBinder}]}}}]"
    ),
    "the same queue sort everywhere": (
        "profiles:\n"
        "- {schedulerName: a, plugins: &other {queueSort: {disabled: [{name: '*'}], enabled: [{name: OtherSort}]}},"
        " pluginConfig: &args [{name: OtherSort, args: {zone: z}}]}\n"
        "- {schedulerName: b, plugins: *other, pluginConfig: *args}"
    ),
}


@pytest.mark.parametrize("text", GOOD.values(), ids=GOOD.keys())
def test_good(accepted: Read, text: str) -> None:
    """What kube-scheduler accepts is accepted."""
    accepted(HEAD + text)


def test_json_is_read_too(accepted: Read) -> None:
    """A configuration may be JSON."""
    text = '{"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", "parallelism": 3}'
    configuration = accepted(text).configuration
    assert configuration is not None
    assert configuration.parallelism == 3


def test_an_alias_takes_the_place_of_its_plugin(accepted: Read) -> None:
    """Entries and arguments under an alias count for the plugin itself."""
    (profile,) = accepted(HEAD + GOOD["an alias"]).profiles
    assert "MinHosts" in [plugin.name for plugin in profile.at(Point.FILTER)]
