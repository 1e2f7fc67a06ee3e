"""What all workload controllers have."""

from __future__ import annotations

from moorage.adapters.memory.admission import StoreAdmission
from moorage.adapters.memory.store import Store


class Reconciler:
    """A controller of one kind: reads a store, and makes objects in it that are admitted as the API server does."""

    def __init__(self, store: Store, admission: StoreAdmission) -> None:
        self._store = store
        self._admission = admission
