"""The tree of queues: what each may have, has and waits for; for tables, documents, pages and metrics."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from moorage.core.quantity import format_fine
from moorage.core.queueaccounts import QueueAccount, queue_accounts
from moorage.core.queueorder import dominant_text
from moorage.core.queues import WEIGHT_UNIT, bound_text, weight_text
from moorage.engine.engine import Engine

TREE_COLUMNS = (
    "QUEUE",
    "PRIORITY",
    "RESOURCE",
    "QUOTA",
    "WEIGHT",
    "LIMIT",
    "SHARE",
    "ALLOCATED",
    "WAITING",
    "DOMINANT",
)
TREE_NUMBERS = TREE_COLUMNS[3:]
_INDENT, _NOTHING = "  ", "-"


def accounts_of(engine: Engine) -> list[QueueAccount]:
    """All queues that an engine knows, each before the queues below it."""
    return queue_accounts(engine.state)


def amounts_document(account: QueueAccount) -> dict[str, dict[str, str]]:
    """What a queue has, may have and waits for, in canonical quantities by resource."""
    held = account.holdings.items()
    return {
        "allocated": {name: format_fine(name, each.allocated) for name, each in held},
        "fairShare": {name: format_fine(name, each.share) for name, each in held},
        "waiting": {name: format_fine(name, each.waiting) for name, each in held},
    }


def account_document(account: QueueAccount) -> dict[str, Any]:
    """A queue with everything that is known of it."""
    queue = account.queue
    terms = {
        name: {
            "quota": bound_text(name, each.quota),
            "weight": each.weight / WEIGHT_UNIT,
            "limit": bound_text(name, each.limit),
        }
        for name, each in queue.resources.items()
    }
    return {
        "name": queue.name,
        "parent": queue.parent or None,
        "level": account.level,
        "priority": queue.priority,
        "resources": terms,
        **amounts_document(account),
        "dominantShare": round(account.dominant_share, 6),
        "problem": account.problem or None,
    }


def document(accounts: Iterable[QueueAccount]) -> dict[str, dict[str, Any]]:
    """All queues by name."""
    return {account.queue.name: account_document(account) for account in accounts}


def tree_rows(accounts: Sequence[QueueAccount]) -> list[tuple[str, ...]]:
    """Rows for `TREE_COLUMNS`: a line for each queue and resource; a queue is named on its first line only."""
    return [row for account in governed(accounts) for row in _rows(account)]


def governed(accounts: Sequence[QueueAccount]) -> list[QueueAccount]:
    """The same with nothing but the resources that at least one queue names: of others there is nothing to decide."""
    named = {name for account in accounts for name in account.queue.resources}
    kept = ({name: each for name, each in account.holdings.items() if name in named} for account in accounts)
    return [account._replace(holdings=holdings) for account, holdings in zip(accounts, kept, strict=True)]


def _rows(account: QueueAccount) -> list[tuple[str, ...]]:
    queue = account.queue
    title = _INDENT * account.level + queue.name + (f" ({account.problem})" if account.problem else "")
    firsts = (title, str(queue.priority)), ("", "")
    dominant = dominant_text(account.dominant_share)
    if not account.holdings:
        return [(*firsts[0], *[_NOTHING] * 7, dominant)]
    rows = []
    for index, (name, each) in enumerate(account.holdings.items()):
        terms = queue.share_of(name)
        weight = weight_text(terms.weight) if name in queue.resources else _NOTHING
        amounts = [format_fine(name, amount) for amount in (each.share, each.allocated, each.waiting)]
        bounds = bound_text(name, terms.quota, _NOTHING), weight, bound_text(name, terms.limit, _NOTHING)
        rows.append((*firsts[index > 0], name, *bounds, *amounts, "" if index else dominant))
    return rows
