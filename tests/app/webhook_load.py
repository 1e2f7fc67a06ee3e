"""Load on a running webhook: 200 questions a second over TLS, a share of them on connections of their own.

    python -m tests.app.webhook_load [--seconds 75] [--rate 200] [--fresh 0.5]

starts a control plane and a webhook whose certificate lives for a minute, so that it is replaced under the load, asks
as an API server does (trusting the CA bundle of the webhook configuration at the time of each handshake), and prints
how long answers took and how many handshakes failed.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import ssl
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from moorage.bench.controlplane import ControlPlane
from tests.app.webhook_process import NAME, REGISTRATIONS, bare_pod, review, webhook

KEPT = 8
"""Connections that stay open."""
LOOK_S = 0.25
"""How far behind an API server's knowledge of the bundle is."""

Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass(slots=True)
class Figures:
    """What came of it; times in seconds, sorted."""

    kept_s: list[float] = field(default_factory=list)
    fresh_s: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    serials: set[str] = field(default_factory=set)
    """Of the certificates that were met."""

    def __str__(self) -> str:
        lines = [f"{len(self.failures)} failures, {len(self.serials)} certificates met", *self.failures[:5]]
        for name, times in (("kept connections", self.kept_s), ("own connections", self.fresh_s)):
            ordered = sorted(times)
            shown = {f"p{share:g}": ordered[int(len(ordered) * share / 100)] for share in (50, 90, 99, 99.9)}
            words = ", ".join(f"{label} {value * 1000:.1f} ms" for label, value in shown.items())
            lines.append(f"{name}: {len(ordered)} answers, {words}, longest {ordered[-1] * 1000:.1f} ms")
        return "\n".join(lines)


class Load:
    """Questions at a steady pace, whether or not the answers keep up."""

    def __init__(
        self, port: int, bundle: Callable[[], bytes], fresh_share: float = 0.5, trusted: bytes | None = None
    ) -> None:
        self.figures = Figures()
        self._port = port
        self._bundle = bundle
        self._fresh_share = fresh_share
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._tls.load_verify_locations(cadata=(bundle() if trusted is None else trusted).decode())
        body = json.dumps(review(bare_pod(), dry_run=True)).encode()
        head = f"POST /mutate HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
        self._question = head.encode() + body
        self._idle: list[Stream] = []

    async def run(self, seconds: float, rate: float) -> Figures:
        """Ask `rate` questions a second for so long."""
        looking = asyncio.create_task(self._look())
        began_s, tasks, due = time.monotonic(), [], 0.0
        for number in range(int(seconds * rate)):
            await asyncio.sleep(max(0.0, began_s + number / rate - time.monotonic()))
            due += self._fresh_share
            fresh, due = due >= 1.0, due % 1.0
            tasks.append(asyncio.create_task(self._timed(fresh=fresh)))
        await asyncio.gather(*tasks)
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)
        while self._idle:
            self._idle.pop()[1].close()
        return self.figures

    async def _timed(self, *, fresh: bool) -> None:
        began_s = time.monotonic()
        try:
            await self._asked(fresh=fresh)
        except (OSError, AssertionError, ValueError, asyncio.IncompleteReadError) as error:
            self.figures.failures.append(f"{type(error).__name__}: {error}")
            return
        times = self.figures.fresh_s if fresh else self.figures.kept_s
        times.append(time.monotonic() - began_s)

    async def _asked(self, *, fresh: bool) -> None:
        stream = self._idle.pop() if self._idle and not fresh else await self._connected()
        reader, writer = stream
        writer.write(self._question)
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 "), head
        length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n", 1)[0])
        answer = json.loads(await reader.readexactly(length))["response"]
        assert answer["allowed"] is True
        assert "patch" in answer
        if fresh or len(self._idle) >= KEPT:
            writer.close()
        else:
            self._idle.append(stream)

    async def _connected(self) -> Stream:
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", self._port, ssl=self._tls, server_hostname="localhost"
        )
        self.figures.serials.add(writer.get_extra_info("peercert")["serialNumber"])
        return reader, writer

    async def _look(self) -> None:
        """Hear of new authorities, as API servers do by their watch."""
        known = b""
        while True:
            found = await asyncio.to_thread(self._bundle)
            if found != known:
                known = found
                self._tls.load_verify_locations(cadata=found.decode())
            await asyncio.sleep(LOOK_S)


def registered_bundle(plane: ControlPlane, name: str = NAME) -> bytes:
    """The CA bundle of the webhook configuration."""
    (entry,) = plane.request("GET", f"{REGISTRATIONS}/{name}").json()["webhooks"]
    return base64.b64decode(entry["clientConfig"]["caBundle"])


def main() -> None:
    """Run it by hand."""
    parser = argparse.ArgumentParser(description="Load on a webhook whose certificate is replaced meanwhile.")
    parser.add_argument("--seconds", type=float, default=75.0)
    parser.add_argument("--rate", type=float, default=200.0)
    parser.add_argument("--fresh", type=float, default=0.5, help="share of questions on a connection of their own")
    arguments = parser.parse_args()
    lives = {"certificateLifetime": "60s", "certificateSpread": "2s"}
    with (
        ControlPlane.start() as plane,
        tempfile.TemporaryDirectory() as folder,
        webhook(plane, Path(folder) / "webhook", fields=lives) as running,
    ):
        load = Load(running.port, lambda: registered_bundle(plane), arguments.fresh)
        print(asyncio.run(load.run(arguments.seconds, arguments.rate)))  # noqa: T201
        counted = running.metric("controller_runtime_webhook_requests_total")
        busy_s = running.metric("process_cpu_seconds_total")
        print(f"the webhook: {counted:.0f} questions, {busy_s / counted * 1000:.2f} ms of CPU each, start included")  # noqa: T201


if __name__ == "__main__":
    main()
