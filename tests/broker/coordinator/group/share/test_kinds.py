"""A group id is one kind's: what other kinds' requests get from a share group, and the other way.

Texts are Kafka's.
"""

import pytest

from barnabas_broker.coordinator.group.context import RequestContext
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from barnabas_protocol.messages.delete_groups import DeletableGroupResult
from barnabas_protocol.messages.offset_delete import OffsetDeleteRequest
from barnabas_protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from tests.broker.coordinator.group.share.share_model import ShareModel
from tests.support.group_model import GROUP

RETENTION_MS = 7 * 24 * 60 * 60 * 1000


def deleted(model: ShareModel) -> ErrorCode:
    result: DeletableGroupResult = model.run(lambda shard, _: shard.commits.delete_group(GROUP))
    return ErrorCode(result.error_code)


def test_a_classic_member_does_not_join_a_share_group() -> None:
    """CG-7: 23 (INCONSISTENT_GROUP_PROTOCOL), also without members; nothing is converted."""
    model = ShareModel()
    model.share_join("a")
    assert model.join().error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    model.beat("a", -1)
    assert model.join().error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert list(model.shard.share_groups) == [GROUP]
    assert model.heartbeat("a", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert model.sync("a", 1).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert model.leave("a") is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_consumer_does_not_join_a_share_group() -> None:
    """SHR-28: 69, also without members."""
    model = ShareModel()
    model.share_join("a")
    request = ConsumerGroupHeartbeatRequest(
        group_id=GROUP,
        member_id="b",
        member_epoch=0,
        rebalance_timeout_ms=1_000,
        subscribed_topic_names=["t"],
        topic_partitions=[],
    )
    context = RequestContext("client", "/127.0.0.1", 1)
    with pytest.raises(KafkaError, match="Group g is not a consumer group") as raised:
        model.run(lambda shard, now: shard.consumer_members.heartbeat(request, context, now))
    assert raised.value.code is ErrorCode.GROUP_ID_NOT_FOUND


def test_a_share_member_does_not_join_a_group_of_another_kind() -> None:
    """SHR-28: 69, also where that group has nothing but offsets."""
    model = ShareModel()
    model.commit({0: 5}, group="offsets")
    model.join(group="classic")
    for group in ("offsets", "classic"):
        with pytest.raises(KafkaError, match=f"Group {group} is not a share group") as raised:
            model.share_join("a", group=group)
        assert raised.value.code is ErrorCode.GROUP_ID_NOT_FOUND
        described = model.shard.describe_share_group(group)
        assert described.error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert described.error_message == f"Group {group} is not a share group."
    assert not model.shard.share_groups


def test_a_share_group_commits_no_offsets() -> None:
    """SHR-28: commit, commit in a transaction, fetch and delete of offsets are 69."""
    model = ShareModel()
    model.share_join("a")
    assert model.commit_error({0: 1}) is ErrorCode.GROUP_ID_NOT_FOUND
    for command in (
        lambda shard, now: shard.commits.commit_in_transaction(
            TxnOffsetCommitRequest(group_id=GROUP), now, 5, "h"
        ),
        lambda shard, _: shard.commits.delete_offsets(OffsetDeleteRequest(group_id=GROUP)),
    ):
        with pytest.raises(KafkaError, match="is not a consumer group") as raised:
            model.run(command)
        assert raised.value.code is ErrorCode.GROUP_ID_NOT_FOUND
    with pytest.raises(KafkaError):
        model.offsets()


def test_descriptions_tell_the_kinds_apart() -> None:
    """GRP-21, SHR-28: ListGroups has type and state; DescribeGroups of another kind is 69."""
    model = ShareModel({"t": 1})
    model.share_join("a", rack_id="r")
    model.make_all()
    listed = list(filter(None, model.shard.listed_groups([], ["share"])))
    assert [(each.group_id, each.protocol_type, each.group_state) for each in listed] == [
        (GROUP, "share", "Stable")
    ]
    assert list(filter(None, model.shard.listed_groups(["empty"], []))) == []
    assert list(filter(None, model.shard.listed_groups([], ["consumer", "classic"]))) == []
    assert model.shard.describe(GROUP) == "Group g is not a classic group."
    as_consumer = model.shard.describe_consumer_group(GROUP)
    assert as_consumer.error_message == "Group g is not a consumer group."
    model.advance(1_000)
    model.beat("a", 1)
    described = model.shard.describe_share_group(GROUP)
    assert (described.group_state, described.assignor_name) == ("Stable", "simple")
    assert (described.group_epoch, described.assignment_epoch) == (2, 2)
    (member,) = described.members
    assert (member.member_id, member.rack_id, member.member_epoch) == ("a", "r", 2)
    assert member.subscribed_topic_names == ["t"]
    (assigned,) = member.assignment.topic_partitions
    assert (assigned.topic_name, assigned.partitions) == ("t", [0])
    assert model.shard.describe_share_group("x").error_message == "Group x not found."


def test_a_group_is_deleted_when_it_is_empty_and_without_state() -> None:
    """SHR-32, OFS-10: 68 with members; the state of its partitions goes first."""
    model = ShareModel({"t": 1})
    model.share_join("a")
    model.make_all()
    assert deleted(model) is ErrorCode.NON_EMPTY_GROUP
    model.beat("a", -1)
    assert deleted(model) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    model.finish(model.run(lambda shard, _: shard.share_partitions.delete(GROUP)))
    assert deleted(model) is ErrorCode.NONE
    assert deleted(model) is ErrorCode.GROUP_ID_NOT_FOUND
    model.restart()
    assert not model.shard.share_groups
    assert model.shard.groups.quota.count == 0


def test_an_empty_group_without_state_expires() -> None:
    """OFS-9: one that has state is kept, as in Kafka, until it is deleted."""
    model = ShareModel({"t": 1})
    model.share_join("a")
    model.share_join("b", "nowhere", group="idle")
    model.make_all()
    model.beat("a", -1)
    model.beat("b", -1, group="idle")
    model.advance(RETENTION_MS)
    assert list(model.shard.share_groups) == [GROUP]
    model.restart()
    assert list(model.shard.share_groups) == [GROUP]


def test_groups_are_bounded() -> None:
    """SHR-28: 81 when this broker has as many groups as it may have."""
    model = ShareModel(groups_max=1)
    model.share_join("a")
    assert model.beat_error("a", 0, group="h", subscribed_topic_names=["t"]) is (
        ErrorCode.GROUP_MAX_SIZE_REACHED
    )
    assert model.shard.groups.quota.count == 1
