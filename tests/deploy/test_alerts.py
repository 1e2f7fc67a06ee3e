"""The chart's alerts, judged by promtool: they are valid rules, fire when they should, and only then."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.chart import ALL_KINDS, EVERYTHING, NAMESPACE, RELEASE, of_kind, rendered
from tests.deploy.promtool import find_promtool

DAY_S = 86_400


@dataclass(frozen=True, slots=True)
class Case:
    """Samples a minute apart, in promtool's notation: those that are calm, and those that are not.

    With the latter, the alert is silent at the minute `quiet` and fires at the minute `firing`.
    """

    calm: Mapping[str, str]
    alarming: Mapping[str, str]
    quiet: int
    firing: int
    labels: Mapping[str, str] = field(default_factory=dict)
    """Those of the firing alert, beside those of the rule."""


def series(metric: str, component: str, /, **labels: str) -> str:
    """As Prometheus scrapes it from a component of the release."""
    own = {"namespace": NAMESPACE, "job": f"{RELEASE}-{component}", **labels}
    matchers = ",".join(f'{key}="{value}"' for key, value in own.items())
    return f"{metric}{{{matchers}}}"


def counted(metric: str, component: str, /, firing: int = 12, **labels: str) -> Case:
    """A counter whose rate over five minutes counts, for five minutes: one a minute is calm, one a second is not."""
    one = series(metric, component, **labels)
    return Case({one: "0+1x40"}, {one: "0+60x40"}, quiet=3, firing=firing)


def leader(component: str, lease: str) -> Case:
    """Two replicas: with one leader, and with none from the third minute on."""
    one, other = (
        series("leader_election_master_status", component, name=lease, instance=instance) for instance in "ab"
    )
    return Case({one: "1x20", other: "0x20"}, {one: "1 1 1 0x20", other: "0x20"}, quiet=3, firing=5)


def _skipped(values: str) -> dict[str, str]:
    return {series("moorage_objects_skipped_total", "scheduler", kind="pods"): values}


def _waits(status: str) -> str:
    metric = "scheduler_dra_bindingconditions_allocations_total"
    return series(metric, "scheduler", profile="moorage", driver="gpu.example.com", status=status)


def _gauge(metric: str, component: str, calm: str, alarming: str, /, *, quiet: int, firing: int, **labels: str) -> Case:
    one = series(metric, component, instance="a", **labels)
    return Case({one: calm}, {one: alarming}, quiet, firing)


def _queue(what: str, values: str) -> dict[str, str]:
    return {series(f"moorage_queue_{what}", "scheduler", queue="team-a", resource="nvidia.com/gpu"): values}


VICTIMS = series("scheduler_preemption_victims_sum", "scheduler")
REQUESTS = "controller_runtime_webhook_requests_total"
GOOD, BAD = (series(REQUESTS, "webhook", webhook="/mutate", code=code) for code in ("200", "500"))

CASES: Mapping[str, Case] = {
    "MoorageObjectsSkipped": Case(_skipped("3x90"), _skipped("0 0 0 1x90"), quiet=2, firing=5, labels={"kind": "pods"}),
    "MoorageNoLeader": leader("scheduler", "moorage"),
    "MoorageDevicesNotReady": Case(
        {_waits("success"): "0+1x90"},
        {_waits("timeout"): "0 0 0 1x90"},
        quiet=2,
        firing=5,
        labels={"driver": "gpu.example.com"},
    ),
    "MooragePodsPendingTooLong": _gauge(
        "scheduler_pending_pods", "scheduler", "0x60", "1x60", quiet=14, firing=16, queue="unschedulable"
    ),
    "MoorageQueueStarved": Case(
        {**_queue("allocated", "3x60"), **_queue("fair_share", "4x60"), **_queue("waiting", "2x60")},
        {**_queue("allocated", "1x60"), **_queue("fair_share", "4x60"), **_queue("waiting", "2x60")},
        quiet=14,
        firing=16,
        labels={"queue": "team-a", "resource": "nvidia.com/gpu"},
    ),
    "MoorageSchedulingErrors": counted("scheduler_schedule_attempts_total", "scheduler", result="error"),
    "MoorageBindErrors": counted(
        "scheduler_framework_extension_point_duration_seconds_count",
        "scheduler",
        extension_point="Bind",
        status="Error",
    ),
    "MoorageCircuitOpen": replace(
        _gauge("moorage_circuit_open", "scheduler", "0x20", "1x20", quiet=4, firing=6, name="them"),
        labels={"name": "them"},
    ),
    "MooragePreemptionStorm": Case({VICTIMS: "0+1x40"}, {VICTIMS: "0x5 0+100x40"}, quiet=4, firing=15),
    "MoorageConfigurationRefused": _gauge(
        "moorage_configuration_last_reload_successful", "scheduler", "1x20", "0x20", quiet=4, firing=6
    ),
    "MoorageTrialWorse": _gauge(
        "moorage_trial_ended", "scheduler", "0x20", "0 0 0 1x20", quiet=2, firing=5, reason="Worse"
    ),
    "MoorageExtenderErrors": counted("moorage_extender_requests_total", "extender", path="/filter", code="500"),
    "MoorageWebhookErrors": Case(
        {GOOD: "0+600x40", BAD: "0+3x40"}, {GOOD: "0+600x40", BAD: "0+60x40"}, quiet=3, firing=12
    ),
    "MooragePlacementErrors": Case(
        {series("smart_scheduler_placement_errors_total", "webhook"): "5x40"},
        {series("smart_scheduler_placement_errors_total", "webhook"): "0 0 0 1x40"},
        quiet=2,
        firing=5,
    ),
    "MoorageWebhookCertificateExpiry": _gauge(
        "moorage_webhook_certificate_expiry_timestamp_seconds",
        "webhook",
        f"{60 * DAY_S}x90",
        f"{3 * DAY_S}x90",
        quiet=58,
        firing=62,
    ),
    "MoorageKeeperNoLeader": leader("keeper", "moorage-keeper"),
    "MoorageKeeperPodsWithoutPlace": _gauge(
        "moorage_keeper_pods_without_place", "keeper", "0x20", "2x20", quiet=0, firing=2
    ),
}


@pytest.fixture(scope="module")
def rules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The groups of the chart's PrometheusRule, as Prometheus reads them from a file."""
    (found,) = of_kind(rendered(*EVERYTHING, more=ALL_KINDS), "PrometheusRule").values()
    path = tmp_path_factory.mktemp("alerts") / "rules.yaml"
    path.write_text(yaml.safe_dump(found["spec"], sort_keys=False))
    return path


def rules_by_name(path: Path) -> dict[str, Any]:
    return {rule["alert"]: rule for group in yaml.safe_load(path.read_text())["groups"] for rule in group["rules"]}


def promtool(*arguments: str | Path) -> None:
    done = subprocess.run([find_promtool(), *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_rules_are_valid(rules: Path) -> None:
    """Syntax, templates, and no rule twice."""
    promtool("check", "rules", "--lint=all", "--lint-fatal", rules)


def test_every_alert_has_a_case(rules: Path) -> None:
    """And there is no case of an alert that is gone."""
    assert set(rules_by_name(rules)) == set(CASES)


@pytest.mark.parametrize("alert", CASES)
def test_an_alert_fires_when_it_should_and_only_then(alert: str, rules: Path, tmp_path: Path) -> None:
    """With its labels and annotations, after the time that it waits, and never in calm."""
    case, rule = CASES[alert], rules_by_name(rules)[alert]
    told = {"exp_labels": {**rule.get("labels", {}), **case.labels}, "exp_annotations": rule["annotations"]}

    def expected(minute: int, alerts: list[object]) -> dict[str, object]:
        return {"eval_time": f"{minute}m", "alertname": alert, "exp_alerts": alerts}

    def story(samples: Mapping[str, str], *expectations: object) -> dict[str, object]:
        inputs = [{"series": name, "values": values} for name, values in samples.items()]
        return {"interval": "1m", "input_series": inputs, "alert_rule_test": list(expectations)}

    tests = [
        story(case.calm, *(expected(minute, []) for minute in (case.quiet, case.firing))),
        story(case.alarming, expected(case.quiet, []), expected(case.firing, [told])),
    ]
    file = tmp_path / "tests.yaml"
    file.write_text(yaml.safe_dump({"rule_files": [str(rules)], "evaluation_interval": "1m", "tests": tests}))
    promtool("test", "rules", file)
