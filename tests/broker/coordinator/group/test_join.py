"""JoinGroup: ids, protocols, delays, parked joins."""

import pytest

from barnabas_protocol.errors import ErrorCode
from tests.support.group_model import GROUP, RANGE, GroupModel, subscription

OTHER = (("range", subscription("other")),)


def test_a_session_timeout_outside_the_limits_is_refused() -> None:
    """GRP-2."""
    model = GroupModel()
    for session_ms in (5999, 1_800_001, -1):
        assert model.join(session_ms=session_ms).error is ErrorCode.INVALID_SESSION_TIMEOUT
    assert model.shard.groups == {}
    for session_ms in (6000, 1_800_000):
        assert model.join(session_ms=session_ms, group=str(session_ms)).error is ErrorCode.NONE


def test_a_member_id_in_an_unknown_group_is_unknown() -> None:
    """GRP-2."""
    model = GroupModel()
    assert model.join("somebody").error is ErrorCode.UNKNOWN_MEMBER_ID
    assert model.shard.groups == {}


@pytest.mark.parametrize("fields", [{"protocols": ()}, {"protocol_type": ""}])
def test_a_join_without_protocols_is_refused(fields: dict[str, object]) -> None:
    """GRP-3."""
    model = GroupModel()
    assert model.join(**fields).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert model.shard.groups == {}


def test_a_join_that_shares_no_protocol_or_type_is_refused() -> None:
    """GRP-3."""
    model = GroupModel()
    model.stable()
    assert model.join(protocols=(("x", b""),)).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert model.join(protocol_type="connect").error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert model.join("unknown").error is ErrorCode.UNKNOWN_MEMBER_ID
    assert model.state() == "Stable"


def test_the_first_member_leads_and_learns_of_all_members() -> None:
    """GRP-4, GRP-7: followers are told nobody."""
    model = GroupModel()
    ids = model.stable(2)
    leader, follower = model.join(ids[0]), model.join(ids[1])
    assert leader.response.leader == follower.response.leader == ids[0]
    assert [each.member_id for each in leader.response.members] == ids
    assert leader.response.members[0].metadata == RANGE[0][1]
    assert follower.response.members == []
    assert leader.response.generation_id == follower.response.generation_id == 3
    assert leader.response.protocol_name == "range"
    assert leader.response.protocol_type == "consumer"


def test_member_ids_start_with_the_client_or_instance_id() -> None:
    """GRP-4: followed by a uuid in Java's form."""
    model = GroupModel()
    dynamic = model.join(client="app").response.member_id
    static = GroupModel().join(client="app", instance="node-1").response.member_id
    assert dynamic.startswith("app-")
    assert static.startswith("node-1-")
    assert [len(part) for part in dynamic.removeprefix("app-").split("-")] == [8, 4, 4, 4, 12]


def test_from_version_4_a_member_first_gets_its_id() -> None:
    """GRP-4: and counts only with its second join."""
    model = GroupModel()
    first = model.join(version=4)
    assert first.error is ErrorCode.MEMBER_ID_REQUIRED
    assert model.state() == "Empty"
    member_id = first.response.member_id
    second = model.join(member_id, version=4)
    assert second.response.member_id == member_id
    assert second.error is ErrorCode.NONE
    assert model.shard.groups[GROUP].pending_member_ids == set()


def test_a_static_member_joins_at_once_in_every_version() -> None:
    """GRP-18."""
    model = GroupModel()
    assert model.join(instance="i", version=9).error is ErrorCode.NONE


def test_a_pending_id_is_forgotten_after_its_session_timeout() -> None:
    """GRP-4."""
    model = GroupModel()
    member_id = model.join(version=4).response.member_id
    model.advance(9_999)
    assert model.shard.groups[GROUP].pending_member_ids == {member_id}
    model.advance(1)
    assert model.join(member_id, version=4).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_rebalance_waits_for_a_pending_id() -> None:
    """GRP-6: until it joins, or its session timeout is over."""
    for joins in (True, False):
        model = GroupModel()
        (leader,) = model.stable()
        pending_id = model.join(version=4).response.member_id
        again = model.join(leader, protocols=OTHER)
        assert again.is_parked
        if joins:
            assert model.join(pending_id, version=4).error is ErrorCode.NONE
        else:
            model.advance(9_999)
            assert again.is_parked
            model.advance(1)
        assert len(again.response.members) == (2 if joins else 1)


def test_a_pending_id_with_an_instance_id_is_a_mix_up() -> None:
    """GRP-4: static members are never pending."""
    model = GroupModel()
    pending_id = model.join(version=4).response.member_id
    assert model.join(pending_id, instance="i", version=5).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_full_group_turns_newcomers_away() -> None:
    """GRP-3."""
    model = GroupModel(group_size_max=2)
    ids = model.stable(2)
    assert model.join().error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert model.state() == "Stable"
    assert model.join(ids[1]).error is ErrorCode.NONE


def test_in_a_rebalance_of_a_full_group_the_first_come_stay() -> None:
    """GRP-3: a member that comes too late loses its place."""
    model = GroupModel(group_size_max=2)
    ids = model.stable(2)
    first = model.join(ids[0])
    newcomer = model.join()
    assert model.join(ids[1]).error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert first.error is newcomer.error is ErrorCode.NONE
    assert set(model.shard.groups[GROUP].members) == {ids[0], newcomer.response.member_id}


def test_a_full_group_turns_a_pending_id_away_for_good() -> None:
    """GRP-3: and does not wait for it any more."""
    model = GroupModel(group_size_max=1)
    pending_id = model.join(version=4).response.member_id
    model.stable()
    assert model.join(pending_id, version=4).error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert model.shard.groups[GROUP].pending_member_ids == set()


def test_an_unchanged_follower_gets_the_current_generation() -> None:
    """GRP-5: Stable, no rebalance."""
    model = GroupModel()
    _, follower = model.stable(2)
    ticket = model.join(follower)
    assert ticket.response.generation_id == model.generation() == 2
    assert ticket.response.members == []
    assert model.state() == "Stable"


def test_the_leader_or_new_metadata_start_a_rebalance() -> None:
    """GRP-5, transition Stable -> PreparingRebalance."""
    for rejoining in (0, 1):
        model = GroupModel()
        ids = model.stable(2)
        ticket = model.join(ids[rejoining], protocols=OTHER if rejoining else RANGE)
        assert ticket.is_parked
        assert model.state() == "PreparingRebalance"


def test_a_repeated_join_while_completing_gets_the_same_answer() -> None:
    """GRP-5: the leader with the member list; its first answer may have been lost."""
    model = GroupModel()
    leader = model.join().response.member_id
    assert model.state() == "CompletingRebalance"
    again = model.join(leader)
    assert again.response.generation_id == 1
    assert len(again.response.members) == 1
    assert model.state() == "CompletingRebalance"


def test_changed_metadata_while_completing_start_another_rebalance() -> None:
    """GRP-5, transition CompletingRebalance -> PreparingRebalance."""
    model = GroupModel()
    leader = model.join().response.member_id
    again = model.join(leader, protocols=OTHER)
    assert again.response.generation_id == 2
    assert again.response.members[0].metadata == OTHER[0][1]


def test_a_known_id_in_an_empty_group_is_unknown() -> None:
    """GRP-5."""
    model = GroupModel()
    (leader,) = model.stable()
    model.leave(leader)
    assert model.state() == "Empty"
    assert model.join(leader).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_rebalance_waits_for_all_known_members() -> None:
    """GRP-6, GRP-7: and no longer."""
    model = GroupModel()
    ids = model.stable(3)
    tickets = [model.join(ids[0]), model.join(ids[1])]
    assert all(ticket.is_parked for ticket in tickets)
    tickets.append(model.join(ids[2]))
    assert {ticket.response.generation_id for ticket in tickets} == {4}
    assert model.state() == "CompletingRebalance"


def test_after_the_longest_rebalance_timeout_the_missing_are_removed() -> None:
    """GRP-6, GRP-7."""
    model = GroupModel()
    ids = model.stable(2, session_ms=100_000)
    ticket = model.join(ids[0], session_ms=100_000, rebalance_ms=20_000)
    model.advance(59_999)
    assert ticket.is_parked
    model.advance(1)
    assert [each.member_id for each in ticket.response.members] == [ids[0]]
    assert model.heartbeat(ids[1], 3) is ErrorCode.UNKNOWN_MEMBER_ID


def test_an_empty_group_waits_for_more_members() -> None:
    """GRP-6: the delay grows while members arrive, up to the rebalance timeout."""
    model = GroupModel(initial_rebalance_delay_ms=3000)
    tickets = [model.join(rebalance_ms=7000)]
    model.advance(2_999)
    assert tickets[0].is_parked
    tickets.append(model.join(rebalance_ms=7000))
    model.advance(3_000)
    tickets.append(model.join(rebalance_ms=7000))
    assert tickets[0].is_parked
    model.advance(1_000)
    assert model.now_ms == 6_999
    assert tickets[0].is_parked
    model.advance(1)
    assert {ticket.response.generation_id for ticket in tickets} == {1}


def test_without_newcomers_the_initial_delay_is_over_at_once() -> None:
    """GRP-6."""
    model = GroupModel(initial_rebalance_delay_ms=3000)
    ticket = model.join()
    model.advance(3000)
    assert ticket.error is ErrorCode.NONE


def test_a_member_that_leaves_in_the_initial_delay_leaves_an_empty_group() -> None:
    """Transition PreparingRebalance -> Empty: all members left."""
    model = GroupModel(initial_rebalance_delay_ms=3000)
    ticket = model.join()
    member_id = next(iter(model.shard.groups[GROUP].members))
    assert model.leave(member_id) is ErrorCode.NONE
    assert ticket.error is ErrorCode.UNKNOWN_MEMBER_ID
    assert model.state() == "PreparingRebalance"
    model.advance(3000)
    assert model.state() == "Empty"


def test_an_abandoned_join_of_a_new_member_ends_after_five_minutes() -> None:
    """GRP-9: although it is parked; members that know their id keep their session."""
    model = GroupModel()
    ids = model.stable(session_ms=1_000_000, rebalance_ms=1_000_000)
    newcomer = model.join(session_ms=10_000, rebalance_ms=1_000_000)
    model.advance(299_999)
    assert newcomer.is_parked
    model.advance(1)
    assert newcomer.error is ErrorCode.UNKNOWN_MEMBER_ID
    assert list(model.shard.groups[GROUP].members) == ids


def test_a_member_whose_join_is_parked_is_alive() -> None:
    """GRP-15."""
    model = GroupModel()
    ids = model.stable(2, rebalance_ms=100_000)
    ticket = model.join(ids[0], rebalance_ms=100_000)
    for _ in range(9):
        model.advance(9_000)
        assert model.heartbeat(ids[1], 2) is ErrorCode.REBALANCE_IN_PROGRESS
    assert ticket.is_parked
    model.join(ids[1], rebalance_ms=100_000)
    assert ticket.error is ErrorCode.NONE
    model.advance(9_999)
    assert ids[0] in model.shard.groups[GROUP].members
    model.advance(1)
    assert model.state() == "Empty"


def test_a_second_join_of_the_same_member_answers_the_first() -> None:
    """STOP-9: no parked join is forgotten."""
    model = GroupModel()
    ids = model.stable(2)
    first, second = model.join(ids[0]), model.join(ids[0])
    assert first.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert second.is_parked
    model.join(ids[1])
    assert second.error is ErrorCode.NONE


def test_version_0_uses_the_session_timeout_for_rebalances() -> None:
    """GRP-6: it has no rebalance timeout."""
    model = GroupModel()
    model.join(version=0, rebalance_ms=-1, session_ms=12_345)
    assert model.shard.groups[GROUP].rebalance_timeout_ms == 12_345


def test_other_protocol_types_are_opaque() -> None:
    """GRP-3: Connect's workers form groups too."""
    model = GroupModel()
    model.stable(2, protocol_type="connect", protocols=(("default", b"\x00opaque"),))
    assert model.shard.groups[GROUP].protocol_type == "connect"
