"""How long pods waited for their nodes, and what was written about them, by the API server's own clock and books.

The auditor's watch is no clock for that where much happens: this process makes the objects, plays the kubelets and
passes on what it is to watch, and may see a bind seconds after it was answered.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

POLICY: Mapping[str, Any] = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {
            "level": "Metadata",
            "verbs": ["create", "patch"],
            "resources": [
                {"group": "", "resources": ["pods", "pods/binding", "pods/status"]},
                {"group": "events.k8s.io", "resources": ["events"]},
            ],
        },
        {"level": "None"},
    ],
}
"""What the API server is to write down: who was made, who was bound, and what was told of them."""
SHARE = 2
"""A pod waits for its watch and for its bind: for the API server as long as so many creations take."""


@dataclass(frozen=True, slots=True)
class Waits:
    """Of some pods, both in ascending order."""

    seconds: Sequence[float]
    """From the answer to a pod's creation to that of its bind."""
    creating_s: Sequence[float]
    """What the API server took to create them: how busy it was, whichever scheduler runs."""

    def part_s(self, part: float) -> float:
        """So long or less waited this part of them; endless if there are none."""
        return _part(self.seconds, part)

    def own_s(self, part: float) -> float:
        """The same without the API server's share, which is estimated; 0 where that is all of it."""
        return max(0.0, self.part_s(part) - SHARE * _part(self.creating_s, part)) if self.seconds else float("inf")


def waits(log: Path, namespace: str, prefix: str) -> Waits:
    """Of the pods of a namespace whose name begins so."""
    made: dict[str, datetime] = {}
    bound: dict[str, datetime] = {}
    creating_s = []
    for event in _events(log, namespace):
        about, ended = event["objectRef"], datetime.fromisoformat(event["stageTimestamp"])
        name, part = about.get("name", ""), about.get("subresource", "")
        if about["resource"] != "pods" or event["responseStatus"]["code"] != 201 or not name.startswith(prefix):
            continue
        if part == "binding":
            bound.setdefault(name, ended)
        elif not part:
            made[name] = ended
            creating_s.append((ended - datetime.fromisoformat(event["requestReceivedTimestamp"])).total_seconds())
    seconds = sorted((at - made[name]).total_seconds() for name, at in bound.items() if name in made)
    return Waits(seconds, sorted(creating_s))


def writes(log: Path, namespace: str, agent: str) -> int:
    """How many requests of a program there were about pods of a namespace: binds, statuses and events."""
    return sum(event.get("userAgent") == agent for event in _events(log, namespace))


def _events(log: Path, namespace: str) -> Iterator[dict[str, Any]]:
    with log.open() as lines:
        for line in lines:
            if not line.endswith("\n"):
                return  # it is being written
            event = json.loads(line)
            if event["objectRef"].get("namespace") == namespace:
                yield event


def _part(ordered: Sequence[float], part: float) -> float:
    return ordered[int(len(ordered) * part)] if ordered else float("inf")
