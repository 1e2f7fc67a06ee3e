"""Certificates of the webhook: made, merged into bundles, read from files, and replaced under load."""

from __future__ import annotations

import asyncio
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trustme

from moorage.adapters.certificates import CertificateError
from moorage.adapters.webhook.certificates import (
    BUNDLE_LIMIT,
    Serving,
    certificates_in,
    issue,
    merged_bundle,
    read_files,
)
from moorage.adapters.webhook.renewal import FileRenewal, SelfRenewal
from moorage.wire.webhooks import Terms, WebhookService, host_names, new_configuration, trued_configuration

HOUR_S = 3600.0


def trusting(*authorities: bytes) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=b"".join(authorities).decode())
    return context


async def handshake(port: int, tls: ssl.SSLContext, name: str = "localhost") -> str:
    """The serial number of the certificate that is served."""
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls, server_hostname=name)
    serial: str = writer.get_extra_info("peercert")["serialNumber"]
    writer.close()
    await writer.wait_closed()
    return serial


async def server(serving: Serving) -> tuple[asyncio.Server, int]:
    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    found = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=serving.context)
    return found, found.sockets[0].getsockname()[1]


async def told() -> bool:
    return True


# --- made here ---


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1", "web.system.svc"])
def test_a_certificate_is_good_for_its_names(name: str) -> None:
    """A client that trusts the authority, and no other, accepts it under each of its names."""

    async def scenario() -> None:
        serving = Serving(issue(["web.system.svc", "localhost", "127.0.0.1"], HOUR_S))
        found, port = await server(serving)
        async with found:
            await handshake(port, trusting(serving.issued.authority), name)
            with pytest.raises(ssl.SSLCertVerificationError):
                await handshake(port, trusting(issue([name], HOUR_S).authority), name)
            with pytest.raises(ssl.SSLCertVerificationError):
                await handshake(port, trusting(serving.issued.authority), "elsewhere")

    asyncio.run(scenario())


def test_no_handshake_fails_while_the_certificate_is_replaced() -> None:
    """The authority comes first, the certificate later; a client that follows the bundle knows every certificate."""

    async def scenario() -> None:
        announced: list[bytes] = []

        async def announce() -> bool:
            announced[:] = renewal.authorities
            return True

        renewal = SelfRenewal(lambda: ["localhost"], announce, lifetime_s=HOUR_S, spread_s=0.05)
        announced[:] = renewal.authorities
        found, port = await server(renewal.serving)
        serials: set[str] = set()

        async def ask() -> None:
            for _ in range(100):
                serials.add(await handshake(port, trusting(*announced)))

        async with found:
            async with asyncio.TaskGroup() as tasks:
                for _ in range(3):
                    tasks.create_task(ask())
                for _ in range(3):
                    serials.add(await handshake(port, trusting(*announced)))
                    assert await renewal.renew()
            serials.add(await handshake(port, trusting(*announced)))
        assert len(serials) == len(announced) == 4

    asyncio.run(scenario())


def test_an_authority_that_cannot_be_told_is_not_used() -> None:
    """The old certificate stays in use as long as it is good."""

    async def scenario() -> None:
        async def refused() -> bool:
            return False

        renewal = SelfRenewal(lambda: ["localhost"], refused, lifetime_s=HOUR_S, spread_s=0.0)
        before = renewal.serving.issued
        assert await renewal.renew() is False
        assert (renewal.serving.issued, renewal.authorities) == (before, [before.authority])

    asyncio.run(scenario())


def test_a_renewal_that_could_not_be_told_stays_due() -> None:
    """It is tried again soon, not only after another two thirds of a life, when the old one has expired."""

    async def scenario() -> None:
        answers, names = [False, True], ["localhost"]

        async def announce() -> bool:
            return answers.pop(0)

        renewal = SelfRenewal(lambda: names, announce, lifetime_s=HOUR_S, spread_s=0.0)
        names.append("web.system.svc")
        found = [(renewal.due, await renewal.renew()) for _ in range(2)]
        assert (found, renewal.due) == ([(True, False), (True, True)], False)

    asyncio.run(scenario())


def test_a_new_name_is_a_reason_to_renew() -> None:
    """A registration that sends the API server elsewhere needs another certificate."""
    names = ["localhost"]
    renewal = SelfRenewal(lambda: names, told, lifetime_s=HOUR_S, spread_s=0.0)
    found = [renewal.due]
    names.append("web.system.svc")
    found.append(renewal.due)
    renewal.reissue()
    found.append(renewal.due)
    assert found == [False, True, False]
    assert len(renewal.authorities) == 1


# --- bundles ---


def test_a_bundle_keeps_others_and_drops_what_has_expired() -> None:
    """Replicas share it; garbage and the expired go; what is right stays as it is, byte by byte."""
    ours, theirs, old = (issue(["localhost"], life).authority for life in (HOUR_S, HOUR_S, 60.0))
    later = datetime.now(UTC) + timedelta(minutes=10)
    bundle = merged_bundle(b"garbage\n" + old + theirs, [ours], later)
    assert bundle == theirs + ours
    assert merged_bundle(bundle, [ours], later) == bundle
    assert merged_bundle(b"", [], later) == b""


def test_a_bundle_does_not_grow_for_ever() -> None:
    """Of authorities that were left behind the newest stay, and ours always does."""
    left = [issue(["localhost"], HOUR_S).authority for _ in range(BUNDLE_LIMIT + 5)]
    ours = issue(["localhost"], HOUR_S).authority
    bundle = merged_bundle(b"".join([ours, *left]), [ours], datetime.now(UTC))
    assert len(certificates_in(bundle)) == BUNDLE_LIMIT
    assert ours in bundle


# --- files ---


def write(folder: Path, certificate: trustme.LeafCert) -> tuple[str, str]:
    chain, key = folder / "tls.crt", folder / "tls.key"
    chain.write_bytes(b"".join(pem.bytes() for pem in certificate.cert_chain_pems))
    key.write_bytes(certificate.private_key_pem.bytes())
    return str(chain), str(key)


def test_files_are_read_again_when_both_have_changed(tmp_path: Path) -> None:
    """Half a change, as seen between two writes, leaves the old certificate in use."""
    authority = trustme.CA()
    files = write(tmp_path, authority.issue_cert("localhost"))
    renewal = FileRenewal(*files, told)

    async def served() -> str:
        found, port = await server(renewal.serving)
        async with found:
            return await handshake(port, trusting(authority.cert_pem.bytes()))

    first = asyncio.run(served())
    fresh = authority.issue_cert("localhost")
    Path(files[0]).write_bytes(fresh.cert_chain_pems[0].bytes())
    assert renewal.look() is False
    assert asyncio.run(served()) == first
    Path(files[1]).write_bytes(fresh.private_key_pem.bytes())
    assert renewal.look() is True
    assert renewal.look() is False
    assert asyncio.run(served()) != first
    assert renewal.authorities == []


def test_a_certificate_that_signed_itself_is_its_own_authority(tmp_path: Path) -> None:
    """Then the webhook can tell the API server whom to trust."""
    authority = trustme.CA()
    (tmp_path / "server.crt").write_bytes(authority.cert_pem.bytes())
    (tmp_path / "server.key").write_bytes(authority.private_key_pem.bytes())
    found = read_files(str(tmp_path / "server.crt"), str(tmp_path / "server.key"))
    assert found.authority == authority.cert_pem.bytes()


@pytest.mark.parametrize(
    ("chain", "key"),
    [(None, b""), (b"", b""), (b"x", b"x"), (b"-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n", b"x")],
    ids=["missing", "empty", "garbage", "broken PEM"],
)
def test_bad_files_are_one_clear_line(tmp_path: Path, chain: bytes | None, key: bytes) -> None:
    """The line names flag, file and remedy."""
    if chain is not None:
        (tmp_path / "c").write_bytes(chain)
    (tmp_path / "k").write_bytes(key)
    with pytest.raises(CertificateError, match=r"^--tls-cert \S+/c.*; (name|give) a ") as caught:
        read_files(str(tmp_path / "c"), str(tmp_path / "k"))
    assert "\n" not in str(caught.value)


# --- the registration ---

TERMS = Terms("w", ("kube-system", "own"), WebhookService("own", "svc"))


def test_a_new_registration_is_true() -> None:
    """What is made needs no change, and a failing webhook never stops a pod."""
    made = new_configuration(TERMS, lambda _: b"CA")
    assert trued_configuration(made, TERMS, lambda _: b"CA") == made
    (entry,) = made["webhooks"]
    assert (entry["failurePolicy"], entry["sideEffects"], entry["timeoutSeconds"]) == ("Ignore", "None", 2)
    assert host_names(made) == ("svc.own.svc", "svc.own.svc.cluster.local", "svc.own")


@pytest.mark.parametrize(
    "broken",
    [
        {"webhooks": None},
        {"webhooks": [{}]},
        {"webhooks": [{"clientConfig": {"url": "https://h:1/mutate", "caBundle": "%"}, "rules": None}]},
        {"webhooks": [{"namespaceSelector": {"matchLabels": {"a": "b"}}, "clientConfig": {}}]},
    ],
    ids=["no webhooks", "an empty one", "a bundle that is none", "a selector"],
)
def test_whatever_it_looks_like_it_is_made_true(broken: dict[str, object]) -> None:
    """Rules, bundle and excluded namespaces are ours; other fields stay."""
    found = trued_configuration(broken, TERMS, lambda _: b"CA")
    (entry,) = found["webhooks"]
    assert entry["rules"][0]["resources"] == ["pods"]
    assert entry["clientConfig"]["caBundle"] == "Q0E="
    assert entry["namespaceSelector"]["matchExpressions"][-1]["values"] == ["kube-system", "own"]
    assert trued_configuration(found, TERMS, lambda _: b"CA") == found
    for before in broken["webhooks"] or ():  # type: ignore[attr-defined]
        assert entry["namespaceSelector"].get("matchLabels") == before.get("namespaceSelector", {}).get("matchLabels")
        assert entry["clientConfig"].get("url") == before.get("clientConfig", {}).get("url")


def test_our_own_address_wins() -> None:
    """A registration that was left behind by another run leads to this one."""
    left = {"webhooks": [{"clientConfig": {"service": {"namespace": "a", "name": "b"}, "caBundle": "Q0E="}}]}
    here = Terms("w", url="https://here:1/mutate")
    (entry,) = trued_configuration(left, here, lambda present: present)["webhooks"]
    assert entry["clientConfig"] == {"url": "https://here:1/mutate", "caBundle": "Q0E="}
