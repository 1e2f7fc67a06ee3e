"""Identity and API server: one `Credentials` value per process, from a kubeconfig or from inside a cluster.

Everything may change while we run: token files and certificates are rotated, exec credentials expire. `access()` is
therefore asked before every request; it answers from memory and looks at the files at most once a second. What cannot
be read during a rotation is replaced by what was read last.
"""

from __future__ import annotations

import asyncio
import base64
import ipaddress
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from ssl import SSLContext
from typing import Any
from urllib.parse import urlsplit

import structlog

from moorage.adapters import clock
from moorage.adapters.kube.errors import CredentialsError
from moorage.adapters.kube.exec_plugin import ExecCredential, ExecPlugin
from moorage.adapters.kube.kubeconfig import (
    PLAIN_HTTP,
    KubeconfigEntry,
    allows_plain_http,
    exec_extension,
    read_context,
    server_of,
)
from moorage.adapters.kube.tls import TlsMaterial, make_context
from moorage.core.values import dataclass

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
LOOK_S = 1.0
_WARNED_OF: set[str] = set()
"""Servers whose certificate is not verified; each is logged once, however often credentials are loaded."""

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, eq=False)
class Access:
    """What one request needs to be accepted. Compared by identity: a new value means that something changed."""

    headers: Mapping[str, str]
    tls: SSLContext | None
    """None for a server that is spoken to in the clear."""
    exec_credential: ExecCredential | None = None


class FileValue:
    """The content of a file that others may replace at any time."""

    def __init__(self, path: Path, what: str) -> None:
        self._path = path
        self._signature: tuple[int, int, int] | None = None
        try:
            self.content = path.read_bytes()
            self._signature = self._stat()
        except OSError as failure:
            raise CredentialsError(f"{path}: {what}: cannot be read: {failure.strerror}; check the file") from failure
        if not self.content.strip():
            raise CredentialsError(f"{path}: {what}: the file is empty; put the content there or remove the field")

    def look(self, *, force: bool = False) -> None:
        """Read the file again if it changed. A file that is missing or empty right now keeps its last content."""
        try:
            signature = self._stat()
            if signature == self._signature and not force:
                return
            content = self._path.read_bytes()
        except OSError as failure:
            log.warning(
                "credential file not readable, keeping its last content", file=str(self._path), error=str(failure)
            )
            return
        if content.strip():
            self.content = content
            self._signature = signature

    def _stat(self) -> tuple[int, int, int]:
        found = self._path.stat()
        return found.st_ino, found.st_mtime_ns, found.st_size


@dataclass(slots=True)
class Identity:
    """The parts that make up our identity, some of which follow files or a plugin."""

    token: str = ""
    token_file: FileValue | None = None
    exec_plugin: ExecPlugin | None = None
    basic: str = ""
    ca: bytes | FileValue | None = None
    certificate: bytes | FileValue | None = None
    key: bytes | FileValue | None = None
    insecure: bool = False
    impersonation: tuple[tuple[str, str], ...] = ()

    def files(self) -> list[FileValue]:
        """List the parts that follow files."""
        parts = (self.token_file, self.ca, self.certificate, self.key)
        return [part for part in parts if isinstance(part, FileValue)]

    def current_token(self, source: str) -> str:
        """Give the bearer token apart from exec plugins; a token file wins over a token beside it."""
        token = self.token
        if self.token_file is not None:
            token = self.token_file.content.decode("utf-8", "replace").strip()
        if not (token.isascii() and token.isprintable()):
            why = "holds characters that no token has, such as a line break; write it again"
            raise CredentialsError(f"{source}: token: (hidden): {why}")
        return token


class Credentials:
    """Identity and address. `source` says where they come from, for messages."""

    def __init__(
        self,
        server: str,
        identity: Identity,
        *,
        source: str,
        namespace: str = "default",
        tls_server_name: str | None = None,
        plain_http: bool = False,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """`plain_http`: a token may go over the network in the clear."""
        self.server = server
        self._plain_http = plain_http
        self.source = source
        self.namespace = namespace
        self.tls_server_name = tls_server_name
        self._identity = identity
        self._monotonic_s = monotonic_s
        self._looked_at_s = monotonic_s()
        self._parts: tuple[object, ...] = ()
        self._tls_material: TlsMaterial | None = None
        self._tls: SSLContext | None = None
        self._access = self._assembled(None)

    @property
    def _is_private(self) -> bool:
        """Whether the connection is encrypted or local, or plain HTTP is explicitly allowed."""
        return not self.server.startswith("http:") or self._plain_http or _is_loopback(self.server)

    async def access(self) -> Access:
        """Give what the next request needs. Answers from memory unless a file changed or a plugin must run."""
        plugin = self._identity.exec_plugin
        now_s = self._monotonic_s()
        if now_s - self._looked_at_s >= LOOK_S:
            self._looked_at_s = now_s
            for file in self._identity.files():
                file.look()
            self._access = self._assembled(self._access.exec_credential)
        if plugin is not None:
            credential = plugin.fresh or await asyncio.to_thread(plugin.renew, None)
            if credential is not self._access.exec_credential:
                self._access = self._assembled(credential)
        return self._access

    async def renew(self, rejected: Access) -> bool:
        """After a 401: get new credentials, and say whether they differ from the rejected ones."""
        if self._access is rejected:
            for file in self._identity.files():
                file.look(force=True)
            credential = rejected.exec_credential
            if self._identity.exec_plugin is not None:
                credential = await asyncio.to_thread(self._identity.exec_plugin.renew, credential)
            self._access = self._assembled(credential)
        return self._access is not rejected

    def _assembled(self, credential: ExecCredential | None) -> Access:
        """Build the access value of now; the same object as before if nothing changed."""
        identity = self._identity
        certificate, key = _content(identity.certificate), _content(identity.key)
        token = identity.current_token(self.source)
        if credential is not None:
            token = token or credential.token
            certificate, key = credential.certificate or certificate, credential.key or key
        if (token or identity.basic) and not self._is_private:
            remedy = f"use https, or allow it with the extension {PLAIN_HTTP}: true of the cluster"
            raise CredentialsError(f"{self.source}: server: {self.server}: would get our token in the clear; {remedy}")
        material = TlsMaterial(_content(identity.ca), certificate, key, identity.insecure)
        parts = (token, material)
        if self._parts == parts and credential is self._access.exec_credential:
            return self._access
        if self.server.startswith("https:") and material != self._tls_material:
            try:
                self._tls = make_context(material, self.source)
                self._tls_material = material
            except CredentialsError as failure:
                # Certificate and key are two files: a rotation may be seen half done, so the last good pair stays.
                if self._tls is None:
                    raise
                log.warning("new TLS files are not usable, keeping the last ones", error=str(failure))
        self._parts = parts
        headers = dict(identity.impersonation)
        if token:
            headers["Authorization"] = f"Bearer {token}"
        elif identity.basic:
            headers["Authorization"] = f"Basic {identity.basic}"
        return Access(headers, self._tls, credential)


def load_credentials(
    kubeconfig: str | None = None,
    configured: str | None = None,
    *,
    server: str = "",
    environ: Mapping[str, str] | None = None,
    home: Path | None = None,
    service_account: Path = SERVICE_ACCOUNT,
    now_s: Callable[[], float] = clock.wall_s,
    monotonic_s: Callable[[], float] = time.monotonic,
) -> Credentials:
    """Find the credentials: `--kubeconfig`, `clientConnection.kubeconfig`, $KUBECONFIG, in-cluster, ~/.kube/config.

    `server` replaces the address that is found with them; where none are found, requests to it are anonymous.
    """
    environ = os.environ if environ is None else environ
    explicit = kubeconfig or configured
    if explicit:
        return from_kubeconfig([Path(explicit).expanduser()], server=server, now_s=now_s, monotonic_s=monotonic_s)
    listed = [Path(name) for name in environ.get("KUBECONFIG", "").split(os.pathsep) if name]
    if listed:
        present = [path for path in listed if path.exists()]
        if not present:
            raise CredentialsError(
                f"$KUBECONFIG: {os.pathsep.join(map(str, listed))}: no such file; correct or unset it"
            )
        return from_kubeconfig(present, server=server, now_s=now_s, monotonic_s=monotonic_s)
    if environ.get("KUBERNETES_SERVICE_HOST") and (service_account / "token").exists():
        return in_cluster(environ, service_account, server=server, monotonic_s=monotonic_s)
    fallback = (home or Path.home()) / ".kube" / "config"
    if fallback.exists():
        return from_kubeconfig([fallback], server=server, now_s=now_s, monotonic_s=monotonic_s)
    if server:
        return Credentials(server, Identity(), source="--master", monotonic_s=monotonic_s)
    raise CredentialsError(
        f"no cluster is configured: $KUBECONFIG is empty and {fallback} is missing; pass --kubeconfig"
    )


def from_kubeconfig(
    files: list[Path],
    *,
    server: str = "",
    now_s: Callable[[], float] = clock.wall_s,
    monotonic_s: Callable[[], float] = time.monotonic,
) -> Credentials:
    """Load the current context of the merged files; `server` replaces the address there."""
    context = read_context(files)
    cluster, user = context.cluster, context.user
    server = server or server_of(cluster)
    identity = Identity(
        ca=_file_or_data(cluster, "certificate-authority"), insecure=cluster.flag("insecure-skip-tls-verify")
    )
    if identity.insecure and identity.ca is not None:
        remedy = "contradicts certificate-authority; remove one of the two"
        raise cluster.error("insecure-skip-tls-verify", True, remedy)
    if identity.insecure and server.startswith("https:") and server not in _WARNED_OF:
        _WARNED_OF.add(server)
        log.warning("the API server's certificate is not verified: the connection can be intercepted", server=server)
    if user is not None:
        _read_user(user, cluster, identity, now_s)
    return Credentials(
        server,
        identity,
        source=os.pathsep.join(map(str, files)),
        namespace=context.namespace,
        tls_server_name=cluster.text("tls-server-name") or None,
        plain_http=allows_plain_http(cluster),
        monotonic_s=monotonic_s,
    )


def _is_loopback(server: str) -> bool:
    host = urlsplit(server).hostname or ""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def in_cluster(
    environ: Mapping[str, str],
    service_account: Path,
    *,
    server: str = "",
    monotonic_s: Callable[[], float] = time.monotonic,
) -> Credentials:
    """Use the service account that Kubernetes mounts into every pod."""
    host = environ["KUBERNETES_SERVICE_HOST"]
    port = environ.get("KUBERNETES_SERVICE_PORT") or "443"
    namespace_file = service_account / "namespace"
    identity = Identity(
        token_file=FileValue(service_account / "token", "service account token"),
        ca=FileValue(service_account / "ca.crt", "service account CA"),
    )
    return Credentials(
        server or (f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"),
        identity,
        source=str(service_account),
        namespace=namespace_file.read_text().strip() if namespace_file.exists() else "default",
        monotonic_s=monotonic_s,
    )


def _read_user(user: KubeconfigEntry, cluster: KubeconfigEntry, identity: Identity, now_s: Callable[[], float]) -> None:
    provider = user.entry("auth-provider")
    if provider is not None:
        remedy = "auth providers were removed from Kubernetes in 1.26; use an exec plugin"
        raise user.error("auth-provider", provider.text("name"), remedy)
    identity.certificate = _file_or_data(user, "client-certificate")
    identity.key = _file_or_data(user, "client-key")
    if (identity.certificate is None) != (identity.key is None):
        field, other = (
            ("client-key", "client-certificate") if identity.key is None else ("client-certificate", "client-key")
        )
        raise user.error(field, "", f"must be set because {other} is")
    identity.token = user.text("token").strip()
    token_path = user.path("tokenFile")
    if token_path is not None:
        identity.token_file = FileValue(token_path, f"{user.place}.tokenFile")
    if user.text("username"):
        pair = f"{user.text('username')}:{user.text('password')}"
        identity.basic = base64.b64encode(pair.encode()).decode()
    spec = user.entry("exec")
    if spec is not None:
        identity.exec_plugin = ExecPlugin(spec, _cluster_info(cluster, identity), now_s)
    identity.impersonation = _impersonation(user)


def _impersonation(user: KubeconfigEntry) -> tuple[tuple[str, str], ...]:
    """Headers of `as` and `as-uid`. Groups would need a header more than once, so they are refused, not dropped."""
    for field in ("as-groups", "as-user-extra"):
        if user.fields.get(field):
            raise user.error(field, user.fields[field], "is not supported; use a user that has the rights itself")
    for field in ("as", "as-uid"):
        if not user.text(field).isprintable():
            raise user.error(field, user.text(field), "must be one line without control characters")
    pairs = (("Impersonate-User", user.text("as")), ("Impersonate-Uid", user.text("as-uid")))
    return tuple((header, value) for header, value in pairs if value)


def _cluster_info(cluster: KubeconfigEntry, identity: Identity) -> dict[str, Any]:
    """Describe the cluster to an exec plugin, as `spec.cluster` of ExecCredential."""
    info: dict[str, Any] = {"server": cluster.text("server")}
    if cluster.text("tls-server-name"):
        info["tls-server-name"] = cluster.text("tls-server-name")
    if identity.insecure:
        info["insecure-skip-tls-verify"] = True
    ca = _content(identity.ca)
    if ca:
        info["certificate-authority-data"] = base64.b64encode(ca).decode()
    extension = exec_extension(cluster)
    if extension is not None:
        info["config"] = extension
    return info


def _file_or_data(entry: KubeconfigEntry, field: str) -> bytes | FileValue | None:
    """Read `X-data` or the file that `X` names; the data win where both are given, as in kubectl."""
    data = entry.data(f"{field}-data")
    if data is not None:
        return data
    path = entry.path(field)
    return None if path is None else FileValue(path, f"{entry.place}.{field}")


def _content(part: bytes | FileValue | None) -> bytes:
    if part is None:
        return b""
    return part.content if isinstance(part, FileValue) else part
