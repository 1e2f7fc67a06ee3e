"""How etcd and kube-apiserver of a throw-away control plane are started, and their users.

Users log in with tokens from a file that the API server reads at its start, or with client certificates of the plane's
own authority. RBAC is on: except for the admin, users have only the permissions that Kubernetes gives them by default
or that a test grants.
"""

from __future__ import annotations

import base64
import csv
import io
import json
import secrets
import ssl
import threading
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any, Self

import yaml

from moorage.bench.certificates import Authority, token_key
from moorage.core.values import dataclass

ISSUER = "https://kubernetes.default.svc"
ASK_TIMEOUT_S = 10.0
# Each would refuse or change objects for the sake of a component that does not run here: no controller makes the
# default service accounts, no kubelet or node controller takes the not-ready taint away, none releases volumes.
WITHOUT_CONTROLLERS = ("ServiceAccount", "TaintNodesByCondition", "StorageObjectInUseProtection")


@dataclass(frozen=True, slots=True)
class User:
    """A user, and the groups that RBAC sees."""

    name: str
    groups: tuple[str, ...] = ()


ADMIN = User("admin", ("system:masters",))
SCHEDULER = User("system:kube-scheduler")


@dataclass(frozen=True, slots=True)
class ServerAnswer:
    """What the API server said."""

    status: int
    content: bytes

    def json(self) -> Any:
        """Return the decoded content."""
        return json.loads(self.content)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What kind of control plane is wanted."""

    feature_gates: Mapping[str, bool] = field(default_factory=dict)
    runtime_config: Mapping[str, bool] = field(default_factory=dict)
    disable_admission_plugins: Sequence[str] = WITHOUT_CONTROLLERS
    apiserver_args: Sequence[str] = ()
    users: Sequence[User] = ()
    audit_policy: Mapping[str, Any] | None = None
    ready_timeout_s: float = 180.0


@dataclass(frozen=True, slots=True)
class ControlPlaneSecrets:
    """The secrets of one control plane, in a folder of their own."""

    folder: Path
    authority: Authority
    _tokens: Mapping[str, str]
    _tls: ssl.SSLContext

    @classmethod
    def create(cls, parent: Path, users: Sequence[User]) -> Self:
        """Make keys, certificates and tokens for the admin, the scheduler and these users."""
        folder = parent / "credentials"
        folder.mkdir()
        authority, signer = Authority.create(), token_key()
        serving = authority.server(["127.0.0.1", "localhost", "kubernetes.default.svc"])
        everybody = [ADMIN, SCHEDULER, *users]
        tokens = {user.name: secrets.token_hex(16) for user in everybody}
        for name, content in {
            "ca.crt": authority.pem,
            "sa.key": signer.key_pem,
            "sa.pub": signer.public_pem,
            "serving.key": serving.key_pem,
            "serving.crt": serving.public_pem,
            "tokens.csv": _token_file(everybody, tokens),
        }.items():
            (folder / name).write_bytes(content)
        return cls(folder, authority, tokens, ssl.create_default_context(cadata=authority.pem.decode()))

    def token_of(self, user: str) -> str:
        """Bearer token of a user."""
        if user not in self._tokens:
            raise ValueError(f"no user {user!r} in this control plane; name it in Options.users")
        return self._tokens[user]

    def kubeconfig(self, user: str, url: str) -> Path:
        """Write the kubeconfig of a user, if it is not there yet."""
        token = self.token_of(user)
        path = self.folder / f"{user.replace(':', '-').replace('/', '-')}.kubeconfig"
        if not path.exists():
            authority = base64.b64encode(self.authority.pem).decode()
            content = {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": "plane", "cluster": {"server": url, "certificate-authority-data": authority}}],
                "users": [{"name": user, "user": {"token": token}}],
                "contexts": [{"name": "plane", "context": {"cluster": "plane", "user": user}}],
                "current-context": "plane",
            }
            written = path.with_suffix(f".{threading.get_ident()}")  # another thread may be about to read it
            written.write_text(yaml.safe_dump(content, sort_keys=False))
            written.chmod(0o600)
            written.replace(path)
        return path

    def request(self, user: str, method: str, url: str, body: object = None) -> ServerAnswer:
        """Ask the API server as a user; refusals are answers too, only a server that is not there is an OSError."""
        headers = {"Authorization": f"Bearer {self.token_of(user)}"}
        headers["Content-Type"] = "application/merge-patch+json" if method == "PATCH" else "application/json"
        content = None if body is None else json.dumps(body).encode()
        return _ask(urllib.request.Request(url, content, headers, method=method), self._tls)  # noqa: S310


def _token_file(users: Sequence[User], tokens: Mapping[str, str]) -> bytes:
    """One line a user, as kube-apiserver reads it: token, name, uid and, in one field, the groups."""
    output = io.StringIO()
    writer = csv.writer(output, lineterminator="\n")
    for number, user in enumerate(users, start=1):
        writer.writerow([tokens[user.name], user.name, f"uid-{number}", ",".join(user.groups)])
    return output.getvalue().encode()


def answers(url: str) -> bool:
    """Whether a GET succeeds. The server's certificate is not looked at: it signed its own."""
    tls = ssl.create_default_context()
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    try:
        return _ask(urllib.request.Request(url), tls).status == 200  # noqa: S310
    except OSError:
        return False


def ask_json(url: str, body: object) -> Any:
    """Post to a server that needs no credentials, and return what it says."""
    answer = _ask(urllib.request.Request(url, json.dumps(body).encode()), ssl.create_default_context())  # noqa: S310
    return answer.json()


def _ask(request: urllib.request.Request, tls: ssl.SSLContext) -> ServerAnswer:
    # Loopback must not go through a proxy that the environment names.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=tls))
    try:
        with opener.open(request, timeout=ASK_TIMEOUT_S) as response:
            return ServerAnswer(response.status, response.read())
    except urllib.error.HTTPError as error:
        with error:
            return ServerAnswer(error.code, error.read())


def etcd_arguments(data: Path, client_url: str, peer_url: str) -> list[str]:
    """Return etcd's arguments: one member, fast rather than safe."""
    return [
        f"--data-dir={data}",
        "--unsafe-no-fsync",
        "--log-level=error",
        f"--listen-client-urls={client_url}",
        f"--advertise-client-urls={client_url}",
        f"--listen-peer-urls={peer_url}",
        f"--initial-advertise-peer-urls={peer_url}",
        f"--initial-cluster=default={peer_url}",
        # Benchmarks write for minutes; the default of 2 GiB is for clusters that have to be backed up.
        "--quota-backend-bytes=8589934592",
    ]


def apiserver_arguments(options: Options, credentials: ControlPlaneSecrets, etcd_url: str, port: int) -> list[str]:
    """Return kube-apiserver's arguments."""
    folder = credentials.folder
    arguments = [
        f"--etcd-servers={etcd_url}",
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        f"--secure-port={port}",
        f"--tls-cert-file={folder / 'serving.crt'}",
        f"--tls-private-key-file={folder / 'serving.key'}",
        f"--client-ca-file={folder / 'ca.crt'}",
        "--endpoint-reconciler-type=none",
        "--service-cluster-ip-range=10.96.0.0/16",
        f"--service-account-issuer={ISSUER}",
        f"--service-account-key-file={folder / 'sa.pub'}",
        f"--service-account-signing-key-file={folder / 'sa.key'}",
        f"--token-auth-file={folder / 'tokens.csv'}",
        "--authorization-mode=RBAC",
        "--allow-privileged=true",
    ]
    if options.disable_admission_plugins:
        arguments.append(f"--disable-admission-plugins={','.join(options.disable_admission_plugins)}")
    if options.feature_gates:
        arguments.append(f"--feature-gates={_switches(options.feature_gates)}")
    if options.runtime_config:
        arguments.append(f"--runtime-config={_switches(options.runtime_config)}")
    return [*arguments, *options.apiserver_args]


def _switches(values: Mapping[str, bool]) -> str:
    return ",".join(f"{name}={str(value).lower()}" for name, value in values.items())
