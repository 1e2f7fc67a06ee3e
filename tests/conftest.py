"""What every test shares."""

from __future__ import annotations

from hypothesis import settings

pytest_plugins = ["tests.controlplane_fixtures"]

# The machine is shared: slow examples say nothing about the code.
settings.register_profile("moorage", deadline=None, print_blob=True)
settings.load_profile("moorage")
