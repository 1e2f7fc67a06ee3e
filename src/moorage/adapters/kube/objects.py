"""Writes to objects other than pods that a pod's way to its node needs: claims, volumes, device claims.

The result is a plain yes or no. A write without a response is retried: if the server had taken the first one after all,
the precondition refuses the second, and the pod's next attempt finds the object as it wanted it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from moorage.adapters.kube.client import MERGE_PATCH, STRATEGIC_PATCH, KubeClient
from moorage.adapters.kube.errors import BadRequest, Conflict, Forbidden, Invalid, KubeError, NotFound
from moorage.adapters.kube.intake import resource_of
from moorage.core.commands import PatchObject
from moorage.core.events import PatchDone
from moorage.core.gangs import COSCHEDULING_KIND
from moorage.wire.kinds import BY_ID

ATTEMPTS = 4
_CUSTOM = frozenset({"PlacementPolicy", COSCHEDULING_KIND})
"""Kinds of custom resources, for which the API server knows no strategic merge patch."""


async def patch_object(client: KubeClient, command: PatchObject, pause: Callable[[int], Awaitable[None]]) -> PatchDone:
    """Carry the command out; `pause` waits before the attempt after the given one."""
    resource = resource_of(BY_ID[command.kind])
    body = _body(command)
    for attempt in range(ATTEMPTS):
        try:
            await client.patch(
                resource,
                command.name,
                body,
                command.namespace or None,
                content_type=MERGE_PATCH if command.kind in _CUSTOM else STRATEGIC_PATCH,
                subresource=command.subresource or None,
            )
        except (NotFound, Conflict, Forbidden, BadRequest, Invalid) as error:
            return _failed(command, error)
        except KubeError as error:
            if attempt == ATTEMPTS - 1:
                return _failed(command, error)
            await pause(attempt)
        else:
            break
    return PatchDone(command, ok=True)


def _body(command: PatchObject) -> dict[str, Any]:
    """The patch with its preconditions, which stand in the metadata."""
    preconditions = {"uid": command.uid, "resourceVersion": command.resource_version}
    given = {name: value for name, value in preconditions.items() if value}
    return {**command.patch, "metadata": {**command.patch.get("metadata", {}), **given}}


def _failed(command: PatchObject, error: KubeError) -> PatchDone:
    where = "/".join(part for part in (command.namespace, command.name) if part)
    return PatchDone(command, ok=False, message=f"writing {command.kind} {where}: {error}")
