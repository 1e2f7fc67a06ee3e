"""Virtual time moves when told to, and timers fire in order."""

from __future__ import annotations

import pytest

from moorage.adapters.memory.clock import Clock


def test_timers_fire_in_order_of_time_then_of_setting() -> None:
    """Each sees its own due time as the present; timers set on the way fire too, if due."""
    clock, seen = Clock(100.0), []

    def note(name: str) -> None:
        seen.append((name, clock.now_s))

    def chain() -> None:
        note("chain")
        clock.after(1.0, lambda: note("link"))

    clock.after(5.0, lambda: note("late"))
    clock.after(1.0, lambda: note("first"))
    clock.at(101.0, lambda: note("second"))
    clock.at(103.0, chain)
    assert clock.next_s == 101.0
    assert clock.advance_to(104.5) == 4
    assert seen == [("first", 101.0), ("second", 101.0), ("chain", 103.0), ("link", 104.0)]
    assert (clock.now_s, clock.next_s) == (104.5, 105.0)


def test_a_cancelled_timer_does_not_fire() -> None:
    """Nor does it keep the clock busy."""
    clock, seen = Clock(0.0), []
    timer = clock.after(1.0, lambda: seen.append(1))
    timer.cancel()
    assert clock.next_s is None
    assert clock.advance_to(2.0) == 0
    assert seen == []


def test_a_timer_in_the_past_is_due_now() -> None:
    """It fires at the present time, not at its own."""
    clock, seen = Clock(10.0), []
    clock.at(3.0, lambda: seen.append(clock.now_s))
    clock.advance_to(10.0)
    assert seen == [10.0]


def test_time_does_not_run_backwards() -> None:
    """Asking for the past is a mistake of the caller."""
    with pytest.raises(ValueError, match="backwards"):
        Clock(10.0).advance_to(9.0)
