"""A throw-away Kubernetes control plane on this machine: etcd and kube-apiserver, and on request more of it.

    with ControlPlane.start(Options(feature_gates={"GenericWorkload": True})) as plane:
        subprocess.run([plane.binary("kubectl"), "--kubeconfig", plane.admin_kubeconfig, "get", "nodes"])

Invariants:
- Everything listens on loopback only, on ports of its own, and keeps its files in one folder of its own, so any number
  of planes run side by side.
- `start` returns when the API server is ready and its namespaces and roles exist, or raises ControlPlaneError; then
  nothing is left behind. Processes and folder also go when the starter is killed (see supervisor.py).
- There is no kubelet and, unless started, no controller manager, so the admission plugins that need one are off.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml

from moorage.bench.apiserver import (
    ADMIN,
    SCHEDULER,
    ControlPlaneSecrets,
    Options,
    ServerAnswer,
    User,
    answers,
    apiserver_arguments,
    ask_json,
    etcd_arguments,
)
from moorage.bench.assets import PROGRAMS, AssetsError, find_assets
from moorage.bench.processes import Child, PortTakenError, ProcessError, free_ports

__all__ = ["ADMIN", "SCHEDULER", "ControlPlane", "ControlPlaneError", "Options", "ServerAnswer", "User"]

NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
# A port that was free when it was looked up may be taken when the child wants it.
ATTEMPTS = 3
ROOM_IN_MEMORY_BYTES = 1 << 30


class ControlPlaneError(Exception):
    """The control plane could not be started; the message is one line."""


class ControlPlane:
    """A running control plane; `start` makes one, `stop` or the end of a with block ends it."""

    def __init__(self, options: Options, assets: Path, folder: Path, credentials: ControlPlaneSecrets) -> None:
        self.options = options
        self.folder = folder
        self.url = ""
        self._assets = assets
        self._credentials = credentials
        # In the order of their start; stopped the other way round.
        self._children: list[Child] = []

    @classmethod
    def start(cls, options: Options | None = None) -> Self:
        """Start etcd and kube-apiserver and wait until they are ready."""
        options = options or Options()
        try:
            assets = find_assets()
        except AssetsError as error:
            raise ControlPlaneError(str(error)) from None
        folder = Path(tempfile.mkdtemp(prefix="moorage-plane-", dir=_roomy_folder()))
        plane = cls(options, assets, folder, ControlPlaneSecrets.create(folder, options.users))
        try:
            plane._start_storage_and_server()
        except ProcessError as error:
            plane.stop()
            raise ControlPlaneError(str(error)) from None
        except BaseException:
            plane.stop()
            raise
        return plane

    @property
    def admin_kubeconfig(self) -> Path:
        """Kubeconfig of a cluster administrator."""
        return self.kubeconfig_for(ADMIN.name)

    @property
    def scheduler_kubeconfig(self) -> Path:
        """Kubeconfig of system:kube-scheduler, with the rights that Kubernetes gives it by default."""
        return self.kubeconfig_for(SCHEDULER.name)

    @property
    def logs(self) -> Path:
        """Folder of the log files, one per process."""
        return self.folder / "logs"

    @property
    def audit_log(self) -> Path:
        """What the API server was asked, one JSON event a line; written if the options have an audit policy."""
        return self.logs / "audit.log"

    @property
    def token_folder(self) -> Path:
        """Folder of the authority's certificate (ca.crt) and the service account keys (sa.key, sa.pub)."""
        return self._credentials.folder

    def kubeconfig_for(self, user: str) -> Path:
        """Kubeconfig of a user of the options, with a token."""
        return self._credentials.kubeconfig(user, self.url)

    def token_of(self, user: str) -> str:
        """Bearer token of a user of the options."""
        return self._credentials.token_of(user)

    def request(self, method: str, path: str, body: object = None, *, user: str = ADMIN.name) -> ServerAnswer:
        """Ask the API server, for the few requests of a test's set-up and checks; PATCH is a merge patch."""
        return self._credentials.request(user, method, self.url + path, body)

    def client_certificate(self, user: str, groups: Sequence[str] = ()) -> tuple[bytes, bytes]:
        """Make a client certificate and its key (PEM) for any user at all."""
        pair = self._credentials.authority.client(user, groups)
        return pair.public_pem, pair.key_pem

    def binary(self, name: str) -> Path:
        """Path of one of the programs: kubectl, helm, kube-scheduler, ..."""
        if name not in PROGRAMS:
            raise ValueError(f"no program {name!r} in the control plane; there are {', '.join(PROGRAMS)}")
        return self._assets / name

    def start_controller_manager(self, *args: str, name: str = "kube-controller-manager") -> Child:
        """Start kube-controller-manager with these arguments added, and wait until it is healthy."""
        arguments = [
            f"--kubeconfig={self.admin_kubeconfig}",
            f"--service-account-private-key-file={self.token_folder / 'sa.key'}",
            f"--root-ca-file={self.token_folder / 'ca.crt'}",
            "--leader-elect=false",
        ]
        return self._start_component(name, "kube-controller-manager", [*arguments, *args])

    def start_scheduler(
        self, *args: str, config: Mapping[str, Any] | Path | None = None, name: str = "kube-scheduler"
    ) -> Child:
        """Start the stock kube-scheduler with these arguments added, and wait until it is healthy.

        config is a KubeSchedulerConfiguration; its kubeconfig and leader election are filled in where it has none.
        """
        me = self.scheduler_kubeconfig
        arguments = [f"--authentication-kubeconfig={me}", f"--authorization-kubeconfig={me}"]
        if config is None:
            arguments += [f"--kubeconfig={me}", "--leader-elect=false"]
        else:
            # kube-scheduler ignores --kubeconfig beside --config.
            content = dict(config if isinstance(config, Mapping) else yaml.safe_load(config.read_text()))
            content["clientConnection"] = {"kubeconfig": str(me), **content.get("clientConnection", {})}
            content.setdefault("leaderElection", {"leaderElect": False})
            path = self.folder / f"{name}.yaml"
            path.write_text(yaml.safe_dump(content))
            arguments.append(f"--config={path}")
        return self._start_component(name, "kube-scheduler", [*arguments, *args])

    def kill_server(self) -> None:
        """End the API server at once, as a crash would; what etcd holds stays."""
        self._server().kill()

    def compact(self) -> None:
        """Let etcd forget every revision but the last; a server that is started after that has no older one either."""
        url = f"{self._children[0].url}/v3/kv"
        head = ask_json(f"{url}/range", {"key": "AA=="})["header"]["revision"]
        ask_json(f"{url}/compaction", {"revision": head, "physical": True})

    def start_server(self) -> None:
        """Start the API server again where it was."""
        dead = self._server()
        self._children.remove(dead)
        self._start_server(f"{self._children[0].url}", int(self.url.rpartition(":")[2]))

    def _server(self) -> Child:
        return next(child for child in self._children if child.url == self.url)

    def stop(self) -> None:
        """End all processes and remove the folder. Stopping twice is fine."""
        while self._children:
            self._children.pop().kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _start_storage_and_server(self) -> None:
        self.logs.mkdir()
        etcd = self._retried(self._start_etcd)
        self._retried(lambda _attempt: self._start_server(f"{etcd.url}"))

    def _retried(self, start: Callable[[int], Child]) -> Child:
        """Start a child that serves, on another port if the first one was taken in the meantime."""
        for attempt in range(1, ATTEMPTS):
            with contextlib.suppress(PortTakenError):
                return start(attempt)
        return start(ATTEMPTS)

    def _start_etcd(self, attempt: int) -> Child:
        client_port, peer_port = free_ports(2)
        url = f"http://127.0.0.1:{client_port}"
        arguments = etcd_arguments(self.folder / f"etcd-{attempt}", url, f"http://127.0.0.1:{peer_port}")
        return self._launch("etcd", "etcd", arguments, url, ready=lambda: answers(f"{url}/health"))

    def _start_server(self, etcd_url: str, port: int | None = None) -> Child:
        port = port or free_ports(1)[0]
        self.url = f"https://127.0.0.1:{port}"
        arguments = [*apiserver_arguments(self.options, self._credentials, etcd_url, port), *self._audit_arguments()]
        return self._launch("kube-apiserver", "kube-apiserver", arguments, self.url, ready=self._server_is_ready)

    def _audit_arguments(self) -> list[str]:
        if self.options.audit_policy is None:
            return []
        policy = self.folder / "audit-policy.yaml"
        policy.write_text(yaml.safe_dump(dict(self.options.audit_policy)))
        return [f"--audit-policy-file={policy}", f"--audit-log-path={self.audit_log}"]

    def _server_is_ready(self) -> bool:
        # The server's own namespaces come a moment after it calls itself ready.
        paths = ["/readyz", *(f"/api/v1/namespaces/{name}" for name in NAMESPACES)]
        try:
            return all(self.request("GET", path).status == 200 for path in paths)
        except OSError:
            return False

    def _start_component(self, name: str, program: str, arguments: Sequence[str]) -> Child:
        def start(_attempt: int) -> Child:
            port = free_ports(1)[0]
            serving = ["--bind-address=127.0.0.1", f"--secure-port={port}", f"--cert-dir={self.folder / name}"]
            url = f"https://127.0.0.1:{port}"
            return self._launch(name, program, [*serving, *arguments], url, ready=lambda: answers(f"{url}/healthz"))

        try:
            return self._retried(start)
        except ProcessError as error:
            raise ControlPlaneError(str(error)) from None

    def _launch(
        self, name: str, program: str, arguments: Sequence[str], url: str, *, ready: Callable[[], bool]
    ) -> Child:
        # One of the children has to remove the folder when we are killed; etcd, the first one, does.
        removal = None if self._children else self.folder
        log = self.logs / f"{name}.log"
        command = [str(self.binary(program)), *arguments]
        child = Child.start(name, command, log=log, url=url, remove_when_orphaned=removal)
        self._children.append(child)
        try:
            child.wait_until(ready, timeout_s=self.options.ready_timeout_s)
        except ProcessError:
            child.kill()
            self._children.remove(child)
            raise
        return child


def _roomy_folder() -> str | None:
    """Memory if there is enough of it (etcd writes a lot, and all of it is thrown away), else the usual place."""
    memory = Path("/dev/shm")  # noqa: S108 mkdtemp makes a private folder in it
    if memory.is_dir() and os.access(memory, os.W_OK) and shutil.disk_usage(memory).free >= ROOM_IN_MEMORY_BYTES:
        return str(memory)
    return None
