"""What every test shares."""

from __future__ import annotations

import gc
import signal

import pytest
from hypothesis import settings

pytest_plugins = ["tests.controlplane_fixtures"]

# The machine is shared: slow examples say nothing about the code.
settings.register_profile("moorage", deadline=None, print_blob=True)
settings.load_profile("moorage")

# A run in the background starts with Ctrl-C ignored, and whatever the tests start would ignore it too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """Eleven thousand tests stay until the end: no later collection need look at them."""
    _set_aside()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """What a module leaves behind is collected at its end, and what it keeps is not looked at again: programs that
    collect often would take ten times as long at the end of a run.
    """
    if nextitem is None or nextitem.path != item.path:
        _set_aside()


def _set_aside() -> None:
    gc.collect()
    gc.freeze()
