"""Commits, fetches, deletions and expiry of offsets, and deletion of groups."""

import pytest

from barnabas_broker.coordinator.group.records import OffsetKey, read_key
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.ids import ZERO_UUID
from barnabas_protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from barnabas_protocol.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from tests.support.group_model import GROUP, GroupModel, subscription

HOUR_MS = 3_600_000
WEEK_MS = 7 * 24 * HOUR_MS


def delete_offsets(model: GroupModel, topic: str, *partitions: int) -> list[ErrorCode]:
    request = OffsetDeleteRequest(
        group_id=GROUP,
        topics=[
            OffsetDeleteRequestTopic(
                name=topic,
                partitions=[
                    OffsetDeleteRequestPartition(partition_index=index) for index in partitions
                ],
            )
        ],
    )
    reply = model.run(lambda shard, _: shard.commits.delete_offsets(request))
    return [ErrorCode(each.error_code) for each in reply.topics[0].partitions]


def delete_group(model: GroupModel, group: str = GROUP) -> ErrorCode:
    reply = model.run(lambda shard, _: shard.commits.delete_group(group))
    return ErrorCode(reply.error_code)


def test_a_group_without_members_is_an_offset_store() -> None:
    """GRP-19: generation < 0; the group is made by its first commit."""
    model = GroupModel()
    assert model.commit({0: 10, 1: 20}) == {0: ErrorCode.NONE, 1: ErrorCode.NONE}
    assert model.commit({0: 11}) == {0: ErrorCode.NONE}
    assert model.offsets() == {("t", 0): 11, ("t", 1): 20}
    assert model.state() == "Empty"


def test_a_commit_of_a_generation_to_an_unknown_group_is_illegal() -> None:
    """GRP-19."""
    model = GroupModel()
    assert model.commit_error({0: 1}, "m", 3) is ErrorCode.ILLEGAL_GENERATION
    assert model.shard.groups == {}


def test_only_members_of_the_generation_commit_to_a_group_with_members() -> None:
    """GRP-19."""
    model = GroupModel()
    ids = model.stable(2)
    assert model.commit({0: 1}, ids[1], 2) == {0: ErrorCode.NONE}
    assert model.commit_error({0: 2}) is ErrorCode.UNKNOWN_MEMBER_ID
    assert model.commit_error({0: 2}, "x", 2) is ErrorCode.UNKNOWN_MEMBER_ID
    assert model.commit_error({0: 2}, ids[0], 1) is ErrorCode.ILLEGAL_GENERATION
    assert model.commit_error({0: 2}, ids[0], -1) is ErrorCode.ILLEGAL_GENERATION
    assert model.commit_error({0: 2}, "", -1, instance="i") is ErrorCode.UNKNOWN_MEMBER_ID
    assert model.offsets() == {("t", 0): 1}


def test_commits_during_a_rebalance() -> None:
    """GRP-19: PreparingRebalance takes the previous generation, CompletingRebalance nothing."""
    model = GroupModel()
    ids = model.stable(2)
    model.join(ids[0])
    assert model.state() == "PreparingRebalance"
    assert model.commit({0: 1}, ids[1], 2) == {0: ErrorCode.NONE}
    model.join(ids[1])
    assert model.state() == "CompletingRebalance"
    assert model.commit_error({0: 2}, ids[1], 3) is ErrorCode.REBALANCE_IN_PROGRESS
    assert model.commit_error({0: 2}, ids[1], 2) is ErrorCode.ILLEGAL_GENERATION


def test_a_member_that_left_cannot_commit_its_generation() -> None:
    """GRP-19: Empty, generation >= 0."""
    model = GroupModel()
    (leader,) = model.stable()
    model.leave(leader)
    assert model.commit_error({0: 1}, leader, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert model.commit({0: 1}) == {0: ErrorCode.NONE}


def test_long_metadata_and_unknown_topics_fail_their_partition_only() -> None:
    """OFS-7."""
    model = GroupModel(offset_metadata_bytes_max=4)
    assert model.commit({0: 1}, metadata="abcd") == {0: ErrorCode.NONE}
    assert model.commit({0: 2}, metadata="abcde") == {0: ErrorCode.OFFSET_METADATA_TOO_LARGE}
    assert model.commit({0: 2}, metadata="äöü") == {0: ErrorCode.OFFSET_METADATA_TOO_LARGE}
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert model.commit({0: 2, 1: 3}, topic="gone") == {0: unknown, 1: unknown}
    assert model.offsets() == {("t", 0): 1}


def test_a_refused_commit_leaves_the_old_offset() -> None:
    """OFS-5, OFS-6."""
    model = GroupModel()
    model.commit({0: 1})
    model.fail_with = ErrorCode.NOT_ENOUGH_REPLICAS
    assert model.commit_error({0: 2, 1: 5}) is ErrorCode.NOT_ENOUGH_REPLICAS
    model.fail_with = None
    assert model.offsets() == {("t", 0): 1}


def test_fetch_answers_minus_one_for_what_is_not_committed() -> None:
    """OFS-11: unknown groups and partitions are no error; null means all topics."""
    model = GroupModel()
    model.commit({0: 7}, metadata="note")

    def fetch(group: str, *partitions: int) -> list[tuple[int, int, str | None, int]]:
        request = OffsetFetchRequestGroup(
            group_id=group,
            topics=[OffsetFetchRequestTopics(name="t", partition_indexes=list(partitions))],
        )
        reply = model.run(lambda shard, _: shard.commits.fetch(request, True))
        assert reply.error_code == 0
        return [
            (each.committed_offset, each.committed_leader_epoch, each.metadata, each.error_code)
            for each in reply.topics[0].partitions
        ]

    assert fetch(GROUP, 0, 1) == [(7, -1, "note", 0), (-1, -1, "", 0)]
    assert fetch("x", 0) == [(-1, -1, "", 0)]
    assert model.offsets("x") == {}


def test_a_pending_transactional_offset_is_unstable() -> None:
    """OFS-11: 88 with require_stable; the old offset without."""
    model = GroupModel()
    model.commit({0: 7})
    key = OffsetKey(GROUP, "t", 0)
    model.shard.offsets.put_pending(5, key, model.shard.offsets.of_group(GROUP)["t", 0])
    request = OffsetFetchRequestGroup(
        group_id=GROUP, topics=[OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
    )
    for require_stable, expected in ((True, (-1, 88)), (False, (7, 0))):
        reply = model.run(
            lambda shard, _, stable=require_stable: shard.commits.fetch(request, stable)
        )
        (answer,) = reply.topics[0].partitions
        assert (answer.committed_offset, answer.error_code) == expected


def test_offsets_of_consumed_topics_cannot_be_deleted() -> None:
    """OFS-10: 86 for these, 69 for unknown groups, 68 for members of another type."""
    model = GroupModel()
    with pytest.raises(KafkaError) as caught:
        delete_offsets(model, "t", 0)
    assert caught.value.code is ErrorCode.GROUP_ID_NOT_FOUND
    model.commit({0: 1, 1: 2})
    model.commit({0: 3}, topic="u")
    (leader,) = model.stable()
    assert delete_offsets(model, "t", 0) == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC]
    assert delete_offsets(model, "u", 0, 9) == [ErrorCode.NONE, ErrorCode.NONE]
    model.leave(leader)
    assert delete_offsets(model, "t", 0) == [ErrorCode.NONE]
    assert model.offsets() == {("t", 1): 2}
    model.restart()
    assert model.offsets() == {("t", 1): 2}


def test_offsets_of_a_group_of_another_type_are_kept_while_it_has_members() -> None:
    """OFS-10."""
    model = GroupModel()
    model.stable(protocol_type="connect")
    with pytest.raises(KafkaError) as caught:
        delete_offsets(model, "t", 0)
    assert caught.value.code is ErrorCode.NON_EMPTY_GROUP


def test_deleting_topics_removes_their_offsets_from_all_groups() -> None:
    """OFS-10."""
    model = GroupModel()
    for group in ("a", "b"):
        model.commit({0: 1}, group=group)
        model.commit({0: 1}, group=group, topic="kept")
    model.run(lambda shard, _: shard.commits.delete_topics({"t": ZERO_UUID}))
    model.restart()
    for group in ("a", "b"):
        assert model.offsets(group) == {("kept", 0): 1}


def test_only_empty_groups_can_be_deleted() -> None:
    """OFS-10, transition Empty -> Dead."""
    model = GroupModel()
    assert delete_group(model) is ErrorCode.GROUP_ID_NOT_FOUND
    model.commit({0: 1})
    (leader,) = model.stable()
    assert delete_group(model) is ErrorCode.NON_EMPTY_GROUP
    model.leave(leader)
    group = model.shard.groups[GROUP]
    assert delete_group(model) is ErrorCode.NONE
    assert group.state.value == "Dead"
    assert model.shard.groups == {}
    assert model.offsets() == {}
    model.restart()
    assert model.shard.groups == {}
    assert model.offsets() == {}


def test_a_failed_deletion_keeps_group_and_offsets() -> None:
    """OFS-5."""
    model = GroupModel()
    model.commit({0: 1})
    model.fail_with = ErrorCode.NOT_ENOUGH_REPLICAS
    with pytest.raises(KafkaError):
        delete_group(model)
    model.fail_with = None
    assert model.offsets() == {("t", 0): 1}
    assert model.state() == "Empty"


def test_a_member_that_joins_during_a_deletion_keeps_the_group() -> None:
    """OFS-10: the offsets are gone, the group lives."""
    model = GroupModel()
    model.commit({0: 1})
    model.hold()
    delete_group(model)
    ticket = model.join()
    model.release()
    assert ticket.error is ErrorCode.NONE
    assert model.state() == "CompletingRebalance"
    assert model.offsets() == {}


# ---- expiry --------------------------------------------------------------------------------------


def test_offsets_of_an_empty_group_expire_from_when_it_became_empty() -> None:
    """OFS-8, OFS-9: with the group and its tombstone."""
    model = GroupModel()
    (leader,) = model.stable(session_ms=1_800_000)
    model.commit({0: 1}, leader, 1)
    model.advance(HOUR_MS // 4)
    model.leave(leader)
    model.advance(WEEK_MS - 1)
    assert model.offsets() == {("t", 0): 1}
    model.advance(600_000)
    assert model.shard.groups == {}
    assert [read_key(record.key) for record in model.log[-2:]] == [(GROUP, "t", 0), (GROUP,)]
    assert [record.value for record in model.log[-2:]] == [None, None]
    model.restart()
    assert model.shard.groups == {}


def test_offsets_of_a_simple_consumer_expire_from_their_commit() -> None:
    """OFS-8, OFS-9: no tombstone for a group of generation 0, which has no record."""
    model = GroupModel()
    model.commit({0: 1})
    model.advance(HOUR_MS)
    model.commit({1: 2})
    model.advance(WEEK_MS - HOUR_MS + 600_000)
    assert model.offsets() == {("t", 1): 2}
    model.advance(HOUR_MS)
    assert model.offsets() == {}
    assert model.shard.groups == {}
    assert len(model.log) == 4


def test_a_stable_group_loses_only_offsets_of_topics_it_left() -> None:
    """OFS-8."""
    model = GroupModel()
    model.commit({0: 1})
    model.commit({0: 1}, topic="old")
    model.commit({0: 1}, topic="recent", retention_ms=2 * WEEK_MS)
    (leader,) = model.stable(session_ms=1_800_000)
    for _ in range(7 * 24 * 4):
        model.advance(HOUR_MS // 4)
        assert model.heartbeat(leader, 1) is ErrorCode.NONE
    model.advance(600_000)
    assert model.offsets() == {("t", 0): 1, ("recent", 0): 1}


def test_nothing_of_a_stable_group_of_another_type_expires() -> None:
    """OFS-8."""
    model = GroupModel(offsets_retention_ms=1000)
    model.commit({0: 1})
    (leader,) = model.stable(session_ms=1_800_000, protocol_type="connect", protocols=(("x", b""),))
    model.advance(1_200_000)
    assert model.heartbeat(leader, 1) is ErrorCode.NONE
    assert model.offsets() == {("t", 0): 1}


def test_nothing_expires_while_the_subscription_cannot_be_read() -> None:
    """OFS-8, formats.md 9."""
    model = GroupModel(offsets_retention_ms=1000)
    model.commit({0: 1})
    model.stable(session_ms=1_800_000, protocols=(("range", b"\x00"),))
    model.advance(1_200_000)
    assert model.offsets() == {("t", 0): 1}


def test_an_explicit_retention_wins() -> None:
    """OFS-8: versions 2 to 4 of OffsetCommit."""
    model = GroupModel()
    model.commit({0: 1}, retention_ms=HOUR_MS)
    model.commit({1: 1}, retention_ms=2 * WEEK_MS)
    model.restart()
    model.advance(HOUR_MS + 600_000)
    assert model.offsets() == {("t", 1): 1}
    model.advance(WEEK_MS + HOUR_MS)
    assert model.offsets() == {("t", 1): 1}
    model.advance(WEEK_MS)
    assert model.offsets() == {}


def test_an_offset_with_a_pending_transaction_does_not_expire() -> None:
    """OFS-8."""
    model = GroupModel()
    model.commit({0: 1, 1: 1})
    committed = model.shard.offsets.of_group(GROUP)["t", 0]
    pending = committed._replace(commit_ms=committed.commit_ms + WEEK_MS)
    model.shard.offsets.put_pending(5, OffsetKey(GROUP, "t", 0), pending)
    model.advance(WEEK_MS + 600_000)
    assert model.offsets() == {("t", 0): 1}
    # No transaction is open for that long: its log was imported without an end to it.
    model.advance(WEEK_MS + 600_000)
    assert model.shard.groups == {}


def test_a_failed_expiry_is_tried_again() -> None:
    """OFS-9."""
    model = GroupModel()
    model.commit({0: 1})
    model.fail_with = ErrorCode.NOT_ENOUGH_REPLICAS
    model.advance(WEEK_MS + 600_000)
    assert model.offsets() == {("t", 0): 1}
    assert model.state() == "Empty"
    model.fail_with = None
    model.advance(600_000)
    assert model.offsets() == {}
    assert model.shard.groups == {}


def test_a_long_expiry_is_cut_into_steps() -> None:
    """Everything is bounded: one step writes a limited number of tombstones."""
    model = GroupModel(expiry_step_tombstones_max=10)
    for number in range(35):
        model.commit({0: 1}, group=f"g{number}")
    model.advance(WEEK_MS + 600_000)
    model.advance(100)
    assert model.shard.groups == {}
    assert len(model.log) == 70


def test_a_group_that_never_formed_goes_at_the_next_expiry() -> None:
    """OFS-9: but not while an id that it gave out is pending."""
    model = GroupModel()
    model.advance(595_000)
    model.join(version=4)
    model.advance(5_000)
    assert model.state() == "Empty"
    model.advance(600_000)
    assert model.shard.groups == {}
    assert model.log == []


def test_offsets_of_partitions_that_do_not_exist_are_not_deleted() -> None:
    """OFS-10: as Apache Kafka answers, which looks for the partition first."""
    model = GroupModel()
    model.commit({0: 10, 1: 20})
    model.topics.counts["t"] = 1
    codes = delete_offsets(model, "t", 0, 1)
    assert codes == [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert model.offsets() == {("t", 1): 20}


def test_subscribed_topics_of_an_empty_group_can_be_deleted() -> None:
    """OFS-10."""
    model = GroupModel()
    (leader,) = model.stable(protocols=(("range", subscription("t")),))
    model.leave(leader)
    model.commit({0: 1})
    assert delete_offsets(model, "t", 0) == [ErrorCode.NONE]
