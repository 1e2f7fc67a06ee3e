"""Names of container images, in the form in which nodes report them."""

from __future__ import annotations


def normalized_image(name: str) -> str:
    """The name with `:latest` appended where it has neither a tag nor a digest.

    Only a colon behind the last slash counts: the one of `registry:5000/app` belongs to the registry's port.
    """
    return name if ":" in name.rpartition("/")[2] else f"{name}:latest"
