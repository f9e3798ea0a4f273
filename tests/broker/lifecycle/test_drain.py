"""The drain: which leaderships are waited for, and that it always ends."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas_broker.lifecycle.drain import (
    UNDECIDED_SETTLE_MS,
    UNMOVABLE_SETTLE_MS,
    Drain,
    DrainEnd,
    DrainPhase,
    Handover,
    handover_of,
)
from barnabas_broker.metadata.image import (
    BrokerImage,
    PartitionImage,
)
from tests.broker.lifecycle.drain_images import broker, image, led_by

BUDGET_MS = 10_000
MOVABLE = Handover(leaders_count=2, movable_count=2, peers_count=2, is_announced=True)
UNMOVABLE = replace(MOVABLE, movable_count=0)
EMPTY = replace(MOVABLE, leaders_count=0, movable_count=0)


def test_a_drain_ends_when_the_controller_says_so() -> None:
    """STOP-5: the broker leads nothing, and all others have applied that."""
    drain = Drain().started(0, BUDGET_MS).observed(MOVABLE, 1).observed(EMPTY, 2)
    assert drain.phase is DrainPhase.DRAINING
    drain = drain.observed(replace(EMPTY, may_stop=True), 3)
    assert (drain.phase, drain.end) == (DrainPhase.DRAINED, DrainEnd.MOVED)


def test_a_drain_does_not_wait_for_a_control_plane_that_has_gone() -> None:
    """STOP-3: bounded; where a whole cluster stops, members may be gone before the observers."""
    undecided = replace(MOVABLE, is_undecided=True)
    drain = Drain().started(0, BUDGET_MS).observed(undecided, 10)
    drain = drain.observed(undecided, 9 + UNDECIDED_SETTLE_MS)
    assert drain.phase is DrainPhase.DRAINING
    back = drain.observed(MOVABLE, 10 + UNDECIDED_SETTLE_MS)  # they were just restarting
    assert back.observed(undecided, 20 + UNDECIDED_SETTLE_MS).phase is DrainPhase.DRAINING
    assert drain.observed(undecided, 10 + UNDECIDED_SETTLE_MS).end is DrainEnd.NOBODY_DECIDES


def test_a_second_start_changes_nothing_but_an_earlier_deadline() -> None:
    """`operator.md` 4: preStop, SIGTERM and the operator start the same drain."""
    drain = Drain().started(100, BUDGET_MS)
    assert drain.started(200, BUDGET_MS) == drain
    assert drain.started(200, 50).deadline_ms == 250
    assert drain.started(200, 50).started_ms == 100
    done = drain.observed(replace(EMPTY, may_stop=True), 300)
    assert done.started(400, BUDGET_MS) is done


def test_the_only_broker_does_not_wait() -> None:
    """STOP-7."""
    drain = Drain().started(0, BUDGET_MS)
    assert drain.observed(replace(MOVABLE, peers_count=0), 0).end is DrainEnd.NOTHING_TO_MOVE


def test_partitions_that_nobody_could_take_are_not_waited_for() -> None:
    """STOP-7: partitions without another ISR member; what did move gets a moment to be told."""
    drain = Drain().started(0, BUDGET_MS).observed(UNMOVABLE, 10)
    assert drain.observed(UNMOVABLE, 9 + UNMOVABLE_SETTLE_MS).phase is DrainPhase.DRAINING
    ended = drain.observed(UNMOVABLE, 10 + UNMOVABLE_SETTLE_MS)
    assert ended.end is DrainEnd.NOTHING_TO_MOVE
    again = drain.observed(MOVABLE, 20).observed(UNMOVABLE, 30)
    assert again.observed(UNMOVABLE, 20 + UNMOVABLE_SETTLE_MS).phase is DrainPhase.DRAINING


def test_nothing_counts_as_unmovable_before_the_controller_has_acted() -> None:
    """Until then an image may simply be old: replicas that come back into the ISR count."""
    unannounced = replace(UNMOVABLE, is_announced=False)
    drain = Drain().started(0, BUDGET_MS).observed(unannounced, 0)
    assert drain.observed(unannounced, BUDGET_MS - 1).phase is DrainPhase.DRAINING


def test_a_drain_ends_with_its_budget() -> None:
    """STOP-4: it stops anyway, with a warning."""
    drain = Drain().started(0, BUDGET_MS).observed(MOVABLE, BUDGET_MS - 1)
    assert drain.phase is DrainPhase.DRAINING
    assert drain.observed(MOVABLE, BUDGET_MS).end is DrainEnd.BUDGET_SPENT


def test_a_drain_can_be_cut_short_only_while_it_runs() -> None:
    assert Drain().cut_short() == Drain()
    assert Drain().started(0, 1).cut_short().end is DrainEnd.CUT_SHORT
    assert Drain().stopped().phase is DrainPhase.STOPPED
    assert Drain().stopped().started(0, 1).phase is DrainPhase.STOPPED


@given(
    st.lists(
        st.tuples(st.sampled_from([MOVABLE, UNMOVABLE, EMPTY]), st.integers(0, 2_000)), max_size=30
    )
)
def test_phases_only_move_forward_and_end_by_the_deadline(
    looks: list[tuple[Handover, int]],
) -> None:
    order = list(DrainPhase)
    drain, now_ms = Drain().started(0, BUDGET_MS), 0
    for handover, passed_ms in looks:
        now_ms += passed_ms
        after = drain.observed(handover, now_ms)
        assert order.index(after.phase) >= order.index(drain.phase)
        drain = after
        assert drain.phase is DrainPhase.DRAINED or now_ms < BUDGET_MS


@pytest.mark.parametrize(
    ("brokers", "partition", "expected"),
    [
        ([broker(0), broker(1)], led_by(0, 0, 1), (1, 1, 1)),
        ([broker(0), broker(1, fenced=True)], led_by(0, 0, 1), (1, 0, 0)),
        ([broker(0), broker(1, is_shutting_down=True)], led_by(0, 0, 1), (1, 0, 0)),
        ([broker(0), broker(1), broker(2)], led_by(0, 0), (1, 0, 2)),
        ([broker(0), broker(1)], led_by(1, 0, 1), (0, 0, 1)),
        ([broker(0)], led_by(0, 0), (1, 0, 0)),
    ],
)
def test_the_image_says_what_is_left(
    brokers: list[BrokerImage], partition: PartitionImage, expected: tuple[int, int, int]
) -> None:
    handover = handover_of(image(brokers, partition), 0)
    counts = (handover.leaders_count, handover.movable_count, handover.peers_count)
    assert counts == expected
    assert not handover.is_announced


@pytest.mark.parametrize("me", [broker(0, is_shutting_down=True), broker(0, fenced=True)])
def test_the_image_says_that_the_controller_has_acted(me: BrokerImage) -> None:
    assert handover_of(image([me, broker(1)]), 0).is_announced
