"""The soak's own judgement: what it creates never comes twice, and what grew is told."""

from __future__ import annotations

import json

import pytest

from tests.soak.run import Report
from tests.soak.waves import Wave


def test_no_name_or_value_of_a_wave_comes_back() -> None:
    """A process that forgets nothing would grow with every wave."""
    first, second = ({node.name for node in Wave(number).nodes} for number in (1, 2))
    assert not first & second
    taints = [Wave(number).taint(index, beat)["value"] for number in (1, 2) for index in (0, 1) for beat in (0, 1)]
    assert len(set(taints)) == len(taints)
    assert "w1-" not in json.dumps(Wave(2).objects)


@pytest.mark.parametrize(
    ("end", "want"),
    [
        pytest.param({"scheduler": 104.9}, [], id="back at the plateau"),
        pytest.param({"scheduler": 105.1}, ["scheduler holds 105.1 MiB, 100.0 MiB at the plateau"], id="grown"),
        pytest.param({"scheduler": 0.0}, ["scheduler ended by itself"], id="ended"),
    ],
)
def test_what_grew_is_told(end: dict[str, float], want: list[str]) -> None:
    report = Report(1.0, plateau_mib={"scheduler": 100.0}, end_mib=end)
    report.judge()
    assert report.problems == want
