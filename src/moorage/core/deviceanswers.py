"""Kept answers: which nodes can serve claims for devices.

An answer is about what the claims ask for, not about their names, so claims that were made from one template share it;
and about a view (`core.deviceviews`), so nodes that see the same devices share it. It holds until something else of the
view is in use. Which devices were found is kept too, for the latest searches: the chosen node is searched again only if
its search was long ago.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence

import numpy as np

from moorage.core.allocated import Pick
from moorage.core.allocating import Search
from moorage.core.arrays import Ints, Rows
from moorage.core.claims import DeviceClass, DeviceRequest, ResourceClaim
from moorage.core.devicefit import SearchTimeoutError
from moorage.core.deviceindex import DEVICE_CLASS
from moorage.core.podclaims import preference
from moorage.core.state import ClusterState

ANSWERS, POINTS = 0, 1
"""What is kept of each view."""
NOT_KNOWN, FITS, NONE, INVALID = -1, 0, 1, 2
"""An answer: there are devices for all claims, there are not, or there are not and slices contradict each other."""
_KEPT_SHAPES = 64
"""Of how many sorts of claims answers are kept."""
_KEPT_PICKS = 16_384
"""Of how many searches it is kept which devices they found; the sort of claims that was seen longest ago goes first."""

_NO_VIEW = -1
"""Of a row whose node is gone: the next one gets what is known when it comes, not what was known before."""
_ONE_BY_ONE = 16
"""Up to this many changed views are looked at one by one, more with all rows."""

_Asked = Sequence[tuple[object, object]]
Finish = Callable[[Search], bool | None]
"""Runs a search to its end; whether there are devices. None: it will be continued the next time."""


class DeviceAnswers:
    """Which rows can serve claims; one for each profile."""

    def __init__(self) -> None:
        self._columns: OrderedDict[Hashable, _Column] = OrderedDict()
        self._latest: tuple[_Asked, int, _Column] = ([], -1, _Column())
        """What was asked for last, by no claim in particular; version of classes; column."""
        self._picks = 0
        """Of how many searches the columns have what was found, or of fewer; counted when that may be too many."""
        self._state: ClusterState | None = None
        self._views: Ints = np.zeros(0, dtype=np.int64)
        """Row -> its view, int64[capacity]; `_NO_VIEW` for rows without a node."""
        self._laid_out = 0
        """Differs whenever `_views` does."""
        self._nodes_at = self._names_at = 0

    def get(
        self, state: ClusterState, claims: Sequence[ResourceClaim], rows: Rows, finish: Finish, line: int = ANSWERS
    ) -> Ints | None:
        """The answers about rows for claims that need devices, or the points for alternatives, int64[n].

        None if a search has not ended.
        """
        self._follow(state)
        column = self._column(state, claims)
        column.catch_up(state, self._views, self._laid_out)
        missing = (state.pick(column.by_row[ANSWERS], rows) == NOT_KNOWN).nonzero()[0]
        if len(missing):
            here = rows[missing]
            views = self._views[here]
            for view in dict.fromkeys(views.tolist()):
                if not column.knows(view) and not self._look(column, state, view, claims, finish):
                    return None
            column.by_row[:, here] = column.values[:, views]
        return state.pick(column.by_row[line], rows).copy()

    def _look(
        self, column: _Column, state: ClusterState, view: int, claims: Sequence[ResourceClaim], finish: Finish
    ) -> bool:
        """Find out about a view; whether the search has ended."""
        if view in column.timeouts:
            raise SearchTimeoutError(column.timeouts[view])
        search = column.begun.pop(view, None) or search_on(state, view, claims)
        try:
            fits = finish(search)
        except SearchTimeoutError as error:
            column.timeouts[view] = str(error)
            raise
        if fits is None:
            column.begun[view] = search
            return False
        column.values[:, view] = _answer(search, claims, fits=fits)
        if fits:
            self._keep(column, view, search)
        return True

    def _keep(self, column: _Column, view: int, search: Search) -> None:
        """Keep what a search found, with the answer: it is forgotten with that, and with its column."""
        if self._picks >= _KEPT_PICKS:
            self._picks = sum(len(each.picks) for each in self._columns.values())
            if self._picks >= _KEPT_PICKS:
                eldest = next(each for each in self._columns.values() if each.picks)
                half = [*eldest.picks][: (len(eldest.picks) + 1) // 2]
                for old in half:
                    del eldest.picks[old]
                self._picks -= len(half)
        column.picks[view] = search.picks()
        self._picks += 1

    def picks(self, state: ClusterState, claims: Sequence[ResourceClaim], row: int) -> tuple[Pick, ...] | None:
        """The devices that `get` has found on a row; None if they are not known any more."""
        self._follow(state)
        column = self._column(state, claims)
        column.catch_up(state, self._views, self._laid_out)
        return column.picks.get(self._views.item(row))

    def _follow(self, state: ClusterState) -> None:
        """Bring the views of rows up to date."""
        views = state.devices.views
        changed = names = None
        if state is self._state and len(self._views) == state.capacity:
            if self._nodes_at == state.node_log.position and self._names_at == views.node_log.position:
                return
            changed, names = state.node_log.since(self._nodes_at), views.node_log.since(self._names_at)
        if changed is None or names is None:
            self._state, self._views = state, np.full(state.capacity, _NO_VIEW, dtype=np.int64)
            self._laid_out += 1
            changed, names = state.rows().tolist(), []
        named = (row for row in map(state.row_of, names) if row is not None)
        for row in dict.fromkeys((*changed, *named)):
            view = views.view(state.node(row)) if state.alive[row] else _NO_VIEW
            if view != self._views.item(row):
                self._views[row] = view
                self._laid_out += 1
        self._nodes_at, self._names_at = state.node_log.position, views.node_log.position

    def _column(self, state: ClusterState, claims: Sequence[ResourceClaim]) -> _Column:
        """The answers for what claims ask for. An attempt asks twice about the same claims, and hashing takes long."""
        known, version, column = self._latest
        asked = [(claim.requests, claim.constraints) for claim in claims]
        if version != state.devices.backing_version or known != asked:
            column = self._found_column(state, claims)
            self._latest = asked, state.devices.backing_version, column
        return column

    def _found_column(self, state: ClusterState, claims: Sequence[ResourceClaim]) -> _Column:
        key = _shape(claims, state.objects.get(DEVICE_CLASS, {}))
        found = self._columns.get(key)
        if found is None:
            found = self._columns[key] = _Column()
            if len(self._columns) > _KEPT_SHAPES:
                self._columns.popitem(last=False)
        else:
            self._columns.move_to_end(key)
        return found


class _Column:
    """The answers for claims that ask for the same."""

    __slots__ = ("_laid_out", "_position", "begun", "by_row", "picks", "timeouts", "values")

    def __init__(self) -> None:
        self.values: Ints = np.full((2, 1), NOT_KNOWN, dtype=np.int64)
        """Answers and points by view, int64[2, views or more]."""
        self.by_row: Ints = self.values
        """The same by row, int64[2, capacity]; `NOT_KNOWN` also where only `values` has it."""
        self._position = self._laid_out = -1
        self.begun: dict[int, Search] = {}
        """Searches that did not end, by view."""
        self.timeouts: dict[int, str] = {}
        """What was said of those that took too long."""
        self.picks: dict[int, tuple[Pick, ...]] = {}
        """Which devices were found, by view, as far as they are kept."""

    def knows(self, view: int) -> bool:
        """Whether there is an answer about a view."""
        return self.values.item(ANSWERS, view) != NOT_KNOWN

    def catch_up(self, state: ClusterState, laid: Ints, laid_out: int) -> None:
        """Forget the answers about views that have changed; `laid` has the views of rows, as of `laid_out`."""
        views = state.devices.views
        if self._position == views.log.position and self._laid_out == laid_out:
            return
        if views.height > self.values.shape[1]:
            more = max(views.height, 2 * self.values.shape[1]) - self.values.shape[1]
            self.values = np.pad(self.values, ((0, 0), (0, more)), constant_values=NOT_KNOWN)
        changed = views.log.since(self._position)
        if changed is None:
            self.values[:] = NOT_KNOWN
            self.begun.clear()
            self.timeouts.clear()
            self.picks.clear()
        else:
            self._forget(changed)
        self._position = views.log.position
        if changed is None or self._laid_out != laid_out or len(changed) > _ONE_BY_ONE:
            self.by_row, self._laid_out = self.values.take(laid, axis=1), laid_out
        else:
            for view in changed:
                nodes = views.nodes_with(view)
                row = state.row_of(next(iter(nodes))) if len(nodes) == 1 else None
                self.by_row[ANSWERS, laid == view if row is None else row] = NOT_KNOWN

    def _forget(self, changed: Sequence[int]) -> None:
        for view in changed:
            self.values[ANSWERS, view] = NOT_KNOWN
            self.picks.pop(view, None)
        for view in changed if self.begun or self.timeouts else ():
            self.begun.pop(view, None)
            self.timeouts.pop(view, None)


def search_on(state: ClusterState, view: int, claims: Sequence[ResourceClaim]) -> Search:
    """A search for devices for claims on a node with this view."""
    views, classes = state.devices.views, state.objects.get(DEVICE_CLASS, {})
    return Search(views.node_with(view), views.pools(view), claims, classes, state.devices)


def _answer(search: Search, claims: Sequence[ResourceClaim], *, fits: bool) -> tuple[int, int]:
    if fits:
        scored = any(request.alternatives for claim in claims for request in claim.requests)
        return FITS, preference(zip(claims, search.allocations(), strict=True)) if scored else 0
    return INVALID if search.met_invalid_pool else NONE, 0


def _shape(claims: Sequence[ResourceClaim], classes: Mapping[str, DeviceClass]) -> Hashable:
    """What claims ask for, whatever they are called, and what the classes mean that they name."""
    names = dict.fromkeys(name for claim in claims for request in claim.requests for name in _classes_of(request))
    selectors = tuple((name, classes[name].selectors if name in classes else None) for name in names)
    return tuple((claim.requests, claim.constraints) for claim in claims), selectors


def _classes_of(request: DeviceRequest) -> list[str]:
    return [each.device_class for each in request.alternatives or (request.exactly,) if each is not None]
