"""Records of consumer groups, in the bytes that Kafka has. Source: formats.md 10."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas_broker.coordinator.group.consumer import records
from barnabas_broker.coordinator.group.consumer.consumer_group import ResolvedPattern
from barnabas_broker.coordinator.group.consumer.member import (
    ClassicSide,
    ConsumerMember,
    MemberState,
)
from barnabas_broker.coordinator.group.records import read_key
from barnabas_broker.coordinator.runtime.shard import CoordinatorRecord
from barnabas_protocol.codec import encode
from barnabas_protocol.messages.records_consumer_offsets import (
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    TopicPartition,
    TopicPartitions,
)
from tests.broker.coordinator.group.consumer.consumer_model import ConsumerModel
from tests.support.group_model import GROUP

T = bytes(range(16))


def value_of(record: CoordinatorRecord) -> bytes:
    assert record.value is not None
    return record.value


def test_keys_and_values_byte_by_byte() -> None:
    """formats.md 10: keys are never flexible, values are version 0 and are."""
    record = records.group_epoch_record("g", records.GroupEpochValue(5, 0))
    assert record.key == b"\x00\x03\x00\x01g"
    assert record.value == b"\x00\x00\x00\x00\x00\x05\x00"
    hashed = records.group_epoch_record("g", records.GroupEpochValue(5, -1))
    assert hashed.value == b"\x00\x00\x00\x00\x00\x05\x01\x00\x08" + b"\xff" * 8
    target = records.target_record("g", "m", {T: frozenset((2, 1))})
    assert target.key == b"\x00\x07\x00\x01g\x00\x01m"
    assert target.value == (b"\x00\x00\x02" + T + b"\x03\x00\x00\x00\x01\x00\x00\x00\x02\x00\x00")
    epoch = records.assignment_epoch_record("g", records.AssignmentEpochValue(3, 0))
    assert (epoch.key, epoch.value) == (b"\x00\x06\x00\x01g", b"\x00\x00\x00\x00\x00\x03\x00")
    pattern = records.pattern_record("g", "a.*", ResolvedPattern(frozenset("ba"), 7, 9))
    assert pattern.key == b"\x00\x10\x00\x01g\x00\x03a.*"
    assert records.tombstone(8, "g", "m") == (b"\x00\x08\x00\x01g\x00\x01m", None)


@given(
    st.text(max_size=40),
    st.text(max_size=300),
    st.dictionaries(
        st.binary(min_size=16, max_size=16),
        st.frozensets(st.integers(0, 2**31 - 1), max_size=300),
        max_size=200,
    ),
)
def test_targets_are_packed_as_the_schema_has_them(
    group: str, member: str, target: dict[bytes, frozenset[int]]
) -> None:
    """formats.md 10: packed by hand for speed, and not otherwise."""
    record = records.target_record(group, member, target)
    key = ConsumerGroupTargetAssignmentMemberKey(group_id=group, member_id=member)
    value = ConsumerGroupTargetAssignmentMemberValue(
        topic_partitions=[
            TopicPartition(topic_id=topic_id, partitions=sorted(partitions))
            for topic_id, partitions in target.items()
        ]
    )
    assert record == (b"\x00\x07" + encode(key, 0), b"\x00\x00" + encode(value, 0))
    assert records.read_target(value_of(record)) == target


MEMBER = ConsumerMember(
    member_id="m",
    instance_id="i",
    rack_id="r",
    client_id="c",
    client_host="/h",
    topics=frozenset(("t", "u")),
    pattern="a.*",
    rebalance_timeout_ms=7,
    assignor="range",
    classic=ClassicSide(session_timeout_ms=9, protocols=(("range", b"x"), ("sticky", b""))),
)


@pytest.mark.parametrize("member", [MEMBER, ConsumerMember(member_id="m")])
def test_members_come_back(member: ConsumerMember) -> None:
    """formats.md 10: type 5."""
    record = records.member_record("g", member)
    assert read_key(record.key) == (5, "g", "m")
    assert records.read_member("m", value_of(record)) == member


def test_current_assignments_come_back_with_their_epochs() -> None:
    """formats.md 10: type 8, with the epoch of each partition in a tag."""
    member = ConsumerMember(
        member_id="m",
        member_epoch=5,
        previous_member_epoch=4,
        state=MemberState.UNREVOKED_PARTITIONS,
        assigned={T: {0: 3, 7: 5}},
        revoking={T: {1: 2}},
    )
    current = records.read_current(value_of(records.current_record("g", member)))
    assert current == (5, 4, MemberState.UNREVOKED_PARTITIONS, member.assigned, member.revoking)


def test_current_assignments_of_older_releases_have_no_epochs() -> None:
    """formats.md 10: then it is the member epoch, at least 0; an unknown state is that."""
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=-2,
        previous_member_epoch=3,
        state=99,
        assigned_partitions=[TopicPartitions(topic_id=T, partitions=[4])],
    )
    current = records.read_current(b"\x00\x00" + encode(value, 0))
    assert current.state is MemberState.UNKNOWN
    assert current.assigned == {T: {4: 0}}


def test_a_member_in_a_state_that_is_not_known_begins_anew() -> None:
    """formats.md 10: it reports that it has nothing, or it is fenced."""
    model = ConsumerModel({"t": 1})
    model.consumer_join("a")
    value = ConsumerGroupCurrentMemberAssignmentValue(member_epoch=1, state=99)
    key = records.tombstone(8, GROUP, "a").key
    model.log.append(CoordinatorRecord(key, b"\x00\x00" + encode(value, 0)))
    model.restart()
    assert model.beat_error("a", 1).name == "FENCED_MEMBER_EPOCH"
    assert model.beat("a", 1, owned={}).assignment is not None


def test_records_of_kafka_4_0_and_unknown_versions_are_left_alone() -> None:
    """formats.md 10: type 4 says nothing any more; a newer version is skipped, not fatal."""
    model = ConsumerModel()
    model.consumer_join("a")
    value = ConsumerGroupPartitionMetadataValue(topics=[])
    model.log.append(
        CoordinatorRecord(records.tombstone(4, GROUP).key, b"\x00\x00" + encode(value, 0))
    )
    model.log.append(CoordinatorRecord(records.tombstone(3, GROUP).key, b"\x00\x01\x00"))
    model.restart()
    assert model.group().group_epoch == 1
    assert model.shard.metrics.skipped_record_count == 1
    model.log.append(records.tombstone(4, GROUP))
    model.restart()
    assert list(model.group().members) == ["a"]
