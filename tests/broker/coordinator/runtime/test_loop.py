"""The coordinator runtime: which partitions are loaded, and from what; on virtual time."""

import asyncio

from barnabas_broker.coordinator.runtime.loop import SlotState
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.records.control import ControlType, encode_marker
from barnabas_protocol.records.record import Record, encode_batch
from tests.broker.coordinator.runtime.runtime_world import World
from tests.support.virtual_loop import run_virtual


def test_requests_are_told_how_far_the_partition_is() -> None:
    """OFS-2, OFS-4: 16 not ours, 14 loading, 15 could not be loaded."""

    async def scenario() -> None:
        world = World()
        assert await world.error(world.get()) is ErrorCode.NOT_COORDINATOR
        world.writer.reads_going.clear()
        world.log().append(encode_batch([Record(0, 0, b"n", b"7")]))
        world.runtime.load(0, 1)
        await asyncio.sleep(0.1)
        assert await world.error(world.get()) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert world.runtime.is_loading
        world.writer.read_error = ErrorCode.KAFKA_STORAGE_ERROR
        world.writer.reads_going.set()
        await world.runtime.wait_until_loaded(0)
        assert await world.error(world.get()) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert world.runtime.states() == {0: SlotState.FAILED}
        world.writer.read_error = None
        world.runtime.load(0, 1)
        await world.runtime.wait_until_loaded(0)
        assert await world.get() == 7
        world.runtime.unload(0)
        assert await world.error(world.get()) is ErrorCode.NOT_COORDINATOR
        await world.runtime.close()

    run_virtual(scenario())


def test_a_second_load_while_loading_is_ignored() -> None:
    """OFS-2."""

    async def scenario() -> None:
        world = World()
        world.runtime.load(0, 3)
        world.runtime.load(0, 3)
        world.runtime.load(0, 2)
        await world.runtime.wait_until_loaded(0)
        world.runtime.load(0, 3)
        assert len(world.shards) == 1
        await world.runtime.close()

    run_virtual(scenario())


def test_a_load_that_ends_after_the_unload_is_discarded() -> None:
    """OFS-4: by epoch."""

    async def scenario() -> None:
        world = World()
        world.log().append(encode_batch([Record(0, 0, b"n", b"7")]))
        world.writer.reads_going.clear()
        world.runtime.load(0, 1)
        await asyncio.sleep(0.1)
        world.runtime.unload(0)
        world.writer.reads_going.set()
        await asyncio.sleep(0.1)
        assert world.runtime.states() == {}
        world.runtime.load(0, 3)
        world.runtime.unload(0, 2)
        await world.runtime.wait_until_loaded(0)
        assert await world.get() == 7
        await world.runtime.close()

    run_virtual(scenario())


def test_the_next_leader_epoch_keeps_the_shard_and_a_later_one_does_not() -> None:
    """OFS-2: another broker may have led in between."""

    async def scenario() -> None:
        world = World()
        await world.start()
        world.runtime.load(0, 2)
        assert await world.add() == 1
        world.runtime.load(0, 4)
        await world.runtime.wait_until_loaded(0)
        assert await world.get() == 1
        assert len(world.shards) == 2
        await world.runtime.close()

    run_virtual(scenario())


def test_partitions_load_in_order_while_others_serve() -> None:
    """OFS-2."""

    async def scenario() -> None:
        world = World()
        await world.start(0)
        for partition in (3, 1, 2):
            world.runtime.load(partition, 1)
        assert await world.add(partition=0) == 1
        for partition in (1, 2, 3):
            await world.runtime.wait_until_loaded(partition)
        assert [shard.partition for shard in world.shards] == [0, 3, 1, 2]
        await world.runtime.close()

    run_virtual(scenario())


def test_a_long_log_is_read_in_chunks_with_cut_batches() -> None:
    """OFS-2: the buffer may end within a batch."""

    async def scenario() -> None:
        world = World(load_buffer_bytes=250)
        for number in range(20):
            world.log().append(encode_batch([Record(0, 0, b"n", str(number).encode())]))
        await world.start()
        assert await world.get() == 19
        await world.runtime.close()

    run_virtual(scenario())


def test_transactional_records_count_after_their_marker_only() -> None:
    """Committed, aborted and undecided transactions in the log (formats.md 10)."""

    async def scenario() -> None:
        world = World()
        for producer_id, name in enumerate(("committed", "aborted", "open")):
            world.log().append(
                encode_batch(
                    [Record(0, 0, name.encode(), b"1")],
                    producer_id=producer_id,
                    producer_epoch=0,
                    base_sequence=0,
                    is_transactional=True,
                )
            )
        for producer_id, kind in ((0, ControlType.COMMIT), (1, ControlType.ABORT)):
            world.log().append(
                encode_marker(
                    kind,
                    producer_id=producer_id,
                    producer_epoch=0,
                    coordinator_epoch=0,
                    timestamp=0,
                )
            )
        await world.start()
        assert world.shards[0].counts == {"committed": 1}
        assert world.shards[0].pending == {2: [("open", 1)]}
        await world.runtime.close()

    run_virtual(scenario())


def test_a_corrupt_batch_fails_the_load() -> None:
    async def scenario() -> None:
        world = World()
        batch = bytearray(encode_batch([Record(0, 0, b"n", b"1")]))
        batch[-1] ^= 1
        world.log().append(bytes(batch))
        await world.start()
        assert world.runtime.states() == {0: SlotState.FAILED}
        assert world.runtime.load_failure_count == 1
        await world.runtime.close()

    run_virtual(scenario())


def test_unloading_answers_what_waits_for_its_commit() -> None:
    """OFS-4, STOP-9."""

    async def scenario() -> None:
        world = World()
        await world.start()
        world.writer.pause()
        waiting = asyncio.ensure_future(world.error(world.add()))
        await asyncio.sleep(0.1)
        world.runtime.unload(0)
        assert await waiting is ErrorCode.NOT_COORDINATOR
        assert world.shards[0].closed_with is ErrorCode.NOT_COORDINATOR
        await world.runtime.close()

    run_virtual(scenario())


def test_a_failed_load_is_tried_again() -> None:
    """One failed read must not leave a partition without a coordinator for good."""

    async def scenario() -> None:
        world = World()
        world.log().append(encode_batch([Record(0, 0, b"n", b"7")]))
        world.writer.read_error = ErrorCode.KAFKA_STORAGE_ERROR
        await world.start()
        await asyncio.sleep(60)
        assert world.runtime.states() == {0: SlotState.FAILED}
        # Ever more seldom: after 1, 3, 7, 15 and 31 seconds.
        assert world.runtime.load_failure_count == 6
        world.writer.read_error = None
        await asyncio.sleep(60)
        assert await world.get() == 7
        await world.runtime.close()

    run_virtual(scenario())


def test_a_failed_load_is_not_tried_again_for_another() -> None:
    """OFS-4."""

    async def scenario() -> None:
        world = World()
        world.log().append(encode_batch([Record(0, 0, b"n", b"7")]))
        world.writer.read_error = ErrorCode.KAFKA_STORAGE_ERROR
        await world.start()
        world.runtime.unload(0)
        await asyncio.sleep(60)
        assert world.runtime.states() == {}
        assert world.runtime.load_failure_count == 1
        await world.runtime.close()

    run_virtual(scenario())


def test_nothing_is_served_before_all_that_was_read_is_committed() -> None:
    """OFS-2: the tail above the high watermark counts as uncommitted; others load meanwhile."""

    async def scenario() -> None:
        world = World()
        world.log().append(encode_batch([Record(0, 0, b"n", b"7")]))
        world.writer.pause()
        world.runtime.load(0, 1)
        await asyncio.sleep(10)
        assert await world.error(world.get()) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        world.writer.resume()
        await world.runtime.wait_until_loaded(0)
        assert await world.get() == 7
        await world.runtime.close()

    run_virtual(scenario())


def test_what_comes_into_the_log_while_it_is_loaded_is_read_too() -> None:
    """A former shard's last batch may still be on its way."""

    async def scenario() -> None:
        world = World()
        world.log().append(encode_batch([Record(0, 0, b"n", b"7")]))
        world.writer.pause()
        world.runtime.load(0, 1)
        await asyncio.sleep(1)
        world.log().append(encode_batch([Record(0, 0, b"n", b"8")]))
        world.writer.resume()
        await world.runtime.wait_until_loaded(0)
        assert await world.get() == 8
        await world.runtime.close()

    run_virtual(scenario())
