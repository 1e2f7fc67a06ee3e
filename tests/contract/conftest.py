"""`cluster`: the same tests on the embedded cluster and on the real API server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from moorage.app.plugins import find_plugins
from moorage.wire.configuration import Reading, read_configuration
from tests.contract.cluster import CONFIGURATION, Cluster
from tests.contract.embedded import EmbeddedContract
from tests.contract.real import RealContract


def _reading() -> Reading:
    """A new one for each cluster: plugins may keep what they learned."""
    reading = read_configuration(CONFIGURATION, "contract", find_plugins().registry)
    assert not reading.problems
    return reading


@pytest.fixture(
    params=[
        "embedded",
        pytest.param("real", marks=[pytest.mark.controlplane, pytest.mark.xdist_group("controlplane")]),
    ]
)
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A cluster without nodes and pods, and a scheduler at work."""
    contract: EmbeddedContract | RealContract
    if request.param == "embedded":
        contract = EmbeddedContract(_reading())
    else:
        contract = RealContract(request.getfixturevalue("control_plane"), _reading())
    try:
        yield contract
    finally:
        contract.close()
