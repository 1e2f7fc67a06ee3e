"""The recorded evaluations: cel-go's answers, messages and costs."""

from __future__ import annotations

import pytest

from tests.cel.answers import RECORDED, answered, device_of, recorded


@pytest.mark.skipif(not RECORDED.is_file(), reason=f"no recorded evaluations in {RECORDED}")
def test_every_recorded_evaluation_has_the_same_answer_message_and_cost() -> None:
    rows = recorded()
    assert rows
    wrong = [(row, ours) for row in rows if (ours := answered(row["expression"], device_of(row))) != row["answer"]]
    assert not wrong, f"{len(wrong)} of {len(rows)}, the first: {wrong[0]}"
