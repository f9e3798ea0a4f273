"""Live state is what replay gives, whatever became of an append: refused, late or in doubt."""

import asyncio

import pytest

from barnabas_broker.coordinator.group.records import CommittedOffset, OffsetKey
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.messages.delete_groups import DeleteGroupsRequest
from barnabas_protocol.messages.leave_group import LeaveGroupRequest
from barnabas_protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from barnabas_protocol.records.control import ControlType, TransactionMarker
from tests.broker.coordinator.group.coordinator_world import (
    GROUP,
    PARTITION,
    World,
    context,
    virtually,
)
from tests.support.group_model import GroupModel, subscription

WEEK_MS = 7 * 24 * 3600 * 1000
OLD, NEW = b"o" * 16, b"n" * 16


def delete(model: GroupModel) -> ErrorCode:
    try:
        reply = model.run(lambda shard, _: shard.commits.delete_group("g"))
    except KafkaError as error:
        return error.code
    return ErrorCode(reply.error_code)


# ---- removal of groups ---------------------------------------------------------------------------


def test_a_commit_while_its_group_is_deleted_starts_a_new_group() -> None:
    """The log has the tombstone, then the offset: so it is in memory, too."""
    model = GroupModel()
    (leader,) = model.stable(session_ms=1_800_000)
    model.commit({0: 5}, leader, 1)
    model.leave(leader)
    model.advance(WEEK_MS - 3_600_000)
    model.hold()
    delete(model)
    model.commit({0: 42})
    model.release()
    assert model.offsets() == {("t", 0): 42}
    assert model.generation() == 0
    # Three hours later the deleted group would have been Empty for a week.
    model.advance(3 * 3_600_000)
    assert model.offsets() == {("t", 0): 42}
    model.restart()
    assert model.offsets() == {("t", 0): 42}
    assert model.generation() == 0


def test_a_refused_deletion_gives_the_group_back() -> None:
    """OFS-5: with its offsets and its generation."""
    model = GroupModel()
    (leader,) = model.stable()
    model.commit({0: 5}, leader, 1)
    model.leave(leader)
    group = model.shard.groups["g"]
    model.fail_with = ErrorCode.NOT_ENOUGH_REPLICAS
    assert delete(model) is ErrorCode.NOT_ENOUGH_REPLICAS
    model.fail_with = None
    assert model.shard.groups == {"g": group}
    assert model.offsets() == {("t", 0): 5}
    assert delete(model) is ErrorCode.NONE
    assert model.shard.groups == {}


def test_an_id_that_expires_during_a_refused_deletion_keeps_no_group() -> None:
    """GRP-4: it was given out by the group that comes back, and its time is over."""
    model = GroupModel()
    (leader,) = model.stable()
    model.leave(leader)
    model.join(version=4)
    model.hold()
    delete(model)
    model.advance(10_000)
    model.release(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert model.shard.groups["g"].pending_member_ids == set()
    model.advance(1_200_000)
    assert model.shard.groups == {}


def test_a_refused_deletion_keeps_who_has_joined_meanwhile() -> None:
    """The members of the new group go on; its generations follow those that the log knows."""
    model = GroupModel(initial_rebalance_delay_ms=1000)
    (leader,) = model.stable()
    model.leave(leader)
    assert model.generation() == 2
    model.hold()
    delete(model)
    joining = model.join()
    model.release(ErrorCode.NOT_ENOUGH_REPLICAS)
    model.advance(2000)
    assert joining.error is ErrorCode.NONE
    assert joining.response.generation_id == 3


def test_a_refused_deletion_keeps_ids_that_were_given_out_meanwhile() -> None:
    """Who was told MEMBER_ID_REQUIRED by the new group joins the old one."""
    model = GroupModel()
    model.commit({0: 5})
    model.hold()
    delete(model)
    given = model.join(version=4).response.member_id
    model.release(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert model.offsets() == {("t", 0): 5}
    assert model.join(given, version=4).error is ErrorCode.NONE


def test_a_refused_expiry_gives_the_group_back() -> None:
    """OFS-9, as a deletion."""
    model = GroupModel()
    (leader,) = model.stable()
    model.commit({0: 5}, leader, 1)
    model.leave(leader)
    group = model.shard.groups["g"]
    model.fail_with = ErrorCode.NOT_ENOUGH_REPLICAS
    model.advance(WEEK_MS + 600_000)
    assert model.shard.groups == {"g": group}
    assert model.offsets() == {("t", 0): 5}


def test_a_group_that_goes_without_a_record_comes_back_with_its_offsets() -> None:
    """Offsets are being deleted, the group expires behind that, and then both are refused."""
    model = GroupModel()
    model.commit({0: 5})
    model.advance(599_000)
    model.hold()
    model.run(lambda shard, _: shard.commits.delete_topics({"t": bytes(16)}))
    model.advance(2_000)
    assert model.shard.groups == {}
    model.release(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert model.state() == "Empty"
    assert model.offsets() == {("t", 0): 5}


def test_a_refused_first_commit_leaves_no_group() -> None:
    """OFS-5: as if it had never run."""
    model = GroupModel()
    model.fail_with = ErrorCode.NOT_ENOUGH_REPLICAS
    assert model.commit_error({0: 5}) is ErrorCode.NOT_ENOUGH_REPLICAS
    assert model.shard.groups == {}


def test_a_refused_record_of_an_empty_group_is_written_again() -> None:
    """Otherwise the next coordinator would wait for members that left."""
    model = GroupModel()
    (leader,) = model.stable()
    model.fail_with = ErrorCode.NOT_ENOUGH_REPLICAS
    with pytest.raises(KafkaError):
        model.leave(leader)
    assert model.state() == "Empty"
    model.advance(6_000)
    model.fail_with = None
    model.advance(6_000)
    model.restart()
    assert (model.state(), model.generation()) == ("Empty", 2)


def test_a_group_that_comes_back_still_has_its_record_written() -> None:
    """Found by history 231: its deletion was under way when the record was to be written again."""
    model = GroupModel()
    (leader,) = model.stable()
    model.fail_with = ErrorCode.NOT_ENOUGH_REPLICAS
    with pytest.raises(KafkaError):
        model.leave(leader)
    model.advance(4_000)
    model.fail_with = None
    model.hold()
    delete(model)
    model.advance(2_000)
    model.release(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert model.state() == "Empty"
    model.advance(10_000)
    model.restart()
    assert (model.state(), model.generation()) == ("Empty", 2)


# ---- assignments ---------------------------------------------------------------------------------


def test_a_generation_has_one_assignment() -> None:
    """The leader lost its connection, joins again and syncs with another assignment."""
    model = GroupModel()
    leader = model.join(instance="a")
    follower = model.join(instance="b")
    leader = model.join(leader.response.member_id, instance="a")
    first, other = leader.response.member_id, follower.response.member_id
    generation = model.generation()
    waiting = model.sync(other, generation)
    model.hold()
    model.sync(first, generation, {first: b"t-0", other: b"t-1"})
    again = model.join(first, instance="a")
    assert again.response.generation_id == generation
    second = model.sync(first, generation, {first: b"t-1,t-2", other: b"t-0"})
    model.release()
    assert (second.response.assignment, waiting.response.assignment) == (b"t-0", b"t-1")
    model.restart()
    members = model.shard.groups["g"].members
    assert {each: members[each].assignment for each in members} == {first: b"t-0", other: b"t-1"}


def test_replacements_of_one_static_member_are_undone_newest_first() -> None:
    """GRP-18: after two refused ones the first id is in force again, as in the log."""

    async def scenario() -> None:
        world = await World().start()
        joined = await world.join(instance="a")
        await world.sync(joined.member_id, 1, leads=True)
        world.writer.pause()
        replacing = [asyncio.ensure_future(world.join(instance="a")) for _ in range(3)]
        await asyncio.sleep(0.1)
        world.writer.refuse_with = ErrorCode.NOT_ENOUGH_REPLICAS
        world.writer.resume()
        assert all(each.error_code for each in await asyncio.gather(*replacing))
        world.writer.refuse_with = None
        assert await world.heartbeat(joined.member_id, 1) is ErrorCode.NONE
        await world.groups.runtime.close()

    virtually(scenario())


def test_a_refused_replacement_takes_back_all_that_the_member_said() -> None:
    """GRP-18: its topics and its host are in the record that was refused."""
    model = GroupModel()
    (member,) = model.stable(instance="a", client="before")
    model.fail_with = ErrorCode.NOT_ENOUGH_REPLICAS
    topics = (("range", subscription("u")),)
    model.join(instance="a", client="after", protocols=topics)
    group = model.shard.groups["g"]
    assert group.members[member].client_id == "before"
    assert group.subscribed_topics == {"t"}
    model.fail_with = None
    model.join(instance="a", client="after", protocols=topics)
    assert group.subscribed_topics == {"u"}
    model.restart()
    assert model.shard.groups["g"].subscribed_topics == {"u"}


# ---- topics whose names are used again -----------------------------------------------------------


def test_offsets_of_a_deleted_topic_are_not_those_of_the_next_with_its_name() -> None:
    """KIP-516: nobody inherits them, whether they were cleaned up or not."""
    model = GroupModel()
    model.topics.ids["t"] = OLD
    model.commit({0: 5, 1: 5})
    model.topics.ids["t"] = NEW
    assert model.offsets() == {}
    model.commit({1: 7})
    assert model.offsets() == {("t", 1): 7}
    model.run(lambda shard, _: shard.commits.delete_topics({"t": OLD}))
    assert model.offsets() == {("t", 1): 7}
    model.restart()
    assert model.offsets() == {("t", 1): 7}
    assert model.shard.offsets.count() == 1


def transactional_commit(topic_id: bytes = bytes(16)) -> TxnOffsetCommitRequest:
    topic = TxnOffsetCommitRequestTopic(
        name="t",
        topic_id=topic_id,
        partitions=[TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=7)],
    )
    return TxnOffsetCommitRequest(
        transactional_id="x", group_id="g", producer_id=9, producer_epoch=0, topics=[topic]
    )


@pytest.mark.parametrize("is_known", [True, False])
def test_a_transaction_commits_for_the_topic_whose_id_it_names(is_known: bool) -> None:
    """TXN-4, KIP-516: the name may be another's by the time that the transaction is verified."""
    model = GroupModel()
    model.topics.ids["t"] = NEW
    request = transactional_commit(NEW if is_known else OLD)
    reply = model.run(lambda shard, now: shard.commits.commit_in_transaction(request, now, 6, ""))
    code = reply.topics[0].partitions[0].error_code
    assert code == (ErrorCode.NONE if is_known else ErrorCode.UNKNOWN_TOPIC_ID)
    marker = TransactionMarker(ControlType.COMMIT, 0)
    model.run(lambda shard, _: shard.commits.end_transaction(9, 0, marker))
    assert model.offsets() == ({("t", 0): 7} if is_known else {})


@pytest.mark.parametrize("is_committed", [True, False])
def test_the_clean_up_of_a_topic_leaves_what_a_transaction_has_for_the_next_one(
    is_committed: bool,
) -> None:
    """TXN-12: it comes late, as where the coordinator was loading; who commits was told yes."""
    model = GroupModel()
    model.topics.ids["t"] = OLD
    model.commit({0: 5, 1: 5})
    model.topics.ids["t"] = NEW
    request = transactional_commit()
    model.run(lambda shard, now: shard.commits.commit_in_transaction(request, now, 3, ""))
    model.run(lambda shard, _: shard.commits.delete_topics({"t": OLD}))
    marker = TransactionMarker(ControlType.COMMIT if is_committed else ControlType.ABORT, 0)
    model.run(lambda shard, _: shard.commits.end_transaction(9, 0, marker))
    assert model.offsets() == ({("t", 0): 7} if is_committed else {})
    model.advance(600_001)
    assert model.shard.offsets.count() == is_committed, "what is left of the old topic expires"


def test_offsets_of_another_topic_of_that_name_expire_at_once() -> None:
    """Their clean-up had failed, and the name is in use: they can never be asked for again."""
    model = GroupModel()
    model.topics.ids["t"] = OLD
    (leader,) = model.stable(session_ms=1_800_000)
    model.commit({0: 5}, leader, 1)
    model.topics.ids["t"] = NEW
    model.advance(600_001)
    assert model.shard.offsets.count() == 0


def test_an_offset_without_an_id_is_of_the_topic_that_is_there_when_it_is_loaded() -> None:
    """Written by an earlier release, or imported."""
    model = GroupModel()
    model.commit({0: 5})
    model.topics.ids["t"] = OLD
    model.restart()
    assert model.offsets() == {("t", 0): 5}
    model.topics.ids["t"] = NEW
    assert model.offsets() == {}
    model.topics.ids["t"] = None
    model.restart()
    model.topics.ids["t"] = NEW
    assert model.offsets() == {}


def test_topics_that_are_deleted_while_a_coordinator_loads_are_cleaned_up_then() -> None:
    """OFS-10."""

    async def scenario() -> None:
        world = await World().start()
        await world.commit(5)
        world.groups.runtime.unload(PARTITION)
        world.writer.reads_going.clear()
        world.groups.runtime.load(PARTITION, 3)
        cleaning = asyncio.ensure_future(world.groups.on_topics_deleted({"t": OLD}))
        await asyncio.sleep(1)
        world.writer.reads_going.set()
        await cleaning
        assert world.groups.offset_count() == 0
        await world.groups.runtime.close()

    virtually(scenario())


# ---- transactions of an imported log -------------------------------------------------------------


def test_a_superseded_offset_of_a_transaction_is_not_pending() -> None:
    """It cannot come into force any more, so it blocks neither readers nor the group."""
    model = GroupModel()
    key = OffsetKey("g", "t", 0)
    model.shard.offsets.put_pending(5, key, CommittedOffset(3, -1, "", model.wall_ms))
    assert model.shard.offsets.is_pending(key)
    model.commit({0: 4})
    assert not model.shard.offsets.is_pending(key)
    assert delete(model) is ErrorCode.NONE
    assert model.shard.groups == {}


def test_a_deleted_group_takes_undecided_transactions_along() -> None:
    """OFS-10: an imported log may have one that nobody will ever end."""
    model = GroupModel()
    model.commit({1: 4})
    key = OffsetKey("g", "t", 0)
    model.shard.offsets.put_pending(5, key, CommittedOffset(3, -1, "", model.wall_ms))
    model.hold()
    delete(model)
    model.release(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert model.shard.offsets.is_pending(key)
    assert delete(model) is ErrorCode.NONE
    assert model.shard.groups == {}
    model.shard.offsets.end_transaction(5, is_committed=True)
    assert model.offsets() == {}


# ---- late outcomes -------------------------------------------------------------------------------


def test_a_sync_whose_append_hangs_begins_another_rebalance() -> None:
    """GRP-11: nobody acts on an assignment that may be lost; members are told in time."""

    async def scenario() -> None:
        world = await World().start()
        joined = await world.join()
        world.writer.pause()
        synced = await world.sync(joined.member_id, 1, leads=True)
        assert synced.error_code != 0
        assert synced.assignment == b""
        world.writer.resume()
        await asyncio.sleep(0.1)
        again = await world.join(joined.member_id)
        assert (again.error_code, again.generation_id) == (0, 2)
        assert (await world.sync(joined.member_id, 2, leads=True)).assignment == b"all"
        await world.groups.runtime.close()

    virtually(scenario())


def test_a_deletion_that_hangs_is_not_undone() -> None:
    """It is in the log, and will be in force."""

    async def scenario() -> None:
        world = await World().start()
        member = await world.stable()
        leave = LeaveGroupRequest(group_id=GROUP, member_id=member)
        await world.groups.leave_group(leave, context(2))
        world.writer.pause()
        request = DeleteGroupsRequest(groups_names=[GROUP])
        late = (await world.groups.delete_groups(request, context(2))).results[0]
        assert late.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        world.writer.resume()
        await asyncio.sleep(0.1)
        gone = (await world.groups.delete_groups(request, context(2))).results[0]
        assert gone.error_code == ErrorCode.GROUP_ID_NOT_FOUND
        await world.groups.runtime.close()

    virtually(scenario())
