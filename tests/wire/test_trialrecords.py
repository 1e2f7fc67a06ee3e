"""What is kept of a trial: it comes back as it was, it is short, and what we cannot have written says nothing."""

from __future__ import annotations

import json

import pytest

from moorage.core.trials import MOST_CLASSES, SideCounts, TrialEnd, TrialPhase, TrialRecord, TrialVerdict
from moorage.wire.trialrecords import MOST_CHARS, trial_record, trial_text

FULL = SideCounts(10**9, 10**8, 10**7, tuple((place, 10**6) for place in range(MOST_CLASSES + 1)), 10**5)
RECORDS = {
    "at its beginning": TrialRecord("a", "d"),
    "ended": TrialRecord(
        "a", "d", TrialPhase.ENDED, 12.5, TrialEnd.WORSE, TrialVerdict.WORSE, "pending", SideCounts(3), SideCounts(1, 2)
    ),
    "the largest": TrialRecord("n" * 63, "d" * 36, message="m" * 512, control=FULL, trial=FULL, began_s=1.8e9),
}


@pytest.mark.parametrize("record", RECORDS.values(), ids=RECORDS)
def test_it_comes_back_and_is_short(record: TrialRecord) -> None:
    """However long a trial runs; an annotation may have 256 KiB."""
    text = trial_text(record)
    assert trial_record(text) == record
    assert len(text) < MOST_CHARS / 2


GOOD = json.loads(trial_text(RECORDS["ended"]))
FOREIGN = {
    "nothing": "",
    "no JSON": "{",
    "another sort": "[]",
    "no phase": json.dumps({"name": "a", "digest": "d"}),
    "an unknown phase": json.dumps({**GOOD, "phase": "Asleep"}),
    "an endless time": '{"name":"a","digest":"d","phase":"Running","ranSeconds":1e999}',
    "a negative number": json.dumps({**GOOD, "trial": {"placed": -1}}),
    "a number beyond numbers": json.dumps({**GOOD, "trial": {"placed": 1 << 80}}),
    "an unknown class": json.dumps({**GOOD, "trial": {"waits": [[MOST_CLASSES + 1, 1]]}}),
    "a class twice": json.dumps({**GOOD, "trial": {"waits": [[1, 1], [1, 1]]}}),
    "too long": json.dumps({**GOOD, "message": "m" * MOST_CHARS}),
    "a name that no trial may have": json.dumps({**GOOD, "name": "n" * 64}),
    "a digest of something else": json.dumps({**GOOD, "digest": "d" * 37}),
    "half a character": '{"name":"\\ud800","digest":"d","phase":"Running"}',
}


@pytest.mark.parametrize("text", FOREIGN.values(), ids=FOREIGN)
def test_what_is_not_ours_says_nothing(text: str) -> None:
    """Others may write the Lease, too."""
    assert trial_record(text) is None


def test_a_negative_time_is_none_at_all() -> None:
    """No clock can make a trial younger than new."""
    found = trial_record(json.dumps({**GOOD, "ranSeconds": -5}))
    assert found is not None
    assert found.ran_s == 0.0
