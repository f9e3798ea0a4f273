"""SyncGroup, Heartbeat, LeaveGroup and the sessions of members."""

import pytest

from barnabas_protocol.errors import ErrorCode
from tests.support.group_model import GROUP, GroupModel, Ticket, subscription

OTHER = (("range", subscription("other")),)


def completing(model: GroupModel, count: int = 2) -> list[str]:
    """A group in CompletingRebalance; its ids, the leader first."""
    ids = model.stable(count)
    tickets = [model.join(each) for each in ids]
    assert all(ticket.error is ErrorCode.NONE for ticket in tickets)
    assert model.state() == "CompletingRebalance"
    return ids


def test_syncs_wait_for_the_leader_and_are_answered_together() -> None:
    """GRP-10, GRP-11, transition CompletingRebalance -> Stable; missing members get nothing."""
    model = GroupModel()
    ids = completing(model, 3)
    followers = [model.sync(ids[1], 4), model.sync(ids[2], 4)]
    assert all(ticket.is_parked for ticket in followers)
    leader = model.sync(ids[0], 4, {ids[0]: b"a", ids[1]: b"b"})
    assert [ticket.response.assignment for ticket in (leader, *followers)] == [b"a", b"b", b""]
    assert leader.response.protocol_type == "consumer"
    assert leader.response.protocol_name == "range"
    assert model.state() == "Stable"


def test_the_assignment_is_in_force_only_when_committed() -> None:
    """GRP-11, GRP-20: nobody is told an assignment that could be lost."""
    model = GroupModel()
    ids = completing(model)
    model.hold()
    leader = model.sync(ids[0], 3, {ids[0]: b"a"})
    assert leader.is_parked
    assert model.state() == "CompletingRebalance"
    model.release()
    assert leader.response.assignment == b"a"
    assert model.state() == "Stable"


def test_a_late_sync_gets_the_assignment_at_once() -> None:
    """GRP-10, Stable; GRP-22: a surplus consumer gets an empty one and stays Stable."""
    model = GroupModel()
    ids = completing(model)
    model.sync(ids[0], 3, {ids[0]: b"all"})
    late = model.sync(ids[1], 3)
    assert late.error is ErrorCode.NONE
    assert late.response.assignment == b""
    assert model.state() == "Stable"
    assert model.heartbeat(ids[1], 3) is ErrorCode.NONE


def test_a_failed_append_fails_all_syncs_and_starts_again() -> None:
    """GRP-11, transition CompletingRebalance -> PreparingRebalance."""
    model = GroupModel()
    ids = completing(model)
    follower = model.sync(ids[1], 3)
    model.fail_with = ErrorCode.NOT_ENOUGH_REPLICAS
    leader = model.sync(ids[0], 3, {ids[0]: b"a"})
    assert leader.error is follower.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert model.state() == "PreparingRebalance"
    assert [member.assignment for member in model.shard.groups[GROUP].members.values()] == [b""] * 2
    model.fail_with = None
    tickets = [model.join(each) for each in ids]
    assert {ticket.response.generation_id for ticket in tickets} == {4}


def test_an_append_that_ends_after_the_next_rebalance_began_is_ignored() -> None:
    """GRP-11: whether it succeeds or fails."""
    for code in (None, ErrorCode.NOT_ENOUGH_REPLICAS):
        model = GroupModel()
        ids = completing(model)
        model.hold()
        leader = model.sync(ids[0], 3, {ids[0]: b"a"})
        newcomer = model.join()
        assert leader.error is ErrorCode.REBALANCE_IN_PROGRESS
        model.release(code)
        assert model.state() == "PreparingRebalance"
        assert newcomer.is_parked


def test_a_sync_of_another_generation_member_or_protocol_is_refused() -> None:
    """GRP-10."""
    model = GroupModel()
    ids = completing(model)
    assert model.sync("x", 3).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert model.sync(ids[0], 3, group="x").error is ErrorCode.UNKNOWN_MEMBER_ID
    assert model.sync(ids[0], 2).error is ErrorCode.ILLEGAL_GENERATION
    wrong = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert model.sync(ids[0], 3, protocol_type="connect").error is wrong
    assert model.sync(ids[0], 3, protocol_name="sticky").error is wrong
    right = model.sync(ids[0], 3, protocol_type="consumer", protocol_name="range")
    assert right.error is ErrorCode.NONE


def test_a_sync_during_a_rebalance_is_told_to_join_again() -> None:
    """GRP-10: PreparingRebalance."""
    model = GroupModel()
    ids = model.stable(2)
    model.join(ids[0])
    assert model.sync(ids[1], 2).error is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_sync_in_an_empty_group_is_unknown() -> None:
    """GRP-10."""
    model = GroupModel()
    (leader,) = model.stable()
    model.leave(leader)
    assert model.sync(leader, model.generation()).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_rebalance_answers_parked_syncs() -> None:
    """GRP-13."""
    model = GroupModel()
    ids = completing(model)
    follower = model.sync(ids[1], 3)
    model.join()
    assert follower.error is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_repeated_sync_answers_the_first() -> None:
    """STOP-9."""
    model = GroupModel()
    ids = completing(model)
    first, second = model.sync(ids[1], 3), model.sync(ids[1], 3)
    assert first.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert second.is_parked


@pytest.mark.parametrize("leader_syncs", [False, True])
def test_members_that_do_not_sync_in_time_are_removed(leader_syncs: bool) -> None:
    """GRP-12: within the rebalance timeout, also after the leader synced."""
    model = GroupModel()
    ids = completing(model)
    synced, missing = (ids[0], ids[1]) if leader_syncs else (ids[1], ids[0])
    ticket = model.sync(synced, 3)
    for _ in range(11):
        model.advance(5_000)
        assert model.heartbeat(synced, 3) is ErrorCode.NONE
        assert model.heartbeat(missing, 3) is ErrorCode.NONE
    model.advance(4_999)
    assert missing in model.shard.groups[GROUP].members
    model.advance(1)
    assert list(model.shard.groups[GROUP].members) == [synced]
    assert model.state() == "PreparingRebalance"
    expected = ErrorCode.NONE if leader_syncs else ErrorCode.REBALANCE_IN_PROGRESS
    assert ticket.error is expected
    assert model.shard.groups[GROUP].leader_id == synced


def test_a_sync_timeout_ends_when_all_have_synced() -> None:
    """GRP-12."""
    model = GroupModel()
    model.stable(2, session_ms=600_000)
    model.advance(300_000)
    assert model.state() == "Stable"
    assert len(model.shard.groups[GROUP].members) == 2


def test_heartbeats_answer_by_state() -> None:
    """GRP-14."""
    model = GroupModel()
    assert model.heartbeat("x", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    ids = model.stable(2)
    assert model.heartbeat(ids[0], 2) is ErrorCode.NONE
    assert model.heartbeat("x", 2) is ErrorCode.UNKNOWN_MEMBER_ID
    assert model.heartbeat(ids[0], 1) is ErrorCode.ILLEGAL_GENERATION
    model.join(ids[0])
    assert model.heartbeat(ids[1], 2) is ErrorCode.REBALANCE_IN_PROGRESS
    model.join(ids[1])
    assert model.state() == "CompletingRebalance"
    assert model.heartbeat(ids[1], 3) is ErrorCode.NONE
    model.leave_many((ids[0], None), (ids[1], None))
    assert model.state() == "Empty"
    assert model.heartbeat(ids[0], model.generation()) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_silent_member_expires_after_its_session_timeout() -> None:
    """GRP-15, GRP-16, transitions Stable -> PreparingRebalance -> Empty."""
    model = GroupModel()
    ids = model.stable(2)
    model.advance(5_000)
    assert model.heartbeat(ids[0], 2) is ErrorCode.NONE
    model.advance(4_999)
    assert model.state() == "Stable"
    model.advance(1)
    assert list(model.shard.groups[GROUP].members) == [ids[0]]
    assert model.state() == "PreparingRebalance"
    model.advance(5_000)
    assert model.state() == "Empty"


@pytest.mark.parametrize("request_kind", ["join", "sync", "commit", "heartbeat"])
def test_every_request_of_a_member_counts_as_a_heartbeat(request_kind: str) -> None:
    """GRP-15."""
    model = GroupModel()
    ids = model.stable(2)
    for _ in range(5):
        model.advance(9_000)
        assert model.heartbeat(ids[0], 2) is ErrorCode.NONE
        if request_kind == "join":
            assert model.join(ids[1]).error is ErrorCode.NONE
        elif request_kind == "sync":
            assert model.sync(ids[1], 2).error is ErrorCode.NONE
        elif request_kind == "commit":
            assert model.commit({0: 1}, ids[1], 2) == {0: ErrorCode.NONE}
        else:
            assert model.heartbeat(ids[1], 2) is ErrorCode.NONE
    assert model.state() == "Stable"


def test_a_member_whose_sync_is_parked_is_alive() -> None:
    """GRP-15."""
    model = GroupModel()
    ids = completing(model)
    ticket = model.sync(ids[1], 3)
    for _ in range(5):
        model.advance(9_000)
        model.heartbeat(ids[0], 3)
    assert ticket.is_parked
    model.sync(ids[0], 3, {})
    assert ticket.error is ErrorCode.NONE
    model.advance(9_999)
    assert model.state() == "Stable"


def test_an_expired_member_may_complete_the_join_phase() -> None:
    """GRP-16: PreparingRebalance."""
    model = GroupModel()
    ids = model.stable(2)
    ticket = model.join(ids[0])
    model.advance(9_999)
    assert ticket.is_parked
    model.advance(1)
    assert [each.member_id for each in ticket.response.members] == [ids[0]]


def test_an_expired_member_while_completing_starts_a_rebalance() -> None:
    """GRP-16: CompletingRebalance; the parked syncs are told (GRP-13)."""
    model = GroupModel()
    ids = completing(model)
    ticket = model.sync(ids[1], 3)
    model.advance(10_000)
    assert ticket.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert model.state() == "PreparingRebalance"


def test_leaving_starts_a_rebalance_or_empties_the_group() -> None:
    """GRP-17, GRP-20: the Empty group is written."""
    model = GroupModel()
    ids = model.stable(2)
    assert model.leave("x") is ErrorCode.UNKNOWN_MEMBER_ID
    assert model.leave(ids[0], group="x") is ErrorCode.UNKNOWN_MEMBER_ID
    assert model.leave(ids[0]) is ErrorCode.NONE
    assert model.state() == "PreparingRebalance"
    written = len(model.log)
    assert model.leave(ids[1]) is ErrorCode.NONE
    assert model.state() == "Empty"
    assert len(model.log) == written + 1
    assert model.generation() == 3


def test_a_member_that_leaves_has_its_parked_requests_answered() -> None:
    """GRP-17, STOP-9."""
    model = GroupModel()
    ids = model.stable(2)
    ticket = model.join(ids[0])
    model.leave(ids[0])
    assert ticket.error is ErrorCode.UNKNOWN_MEMBER_ID
    model = GroupModel()
    ids = completing(model)
    ticket = model.sync(ids[1], 3)
    model.leave(ids[1])
    assert ticket.error is ErrorCode.UNKNOWN_MEMBER_ID


def test_several_members_leave_with_an_error_each() -> None:
    """GRP-17: version 3, with one rebalance for all."""
    model = GroupModel()
    ids = model.stable(3)
    errors = model.leave_many((ids[0], None), ("x", None), (ids[1], None))
    assert errors == [ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.NONE]
    assert model.state() == "PreparingRebalance"
    assert list(model.shard.groups[GROUP].members) == [ids[2]]
    assert model.leave_many(("x", None), group="x") == [ErrorCode.UNKNOWN_MEMBER_ID]


def test_a_pending_id_that_leaves_ends_the_wait_and_nothing_else() -> None:
    """GRP-17: a Stable group is not disturbed."""
    model = GroupModel()
    ids = model.stable(2)
    first = model.join(version=4).response.member_id
    assert model.leave(first) is ErrorCode.NONE
    assert model.state() == "Stable"
    second = model.join(version=4).response.member_id
    tickets = [model.join(each) for each in ids]
    assert all(ticket.is_parked for ticket in tickets)
    assert model.leave(second) is ErrorCode.NONE
    assert all(ticket.error is ErrorCode.NONE for ticket in tickets)


def test_closing_answers_everything_parked() -> None:
    """OFS-4, STOP-9: joins of PreparingRebalance and syncs of CompletingRebalance."""
    for phase in ("join", "sync"):
        model = GroupModel()
        ticket: Ticket
        if phase == "join":
            ids = model.stable(2)
            ticket = model.join(ids[0])
        else:
            ids = completing(model)
            ticket = model.sync(ids[1], 3)
        group = model.shard.groups[GROUP]
        model.shard.close(ErrorCode.NOT_COORDINATOR)
        assert ticket.error is ErrorCode.NOT_COORDINATOR
        assert group.state.value == "Dead"
        assert len(model.shard.timers) == 0
