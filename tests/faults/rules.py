"""What a proxy does to which request: `Rule(verb, path, nth, times, act)`. Data only; `proxy.py` carries it out.

A rule matches requests by verb and by a pattern that is searched in the path. It acts on its n-th match and the
`times - 1` after it. The first rule that acts on a request decides; every rule counts every match of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

WATCH, LIST, GET = "watch", "list", "get"
BIND, EVICT, CREATE, UPDATE, PATCH, DELETE = "bind", "evict", "create", "update", "patch", "delete"
WRITES = frozenset({BIND, EVICT, CREATE, UPDATE, PATCH, DELETE})
READS = frozenset({WATCH, LIST, GET})
FOREVER = 1 << 30

_METHODS = {"POST": CREATE, "PUT": UPDATE, "PATCH": PATCH, "DELETE": DELETE}
_SUBRESOURCES = {"binding": BIND, "eviction": EVICT}
_COLLECTION = re.compile(r"^/(api|apis/[^/]+)/[^/]+(/namespaces/[^/]+)?/[^/]+$")


@dataclass(frozen=True, slots=True)
class Delay:
    """Wait before the request is forwarded, or before its answer is passed on."""

    before_s: float = 0.0
    after_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Answer:
    """Say this instead of the API server, before or after the request had its effect."""

    status: int
    after: bool = False
    retry_after_s: int | None = None
    html: bool = False
    """As a load balancer would, which knows no `kind: Status`."""


@dataclass(frozen=True, slots=True)
class Drop:
    """Let the request have its effect, and close the connection without an answer."""


@dataclass(frozen=True, slots=True)
class Stop:
    """The moment of a crash, before the request is forwarded or after it was answered.

    It happens once. The request is never answered, and from then on no write of the process is forwarded: it is dead as
    far as the API server can tell, however long the signal takes. Requests that the rule matches go one at a time.
    """

    before: bool = False


@dataclass(frozen=True, slots=True)
class Hold:
    """Keep the request back until `release` is called, then forward it."""


@dataclass(frozen=True, slots=True)
class Truncate:
    """Pass so many bytes of an answer on, and close the connection."""

    after_bytes: int


@dataclass(frozen=True, slots=True)
class Expire:
    """Pass so many events of a watch on, then say 410 in the stream and end it."""

    after_events: int


Act = Delay | Answer | Drop | Stop | Hold | Truncate | Expire


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule; `verb` may be several with | between them, and empty means any."""

    act: Act
    verb: str = ""
    path: str = ""
    nth: int = 1
    times: int = 1

    def matches(self, verb: str, path: str) -> bool:
        """Whether this is a request of the kind that the rule is about."""
        return (not self.verb or verb in self.verb.split("|")) and re.search(self.path, path) is not None


class Book:
    """The rules of one proxy and what each has matched so far."""

    def __init__(self, rules: Iterator[Rule] | tuple[Rule, ...] | list[Rule] = ()) -> None:
        self._rules: dict[Rule, int] = dict.fromkeys(rules, 0)

    def add(self, *rules: Rule) -> None:
        """Take more rules; their counts start now."""
        self._rules.update(dict.fromkeys(rules, 0))

    def remove(self, *rules: Rule) -> None:
        """Forget these rules."""
        for rule in rules:
            self._rules.pop(rule, None)

    def in_turn(self, verb: str, path: str) -> bool:
        """Whether such requests go one at a time."""
        return any(isinstance(rule.act, Stop) and rule.matches(verb, path) for rule in self._rules)

    def act_on(self, verb: str, path: str) -> Act | None:
        """Count the request, and return what is to be done to it."""
        found: Act | None = None
        for rule in self._rules:
            if not rule.matches(verb, path):
                continue
            self._rules[rule] += 1
            if found is None and rule.nth <= self._rules[rule] < rule.nth + rule.times:
                found = rule.act
        return found


def verb_of(method: str, path: str, query: Mapping[str, str]) -> str:
    """Return what Kubernetes would call the request, binds and evictions apart from other creations."""
    if method == "GET":
        if query.get("watch") in {"1", "true"}:
            return WATCH
        return LIST if _COLLECTION.match(path) else GET
    if method == "POST":
        return _SUBRESOURCES.get(path.rpartition("/")[2], CREATE)
    return _METHODS.get(method, method.lower())
