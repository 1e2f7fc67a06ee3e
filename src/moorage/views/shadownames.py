"""How a report names pods, namespaces and nodes: as they are called, or by tokens that mean nothing to others.

A token is the same wherever a name occurs in the reports of one run. It depends on a key that is known to nobody else,
so that names cannot be guessed by trying them. Texts that may quote names are left out.
"""

from __future__ import annotations

from hashlib import blake2b

_TOKEN_BYTES = 5


class Names:
    """Names as they are."""

    def pod(self, namespace: str, name: str) -> str:
        """`namespace/name`."""
        return f"{namespace}/{name}"

    def node(self, name: str | None) -> str | None:
        """The node, if there is one."""
        return name

    def text(self, text: str) -> str:
        """A message or a reason."""
        return text


class Tokens(Names):
    """Tokens instead of names."""

    def __init__(self, key: bytes) -> None:
        """`key`: up to 64 random bytes."""
        self._key = key

    def pod(self, namespace: str, name: str) -> str:
        """`namespace-TOKEN/pod-TOKEN`."""
        return f"{self._token('namespace', namespace)}/{self._token('pod', f'{namespace}/{name}')}"

    def node(self, name: str | None) -> str | None:
        """`node-TOKEN`."""
        return None if name is None else self._token("node", name)

    def text(self, text: str) -> str:  # noqa: ARG002 - that is the point
        """Nothing."""
        return ""

    def _token(self, kind: str, name: str) -> str:
        digest = blake2b(name.encode(), digest_size=_TOKEN_BYTES, key=self._key, person=kind.encode())
        return f"{kind}-{digest.hexdigest()}"
