"""Records of share groups, in the bytes that Kafka has. Source: SHR-30."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas_broker.coordinator.group.consumer.records import (
    AssignmentEpochValue,
    GroupEpochValue,
)
from barnabas_broker.coordinator.group.records import read_key
from barnabas_broker.coordinator.group.share import records
from barnabas_broker.coordinator.group.share.member import ShareMember
from barnabas_broker.coordinator.group.share.partition_states import PartitionStates, TopicState
from barnabas_broker.coordinator.runtime.shard import CoordinatorRecord
from barnabas_protocol.codec import encode
from barnabas_protocol.messages.records_share_group import (
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMemberValue,
    TopicPartition,
)
from tests.broker.coordinator.group.share.share_model import ShareModel
from tests.support.group_model import GROUP

T = bytes(range(16))
MEMBER = ShareMember(
    member_id="m",
    rack_id="r",
    client_id="c",
    client_host="/h",
    topics=frozenset("ba"),
    member_epoch=3,
    previous_member_epoch=2,
    assigned={T: frozenset((2, 1))},
)
STATES = PartitionStates(
    initializing={T: TopicState("t", frozenset((3,)))},
    initialized={T: TopicState("t", frozenset((1, 0)))},
    deleting={T[::-1]: "u"},
)
INTS_1_2 = b"\x03\x00\x00\x00\x01\x00\x00\x00\x02\x00"


def value_of(record: CoordinatorRecord) -> bytes:
    assert record.value is not None
    return record.value


def test_keys_and_values_byte_by_byte() -> None:
    """SHR-30: keys are never flexible, values are version 0 and are."""
    member = records.member_record("g", MEMBER)
    assert member.key == b"\x00\x0a\x00\x01g\x00\x01m"
    assert member.value == b"\x00\x00\x02r\x02c\x03/h\x03\x02a\x02b\x00"
    epoch = records.group_epoch_record("g", GroupEpochValue(5, -1))
    assert epoch.key == b"\x00\x0b\x00\x01g"
    assert epoch.value == b"\x00\x00\x00\x00\x00\x05" + b"\xff" * 8 + b"\x00"
    assigned = records.assignment_epoch_record("g", AssignmentEpochValue(3, 9))
    assert assigned.key == b"\x00\x0c\x00\x01g"
    assert assigned.value == b"\x00\x00\x00\x00\x00\x03\x01\x00\x08" + (9).to_bytes(8)
    target = records.target_record("g", "m", MEMBER.assigned)
    assert target.key == b"\x00\x0d\x00\x01g\x00\x01m"
    assert target.value == b"\x00\x00\x02" + T + INTS_1_2 + b"\x00"
    current = records.current_record("g", MEMBER)
    assert current.key == b"\x00\x0e\x00\x01g\x00\x01m"
    assert current.value == (
        b"\x00\x00\x00\x00\x00\x03\x00\x00\x00\x02\x00\x02" + T + INTS_1_2 + b"\x00"
    )
    states = records.partitions_record("g", STATES)
    assert states.key == b"\x00\x0f\x00\x01g"
    assert states.value == (
        b"\x00\x00"
        + (b"\x02" + T + b"\x02t\x02\x00\x00\x00\x03\x00")
        + (b"\x02" + T + b"\x02t\x03\x00\x00\x00\x00\x00\x00\x00\x01\x00")
        + (b"\x02" + T[::-1] + b"\x02u\x00")
        + b"\x00"
    )
    assert records.tombstone(14, "g", "m") == (b"\x00\x0e\x00\x01g\x00\x01m", None)


@given(
    st.text(max_size=40),
    st.text(max_size=36),
    st.dictionaries(
        st.binary(min_size=16, max_size=16),
        st.frozensets(st.integers(0, 2**31 - 1), max_size=300),
        max_size=200,
    ),
)
def test_packed_targets_are_what_the_schema_makes(
    group_id: str, member_id: str, target: dict[bytes, frozenset[int]]
) -> None:
    """SHR-30: type 13 has the bytes of type 7, and is read by the schema."""
    record = records.target_record(group_id, member_id, target)
    key = ShareGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)
    assert record.key == b"\x00\x0d" + encode(key, 0)
    value = ShareGroupTargetAssignmentMemberValue(
        topic_partitions=[
            TopicPartition(topic_id=topic_id, partitions=sorted(partitions))
            for topic_id, partitions in target.items()
        ]
    )
    assert record.value == b"\x00\x00" + encode(value, 0)
    assert records.read_target(value_of(record)) == target


def test_what_is_written_is_read() -> None:
    """SHR-30: member and current assignment are two records of one member."""
    read = records.read_member("m", value_of(records.member_record("g", MEMBER)))
    assert (read.topics, read.rack_id, read.client_host) == (MEMBER.topics, "r", "/h")
    current = records.read_current(value_of(records.current_record("g", MEMBER)))
    assert current == (3, 2, MEMBER.assigned)
    assert records.read_partitions(value_of(records.partitions_record("g", STATES))) == STATES
    for record_type in range(10, 16):
        name = "m" if record_type in (10, 13, 14) else ""
        key = records.ShareGroupKey(record_type, "g", name)
        assert read_key(records.tombstone(record_type, "g", name).key) == key


@pytest.mark.parametrize("value", [b"\x00\x01\x00", b"\x00\x00\x05"])
def test_a_record_that_cannot_be_read_is_skipped(value: bytes) -> None:
    """OFS-2: another version, or damage; counted, and the group is what it was."""
    model = ShareModel()
    model.share_join("a")
    epoch = model.group().group_epoch
    key = records.tombstone(records.GROUP_EPOCH_TYPE, GROUP).key
    model.log.append(CoordinatorRecord(key, value))
    model.restart()
    assert model.group().group_epoch == epoch
    assert model.shard.metrics.skipped_record_count == 1


def test_what_compaction_leaves_of_a_removed_group_is_nothing() -> None:
    """SHR-30: tombstones may go before what they delete; no group is without an epoch."""
    model = ShareModel({"t": 1})
    model.share_join("a")
    model.make_all()
    rest = [each for each in model.log if each.key[1] in (12, 15)]
    model.log[:] = rest
    model.restart()
    assert not model.shard.share_groups
