"""Who may commit and fetch offsets of a consumer group. Source: CG-6."""

from typing import Any

import pytest

from barnabas_broker.config.bounded_settings import Bounded
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.messages.delete_groups import DeletableGroupResult
from barnabas_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas_protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from barnabas_protocol.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from barnabas_protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.broker.coordinator.group.consumer.consumer_model import ConsumerModel
from tests.support.group_model import GROUP

AT_ONCE = Bounded(0, 0, 0)
WEEK_MS = 7 * 24 * 3600 * 1000


def commit(
    model: ConsumerModel, member_id: str, epoch: int, *partitions: int, version: int = 9
) -> ErrorCode:
    request = OffsetCommitRequest(
        group_id=GROUP,
        member_id=member_id,
        generation_id_or_member_epoch=epoch,
        topics=[
            OffsetCommitRequestTopic(
                name="t",
                partitions=[
                    OffsetCommitRequestPartition(partition_index=each, committed_offset=7)
                    for each in partitions
                ],
            )
        ],
    )
    return _code(model, lambda shard, now: shard.commits.commit(request, now, version, ""))


def commit_in_transaction(model: ConsumerModel, member_id: str, epoch: int) -> ErrorCode:
    request = TxnOffsetCommitRequest(
        group_id=GROUP,
        member_id=member_id,
        generation_id_or_member_epoch=epoch,
        producer_id=1,
        topics=[
            TxnOffsetCommitRequestTopic(
                name="t",
                partitions=[TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1)],
            )
        ],
    )
    return _code(model, lambda shard, now: shard.commits.commit_in_transaction(request, now, 5, ""))


def fetch(model: ConsumerModel, member_id: str | None, epoch: int) -> ErrorCode:
    request = OffsetFetchRequestGroup(
        group_id=GROUP,
        member_id=member_id,
        member_epoch=epoch,
        topics=[OffsetFetchRequestTopics(name="t", partition_indexes=[0])],
    )
    return _code(model, lambda shard, _: shard.commits.fetch(request, False))


def _code(model: ConsumerModel, command: Any) -> ErrorCode:
    try:
        model.run(command)
    except KafkaError as error:
        return error.code
    return ErrorCode.NONE


def shared() -> ConsumerModel:
    """A has been given both, b joined: a is to let partition 1 go, and is at epoch 1 still."""
    model = ConsumerModel({"t": 2}, assignment_interval_ms=AT_ONCE)
    model.consumer_join("a")
    model.consumer_join("b")
    model.beat("a", 1)
    return model


def test_a_member_commits_at_its_own_epoch() -> None:
    """CG-6: also what it is about to let go."""
    model = shared()
    assert commit(model, "a", 1, 0, 1) is ErrorCode.NONE
    assert model.offsets() == {("t", 0): 7, ("t", 1): 7}
    assert commit(model, "a", 2, 0) is ErrorCode.STALE_MEMBER_EPOCH
    assert commit(model, "c", 1, 0) is ErrorCode.UNKNOWN_MEMBER_ID


def test_an_older_epoch_counts_for_what_was_assigned_by_then() -> None:
    """CG-6: as a heartbeat may have overtaken the commit; never for what another one has now."""
    model = shared()
    (kept,) = model.group().members["a"].assigned[model.named.ids["t"]]
    assert model.beat("a", 1, owned={"t": [kept]}).member_epoch == 2
    assert model.beat("b", 2).assignment is not None
    assert commit(model, "a", 1, kept) is ErrorCode.NONE
    assert commit(model, "a", 1, kept, 1 - kept) is ErrorCode.STALE_MEMBER_EPOCH
    assert commit(model, "b", 1, 1 - kept) is ErrorCode.STALE_MEMBER_EPOCH
    assert commit(model, "b", 2, 1 - kept) is ErrorCode.NONE


def test_a_fenced_member_commits_nothing() -> None:
    """CG-6: after its session, while others go on."""
    model = shared()
    model.advance(44_000)
    model.beat("b", 2)
    model.advance(1_000)
    assert commit(model, "a", 1, 0) is ErrorCode.UNKNOWN_MEMBER_ID
    assert model.offsets() == {}


def test_members_of_the_consumer_protocol_need_version_9() -> None:
    """CG-6: an older version cannot tell what 113 means."""
    model = shared()
    assert commit(model, "a", 1, 0, version=8) is ErrorCode.UNSUPPORTED_VERSION


def test_without_a_member_only_an_empty_group_takes_commits() -> None:
    """CG-6: a transaction may, whose id fences."""
    model = shared()
    assert commit(model, "", -1, 0) is ErrorCode.UNKNOWN_MEMBER_ID
    assert commit_in_transaction(model, "", -1) is ErrorCode.NONE
    assert commit_in_transaction(model, "a", 1) is ErrorCode.NONE
    assert commit_in_transaction(model, "a", 9) is ErrorCode.STALE_MEMBER_EPOCH
    model.beat("a", -1)
    model.beat("b", -1)
    assert commit(model, "", -1, 0) is ErrorCode.NONE


def test_a_member_fetches_at_its_own_epoch() -> None:
    """CG-6: admins, who name none, always."""
    model = shared()
    assert fetch(model, None, -1) is ErrorCode.NONE
    assert fetch(model, "a", 1) is ErrorCode.NONE
    assert fetch(model, "a", 0) is ErrorCode.STALE_MEMBER_EPOCH
    assert fetch(model, "x", 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_only_what_nobody_subscribes_to_is_deleted_or_expires() -> None:
    """OFS-8, OFS-10."""
    model = shared()
    model.named.put("old", 1)
    request = OffsetDeleteRequest(
        group_id=GROUP,
        topics=[
            OffsetDeleteRequestTopic(
                name=name, partitions=[OffsetDeleteRequestPartition(partition_index=0)]
            )
            for name in ("t", "old")
        ],
    )
    reply = model.run(lambda shard, _: shard.commits.delete_offsets(request))
    codes = [each.partitions[0].error_code for each in reply.topics]
    assert codes == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, ErrorCode.NONE]


def delete(model: ConsumerModel) -> DeletableGroupResult:
    result: DeletableGroupResult = model.run(lambda shard, _: shard.commits.delete_group(GROUP))
    return result


def test_groups_without_members_are_deleted_with_all_their_records() -> None:
    """OFS-10: 68 while there are members; what is refused by the log comes back."""
    model = shared()
    commit(model, "a", 1, 0)
    assert delete(model).error_code == ErrorCode.NON_EMPTY_GROUP
    model.beat("a", -1)
    model.beat("b", -1)
    model.fail_with = ErrorCode.NOT_ENOUGH_REPLICAS
    with pytest.raises(KafkaError):
        delete(model)
    model.fail_with = None
    assert model.offsets() == {("t", 0): 7}
    assert delete(model).error_code == ErrorCode.NONE
    assert delete(model).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    model.restart()
    assert not model.shard.consumer_groups
    assert not model.shard.groups
    live = dict(model.log)
    assert all(value is None for value in live.values())


def test_an_empty_group_expires_with_its_offsets() -> None:
    """OFS-8, OFS-9: a week after the last commit."""
    model = shared()
    commit(model, "a", 1, 0)
    model.beat("a", -1)
    model.beat("b", -1)
    model.advance(WEEK_MS - 3_600_000)
    assert model.offsets() == {("t", 0): 7}
    model.advance(2 * 3_600_000)
    assert not model.shard.consumer_groups
    model.restart()
    assert not model.shard.consumer_groups
    assert not model.shard.groups
