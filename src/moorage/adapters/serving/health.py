"""`/healthz`, `/livez`, `/readyz` and `/metrics/slis`: named checks, one by one or together, as Kubernetes serves them.

/readyz                     ok, or 500 and what is wrong
/readyz?verbose             one line for each check
/readyz?exclude=shutdown    without that check
/readyz/shutdown            that check alone
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from aiohttp import web
from aiohttp.typedefs import Handler
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from moorage.adapters.exposition import encoder_of

Check = Callable[[], str]
"""What is wrong, in one line; empty if nothing is. Must not block."""
_NOSNIFF = {"X-Content-Type-Options": "nosniff"}


def ping() -> str:
    """Always healthy: the process answers."""
    return ""


class Health(Collector):
    """The checks of each endpoint, by endpoint and name."""

    def __init__(self, checks: Mapping[str, Mapping[str, Check]]) -> None:
        self._checks = checks
        self._results: Counter[tuple[str, str, str]] = Counter()
        self._latest: dict[tuple[str, str], bool] = {}
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)

    def routes(self) -> Iterable[web.RouteDef]:
        """What is served."""
        for endpoint, checks in self._checks.items():
            yield web.get(f"/{endpoint}", self._all_of(endpoint))
            for name in checks:
                yield web.get(f"/{endpoint}/{name}", self._one_of(endpoint, name))

    def render(self, accept: str) -> tuple[bytes, str]:
        """The answer of `/metrics/slis`: asks every check once more."""
        for endpoint, checks in self._checks.items():
            for name in checks:
                self._ask(endpoint, name)
        encode, content_type = encoder_of(accept)
        return encode(self._registry), content_type

    def collect(self) -> Iterable[Metric]:
        """The latest results and all results so far."""
        latest = GaugeMetricFamily("kubernetes_healthcheck", "The result of a check.", labels=("name", "type"))
        for (endpoint, name), good in self._latest.items():
            latest.add_metric((name, endpoint), float(good))
        yield latest
        labels = ("name", "type", "status")
        results = CounterMetricFamily("kubernetes_healthchecks", "Results of checks.", labels=labels)
        for (endpoint, name, status), number in self._results.items():
            results.add_metric((name, endpoint, status), number)
        yield results

    def _ask(self, endpoint: str, name: str) -> str:
        trouble = self._checks[endpoint][name]()
        self._latest[endpoint, name] = not trouble
        self._results[endpoint, name, "error" if trouble else "success"] += 1
        return trouble

    def _all_of(self, endpoint: str) -> Handler:
        async def answer(request: web.Request) -> web.Response:
            excluded = set(request.query.getall("exclude", []))
            lines, good = [], True
            for name in self._checks[endpoint]:
                trouble = "" if name in excluded else self._ask(endpoint, name)
                good = good and not trouble
                said = "excluded: ok" if name in excluded else "ok"
                lines.append(f"[-]{name} failed: {trouble}\n" if trouble else f"[+]{name} {said}\n")
            if not good:
                text = "".join([*lines, f"{endpoint} check failed\n"])
                return web.Response(status=500, text=text, headers=_NOSNIFF)
            verbose = "".join([*lines, f"{endpoint} check passed\n"])
            return web.Response(text=verbose if "verbose" in request.query else "ok", headers=_NOSNIFF)

        return answer

    def _one_of(self, endpoint: str, name: str) -> Handler:
        async def answer(_: web.Request) -> web.Response:
            trouble = self._ask(endpoint, name)
            if trouble:
                return web.Response(status=500, text=f"internal server error: {trouble}\n", headers=_NOSNIFF)
            return web.Response(text="ok", headers=_NOSNIFF)

        return answer
