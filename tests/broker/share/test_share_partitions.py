"""Share partitions on their leader: loading, fetches that wait, writes, sessions, fencing."""

from __future__ import annotations

import asyncio

import pytest

from barnabas_broker.share import delayed_share_fetch
from barnabas_broker.share.acquisition import AcquireParameters
from barnabas_broker.share.delayed_share_fetch import ShareFetchParameters
from barnabas_broker.share.loaded_share_partition import LoadedSharePartition, LoadState
from barnabas_broker.share.persister import StateBatch
from barnabas_broker.share.record_states import RecordState
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.records.batch import iterate_headers
from barnabas_protocol.records.control import ControlType, encode_marker
from barnabas_protocol.records.record import Record, encode_batch
from tests.broker.share.share_bench import GROUP, ShareBench, at, key, share
from tests.support.replica_nodes import TOPIC, led_by, soon, until

ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4


# Loading.


def test_fetches_wait_while_the_state_is_read_once() -> None:
    """SHR-3: the first fetch loads it, the others wait with it."""

    async def scenario(bench: ShareBench) -> None:
        bench.produce(4)
        bench.persister.hold()
        first, second = bench.member("a"), bench.member("b")
        fetches = [
            asyncio.ensure_future(one.acquire(records_max=2, is_record_limit=True))
            for one in (first, second)
        ]
        await soon(lambda: bench.broker.shares.purgatory.pending_count == 2)
        assert bench.broker.loaded().load_state is LoadState.INITIALIZING
        bench.persister.release()
        assert sorted([*await fetches[0], *await fetches[1]]) == [(0, 1, 1), (2, 3, 1)]
        assert bench.persister.read_count == 1

    share(scenario)


@pytest.mark.parametrize(
    ("answered", "seen"),
    [
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (ErrorCode.FENCED_STATE_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.GROUP_ID_NOT_FOUND),
        (ErrorCode.INVALID_REQUEST, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_a_failed_load_is_tried_again_by_the_next_fetch(
    answered: ErrorCode, seen: ErrorCode
) -> None:
    """SHR-3: and clients get an error that they know."""

    async def scenario(bench: ShareBench) -> None:
        bench.produce(1)
        bench.persister.failures["read"] = [answered]
        member = bench.member()
        assert await member.error() == seen
        assert not bench.broker.shares.loaded
        assert await member.acquire() == [(0, 0, 1)]

    share(scenario)


@pytest.mark.parametrize(
    ("strategy", "start"),
    [("latest", 5), ("earliest", 0), ("by_duration:PT0S", 5), ("by_duration:PT1H", 3)],
)
def test_a_share_partition_that_was_never_read_begins_where_the_group_wants(
    strategy: str, start: int
) -> None:
    """SHR-4: and that is written, so that the next leader begins there, too."""

    async def scenario(bench: ShareBench) -> None:
        bench.broker.change(auto_offset_reset=strategy)
        bench.produce(3)
        await asyncio.sleep(2 * 3600)
        bench.produce(2)
        await asyncio.sleep(1)
        member = bench.member()
        await member.acquire(max_wait_ms=0)
        await until(lambda: bench.persister.states[key()].start_offset == start)

    share(scenario, start_offset=-1)


def test_nothing_is_delivered_before_the_first_start_is_kept() -> None:
    """SHR-4: or a leader that comes next begins behind records that nobody acknowledged."""

    async def scenario(bench: ShareBench) -> None:
        member = bench.member()
        bench.persister.failures["write"] = [ErrorCode.COORDINATOR_NOT_AVAILABLE]
        error = await member.error()
        assert error == ErrorCode.COORDINATOR_NOT_AVAILABLE
        fetch = asyncio.ensure_future(member.acquire())
        await until(lambda: key() in bench.broker.shares.loaded and bench.broker.loaded().is_active)
        bench.produce(2)
        assert await fetch == [(0, 1, 1)]
        assert bench.persister.states[key()].start_offset == 0
        await bench.node.learn([led_by(0, 1, replicas=(0,))])
        assert await member.acquire() == [(0, 1, 1)]

    share(scenario, start_offset=-1)


# Leases.


def test_nothing_is_acquired_of_a_leader_without_a_lease() -> None:
    """SHR-33: it may have been replaced, and what it has in memory may be done by now."""

    async def scenario(bench: ShareBench) -> None:
        bench.produce(2)
        member = bench.member()
        assert await member.acquire(records_max=1, is_record_limit=True) == [(0, 0, 1)]
        bench.broker.lease = None
        assert await member.error() == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert not bench.broker.shares.loaded

    share(scenario)


def test_no_state_is_read_without_a_lease() -> None:
    """SHR-33: nothing could be acquired by it, and clients ask again and again meanwhile."""

    async def scenario(bench: ShareBench) -> None:
        bench.produce(2)
        bench.broker.lease = None
        member = bench.member()
        for _ in range(3):
            assert await member.error() == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert bench.persister.read_count == 0
        assert not bench.broker.shares.loaded
        assert bench.broker.metrics.failed_loads == 0
        bench.broker.lease = 1
        assert await member.acquire() == [(0, 1, 1)]

    share(scenario)


def test_the_state_is_read_again_where_the_lease_was_lost_for_a_while() -> None:
    """SHR-33: the next leader may have come and gone; the state tells what it has had accepted."""

    async def scenario(bench: ShareBench) -> None:
        bench.produce(2)
        member = bench.member()
        assert await member.acquire(records_max=1, is_record_limit=True) == [(0, 0, 1)]
        await bench.persister.write(key(), 1, 0, 1, 1, ())  # of the other leader
        bench.broker.lease = 2
        assert await member.error() == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert await member.acquire() == [(1, 1, 1)]
        assert bench.persister.read_count == 2

    share(scenario)


# Fetches.


def test_a_fetch_without_records_gets_nothing_after_its_time() -> None:
    """SHR-14."""

    async def scenario(bench: ShareBench) -> None:
        before = bench.node.clock.monotonic_ms()
        assert await bench.member().acquire(max_wait_ms=700) == []
        assert 700 <= bench.node.clock.monotonic_ms() - before <= 702

    share(scenario)


def test_a_fetch_waits_for_its_minimum_of_bytes() -> None:
    """SHR-14: what there is by then comes together."""

    async def scenario(bench: ShareBench) -> None:
        fetch = asyncio.ensure_future(bench.member().acquire(min_bytes=1_000))
        bench.produce(1, size=300)
        await asyncio.sleep(1)
        assert not fetch.done()
        bench.produce(1, size=900)
        assert await fetch == [(0, 1, 1)]

    share(scenario)


def test_a_share_partition_that_moves_is_the_only_one_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """SHR-14: however many partitions those name that wait for their minimum of bytes."""
    looked_at: list[int] = []
    readable = delayed_share_fetch.readable_bytes

    def counted(loaded: LoadedSharePartition, offset: int) -> int:
        looked_at.append(loaded.key.partition)
        return readable(loaded, offset)

    async def scenario(bench: ShareBench) -> None:
        for index in range(5):
            bench.produce(1, size=100, index=index)
        member = bench.member(partitions=range(5))
        fetch = asyncio.ensure_future(member.acquire(min_bytes=2_000))
        await until(lambda: sorted(looked_at)[:: max(len(looked_at) // 5, 1)] == [*range(5)])
        looked_at.clear()
        bench.produce(1, size=300, index=3)
        await soon(lambda: bool(looked_at))
        assert set(looked_at) == {3}
        bench.produce(1, size=2_000, index=4)
        assert len(await fetch) == 5

    monkeypatch.setattr(delayed_share_fetch, "readable_bytes", counted)
    share(scenario, partitions=5)


def test_a_fetch_of_less_than_nothing_gives_no_memory_back() -> None:
    """SHR-8: MaxBytes is what a client says; what is reserved is never negative in sum."""

    async def scenario(bench: ShareBench) -> None:
        member = bench.member()
        await member.acquire(max_wait_ms=1)
        bench.produce(1)
        reserved: list[int] = []
        parameters = ShareFetchParameters(
            AcquireParameters(member_id="m1", records_max=10, batch_size=10),
            max_wait_ms=1,
            min_bytes=1,
            max_bytes=-(2**31),
            reserve=reserved.append,
        )
        done = asyncio.get_running_loop().create_future()
        await bench.broker.shares.fetch(GROUP, [at()], parameters, done.set_result)
        await done
        assert reserved and reserved[0] >= 0 == sum(reserved)

    share(scenario)


def test_one_fetch_after_the_other_reads_a_share_partition() -> None:
    """SHR-8: of many that wait each gets records of its own, and none is asked in vain."""

    async def scenario(bench: ShareBench) -> None:
        members = [bench.member(f"m{number}") for number in range(5)]
        fetches = [
            asyncio.ensure_future(one.acquire(records_max=1, is_record_limit=True))
            for one in members
        ]
        await soon(lambda: bench.broker.shares.purgatory.pending_count == 5)
        bench.produce(3)
        await soon(lambda: sum(one.done() for one in fetches) == 3)
        assert sorted(one.result() for one in fetches if one.done()) == [
            [(0, 0, 1)],
            [(1, 1, 1)],
            [(2, 2, 1)],
        ]
        bench.produce(2)
        assert sorted([await one for one in fetches])[3:] == [[(3, 3, 1)], [(4, 4, 1)]]

    share(scenario)


def test_bytes_are_divided_over_the_partitions_that_have_records() -> None:
    """SHR-8: each gives something; the first batch of each comes whole."""

    async def scenario(bench: ShareBench) -> None:
        for index in (0, 1, 3):
            for _ in range(10):
                bench.produce(1, size=1_000, index=index)
        member = bench.member(partitions=range(4))
        await member.acquire(max_bytes=0, max_wait_ms=1)  # loads them
        fetched = await member.fetch(max_bytes=10_000)
        sizes = [one.size_bytes for one in fetched]
        assert sizes[2] == 0
        assert all(2_000 < sizes[index] <= 3_333 for index in (0, 1, 3))

    share(scenario, partitions=4)


def test_records_max_holds_for_the_whole_fetch() -> None:
    """SHR-10: over all of its partitions."""

    async def scenario(bench: ShareBench) -> None:
        for index in range(3):
            bench.produce(4, index=index)
        member = bench.member(partitions=range(3))
        await member.acquire(records_max=0, max_wait_ms=1)
        acquired = await member.acquire(records_max=6, is_record_limit=True)
        assert acquired == [(0, 3, 1), (0, 1, 1)]

    share(scenario, partitions=3)


def test_the_response_holds_the_batches_around_what_is_acquired() -> None:
    """SHR-13."""

    async def scenario(bench: ShareBench) -> None:
        for _ in range(4):
            bench.produce(2)
        member = bench.member()
        assert await member.acquire() == [(0, 7, 1)]
        assert await member.acknowledge((0, 2, [ACCEPT]), (3, 4, [RELEASE]), (5, 7, [ACCEPT])) == 0
        (one,) = await member.fetch()
        assert list(one.acquired) == [(3, 4, 2)]
        data = b"".join(map(bytes, one.buffers))
        assert [header.base_offset for _, header in iterate_headers(data)] == [2, 4]

    share(scenario)


def test_who_has_gone_acquires_nothing() -> None:
    """SHR-21: a fetch that completes for nobody leaves the records to others."""

    async def scenario(bench: ShareBench) -> None:
        member, other = bench.member("a"), bench.member("b")
        fetch = asyncio.ensure_future(member.fetch())
        await soon(lambda: bench.broker.shares.purgatory.pending_count == 1)
        member.connection.close()
        bench.produce(1)
        assert not [one for one in await fetch if one.acquired]
        assert await other.acquire() == [(0, 0, 1)]

    share(scenario)


# Locks.


def test_a_lock_that_runs_out_wakes_a_fetch_and_is_written() -> None:
    """SHR-18: after the group's duration, not before."""

    async def scenario(bench: ShareBench) -> None:
        member, other = bench.member("a"), bench.member("b")
        bench.produce(2)
        assert await member.acquire() == [(0, 1, 1)]
        before = bench.node.clock.monotonic_ms()
        assert await other.acquire() == [(0, 1, 2)]
        assert 1_000 <= bench.node.clock.monotonic_ms() - before <= 1_005
        assert bench.persister.writes[-1] == (0, 0, (StateBatch(0, 1, 0, 1),))
        assert bench.broker.metrics.lock_timeouts == 2

    share(scenario)


def test_a_renewed_lock_begins_anew_and_nothing_is_written() -> None:
    """SHR-19."""

    async def scenario(bench: ShareBench) -> None:
        member, other = bench.member("a"), bench.member("b")
        bench.produce(1)
        await member.acquire()
        await asyncio.sleep(0.9)
        assert await member.acknowledge((0, 0, [RENEW]), is_renew=True) == 0
        assert await other.acquire(max_wait_ms=900) == []
        assert bench.persister.writes == []
        assert await other.acquire() == [(0, 0, 2)]
        bench.broker.change(renew_acknowledge_enable=False)
        refused = await other.acknowledge((0, 0, [RENEW]), is_renew=True)
        assert refused == ErrorCode.INVALID_RECORD_STATE

    share(scenario)


def test_an_expiry_that_cannot_be_written_is_an_expiry_all_the_same() -> None:
    """SHR-18: the failure is only logged."""

    async def scenario(bench: ShareBench) -> None:
        member, other = bench.member("a"), bench.member("b")
        bench.produce(1)
        await member.acquire()
        bench.persister.failures["write"] = [ErrorCode.COORDINATOR_NOT_AVAILABLE]
        assert await other.acquire() == [(0, 0, 2)]
        assert await other.acknowledge((0, 0, [ACCEPT])) == 0

    share(scenario)


# Writes.


def test_acknowledgements_that_arrive_during_a_write_are_written_together() -> None:
    """SHR-17: one write at a time; each is answered when its own has an outcome."""

    async def scenario(bench: ShareBench) -> None:
        member = bench.member()
        bench.produce(6)
        await member.acquire()
        bench.persister.hold()
        outcomes = [
            asyncio.ensure_future(member.acknowledge((offset, offset, [ACCEPT])))
            for offset in range(6)
        ]
        await asyncio.sleep(0.1)
        assert not any(one.done() for one in outcomes)
        assert await member.acknowledge((0, 0, [ACCEPT])) == ErrorCode.INVALID_RECORD_STATE
        bench.persister.release()
        assert [await one for one in outcomes] == [0] * 6
        assert len(bench.persister.writes) <= 2
        assert bench.broker.loaded().records.start_offset == 6

    share(scenario)


def test_a_failed_write_takes_the_acknowledgement_back() -> None:
    """SHR-17: it can be sent again while the lock lasts."""

    async def scenario(bench: ShareBench) -> None:
        member, other = bench.member("a"), bench.member("b")
        bench.produce(2)
        await member.acquire()
        bench.persister.failures["write"] = [ErrorCode.NOT_COORDINATOR]
        failed = await member.acknowledge((0, 1, [ACCEPT]))
        assert failed == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert await other.acquire(max_wait_ms=10) == []
        assert await member.acknowledge((0, 1, [ACCEPT])) == 0
        assert await other.acquire(max_wait_ms=2_000) == []

    share(scenario)


def test_a_write_that_fails_after_the_lock_ran_out_gives_the_records_back() -> None:
    """SHR-17."""

    async def scenario(bench: ShareBench) -> None:
        member, other = bench.member("a"), bench.member("b")
        bench.produce(1)
        await member.acquire()
        bench.persister.hold()
        bench.persister.failures["write"] = [ErrorCode.COORDINATOR_NOT_AVAILABLE]
        outcome = asyncio.ensure_future(member.acknowledge((0, 0, [ACCEPT])))
        assert await other.acquire(max_wait_ms=2_000) == []
        bench.persister.release()
        assert await outcome == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert await other.acquire() == [(0, 0, 2)]

    share(scenario)


@pytest.mark.parametrize(
    ("code", "seen"),
    [
        (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (ErrorCode.FENCED_STATE_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.GROUP_ID_NOT_FOUND),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_a_write_that_is_fenced_drops_the_share_partition(code: ErrorCode, seen: ErrorCode) -> None:
    """SHR-33: it is read again, with what the new state epoch says."""

    async def scenario(bench: ShareBench) -> None:
        member = bench.member()
        bench.produce(2)
        await member.acquire()
        bench.persister.failures["write"] = [code]
        assert await member.acknowledge((0, 0, [ACCEPT])) == seen
        assert not bench.broker.shares.loaded
        unloaded = await member.acknowledge((1, 1, [ACCEPT]))
        assert unloaded == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert await member.acquire() == [(0, 1, 1)]

    share(scenario)


def test_a_group_whose_offsets_were_altered_begins_where_they_say() -> None:
    """SHR-25, SHR-33: the old state epoch is fenced with its next write."""

    async def scenario(bench: ShareBench) -> None:
        member = bench.member()
        bench.produce(4)
        assert await member.acquire(records_max=2, is_record_limit=True) == [(0, 1, 1)]
        await bench.persister.initialize(key(), 2, 3)
        fenced = await member.acknowledge((0, 1, [ACCEPT]))
        assert fenced == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert await member.acquire() == [(3, 3, 1)]

    share(scenario)


# Leader changes.


def test_an_old_leader_fences_and_a_new_one_goes_on_with_what_was_written() -> None:
    """SHR-33: what was Acquired is Available, with the delivery count that was written."""

    async def scenario(bench: ShareBench) -> None:
        member = bench.member()
        bench.produce(4)
        assert await member.acquire() == [(0, 3, 1)]
        assert await member.acknowledge((0, 0, [ACCEPT]), (1, 1, [RELEASE])) == 0
        await bench.node.learn([led_by(1, 1, replicas=(0, 1), isr=(0, 1))])
        assert await member.error() == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert await member.acknowledge((2, 2, [ACCEPT])) == ErrorCode.NOT_LEADER_OR_FOLLOWER
        await bench.node.learn([led_by(0, 2, replicas=(0, 1), isr=(0,))])
        assert await member.acknowledge((2, 2, [ACCEPT])) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert await member.acquire() == [(1, 1, 2), (2, 3, 1)]

    share(scenario)


def test_a_new_leader_epoch_of_the_same_leader_reads_the_state_again() -> None:
    """SHR-33: another may have led in between."""

    async def scenario(bench: ShareBench) -> None:
        member = bench.member()
        bench.produce(1)
        await member.acquire()
        waiting = asyncio.ensure_future(bench.member("b").error())
        await soon(lambda: bench.broker.shares.purgatory.pending_count == 1)
        await bench.node.learn([led_by(0, 1, replicas=(0,))])
        assert await waiting == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert await member.acquire() == [(0, 0, 1)]
        assert bench.persister.states[key()].leader_epoch == 1

    share(scenario)


def test_an_acknowledgement_under_way_fails_with_its_leader() -> None:
    """SHR-33: or succeeds, if it was written; nothing is left without an answer."""

    async def scenario(bench: ShareBench) -> None:
        member = bench.member()
        bench.produce(2)
        await member.acquire()
        bench.persister.hold()
        first = asyncio.ensure_future(member.acknowledge((0, 0, [ACCEPT])))
        await asyncio.sleep(0.01)
        second = asyncio.ensure_future(member.acknowledge((1, 1, [ACCEPT])))
        await asyncio.sleep(0.01)
        await bench.node.learn([led_by(1, 1, replicas=(0, 1), isr=(0, 1))])
        assert await second == ErrorCode.NOT_LEADER_OR_FOLLOWER
        bench.persister.release()
        assert await first == 0
        assert bench.persister.states[key()].read.batches == (StateBatch(0, 0, 2, 1),)

    share(scenario)


def test_a_load_that_a_new_leader_overtakes_comes_to_nothing() -> None:
    """SHR-3, SHR-33."""

    async def scenario(bench: ShareBench) -> None:
        bench.produce(1)
        bench.persister.hold()
        member = bench.member()
        fetch = asyncio.ensure_future(member.error())
        await soon(lambda: bench.broker.shares.purgatory.pending_count == 1)
        await bench.node.learn([led_by(1, 1, replicas=(0, 1), isr=(0, 1))])
        assert await fetch == ErrorCode.NOT_LEADER_OR_FOLLOWER
        bench.persister.release()
        await asyncio.sleep(1)
        assert not bench.broker.shares.loaded

    share(scenario)


def test_a_partition_that_is_gone_takes_its_share_partition_along() -> None:
    """SHR-33."""

    async def scenario(bench: ShareBench) -> None:
        member = bench.member()
        await member.acquire(max_wait_ms=0)
        fetch = asyncio.ensure_future(member.error())
        await until(lambda: bench.broker.shares.purgatory.pending_count == 1)
        await bench.node.learn([led_by(1, 1, replicas=(1, 2))])
        assert TopicPartition(TOPIC, 0) not in bench.node.replicas.partitions
        assert await fetch == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert not bench.broker.shares.loaded

    share(scenario)


# The log.


def test_records_that_retention_removed_are_skipped() -> None:
    """SHR-7: without an error; late acknowledgements are accepted and ignored."""

    async def scenario(bench: ShareBench) -> None:
        member = bench.member()
        for _ in range(3):
            bench.produce(2)
        assert await member.acquire(records_max=2) == [(0, 1, 1)]
        await bench.node.log.delete_records(4)
        bench.node.partition().start_offset_moved()
        assert await member.acquire() == [(4, 5, 1)]
        assert await member.acknowledge((0, 1, [ACCEPT])) == 0
        assert await member.acknowledge((1, 5, [ACCEPT])) == 0
        assert bench.broker.loaded().records.start_offset == 6

    share(scenario)


def test_a_partition_whose_directory_fails_tells_who_waits() -> None:
    """SHR-14, LOG-11."""

    async def scenario(bench: ShareBench) -> None:
        member = bench.member()
        fetch = asyncio.ensure_future(member.error())
        await until(
            lambda: (
                bench.broker.shares.purgatory.pending_count == 1 and bench.broker.loaded().is_active
            )
        )
        bench.node.logs.take_offline(bench.node.log.directory.rpartition("/")[0], OSError("gone"))
        assert await fetch == ErrorCode.KAFKA_STORAGE_ERROR
        assert not bench.broker.shares.loaded
        assert await member.error() == ErrorCode.KAFKA_STORAGE_ERROR

    share(scenario)


def test_a_group_that_reads_committed_waits_for_decisions_and_skips_what_was_aborted() -> None:
    """SHR-34: the change applies to the next fetch."""

    async def scenario(bench: ShareBench) -> None:
        bench.broker.change(read_committed=True)
        member, partition = bench.member(), bench.node.partition()
        now_ms = bench.node.clock.wall_ms()

        def append(data: bytes, *, internal: bool = False) -> None:
            partition.append(memoryview(bytearray(data)), 1, now_ms, internal=internal)
            bench.node.turn.finish()

        bench.produce(1)
        transactional = [Record(index, now_ms, None, b"v") for index in range(2)]
        append(
            encode_batch(
                transactional,
                producer_id=7,
                producer_epoch=0,
                base_sequence=0,
                is_transactional=True,
            )
        )
        bench.produce(1)
        assert await member.acquire(max_wait_ms=100) == [(0, 0, 1)]
        marker = {"producer_id": 7, "producer_epoch": 0, "coordinator_epoch": 0}
        append(encode_marker(ControlType.ABORT, timestamp=now_ms, **marker), internal=True)
        assert await member.acquire() == [(3, 4, 1)]
        records = bench.broker.loaded().records
        assert records.offsets.counts[RecordState.ARCHIVED] == 2
        assert await member.acknowledge((0, 0, [ACCEPT]), (3, 4, [ACCEPT, 0])) == 0
        assert records.start_offset == 5

    share(scenario)
