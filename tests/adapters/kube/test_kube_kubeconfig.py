from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from moorage.adapters.kube.credentials import Credentials, from_kubeconfig, load_credentials
from moorage.adapters.kube.errors import CredentialsError
from moorage.adapters.kube.kubeconfig import read_context

EXEC = {"apiVersion": "client.authentication.k8s.io/v1", "command": "x", "interactiveMode": "Never"}


def config(
    more: dict[str, Any] | None = None,
    *,
    cluster: dict[str, Any] | None = None,
    user: dict[str, Any] | None = None,
    **top: Any,
) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u", "namespace": "ns"}}],
        "clusters": [{"name": "k", "cluster": {"server": "https://h:1"} if cluster is None else cluster}],
        "users": [{"name": "u", "user": user or {}}],
        **top,
        **(more or {}),
    }


def written(file: Path, content: dict[str, Any] | str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return file


def loaded(file: Path) -> Credentials:
    return from_kubeconfig([file])


@pytest.mark.parametrize(
    ("content", "want_parts"),
    [
        pytest.param("a: [", ["line 2, column 1", "YAML"], id="broken YAML"),
        pytest.param("- a", ["must be a kubeconfig"], id="a list"),
        pytest.param("", ["current-context"], id="empty file"),
        pytest.param({"kind": "Pod"}, ['kind: "Pod"', "Config"], id="another kind"),
        pytest.param(config({"current-context": "x"}), ['current-context: "x"', "there is c"], id="unknown context"),
        pytest.param(
            config(clusters=[]), ["contexts[0].context.cluster", '"k"', "there is none"], id="unknown cluster"
        ),
        pytest.param(config(users=None), ["contexts[0].context.user", '"u"'], id="unknown user"),
        pytest.param(config(clusters={"k": 1}), ["clusters", "must be a list"], id="clusters as a mapping"),
        pytest.param(config(clusters=["k"]), ["clusters[0]", '"k"', "mapping"], id="cluster as a string"),
        pytest.param(
            config(users=[{"name": "u"}, {"name": "u"}]), ["users[1].name", '"u"', "twice"], id="the same name twice"
        ),
        pytest.param(config(cluster={}), ["clusters[0].cluster.server", '""', "https://"], id="no server"),
        pytest.param(config(cluster={"server": "h:6443"}), ["server", '"h:6443"'], id="server without scheme"),
        pytest.param(config(cluster={"server": "https://h:99999"}), ["server", "99999"], id="server with a bad port"),
        pytest.param(config(cluster={"server": 7}), ["server: 7", "string"], id="server as a number"),
        pytest.param(
            config(cluster={"server": "https://h", "proxy-url": "socks5://p"}),
            ["clusters[0].cluster.proxy-url", "socks5://p", "not supported"],
            id="proxy",
        ),
        pytest.param(
            config(cluster={"server": "https://h", "certificate-authority-data": "%%"}),
            ["certificate-authority-data", '"%%"', "base64"],
            id="CA data not base64",
        ),
        pytest.param(
            config(cluster={"server": "https://h", "certificate-authority-data": "aGVsbG8="}),
            ["certificate-authority", "PEM"],
            id="CA data not PEM",
        ),
        pytest.param(
            config(cluster={"server": "https://h", "certificate-authority": "missing.pem"}),
            ["missing.pem", "No such file"],
            id="CA file missing",
        ),
        pytest.param(
            config(cluster={"server": "https://h", "insecure-skip-tls-verify": "yes"}),
            ["insecure-skip-tls-verify", '"yes"', "true or false"],
            id="flag as a string",
        ),
        pytest.param(
            config(
                cluster={
                    "server": "https://h",
                    "insecure-skip-tls-verify": True,
                    "certificate-authority-data": "aGVsbG8=",
                }
            ),
            ["insecure-skip-tls-verify", "contradicts"],
            id="insecure and a CA",
        ),
        pytest.param(
            config(user={"client-certificate-data": "aGVsbG8="}), ["client-key", "must be set"], id="certificate alone"
        ),
        pytest.param(
            config(user={"client-certificate-data": "aGVsbG8=", "client-key-data": "aGVsbG8="}),
            ["client-certificate", "PEM"],
            id="certificate not PEM",
        ),
        pytest.param(config(user={"token": ["hush"]}), ["users[0].user.token", "(hidden)"], id="token as a list"),
        pytest.param(config(user={"client-key-data": "%hush"}), ["client-key-data", "base64"], id="key not base64"),
        pytest.param(config(user={"tokenFile": "nowhere"}), ["nowhere", "users[0].user.tokenFile"], id="no token file"),
        pytest.param(config(user={"token": "hush\nb"}), ["token", "line break"], id="token with a line break inside"),
        pytest.param(
            config(user={"auth-provider": {"name": "gcp"}}), ["auth-provider", '"gcp"', "exec"], id="provider"
        ),
        pytest.param(config(user={"as-groups": ["a"]}), ["as-groups", "not supported"], id="impersonated groups"),
        pytest.param(config(user={"as": "a\r\nX: y"}), [".as", "one line"], id="impersonation of two lines"),
        pytest.param(
            config(user={"exec": {**EXEC, "apiVersion": "client.authentication.k8s.io/v1alpha1"}}),
            ["users[0].user.exec.apiVersion", "v1alpha1", "v1beta1"],
            id="exec of an old version",
        ),
        pytest.param(
            config(user={"exec": {**EXEC, "interactiveMode": "Always"}}),
            ["interactiveMode", '"Always"', "Never"],
            id="exec that needs a terminal",
        ),
        pytest.param(config(user={"exec": {**EXEC, "command": ""}}), ["exec.command", "name"], id="exec, no command"),
        pytest.param(config(user={"exec": {**EXEC, "args": [1]}}), ["exec.args", "strings"], id="exec, numeric args"),
        pytest.param(
            config(user={"exec": {**EXEC, "env": [{"name": "A=B", "value": "x"}]}}),
            ["exec.env[0].name", '"A=B"'],
            id="exec, bad variable",
        ),
    ],
)
def test_a_bad_kubeconfig_gets_one_line(tmp_path: Path, content: dict[str, Any] | str, want_parts: list[str]) -> None:
    """The line names the file, the field and the value, and says what to do."""
    file = written(tmp_path / "kubeconfig", content)
    with pytest.raises(CredentialsError) as caught:
        loaded(file)
    line = str(caught.value)
    assert "\n" not in line
    assert str(tmp_path) in line
    assert "hush" not in line
    for part in want_parts:
        assert part in line


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """A file given explicitly must exist."""
    with pytest.raises(CredentialsError, match=r"nothing: no such file"):
        load_credentials(str(tmp_path / "nothing"))


def test_several_files_merge_as_in_kubectl(tmp_path: Path) -> None:
    """The first file that has a name wins with its whole entry; the first current-context wins."""
    first = written(
        tmp_path / "1",
        {
            "clusters": [{"name": "k", "cluster": {"server": "https://first"}}],
            "users": [{"name": "u", "user": {"username": "first"}}],
        },
    )
    second = written(
        tmp_path / "2",
        config(cluster={"server": "https://second", "tls-server-name": "s"}, user={"token": "second", "username": "x"}),
    )
    third = written(tmp_path / "3", config({"current-context": "other"}))
    context = read_context([first, second, third])
    assert (context.name, context.namespace) == ("c", "ns")
    assert context.cluster.fields == {"server": "https://first"}
    assert context.user is not None
    assert context.user.fields == {"username": "first"}


def test_relative_names_belong_to_their_file(tmp_path: Path) -> None:
    """A token file is looked for beside the kubeconfig that names it, wherever the process runs."""
    (tmp_path / "deep" / "secrets").mkdir(parents=True)
    (tmp_path / "deep" / "secrets" / "token").write_text("t\n")
    file = written(tmp_path / "deep" / "kubeconfig", config(user={"tokenFile": "secrets/token"}))
    assert loaded(file).server == "https://h:1"


def test_unknown_fields_are_left_alone(tmp_path: Path) -> None:
    """Other tools keep their own settings in kubeconfigs."""
    file = written(tmp_path / "k", config(preferences={"colors": True}, extensions=[{"name": "x", "extension": 1}]))
    assert loaded(file).namespace == "ns"


@pytest.mark.parametrize(
    ("arguments", "present", "want_server"),
    [
        pytest.param(("flag", "configured"), {"env", "cluster", "home"}, "https://flag", id="the flag comes first"),
        pytest.param(
            (None, "configured"), {"env", "cluster", "home"}, "https://configured", id="then the configuration"
        ),
        pytest.param((None, None), {"env", "cluster", "home"}, "https://env", id="then $KUBECONFIG"),
        pytest.param((None, None), {"cluster", "home"}, "https://10.0.0.1:443", id="then the cluster around us"),
        pytest.param((None, None), {"home"}, "https://home", id="then the home folder"),
    ],
)
def test_order_of_sources(
    tmp_path: Path, arguments: tuple[str | None, str | None], present: set[str], want_server: str, authority_pem: bytes
) -> None:
    """The first source that is there is used."""
    for name in ("flag", "configured", "env"):
        written(tmp_path / name, config(cluster={"server": f"https://{name}"}))
    home, account = tmp_path / "home", tmp_path / "account"
    if "home" in present:
        written(home / ".kube" / "config", config(cluster={"server": "https://home"}))
    environ: dict[str, str] = {}
    if "env" in present:
        environ["KUBECONFIG"] = f"{tmp_path / 'missing'}::{tmp_path / 'env'}"
    if "cluster" in present:
        environ |= {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}
        written(account / "token", "t")
        (account / "ca.crt").write_bytes(authority_pem)
    given = [None if name is None else str(tmp_path / name) for name in arguments]
    found = load_credentials(*given, environ=environ, home=home, service_account=account)
    assert found.server == want_server


@pytest.mark.parametrize(
    ("environ", "want"),
    [
        pytest.param({}, "--kubeconfig", id="nothing anywhere"),
        pytest.param({"KUBECONFIG": "/no/1:/no/2"}, r"\$KUBECONFIG: /no/1:/no/2", id="a list of missing files"),
        pytest.param({"KUBERNETES_SERVICE_HOST": "h"}, "--kubeconfig", id="a service but no account"),
    ],
)
def test_no_source_at_all(tmp_path: Path, environ: dict[str, str], want: str) -> None:
    """The complaint says what was looked at and what to pass."""
    with pytest.raises(CredentialsError, match=want):
        load_credentials(environ=environ, home=tmp_path, service_account=tmp_path)


def test_in_cluster_with_an_ipv6_service(tmp_path: Path, authority_pem: bytes) -> None:
    """IPv6 addresses need brackets; the namespace comes from the account."""
    written(tmp_path / "token", "t")
    written(tmp_path / "namespace", "moorage\n")
    (tmp_path / "ca.crt").write_bytes(authority_pem)
    found = load_credentials(environ={"KUBERNETES_SERVICE_HOST": "fd00::1"}, home=tmp_path, service_account=tmp_path)
    assert (found.server, found.namespace) == ("https://[fd00::1]:443", "moorage")
