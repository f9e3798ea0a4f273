"""How state batches are merged, against a dumb twin that looks at each offset for itself."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas_broker.coordinator.share.batches import BATCHES_MAX, check_batches, merge
from barnabas_broker.share.persister import StateBatch
from barnabas_protocol.errors import ErrorCode, KafkaError

AVAILABLE, ACQUIRED, ACKNOWLEDGED, ARCHIVING, ARCHIVED = range(5)


@st.composite
def state_batches(draw: st.DrawFn) -> StateBatch:
    first_offset = draw(st.integers(0, 15))
    return StateBatch(
        first_offset,
        first_offset + draw(st.integers(0, 4)),
        # Few of them, so that neighbours are often equal.
        draw(st.sampled_from((AVAILABLE, ACKNOWLEDGED, ARCHIVED))),
        draw(st.integers(1, 2)),
    )


writes = st.lists(st.lists(state_batches(), max_size=6), max_size=5)
starts = st.integers(-1, 20)


def each_offset(batches: Iterable[StateBatch], start_offset: int) -> dict[int, tuple[int, int]]:
    """The twin: the delivery count and state of each offset."""
    found: dict[int, tuple[int, int]] = {}
    for batch in batches:
        for offset in range(max(batch.first_offset, start_offset), batch.last_offset + 1):
            rank = (batch.delivery_count, batch.delivery_state)
            found[offset] = max(rank, found.get(offset, rank))
    return found


def merged(parts: Sequence[Sequence[StateBatch]], start_offset: int) -> tuple[StateBatch, ...]:
    kept: tuple[StateBatch, ...] = ()
    for part in parts:
        kept = merge(kept, part, start_offset)
    return kept


@settings(max_examples=500, deadline=None)
@given(writes, starts)
def test_each_offset_has_the_highest_count_and_then_state(
    parts: list[list[StateBatch]], start_offset: int
) -> None:
    """SHR-24."""
    kept = merged(parts, start_offset)
    assert each_offset(kept, -1) == each_offset(chain(*parts), start_offset)


@settings(max_examples=500, deadline=None)
@given(writes, starts)
def test_merged_batches_are_apart_and_as_few_as_can_be(
    parts: list[list[StateBatch]], start_offset: int
) -> None:
    """SHR-24: sorted, not overlapping, and equal neighbours are one."""
    kept = merged(parts, start_offset)
    for before, after in pairwise(kept):
        assert before.last_offset < after.first_offset
        is_neighbour = before.last_offset + 1 == after.first_offset
        assert not (
            is_neighbour
            and (before.delivery_count, before.delivery_state)
            == (after.delivery_count, after.delivery_state)
        )


@given(writes, starts, st.randoms(use_true_random=False))
def test_the_order_of_writes_does_not_matter(
    parts: list[list[StateBatch]], start_offset: int, random: st.random.Random
) -> None:
    """SHR-24: nor whether one comes twice, or all come at once."""
    expected = merged(parts, start_offset)
    shuffled = parts + parts[:2]
    random.shuffle(shuffled)
    assert merged(shuffled, start_offset) == expected
    assert merge((), list(chain(*shuffled)), start_offset) == expected


@given(st.lists(state_batches(), max_size=8), st.lists(starts, max_size=4))
def test_a_start_that_rises_cuts_off_what_is_below(
    batches: list[StateBatch], rising: list[int]
) -> None:
    """SHR-24, SHR-25: in steps or at once."""
    kept = merge((), batches, -1)
    for start_offset in sorted(rising):
        kept = merge(kept, (), start_offset)
    highest = max(rising, default=-1)
    assert kept == merge((), batches, highest)
    assert all(batch.first_offset >= highest for batch in kept)


def test_a_released_record_does_not_undo_a_later_delivery() -> None:
    """SHR-24: a write that comes late says nothing of the next attempt."""
    kept = merge((), [StateBatch(5, 9, ACKNOWLEDGED, 2)], 0)
    assert merge(kept, [StateBatch(0, 20, AVAILABLE, 1)], 0) == (
        StateBatch(0, 4, AVAILABLE, 1),
        StateBatch(5, 9, ACKNOWLEDGED, 2),
        StateBatch(10, 20, AVAILABLE, 1),
    )


def test_a_write_that_fills_a_gap_joins_its_neighbours() -> None:
    """SHR-24: on both sides."""
    kept = merge((), [StateBatch(0, 4, ACKNOWLEDGED, 1), StateBatch(6, 9, ACKNOWLEDGED, 1)], 0)
    assert merge(kept, [StateBatch(5, 5, ACKNOWLEDGED, 1)], 0) == (
        StateBatch(0, 9, ACKNOWLEDGED, 1),
    )


@pytest.mark.parametrize(
    "batch",
    [
        StateBatch(-1, 4, AVAILABLE, 1),
        StateBatch(5, 4, AVAILABLE, 1),
        StateBatch(0, 4, ACQUIRED, 1),
        StateBatch(0, 4, 5, 1),
        StateBatch(0, 4, -1, 1),
        StateBatch(0, 4, AVAILABLE, -1),
    ],
)
def test_what_no_leader_writes_is_refused(batch: StateBatch) -> None:
    """SHR-5: Acquired, above all, is never stored."""
    check_batches([StateBatch(0, 4, ARCHIVED, 1)])
    with pytest.raises(KafkaError) as caught:
        check_batches([StateBatch(0, 4, ARCHIVED, 1), batch])
    assert caught.value.code is ErrorCode.INVALID_REQUEST


def test_batches_are_bounded() -> None:
    """More are in no share partition."""
    batches = [StateBatch(i, i, AVAILABLE, 1) for i in range(BATCHES_MAX + 1)]
    check_batches(batches[:-1])
    with pytest.raises(KafkaError):
        check_batches(batches)
