"""Kinds of resources, by name."""

from __future__ import annotations

import pytest

from moorage.core.resourcenames import is_extended_resource, is_scalar_resource


@pytest.mark.parametrize(
    ("name", "want_extended", "want_scalar"),
    [
        pytest.param("cpu", False, False, id="cpu"),
        pytest.param("pods", False, False, id="pods"),
        pytest.param("storage", False, False, id="no node resource"),
        pytest.param("hugepages-2Mi", False, True, id="huge pages"),
        pytest.param("attachable-volumes-csi-x", False, True, id="volumes"),
        pytest.param("example.com/gpu", True, True, id="device"),
        pytest.param("kubernetes.io/x", False, True, id="native, prefixed"),
        pytest.param("deviceclass.resource.kubernetes.io/x", False, True, id="below kubernetes.io"),
        pytest.param("requests.example.com/gpu", False, False, id="quota name"),
        pytest.param("example.com/", False, False, id="not a name"),
    ],
)
def test_kinds(name: str, want_extended: bool, want_scalar: bool) -> None:
    """As kube-scheduler tells them apart."""
    assert (is_extended_resource(name), is_scalar_resource(name)) == (want_extended, want_scalar)
