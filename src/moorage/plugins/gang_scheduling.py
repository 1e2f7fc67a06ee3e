"""GangScheduling: the members of a gang are placed together or not at all.

The engine places gangs (`engine.gangs`) for every profile that has this plugin; its arguments are the engine's
timeouts. PreFilter keeps the members of a gang with a topology constraint in the domain that the engine tries.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from moorage.core.arrivals import NODE_CLAIM
from moorage.core.gangs import READ_KINDS, group_object
from moorage.core.pods import PodTemplate
from moorage.core.provisioning import BEST_EFFORT_ATOMIC, PROVISIONING_REQUEST
from moorage.core.state import ClusterState
from moorage.framework.arguments import PluginArgs
from moorage.framework.changes import What
from moorage.framework.cycle import Cycle
from moorage.framework.gangs import GANG_SCHEDULING
from moorage.framework.plugin import Plugin, Reads
from moorage.framework.status import SKIP, OnlyNodes, Status
from moorage.framework.workloadkinds import GangPlacementArgs

_LONGEST_S = 86_400
_CLASS = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*)?$"


class GangSchedulingArgs(GangPlacementArgs):
    """How long the engine waits before it does something about a gang."""

    reserve_after_seconds: Annotated[float, Field(ge=0, le=_LONGEST_S)] = 60.0
    """A gang that has not fit for this long gets the room that becomes free reserved."""
    reserve_for_seconds: Annotated[float, Field(gt=0, le=_LONGEST_S)] = 300.0
    """How long such room is reserved at most; then none is for as long, whoever waits."""
    settle_seconds: Annotated[float, Field(ge=0, le=_LONGEST_S)] = 1.0
    """A gang of unknown size is complete when no member has been added for this long."""
    recover_seconds: Annotated[float, Field(ge=0, le=25)] = 10.0
    """How long the engine tries to complete a gang that was started in part before it releases the members."""
    release_bare_pods: bool = False
    """Whether members without a controller are deleted too, though nothing will recreate them."""
    provisioning_class: Annotated[str, Field(max_length=253, pattern=_CLASS)] = BEST_EFFORT_ATOMIC
    """The class of the ProvisioningRequests of gangs that wait for nodes; empty: none are written."""
    provision_after_seconds: Annotated[float, Field(ge=0, le=_LONGEST_S)] = 5.0
    """How long a gang has waited when its request is written."""
    arrival_seconds: Annotated[float, Field(ge=0, le=_LONGEST_S)] = 300.0
    """A gang evicts nobody while nodes have been on their way for less than this on which it would fit."""


class GangScheduling(Plugin):
    """Marks a profile whose gangs are placed as a whole."""

    name: ClassVar[str] = GANG_SCHEDULING
    Args: ClassVar[type[PluginArgs]] = GangSchedulingArgs
    reads: ClassVar[Reads] = Reads.CLUSTER
    wakes: ClassVar[What] = What(0)
    """None: the engine wakes waiting gangs by name, so that not all of them are asked about every pod."""
    kinds: ClassVar[frozenset[str]] = READ_KINDS | {"PodDisruptionBudget", PROVISIONING_REQUEST, NODE_CLAIM}

    def __init__(self, args: GangSchedulingArgs | None = None) -> None:
        self.args: GangSchedulingArgs = args or GangSchedulingArgs()

    @property
    def gang_patience(self) -> GangSchedulingArgs:
        """The engine's timeouts for gangs of the profile."""
        return self.args

    def concerns(self, template: PodTemplate, state: ClusterState) -> bool:
        """Only the members of gangs that have to stay in one domain."""
        if template.gang is None:
            return False
        group = group_object(state, template.gang)
        return group is not None and group.topology_key is not None

    def pre_filter(self, cycle: Cycle) -> Status | OnlyNodes | None:
        """The nodes of the domain that is tried."""
        names = cycle.domain
        return SKIP if names is None else OnlyNodes(names)
