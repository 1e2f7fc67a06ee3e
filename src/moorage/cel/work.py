"""The budget of work that the cost of an expression does not count.

cel-go's costs leave out what is cheap in Go or never happens by accident: comparing lists inside lists, joining long
lists, the states of a regular expression. All of that is spent from one account per evaluation, so that nothing takes
longer than an expression of the highest cost.
"""

from __future__ import annotations

from contextvars import ContextVar

MOST_WORK = 500_000
"""Elements that are looked at, characters that are written, steps of a matcher."""


class CostExceededError(Exception):
    """The evaluation is over: its cost, or work that costs do not count, went beyond its limit."""


class InternalError(Exception):
    """The evaluation is over, because cel-go fails here in a way that nothing absorbs; the message is its own."""


class WorkAccount:
    """What is left."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = MOST_WORK


_CURRENT: ContextVar[WorkAccount] = ContextVar("cel_work")


def use_account(account: WorkAccount) -> None:
    """What is spent from now on is spent from it."""
    _CURRENT.set(account)


def spend(amount: int) -> None:
    """Take from the account of the evaluation that is going on."""
    account = _CURRENT.get(None)
    if account is None:
        return
    account.left -= amount
    if account.left < 0:
        raise CostExceededError
