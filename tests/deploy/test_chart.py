"""The chart on its own: what helm says to it, what its values do, and that nothing in it is behind the code."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from moorage.app.plugins import find_plugins
from moorage.framework.keeping import keeper_configuration
from moorage.framework.tracing import TracingConfiguration
from moorage.wire.configuration import read_configuration
from tests.deploy.chart import (
    ALL_KINDS,
    CHART,
    COMPONENTS,
    EVERYTHING,
    NAMESPACE,
    PRICES,
    RELEASE,
    ROOT,
    helm,
    of_kind,
    rendered,
    settings,
)

pytestmark = pytest.mark.usefixtures("control_plane_assets")

Document = dict[str, Any]
SWITCHES = {
    "scheduler.enabled": {"Deployment": ["moorage-scheduler"], "PodDisruptionBudget": ["moorage-scheduler"]},
    "extender.enabled": {"Deployment": ["moorage-extender"], "Service": ["moorage-extender"]},
    "webhook.enabled": {"Deployment": ["moorage-webhook"], "MutatingWebhookConfiguration": ["moorage-webhook"]},
    "keeper.enabled": {"Deployment": ["moorage-keeper"], "PodDisruptionBudget": ["moorage-keeper"]},
    "dashboard.enabled": {"Deployment": ["moorage-dashboard"], "Service": ["moorage-dashboard"]},
    "shadow.enabled": {
        "Deployment": ["moorage-shadow"],
        "Service": ["moorage-shadow"],
        "ClusterRole": ["moorage-shadow"],
    },
    "flowSchemas.enabled": {"FlowSchema": ["moorage", "moorage-leader-election"]},
    "fence.enabled": {
        "ValidatingAdmissionPolicy": ["moorage-fence"],
        "ValidatingAdmissionPolicyBinding": ["moorage-fence"],
    },
    "networkPolicy.enabled": {"NetworkPolicy": ["moorage-scheduler"]},
    "priorityClass.create": {"PriorityClass": ["moorage"]},
    "grafanaDashboard.enabled": {"ConfigMap": ["moorage-grafana"]},
    "metrics.serviceMonitor.enabled": {"ServiceMonitor": ["moorage-scheduler"]},
    "metrics.prometheusRule.enabled": {"PrometheusRule": ["moorage"]},
}
ON_BY_DEFAULT = {"scheduler.enabled", "flowSchemas.enabled"}


def deployment(component: str, *values: str) -> Document:
    documents = rendered(f"{component}.enabled=true", *values)
    return of_kind(documents, "Deployment")[f"{RELEASE}-{component}"]


def pod_spec(component: str, *values: str) -> Document:
    spec: Document = deployment(component, *values)["spec"]["template"]["spec"]
    return spec


@pytest.mark.parametrize("values", [(), EVERYTHING], ids=["defaults", "everything"])
def test_helm_has_nothing_to_complain_about(values: tuple[str, ...]) -> None:
    """Lint passes, warnings counted as errors."""
    answer = helm("lint", "--strict", CHART, *settings(values))
    assert "[WARNING]" not in answer
    assert "[ERROR]" not in answer


def test_the_manifests_are_what_the_chart_renders() -> None:
    """`make manifests` would change nothing."""
    command = [sys.executable, str(ROOT / "deploy/helm/render.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


# --- switches ---


@pytest.mark.parametrize("switch", SWITCHES)
def test_a_switch_adds_its_objects_and_takes_them_away(switch: str) -> None:
    """On, the objects are there; off, no trace of them."""
    on, off = (rendered(f"{switch}={value}", more=ALL_KINDS) for value in ("true", "false"))
    for kind, names in SWITCHES[switch].items():
        assert set(names) <= of_kind(on, kind).keys()
        assert not set(names) & of_kind(off, kind).keys()


def test_by_default_there_is_a_scheduler_and_nothing_else() -> None:
    """The switches that are on by themselves, as the design says."""
    documents = rendered(more=ALL_KINDS)
    for switch, objects in SWITCHES.items():
        for kind, names in objects.items():
            present = set(names) <= of_kind(documents, kind).keys()
            assert present == (switch in ON_BY_DEFAULT), switch


@pytest.mark.parametrize("switch", ["metrics.serviceMonitor.enabled", "metrics.prometheusRule.enabled"])
def test_kinds_that_the_cluster_lacks_are_left_out(switch: str) -> None:
    """Nothing that the API server would refuse is rendered."""
    documents = rendered(f"{switch}=true")
    assert not [found for found in documents if "monitoring.coreos.com" in found["apiVersion"]]


def test_cert_manager_issues_the_certificate_where_it_is() -> None:
    """Certificate, issuer, injected authority and mounted secret belong together."""
    values = ("webhook.enabled=true", "webhook.certManager.enabled=true")
    documents = rendered(*values, more=ALL_KINDS)
    certificate = of_kind(documents, "Certificate")["moorage-webhook"]
    assert certificate["spec"]["issuerRef"] == {"kind": "Issuer", "name": "moorage-webhook"}
    issuers, authority = of_kind(documents, "Issuer"), of_kind(documents, "Certificate")["moorage-webhook-root"]["spec"]
    # A serving certificate that signed itself would be another authority with each renewal.
    assert issuers["moorage-webhook"]["spec"] == {"ca": {"secretName": authority["secretName"]}}
    assert (authority["isCA"], issuers[authority["issuerRef"]["name"]]["spec"]) == (True, {"selfSigned": {}})
    assert f"moorage-webhook.{NAMESPACE}.svc" in certificate["spec"]["dnsNames"]
    registration = of_kind(documents, "MutatingWebhookConfiguration")["moorage-webhook"]
    assert registration["metadata"]["annotations"] == {"cert-manager.io/inject-ca-from": f"{NAMESPACE}/moorage-webhook"}
    spec = of_kind(documents, "Deployment")["moorage-webhook"]["spec"]["template"]["spec"]
    (secret,) = (volume["secret"]["secretName"] for volume in spec["volumes"] if "secret" in volume)
    assert secret == certificate["spec"]["secretName"]
    assert "--tls-cert=/etc/moorage-tls/tls.crt" in spec["containers"][0]["args"]


def test_an_issuer_of_the_clusters_own_is_used() -> None:
    """None is made then."""
    issuer = ("webhook.certManager.issuerRef.name=ours", "webhook.certManager.issuerRef.kind=ClusterIssuer")
    documents = rendered("webhook.enabled=true", "webhook.certManager.enabled=true", *issuer, more=ALL_KINDS)
    assert of_kind(documents, "Issuer") == {}
    certificate = of_kind(documents, "Certificate")["moorage-webhook"]
    assert certificate["spec"]["issuerRef"] == {"name": "ours", "kind": "ClusterIssuer"}


def test_without_cert_manager_the_webhook_signs_itself() -> None:
    """A wish that the cluster cannot fulfil leaves a webhook that works."""
    args = pod_spec("webhook", "webhook.certManager.enabled=true")["containers"][0]["args"]
    assert "--self-signed" in args
    assert not [word for word in args if "tls" in word]


# --- pods ---


@pytest.mark.parametrize("component", COMPONENTS)
def test_pods_are_restricted(component: str) -> None:
    """No root, no capabilities, no writable root, no host namespaces, seccomp, and no CPU limit."""
    spec = pod_spec(component)
    (container,) = spec["containers"]
    assert spec["securityContext"] == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert not spec.keys() & {"hostNetwork", "hostPID", "hostIPC"}
    assert container["resources"]["limits"].keys() == {"memory"}
    assert {"livenessProbe", "readinessProbe"} <= container.keys()


def test_the_scheduler_is_made_to_survive() -> None:
    """Two replicas on two nodes, none of which an autoscaler made, with the resources that were promised."""
    found, spec = deployment("scheduler"), pod_spec("scheduler")
    assert found["spec"]["replicas"] == 2
    (container,) = spec["containers"]
    assert container["resources"] == {"requests": {"cpu": "500m", "memory": "512Mi"}, "limits": {"memory": "1Gi"}}
    (term,) = spec["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert term["topologyKey"] == "kubernetes.io/hostname"
    assert term["labelSelector"]["matchLabels"] == found["spec"]["selector"]["matchLabels"]
    (terms,) = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert terms["matchExpressions"] == [{"key": "karpenter.sh/nodepool", "operator": "DoesNotExist"}]
    assert spec["priorityClassName"] == "system-cluster-critical"
    paths = {name: container[f"{name}Probe"]["httpGet"]["path"] for name in ("startup", "liveness", "readiness")}
    assert paths == {"startup": "/livez", "liveness": "/livez", "readiness": "/readyz"}


OVERRIDES: dict[str, tuple[str, Callable[[Document], bool]]] = {
    "affinity": ("scheduler.affinity.nodeAffinity.x=1", lambda spec: spec["affinity"] == {"nodeAffinity": {"x": 1}}),
    "karpenter": ("avoidKarpenterNodes=false", lambda spec: spec["affinity"].keys() == {"podAntiAffinity"}),
    "tag": ("image.tag=v9", lambda spec: spec["containers"][0]["image"] == "moorage:v9"),
    "repository": ("image.repository=r.example/m", lambda spec: spec["containers"][0]["image"] == "r.example/m:0.1.0"),
    "digest": (
        f"image.digest=sha256:{'a' * 64}",
        lambda spec: spec["containers"][0]["image"] == f"moorage@sha256:{'a' * 64}",
    ),
    "pull policy": ("image.pullPolicy=Always", lambda spec: spec["containers"][0]["imagePullPolicy"] == "Always"),
    "arguments": ("scheduler.extraArgs={--dry-run}", lambda spec: spec["containers"][0]["args"][-1] == "--dry-run"),
    "account": (
        "scheduler.serviceAccount.create=false,scheduler.serviceAccount.name=mine",
        lambda spec: spec["serviceAccountName"] == "mine",
    ),
    "log level": ("logging.level=5", lambda spec: "--v=5" in spec["containers"][0]["args"]),
    "variables of traces": (
        "tracing.extraEnv[0].name=OTEL_SERVICE_NAME,tracing.extraEnv[0].value=placer",
        lambda spec: spec["containers"][0]["env"][-1] == {"name": "OTEL_SERVICE_NAME", "value": "placer"},
    ),
    "pull secret": ("imagePullSecrets[0].name=s", lambda spec: spec["imagePullSecrets"] == [{"name": "s"}]),
}


@pytest.mark.parametrize("case", OVERRIDES)
def test_values_reach_the_pods(case: str) -> None:
    """Each has the effect that users of charts expect of it."""
    value, want = OVERRIDES[case]
    assert want(pod_spec("scheduler", value)), pod_spec("scheduler", value)


def test_a_shadow_is_told_what_to_compare() -> None:
    """Every name of a scheduler, the mode, and whether names are left out."""
    values = ("shadow.schedulerNames={a,b}", "shadow.mode=own", "shadow.anonymous=true")
    arguments = pod_spec("shadow", *values)["containers"][0]["args"]
    assert [each for each in arguments if "scheduler-name" in each] == ["--scheduler-name=a", "--scheduler-name=b"]
    assert {"--mode=own", "--anonymous"} <= {*arguments}
    plain = pod_spec("shadow")["containers"][0]["args"]
    assert "--scheduler-name=default-scheduler" in plain
    assert "--anonymous" not in plain


def test_a_trial_is_a_document_of_the_file_that_restarts_nothing() -> None:
    """The scheduler follows its file; for the others, their pods stay as they are."""
    value = "config.trial.pods.namespaces={a},config.trial.duration=1h,config.trial.profiles[0].schedulerName=moorage"
    plain, tried = (of_kind(rendered(*EVERYTHING, *more), "ConfigMap")["moorage"] for more in ((), (value,)))
    documents = [*yaml.safe_load_all(tried["data"]["config.yaml"])]
    assert [each["kind"] for each in documents].count("TrialConfiguration") == 1
    assert "TrialConfiguration" not in plain["data"]["config.yaml"]
    for component in ("scheduler", "extender", "webhook", "keeper"):
        before, after = (
            of_kind(rendered(*EVERYTHING, *more), "Deployment")[f"moorage-{component}"] for more in ((), (value,))
        )
        assert before == after


def test_every_object_has_the_labels_of_helm_charts() -> None:
    """So `kubectl get -l` finds a release, and components can be told apart."""
    for document in rendered(*EVERYTHING, more=ALL_KINDS):
        labels = document["metadata"]["labels"]
        assert labels["app.kubernetes.io/name"] == "moorage", document
        assert labels["app.kubernetes.io/instance"] == RELEASE
        assert labels["app.kubernetes.io/managed-by"] == "Helm"
        assert labels["helm.sh/chart"] == "moorage-0.1.0"


NAMES = {
    "release": ("moorage", (), "moorage-scheduler"),
    "another release": ("blue", (), "blue-moorage-scheduler"),
    "name": ("blue", ("nameOverride=dock",), "blue-dock-scheduler"),
    "full name": ("blue", ("fullnameOverride=harbour",), "harbour-scheduler"),
}


@pytest.mark.parametrize("case", NAMES)
def test_names_follow_the_release(case: str) -> None:
    """The lease and the rights to it too, so that two releases never share a leader."""
    release, values, want = NAMES[case]
    documents = rendered(*values, name=release)
    assert of_kind(documents, "Deployment").keys() == {want}
    lease = configuration(documents)["leaderElection"]["resourceName"]
    assert f"{lease}-scheduler" == want
    assert of_kind(documents, "Role")[want]["rules"][1]["resourceNames"] == [lease]


# --- configuration ---


def configuration(documents: list[Document]) -> Document:
    """The KubeSchedulerConfiguration of the release."""
    (found,) = (document for name, document in of_kind(documents, "ConfigMap").items() if not name.endswith("-grafana"))
    (scheduler, *_) = yaml.safe_load_all(found["data"]["config.yaml"])
    assert isinstance(scheduler, dict)
    return scheduler


CONFIGURATIONS = {
    "defaults": (),
    "no election": ("config.scheduler.leaderElection.leaderElect=false", "scheduler.replicaCount=1"),
    "two profiles": ("config.scheduler.profiles[0].schedulerName=a", "config.scheduler.profiles[1].schedulerName=b"),
    "one document each": ("config.keeper.atDeadline=Delete", "config.extender.callerTimeout=9s"),
}


@pytest.mark.parametrize("case", CONFIGURATIONS)
def test_the_configuration_is_valid(case: str, tmp_path: Path) -> None:
    """`moorage validate` finds nothing in what the chart writes."""
    written = tmp_path / "config.yaml"
    written.write_text(of_kind(rendered(*CONFIGURATIONS[case]), "ConfigMap")[RELEASE]["data"]["config.yaml"])
    command = [sys.executable, "-m", "moorage", "validate", "-f", str(written)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "ok: 4 objects\n"), done.stdout + done.stderr


def test_the_keeper_may_have_profiles_of_its_own() -> None:
    """Its file is another one, and that of the others stays as it is."""
    values = ("keeper.enabled=true", "keeper.profiles[0].schedulerName=a", "keeper.profiles[1].schedulerName=b")
    documents = rendered(*values)
    maps = of_kind(documents, "ConfigMap")
    assert maps["moorage"] == of_kind(rendered(), "ConfigMap")["moorage"]
    found = read_configuration(maps["moorage-keeper"]["data"]["config.yaml"].encode(), "", find_plugins().registry)
    assert found.configuration is not None
    assert [profile.scheduler_name for profile in found.profiles] == ["a", "b"]
    assert keeper_configuration(found.configuration).profile == "a"
    deployments = of_kind(documents, "Deployment")
    mounted = {
        name: volume["configMap"]["name"]
        for name, body in deployments.items()
        for volume in body["spec"]["template"]["spec"]["volumes"]
        if volume["name"] == "config"
    }
    assert mounted == {"moorage-scheduler": "moorage", "moorage-keeper": "moorage-keeper"}
    changed = pod_annotations("keeper", *values[:-1], "keeper.profiles[1].schedulerName=c")
    assert changed != pod_annotations("keeper", *values)


def pod_annotations(component: str, *values: str) -> Document:
    found: Document = deployment(component, *values)["spec"]["template"]["metadata"]["annotations"]
    return found


def test_a_false_is_a_false() -> None:
    """What is turned off is not turned on again by a default, and needs no rights."""
    documents = rendered("config.scheduler.leaderElection.leaderElect=false")
    assert configuration(documents)["leaderElection"]["leaderElect"] is False
    assert of_kind(documents, "Role").keys() == {"moorage-scheduler-authentication"}


LASTING, FOLLOWED = "config.scheduler.clientConnection.qps=70", "config.scheduler.podMaxBackoffSeconds=20"


@pytest.mark.parametrize(
    ("component", "change", "want_replaced"),
    [("scheduler", LASTING, True), ("scheduler", FOLLOWED, False), ("keeper", FOLLOWED, True)],
    ids=["the scheduler's connection", "what the scheduler follows", "components that read it once"],
)
def test_a_changed_configuration_replaces_pods_that_cannot_take_it_over(
    component: str, change: str, want_replaced: bool
) -> None:
    """By a checksum in the pod template, unless that is not wanted."""

    def template(*values: str) -> object:
        return deployment(component, *values)["spec"]["template"]["metadata"]

    assert (template() != template(change)) == want_replaced
    kept = "config.restartOnChange=false"
    assert template(kept) == template(kept, change)


def test_the_scheduler_knows_which_pod_it_is() -> None:
    """For events about its configuration, which is mounted as a folder: the kubelet does not renew single files."""
    (container,) = pod_spec("scheduler")["containers"]
    fields = {entry["name"]: entry["valueFrom"]["fieldRef"]["fieldPath"] for entry in container["env"]}
    assert fields == {"POD_NAME": "metadata.name", "POD_NAMESPACE": "metadata.namespace", "POD_UID": "metadata.uid"}
    assert not any("subPath" in mount for mount in container["volumeMounts"])


def test_a_configmap_with_prices_may_be_read_by_name() -> None:
    """In its own namespace, by the component that runs the profile, and not at all without it."""
    roles = of_kind(rendered(*PRICES, *(f"{name}.enabled=true" for name in ("keeper", "dashboard", "shadow"))), "Role")
    for name in (f"moorage-{component}-prices-0" for component in ("scheduler", "keeper", "dashboard", "shadow")):
        assert roles[name]["metadata"]["namespace"] == "costs"
        (rule,) = roles[name]["rules"]
        assert (rule["resources"], rule["resourceNames"], rule["verbs"]) == (
            ["configmaps"],
            ["prices"],
            ["list", "watch"],
        )
    assert not [name for name in of_kind(rendered("keeper.enabled=true"), "Role") if "prices" in name]


MUTUAL = ("extender.enabled=true", "extender.tlsSecretName=serving", "extender.clientCASecretName=callers")


def test_the_extender_asks_callers_for_certificates() -> None:
    """The authority is mounted and named, and so are the names; with it the extender may bind."""
    spec = pod_spec("extender", *MUTUAL, "extender.clientNames={kube-scheduler}", "extender.binds=true")
    flags = {"--client-ca-file=/etc/moorage-client-ca/ca.crt", "--client-name=kube-scheduler"}
    assert flags <= set(spec["containers"][0]["args"])
    (secret,) = [volume["secret"] for volume in spec["volumes"] if volume["name"] == "client-ca"]
    assert (secret["secretName"], [item["path"] for item in secret["items"]]) == ("callers", ["ca.crt"])
    config = of_kind(rendered(*MUTUAL, "extender.binds=true"), "ConfigMap")["moorage"]["data"]["config.yaml"]
    (own,) = [each for each in yaml.safe_load_all(config) if each["kind"] == "ExtenderConfiguration"]
    assert own["binds"] is True


def test_more_rights_go_to_the_component_that_needs_them() -> None:
    """And to no other."""
    more = ("rbac.extraRules.keeper[0].apiGroups={x.example}", "rbac.extraRules.keeper[0].resources={things}")
    roles = of_kind(
        rendered(*more, "rbac.extraRules.keeper[0].verbs={list}", *EVERYTHING, more=ALL_KINDS), "ClusterRole"
    )
    assert [name for name, role in roles.items() if "x.example" in str(role["rules"])] == ["moorage-keeper"]


# --- refusals ---

REFUSED = {
    "a collector without a scheme": (
        "tracing.endpoint=otel:4318",
        "at '/tracing/endpoint': 'otel:4318' does not match",
    ),
    "more than all pods": ("tracing.samplingRatePerMillion=1000001", "at '/tracing/samplingRatePerMillion': maximum"),
    "misspelt": ("scheduler.replicas=2", "at '/scheduler': additional properties 'replicas' not allowed"),
    "misspelt component": ("schduler.enabled=true", "additional properties 'schduler' not allowed"),
    "not a number": ("scheduler.replicaCount=two", "at '/scheduler/replicaCount': got string, want integer"),
    "a shadow of nobody": ("shadow.schedulerNames=null", "at '/shadow': missing property 'schedulerNames'"),
    "no such mode": ("shadow.mode=both", "at '/shadow/mode': value must be one of 'follow', 'own'"),
    "not a switch": ("extender.enabled=yes", "at '/extender/enabled': got string, want boolean"),
    "no such format": ("logging.format=xml", "at '/logging/format': value must be one of 'json', 'text'"),
    "no unit": ("config.scheduler.leaderElection.leaseDuration=15", "leaseDuration': got number, want string"),
    "no profile": ("config.scheduler.profiles=null", "at '/config/scheduler': missing property 'profiles'"),
    "digest": ("image.digest=latest", "at '/image/digest': 'latest' does not match pattern"),
    "priority": ("priorityClass.value=2000000000", "at '/priorityClass/value': maximum: got"),
    "fence without election": (
        "fence.enabled=true,config.scheduler.leaderElection.leaderElect=false",
        "fence.enabled: true needs leader election",
    ),
    "binds for everybody": (
        "extender.enabled=true,extender.binds=true",
        "extender.binds: true needs extender.clientCASecretName",
    ),
    "client certificates over HTTP": (
        "extender.enabled=true,extender.clientCASecretName=ca",
        "extender.clientCASecretName needs extender.tlsSecretName",
    ),
    "rights for everybody": ("rbac.extraRules[0].verbs={get}", "at '/rbac/extraRules': got array, want object"),
    "an end that a trial cannot have": (
        "config.trial.atEnd=Stay",
        "at '/config/trial/atEnd': value must be one of 'Return', 'Keep'",
    ),
    "no such lock": (
        "config.scheduler.leaderElection.resourceLock=endpoints",
        "at '/config/scheduler/leaderElection/resourceLock': value must be 'leases'",
    ),
}


TRACING = ("tracing.endpoint=http://otel.observability:4318", "tracing.samplingRatePerMillion=1000")


def test_traces_are_part_of_the_configuration() -> None:
    """Without a collector there is no word of them; with one, the pods are replaced and the network lets them out."""
    documents = rendered(*TRACING, "networkPolicy.enabled=true")
    text = of_kind(documents, "ConfigMap")[RELEASE]["data"]["config.yaml"]
    found = read_configuration(text.encode(), "", find_plugins().registry)
    assert found.configuration is not None
    tracing = found.configuration.component(TracingConfiguration())
    assert (tracing.endpoint, tracing.sampling_rate_per_million) == ("http://otel.observability:4318", 1000)
    assert "Tracing" not in of_kind(rendered(), "ConfigMap")[RELEASE]["data"]["config.yaml"]
    assert pod_annotations("scheduler", *TRACING) != pod_annotations("scheduler")
    egress = of_kind(documents, "NetworkPolicy")["moorage-scheduler"]["spec"]["egress"]
    assert {"ports": [{"protocol": "TCP", "port": 4318}]} in egress


@pytest.mark.parametrize("case", REFUSED)
def test_bad_values_are_refused_by_name(case: str) -> None:
    """The message says where and what; nothing is installed."""
    value, want = REFUSED[case]
    assert want in helm("template", RELEASE, CHART, "--set", value, good=False)


def test_an_old_cluster_gets_no_fence() -> None:
    """A policy that the API server does not know is refused in words, and flow schemas are of the version it has."""
    old = ("--kube-version", "1.28.0")
    error = helm("template", RELEASE, CHART, *old, "--set", "fence.enabled=true", good=False)
    assert "needs ValidatingAdmissionPolicy, which Kubernetes has from 1.30 on" in error
    versions = {found["apiVersion"] for found in rendered(more=old) if found["kind"] == "FlowSchema"}
    assert versions == {"flowcontrol.apiserver.k8s.io/v1beta3"}


# --- alerts and dashboard ---

METRIC = re.compile(r"\b(?:scheduler|moorage|leader_election|controller_runtime|smart_scheduler|process)_\w+")
SUFFIX = re.compile(r"_(total|count|sum|bucket)$")


def exported() -> str:
    """The code that names metrics."""
    files = [*(ROOT / "src/moorage/adapters").rglob("*.py")]
    return "\n".join(file.read_text() for file in files)


def unknown(expressions: list[str]) -> list[str]:
    """Metrics that are asked for and that nobody exports."""
    code = exported()
    names = {SUFFIX.sub("", name) for text in expressions for name in METRIC.findall(text)}
    assert names
    of_the_library = {"process_resident_memory_bytes", "process_cpu_seconds"}
    short = {name: name.removeprefix("moorage_webhook_").removeprefix("moorage_extender_") for name in names}
    return sorted(name for name in names - of_the_library if f'"{name}' not in code and f'"{short[name]}' not in code)


def alerts() -> list[Document]:
    (rule,) = of_kind(rendered(*EVERYTHING, more=ALL_KINDS), "PrometheusRule").values()
    return [alert for group in rule["spec"]["groups"] for alert in group["rules"]]


def test_alerts_ask_for_metrics_that_exist() -> None:
    """An alert about a metric that nobody exports would never fire."""
    assert unknown([alert["expr"] for alert in alerts()]) == []
    names = {alert["alert"] for alert in alerts()}
    assert names >= {
        "MoorageNoLeader",
        "MooragePodsPendingTooLong",
        "MoorageBindErrors",
        "MooragePreemptionStorm",
        "MoorageObjectsSkipped",
        "MoorageWebhookErrors",
        "MoorageWebhookCertificateExpiry",
        "MoorageConfigurationRefused",
    }


def test_each_alert_is_explained() -> None:
    """The page that an alert names has a section about it."""
    text = (ROOT / "docs/operate.md").read_text()
    sections = {line.removeprefix("### ").lower() for line in text.splitlines() if line.startswith("### ")}
    for alert in alerts():
        page, _, anchor = alert["annotations"]["runbook"].partition("#")
        assert (page, anchor) == ("docs/operate.md", alert["alert"].lower())
        assert anchor in sections


def test_the_dashboard_asks_for_metrics_that_exist() -> None:
    """Each panel has a question, and each question a metric."""
    dashboard = json.loads((CHART / "dashboards/moorage.json").read_text())
    panels = [panel for panel in dashboard["panels"] if panel["type"] != "row"]
    assert unknown([target["expr"] for panel in panels for target in panel["targets"]]) == []
    assert all(panel["targets"] for panel in panels)
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(ids) == len(set(ids))
