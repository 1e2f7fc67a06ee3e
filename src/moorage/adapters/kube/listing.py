"""One consistent list of several kinds, for commands that need a snapshot and no watch.

The first list is a consistent read; the others ask for the very version that it had. Where the server has forgotten
that version already, or counts differently for a kind, the newest list of that kind is taken instead.
"""

from __future__ import annotations

import msgspec

from moorage.adapters.kube.client import KubeClient
from moorage.adapters.kube.discovery import unserved
from moorage.adapters.kube.errors import BadRequest, Gone, Invalid, NoSuchPath, NotFound, NotServed
from moorage.adapters.kube.resources import Resource
from moorage.adapters.kube.watchstream import decode_page

PAGE_SIZE = 1000
_TIMEOUT_S = 90.0


class Lister:
    """Lists one kind after another; `version` is the moment of the picture, empty before the first list."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client
        self.version = ""

    async def everything(self, resource: Resource, *, field_selector: str = "") -> list[msgspec.Raw]:
        """All objects of a kind, as JSON; raises what the client raises, NotServed for a kind that is not served."""
        try:
            return await self._consistent(resource, field_selector)
        except (NotFound, NoSuchPath) as error:
            if await unserved(self._client, resource):
                raise NotServed(error.message, status=error.status, reason=error.reason) from None
            raise

    async def _consistent(self, resource: Resource, field_selector: str) -> list[msgspec.Raw]:
        query: dict[str, str | int] = {"limit": PAGE_SIZE}
        if field_selector:
            query["fieldSelector"] = field_selector
        if self.version:
            exact = {"resourceVersion": self.version, "resourceVersionMatch": "Exact"}
            try:
                return await self._all(resource, {**query, **exact})
            except (BadRequest, Gone, Invalid):
                pass
        return await self._all(resource, query)

    async def _all(self, resource: Resource, query: dict[str, str | int]) -> list[msgspec.Raw]:
        found: list[msgspec.Raw] = []
        while True:
            body = await self._client.request("GET", resource.path(), query=query, timeout_s=_TIMEOUT_S)
            page = decode_page(body)
            found += page.items or ()
            self.version = self.version or page.metadata.resource_version
            if not page.metadata.continue_token:
                return found
            # A continued list is of the version that its token names; naming one beside it is an error.
            query = {name: value for name, value in query.items() if not name.startswith("resourceVersion")}
            query["continue"] = page.metadata.continue_token
