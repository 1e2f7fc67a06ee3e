"""The engine and a plain reference end alike in random histories of events.

`MOORAGE_QUEUE_HISTORIES` says how many histories are told: 5000 for a thorough run (`make properties`). A failure names
its seed: `MOORAGE_QUEUE_SEED=17` tells that history alone.
"""

from __future__ import annotations

import os

import pytest

from tests.queues.histories import told

HISTORIES = int(os.environ.get("MOORAGE_QUEUE_HISTORIES", "80"))
ONLY = os.environ.get("MOORAGE_QUEUE_SEED")
PARTS = 1 if ONLY else 4
"""Tests that share the histories out, so that they can run side by side."""


def test_units_that_no_node_could_hold_do_not_stand_for_their_queues() -> None:
    """Not even if their queue refuses them before any node is looked at: others of it would not get its share."""
    told(446)


def test_pods_above_the_minimum_of_a_gang_compete_at_once() -> None:
    """While the start of their gang is put on record, younger jobs of their queue do not get their room."""
    told(1853)


def test_no_share_is_taken_back_before_a_gang_that_starts_has_its_pods() -> None:
    """Its pods above the minimum change what their queue has, and so who gives first."""
    told(1276)


def test_units_that_back_off_are_tried_in_the_order_of_their_queues() -> None:
    """If there is nothing else to try: the first to fail is not the first to get a new node."""
    told(1351)


def test_what_is_left_of_a_gang_stays() -> None:
    """A share was taken back from one node, and a member on another one was left alone."""
    told(1392)


def test_a_gang_that_lost_its_minimum_in_a_round_gets_no_single_pod() -> None:
    """Its waiting pods are fewer than it lacks: a node that is promised to one of them helps nobody."""
    told(3029)


def test_what_a_limit_keeps_out_needs_no_room_where_others_leave() -> None:
    """A victim on a full node is enough: it makes room in its queue, and the gang starts elsewhere."""
    told(3781)


def test_of_pods_that_are_alike_the_first_of_their_queue_is_placed() -> None:
    """Also if it came back after others that are younger: they stand in line in the order of their queue."""
    told(291)


def test_a_running_pod_that_gets_another_label_frees_the_limit_of_its_queue() -> None:
    """Others of the queue that were kept out by it are tried before anybody has to go."""
    told(2310)


def test_pods_that_cannot_stay_after_all_still_ask_for_what_they_had() -> None:
    """What was tried for them in a round is undone, or their queue would get less in the next one."""
    told(4805)


def test_a_gang_whose_pods_come_back_has_another_place_for_the_next_ones() -> None:
    """What it has above its minimum comes after the first pods of others."""
    told(3566)


def test_room_that_was_taken_back_does_not_go_to_other_jobs_of_the_queue_that_gave_it() -> None:
    """A gang that cannot start stands for that queue, as ever."""
    told(3189)


@pytest.mark.timeout(120 + 2 * HISTORIES)
@pytest.mark.parametrize("part", range(PARTS))
def test_the_engine_plans_like_a_plain_reference(part: int) -> None:
    """After every event the same pods run on the same nodes, and the same pods were evicted."""
    evictions = 0
    for seed in [int(ONLY)] if ONLY else range(part, HISTORIES, PARTS):
        try:
            evictions += told(seed)
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error}") from error
    assert evictions or ONLY, "nothing was ever evicted"
