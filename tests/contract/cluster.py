"""What a contract test may do to a cluster, whichever one it is, and what it can wait for.

Objects are JSON as the API server takes and gives it. Requests that the server refuses are AssertionErrors, because no
test here wants one refused.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeAlias

Manifest: TypeAlias = dict[str, Any]

CONFIGURATION = b"""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
clientConnection: {qps: 5000, burst: 10000}
profiles:
- schedulerName: moorage
- schedulerName: packer
  pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated}}
  plugins:
    score:
      disabled: [{name: NodeResourcesBalancedAllocation}]
"""
"""What the scheduler runs with: `moorage` spreads the load as kube-scheduler does, `packer` fills nodes up."""


class Cluster(Protocol):
    """A cluster with Moorage as its scheduler; everything is in the namespace `default`."""

    def create(self, obj: Manifest) -> Manifest:
        """Create an object; the one that was stored."""

    def find(self, kind: str, name: str) -> Manifest | None:
        """The object, None when there is none."""

    def list(self, kind: str) -> list[Manifest]:
        """All objects of a kind."""

    def patch(self, kind: str, name: str, patch: Manifest) -> None:
        """Merge a patch into an object; a patch of nothing but `status` goes to the status."""

    def delete(self, kind: str, name: str) -> None:
        """Delete an object at once."""

    def bind(self, pod: str, node: str) -> None:
        """Bind a pod as another scheduler does it."""

    def before_bind(self, pod: str, act: Callable[[], None]) -> None:
        """Act when the scheduler has decided on this pod, right before its next bind of it reaches the server."""

    def scheduler_away(self) -> AbstractContextManager[None]:
        """Stop the scheduler for the block; at its end another one starts and finds things as they are then."""

    def eventually(self, truth: Callable[[], object], what: str) -> None:
        """Wait until it is true."""

    def settle(self) -> None:
        """Wait until the scheduler has dealt with everything that happened until now.

        Nodes and pods reach it on different ways: without this a pod may be decided on before it knows all nodes.
        """

    def hold(self, truth: Callable[[], object], what: str) -> None:
        """It must be true, and still be so when the scheduler has dealt with everything, retries included."""
