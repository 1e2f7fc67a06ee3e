"""Records of gangs' starts: what we write is read again, and what nobody of us wrote says nothing."""

from __future__ import annotations

import pytest

from moorage.core.commands import PatchPodStatus, PodRef
from moorage.core.gangrecords import STARTED, GangRecord
from moorage.wire.gangrecords import GANG_RECORD, condition_of, gang_record
from moorage.wire.pod import pod_from_builtin

POD = PodRef("default", "a", "u")
RECORDS = {
    "on its way": GangRecord(done=False, term="3/host", nodes={"a": "n1", "b": "n2"}),
    "without a term": GangRecord(done=False, nodes={"a": "n1"}),
    "of nobody": GangRecord(done=False),
    "done": STARTED,
}


@pytest.mark.parametrize("record", RECORDS.values(), ids=RECORDS)
def test_what_is_written_is_read(record: GangRecord) -> None:
    """With the pod that carries it."""
    condition = condition_of(PatchPodStatus(POD, gang_record=record))
    assert condition is not None
    fields = {"type": condition.type, "status": condition.status, "message": condition.message}
    pod = pod_from_builtin({"metadata": {"name": "a"}, "spec": {}, "status": {"conditions": [fields]}})
    assert (condition.type, pod.gang_record) == (GANG_RECORD, record)


def test_the_text_of_a_record() -> None:
    """Leaders of other versions read it, too."""
    condition = condition_of(PatchPodStatus(POD, gang_record=RECORDS["on its way"]))
    assert condition is not None
    assert condition.message == '{"term":"3/host","members":{"a":"n1","b":"n2"}}'


POISON = {
    "deeply nested lists": "[" * 3000,
    "deeply nested objects": '{"members":' * 3000,
    "nested members": '{"members":{"a":{"a":{"a":{}}}}}',
    "too long": '{"term":"1","members":{' + ",".join(f'"x{n}":"n1"' for n in range(50_000)) + "}}",
    "a number of many digits": "9" * 100_000,
    "no text": "",
    "half a character": "\ud800",
    "nodes that are no text": '{"members":{"a":1}}',
    "other JSON": '{"members":7}',
}


@pytest.mark.parametrize("text", POISON.values(), ids=POISON)
def test_a_record_that_nobody_of_us_wrote_says_nothing(text: str) -> None:
    """Nobody can stop the engine with a condition."""
    assert gang_record("False", text) is None
