"""What a snapshot reads next, and when it must not go on from the last version. Pure."""

from typing import Any

import pytest

from barnabas_pipelines.errors import DataLossError, OptionsError
from barnabas_pipelines.snapshot.ranges import (
    SnapshotFacts,
    TombstonesLostError,
    TopicChangedError,
    TopicState,
    check_deadline,
    next_range,
)

DAY_MS = 86_400_000


def topic_of(**changes: Any) -> TopicState:
    """A topic of two partitions, looked at on the tenth day."""
    values: dict[str, Any] = {
        "name": "users",
        "topic_id": "one",
        "starts": {0: 0, 1: 0},
        "ends": {0: 10, 1: 20},
        "epochs": {0: 7, 1: 7},
        "epoch_ends": {},
        "seen_at_ms": 10 * DAY_MS,
        "tombstone_ms": DAY_MS,
    }
    return TopicState(**(values | changes))


def facts_of(**changes: Any) -> SnapshotFacts:
    """A table that has what there was up to 4 and 20, an hour before."""
    values: dict[str, Any] = {
        "topic": "users",
        "topic_id": "one",
        "next_offsets": {0: 4, 1: 20},
        "epochs": {0: 6, 1: 7},
        "complete_at_ms": 10 * DAY_MS - 3_600_000,
        "has_headers": False,
        "decoding": "",
    }
    return SnapshotFacts(**(values | changes))


def test_the_first_version_reads_all_there_is() -> None:
    """Also where retention has removed what was first: the table is of what is there."""
    found = next_range(topic_of(starts={0: 3, 1: 20}), None, has_headers=False)
    assert (found.starts, found.ends, found.has_base) == ({0: 3}, {0: 10}, False)
    assert found.offset_count == 7


def test_a_version_reads_what_was_appended_since_the_last() -> None:
    """Partitions without news are left out, new ones are read from their beginning."""
    topic = topic_of(starts={0: 0, 1: 0, 2: 0}, ends={0: 10, 1: 20, 2: 5})
    found = next_range(topic, facts_of(), has_headers=False)
    assert (found.starts, found.ends, found.has_base) == ({0: 4, 2: 0}, {0: 10, 2: 5}, True)


def test_lost_offsets_are_named_and_counted() -> None:
    """Retention has passed the last version: its rows may be deleted or replaced by lost ones."""
    with pytest.raises(DataLossError, match=r"partition 0.*offset 4.*is 6; 2 offsets are gone"):
        next_range(topic_of(starts={0: 6, 1: 0}), facts_of(), has_headers=False)
    next_range(topic_of(starts={0: 4, 1: 20}), facts_of(), has_headers=False)


def test_a_log_that_ends_before_the_table_has_lost_records() -> None:
    """The table would keep rows that the topic does not have any more."""
    with pytest.raises(DataLossError, match=r"partition 1.*goes on at offset 20.*ends at 19"):
        next_range(topic_of(ends={0: 10, 1: 19}), facts_of(), has_headers=False)


def test_a_new_partition_whose_first_records_are_gone_is_a_loss() -> None:
    """They may have replaced or deleted rows of the table, whose keys have moved there."""
    topic = topic_of(starts={0: 0, 1: 0, 2: 3}, ends={0: 10, 1: 20, 2: 5})
    with pytest.raises(DataLossError, match=r"partition 2.*offset 0.*is 3; 3 offsets are gone"):
        next_range(topic, facts_of(), has_headers=False)


def test_a_log_that_was_cut_and_has_grown_again_has_lost_records() -> None:
    """Its end says nothing: an unclean election put other records at the offsets of the table."""
    with pytest.raises(DataLossError, match=r"partition 1.*lost the records from 15 on"):
        next_range(topic_of(epoch_ends={0: 4, 1: 15}), facts_of(), has_headers=False)
    next_range(topic_of(epoch_ends={0: 4, 1: 20}), facts_of(), has_headers=False)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"topic_id": "two"}, "its id was one and is two"),
        ({"starts": {0: 0}, "ends": {0: 10}}, "partition 1 is not there any more"),
        ({"name": "others"}, "made of topic users"),
    ],
)
def test_another_topic_is_not_merged_into_the_table(changes: Any, message: str) -> None:
    """Offsets of a topic that was made again fit by chance, and mean other records."""
    with pytest.raises(TopicChangedError, match=message):
        next_range(topic_of(**changes), facts_of(), has_headers=False)


def test_brokers_without_topic_ids_are_trusted() -> None:
    """Nothing can be compared; offsets are checked all the same."""
    assert next_range(topic_of(topic_id=None), facts_of(), has_headers=False).has_base


def test_who_comes_after_the_tombstones_does_not_merge() -> None:
    """A key was deleted and compaction has removed the tombstone: it would live for ever."""
    late = topic_of(seen_at_ms=facts_of().complete_at_ms + DAY_MS)
    with pytest.raises(TombstonesLostError, match="--rebuild"):
        next_range(late, facts_of(), has_headers=False)
    just_in_time = topic_of(seen_at_ms=late.seen_at_ms - 1)
    found = next_range(just_in_time, facts_of(), has_headers=False)
    check_deadline(just_in_time, found, late.seen_at_ms - 1)
    with pytest.raises(TombstonesLostError):
        check_deadline(just_in_time, found, late.seen_at_ms)
    never = topic_of(seen_at_ms=late.seen_at_ms, tombstone_ms=None)
    assert next_range(never, facts_of(), has_headers=False).has_base


def test_a_first_reading_must_not_outlast_the_tombstones_either() -> None:
    """A key read at the beginning may be deleted, tombstone and all, before its end is reached."""
    found = next_range(topic_of(), None, has_headers=False)
    check_deadline(topic_of(), found, 11 * DAY_MS - 1)
    with pytest.raises(TombstonesLostError, match=r"raise|Raise"):
        check_deadline(topic_of(), found, 11 * DAY_MS)


def test_headers_cannot_be_added_to_rows_that_have_none() -> None:
    """The bytes of the old rows are in the table, their headers only in the topic."""
    with pytest.raises(OptionsError, match="no headers"):
        next_range(topic_of(), facts_of(), has_headers=True)
