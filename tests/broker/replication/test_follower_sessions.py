"""Followers' fetch sessions, through the real handler: what is told, when, and at which cost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

from barnabas_broker.config.topic import LogConfig
from barnabas_broker.metadata.records import MetadataRecord, TopicRecord
from barnabas_broker.replication.leader.fetch_session import EVICTION_IDLE_MS
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.messages import fetch
from barnabas_protocol.records.record import Record, encode_batch
from tests.broker.replication.fetching_follower import WAIT_MS, Follower
from tests.support.replica_nodes import (
    Links,
    ReplicaNode,
    broker_record,
    led_by,
    topic_records,
    until,
)
from tests.support.virtual_loop import run_virtual

Scenario = Callable[[ReplicaNode, "Follower"], Coroutine[Any, Any, None]]


def follow(scenario: Scenario, *, partitions: int = 1, isr: tuple[int, ...] = (0, 1)) -> None:
    """Run a scenario with node 0 as the leader of some partitions."""

    async def run() -> None:
        node = await ReplicaNode(0, Links()).start()
        records: list[MetadataRecord] = [*topic_records()]
        records += [led_by(0, 0, isr=isr, index=index) for index in range(partitions)]
        await node.learn(records)
        await scenario(node, Follower(node))
        await node.stop()

    run_virtual(run())


def now_ms(node: ReplicaNode) -> int:
    return node.clock.monotonic_ms()


def test_idle_partitions_cost_a_fetch_nothing() -> None:
    """REQ-9, KIP-227: 1,000 idle partitions wait once, are not looked at, and are not answered."""

    async def test(node: ReplicaNode, follower: Follower) -> None:
        await follower.fetch(dict.fromkeys(range(1_000), 0), wait_ms=0)
        assert await follower.fetch() == {}
        assert now_ms(node) >= WAIT_MS
        finds = 0
        find = node.replicas.follower_sessions.find

        def counted(request: Any) -> Any:
            nonlocal finds
            finds += 1
            return find(request)

        node.replicas.follower_sessions.find = counted
        waiting = asyncio.ensure_future(follower.fetch())
        await asyncio.sleep(0)
        assert node.replicas.fetch_purgatory.watched_count == 1
        node.produce(b"v", index=7)
        assert list(await waiting) == [7]
        assert finds <= 3

    follow(test, partitions=1_000)


def test_records_of_one_turn_come_in_one_answer() -> None:
    """REQ-6: a parked fetch is woken by appends, when all of the turn's are written."""

    async def test(node: ReplicaNode, follower: Follower) -> None:
        await follower.fetch({0: 0, 1: 0, 2: 0}, wait_ms=0)
        waiting = asyncio.ensure_future(follower.fetch())
        await asyncio.sleep(0.01)
        for index in (2, 0):
            batch = encode_batch([Record(0, 1_700_000_000_000, None, b"v")])
            node.partition(index).append(memoryview(bytearray(batch)), 1, node.clock.wall_ms())
        assert set(await waiting) == {0, 2}
        assert now_ms(node) < WAIT_MS

    follow(test, partitions=3)


def test_what_was_sent_comes_again_until_the_follower_has_it() -> None:
    """REP-3: only the next fetch offset says that records have arrived."""

    async def test(node: ReplicaNode, follower: Follower) -> None:
        node.produce(b"a", b"b")
        assert (await follower.fetch({0: 0}))[0].records
        assert (await follower.fetch())[0].records
        assert node.log.high_watermark == 0
        answer = await follower.fetch({0: 2})
        assert not answer[0].records
        assert answer[0].high_watermark == 2
        assert await follower.fetch() == {}

    follow(test)


def test_the_watermark_is_told_with_the_next_answer_and_wakes_nobody() -> None:
    """REP-5: a follower's watermark may be one round behind."""

    async def test(node: ReplicaNode, follower: Follower) -> None:
        node.produce(b"a")
        await follower.fetch({0: 0}, wait_ms=0)
        began_ms = now_ms(node)
        answer = await follower.fetch({0: 1})
        assert now_ms(node) - began_ms >= WAIT_MS
        assert answer[0].high_watermark == 1

    follow(test)


def test_a_limit_of_bytes_starves_no_partition() -> None:
    """REQ-8: who was answered is asked last."""

    async def test(node: ReplicaNode, follower: Follower) -> None:
        for index in range(4):
            node.produce(b"v" * 100, index=index)
        told: list[int] = []
        await_offsets: dict[int, int] | None = dict.fromkeys(range(4), 0)
        for _ in range(4):
            answer = await follower.fetch(await_offsets, max_bytes=50)
            await_offsets = None
            told += [index for index, data in answer.items() if data.records]
        assert sorted(told) == [0, 1, 2, 3]

    follow(test, partitions=4)


def test_another_history_is_told_and_counts_for_nothing() -> None:
    """REP-16, REP-3: a fetch whose last epoch ends earlier here says nothing of what it has."""

    async def test(node: ReplicaNode, follower: Follower) -> None:
        node.produce(b"a", b"b")
        await node.learn([led_by(0, 1, isr=(0, 1))])
        node.produce(b"c")
        answer = await follower.fetch({0: 3}, leader_epoch=1, last_epoch=0)
        assert (answer[0].diverging_epoch.epoch, answer[0].diverging_epoch.end_offset) == (0, 2)
        state = node.partition().followers.get(1)
        assert state is not None
        assert state.log_end_offset == -1
        assert node.log.high_watermark == 0

    follow(test)


def test_an_offset_outside_of_the_log_is_an_error_at_once() -> None:
    """REP-12: OFFSET_OUT_OF_RANGE, told once for each time it is asked."""

    async def test(node: ReplicaNode, follower: Follower) -> None:
        answer = await follower.fetch({0: 5})
        assert answer[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert now_ms(node) < WAIT_MS
        assert await follower.fetch() == {}
        assert (await follower.fetch({0: 6}))[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE

    follow(test)


def test_a_refused_follower_is_not_caught_up_by_appends() -> None:
    """REP-6: one that asks for what is not there leaves the ISR, however often it asks."""

    async def test(node: ReplicaNode, follower: Follower) -> None:
        asked: list[tuple[int, ...]] = []

        class Controller:
            def propose(self, partition: Any, isr: tuple[int, ...]) -> None:
                asked.append(isr)

        node.replicas.alter_partition_manager = Controller()
        await follower.fetch({0: 9})
        for _ in range(80):
            node.produce(b"v")
            await follower.fetch(wait_ms=0)
            await asyncio.sleep(WAIT_MS / 1000)
        node.partition().check_isr_shrink(now_ms(node))
        assert asked == [(0,)]

    follow(test)


def test_an_idle_follower_was_caught_up_until_its_last_fetch() -> None:
    """REP-6: it did not name the partition for an hour, as there was nothing to say."""

    async def test(node: ReplicaNode, follower: Follower) -> None:
        await follower.fetch({0: 0}, wait_ms=0)
        for _ in range(200):
            await follower.fetch()
        node.produce(b"v")
        node.partition().check_isr_shrink(now_ms(node))
        assert node.partition().proposed_isr is None
        state = node.partition().followers.get(1)
        assert state is not None
        assert now_ms(node) - state.last_caught_up_ms <= 2 * WAIT_MS

    follow(test)


def test_a_leader_that_moves_away_is_told_at_once() -> None:
    """LEAD-11, REQ-6: a parked follower hears NOT_LEADER_OR_FOLLOWER with the change."""

    async def test(node: ReplicaNode, follower: Follower) -> None:
        await follower.fetch({0: 0, 1: 0}, wait_ms=0)
        waiting = asyncio.ensure_future(follower.fetch())
        await asyncio.sleep(0.01)
        await node.learn([led_by(1, 1, isr=(0, 1))])
        answer = await waiting
        assert now_ms(node) < WAIT_MS
        assert answer[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert 1 not in answer

    follow(test, partitions=2)


def test_what_was_fetched_from_an_earlier_leadership_does_not_count() -> None:
    """REP-3, LEAD-11: a follower without leader epochs has to say anew what it has."""

    async def test(node: ReplicaNode, follower: Follower) -> None:
        node.produce(b"a")
        await follower.fetch({0: 1}, leader_epoch=-1, wait_ms=0)
        assert node.log.high_watermark == 1
        await node.learn([led_by(1, 1, isr=(0, 1))])
        await node.learn([led_by(0, 2, isr=(0, 1))])
        node.produce(b"b")
        state = node.partition().followers.get(1)
        assert state is not None
        assert state.log_end_offset == -1
        answer = await follower.fetch()
        assert answer[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER

    follow(test)


def test_a_session_of_an_earlier_leadership_takes_nothing_from_the_present_one() -> None:
    """KIP-227: a follower leaves sessions behind where it stopped following; all sit in the cache.

    One of them waits for the partition, which was moved away from here since, to come back.
    """

    async def test(node: ReplicaNode, follower: Follower) -> None:
        await follower.fetch({0: 0}, wait_ms=0)
        left_behind = follower.session
        await node.learn([led_by(1, 1, isr=(1,), replicas=(1, 2))])
        assert left_behind.waiting
        await node.learn([led_by(1, 2, isr=(1,), replicas=(0, 1))])
        follower.session_id = follower.session_epoch = 0
        waiting = asyncio.ensure_future(follower.fetch({0: 0}, leader_epoch=3))
        await asyncio.sleep(0.01)
        await node.learn([led_by(0, 3, isr=(0, 1))])
        await waiting
        waiting = asyncio.ensure_future(follower.fetch())
        await asyncio.sleep(0.01)
        node.produce(b"v")
        assert (await waiting)[0].records
        assert not left_behind.followed

    follow(test)


def test_what_an_earlier_incarnation_asked_too_late_takes_nothing_from_the_newer_one() -> None:
    """KIP-903: a killed follower's last bytes may be read after its next process has asked."""

    async def test(node: ReplicaNode, follower: Follower) -> None:
        await follower.fetch({0: 0}, wait_ms=0)
        await node.learn([broker_record(1, broker_epoch=2)])
        newer = Follower(node, broker_epoch=2)
        await newer.fetch({0: 0}, wait_ms=0)
        await follower.fetch({0: 0}, wait_ms=0)
        waiting = asyncio.ensure_future(newer.fetch())
        await asyncio.sleep(0.01)
        node.produce(b"v")
        assert (await waiting)[0].records

    follow(test)


def test_a_new_leader_epoch_tells_the_watermark_again() -> None:
    """REP-4, REP-16: who has cut its log since may have lost what it was told before."""

    async def test(node: ReplicaNode, follower: Follower) -> None:
        node.produce(b"a")
        await follower.fetch({0: 0}, wait_ms=0)
        assert (await follower.fetch({0: 1}, wait_ms=0))[0].high_watermark == 1
        assert await follower.fetch({0: 1}, wait_ms=0) == {}
        await node.learn([led_by(0, 1, isr=(0, 1))])
        answer = await follower.fetch({0: 1}, leader_epoch=1, last_epoch=0, wait_ms=0)
        assert answer[0].high_watermark == 1
        assert answer[0].error_code == ErrorCode.NONE
        again = await follower.fetch({0: 1}, leader_epoch=1, last_epoch=0, wait_ms=0)
        assert again == {}

    follow(test)


def test_an_old_leader_epoch_is_fenced() -> None:
    """REP-17: FENCED_LEADER_EPOCH, with who leads in which epoch (KIP-951)."""

    async def test(node: ReplicaNode, follower: Follower) -> None:
        await node.learn([led_by(0, 3, isr=(0, 1))])
        answer = await follower.fetch({0: 0}, leader_epoch=2)
        assert answer[0].error_code == ErrorCode.FENCED_LEADER_EPOCH
        assert (answer[0].current_leader.leader_id, answer[0].current_leader.leader_epoch) == (0, 3)

    follow(test)


def test_a_follower_that_knows_more_than_the_leader_is_answered_when_that_has_learned() -> None:
    """REP-17: the metadata is on its way; an error would only make the follower pause."""

    async def test(node: ReplicaNode, follower: Follower) -> None:
        await node.learn([led_by(1, 1, isr=(0, 1))])
        waiting = asyncio.ensure_future(follower.fetch({0: 0}, leader_epoch=2))
        await asyncio.sleep(0.1)
        assert not waiting.done()
        await node.learn([led_by(0, 2, isr=(0, 1))])
        state = node.partition().followers.get(1)
        assert state is not None
        assert state.log_end_offset == 0
        node.produce(b"v")
        assert (await waiting)[0].records
        assert now_ms(node) < WAIT_MS

    follow(test)


def test_what_stays_unknown_is_told_when_the_time_is_up() -> None:
    """REP-17, REQ-5: UNKNOWN_LEADER_EPOCH after the wait, not before and not never."""

    async def test(node: ReplicaNode, follower: Follower) -> None:
        answer = await follower.fetch({0: 0}, leader_epoch=9)
        assert answer[0].error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
        assert now_ms(node) >= WAIT_MS

    follow(test)


def test_a_partition_that_is_made_meanwhile_is_followed_without_an_error() -> None:
    """A new topic reaches brokers at different times: its follower may ask before it is here."""

    async def test(node: ReplicaNode, follower: Follower) -> None:
        topic_id = b"n" * 16
        waiting = asyncio.ensure_future(follower.fetch({0: 0}, topic_id=topic_id))
        await asyncio.sleep(0.1)
        await node.learn(
            [
                TopicRecord(name="new", topic_id=topic_id),
                replace(led_by(0, 0, isr=(0,)), topic_id=topic_id),
            ]
        )
        (partition,) = [p for p in node.replicas.partitions.values() if p.topic_id == topic_id]
        state = partition.followers.get(1)
        assert state is not None
        assert state.log_end_offset == 0
        answer = await waiting
        assert answer[0].error_code == ErrorCode.NONE
        assert not node.replicas.follower_sessions.awaited_count

    follow(test)


def test_a_forgotten_partition_is_told_no_more() -> None:
    """REQ-9: neither records nor errors."""

    async def test(node: ReplicaNode, follower: Follower) -> None:
        await follower.fetch({0: 0, 1: 0}, wait_ms=0)
        await follower.fetch(forget=(0,), wait_ms=0)
        node.produce(b"v")
        node.produce(b"v", index=1)
        assert list(await follower.fetch()) == [1]

    follow(test, partitions=2)


def test_a_new_session_takes_over_and_the_old_one_goes() -> None:
    """REQ-10: a follower that restarts leaves nothing behind."""

    async def test(node: ReplicaNode, follower: Follower) -> None:
        await follower.fetch({0: 0}, wait_ms=0)
        old = follower.session
        for _ in range(5):
            anew = Follower(node)
            await anew.fetch({0: 0}, wait_ms=0)
        assert not old.followed
        assert len(node.sessions) <= 2
        node.produce(b"v")
        assert not old.ready
        assert (await anew.fetch())[0].records

    follow(test)


def test_without_room_for_a_session_full_fetches_go_on() -> None:
    """REQ-10: session id 0; nothing of such a fetch stays behind."""

    async def test(node: ReplicaNode, follower: Follower) -> None:
        node.sessions._slots = 0
        node.produce(b"v")
        answer = await follower.fetch({0: 0})
        assert answer[0].records
        assert follower.session_id == 0
        assert node.partition().listener_of(follower.node_id) is None
        await follower.fetch({0: 1}, wait_ms=0)
        assert node.log.high_watermark == 1

    follow(test)


def test_old_versions_have_no_broker_epoch_and_count_for_nothing() -> None:
    """KIP-903: the replica is a field up to version 14, and anybody could be it."""

    async def test(node: ReplicaNode, follower: Follower) -> None:
        node.produce(b"v")
        for version in (14, 13, 5):
            old = Follower(node)
            answer = await old.fetch({0: 1}, version=version, wait_ms=0)
            assert answer[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert node.log.high_watermark == 0

    follow(test)


def test_an_older_incarnation_is_refused() -> None:
    """KIP-903: what a broker fetched before it registered again does not count."""

    async def test(node: ReplicaNode, follower: Follower) -> None:
        node.produce(b"v")
        await node.learn([broker_record(1, broker_epoch=5)])
        answer = await follower.fetch({0: 1})
        assert answer[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert node.log.high_watermark == 0
        again = Follower(node, broker_epoch=5)
        await again.fetch({0: 1}, wait_ms=0)
        assert node.log.high_watermark == 1

    follow(test)


def test_incarnations_that_are_gone_leave_no_sessions_behind() -> None:
    """Of a broker that was killed 300 times, 300 sessions held what they had last been told.

    They were never empty, because its next process asks for other partitions, with other leaders.
    """

    async def test(node: ReplicaNode, follower: Follower) -> None:
        await follower.fetch({0: 0, 1: 0}, wait_ms=0)
        for broker_epoch in range(2, 12):
            await node.learn([broker_record(1, broker_epoch=broker_epoch)])
            await Follower(node, broker_epoch=broker_epoch).fetch({0: 0}, wait_ms=0)
        assert len(node.sessions) == 1

    follow(test, partitions=2)


def test_a_session_that_a_living_follower_left_behind_goes_when_it_is_idle() -> None:
    """Its connection was cut; what is led elsewhere since is in the session still."""

    async def test(node: ReplicaNode, follower: Follower) -> None:
        await follower.fetch({0: 0, 1: 0}, wait_ms=0)
        await asyncio.sleep(EVICTION_IDLE_MS / 1000 + 1)
        await Follower(node).fetch({0: 0}, wait_ms=0)
        assert len(node.sessions) == 1

    follow(test, partitions=2)


def test_what_is_told_of_a_refusal_keeps_no_frames() -> None:
    """They know images of the metadata and logs that are no more."""

    async def test(node: ReplicaNode, follower: Follower) -> None:
        await follower.fetch({0: 0}, wait_ms=0)
        await node.learn([broker_record(1, broker_epoch=5)])
        for _ in range(3):
            answer = await follower.fetch({0: 0}, wait_ms=0)
            assert answer[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        refusals = [one.refusal for one in follower.session.followed.values()]
        assert refusals[0] is not None
        assert refusals[0].__traceback__ is None

    follow(test)


def test_a_second_fetch_does_not_wait_behind_a_parked_one() -> None:
    """KIP-227: answers leave in order, so the parked one gives way."""

    async def test(node: ReplicaNode, follower: Follower) -> None:
        await follower.fetch({0: 0}, wait_ms=0)
        first = asyncio.ensure_future(follower.fetch())
        await asyncio.sleep(0.01)
        follower.session_epoch += 1
        second = asyncio.ensure_future(follower.fetch({1: 0}))
        await first
        assert now_ms(node) < WAIT_MS
        node.produce(b"v", index=1)
        assert list(await second) == [1]

    follow(test, partitions=2)


def test_a_deletion_of_records_is_told_at_once() -> None:
    """SEG-13: DeleteRecords waits for it."""

    async def test(node: ReplicaNode, follower: Follower) -> None:
        node.produce(b"a", b"b")
        await follower.fetch({0: 2}, wait_ms=0)
        waiting = asyncio.ensure_future(follower.fetch())
        await asyncio.sleep(0.01)
        await node.log.delete_records(1)
        node.partition().start_offset_moved()
        answer = await waiting
        assert answer[0].log_start_offset == 1
        assert now_ms(node) < WAIT_MS
        assert node.partition().low_watermark() == 0
        await follower.fetch({0: 2}, start=1, wait_ms=0)
        assert node.partition().low_watermark() == 1

    follow(test)


def test_throttled_records_wait_and_others_pass() -> None:
    """QUO-6, KIP-73: who catches up is held back, who is in sync never."""

    async def test(node: ReplicaNode, follower: Follower) -> None:
        fetches = node.replicas.follower_fetches
        fetches.throttle = node.throttle
        throttled = LogConfig.build({}, {"leader.replication.throttled.replicas": "*"})
        for index in (0, 1):
            node.partition(index).log.update_config(throttled)
        node.throttle.leader.rate = 10
        await node.learn([led_by(0, 0, isr=(0,), partition_epoch=1)])
        node.produce(b"v" * 1_000)
        assert (await follower.fetch({0: 0, 1: 0}))[0].records
        began_ms = now_ms(node)
        assert not any(data.records for data in (await follower.fetch()).values())
        assert now_ms(node) - began_ms >= WAIT_MS
        node.produce(b"w", index=1)  # whose follower is in sync
        answer = await follower.fetch()
        assert [index for index, data in answer.items() if data.records] == [1]

    follow(test, partitions=2)


def test_a_real_follower_of_many_partitions_asks_little() -> None:
    """Both sides together: idle partitions are in no request and in no answer."""

    async def run() -> None:
        links = Links()
        nodes = [await ReplicaNode(node_id, links).start() for node_id in (0, 1)]
        records: list[MetadataRecord] = [*topic_records()]
        records += [led_by(0, 0, isr=(0, 1), index=index) for index in range(200)]
        for node in nodes:
            await node.learn(records)
        leader, follower = nodes
        await asyncio.sleep(5)
        links.requests.clear()
        leader.produce(b"v", index=3, acks=-1)
        await until(lambda: leader.partition(3).log.high_watermark == 1)
        await until(lambda: follower.partition(3).log.high_watermark == 1)
        asked = [
            partition.partition
            for _, _, request in links.requests
            if isinstance(request, fetch.FetchRequest)
            for topic in request.topics
            for partition in topic.partitions
        ]
        assert asked == [3]
        for node in nodes:
            await node.stop()

    run_virtual(run())
