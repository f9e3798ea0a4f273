"""What a follower asks next, and which answers it takes."""

from __future__ import annotations

from barnabas_broker.replication.follower.fetch_plan import (
    QUICK_BACKOFF_MS,
    FetchPlan,
    FetchSettings,
    NumberedRequest,
    PartitionFetchState,
    Progress,
)
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.messages import fetch
from tests.support.simulated_random import SimulatedRandom

TOPIC_ID = bytes(range(16))
OTHER_ID = bytes(reversed(range(16)))
SESSION = 77
BROKER_EPOCH = 5
SETTINGS = FetchSettings(
    wait_ms_max=500,
    min_bytes=1,
    response_bytes_max=10_000,
    partition_bytes_max=1_000,
    backoff_ms=1_000,
    request_timeout_ms=30_000,
)


def followed_at(index: int, offset: int = 0, *, leader_epoch: int = 3) -> PartitionFetchState:
    followed = PartitionFetchState(TopicPartition("t", index), TOPIC_ID, leader_epoch)
    followed.stand_at(offset, leader_epoch - 1, 0)
    return followed


def plan_of(*followed: PartitionFetchState) -> FetchPlan:
    plan = FetchPlan(SETTINGS, 1)
    for item in followed:
        plan.follow(item)
    return plan


def ask_of(plan: FetchPlan, now_ms: int = 0) -> NumberedRequest:
    ask = plan.next_request(now_ms, BROKER_EPOCH)
    assert ask is not None
    return ask


def asked_of(ask: NumberedRequest) -> dict[int, int]:
    """Partition and fetch offset."""
    return {p.partition: p.fetch_offset for t in ask.request.topics for p in t.partitions}


def forgotten_of(ask: NumberedRequest) -> list[int]:
    return [index for t in ask.request.forgotten_topics_data for index in t.partitions]


def answer(
    *partitions: int, session_id: int = SESSION, error: ErrorCode = ErrorCode.NONE
) -> fetch.FetchResponse:
    return fetch.FetchResponse(
        error_code=error,
        session_id=session_id,
        responses=[
            fetch.FetchableTopicResponse(
                topic_id=TOPIC_ID,
                partitions=[fetch.PartitionData(partition_index=index) for index in partitions],
            )
        ],
    )


def begun(*followed: PartitionFetchState) -> FetchPlan:
    """A plan whose session is established."""
    plan = plan_of(*followed)
    ask = ask_of(plan)
    plan.take(ask.number, answer(*[item.key[1] for item in followed]))
    return plan


def test_the_first_request_names_every_partition_and_who_asks() -> None:
    """REP-9, KIP-227, KIP-903: a full request with the follower's broker epoch."""
    ask = ask_of(plan_of(followed_at(0, 10), followed_at(1, 20)))
    assert (ask.request.session_id, ask.request.session_epoch) == (0, 0)
    assert asked_of(ask) == {0: 10, 1: 20}
    state = ask.request.replica_state
    assert (state.replica_id, state.replica_epoch) == (1, BROKER_EPOCH)
    assert ask.request.topics[0].partitions[0].current_leader_epoch == 3
    assert ask.request.topics[0].partitions[0].last_fetched_epoch == 2


def test_an_idle_session_repeats_nothing() -> None:
    """REQ-9: thousands of idle partitions cost an empty request."""
    plan = begun(*[followed_at(index) for index in range(1_000)])
    for epoch in (1, 2, 3):
        ask = ask_of(plan)
        assert (ask.request.session_id, ask.request.session_epoch) == (SESSION, epoch)
        assert not ask.request.topics
        assert plan.take(ask.number, answer()) == []


def test_only_what_has_moved_is_asked_again() -> None:
    """REQ-9: the position of a partition with new records, and no other."""
    a, b = followed_at(0), followed_at(1)
    plan = begun(a, b)
    b.stand_at(5, 3, 0)
    plan.moved(a)  # it has not
    plan.moved(b)
    assert asked_of(ask_of(plan)) == {1: 5}


def test_a_partition_that_left_is_forgotten_once() -> None:
    """KIP-227: the leader's session lets go of it."""
    a, b = followed_at(0), followed_at(1)
    plan = begun(a, b)
    plan.unfollow(a.topic_partition)
    assert forgotten_of(ask_of(plan)) == [0]
    assert forgotten_of(ask_of(plan)) == []


def test_a_partition_that_comes_back_under_a_new_epoch_is_not_forgotten() -> None:
    """REP-9: leader changed and changed back; a session drops what it forgets last."""
    plan = begun(followed_at(0), followed_at(1))
    plan.unfollow(TopicPartition("t", 0))
    plan.follow(followed_at(0, 9, leader_epoch=4))
    ask = ask_of(plan)
    assert asked_of(ask) == {0: 9}
    assert forgotten_of(ask) == []


def test_answers_of_the_former_leader_epoch_are_not_used() -> None:
    """REP-17: what was asked under an older epoch may be of a deposed leader's log."""
    plan = begun(followed_at(0), followed_at(1))
    earlier = ask_of(plan)
    plan.follow(followed_at(0, 9, leader_epoch=4))
    answers = plan.take(earlier.number, answer(0, 1))
    assert answers is not None
    assert [item.followed.key[1] for item in answers] == [1]


def test_an_answer_for_an_older_position_is_late() -> None:
    """REP-11: with two requests under way the leader may send the same records twice."""
    a = followed_at(0)
    plan = begun(a)
    first, second = ask_of(plan), ask_of(plan)
    answers = plan.take(first.number, answer(0))
    assert answers is not None
    assert not answers[0].is_late
    a.stand_at(7, 3, 0)
    plan.moved(a)
    answers = plan.take(second.number, answer(0))
    assert answers is not None
    assert answers[0].is_late


def test_an_answer_from_before_the_newest_position_was_told_is_not_used() -> None:
    """REP-11: by its number it cannot be of the position that was told after it."""
    a = followed_at(0)
    plan = begun(a)
    first, second = ask_of(plan), ask_of(plan)
    plan.take(first.number, answer(0))
    a.stand_at(7, 3, 0)
    plan.moved(a)
    ask_of(plan)
    assert plan.take(second.number, answer(0)) == []


def test_what_was_never_asked_for_is_counted_and_not_used() -> None:
    """REP-11: a leader that answers for partitions that nobody asked it for."""
    plan = begun(followed_at(0))
    ask = ask_of(plan)
    response = answer(0, 5)
    response.responses.append(
        fetch.FetchableTopicResponse(
            topic_id=OTHER_ID, partitions=[fetch.PartitionData(partition_index=0)]
        )
    )
    answers = plan.take(ask.number, response)
    assert answers is not None
    assert [item.followed.key for item in answers] == [(TOPIC_ID, 0)]
    assert plan.unexpected_count == 2


def test_a_delayed_partition_is_left_out_until_its_time() -> None:
    """REP-10: one partition's error does not keep the others from being fetched."""
    a, b = followed_at(0), followed_at(1)
    plan = begun(a, b)
    plan.delay(a, now_ms=100)
    ask = ask_of(plan, 100)
    assert forgotten_of(ask) == [0]
    assert ask.request.max_wait_ms == 500
    ask = ask_of(plan, 900)
    assert ask.request.max_wait_ms == 200  # it is due before a long poll would end
    assert asked_of(ask_of(plan, 1_100)) == {0: 0}
    assert a.progress is Progress.FETCHING


def test_a_quick_delay_doubles_up_to_the_backoff() -> None:
    """REP-10: a leader that does not know of its leadership yet is asked again soon."""
    a = followed_at(0)
    plan = begun(a, followed_at(1))
    waits = []
    for _ in range(9):
        plan.delay(a, 0, is_quick=True)
        waits.append(a.delayed_until_ms)
    assert waits[:3] == [QUICK_BACKOFF_MS, 2 * QUICK_BACKOFF_MS, 4 * QUICK_BACKOFF_MS]
    assert waits[-1] == 1_000


def test_there_is_nothing_to_ask_when_all_wait() -> None:
    """REP-10: no busy loop; the plan says when the next is due."""
    a = followed_at(0)
    plan = begun(a)
    plan.delay(a, now_ms=0)
    assert plan.next_request(10, BROKER_EPOCH) is None
    assert plan.idle_ms(10, 60_000) == 990
    plan.park(a)
    assert plan.next_request(5_000, BROKER_EPOCH) is None
    assert plan.idle_ms(5_000, 60_000) == 60_000


def test_after_a_lost_connection_the_old_session_is_named_and_everything_asked() -> None:
    """REQ-10: the leader can let go of the session that it replaces."""
    a, b = followed_at(0, 4), followed_at(1, 6)
    plan = begun(a, b)
    late = ask_of(plan)
    plan.lost()
    ask = ask_of(plan)
    assert (ask.request.session_id, ask.request.session_epoch) == (SESSION, 0)
    assert asked_of(ask) == {0: 4, 1: 6}
    assert plan.take(late.number, answer(0)) == []  # an answer of the old session
    plan.take(ask.number, answer(0, 1, session_id=78))
    assert (ask_of(plan).request.session_id, plan.has_session) == (78, True)


def test_a_session_error_begins_a_new_one() -> None:
    """REQ-10: 70 and 71 are no fault of the partitions."""
    plan = begun(followed_at(0))
    ask = ask_of(plan)
    assert plan.take(ask.number, answer(error=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)) is None
    ask = ask_of(plan)
    assert asked_of(ask) == {0: 0}
    # After the leader's restart that id may be another follower's.
    assert (ask.request.session_id, ask.request.session_epoch) == (0, 0)


def test_a_leader_without_room_for_a_session_is_asked_in_full_each_time() -> None:
    """REQ-10: session id 0, full fetches go on."""
    plan = plan_of(followed_at(0))
    for _ in range(3):
        ask = ask_of(plan)
        assert (ask.request.session_id, ask.request.session_epoch) == (0, 0)
        assert asked_of(ask) == {0: 0}
        answers = plan.take(ask.number, answer(0, session_id=0))
        assert answers is not None
        assert len(answers) == 1
        assert not plan.has_session


def test_the_plan_and_a_leaders_session_always_agree() -> None:
    """KIP-227: whatever happens, the session holds what is being fetched, where it is fetched."""
    for seed in range(60):
        random = SimulatedRandom(seed)
        plan = FetchPlan(SETTINGS, 1)
        session: dict[int, int] = {}
        now_ms = 0
        for _ in range(200):
            now_ms += random.integer(50)
            index = random.integer(8)
            known = plan.followed.get(TopicPartition("t", index))
            match random.integer(7):
                case 0:
                    plan.follow(followed_at(index, random.integer(100), leader_epoch=now_ms))
                case 1:
                    plan.unfollow(TopicPartition("t", index))
                case 2 if known is not None:
                    plan.delay(known, now_ms, is_quick=random.integer(2) == 0)
                case 3 if known is not None:
                    plan.park(known)
                case 4 if known is not None:
                    known.stand_at(known.fetch_offset + 1, 3, 0)
                    plan.moved(known)
                case 5 if random.integer(5) == 0:
                    plan.lost()
                case _:
                    ask = plan.next_request(now_ms, BROKER_EPOCH)
                    if ask is None:
                        continue
                    if ask.request.session_epoch == 0:
                        session.clear()
                    session.update(asked_of(ask))
                    for gone in forgotten_of(ask):
                        session.pop(gone, None)
                    fetching = {
                        item.key[1]: item.fetch_offset
                        for item in plan.followed.values()
                        if item.progress is Progress.FETCHING
                    }
                    assert session == fetching, f"seed {seed}"
                    assert plan.take(ask.number, answer()) == []
