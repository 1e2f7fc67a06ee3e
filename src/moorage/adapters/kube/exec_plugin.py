"""Credentials from a command: the exec plugins of `client.authentication.k8s.io` v1 and v1beta1.

The command runs in a worker thread, one run at a time, so that neither the scheduling loop nor a second thread with its
own loop is held up by it. A credential is renewed before it expires; if that fails while the old one is still good, the
old one stays in use.
"""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import structlog

from moorage.adapters.kube.errors import CredentialsError
from moorage.adapters.kube.kubeconfig import KubeconfigEntry
from moorage.core.values import dataclass

API_GROUP = "client.authentication.k8s.io"
VERSIONS = (f"{API_GROUP}/v1", f"{API_GROUP}/v1beta1")
RUN_TIMEOUT_S = 60.0
LONGEST_LEEWAY_S = 60.0
RETRY_S = 10.0

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class ExecCredential:
    """What a plugin gave us. At least one of token and certificate is there."""

    token: str = ""
    certificate: bytes = b""
    key: bytes = b""
    renew_at_s: float = float("inf")
    """When to ask for the next one, in wall clock seconds."""
    expires_at_s: float = float("inf")


class ExecPlugin:
    """One exec section of a kubeconfig. `cluster_info` is what provideClusterInfo hands over."""

    def __init__(self, spec: KubeconfigEntry, cluster_info: Mapping[str, Any], now_s: Callable[[], float]) -> None:
        self._spec = spec
        self._now_s = now_s
        self._running = threading.Lock()
        self._credential: ExecCredential | None = None
        self._api_version = spec.text("apiVersion")
        if self._api_version not in VERSIONS:
            raise spec.error("apiVersion", self._api_version, f"must be {VERSIONS[0]} or {VERSIONS[1]}")
        mode = spec.text("interactiveMode") or ("" if self._api_version == VERSIONS[0] else "IfAvailable")
        if mode not in {"Never", "IfAvailable"}:
            remedy = "must be Never or IfAvailable, because there is no terminal here"
            raise spec.error("interactiveMode", mode, remedy)
        self._command = _command(spec)
        self._environment = _environment(spec)
        request: dict[str, Any] = {"interactive": False}
        if spec.flag("provideClusterInfo"):
            request["cluster"] = cluster_info
        self._info = json.dumps(
            {"kind": "ExecCredential", "apiVersion": self._api_version, "spec": request}, separators=(",", ":")
        )

    @property
    def fresh(self) -> ExecCredential | None:
        """The credential in hand, unless it is time for the next one."""
        credential = self._credential
        if credential is None or self._now_s() >= credential.renew_at_s:
            return None
        return credential

    def renew(self, rejected: ExecCredential | None) -> ExecCredential:
        """Run the command, unless the rejected credential was replaced meanwhile. Blocks: call it in a thread."""
        with self._running:
            held = self.fresh
            if held is not None and held is not rejected:
                return held
            try:
                self._credential = self._run()
            except CredentialsError as failure:
                old = self._credential
                now_s = self._now_s()
                if old is None or old is rejected or now_s >= old.expires_at_s:
                    raise
                log.warning("exec credential not renewed, keeping the old one until it expires", error=str(failure))
                self._credential = ExecCredential(
                    old.token, old.certificate, old.key, now_s + RETRY_S, old.expires_at_s
                )
            return self._credential

    def _run(self) -> ExecCredential:
        environment = {**os.environ, **self._environment, "KUBERNETES_EXEC_INFO": self._info}
        try:
            done = subprocess.run(
                self._command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                env=environment,
                timeout=RUN_TIMEOUT_S,
                check=False,
            )
        except FileNotFoundError as failure:
            hint = " ".join(self._spec.text("installHint").split())
            raise self._spec.error("command", self._command[0], hint or "no such command; install it") from failure
        except subprocess.TimeoutExpired as failure:
            raise self._failed(f"gave no answer within {RUN_TIMEOUT_S:.0f} s") from failure
        except OSError as failure:
            raise self._failed(f"cannot be run: {failure.strerror}") from failure
        if done.returncode != 0:
            last_words = done.stderr.decode("utf-8", "replace").strip().split("\n")[-1]
            raise self._failed(f"ended with exit code {done.returncode}: {last_words[:300]}")
        return self._parsed(done.stdout)

    def _parsed(self, output: bytes) -> ExecCredential:
        try:
            answer = json.loads(output)
        except (ValueError, RecursionError) as failure:
            raise self._failed("its output is not JSON; it must print an ExecCredential") from failure
        if not isinstance(answer, dict) or answer.get("kind") != "ExecCredential":
            raise self._failed("its output is not an ExecCredential")
        if answer.get("apiVersion") != self._api_version:
            raise self._failed(f"it answered with apiVersion {answer.get('apiVersion')!r}, not {self._api_version}")
        status = answer.get("status")
        if not isinstance(status, dict):
            raise self._failed("its output has no status")
        token = status.get("token") or ""
        certificate = status.get("clientCertificateData") or ""
        key = status.get("clientKeyData") or ""
        if not all(isinstance(value, str) for value in (token, certificate, key)):
            raise self._failed("token, clientCertificateData and clientKeyData must be strings")
        if not (token.strip().isascii() and token.strip().isprintable()):
            raise self._failed("its token holds characters that no token has, such as a line break")
        if bool(certificate) != bool(key):
            raise self._failed("clientCertificateData and clientKeyData must come together")
        if not token and not certificate:
            raise self._failed("its output holds neither a token nor a certificate")
        renew_at_s, expires_at_s = self._times(status.get("expirationTimestamp"))
        return ExecCredential(token.strip(), certificate.encode(), key.encode(), renew_at_s, expires_at_s)

    def _times(self, stamp: object) -> tuple[float, float]:
        """When to renew and when it ends: a tenth of its life before the end, at most a minute."""
        if stamp is None or stamp == "":
            return float("inf"), float("inf")
        try:
            if not isinstance(stamp, str):
                raise TypeError
            moment = datetime.fromisoformat(stamp)
            if moment.tzinfo is None:
                raise ValueError
        except (TypeError, ValueError) as failure:
            raise self._failed(f"expirationTimestamp {stamp!r} is not an RFC 3339 time") from failure
        expires_at_s = moment.timestamp()
        life_s = expires_at_s - self._now_s()
        if life_s <= 0:
            raise self._failed(f"it gave a credential that expired at {stamp}")
        return expires_at_s - min(LONGEST_LEEWAY_S, life_s / 10), expires_at_s

    def _failed(self, why: str) -> CredentialsError:
        return self._spec.error("command", " ".join(self._command), why)


def _command(spec: KubeconfigEntry) -> list[str]:
    command = spec.text("command")
    if not command:
        raise spec.error("command", command, "name the command to run")
    if "/" in command:
        # Absolute names stay as they are; others are relative to the kubeconfig. Bare names go through the PATH.
        command = str(spec.file.parent.absolute() / command)
    return [command, *spec.texts("args")]


def _environment(spec: KubeconfigEntry) -> dict[str, str]:
    variables: dict[str, str] = {}
    for item in spec.entries("env"):
        name = item.text("name")
        if not name or "=" in name:
            raise item.error("name", name, "must be the name of an environment variable")
        variables[name] = item.text("value")
    return variables
