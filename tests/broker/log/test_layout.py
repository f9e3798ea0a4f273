"""Names of files and directories (formats.md, section 5)."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas_broker.log import layout
from barnabas_protocol.ids import TopicPartition

HEX = "0123456789abcdef" * 2


def test_segment_files_carry_twenty_digits() -> None:
    assert layout.segment_file_name(42, ".log") == "00000000000000000042.log"
    assert layout.parse_offset("00000000000000000042.timeindex") == 42


@pytest.mark.parametrize("name", ["42.log", "leader-epoch-checkpoint", "", "x" * 20 + ".log"])
def test_other_files_have_no_offset(name: str) -> None:
    assert layout.parse_offset(name) is None


@settings(deadline=None, max_examples=50)
@given(st.from_regex(r"[a-zA-Z0-9._-]{1,249}", fullmatch=True), st.integers(0, 2**31 - 1))
def test_partition_directories_are_recognised(topic: str, partition: int) -> None:
    key = TopicPartition(topic, partition)
    assert layout.parse_partition_directory(layout.partition_directory_name(key)) == key


@settings(deadline=None, max_examples=50)
@given(st.from_regex(r"[a-zA-Z0-9._-]{1,249}", fullmatch=True), st.integers(0, 2**31 - 1))
def test_marked_directories_fit_and_are_no_partitions(topic: str, partition: int) -> None:
    """formats.md 5: the topic's part is cut so that the whole name fits 255 bytes."""
    key = TopicPartition(topic, partition)
    deleted = layout.deleted_directory_name(key, HEX)
    stray = layout.stray_directory_name(key, HEX)
    for name in (deleted, stray):
        assert len(name) <= 255
        assert f"-{partition}.{HEX}-" in name
        assert layout.parse_partition_directory(name) is None
    assert layout.is_deleted_directory(deleted)
    assert not layout.is_deleted_directory(stray)
    assert layout.is_stray_directory(stray)


def test_unique_part_must_be_a_whole_uuid() -> None:
    with pytest.raises(ValueError, match="hex digits"):
        layout.deleted_directory_name(TopicPartition("t", 0), "abc")
