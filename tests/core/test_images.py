"""Image names get the tag that the runtime would add."""

from __future__ import annotations

import pytest

from moorage.core.images import normalized_image


@pytest.mark.parametrize(
    ("name", "want"),
    [
        ("nginx", "nginx:latest"),
        ("nginx:1.27", "nginx:1.27"),
        ("docker.io/library/nginx", "docker.io/library/nginx:latest"),
        ("registry:5000/app", "registry:5000/app:latest"),
        ("registry:5000/app:v1", "registry:5000/app:v1"),
        ("app@sha256:abc", "app@sha256:abc"),
        ("registry:5000/app@sha256:abc", "registry:5000/app@sha256:abc"),
        ("", ":latest"),
    ],
)
def test_normalized_image(name: str, want: str) -> None:
    """`:latest` is added unless there is a tag or a digest behind the last slash."""
    assert normalized_image(name) == want
