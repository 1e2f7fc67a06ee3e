from __future__ import annotations

from collections.abc import Callable

import pytest

from moorage.wire.configuration import Reading
from moorage.wire.problems import Problem

Read = Callable[[str], Reading]
HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
ONE = "profiles: [{%s}]"


def lines(problems: tuple[Problem, ...]) -> list[str]:
    return [str(problem) for problem in problems]


ONLY_THE_NEEDED_ONES = (
    "profiles: [{plugins: {multiPoint: {disabled: [{name: '*'}],"
    " enabled: [{name: PrioritySort}, {name: DefaultBinder}]}}}]"
)

NOTICES = {
    "percentage, once": (
        "percentageOfNodesToScore: 30\nprofiles: [{percentageOfNodesToScore: 20}]",
        ["percentageOfNodesToScore: 30: has no effect: Moorage scores all nodes, always"],
    ),
    "percentage of a profile only": (
        ONE % "percentageOfNodesToScore: 20",
        ["profiles[0].percentageOfNodesToScore: 20: has no effect: Moorage scores all nodes, always"],
    ),
    "parallelism": ("parallelism: 4", ["parallelism: 4: has no effect: Moorage judges all nodes at once"]),
    "profiling": ("enableProfiling: true", ["enableProfiling: true: has no effect: Moorage serves no Go profiles"]),
    "no profiling": ("enableProfiling: false\nenableContentionProfiling: false", []),
    "another content type": (
        "clientConnection: {contentType: application/vnd.kubernetes.protobuf}",
        ['clientConnection.contentType: "application/vnd.kubernetes.protobuf": has no effect: Moorage speaks'],
    ),
    "no limit of requests": (
        "clientConnection: {qps: -1}",
        ['clientConnection.qps: "-1": means that requests are not limited here, as in kube-scheduler'],
    ),
    "extenders": ("extenders: [{urlPrefix: 'http://h'}]", []),
    "the lease of the stock scheduler": (
        "leaderElection: {resourceName: kube-scheduler}",
        ['leaderElection.resourceName: "kube-scheduler": in kube-system this is the lease that a stock kube-scheduler'],
    ),
    "that name in another namespace": ("leaderElection: {resourceName: kube-scheduler, resourceNamespace: team}", []),
    "a plugin that is not built yet, at score": (
        ONE % "plugins: {score: {enabled: [{name: PodTopologySpread, weight: 5}]}}",
        ['profiles[0].plugins.score.enabled[0].name: "PodTopologySpread": has no effect: this plugin'],
    ),
    "arguments of a plugin that is not built yet": (
        ONE % "pluginConfig: [{name: VolumeBinding, args: {bindTimeoutSeconds: 5}}]",
        ['profiles[0].pluginConfig[0].name: "VolumeBinding": has no effect: this plugin of'],
    ),
    "arguments of a plugin that does not run": (
        ONE % "pluginConfig: [{name: Moody, args: {zone: z}}]",
        ['profiles[0].pluginConfig[0].name: "Moody": has no effect: the plugin is not enabled in this profile'],
    ),
    "a weight where none counts": (
        ONE % "plugins: {filter: {enabled: [{name: NodeAffinity, weight: 5}]}}",
        ["profiles[0].plugins.filter.enabled[0].weight: 5: has no effect: only plugins that score have a weight"],
    ),
    "a point that the plugin has in kube-scheduler only": (
        ONE % "plugins: {preFilter: {enabled: [{name: TaintToleration}]}}",
        ['profiles[0].plugins.preFilter.enabled[0].name: "TaintToleration": has no effect: this plugin needs'],
    ),
    "an unknown name disabled": (
        ONE % "plugins: {score: {disabled: [{name: NodeAfinity}]}}",
        ['profiles[0].plugins.score.disabled[0].name: "NodeAfinity": has no effect: no plugin has this name'],
    ),
    "a known name disabled": (ONE % "plugins: {multiPoint: {disabled: [{name: VolumeBinding}]}}", []),
    "an extension point of gangs": (
        ONE % "plugins: {placementScore: {enabled: [{name: PodGroupPodsCount}]}}",
        ['profiles[0].plugins.placementScore: ["PodGroupPodsCount"]: has no effect: Moorage does not have this'],
    ),
    "the cache of a standby": (
        "delayCacheUntilActive: true",
        ["delayCacheUntilActive: true: has no effect: a standby"],
    ),
}


@pytest.mark.parametrize(("text", "want"), NOTICES.values(), ids=NOTICES.keys())
def test_notices(accepted: Read, text: str, want: list[str]) -> None:
    """What is accepted and does nothing is said in one line; what does something, or nothing on purpose, is not."""
    notices = [line for line in lines(accepted(HEAD + text).notices) if "default set" not in line]
    assert len(notices) == len(want), notices
    for line, start in zip(notices, want, strict=True):
        assert line.startswith(f"c.yaml: {start}")


def test_default_plugins_that_do_not_exist_are_named_in_one_line(accepted: Read) -> None:
    """A newcomer from kube-scheduler learns which default plugins do not run here, in all profiles together."""
    (notice,) = accepted(HEAD + "profiles: [{schedulerName: a}, {schedulerName: b}]").notices
    assert notice.path == "profiles"
    assert "VolumeBinding" in notice.message
    assert "NodeAffinity" not in notice.message


def test_profiles_without_the_defaults_miss_nothing(accepted: Read) -> None:
    """Who disables the default set does not need to hear what it lacks."""
    assert accepted(HEAD + ONLY_THE_NEEDED_ONES).notices == ()
