"""The rights of the chart's accounts as rendered: those that the plugins need, and none that nobody should have."""

from __future__ import annotations

import pytest

from moorage.app.plugins import find_plugins
from moorage.app.sources import watched_kinds
from moorage.framework.defaults import DEFAULT_PLUGINS
from moorage.plugins.builtin import BUILTIN
from moorage.wire.configuration import read_configuration
from tests.deploy.chart import COMPONENTS, RELEASE, VOLUMES, granted, of_kind, rendered

PROFILE = "config.scheduler.profiles[0].plugins.multiPoint.enabled[0].name"


USUAL = {plugin.name for plugin in DEFAULT_PLUGINS}
OTHERS = [plugin.name for plugin in BUILTIN if plugin.kinds and plugin.name not in USUAL]


@pytest.mark.parametrize("plugin", ["", *OTHERS])
def test_a_component_may_read_what_the_plugins_read(plugin: str) -> None:
    """A plugin that a profile enables brings along the right to read its kinds; for the scheduler, and no other."""
    values = (f"{PROFILE}={plugin}",) if plugin else ()
    text = of_kind(rendered(*values), "ConfigMap")[RELEASE]["data"]["config.yaml"]
    reading = read_configuration(text.encode(), "config.yaml", find_plugins().registry)
    assert reading.problems == ()
    needed = {(kind.group, kind.plural) for kind in watched_kinds(reading.profiles)}
    assert readable("scheduler", *values) | VOLUMES == needed
    assert readable("keeper", *values) >= needed
    assert readable("dashboard", *values) >= needed
    assert readable("shadow", *values) >= needed


def readable(component: str, *values: str) -> set[tuple[str, str]]:
    """Group and plural of the kinds that a component may follow."""
    found = {(group, kind) for group, kind, verb in granted(component, *values) if verb == "watch"}
    return {right for right in found if right[1] != "leases"}


def test_a_shadow_can_only_read() -> None:
    """Whatever the profiles enable."""
    for plugin in ("", *OTHERS):
        values = (f"{PROFILE}={plugin}",) if plugin else ()
        assert {verb for _, _, verb in granted("shadow", *values)} == {"list", "watch"}


def test_no_role_has_a_wildcard_or_secrets() -> None:
    """Whatever is switched on."""
    documents = rendered(*(f"{component}.enabled=true" for component in COMPONENTS))
    roles = [role for kind in ("ClusterRole", "Role") for role in of_kind(documents, kind).values()]
    assert len(roles) >= 8
    for role in roles:
        for rule in role["rules"]:
            words = {*rule["apiGroups"], *rule["resources"], *rule["verbs"]}
            assert not words & {"*", "secrets", "endpoints", "bind", "escalate", "impersonate"}, role["metadata"][
                "name"
            ]


GANGS = "config.scheduler.profiles[0].pluginConfig[0]"


@pytest.mark.parametrize(
    ("values", "on", "off"),
    [
        ((), {("jobset.x-k8s.io", "jobsets"), ("ray.io", "rayclusters")}, set()),
        (
            (f"{GANGS}.args.workloadKinds.disabled={{JobSet,RayCluster}}",),
            {("kubeflow.org", "mpijobs")},
            {("jobset.x-k8s.io", "jobsets"), ("ray.io", "rayclusters")},
        ),
        (
            (
                f"{GANGS}.args.workloadKinds.disabled={{*}}",
                f"{GANGS}.args.workloadKinds.own[0].apiVersion=example.com/v1",
                f"{GANGS}.args.workloadKinds.own[0].kind=TrainingRun",
                f"{GANGS}.args.workloadKinds.own[0].members[0].path=spec.workers",
            ),
            {("example.com", "trainingruns")},
            {("jobset.x-k8s.io", "jobsets"), ("kubeflow.org", "mpijobs")},
        ),
    ],
    ids=["all", "some are off", "only an own one"],
)
def test_the_scheduler_reads_the_kinds_of_workloads_that_are_switched_on(
    values: tuple[str, ...], on: set[tuple[str, str]], off: set[tuple[str, str]]
) -> None:
    """Exactly those that the configuration names."""
    given = (f"{GANGS}.name=GangScheduling", *values) if values else ()
    text = of_kind(rendered(*given), "ConfigMap")[RELEASE]["data"]["config.yaml"]
    reading = read_configuration(text.encode(), "config.yaml", find_plugins().registry)
    assert reading.problems == ()
    found = readable("scheduler", *given)
    assert found | VOLUMES == {(kind.group, kind.plural) for kind in watched_kinds(reading.profiles)}
    assert on <= found
    assert not off & found


@pytest.mark.parametrize(
    ("values", "want"),
    [
        ((), True),
        ((f"{GANGS}.name=GangScheduling", f"{GANGS}.args.provisioningClass=check-capacity.autoscaling.x-k8s.io"), True),
        ((f"{GANGS}.name=GangScheduling", f"{GANGS}.args.provisioningClass="), False),
    ],
    ids=["by default", "another class", "switched off"],
)
def test_requests_for_nodes_may_be_written_where_they_are_switched_on(values: tuple[str, ...], want: bool) -> None:
    """And PodTemplates, which they name."""
    given = granted("scheduler", *values)
    for group, kind in (("autoscaling.x-k8s.io", "provisioningrequests"), ("", "podtemplates")):
        assert {verb for verb in ("create", "delete") if (group, kind, verb) in given} == (
            {"create", "delete"} if want else set()
        )
