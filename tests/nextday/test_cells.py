"""A share of the next-day suite: a cell of every example, and how the table is chosen, kept and shown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.nextday.cells import SEEDS, Cell, cells, chosen, laboratory
from tests.nextday.operations import OPERATIONS
from tests.nextday.run import FILE, main, read, table

SHARE = (
    "plan/rollout-surge0/full/1",
    "spread/rollout-default/one-over/1",
    "spot/rollout-default/spare/1",
    "smart/create/spare/1",
    "packing/rollout-default/full/1",
)


@pytest.mark.slow
@pytest.mark.usefixtures("control_plane_assets")
def test_a_share_of_the_table(tmp_path: Path) -> None:
    """Each example is installed from its own files, and nothing is breached."""
    wanted = [cell for cell in cells(1) if cell.name in SHARE]
    assert len(wanted) == len(SHARE)
    with laboratory(tmp_path, "here") as lab:
        rows = [lab.run(cell) for cell in wanted]
    assert [row for row in rows if not row.ok] == []


def test_the_table_is_whole() -> None:
    """Every example with every operation that it has, three seeds where chance matters."""
    every = cells()
    assert len({cell.name for cell in every}) == len(every)
    assert {cell.example for cell in every} == {"plan", "spread", "spot", "smart", "packing", "stock"}
    assert {cell.operation for cell in every} == set(OPERATIONS)
    assert sum(cell.operation == "rollout-default" for cell in every) == 6 * 4 * SEEDS


def test_cells_are_chosen_by_the_beginning_of_their_names_or_by_parts() -> None:
    assert chosen(["plan/create/spare"]) == [Cell("plan", "create", "spare")]
    assert {cell.operation for cell in chosen(["drain"])} == {"drain"}
    assert chosen(["nothing"]) == []


def test_the_last_row_of_a_cell_counts(tmp_path: Path) -> None:
    rows = [
        {"cell": "plan/drain/full/1", "commit": "a", "ok": False},
        {"cell": "plan/drain/full/1", "commit": "b", "ok": True},
        {"cell": "plan/drain/full/1", "commit": "b", "ok": False},
        {"cell": "plan/drain/full/2", "commit": "b", "ok": True},
    ]
    (tmp_path / FILE).write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = read(tmp_path)
    assert [(row["cell"][-1], row["commit"], row["ok"]) for row in found] == [
        ("1", "a", False),
        ("1", "b", False),
        ("2", "b", True),
    ]
    assert table(found).splitlines() == ["| operation | plan |", "|---|---|", "| drain | 1 of 2: not full |"]
    assert table(found[-1:]).splitlines()[-1] == "| drain | all 1 |"


def test_nothing_to_run_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--only", "nothing"]) == 1
    assert main(["--list", "--only", "plan/create/spare"]) == 0
    assert capsys.readouterr().out == "plan/create/spare/1\n"
