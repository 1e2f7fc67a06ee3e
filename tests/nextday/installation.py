"""An example as its users install it: its own files on the API server, its own processes with its own accounts.

The Deployments of the manifests are not run by a kubelet here: each is started as a process, with the arguments, the
ConfigMap and the service account that its pod would have. Only addresses and ports are this machine's.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from moorage.bench.controlplane import ControlPlane
from moorage.bench.processes import Child, free_ports
from tests.app.extender_process import status_of
from tests.app.webhook_process import REGISTRATIONS
from tests.patience import eventually

Document = dict[str, Any]
EXAMPLES = Path(__file__).parents[2] / "deploy/examples"
READY_S = 60.0
TOKEN_LIFE_S = 24 * 3600
_SERVING = ("--bind-address", "--metrics-listen", "--health-listen", "--listen", "--secure-port")
QUICKLY: Mapping[str, Mapping[str, str]] = {
    "WebhookConfiguration": {"fallbackAfter": "5s"},
    "KeeperConfiguration": {"fallbackAfter": "5s", "returnAfter": "3s", "moveAgainAfter": "5s"},
}
"""What is changed in the ConfigMap, by the kind of document: minutes of waiting would be most of a cell."""


@dataclass(frozen=True, slots=True)
class Component:
    """A Deployment of the manifests, as far as a process needs it."""

    name: str
    namespace: str
    account: str
    program: str
    arguments: Sequence[str]
    config: Path

    @property
    def user(self) -> str:
        """As the API server knows it."""
        return f"system:serviceaccount:{self.namespace}:{self.account}"


@dataclass(slots=True)
class Installation:
    """One example on one control plane, or kube-scheduler alone under an empty name; `installed` makes one."""

    plane: ControlPlane
    example: str
    folder: Path
    components: list[Component] = field(default_factory=list)
    children: list[Child] = field(default_factory=list)
    ports: dict[str, int] = field(default_factory=dict)

    @property
    def config(self) -> Path:
        """The configuration that the first component reads, which `explain` and `simulate` are given too."""
        return self.components[0].config

    @property
    def users(self) -> set[str]:
        """Who acts in the name of the example."""
        return {component.user for component in self.components} | {"system:kube-scheduler"}

    @property
    def files(self) -> Path:
        """The example's folder."""
        return EXAMPLES / self.example

    def documents(self) -> list[Document]:
        """What the manifests hold."""
        return [one for one in yaml.safe_load_all((self.files / "manifests.yaml").read_text()) if one]

    def apply(self) -> None:
        """Apply the manifests, and take the Deployments away again: their pods are processes here."""
        if not self.example:
            return
        kubectl(self.plane, "apply", "-f", str(self.files / "manifests.yaml"))
        self.components = []
        for document in self.documents():
            if document["kind"] == "Deployment":
                meta = document["metadata"]
                kubectl(self.plane, "delete", "deployment", meta["name"], "-n", meta["namespace"])
                self.components.append(self._component(document))

    def apply_in(self, namespace: str) -> None:
        """Apply what the example's setup.sh writes for another namespace."""
        script = (self.files / "setup.sh").read_text()
        functions = [
            script[at : script.index("\n}\n", at) + 3] for at in map(script.index, ("binding() {", "render() {"))
        ]
        given = f"namespace={namespace} image=custom-scheduler:latest here={self.files}\n{''.join(functions)}render"
        made = subprocess.run(["bash", "-c", given], check=True, capture_output=True, text=True).stdout
        kubectl(self.plane, "apply", "-f", "-", given=made)

    def start(self) -> None:
        """Start one process for each Deployment, and kube-scheduler where the example stands beside it."""
        for component in self.components:
            self.launch(component)
        if self.example == "spot-extender":
            self.children.append(self.plane.start_scheduler(config=self._asking_kube_scheduler()))
        elif self.example in {"smart-scheduler", ""}:
            self.children.append(self.plane.start_scheduler())

    def stop(self) -> None:
        """End all processes."""
        for child in reversed(self.children):
            child.stop()
        self.children.clear()

    def launch(self, component: Component, kubeconfig: Path | None = None) -> Child:
        """Start a process of a component where the one before it was, and wait until it is ready."""
        number = len(list(self.folder.glob(f"{component.name}-*.log")))
        port = self.ports.setdefault(component.name, free_ports(1)[0])
        name = f"{component.name}-{number}"
        credentials = kubeconfig or self.kubeconfig(component)
        serving, health = _addresses(component.program, port)
        command = [sys.executable, "-m", "moorage", component.program, *component.arguments, *serving]
        command += [f"--config={component.config}", f"--kubeconfig={credentials}"]
        environment = {**os.environ, "POD_NAMESPACE": component.namespace}
        child = Child.start(name, command, log=self.folder / f"{name}.log", env=environment)
        child = Child(name, child.log, f"http://127.0.0.1:{port}", child._process)
        self.children.append(child)
        if health:
            child.wait_until(lambda: status_of(health) == 200, timeout_s=READY_S)
        if component.program == "webhook":
            self._register(port)
        return child

    def of(self, program: str) -> Component:
        """The component that runs a program."""
        return next(one for one in self.components if one.program == program)

    def child(self, component: Component) -> Child:
        """Its process that was started last."""
        return [child for child in self.children if child.name.startswith(f"{component.name}-")][-1]

    def ended(self) -> list[str]:
        """Which components have ended by themselves, and why; there is no kubelet here that would start them again."""
        last = [self.child(component) for component in self.components]
        return [f"{one.name} ended with code {one.exit_code}: {one.complaint()}" for one in last if not one.running]

    def kubeconfig(self, component: Component) -> Path:
        """How its pod would reach the API server."""
        path = f"/api/v1/namespaces/{component.namespace}/serviceaccounts/{component.account}/token"
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"}
        answer = self.plane.request("POST", path, {**body, "spec": {"expirationSeconds": TOKEN_LIFE_S}})
        assert answer.status == 201, answer.content
        document = yaml.safe_load(self.plane.admin_kubeconfig.read_text())
        document["users"][0]["user"] = {"token": answer.json()["status"]["token"]}
        written = self.folder / f"{component.account}.kubeconfig"
        written.write_text(yaml.safe_dump(document))
        return written

    def _component(self, deployment: Document) -> Component:
        meta, spec = deployment["metadata"], deployment["spec"]["template"]["spec"]
        (container,) = spec["containers"]
        program, *arguments = container["args"]
        config = next(word.partition("=")[2] for word in arguments if word.startswith("--config="))
        rest = [word for word in arguments if not word.startswith(("--config=", *_SERVING))]
        file = self.folder / f"{meta['name']}.yaml"
        file.write_text(self._mounted(meta["namespace"], spec, container, config))
        return Component(meta["name"], meta["namespace"], spec["serviceAccountName"], program, rest, file)

    def _mounted(self, namespace: str, spec: Document, container: Document, path: str) -> str:
        """What a container finds in a file that comes from a ConfigMap."""
        folder, _, name = path.rpartition("/")
        volume = next(mount["name"] for mount in container["volumeMounts"] if mount["mountPath"] == folder)
        source = next(each for each in spec["volumes"] if each["name"] == volume)["configMap"]["name"]
        answer = self.plane.request("GET", f"/api/v1/namespaces/{namespace}/configmaps/{source}")
        documents = list(yaml.safe_load_all(answer.json()["data"][name]))
        for document in documents:
            document.update(QUICKLY.get(document["kind"], {}))
        return yaml.safe_dump_all(documents)

    def _asking_kube_scheduler(self) -> Document:
        """The file for kube-scheduler, with the address that the Service would have."""
        content: Document = yaml.safe_load((self.files / "kube-scheduler-config.yaml").read_text())
        content.pop("clientConnection", None)
        content["leaderElection"] = {"leaderElect": False}
        for extender in content["extenders"]:
            extender["urlPrefix"] = self.child(self.of("extender")).url
        return content

    def _register(self, port: int) -> None:
        """Let the API server call the webhook where the Service would lead."""
        name = next(each["metadata"]["name"] for each in self.documents() if each["kind"].startswith("Mutating"))

        def entry() -> Document:
            registration: Document = self.plane.request("GET", f"{REGISTRATIONS}/{name}").json()
            return registration

        eventually(lambda: entry()["webhooks"][0]["clientConfig"].get("caBundle"), READY_S, "the webhook is registered")
        registration = entry()
        client = registration["webhooks"][0]["clientConfig"]
        url = f"https://127.0.0.1:{port}/mutate"
        registration["webhooks"][0]["clientConfig"] = {"url": url, "caBundle": client["caBundle"]}
        answer = self.plane.request("PUT", f"{REGISTRATIONS}/{name}", registration)
        assert answer.status == 200, answer.content


@contextmanager
def installed(plane: ControlPlane, example: str, folder: Path) -> Iterator[Installation]:
    """An example that runs for the length of the block."""
    folder.mkdir(parents=True, exist_ok=True)
    one = Installation(plane, example, folder)
    one.apply()
    try:
        one.start()
        yield one
    finally:
        one.stop()
        if example:  # without its namespace, whose end no controller here would bring about
            rest = [each for each in one.documents() if each["kind"] != "Namespace"]
            kubectl(plane, "delete", "-f", "-", "--wait=false", "--ignore-not-found", given=yaml.safe_dump_all(rest))
        for namespace in {"kube-system", *(each.namespace for each in one.components)}:
            kubectl(plane, "delete", "leases", "--all", "-n", namespace)


def kubectl(plane: ControlPlane, *arguments: str, given: str | None = None) -> str:
    """What kubectl prints, as admin."""
    command = [str(plane.binary("kubectl")), "--kubeconfig", str(plane.admin_kubeconfig), *arguments]
    done = subprocess.run(command, check=False, capture_output=True, text=True, input=given)
    assert done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.stderr}"
    return done.stdout


def moorage(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """A command of ours."""
    command = [sys.executable, "-m", "moorage", *map(str, arguments)]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)


def _addresses(program: str, port: int) -> tuple[list[str], str]:
    """Flags that say where a program serves, and where it says that it is ready."""
    if program == "scheduler":
        return ["--bind-address=127.0.0.1", f"--secure-port={port}"], ""
    if program == "extender":
        return [f"--listen=127.0.0.1:{port}"], f"http://127.0.0.1:{port}/readyz"
    health, metrics = free_ports(2)
    served = [f"--health-listen=127.0.0.1:{health}", f"--metrics-listen=127.0.0.1:{metrics}"]
    return [
        *served,
        *([f"--listen=127.0.0.1:{port}"] if program == "webhook" else []),
    ], f"http://127.0.0.1:{health}/readyz"
