"""A dry run of the keeper: everything that it would do is told, once."""

from __future__ import annotations

from moorage.adapters.keeper.dry_run import KeeperDryRun
from moorage.core.events import KeeperEvent
from moorage.engine.keeping.deletion_costs import MOST_UNANSWERED, REPEAT_S
from tests.engine.harbour import Harbour, nodes, owner
from tests.engine.keeping import member


def test_a_dry_run_does_not_stop_at_what_may_be_on_its_way() -> None:
    """Writes wait for the answers to others; here nobody writes, and all of them are told all the same."""
    workloads = [f"web-{number}" for number in range(MOST_UNANSWERED + 5)]
    shore, said, answers = Harbour(), list[str](), list[KeeperEvent]()
    dry_run = KeeperDryRun(said.append, answers.append)
    shore.see(*nodes(), *(member(f"{app}-0", "od0", app) for app in workloads))
    shore.tell(*(owner(1, app) for app in workloads))
    for _ in range(3 * int(REPEAT_S)):
        orders, shore.ordered = shore.ordered, []
        for order in orders:
            dry_run.submit(order)
        shore.tell(*answers)
        answers.clear()
    costs = [line.partition(" the deletion cost")[0] for line in said]
    assert sorted(costs) == sorted(f"would give pod default/{app}-0" for app in workloads)
