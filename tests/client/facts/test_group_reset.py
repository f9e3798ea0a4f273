"""The arithmetic of resetting offsets, and its undo."""

import asyncio
from collections.abc import Iterable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas_client.admin.outcome import Outcome, Outcomes
from barnabas_client.admin.values.topics import PartitionDescription, TopicDescription
from barnabas_client.cluster.offset_ranges import OffsetRange, ResetTarget
from barnabas_client.cluster.offsets import OffsetAndMetadata
from barnabas_client.facts.group_offset_kinds import CONSUMER_GROUP
from barnabas_client.facts.group_reset import (
    Change,
    PartitionFacts,
    in_scope,
    parse_offsets,
    parse_scopes,
    plan_reset,
    undo_file_name,
    undo_text,
)
from barnabas_client.facts.offsets_reset import Wanted
from barnabas_protocol.ids import TopicPartition

PLACE = TopicPartition("orders", 0)


def fact(committed: int | None = 50, **fields: object) -> PartitionFacts:
    values = {"topic_partition": PLACE, "held": OffsetRange(10, 100), **fields}
    offset = None if committed is None else OffsetAndMetadata(committed)
    return PartitionFacts(committed=offset, **values)  # type: ignore[arg-type]


def new(target: ResetTarget, number: int = 0, **fields: object) -> int | None:
    (change,) = plan_reset([fact(**fields)], target, number)  # type: ignore[arg-type]
    return change.new


@pytest.mark.parametrize(
    ("target", "number", "expected"),
    [
        (ResetTarget.EARLIEST, 0, 10),
        (ResetTarget.LATEST, 0, 100),
        (ResetTarget.CURRENT, 0, 50),
        (ResetTarget.OFFSET, 42, 42),
        (ResetTarget.OFFSET, 5, 10),
        (ResetTarget.OFFSET, 500, 100),
        (ResetTarget.SHIFT_BY, -20, 30),
        (ResetTarget.SHIFT_BY, 20, 70),
        (ResetTarget.SHIFT_BY, -200, 10),
        (ResetTarget.SHIFT_BY, 200, 100),
    ],
)
def test_targets_stay_within_what_the_partition_holds(
    target: ResetTarget, number: int, expected: int
) -> None:
    """GRP: as kafka-consumer-groups does; the table notes where it was cut."""
    assert new(target, number) == expected


def test_without_a_commit_current_is_the_end_and_there_is_nothing_to_shift() -> None:
    assert new(ResetTarget.CURRENT, committed=None) == 100
    (change,) = plan_reset([fact(None)], ResetTarget.SHIFT_BY, 5)
    assert (change.is_change, change.note) == (False, "nothing committed: nothing to shift")


def test_a_time_after_the_last_record_is_the_end() -> None:
    assert new(ResetTarget.LOOKED_UP, looked_up=77) == 77
    assert new(ResetTarget.LOOKED_UP, looked_up=None) == 100
    assert new(ResetTarget.LOOKED_UP, is_removed=True) is None


def test_a_row_shows_old_new_and_the_change() -> None:
    (change,) = plan_reset([fact()], ResetTarget.OFFSET, 5)
    assert change.as_data() == {
        "topic": "orders",
        "partition": 0,
        "old": 50,
        "new": 10,
        "change": -40,
        "note": "5 is no longer there: the first record",
    }


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["a", "b.c", 'quo"te', "com,ma"]),
            st.integers(0, 9),
            st.none()
            | st.builds(
                OffsetAndMetadata,
                st.integers(0, 2**40),
                st.integers(-1, 2**31 - 1),
                st.text(st.characters(exclude_categories=["Cs"])) | st.just(' ",\r\n'),
            ),
            st.none() | st.integers(0, 2**40),
        ),
        unique_by=lambda row: row[:2],
    )
)
def test_the_undo_file_brings_back_what_was_there_also_nothing(
    rows: list[tuple[str, int, OffsetAndMetadata | None, int | None]],
) -> None:
    """Issue 4: reset with preview and undo. Metadata and leader epochs were lost."""
    changes = [
        Change(
            topic_partition=TopicPartition(topic, partition),
            old=None if old is None else old.offset,
            new=new_offset,
            committed=old,
        )
        for topic, partition, old, new_offset in rows
    ]
    text = undo_text(changes)
    assert parse_offsets(text) == {
        change.topic_partition: change.committed for change in changes if change.is_change
    }
    assert text.isascii()
    assert "\r" not in text, "a file that is written and read as text keeps no other line ends"
    assert parse_offsets(undo_text(changes, offsets_only=True)) == {
        change.topic_partition: None if change.old is None else OffsetAndMetadata(change.old)
        for change in changes
        if change.is_change
    }


def test_an_undo_file_without_metadata_is_one_of_kafka_s_tools() -> None:
    changes = [Change(topic_partition=PLACE, old=5, new=7, committed=OffsetAndMetadata(5))]
    assert undo_text(changes) == "orders,0,5\n"


def test_what_a_file_says_of_an_offset_is_committed_with_that_offset_only() -> None:
    """An offset that is no longer there is clamped; the epoch of its record says nothing then."""
    wanted = Wanted.parse("from_file", 'orders,0,5,3,"""note"""\n', (), 0)
    assert wanted.to_commit(PLACE, 5) == OffsetAndMetadata(5, 3, "note")
    assert wanted.to_commit(PLACE, 10) == OffsetAndMetadata(10)
    assert wanted.to_commit(PLACE, None) is None
    assert wanted.to_commit(TopicPartition("orders", 1), 5) == OffsetAndMetadata(5)


def test_no_leader_epoch_is_committed_that_its_partition_has_not_reached() -> None:
    """The topic was made anew since: who reads on would wait for a leader of that epoch."""
    committed: dict[TopicPartition, OffsetAndMetadata] = {}

    class Topics:
        async def describe(self, names: Iterable[str]) -> Outcomes[str, TopicDescription]:
            partitions = {
                number: PartitionDescription(partition=number, leader_id=0, leader_epoch=3)
                for number in range(2)
            }
            topic = TopicDescription(name="orders", topic_id=bytes(16), partitions=partitions)
            return Outcomes({name: Outcome.of(topic) for name in names})

    class Offsets:
        async def alter(
            self, group_id: str, offsets: Mapping[TopicPartition, OffsetAndMetadata]
        ) -> Outcomes[TopicPartition, None]:
            committed.update(offsets)
            return Outcomes({place: Outcome.of(None) for place in offsets})

    admin: Any = SimpleNamespace(topics=Topics(), group_offsets=Offsets())
    places = [TopicPartition("orders", number) for number in range(3)]
    epochs = zip(places, (3, 4, 0), strict=True)
    given = {place: OffsetAndMetadata(5, epoch, "note") for place, epoch in epochs}
    asyncio.run(CONSUMER_GROUP.set_offsets(admin, "g", given))
    assert [committed[place].leader_epoch for place in places] == [3, -1, -1]
    assert {(one.offset, one.metadata) for one in committed.values()} == {(5, "note")}


def test_files_of_kafka_s_tools_are_read_and_mistakes_are_told_with_their_line() -> None:
    assert parse_offsets('# comment\n\n"orders",0,5\n') == {PLACE: OffsetAndMetadata(5)}
    wrong = ('x,""""""', '-2,""""""', "1,note", "1,5", "1")
    cut = [f"orders,0,5,{columns}\n" for columns in wrong]
    for text in ("orders,0\n", "orders,x,1\n", "orders,0,x\n", *cut):
        with pytest.raises(ValueError, match="line 1"):
            parse_offsets(text)


def test_scopes_name_topics_and_partitions() -> None:
    scopes = parse_scopes(["a", "b:0,2"])
    assert scopes == {"a": None, "b": (0, 2)}
    places = [TopicPartition(topic, number) for topic in "abc" for number in range(3)]
    assert in_scope({}, places) == places
    assert [str(place) for place in in_scope(scopes, places)] == ["a-0", "a-1", "a-2", "b-0", "b-2"]
    for text in (":1", "a:", "a:x", "a:1,"):
        with pytest.raises(ValueError, match="is not TOPIC"):
            parse_scopes([text])


def test_undo_files_have_names_that_any_file_system_takes() -> None:
    assert undo_file_name("a/b ü", "T") == "undo-a_b__-T.csv"
