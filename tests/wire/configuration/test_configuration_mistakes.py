from __future__ import annotations

from collections.abc import Callable

import pytest

from moorage.wire.configuration import Reading
from moorage.wire.problems import Problem

Read = Callable[[str], Reading]
HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def lines(problems: tuple[Problem, ...]) -> list[str]:
    return [str(problem) for problem in problems]


TWO = "profiles: [{schedulerName: a}, {schedulerName: b, %s}]"
ONE = "profiles: [{%s}]"

MISTAKES = {
    "unknown field": ("paralelism: 3", "paralelism", "3: unknown field; did you mean parallelism?"),
    "unknown field below": (ONE % "plugins: {scores: {}}", "profiles[0].plugins.scores", "did you mean score?"),
    "legacy field": ("healthzBindAddress: 0.0.0.0:1", "healthzBindAddress", "--secure-port"),
    "text for a number": ("parallelism: many", "parallelism", '"many": must be an integer'),
    "number for a text": (ONE % "schedulerName: 7", "profiles[0].schedulerName", "7: must be text"),
    "mapping for a list": ("profiles: {a: b}", "profiles", "must be a list"),
    "text for a mapping": ("profiles: [a]", "profiles[0]", '"a": must be a mapping'),
    "number beyond 32 bits": ("parallelism: 4294967296", "parallelism", "less than or equal to 2147483647"),
    "parallelism 0": ("parallelism: 0", "parallelism", "0: must be 1 or more"),
    "percentage": ("percentageOfNodesToScore: 101", "percentageOfNodesToScore", "101: must be from 0 to 100"),
    "percentage of a profile": (
        ONE % "percentageOfNodesToScore: -1",
        "profiles[0].percentageOfNodesToScore",
        "-1: must be from 0 to 100",
    ),
    "initial backoff": ("podInitialBackoffSeconds: 0", "podInitialBackoffSeconds", "0: must be 1 or more"),
    "maximum backoff": ("podInitialBackoffSeconds: 20", "podMaxBackoffSeconds", "10: must not be below"),
    "burst": ("clientConnection: {burst: -1}", "clientConnection.burst", "-1: must not be negative"),
    "duration without a unit": (
        "leaderElection: {leaseDuration: 15}",
        "leaderElection.leaseDuration",
        "15: must be a d",
    ),
    "duration that is none": ("leaderElection: {leaseDuration: 15x}", "leaderElection.leaseDuration", "not a duration"),
    "negative duration": ("leaderElection: {retryPeriod: -2s}", "leaderElection.retryPeriod", "longer than 0s"),
    "lease too short": (
        "leaderElection: {leaseDuration: 10s}",
        "leaderElection.leaseDuration",
        "longer than renewDead",
    ),
    "renewal too short": ("leaderElection: {retryPeriod: 9s}", "leaderElection.renewDeadline", "1.2 times retryPeriod"),
    "lock": ("leaderElection: {resourceLock: endpoints}", "leaderElection.resourceLock", "must be leases"),
    "no scheduler name": ("profiles: [{schedulerName: a}, {}]", "profiles[1].schedulerName", "required"),
    "empty scheduler name": (ONE % "schedulerName: ''", "profiles[0].schedulerName", "required"),
    "scheduler name twice": (
        "profiles: [{schedulerName: a}, {schedulerName: a}]",
        "profiles[1].schedulerName",
        '"a": used twice; profiles[0]',
    ),
    "unknown plugin": (
        ONE % "plugins: {filter: {enabled: [{name: NodeAfinity}]}}",
        "profiles[0].plugins.filter.enabled[0].name",
        "did you mean NodeAffinity?",
    ),
    "plugin without a name": (
        ONE % "plugins: {filter: {enabled: [{weight: 1}]}}",
        "profiles[0].plugins.filter.enabled[0].name",
        "required",
    ),
    "plugin that is only a name": (
        ONE % "plugins: {filter: {enabled: [NodeAffinity]}}",
        "profiles[0].plugins.filter.enabled[0]",
        "must be a mapping",
    ),
    "removed plugin": (
        ONE % "plugins: {filter: {enabled: [{name: EBSLimits}]}}",
        "profiles[0].plugins.filter.enabled[0].name",
        "NodeVolumeLimits does its work",
    ),
    "plugin that is not built yet": (
        ONE % "plugins: {multiPoint: {enabled: [{name: VolumeBinding}]}}",
        "profiles[0].plugins.multiPoint.enabled[0].name",
        "not built yet",
    ),
    "plugin without this point": (
        ONE % "plugins: {filter: {enabled: [{name: ImageLocality}]}}",
        "profiles[0].plugins.filter.enabled[0].name",
        "has no filter; it has score",
    ),
    "plugin that has this point nowhere": (
        ONE % "plugins: {score: {enabled: [{name: VolumeZone}]}}",
        "profiles[0].plugins.score.enabled[0].name",
        "has no score; it has preFilter, filter",
    ),
    "plugin twice": (
        ONE % "plugins: {score: {enabled: [{name: ImageLocality}, {name: ImageLocality, weight: 2}]}}",
        "profiles[0].plugins.score.enabled[1].name",
        "enabled twice",
    ),
    "plugin and its alias": (
        ONE % "plugins: {multiPoint: {enabled: [{name: MinHosts}, {name: ControllerSpread}]}}",
        "profiles[0].plugins.multiPoint.enabled[1].name",
        "enabled twice",
    ),
    "star enabled": (
        ONE % "plugins: {score: {enabled: [{name: '*'}]}}",
        "profiles[0].plugins.score.enabled[0].name",
        "can only be disabled",
    ),
    "negative weight": (
        TWO % "plugins: {score: {enabled: [{name: NodeAffinity, weight: -1}]}}",
        "profiles[1].plugins.score.enabled[0].weight",
        "-1: must not be negative",
    ),
    "no queue sort": (
        ONE % "plugins: {queueSort: {disabled: [{name: '*'}]}}",
        "profiles[0].plugins.queueSort",
        "exactly one queue sort plugin",
    ),
    "two queue sorts": (
        ONE
        % "plugins: {queueSort: {enabled: [{name: OtherSort}]}}, pluginConfig: [{name: OtherSort, args: {zone: z}}]",
        "profiles[0].plugins.queueSort",
        "exactly one queue sort plugin",
    ),
    "different queue sorts": (
        TWO % "plugins: {queueSort: {disabled: [{name: '*'}], enabled: [{name: OtherSort}]}},"
        " pluginConfig: [{name: OtherSort, args: {zone: z}}]",
        "profiles[1].plugins.queueSort",
        '["OtherSort"]: must be the same in all profiles, and profiles[0] has PrioritySort',
    ),
    "no bind": (
        ONE % "plugins: {bind: {disabled: [{name: DefaultBinder}]}}",
        "profiles[0].plugins.bind",
        "bind plugin",
    ),
    "arguments of an unknown plugin": (
        ONE % "pluginConfig: [{name: NodeResourceFit}]",
        "profiles[0].pluginConfig[0].name",
        "did you mean NodeResourcesFit?",
    ),
    "arguments twice": (
        ONE % "pluginConfig: [{name: NodeResourcesFit}, {name: NodeResourcesFit}]",
        "profiles[0].pluginConfig[1].name",
        "configured twice",
    ),
    "arguments of a wrong kind": (
        ONE % "pluginConfig: [{name: NodeResourcesFit, args: {kind: NodeAffinityArgs}}]",
        "profiles[0].pluginConfig[0].args.kind",
        "must be NodeResourcesFitArgs",
    ),
    "arguments of an old version": (
        ONE % "pluginConfig: [{name: NodeResourcesFit, args: {apiVersion: kubescheduler.config.k8s.io/v1beta3}}]",
        "profiles[0].pluginConfig[0].args.apiVersion",
        "must be kubescheduler.config.k8s.io/v1",
    ),
    "arguments that are a list": (
        ONE % "pluginConfig: [{name: NodeResourcesFit, args: []}]",
        "profiles[0].pluginConfig[0].args",
        "must be a mapping",
    ),
    "unknown argument": (
        ONE % "pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {resource: []}}}]",
        "profiles[0].pluginConfig[0].args.scoringStrategy.resource",
        "did you mean resources?",
    ),
    "argument in Python's spelling": (
        ONE % "pluginConfig: [{name: NodeResourcesFit, args: {ignored_resources: []}}]",
        "profiles[0].pluginConfig[0].args.ignored_resources",
        "did you mean ignoredResources?",
    ),
    "argument out of range": (
        ONE
        % "pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {resources: [{name: a, weight: 101}]}}}]",
        "profiles[0].pluginConfig[0].args.scoringStrategy.resources[0].weight",
        "101: input should be less than or equal to 100",
    ),
    "arguments that are needed": (
        ONE % "plugins: {multiPoint: {enabled: [{name: Moody}]}}",
        "profiles[0].pluginConfig",
        '"Moody": this plugin needs arguments; zone is not given',
    ),
    "arguments that the plugin refuses": (
        ONE % "plugins: {multiPoint: {enabled: [{name: Moody}]}}, pluginConfig: [{name: Moody, args: {zone: nowhere}}]",
        "profiles[0]",
        "there is no zone called nowhere",
    ),
    "different arguments of the queue sort": (
        (
            "profiles:\n"
            "- {schedulerName: a, plugins: &other {queueSort: {disabled: [{name: '*'}], enabled: [{name: OtherSort}]}},"
            " pluginConfig: [{name: OtherSort, args: {zone: z}}]}\n"
            "- {schedulerName: b, plugins: *other, pluginConfig: [{name: OtherSort, args: {zone: far}}]}"
        ),
        "profiles[1].pluginConfig",
        "must have the arguments that it has in profiles[0]",
    ),
    "extender without an address": ("extenders: [{filterVerb: f}]", "extenders[0].urlPrefix", "required"),
    "extender with a wrong address": (
        "extenders: [{urlPrefix: 'host:1'}]",
        "extenders[0].urlPrefix",
        "must be an address",
    ),
    "extender without a weight": (
        "extenders: [{urlPrefix: 'http://h', prioritizeVerb: p}]",
        "extenders[0].weight",
        "0: must be 1 or more",
    ),
    "two extenders that bind": (
        "extenders: [{urlPrefix: 'http://h', bindVerb: b}, {urlPrefix: 'http://i', bindVerb: b}]",
        "extenders[1].bindVerb",
        "only one extender can bind",
    ),
    "managed resource twice": (
        (
            "extenders: [{urlPrefix: 'http://h', managedResources: [{name: a.b/c}]},"
            " {urlPrefix: 'http://i', managedResources: [{name: a.b/c}]}]"
        ),
        "extenders[1].managedResources[0].name",
        "managed twice; remove this or extenders[0]",
    ),
    "managed resource that is not extended": (
        "extenders: [{urlPrefix: 'http://h', managedResources: [{name: cpu}]}]",
        "extenders[0].managedResources[0].name",
        "domain/name",
    ),
    "certificate that is not base64": (
        "extenders: [{urlPrefix: 'http://h', tlsConfig: {caData: '?'}}]",
        "extenders[0].tlsConfig.caData",
        "base64",
    ),
}


@pytest.mark.parametrize(("text", "want_path", "want_message"), MISTAKES.values(), ids=MISTAKES.keys())
def test_mistakes(read: Read, text: str, want_path: str, want_message: str) -> None:
    """One mistake gives one line with file, field, value and remedy, and no consequences of it."""
    reading = read(HEAD + text)
    assert len(reading.problems) == 1, lines(reading.problems)
    line = str(reading.problems[0])
    assert line.startswith(f"c.yaml: {want_path}: ")
    assert want_message in line
    assert "\n" not in line
    assert reading.configuration is None
    assert reading.profiles == ()


TEN_MISTAKES = (
    HEAD
    + """
parallelism: 0
percentageOfNodesToScore: 200
podMaxBackoffSeconds: 0
leaderElection:
  leaseDuration: soon
  colour: blue
clientConnection:
  burst: lots
profiles:
- schedulerName: a
  plugins:
    score:
      enabled:
      - name: ImageLocalty
      - name: NodeAffinity
        weight: -3
- schedulerName: a
  pluginConfig:
  - name: NodeResourcesFit
    args:
      scoringStrategy: {type: Tightest}
extenders:
- urlPrefix: http://host
  prioritizeVerb: prioritize
"""
)


def test_all_mistakes_are_reported_at_once(read: Read) -> None:
    """Wrong types, wrong values and wrong names come in one run, shapes first, each once."""
    reading = read(TEN_MISTAKES)
    want = {
        "parallelism",
        "percentageOfNodesToScore",
        "podMaxBackoffSeconds",
        "leaderElection.leaseDuration",
        "leaderElection.colour",
        "clientConnection.burst",
        "profiles[0].plugins.score.enabled[0].name",
        "profiles[0].plugins.score.enabled[1].weight",
        "profiles[1].schedulerName",
        "profiles[1].pluginConfig[0].args.scoringStrategy.type",
        "extenders[0].weight",
    }
    assert {problem.path for problem in reading.problems} == want
    assert len(reading.problems) == len(want)
