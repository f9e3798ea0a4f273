"""What a batch reads of many partitions, how it is cut, and what of it is gone."""

import json
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas_pipelines.errors import PipelineError
from barnabas_pipelines.offsets import (
    LogView,
    OffsetRange,
    StreamOffsets,
    backlog,
    begins,
    find_losses,
    limit_end,
    loss_text,
    plan_ranges,
    share,
    split,
)
from barnabas_protocol.ids import TopicPartition

Offsets = Mapping[int, int]


def at(offsets: Offsets, topic_id: str = "id-1") -> StreamOffsets:
    """Offsets of partitions of one topic."""
    named = {TopicPartition("orders", one): offset for one, offset in offsets.items()}
    return StreamOffsets(offsets=named, topic_ids={"orders": topic_id})


def view(starts: Offsets, ends: Offsets, topic_id: str = "id-1") -> LogView:
    return LogView(starts=at(starts).offsets, ends=at(ends, topic_id))


def spans(ranges: tuple[OffsetRange, ...]) -> list[tuple[int, int, int]]:
    return [(one.partition, one.start, one.end) for one in ranges]


class TestTheCheckpoint:
    def test_offsets_come_back_from_json(self) -> None:
        """Spark keeps the text and gives it back after a restart."""
        offsets = at({0: 5, 11: 7, 2: 0})
        assert StreamOffsets.from_json(json.loads(json.dumps(offsets.to_json()))) == offsets

    def test_equal_offsets_are_equal_texts(self) -> None:
        """Spark compares texts to see whether there is anything new."""
        one, other = at({0: 5, 11: 7, 2: 0}), at({2: 0, 11: 7, 0: 5})
        assert json.dumps(one.to_json()) == json.dumps(other.to_json())

    @pytest.mark.parametrize(
        "value", [{}, {"orders": {"0": 5}}, [], None, {"form": 1, "topics": {"orders": {"0": 5}}}]
    )
    def test_offsets_of_another_source_are_refused(self, value: object) -> None:
        """A checkpoint of the connector cannot be gone on with."""
        with pytest.raises(PipelineError, match="a checkpoint of its own"):
            StreamOffsets.from_json(value)

    def test_a_newer_form_is_refused_by_its_number(self) -> None:
        """Reading it wrongly would lose or double records."""
        with pytest.raises(PipelineError, match="offsets of form 2"):
            StreamOffsets.from_json({"form": 2, "topics": {}})


class TestPlanning:
    def test_ranges_lie_between_the_offsets(self) -> None:
        """Partitions without anything new have no range."""
        plan = plan_ranges(at({0: 5, 1: 9}), at({0: 8, 1: 9}), view({0: 0, 1: 0}, {0: 9, 1: 9}))
        assert spans(plan.ranges) == [(0, 5, 8)]
        assert plan.losses == ()
        assert plan.ranges[0].topic_id == "id-1"

    def test_a_new_partition_begins_at_its_first_record(self) -> None:
        """The connector's rule; nothing of it was read before."""
        plan = plan_ranges(at({0: 5}), at({0: 5, 1: 4}), view({0: 0, 1: 0}, {0: 5, 1: 4}))
        assert spans(plan.ranges) == [(1, 0, 4)]

    def test_what_retention_has_taken_is_counted_and_left_out(self) -> None:
        """The checkpoint said 5, the log begins at 7."""
        plan = plan_ranges(at({0: 5}), at({0: 10}), view({0: 7}, {0: 10}))
        assert spans(plan.ranges) == [(0, 7, 10)]
        (loss,) = plan.losses
        assert (loss.wanted, loss.first, loss.count) == (5, 7, 2)

    def test_a_range_that_is_gone_altogether_is_counted_whole(self) -> None:
        """The log begins behind the end of the batch."""
        plan = plan_ranges(at({0: 5}), at({0: 10}), view({0: 70}, {0: 80}))
        assert plan.ranges == ()
        assert plan.losses[0].count == 5

    def test_a_topic_made_anew_is_read_from_its_beginning(self) -> None:
        """The new one's offsets mean something else, though its name is the same."""
        now = view({0: 0}, {0: 8}, "id-2")
        plan = plan_ranges(at({0: 5}), at({0: 8}, "id-2"), now)
        assert spans(plan.ranges) == [(0, 0, 8)]
        assert plan.ranges[0].topic_id == "id-2"

    def test_a_batch_of_a_topic_that_was_made_anew_since_is_lost(self) -> None:
        """Planned for the old topic, repeated after a restart when only the new one is there."""
        plan = plan_ranges(at({0: 5}), at({0: 8}), view({0: 0}, {0: 100}, "id-2"))
        assert plan.ranges == ()
        assert plan.losses[0].count == 3
        assert "made anew" in str(plan.losses[0])

    def test_a_partition_that_does_not_exist_any_more_is_lost(self) -> None:
        """Its topic was deleted."""
        plan = plan_ranges(at({0: 5}), at({0: 8}), view({}, {}))
        assert plan.ranges == ()
        assert "does not exist any more" in str(plan.losses[0])

    def test_an_end_behind_the_log_is_a_loss_only_for_a_fixed_end(self) -> None:
        """A stream's end was seen in the log; a batch's is what somebody wrote down."""
        start, end, now = at({0: 0}), at({0: 9}), view({0: 0}, {0: 4})
        plan = plan_ranges(start, end, now, has_fixed_ends=True)
        assert spans(plan.ranges) == [(0, 0, 4)]
        assert plan.losses[0].count == 5
        assert spans(plan_ranges(start, end, now).ranges) == [(0, 0, 9)]


class TestLosses:
    def test_nothing_is_lost_while_the_log_goes_on(self) -> None:
        """New partitions and new records are no loss."""
        assert find_losses(at({0: 5}), view({0: 3, 1: 0}, {0: 9, 1: 2})) == ()

    @pytest.mark.parametrize(
        ("now", "count", "reason"),
        [
            (view({0: 8}, {0: 9}), 3, "deleted by retention"),
            (view({0: 0}, {0: 4}), 1, "the log ends at 4"),
            (view({0: 0}, {0: 9}, "id-2"), None, "made anew"),
            (view({}, {}), None, "does not exist"),
        ],
    )
    def test_each_kind_of_loss_is_found(self, now: LogView, count: int | None, reason: str) -> None:
        """A stream that goes on silently would hide it for ever."""
        (loss,) = find_losses(at({0: 5}), now)
        assert loss.count == count
        assert reason in str(loss)

    def test_a_new_partition_whose_beginning_is_gone_is_a_loss(self) -> None:
        """As with the connector: records came and went without being read."""
        (loss,) = find_losses(at({0: 5}), view({0: 0, 1: 4}, {0: 5, 1: 9}))
        assert (loss.partition.partition, loss.wanted, loss.count) == (1, 0, 4)

    def test_the_text_begins_with_the_sum_and_ends_with_what_to_do(self) -> None:
        """Spark cuts long errors; the count must be in what is left."""
        now = view(dict.fromkeys(range(12), 8), dict.fromkeys(range(12), 9))
        text = loss_text(find_losses(at(dict.fromkeys(range(12), 5)), now), is_fatal=True)
        assert text.startswith("36 records of 12 partitions are gone before they were read: orders")
        assert "and 4 more" in text
        assert "failOnDataLoss=false" in text

    def test_an_unknown_count_is_not_told_as_a_number(self) -> None:
        """Of a topic made anew nobody knows how long the old one was."""
        losses = find_losses(at({0: 5}), view({0: 0}, {0: 9}, "id-2"))
        assert loss_text(losses, is_fatal=False).startswith("at least 0 records of 1 partitions")


class TestSharing:
    @given(
        st.integers(0, 1000), st.dictionaries(st.integers(0, 20), st.integers(0, 500), max_size=12)
    )
    def test_shares_are_bounded_by_the_limit_and_by_what_is_there(
        self, limit: int, sizes: dict[int, int]
    ) -> None:
        """Neither more than the limit nor less than possible; nobody gets what it has not."""
        shares = share(limit, sizes)
        assert shares.keys() == sizes.keys()
        assert all(0 <= shares[key] <= sizes[key] for key in sizes)
        assert sum(shares.values()) == min(limit, sum(sizes.values()))
        if limit >= len(sizes):
            assert all(shares[key] for key in sizes if sizes[key])

    def test_shares_are_in_proportion(self) -> None:
        """As with the connector, so that partitions are done together."""
        assert share(100, {"a": 900, "b": 100}) == {"a": 90, "b": 10}

    def test_a_small_partition_does_not_wait_for_the_large_ones(self) -> None:
        """Its share of 4 would be less than one."""
        assert share(4, {"large": 1_000_000, "small": 1})["small"] == 1

    def test_with_fewer_than_one_each_the_largest_come_first(self) -> None:
        """Those that wait grow, so that all have their turn."""
        assert share(2, {"a": 5, "b": 9, "c": 7}) == {"a": 0, "b": 1, "c": 1}

    def test_a_limited_end_goes_on_from_where_reading_begins(self) -> None:
        """Behind a gap: else a limit would crawl through offsets that nobody has."""
        now = view({0: 1_000_000, 1: 0}, {0: 1_000_500, 1: 500})
        begin = begins(at({0: 5, 1: 0}), now)
        end = limit_end(begin, now.ends, 100)
        assert end == at({0: 1_000_050, 1: 50})
        assert backlog(begin, end) == {TopicPartition("orders", one): 50 for one in (0, 1)}


class TestSplitting:
    @given(
        st.lists(st.tuples(st.integers(0, 100), st.integers(0, 300)), max_size=6),
        st.one_of(st.none(), st.integers(1, 40)),
        st.one_of(st.none(), st.integers(1, 50)),
    )
    def test_pieces_hold_every_offset_once(
        self,
        extents: list[tuple[int, int]],
        min_partitions: int | None,
        max_records: int | None,
    ) -> None:
        """Nothing lost, nothing doubled, the limits kept."""
        ranges = [OffsetRange("t", n, "", a, a + size) for n, (a, size) in enumerate(extents)]
        pieces = split(ranges, min_partitions=min_partitions, max_records=max_records)
        offsets = [(p.partition, o) for p in pieces for o in range(p.start, p.end)]
        assert offsets == [(r.partition, o) for r in ranges for o in range(r.start, r.end)]
        assert all(piece.size for piece in pieces)
        if max_records is not None:
            assert all(piece.size <= max_records for piece in pieces)
        if min_partitions is not None:
            assert len(pieces) >= min(min_partitions, len(offsets))

    def test_a_large_partition_is_cut_more_often_than_a_small_one(self) -> None:
        """Tasks should take equally long."""
        ranges = [OffsetRange("t", 0, "", 0, 900), OffsetRange("t", 1, "", 0, 100)]
        pieces = split(ranges, min_partitions=10)
        assert [piece.size for piece in pieces if piece.partition == 0] == [100] * 9
