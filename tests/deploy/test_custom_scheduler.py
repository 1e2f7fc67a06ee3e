"""The example custom-scheduler: its manifests, its rights, its configuration, its sample workloads and its setup.sh."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from moorage.app.plugins import find_plugins
from moorage.app.sources import watched_kinds
from moorage.bench.controlplane import ControlPlane
from moorage.framework.contract import OwnsNodes, ReadsPriority
from moorage.framework.instances import Instances
from moorage.plugins.priority_annotation import PriorityAnnotation
from moorage.wire.configuration import read_configuration
from tests.app.scheduling import make_node
from tests.controlplane_fixtures import PlaneFactory
from tests.deploy.access import allowed, applied
from tests.deploy.chart import token_kubeconfig
from tests.patience import eventually

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy/examples/custom-scheduler"
ACCOUNT = "system:serviceaccount:kube-system:custom-scheduler"


def documents(name: str) -> list[dict[str, Any]]:
    return [document for document in yaml.safe_load_all((FOLDER / name).read_text()) if document]


def manifest(kind: str) -> dict[str, Any]:
    (found,) = (document for document in documents("manifests.yaml") if document["kind"] == kind)
    return found


def kubectl(plane: ControlPlane, *arguments: str, given: str | None = None) -> str:
    command = [str(plane.binary("kubectl")), "--kubeconfig", str(plane.admin_kubeconfig), *arguments]
    done = subprocess.run(command, check=False, capture_output=True, text=True, input=given)
    assert done.returncode == 0, done.stderr
    return done.stdout


# --- files ---


def test_the_files_are_clean() -> None:
    """`moorage validate` has nothing to say about configuration and workloads, and the ConfigMap is the same file."""
    files = ("config.yaml", "example-deployments.yaml", "example-deployments-split-gang.yaml")
    command = [sys.executable, "-m", "moorage", "validate", *(word for file in files for word in ("-f", FOLDER / file))]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "ok: 7 objects\n", "")
    assert manifest("ConfigMap")["data"]["config.yaml"] == (FOLDER / "config.yaml").read_text()


def test_everything_carries_the_label() -> None:
    """`app=custom-scheduler` finds every object and the pods, all that has a namespace is in kube-system."""
    pods = manifest("Deployment")["spec"]["template"]["metadata"]
    found = [document["metadata"] for document in documents("manifests.yaml")]
    assert {metadata["labels"]["app"] for metadata in (*found, pods)} == {"custom-scheduler"}
    assert {metadata["namespace"] for metadata in found if "namespace" in metadata} == {"kube-system"}


def test_the_configuration_is_that_of_a_planner() -> None:
    """One pod per node, the plan's order, priorities from annotations of every namespace, a lease of its own."""
    reading = read_configuration((FOLDER / "config.yaml").read_bytes(), "config.yaml", find_plugins().registry)
    assert reading.configuration is not None
    lease = reading.configuration.leader_election
    assert (lease.resource_name, lease.resource_namespace) == ("custom-scheduler", "kube-system")
    (profile,) = reading.profiles
    assert profile.scheduler_name == "custom-scheduler"
    plugins = Instances(profile)
    assert [plugin.name for plugin in plugins.queue_sort] == ["PlanSort"]
    assert plugins.first(OwnsNodes) is not None
    (reader,) = plugins.having(ReadsPriority)
    assert isinstance(reader, PriorityAnnotation)
    assert reader.args.bound("any-namespace") == 1_000_000_000


def workloads(name: str) -> dict[str, tuple[int, str, str | None]]:
    """Deployment -> (replicas, priority, gang)."""
    found: dict[str, tuple[int, str, str | None]] = {}
    for document in documents(name):
        template = document["spec"]["template"]
        annotations = template["metadata"]["annotations"]
        assert template["spec"]["schedulerName"] == "custom-scheduler"
        name = document["metadata"]["name"]
        found[name] = (document["spec"]["replicas"], annotations["priority"], annotations.get("pod-group"))
    return found


def test_the_sample_workloads() -> None:
    """One high, one low, a gang of three between them; and a gang that is spread over Deployments."""
    assert workloads("example-deployments.yaml") == {
        "high-priority-app": (1, "100", None),
        "low-priority-app": (1, "10", None),
        "gang-app-a": (3, "50", "group-a"),
    }
    assert workloads("example-deployments-split-gang.yaml") == {
        f"gang-app-b-{number}": (1, "50", "group-b") for number in (1, 2, 3)
    }


# --- on the real API server ---


@pytest.fixture
def installed(empty_control_plane: ControlPlane) -> Iterator[ControlPlane]:
    """An API server on which the manifests were applied, and nothing else."""
    with applied(empty_control_plane, FOLDER / "manifests.yaml") as plane:
        yield plane


@pytest.mark.parametrize("file", ["manifests.yaml", "example-deployments.yaml", "example-deployments-split-gang.yaml"])
def test_the_server_accepts_the_file(control_plane: ControlPlane, file: str) -> None:
    """Every field is known, every value valid."""
    kubectl(control_plane, "apply", "--dry-run=server", "--validate=strict", "-f", str(FOLDER / file))


def test_the_pod_is_as_restricted_as_pods_can_be(installed: ControlPlane) -> None:
    """A namespace that enforces the Pod Security level `restricted` lets the scheduler's pod in."""
    label = {"pod-security.kubernetes.io/enforce": "restricted"}
    metadata = {"name": "custom-scheduler", "namespace": "locked"}
    installed.request("POST", "/api/v1/namespaces", {"metadata": {"name": "locked", "labels": label}})
    installed.request("POST", "/api/v1/namespaces/locked/serviceaccounts", {"metadata": metadata})
    spec = manifest("Deployment")["spec"]["template"]["spec"]
    answer = installed.request(
        "POST", "/api/v1/namespaces/locked/pods?dryRun=All", {"metadata": metadata, "spec": spec}
    )
    assert answer.status == 201, answer.content


def test_the_account_may_do_what_a_scheduler_does(installed: ControlPlane) -> None:
    """It may watch every kind that the profile reads, and write what placing a pod takes."""
    reading = read_configuration((FOLDER / "config.yaml").read_bytes(), "config.yaml", find_plugins().registry)
    reads = [(verb, kind.group, kind.plural) for kind in watched_kinds(reading.profiles) for verb in ("list", "watch")]
    writes = [
        ("create", "", "pods/binding"),
        ("patch", "", "pods/status"),
        ("delete", "", "pods"),
        ("get", "", "pods"),
        ("create", "events.k8s.io", "events"),
        ("patch", "events.k8s.io", "events"),
        ("patch", "", "persistentvolumeclaims"),
        ("patch", "", "persistentvolumes"),
        ("patch", "resource.k8s.io", "resourceclaims/status"),
        ("patch", "resource.k8s.io", "resourceclaims/binding"),
    ]
    assert [right for right in (*reads, *writes) if not allowed(installed, ACCOUNT, *right)] == []
    for verb in ("get", "list", "watch", "update"):
        assert allowed(installed, ACCOUNT, verb, "coordination.k8s.io", "leases", "kube-system", "custom-scheduler")
    assert allowed(installed, ACCOUNT, "create", "coordination.k8s.io", "leases", "kube-system")


NOT_ITS_BUSINESS = {
    "create pods": ("create", "", "pods"),
    "change pods": ("patch", "", "pods"),
    "change nodes": ("patch", "", "nodes"),
    "read secrets": ("list", "", "secrets"),
    "read configuration": ("list", "", "configmaps"),
    "scale": ("patch", "apps", "deployments"),
    "grant rights": ("create", "rbac.authorization.k8s.io", "clusterrolebindings"),
    "another scheduler's lease": ("update", "coordination.k8s.io", "leases", "kube-system", "kube-scheduler"),
}


def test_the_account_may_do_nothing_else(installed: ControlPlane) -> None:
    """What a scheduler does not need, this one may not do."""
    assert [what for what, right in NOT_ITS_BUSINESS.items() if allowed(installed, ACCOUNT, *right)] == []


def account_kubeconfig(plane: ControlPlane, folder: Path) -> Path:
    """How the scheduler's pod would reach the API server."""
    return token_kubeconfig(plane, folder, "kube-system", "custom-scheduler")


def test_it_schedules_with_the_rights_of_its_account(installed: ControlPlane, tmp_path: Path) -> None:
    """Two pods share out two nodes, and a more important one evicts one of them; nothing is forbidden to the scheduler.

    The log tells of decisions and evictions at the verbosity that it is installed with.
    """
    amounts = {"cpu": "4", "memory": "16Gi", "pods": "110"}
    for name in ("n1", "n2"):
        node = {"metadata": {"name": name}, "status": {"capacity": amounts, "allocatable": amounts}}
        installed.request("POST", "/api/v1/nodes", node)

    def create(name: str, priority: str) -> None:
        metadata = {"name": name, "annotations": {"priority": priority}}
        app = {"name": "app", "image": "registry.k8s.io/pause:3.10"}
        pod = {"metadata": metadata, "spec": {"schedulerName": "custom-scheduler", "containers": [app]}}
        answer = installed.request("POST", "/api/v1/namespaces/default/pods", pod)
        assert answer.status == 201, answer.content

    for name, priority in (("first", "50"), ("second", "40"), ("third", "30")):
        create(name, priority)

    def nodes() -> list[str | None]:
        pods = installed.request("GET", "/api/v1/namespaces/default/pods").json()["items"]
        return [pod["spec"].get("nodeName") for pod in sorted(pods, key=lambda pod: str(pod["metadata"]["name"]))]

    def scheduled_events() -> int:
        events = installed.request("GET", "/apis/events.k8s.io/v1/namespaces/default/events").json()["items"]
        return sum(event["reason"] == "Scheduled" for event in events)

    log = tmp_path / "log"
    (container,) = manifest("Deployment")["spec"]["template"]["spec"]["containers"]
    verbosity = container["args"][-1]
    arguments = ["--kubeconfig", account_kubeconfig(installed, tmp_path), "--config", FOLDER / "config.yaml", verbosity]
    command = [sys.executable, "-m", "moorage", "scheduler", "--secure-port=0", *map(str, arguments)]
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output) as process:
        try:
            eventually(lambda: sum(node is not None for node in nodes()) == 2, 60, f"two pods are bound: {nodes()}")
            eventually(lambda: scheduled_events() == 2, 30, "two Scheduled events")
            assert (set(nodes()[:2]), nodes()[2]) == ({"n1", "n2"}, None)
            create("urgent", "100")
            eventually(lambda: "Evicting pod" in log.read_text(), 30, "an eviction in the log")
        finally:
            process.terminate()
            process.wait(20)
    text = log.read_text()
    assert "orbidden" not in text
    assert text.count("Successfully bound pod to node") >= 2
    (eviction,) = (line for line in text.splitlines() if "Evicting pod" in line)
    assert 'pod="default/second"' in eviction
    assert 'preemptor="default/urgent"' in eviction


def test_a_deployment_without_arguments_needs_nothing_but_the_image_of_its_target(
    fresh_control_plane: PlaneFactory, tmp_path: Path
) -> None:
    """The image's own arguments, and the account of the example: the sample workloads end as the document says.

    On four nodes the important pod and the gang of three run, and the unimportant one waits; the log tells of all that.
    """
    plane = fresh_control_plane()
    plane.start_controller_manager("--controllers=deployment-controller,replicaset-controller")
    for number in range(4):
        make_node(plane, f"n{number}")
    *_, started = (line for line in (ROOT / "Dockerfile").read_text().splitlines() if line.startswith("CMD "))
    arguments = [
        f"--config={FOLDER / 'config.yaml'}" if word.startswith("--config=") else word
        for word in json.loads(started.removeprefix("CMD "))
    ]
    command = [sys.executable, "-m", "moorage", *arguments, "--secure-port=0"]
    log = tmp_path / "log"

    def running() -> list[str]:
        pods = plane.request("GET", "/api/v1/namespaces/default/pods").json()["items"]
        return sorted(pod["metadata"]["labels"]["app"] for pod in pods if pod["spec"].get("nodeName"))

    for file in ("manifests.yaml", "example-deployments.yaml"):
        kubectl(plane, "apply", "-f", str(FOLDER / file))
    with (
        log.open("wb") as output,
        subprocess.Popen(
            [*command, "--kubeconfig", str(account_kubeconfig(plane, tmp_path))], stdout=output, stderr=output
        ) as process,
    ):
        try:
            want = ["gang-app-a"] * 3 + ["high-priority-app"]
            eventually(lambda: running() == want, 90, "the important pod and the gang run")
        finally:
            process.terminate()
            process.wait(20)
    text = log.read_text()
    assert "orbidden" not in text
    assert text.count("Successfully bound pod to node") >= 4


# --- setup.sh ---

# Writes its name and arguments into the log, keeps the manifests that it is given, and fails where FAIL says so.
STAND_IN = """#!/bin/sh
set -f
name="$(basename "$0")"
echo "$name $*" >>"$CALLS"
if [ "$name $1" = "kubectl apply" ]; then cp "$3" "$CALLS.yaml"; fi
if [ "$name $1 $2" = "kubectl get clusterrolebinding" ]; then echo "$BOUND"; fi
for pattern in $FAIL; do
  case "$name:$1:$2" in $pattern) exit 1 ;; esac
done
"""
TOOLS = ("basename", "bash", "cp", "dirname", "env", "mktemp", "rm", "sed", "sh")
PROGRAMS = ("docker", "kubectl", "minikube", "podman")


class Setup:
    """setup.sh among stand-ins for the programs that it calls."""

    def __init__(self, folder: Path, programs: tuple[str, ...] = PROGRAMS) -> None:
        self._calls, self._folder = folder / "calls", folder / "bin"
        self._folder.mkdir()
        for tool in TOOLS:
            (self._folder / tool).symlink_to(shutil.which(tool) or tool)
        for program in programs:
            (self._folder / program).write_text(STAND_IN)
            (self._folder / program).chmod(0o755)

    def run(self, *arguments: str, fail: str = "", **environ: str) -> subprocess.CompletedProcess[str]:
        """Run it; calls `program:word:word` that match one of the shell patterns in `fail` end with 1."""
        environ = {"PATH": str(self._folder), "CALLS": str(self._calls), "FAIL": fail, **environ}
        temporary = {"TMPDIR": str(self._folder.parent)}
        command = [str(FOLDER / "setup.sh"), *arguments]
        return subprocess.run(command, env=environ | temporary, check=False, capture_output=True, text=True)

    @property
    def calls(self) -> list[str]:
        """What was called, in order, without the questions that only look."""
        if not self._calls.exists():
            return []
        lines = self._calls.read_text().replace(str(ROOT), "ROOT").splitlines()
        asking = ("docker info", "podman info", "minikube status", "kubectl get")
        return [line for line in lines if not line.startswith(asking)]

    @property
    def applied(self) -> list[dict[str, Any]]:
        """The objects that were applied."""
        return list(yaml.safe_load_all(Path(f"{self._calls}.yaml").read_text()))


def steps(calls: list[str]) -> list[str]:
    """The calls without the names of temporary files."""
    return [
        " ".join("FILE" if word.startswith("/") and "ROOT" not in word else word for word in line.split())
        for line in calls
    ]


def test_setup_with_defaults(tmp_path: Path) -> None:
    """It builds, loads, applies RBAC and deployment, and waits, in the profile custom-scheduler-demo."""
    setup = Setup(tmp_path)
    done = setup.run()
    assert (done.returncode, done.stderr) == (0, "")
    context = "--context custom-scheduler-demo"
    assert steps(setup.calls) == [
        "docker build -t custom-scheduler:latest -f ROOT/Dockerfile ROOT",
        "minikube image load custom-scheduler:latest -p custom-scheduler-demo",
        f"kubectl apply -f FILE {context}",
        f"kubectl rollout restart deployment/custom-scheduler -n kube-system {context}",
        f"kubectl rollout status deployment/custom-scheduler -n kube-system --timeout 180s {context}",
    ]
    assert setup.applied == documents("manifests.yaml")
    assert [path for path in tmp_path.iterdir() if path.name.startswith("tmp")] == [], "nothing is left behind"


def test_setup_with_arguments_and_podman(tmp_path: Path) -> None:
    """Namespace, image and profile go everywhere; podman's image goes through a file; the cluster is started."""
    setup = Setup(tmp_path)
    fail = "docker:* minikube:status:* kubectl:get:*"
    done = setup.run("team-a", "registry.example:5000/custom-scheduler:v2", "mine", fail=fail, NODES="5")
    assert (done.returncode, done.stderr) == (0, "")
    assert steps(setup.calls) == [
        "minikube start -p mine --nodes 5",
        "podman build -t registry.example:5000/custom-scheduler:v2 -f ROOT/Dockerfile ROOT",
        "podman save -o FILE registry.example:5000/custom-scheduler:v2",
        "minikube image load FILE -p mine",
        "kubectl create namespace team-a --context mine",
        "kubectl apply -f FILE --context mine",
        "kubectl rollout status deployment/custom-scheduler -n team-a --timeout 180s --context mine",
    ]
    text = yaml.safe_dump_all(setup.applied)
    assert "kube-system" not in text
    assert text.count("team-a") == 9
    assert text.count("registry.example:5000/custom-scheduler:v2") == 1


def test_an_installation_beside_another_takes_no_rights_from_it(tmp_path: Path) -> None:
    """Each namespace has a ClusterRoleBinding of its own; the ClusterRole is the same for all."""
    bindings = {}
    for namespace in ("kube-system", "team-a", "team-b"):
        (tmp_path / namespace).mkdir()
        setup = Setup(tmp_path / namespace)
        assert setup.run(namespace).returncode == 0
        (found,) = (each for each in setup.applied if each["kind"] == "ClusterRoleBinding")
        bindings[found["metadata"]["name"]] = (found["subjects"][0]["namespace"], found["roleRef"]["name"])
    assert bindings == {
        "custom-scheduler": ("kube-system", "custom-scheduler"),
        "custom-scheduler-team-a": ("team-a", "custom-scheduler"),
        "custom-scheduler-team-b": ("team-b", "custom-scheduler"),
    }


@pytest.mark.parametrize(
    ("bound", "namespace", "code", "last"),
    [
        ("team-a", "kube-system", 1, "minikube image load"),
        ("team-a", "team-a", 0, "kubectl delete clusterrolebinding custom-scheduler"),
        ("team-a", "team-b", 0, "kubectl apply"),
        ("kube-system", "team-a", 0, "kubectl apply"),
        ("kube-system", "kube-system", 0, "kubectl apply"),
    ],
)
def test_a_binding_that_a_former_version_gave_away_is_not_taken_back_unasked(
    tmp_path: Path, bound: str, namespace: str, code: int, last: str
) -> None:
    """The other installation would lose its rights; it gets a binding of its own when it is set up again."""
    setup = Setup(tmp_path)
    done = setup.run(namespace, fail="kubectl:get:deployment", BOUND=bound)
    assert done.returncode == code
    steps = [call for call in setup.calls if not call.startswith("kubectl rollout")]
    assert steps[-1].startswith(last)
    want = (
        "setup.sh: ClusterRoleBinding custom-scheduler gives its rights to namespace team-a; run setup.sh team-a first"
    )
    assert done.stderr.startswith(want) is bool(code)


@pytest.mark.parametrize(
    ("image", "want"),
    [
        ("custom-scheduler:latest", "docker.io/library/custom-scheduler:latest"),
        ("team/custom-scheduler:v1", "docker.io/team/custom-scheduler:v1"),
        ("localhost/custom-scheduler", "localhost/custom-scheduler"),
        ("quay.example/a/b@sha256:00", "quay.example/a/b@sha256:00"),
    ],
)
def test_podman_builds_under_the_name_that_kubernetes_looks_for(tmp_path: Path, image: str, want: str) -> None:
    """Short names mean Docker's registry to Kubernetes, and `localhost/` to podman."""
    setup = Setup(tmp_path, ("kubectl", "minikube", "podman"))
    assert setup.run("kube-system", image).returncode == 0
    assert f"podman build -t {want} -f ROOT/Dockerfile ROOT" in setup.calls


MISTAKES = {
    "namespace": (("Team A",), "namespace 'Team A' is no name of a namespace"),
    "image": (("kube-system", "a b|c"), "image 'a b|c' is no name of an image"),
    "profile": (("kube-system", "image", "-x"), "profile '-x' is no name of a minikube profile"),
    "too many": (("a", "b", "c", "d"), "4 arguments given; at most three are read"),
}


@pytest.mark.parametrize(("arguments", "want"), MISTAKES.values(), ids=MISTAKES.keys())
def test_setup_refuses_what_it_cannot_use(tmp_path: Path, arguments: tuple[str, ...], want: str) -> None:
    """One line says what is wrong, and nothing was called."""
    setup = Setup(tmp_path)
    done = setup.run(*arguments)
    assert done.returncode == 1
    assert done.stderr.startswith(f"setup.sh: {want}")
    assert len(done.stderr.splitlines()) == 1
    assert setup.calls == []


@pytest.mark.parametrize(
    ("programs", "want"),
    [
        (("docker", "minikube"), "kubectl is not on the PATH; install it first"),
        (("docker", "kubectl"), "minikube is not on the PATH; install it first"),
        (("kubectl", "minikube"), "neither docker nor podman works here; install one of them, or start its service"),
    ],
)
def test_setup_says_which_program_is_missing(tmp_path: Path, programs: tuple[str, ...], want: str) -> None:
    """Nothing is begun that cannot be ended."""
    setup = Setup(tmp_path, programs)
    done = setup.run()
    assert (done.returncode, done.stderr, setup.calls) == (1, f"setup.sh: {want}\n", [])


FAILURES = {
    "build": ("docker:build:*", "docker build"),
    "load": ("minikube:image:*", "minikube image"),
    "apply": ("kubectl:apply:*", "kubectl apply"),
}


@pytest.mark.parametrize(("fail", "want_last"), FAILURES.values(), ids=FAILURES.keys())
def test_setup_stops_at_the_first_failure(tmp_path: Path, fail: str, want_last: str) -> None:
    """What follows a failed step is not tried."""
    setup = Setup(tmp_path)
    assert setup.run(fail=fail).returncode == 1
    assert setup.calls[-1].startswith(want_last)


def test_setup_shows_why_the_scheduler_does_not_get_ready(tmp_path: Path) -> None:
    """The log of the scheduler is shown before the error."""
    setup = Setup(tmp_path)
    done = setup.run(fail="kubectl:rollout:status")
    assert done.returncode == 1
    assert "is not ready after 180 s" in done.stderr
    assert setup.calls[-1].startswith("kubectl logs -n kube-system -l app=custom-scheduler")


def test_setup_explains_itself(tmp_path: Path) -> None:
    """--help prints how it is called."""
    done = Setup(tmp_path).run("--help")
    assert done.returncode == 0
    assert "setup.sh [namespace] [image] [profile]" in done.stdout


def test_the_script_is_sound() -> None:
    """Bash can read it, and shellcheck finds nothing where it is installed."""
    program = shutil.which("shellcheck")
    checks = [["bash", "-n"], *([[program]] if program else [])]
    for check in checks:
        subprocess.run([*check, str(FOLDER / "setup.sh")], check=True)
