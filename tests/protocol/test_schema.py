"""What a declaration promises to those who build messages."""

import pytest

from barnabas_protocol.codec import decode, encode
from barnabas_protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    PartitionData,
    ReplicaState,
)
from barnabas_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas_protocol.schema import LAST_VERSION, MessageType, default_value
from tests.protocol.message_classes import all_classes


def structs_of(kind: MessageType) -> set[MessageType]:
    found = {kind}
    for field in kind.__fields__:
        if isinstance(field.item, MessageType):
            found |= structs_of(field.item)
    return found


ALL_STRUCTS = sorted(
    {struct for kind in all_classes() for struct in structs_of(kind)},
    key=lambda struct: (struct.__module__, struct.__name__),
)


def test_every_field_has_a_default_and_is_a_slot() -> None:
    """Handlers name only what they set, and a misspelt attribute is an error."""
    for kind in ALL_STRUCTS:
        message = kind()
        for field in kind.__fields__:
            assert getattr(message, field.name) == default_value(field), (kind, field.name)
        assert not hasattr(message, "__dict__"), kind
        with pytest.raises(AttributeError):
            message.no_such_field = 1  # type: ignore[attr-defined]
        with pytest.raises(TypeError):
            kind(no_such_field=1)


def test_version_ranges_are_within_those_of_the_message() -> None:
    """A tag needs a flexible version, a field may not end before it starts."""
    for kind in ALL_STRUCTS:
        tags = [field.tag for field in kind.__fields__ if field.tag is not None]
        assert len(tags) == len(set(tags)), kind
        first, last = kind.__versions__ or (0, LAST_VERSION)
        for field in kind.__fields__:
            assert field.since <= field.until, (kind, field.name)
            assert field.since <= last, (kind, field.name)
            assert field.until >= first, (kind, field.name)
            if field.tag is not None and kind.__versions__ is not None:
                assert field.since >= kind.__flexible__, (kind, field.name)


def test_default_lists_belong_to_one_message() -> None:
    """A default is a value, not a place that messages share."""
    first, second = MetadataRequest(), MetadataRequest()
    assert first.topics is not None
    first.topics.append(MetadataRequestTopic(name="t"))
    assert second.topics == []
    assert MetadataRequest(topics=None).topics is None


def test_default_structs_are_shared_and_refuse_changes() -> None:
    """Three structs for each fetched partition would cost more than the partition."""
    partition = PartitionData()
    assert partition.current_leader.leader_id == -1
    assert partition.current_leader is PartitionData().current_leader
    with pytest.raises(AttributeError, match="shared default"):
        partition.current_leader.leader_id = 3
    request = FetchRequest(replica_state=ReplicaState(replica_id=4))
    request.replica_state.replica_id = 5
    assert FetchRequest().replica_state.replica_id == -1
    assert decode(FetchRequest, encode(request, 15), 15)[0].replica_state.replica_id == 5


def test_messages_are_compared_by_value_and_shown_by_what_was_set() -> None:
    """Failing tests and log lines show what differs from the defaults."""
    topic = FetchTopic(topic="t", partitions=[FetchPartition(partition=2)])
    assert topic == FetchTopic(topic="t", partitions=[FetchPartition(partition=2)])
    assert topic != FetchTopic(topic="t", partitions=[FetchPartition(partition=3)])
    assert topic != FetchPartition(partition=2)
    assert repr(topic) == "FetchTopic(topic='t', partitions=[FetchPartition(partition=2)])"
    with pytest.raises(TypeError):
        hash(topic)


def test_a_message_can_be_changed() -> None:
    """A response grows while its request is served."""
    partition = FetchPartition()
    partition.fetch_offset = 9
    assert partition == FetchPartition(fetch_offset=9)
