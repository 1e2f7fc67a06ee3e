"""What the live dashboard reads of a trial: the annotation of the scheduler's Lease, whenever it changes."""

from __future__ import annotations

from moorage.app.dashboard_live import _Holders
from moorage.core.events import TrialRecalled
from moorage.core.trials import TrialRecord
from moorage.views.words import Happening
from moorage.wire.leases import LeaseMetaWire, LeaseSpecWire, LeaseWire
from moorage.wire.trialrecords import TRIAL_ANNOTATION, trial_text

RECORD = TrialRecord("packed", "d", ran_s=12.0)


def lease(text: str | None, name: str = "moorage") -> LeaseWire:
    annotations = None if text is None else {TRIAL_ANNOTATION: text}
    return LeaseWire(LeaseMetaWire(name, "kube-system", annotations=annotations), LeaseSpecWire("a"))


def test_the_record_is_told_when_it_changes() -> None:
    """Renewals without news tell nothing; what cannot be read counts as no trial."""
    told: list[Happening | TrialRecalled] = []
    holders = _Holders(told.append, lambda: 0.0)
    for each in (lease(None), lease(trial_text(RECORD)), lease(trial_text(RECORD)), lease("{"), lease(None, "keeper")):
        holders.upserted(each)
    assert [each.record for each in told if isinstance(each, TrialRecalled)] == [RECORD, None]
