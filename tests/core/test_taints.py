"""Tolerations cover taints as Kubernetes says."""

from __future__ import annotations

import pytest

from moorage.core.taints import NO_EXECUTE, NO_SCHEDULE, Taint, Toleration, is_tolerated

TAINT = Taint("gpu", "yes", NO_SCHEDULE)


@pytest.mark.parametrize(
    ("toleration", "want"),
    [
        pytest.param(Toleration("gpu", "Equal", "yes", NO_SCHEDULE), True, id="all equal"),
        pytest.param(Toleration("gpu", "", "yes"), True, id="Equal is the default"),
        pytest.param(Toleration("gpu", "Equal", "no"), False, id="another value"),
        pytest.param(Toleration("gpu", "Equal", "yes", NO_EXECUTE), False, id="another effect"),
        pytest.param(Toleration("cpu", "Exists"), False, id="another key"),
        pytest.param(Toleration("gpu", "Exists"), True, id="key exists"),
        pytest.param(Toleration("", "Exists"), True, id="everything"),
        pytest.param(Toleration("", "Exists", effect=NO_EXECUTE), False, id="everything of another effect"),
        pytest.param(Toleration("", "Equal", "yes"), True, id="any key with that value"),
        pytest.param(Toleration("gpu", "Gt", "1"), False, id="an operator behind a gate"),
    ],
)
def test_tolerates(toleration: Toleration, want: bool) -> None:
    """Key, value and effect decide."""
    assert toleration.tolerates(TAINT) is want


def test_any_toleration_will_do() -> None:
    """One matching toleration is enough; none tolerates nothing."""
    assert is_tolerated(TAINT, (Toleration("x"), Toleration("gpu", "Exists")))
    assert not is_tolerated(TAINT, ())
