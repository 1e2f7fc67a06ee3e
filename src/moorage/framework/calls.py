"""What observers of plugin calls (`instances.Tracing`) need to know of them: the extension point, and how one ended."""

from __future__ import annotations

from moorage.framework.status import Code, Hold, Nomination, Rejections, Status

POST_FILTER = "PostFilter"
POINT_NAMES = {
    "pre_enqueue": "PreEnqueue",
    "pre_filter": "PreFilter",
    "filter": "Filter",
    "post_filter": POST_FILTER,
    "pre_score": "PreScore",
    "score": "Score",
    "normalize": "ScoreExtensionNormalize",
    "reserve": "Reserve",
    "unreserve": "Unreserve",
    "permit": "Permit",
    "pre_bind": "PreBind",
    "post_bind": "PostBind",
}
"""Method -> kube-scheduler's name of the extension point. Bind is not here: it ends with the API server's answer."""


def code_of(answer: object) -> str:
    """The code that an answer amounts to, by kube-scheduler's name."""
    if isinstance(answer, Status):
        return answer.code.value
    if isinstance(answer, Hold):
        return Code.WAIT.value
    if isinstance(answer, Nomination) and answer.node is None:
        return Code.UNSCHEDULABLE.value
    if isinstance(answer, Rejections) and len(answer.bits) and (answer.bits != 0).all():
        return Code.UNSCHEDULABLE.value
    return Code.SUCCESS.value
