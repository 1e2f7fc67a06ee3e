"""Renews the webhook's certificate without a failed handshake.

A certificate that is made here is replaced after two thirds of its life, in this order: the new authority is announced
beside the old one, every API server gets the time to hear of it, then the new certificate is served. The old authority
stays announced until it expires, so the old certificate is still trusted where it is still in use. Files are looked at
every few seconds, as mounted secrets change without a word.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection
from datetime import UTC, datetime

import structlog

from moorage.adapters import clock
from moorage.adapters.certificates import CertificateError
from moorage.adapters.webhook.certificates import Issued, Serving, certificates_in, issue, read_files

LOOK_S = 2.0
"""Between two looks at files."""
RETRY_S = 60.0
_USED_SHARE = 2 / 3

log = structlog.get_logger()


class FileRenewal:
    """The certificate of two files. `announce` tells the API servers of `authorities`.

    With `serving`, another certificate is in use until `take_over`.
    """

    def __init__(
        self, cert_file: str, key_file: str, announce: Callable[[], Awaitable[bool]], serving: Serving | None = None
    ) -> None:
        self._files = cert_file, key_file
        self._announce = announce
        self.serving = serving or Serving(read_files(cert_file, key_file))
        self._coming = b""
        """The CA of the certificate that comes into use next."""
        self._complaint = ""

    @property
    def authorities(self) -> list[bytes]:
        """The CAs to trust for the certificate, if we manage them."""
        return list(dict.fromkeys(filter(None, (self.serving.issued.authority, self._coming))))

    async def take_over(self, spread_s: float) -> None:
        """Serve the certificate of the files once API servers have had the time to learn of its CA."""
        try:
            found = read_files(*self._files)
        except CertificateError as error:
            log.warning("certificate not used, the old one stays in use", error=str(error))
            return
        self._coming = found.authority
        await self._announce()
        await asyncio.sleep(spread_s)
        self.serving.use(found)
        self._coming = b""
        log.info("certificate renewed", file=self._files[0], until=_moment(self.serving.expires_s))

    async def run(self) -> None:
        """Look at the files until cancelled."""
        while True:
            await asyncio.sleep(LOOK_S)
            if self.look():
                await self._announce()

    def look(self) -> bool:
        """Use the files if they have changed and fit together; True if so."""
        try:
            found = read_files(*self._files)
        except CertificateError as error:
            if str(error) != self._complaint:
                log.warning("certificate not renewed, the old one stays in use", error=str(error))
            self._complaint = str(error)
            return False
        self._complaint = ""
        if found == self.serving.issued:
            return False
        self.serving.use(found)
        log.info("certificate renewed", file=self._files[0], until=_moment(self.serving.expires_s))
        return True


class SelfRenewal:
    """A certificate of our own making.

    `names` gives the host names that it is for, `announce` tells the API servers of `authorities` and says whether that
    succeeded.
    """

    def __init__(
        self,
        names: Callable[[], Collection[str]],
        announce: Callable[[], Awaitable[bool]],
        *,
        lifetime_s: float,
        spread_s: float,
    ) -> None:
        self._names = names
        self._announce = announce
        self._lifetime_s = lifetime_s
        self._spread_s = spread_s
        self._issued_for = frozenset(names())
        self._issued_s = time.monotonic()
        self.serving = Serving(self._issue())
        self.authorities = [self.serving.issued.authority]
        """The CAs to trust: for the certificate in use, for the next one, and for earlier ones until they expire."""

    @property
    def due(self) -> bool:
        """Whether it is time for another certificate: this one is old, or lacks a name under which we are found."""
        aged = time.monotonic() - self._issued_s >= self._lifetime_s * _USED_SHARE
        return aged or not self._issued_for.issuperset(self._names())

    async def run(self) -> None:
        """Renew the certificate whenever that is due, until cancelled."""
        while True:
            await asyncio.sleep(1.0)
            if self.due and not await self.renew():
                await asyncio.sleep(min(RETRY_S, self._lifetime_s / 20))

    async def renew(self) -> bool:
        """Make a new certificate, and serve it when its authority is known; False if that could not be told."""
        self._forget_expired()
        before = self._issued_for, self._issued_s
        fresh = self._issue()
        self.authorities.append(fresh.authority)
        told = await self._announce()
        if not told and self.serving.expires_s - clock.wall_s() > self._spread_s + RETRY_S:
            self.authorities.remove(fresh.authority)
            self._issued_for, self._issued_s = before  # what is served is as old as before, so it stays due
            log.warning("certificate not renewed yet: its authority could not be announced")
            return False
        await asyncio.sleep(self._spread_s)
        self.serving.use(fresh)
        log.info("certificate renewed", until=_moment(self.serving.expires_s))
        return True

    def reissue(self) -> None:
        """Serve a certificate for the current names, at once; for a server that no client trusts yet."""
        if not self._issued_for.issuperset(self._names()):
            fresh = self._issue()
            self.authorities = [fresh.authority]
            self.serving.use(fresh)

    def _issue(self) -> Issued:
        names = list(dict.fromkeys(self._names()))
        fresh = issue(names, self._lifetime_s)
        self._issued_for, self._issued_s = frozenset(names), time.monotonic()
        return fresh

    def _forget_expired(self) -> None:
        now = datetime.now(UTC)
        self.authorities = [
            pem for pem in self.authorities if any(one.not_valid_after_utc > now for one in certificates_in(pem))
        ]


Renewal = FileRenewal | SelfRenewal


def _moment(moment_s: float) -> str:
    return datetime.fromtimestamp(moment_s, UTC).isoformat(timespec="seconds")
