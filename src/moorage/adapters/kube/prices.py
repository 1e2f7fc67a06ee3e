"""Follows the places that prices come from: files by looking again, ConfigMaps by watching, URLs by asking again.

Invariants:
- What cannot be read changes nothing: the last good prices stay, and age. A source that confirms them, also by saying
  that nothing has changed, makes them young again; but they are never younger than their own `asOf`.
- Prices older than `stale_after_s` are passed on once more, marked as stale.
- Every change for the worse or the better is one log line, however often it is found again.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import structlog

from moorage.adapters import clock
from moorage.adapters.kube.client import KubeClient
from moorage.adapters.kube.errors import ApiError, CredentialsError
from moorage.adapters.kube.reflector import Phase, Reflector
from moorage.adapters.kube.resources import CONFIG_MAPS
from moorage.adapters.kube.tls import TlsMaterial, make_context
from moorage.adapters.kube.transport import Request, Transport, read_bounded
from moorage.adapters.kube.watchstream import ObjectMeta
from moorage.core.events import Event, ObjectSeen
from moorage.core.prices import PRICE_LIST, PriceList
from moorage.framework.pricing import PriceSource, SourceKind
from moorage.wire.prices import ConfigMapWire, decode_config_map, parse_price_list

_TIMEOUT_S = 10.0
_LARGEST_BYTES = 16 << 20
_OK, _NOT_MODIFIED = 200, 304
_SOONEST_S = 0.01

log = structlog.get_logger()


class PriceSourceError(Exception):
    """A source cannot be read; the text is one line."""


class Reader(Protocol):
    """One place, as `PriceFollower` asks it."""

    async def read(self) -> bytes | None:
        """The text; None if it has not changed since it was last read. Raises PriceSourceError."""

    async def pause(self, seconds: float) -> None:
        """Wait so long, or until there is something new to read."""


class FileReader:
    """A file; it has changed when its time, size or inode has, so that a replaced symbolic link is noticed too."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._seen: tuple[int, int, int] | None = None

    async def read(self) -> bytes | None:
        """See `Reader`."""
        try:
            status = self._path.stat()
            found = (status.st_mtime_ns, status.st_size, status.st_ino)
            if found == self._seen:
                return None
            self._seen = None
            data = await asyncio.to_thread(self._path.read_bytes)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise PriceSourceError(f"{self._path}: cannot be read ({reason}); check the path") from None
        self._seen = found
        return data

    async def pause(self, seconds: float) -> None:
        """See `Reader`."""
        await asyncio.sleep(seconds)


class UrlReader:
    """An HTTP address that answers GET with a PriceList; its ETag saves it from sending the same one again."""

    def __init__(self, url: str, ca_file: str | None, transport: Transport) -> None:
        self._url = url
        self._transport = transport
        self._ca_file = ca_file
        self._tag = ""

    async def read(self) -> bytes | None:
        """See `Reader`."""
        headers = {"User-Agent": "moorage", "Accept": "application/json, application/yaml;q=0.9, */*;q=0.1"}
        if self._tag:
            headers["If-None-Match"] = self._tag
        try:
            request = Request("GET", self._url, headers, tls=self._tls(), timeout_s=_TIMEOUT_S)
            response = await self._transport.send(request)
            if response.status not in (_OK, _NOT_MODIFIED):
                response.close()
                raise PriceSourceError(f"{self._url}: answered {response.status}; check the address")
            data = await read_bounded(response, _LARGEST_BYTES)
        except (ApiError, CredentialsError) as error:
            reason = str(error).partition(";")[0]  # what follows is advice about kubeconfigs
            raise PriceSourceError(f"{self._url}: {reason}") from None
        if response.status == _NOT_MODIFIED:
            return None
        self._tag = response.headers.get("ETag", "")
        return data

    def _tls(self) -> Any:
        """Made anew for each question, so that a renewed CA file counts."""
        if not self._url.startswith("https:"):
            return None
        ca = b""
        if self._ca_file is not None:
            try:
                ca = Path(self._ca_file).read_bytes()
            except (OSError, ValueError) as error:
                reason = getattr(error, "strerror", None) or str(error)
                raise PriceSourceError(f"caFile {self._ca_file}: cannot be read ({reason}); check the path") from None
        return make_context(TlsMaterial(ca, b"", b"", insecure=False), self._url)

    async def pause(self, seconds: float) -> None:
        """See `Reader`."""
        await asyncio.sleep(seconds)


class ConfigMapReader:
    """An entry of one ConfigMap, which a reflector watches."""

    def __init__(self, source: PriceSource, client: KubeClient, jitter: Callable[[], float]) -> None:
        namespace, _, name = source.where.partition("/")
        self._title = f"ConfigMap {source.where}"
        self._entry = source.entry
        self._found: ConfigMapWire | None = None
        self._fresh = asyncio.Event()
        self._read: str | None = None
        self.reflector: Reflector[ConfigMapWire] = Reflector(
            client,
            CONFIG_MAPS,
            self,
            parse=decode_config_map,
            jitter=jitter,
            namespace=namespace,
            field_selector=f"metadata.name={name}",
        )

    def replaced(self, objects: list[ConfigMapWire]) -> None:
        """The reflector's: what exists now."""
        self._put(objects[0] if objects else None)

    def upserted(self, obj: ConfigMapWire) -> None:
        """The reflector's: it was made or changed."""
        self._put(obj)

    def deleted(self, meta: ObjectMeta) -> None:  # noqa: ARG002 - part of the interface
        """The reflector's: it was deleted."""
        self._put(None)

    def _put(self, found: ConfigMapWire | None) -> None:
        self._found = found
        self._fresh.set()

    async def read(self) -> bytes | None:
        """See `Reader`. What a broken watch showed last confirms nothing."""
        state = await self.reflector.settled()
        self._fresh.clear()
        if state.phase is not Phase.SYNCED:
            raise PriceSourceError(f"{self._title}: cannot be watched: {state.error or state.phase.value}")
        if self._found is None:
            raise PriceSourceError(f"{self._title}: does not exist; make it")
        text = (self._found.data or {}).get(self._entry)
        if text is None:
            raise PriceSourceError(f"{self._title}: has no entry {self._entry} in data; add it, or name another key")
        if text == self._read:
            return None
        self._read = text
        return text.encode()

    async def pause(self, seconds: float) -> None:
        """See `Reader`."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):  # not wait_for, which may miss that it is cancelled
                await self._fresh.wait()


class PriceFollower:
    """Keeps the PriceList of one source up to date; `put` gets an event whenever it changes."""

    def __init__(
        self,
        source: PriceSource,
        reader: Reader,
        put: Callable[[Event], None],
        now_s: Callable[[], float] = clock.now_s,
    ) -> None:
        self.source = source
        self.confirmed_s: float | None = None
        """When the prices were last known to be the source's; None: never."""
        self._reader = reader
        self._put = put
        self._now_s = now_s
        self._list: PriceList | None = None
        self._error = ""
        self._refused = ""
        """What is wrong with the text that was read last; it is not read again while it does not change."""
        self._settled = asyncio.Event()

    @property
    def stale(self) -> bool:
        """Whether there are no prices that may be used."""
        return self._list is None or self._list.stale

    @property
    def error(self) -> str:
        """Why the source could not be read last time; empty if it could."""
        return self._error

    async def settled(self) -> None:
        """Wait until the source was asked once."""
        await self._settled.wait()

    async def run(self) -> None:
        """Follow the source until cancelled."""
        while True:
            await self.look()
            self._settled.set()
            await self._reader.pause(self._pause_s())

    async def look(self) -> None:
        """Ask the source once and tell what changed."""
        try:
            self._take(await self._reader.read())
        except PriceSourceError as error:
            self._complain(str(error))
        found = self._list
        if found is None:
            return
        stale = self._now_s() > self._stale_s(found)
        if stale != found.stale:
            self._list = replace(found, stale=stale)
            self._put(ObjectSeen(PRICE_LIST, self.source.key, self._list))
            self._tell(stale=stale)

    def _take(self, data: bytes | None) -> None:
        if data is None:
            if self._refused:
                raise PriceSourceError(self._refused)
        else:
            found = parse_price_list(data, self.source.where)
            if not isinstance(found, PriceList):
                more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
                self._refused = f"{found[0]}{more}"
                raise PriceSourceError(self._refused)
            self._refused = ""
            self._hold(replace(found, name=self.source.key, stale=self._list is not None and self._list.stale))
        self.confirmed_s = self._now_s()
        if self._error:
            self._error = ""
            log.info("prices can be read again", source=self.source.key)

    def _hold(self, found: PriceList) -> None:
        if found == self._list:
            return
        first = self._list is None
        self._list = found
        self._put(ObjectSeen(PRICE_LIST, self.source.key, found))
        log.info("prices read" if first else "prices changed", source=self.source.key, prices=len(found.rules))

    def _complain(self, error: str) -> None:
        if error != self._error:
            self._error = error
            log.warning("prices cannot be read", source=self.source.key, why=error, known=self._list is not None)

    def _tell(self, *, stale: bool) -> None:
        if stale:
            words = "prices are stale, so that every node counts as one without a price"
            log.warning(words, source=self.source.key, stale_after_s=self.source.stale_after_s)
        else:
            log.info("prices are up to date again", source=self.source.key)

    def _stale_s(self, found: PriceList) -> float:
        """The last moment at which they may be used."""
        since_s = self.confirmed_s or 0.0
        if found.as_of_s is not None:
            since_s = min(since_s, found.as_of_s)
        return since_s + self.source.stale_after_s

    def _pause_s(self) -> float:
        """Until the next look, which is due when the prices turn stale at the latest."""
        if self._list is None or self._list.stale:
            return self.source.poll_s
        return max(_SOONEST_S, min(self.source.poll_s, self._stale_s(self._list) - self._now_s() + _SOONEST_S))


def make_reader(source: PriceSource, client: KubeClient, transport: Transport, jitter: Callable[[], float]) -> Reader:
    """The reader of a source."""
    if source.kind is SourceKind.FILE:
        return FileReader(os.fspath(source.where))
    if source.kind is SourceKind.URL:
        return UrlReader(source.where, source.ca_file, transport)
    return ConfigMapReader(source, client, jitter)
