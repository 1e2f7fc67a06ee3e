"""What every test shares."""

from __future__ import annotations

import signal

from hypothesis import settings

pytest_plugins = ["tests.controlplane_fixtures"]

# The machine is shared: slow examples say nothing about the code.
settings.register_profile("moorage", deadline=None, print_blob=True)
settings.load_profile("moorage")

# A run in the background starts with Ctrl-C ignored, and whatever the tests start would ignore it too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
