"""The page of queues: the tree, with what each may have, has and waits for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from moorage.core.fairshare import UNLIMITED
from moorage.core.quantity import format_fine
from moorage.core.queueaccounts import QueueAccount, QueueHolding
from moorage.core.queueorder import dominant_text
from moorage.core.queues import Queue, bound_text, weight_text
from moorage.views.queuetree import accounts_of, governed
from moorage.views.world import World

_MOST_SHOWN = 500
_NOTHING = "-"
_NO_BAR = {
    **dict.fromkeys(("resource", "allocated", "waiting", "share", "quota", "limit", "weight"), _NOTHING),
    "amounts": {"allocated": 0, "waiting": 0, "share": 0, "quota": None},
    "scale": 1,
}


def shares_page(world: World) -> dict[str, Any]:
    """The tree as plain values; amounts as numbers too, for bars that have one scale for each resource."""
    accounts = governed(accounts_of(world.engine))
    scales: dict[str, int] = {}
    for account in accounts:
        for name, each in account.holdings.items():
            quota = account.queue.share_of(name).quota
            most = max(each.requested, each.share, 0 if quota >= UNLIMITED else quota, 1)
            scales[name] = max(scales.get(name, 0), most)
    return {"total": len(accounts), "queues": [_shown(account, scales) for account in accounts[:_MOST_SHOWN]]}


def _shown(account: QueueAccount, scales: Mapping[str, int]) -> dict[str, Any]:
    queue = account.queue
    return {
        "name": queue.name,
        "level": account.level,
        "priority": queue.priority,
        "problem": account.problem,
        "dominant": dominant_text(account.dominant_share),
        "resources": [_bar(queue, name, each, scales[name]) for name, each in account.holdings.items()] or [_NO_BAR],
    }


def _bar(queue: Queue, name: str, each: QueueHolding, scale: int) -> dict[str, Any]:
    terms = queue.share_of(name)
    return {
        "resource": name,
        "allocated": format_fine(name, each.allocated),
        "waiting": format_fine(name, each.waiting),
        "share": format_fine(name, each.share),
        "quota": bound_text(name, terms.quota, _NOTHING),
        "limit": bound_text(name, terms.limit, _NOTHING),
        "weight": weight_text(terms.weight) if name in queue.resources else _NOTHING,
        "amounts": {
            "allocated": each.allocated,
            "waiting": each.waiting,
            "share": each.share,
            "quota": None if terms.quota >= UNLIMITED else terms.quota,
        },
        "scale": scale,
    }
