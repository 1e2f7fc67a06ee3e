"""Writes to objects other than pods that a pod's way to its node needs: claims, volumes, device claims.

The result is a plain yes or no. A write without a response is retried: if the server had taken the first one after all,
the precondition refuses the second, and the pod's next attempt finds the object as it wanted it.

A no about a device claim that is no clear refusal has the claim's version of afterwards: devices that the write may
have given to the claim stay taken until the watch shows that version. The claim is read for as long as it takes to
reach the server, as pods are (see `binder`); by listing, which is what the watch needs the right for anyway.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from moorage.adapters.kube.client import MERGE_PATCH, STRATEGIC_PATCH, KubeClient
from moorage.adapters.kube.errors import AlreadyExists, BadRequest, Conflict, Forbidden, Invalid, KubeError, NotFound
from moorage.adapters.kube.intake import resource_of
from moorage.adapters.kube.watchstream import decode_page, metadata_of
from moorage.core.claims import DELETE_PROTECTION
from moorage.core.commands import PatchObject, Verb
from moorage.core.deviceindex import RESOURCE_CLAIM
from moorage.core.events import PatchDone
from moorage.core.gangs import COSCHEDULING_KIND
from moorage.core.queues import QUEUE_KINDS
from moorage.wire.kinds import BY_ID
from moorage.wire.patches import in_version, plain

ATTEMPTS = 4
_CUSTOM = frozenset({"PlacementPolicy", COSCHEDULING_KIND, *QUEUE_KINDS})
"""Kinds of custom resources, for which the API server knows no strategic merge patch."""


async def patch_object(client: KubeClient, command: PatchObject, pause: Callable[[int], Awaitable[None]]) -> PatchDone:
    """Carry the command out; `pause` waits before the attempt after the given one."""
    unclear = False
    """Whether an earlier attempt may have had an effect."""
    for attempt in range(ATTEMPTS):
        try:
            return PatchDone(command, ok=True, version=await _WAYS[command.verb](client, command))
        except (NotFound, Conflict, Forbidden, BadRequest, Invalid) as error:
            failure: KubeError = error
            break
        except KubeError as error:
            failure, unclear = error, True
            if attempt < ATTEMPTS - 1:
                await pause(attempt)
    unclear = unclear and command.kind == RESOURCE_CLAIM and command.verb is Verb.PATCH
    return _failed(command, failure, await _version_now(client, command, pause) if unclear else "")


async def _version_now(client: KubeClient, command: PatchObject, pause: Callable[[int], Awaitable[None]]) -> str:
    """The version that the object has, asking until the server answers; empty if it is gone, which ends the matter."""
    resource = client.in_use(resource_of(BY_ID[command.kind]))
    query = {"fieldSelector": f"metadata.name={command.name}"}
    for attempt in itertools.count():
        try:
            page = decode_page(await client.list(resource, command.namespace or None, query=query))
            found = [metadata_of(item) for item in page.items or ()]
        except KubeError:
            await pause(attempt)
        else:
            return next((each.resource_version for each in found if each.uid == command.uid), "")
    raise AssertionError


async def _patch(client: KubeClient, command: PatchObject) -> str:
    made = await client.patch(
        client.in_use(resource_of(BY_ID[command.kind])),
        command.name,
        _body(command),
        command.namespace or None,
        content_type=MERGE_PATCH if command.kind in _CUSTOM else STRATEGIC_PATCH,
        subresource=command.subresource or None,
    )
    return metadata_of(msgspec.Raw(made)).resource_version


async def _create(client: KubeClient, command: PatchObject) -> str:
    kind = BY_ID[command.kind]
    resource = client.in_use(resource_of(kind))
    body = in_version(plain(command.patch), kind.name, resource.version)
    metadata = {**body.get("metadata", {}), "name": command.name}
    whole = {"apiVersion": resource.api_version, "kind": kind.name, **body, "metadata": metadata}
    with contextlib.suppress(AlreadyExists):
        await client.create(resource, whole, command.namespace or None)
    return ""


async def _delete(client: KubeClient, command: PatchObject) -> str:
    """Delete an object that may be protected: what protects it goes first."""
    resource, where = client.in_use(resource_of(BY_ID[command.kind])), command.namespace or None
    unprotected = {"metadata": {"uid": command.uid, "$deleteFromPrimitiveList/finalizers": [DELETE_PROTECTION]}}
    with contextlib.suppress(NotFound):
        await client.patch(resource, command.name, unprotected, where, content_type=STRATEGIC_PATCH)
        await client.delete(resource, command.name, where, uid=command.uid)
    return ""


_WAYS = {Verb.PATCH: _patch, Verb.CREATE: _create, Verb.DELETE: _delete}


def _body(command: PatchObject) -> dict[str, Any]:
    """The patch with its preconditions, which stand in the metadata."""
    preconditions = {"uid": command.uid, "resourceVersion": command.resource_version}
    given = {name: value for name, value in preconditions.items() if value}
    patch = plain(command.patch)
    return {**patch, "metadata": {**patch.get("metadata", {}), **given}}


def _failed(command: PatchObject, error: KubeError, version: str) -> PatchDone:
    where = "/".join(part for part in (command.namespace, command.name) if part)
    return PatchDone(command, ok=False, message=f"writing {command.kind} {where}: {error}", version=version)
