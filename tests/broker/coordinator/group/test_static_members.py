"""Static members: instance ids that outlive restarts of their clients."""

from barnabas_protocol.errors import ErrorCode
from tests.support.group_model import GROUP, GroupModel, subscription


def static_pair(model: GroupModel) -> list[str]:
    """A Stable group of the instances a (leader) and b."""
    first = model.join(instance="a", version=9)
    second = model.join(instance="b", version=9)
    model.join(first.response.member_id, instance="a", version=9)
    ids = [first.response.member_id, second.response.member_id]
    assert second.error is ErrorCode.NONE
    model.sync(ids[1], 2)
    model.sync(ids[0], 2, {ids[0]: b"A", ids[1]: b"B"})
    assert model.state() == "Stable"
    return ids


def test_a_restarted_static_follower_takes_its_place_without_a_rebalance() -> None:
    """GRP-18, GRP-20: the new id is written, the old one is fenced, the assignment stays."""
    model = GroupModel()
    ids = static_pair(model)
    written = len(model.log)
    ticket = model.join(instance="b", version=9)
    new_id = ticket.response.member_id
    assert new_id != ids[1]
    assert ticket.response.generation_id == 2
    assert not ticket.response.skip_assignment
    assert ticket.response.members == []
    assert model.state() == "Stable"
    assert len(model.log) == written + 1
    fenced = ErrorCode.FENCED_INSTANCE_ID
    assert model.heartbeat(ids[1], 2, group_instance_id="b") is fenced
    assert model.sync(ids[1], 2, group_instance_id="b").error is fenced
    assert model.join(ids[1], instance="b", version=9).error is fenced
    assert model.commit_error({0: 1}, ids[1], 2, instance="b") is fenced
    assert model.heartbeat(new_id, 2, group_instance_id="b") is ErrorCode.NONE
    assert model.sync(new_id, 2, group_instance_id="b").response.assignment == b"B"


def test_a_restarted_static_leader_is_told_not_to_assign() -> None:
    """GRP-18: from version 9 by SkipAssignment, with the members."""
    model = GroupModel()
    static_pair(model)
    ticket = model.join(instance="a", version=9)
    assert ticket.response.skip_assignment
    assert ticket.response.leader == ticket.response.member_id
    assert len(ticket.response.members) == 2
    assert model.sync(ticket.response.member_id, 2).response.assignment == b"A"


def test_before_version_9_a_restarted_static_leader_sees_its_old_id_lead() -> None:
    """GRP-18: or it would compute an assignment that nobody waits for."""
    model = GroupModel()
    ids = static_pair(model)
    ticket = model.join(instance="a", version=5)
    assert ticket.response.leader == ids[0] != ticket.response.member_id
    assert ticket.response.members == []
    assert not ticket.response.skip_assignment
    assert model.shard.groups[GROUP].leader_id == ticket.response.member_id


def test_a_static_member_that_changes_the_chosen_protocol_starts_a_rebalance() -> None:
    """GRP-18."""
    model = GroupModel()
    both = (("range", subscription("t")), ("sticky", subscription("t")))
    first = model.join(instance="a", protocols=both, version=9)
    member_id = first.response.member_id
    model.sync(member_id, 1, {member_id: b"A"})
    again = model.join(instance="a", protocols=both[::-1], version=9)
    assert again.response.generation_id == 2
    assert again.response.protocol_name == "sticky"


def test_a_static_member_that_returns_during_a_rebalance_joins_it() -> None:
    """GRP-18: its old id's parked join is fenced."""
    model = GroupModel()
    ids = static_pair(model)
    old = model.join(ids[0], instance="a", version=9)
    new = model.join(instance="a", version=9)
    assert old.error is ErrorCode.FENCED_INSTANCE_ID
    assert new.is_parked
    model.join(ids[1], instance="b", version=9)
    assert new.response.generation_id == 3


def test_a_static_member_that_returns_while_completing_starts_a_rebalance() -> None:
    """GRP-18, GRP-13: its old id's parked sync is fenced, the others are told to join."""
    model = GroupModel()
    ids = static_pair(model)
    model.join(ids[0], instance="a", version=9)
    model.join(ids[1], instance="b", version=9)
    assert model.state() == "CompletingRebalance"
    old = model.sync(ids[1], 3)
    new = model.join(instance="b", version=9)
    assert old.error is ErrorCode.FENCED_INSTANCE_ID
    assert new.is_parked
    assert model.state() == "PreparingRebalance"


def test_a_failed_replacement_leaves_the_old_id_in_place() -> None:
    """GRP-18, OFS-6."""
    model = GroupModel()
    ids = static_pair(model)
    model.fail_with = ErrorCode.NOT_ENOUGH_REPLICAS
    ticket = model.join(instance="b", version=9, session_ms=20_000)
    assert ticket.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert list(model.shard.groups[GROUP].members) == ids
    assert model.heartbeat(ids[1], 2, group_instance_id="b") is ErrorCode.NONE
    assert model.shard.groups[GROUP].members[ids[1]].session_timeout_ms == 10_000


def test_an_unknown_instance_id_is_an_unknown_member() -> None:
    """GRP-18."""
    model = GroupModel()
    ids = static_pair(model)
    assert model.heartbeat(ids[0], 2, group_instance_id="z") is ErrorCode.UNKNOWN_MEMBER_ID


def test_an_admin_removes_a_static_member_by_its_instance_id() -> None:
    """GRP-17."""
    model = GroupModel()
    ids = static_pair(model)
    errors = model.leave_many(("", "b"), ("", "z"), (ids[1], "a"))
    assert errors == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_INSTANCE_ID,
    ]
    assert list(model.shard.groups[GROUP].members) == ids[:1]


def test_a_static_member_that_is_away_stays_until_its_session_ends() -> None:
    """GRP-7, GRP-12: a rebalance goes on without it and does not remove it."""
    model = GroupModel()
    ids = [model.join(instance="a", session_ms=300_000, version=5).response.member_id]
    joined = model.join(instance="b", session_ms=300_000, version=5)
    model.join(ids[0], instance="a", session_ms=300_000, version=5)
    ids.append(joined.response.member_id)
    model.sync(ids[1], 2)
    model.sync(ids[0], 2, {})
    ticket = model.join(ids[0], instance="a", session_ms=300_000, version=5)
    model.advance(60_000)
    assert len(ticket.response.members) == 2
    model.sync(ids[0], 3, {ids[0]: b"A", ids[1]: b"B"})
    model.advance(100_000)
    assert ids[1] in model.shard.groups[GROUP].members
    model.heartbeat(ids[0], 3)
    model.advance(140_000)
    assert ids[1] not in model.shard.groups[GROUP].members


def test_a_rebalance_that_no_static_member_rejoins_goes_on_waiting() -> None:
    """GRP-7: until sessions end; then the group is Empty."""
    model = GroupModel()
    ids = [model.join(instance="a", session_ms=150_000, version=5).response.member_id]
    model.sync(ids[0], 1, {})
    newcomer = model.join(session_ms=150_000)
    newcomer_id = next(each for each in model.shard.groups[GROUP].members if each != ids[0])
    model.leave(newcomer_id)
    assert newcomer.error is ErrorCode.UNKNOWN_MEMBER_ID
    model.advance(120_000)
    assert model.state() == "PreparingRebalance"
    assert list(model.shard.groups[GROUP].members) == ids
    model.advance(30_000)
    assert model.state() == "Empty"


def test_static_membership_survives_a_restart() -> None:
    """GRP-20."""
    model = GroupModel()
    ids = static_pair(model)
    model.restart()
    assert model.heartbeat(ids[1], 2, group_instance_id="b") is ErrorCode.NONE
    ticket = model.join(instance="b", version=9)
    assert ticket.response.generation_id == 2
    assert model.sync(ticket.response.member_id, 2).response.assignment == b"B"


def test_static_members_without_time_to_rejoin_do_not_keep_the_timers_busy() -> None:
    """GRP-7: their group waits for their sessions, and not in one turn of the loop after the other.

    A rebalance timeout of 0 made the coordinator look again at once, for as long as the session.
    """
    model = GroupModel()
    first = model.join(instance="a", version=9, rebalance_ms=0)
    model.sync(first.response.member_id, 1, {first.response.member_id: b"A"})
    other = model.join(version=3, rebalance_ms=0)
    assert (model.state(), other.is_parked) == ("PreparingRebalance", True)
    (other_id,) = model.shard.groups[GROUP].members.keys() - {first.response.member_id}
    model.leave(other_id)
    fired = 0
    while fired < 10 and (action := model.shard.timers.take_due(model.now_ms)) is not None:
        action(model.now)
        fired += 1
    assert fired < 10
    assert model.state() == "PreparingRebalance"
    model.advance(10_000)
    assert model.state() == "Empty"
