"""Larger quotas, limits and weights in queues of Moorage, KAI and Volcano: whole objects in their own words."""

from __future__ import annotations

from typing import Any

import pytest

from moorage.core.edits import Changed, Edits, RaiseBound
from moorage.core.fairshare import UNLIMITED
from moorage.core.queues import KAI_QUEUE, QUEUE, VOLCANO_QUEUE, Queue
from moorage.wire.kinds import BY_ID, POD
from moorage.wire.rewriting import Rewriter
from tests.suggestions.puzzles import Plain, pod

GPU = "nvidia.com/gpu"
APIS = {
    QUEUE: "moorage.dev/v1alpha1",
    KAI_QUEUE: "scheduling.run.ai/v2",
    VOLCANO_QUEUE: "scheduling.volcano.sh/v1beta1",
}


def queue(kind: str, **spec: Any) -> Plain:
    metadata = {"name": "team", "uid": "u", "labels": {"of": "them"}}
    return {"apiVersion": APIS[kind], "kind": "Queue", "metadata": metadata, "spec": spec, "status": {"running": 1}}


def rewritten(body: Plain, edits: Edits, *, by_id: bool = False) -> Changed | None:
    """With a lookup that knows objects by the name of their kind, or by its id."""
    kind = next(each for each in APIS if APIS[each] == body["apiVersion"])
    known = {(kind if by_id else "Queue", "", "team"): body}
    return Rewriter(lambda *identity: known.get(identity)).change(POD.from_builtin(pod("stuck")), edits)


@pytest.mark.parametrize("by_id", [False, True], ids=["by-name", "by-id"])
@pytest.mark.parametrize(
    ("kind", "spec", "raised", "want"),
    [
        pytest.param(
            QUEUE,
            {"parent": "all", "resources": {"cpu": {"quota": "1"}}},
            [("quota", "cpu", 2500)],
            {"parent": "all", "resources": {"cpu": {"quota": "2500m"}}},
            id="moorage-quota",
        ),
        pytest.param(
            QUEUE,
            {"resources": {"cpu": {"quota": "1"}, GPU: {"limit": "1"}}},
            [("quota", "cpu", 2000), ("limit", GPU, 4000), ("weight", GPU, 3000)],
            {"resources": {"cpu": {"quota": "2"}, GPU: {"limit": "4", "weight": 3}}},
            id="several-bounds-of-one-queue",
        ),
        pytest.param(
            KAI_QUEUE,
            {"parentQueue": "all", "resources": {"cpu": {"quota": 1000, "limit": 2000, "overQuotaWeight": 1}}},
            [("quota", "cpu", 2500), ("limit", "cpu", 3000), ("weight", "cpu", 4000)],
            {"parentQueue": "all", "resources": {"cpu": {"quota": 2500, "limit": 3000, "overQuotaWeight": 4}}},
            id="kai-cpu-in-millicores",
        ),
        pytest.param(
            KAI_QUEUE,
            {"resources": {"memory": {"quota": 1000}, "gpu": {"quota": 1}}},
            [("quota", "memory", 2_500_000_000), ("limit", "memory", 1 << 30), ("quota", GPU, 2500)],
            {"resources": {"memory": {"quota": 2500, "limit": 1073.741824}, "gpu": {"quota": 2.5}}},
            id="kai-memory-in-megabytes-and-devices",
        ),
        pytest.param(
            KAI_QUEUE,
            {"resources": {"gpu": {"quota": 1, "limit": 2}}},
            [("limit", GPU, UNLIMITED)],
            {"resources": {"gpu": {"quota": 1, "limit": -1}}},
            id="kai-no-end",
        ),
        pytest.param(
            VOLCANO_QUEUE,
            {"parent": "all", "weight": 2, "capability": {"cpu": "4", "memory": "1Gi"}, "deserved": {"cpu": "1"}},
            [("limit", "cpu", 5000), ("quota", "cpu", 1500), ("weight", "cpu", 3000)],
            {"parent": "all", "weight": 3, "capability": {"cpu": "5", "memory": "1Gi"}, "deserved": {"cpu": "1500m"}},
            id="volcano",
        ),
        pytest.param(
            VOLCANO_QUEUE,
            {"guarantee": {"resource": {"cpu": "1"}}},
            [("quota", "cpu", 2000)],
            {"guarantee": {"resource": {"cpu": "1"}}, "deserved": {"cpu": "2"}},
            id="volcano-more-than-it-is-guaranteed",
        ),
        pytest.param(
            VOLCANO_QUEUE,
            {"weight": 1},
            [("quota", "cpu", 2000)],
            {"weight": 1, "deserved": {"cpu": "2", "memory": "0"}},
            id="volcano-that-named-no-resource-still-has-memory",
        ),
        pytest.param(
            VOLCANO_QUEUE,
            {"guarantee": {"resource": {}}, "capability": {}},
            [("limit", "cpu", 2000)],
            {
                "guarantee": {"resource": {}},
                "capability": {"cpu": "2"},
                "deserved": {"cpu": "0", "memory": "0"},
            },
            id="volcano-whose-fields-are-empty-still-has-memory",
        ),
    ],
)
def test_larger_bounds(kind: str, spec: Plain, raised: list[tuple[str, str, int]], want: Plain, *, by_id: bool) -> None:
    """All else stays as it was; what is decoded has the new bounds; there is one object for one queue."""
    body = queue(kind, **spec)
    changed = rewritten(body, tuple(RaiseBound("team", *each[:2], 0, each[2], kind) for each in raised), by_id=by_id)
    assert changed is not None
    assert [dict(each) for each in changed.documents] == [{**body, "spec": want}]
    assert body["spec"] == spec
    ((found, key, value),) = changed.objects
    assert (found, key) == (kind, "team")
    before: Queue = BY_ID[kind].from_builtin(body)
    assert isinstance(value, Queue)
    assert value.resources.keys() >= before.resources.keys()
    for bound, resource, amount in raised:
        assert getattr(value.share_of(resource), bound) == amount


@pytest.mark.parametrize(
    ("body", "edit"),
    [
        pytest.param(
            queue(KAI_QUEUE), RaiseBound("team", "quota", "example.com/x", 0, 1, KAI_QUEUE), id="kai-has-no-word-for-it"
        ),
        pytest.param(queue(KAI_QUEUE), RaiseBound("team", "quota", "cpu", 0, 1), id="a-queue-of-another-kind"),
        pytest.param(queue(QUEUE), RaiseBound("other", "quota", "cpu", 0, 1), id="no-such-queue"),
    ],
)
def test_bounds_that_cannot_be_written(body: Plain, edit: RaiseBound) -> None:
    """Nothing is suggested then."""
    assert rewritten(body, (edit,)) is None
