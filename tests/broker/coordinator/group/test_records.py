"""Keys and values of `__consumer_offsets`, byte by byte and version by version."""

import struct

import pytest

from barnabas_broker.coordinator.group.classic import ClassicGroup, GroupState
from barnabas_broker.coordinator.group.members import ClassicMember
from barnabas_broker.coordinator.group.records import (
    CommittedOffset,
    GroupKey,
    OffsetKey,
    group_record,
    group_tombstone,
    offset_record,
    offset_tombstone,
    read_group,
    read_key,
    read_offset,
)
from barnabas_protocol.codec import encode
from barnabas_protocol.errors import ParseError
from barnabas_protocol.messages.records_consumer_offsets import (
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitValue,
)
from tests.support.group_model import subscription

KEY = OffsetKey("group", "topic", 7)


def test_an_offset_is_written_in_version_3() -> None:
    """formats.md 10."""
    record = offset_record(KEY, CommittedOffset(42, 5, "note", 1000))
    assert record.key == b"\x00\x01\x00\x05group\x00\x05topic\x00\x00\x00\x07"
    assert record.value == b"\x00\x03" + struct.pack(">qi", 42, 5) + b"\x00\x04note" + struct.pack(
        ">q", 1000
    )
    assert read_key(record.key) == KEY
    assert read_offset(record.value) == CommittedOffset(42, 5, "note", 1000)
    assert offset_tombstone(KEY) == (record.key, None)


def test_the_id_of_a_topic_is_written_in_version_4() -> None:
    """formats.md 10: the flexible form with the id in tag 0, as Kafka 4.3 writes it."""
    committed = CommittedOffset(42, 5, "note", 1000, -1, bytes(range(16)))
    record = offset_record(KEY, committed)
    fields = struct.pack(">qi", 42, 5) + b"\x05note" + struct.pack(">q", 1000)
    assert record.value == b"\x00\x04" + fields + b"\x01\x00\x10" + bytes(range(16))
    assert read_offset(record.value) == committed


def test_an_explicit_expiry_time_is_written_in_version_1() -> None:
    """formats.md 10: the only version that has it."""
    record = offset_record(KEY, CommittedOffset(42, 5, "", 1000, 2000))
    assert record.value == b"\x00\x01" + struct.pack(">q", 42) + b"\x00\x00" + struct.pack(
        ">qq", 1000, 2000
    )
    assert read_offset(record.value) == CommittedOffset(42, -1, "", 1000, 2000)


@pytest.mark.parametrize("version", range(5))
def test_offsets_of_all_versions_are_read(version: int) -> None:
    """formats.md 10: read 0-4."""
    value = OffsetCommitValue(
        offset=1, leader_epoch=2, metadata="m", commit_timestamp=3, expire_timestamp=4
    )
    data = struct.pack(">h", version) + encode(value, version)
    assert read_offset(data) == CommittedOffset(
        1, 2 if version >= 3 else -1, "m", 3, 4 if version == 1 else -1
    )


def test_the_legacy_key_type_is_read() -> None:
    """formats.md 10: type 0 is read only."""
    assert read_key(b"\x00\x00\x00\x01g\x00\x01t\x00\x00\x00\x01") == OffsetKey("g", "t", 1)


@pytest.mark.parametrize("record_type", [9, 17, 19, 99])
def test_unknown_types_are_no_error(record_type: int) -> None:
    """formats.md 10: skipped, for forward compatibility."""
    assert read_key(struct.pack(">h", record_type) + b"whatever") is None


def test_unknown_value_versions_are_no_error() -> None:
    """formats.md 10."""
    for version in (5, -1):
        data = struct.pack(">h", version) + b"whatever"
        assert read_offset(data) is None
        assert read_group("g", data) is None


def test_malformed_records_are_parse_errors() -> None:
    for data in (b"", b"\x00", b"\x00\x01\x00\x05gr"):
        with pytest.raises(ParseError):
            read_key(data)
    for data in (b"", b"\x00\x03\x00"):
        with pytest.raises(ParseError):
            read_offset(data)
        with pytest.raises(ParseError):
            read_group("g", data)


def _group() -> ClassicGroup:
    group = ClassicGroup("g")
    for number in range(2):
        member = ClassicMember(
            f"m{number}",
            group_instance_id="i" if number else None,
            client_id="c",
            client_host="/h",
            rebalance_timeout_ms=100,
            session_timeout_ms=10,
            protocols=(("other", b""), ("range", subscription("t"))),
            assignment=bytes([number]),
        )
        group.add(member, "consumer")
    group.state = GroupState.COMPLETING_REBALANCE
    group.generation_id = 3
    group.protocol_name = "range"
    group.transition(GroupState.STABLE, 77)
    return group


def test_a_group_is_written_in_version_3_and_read_back() -> None:
    """formats.md 10, GRP-20."""
    record = group_record(_group())
    assert record.key == b"\x00\x02\x00\x01g"
    assert record.value is not None
    assert record.value[:2] == b"\x00\x03"
    assert read_key(record.key) == GroupKey("g")
    group = read_group("g", record.value)
    assert group is not None
    assert group.state is GroupState.STABLE
    assert (group.generation_id, group.protocol_name, group.leader_id) == (3, "range", "m0")
    assert (group.protocol_type, group.state_changed_ms) == ("consumer", 77)
    assert group.static_member_ids == {"i": "m1"}
    assert group.subscribed_topics == {"t"}
    member = group.members["m1"]
    assert (member.assignment, member.client_id, member.client_host) == (b"\x01", "c", "/h")
    assert (member.rebalance_timeout_ms, member.session_timeout_ms) == (100, 10)
    assert member.metadata("range") == subscription("t")
    assert group_tombstone("g") == (record.key, None)


def test_new_assignments_can_be_written_before_they_are_in_force() -> None:
    """GRP-11: members that are not named get nothing."""
    record = group_record(_group(), {"m1": b"new"})
    assert record.value is not None
    group = read_group("g", record.value)
    assert group is not None
    assert [member.assignment for member in group.members.values()] == [b"", b"new"]


@pytest.mark.parametrize("version", range(5))
def test_groups_of_all_versions_are_read(version: int) -> None:
    """formats.md 10: read 0-4; version 0 has no rebalance timeout."""
    value = GroupMetadataValue(
        protocol_type="consumer",
        generation=3,
        protocol="range",
        leader="m",
        current_state_timestamp=77,
        members=[
            MemberMetadata(
                member_id="m",
                client_id="c",
                client_host="/h",
                rebalance_timeout=100,
                session_timeout=10,
                subscription=b"s",
                assignment=b"a",
            )
        ],
    )
    group = read_group("g", struct.pack(">h", version) + encode(value, version))
    assert group is not None
    assert group.members["m"].rebalance_timeout_ms == (100 if version >= 1 else 10)
    assert group.state_changed_ms == (77 if version >= 2 else -1)
    assert group.members["m"].assignment == b"a"


def test_a_group_without_members_is_empty() -> None:
    """OFS-3."""
    group = ClassicGroup("g")
    group.protocol_type = "consumer"
    group.generation_id = 9
    record = group_record(group)
    assert record.value is not None
    loaded = read_group("g", record.value)
    assert loaded is not None
    assert loaded.state is GroupState.EMPTY
    assert loaded.leader_id is None
    assert loaded.generation_id == 9
