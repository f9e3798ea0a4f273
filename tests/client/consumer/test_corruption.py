"""Batches that cannot be read: told with their position, again and again, until a seek."""

import pytest

from barnabas_client.errors import CorruptRecordError
from barnabas_protocol.records.batch import stamp_crc
from barnabas_protocol.records.record import Record, encode_batch
from tests.client.consumer.fetched_records import drain, offsets
from tests.client.consumer.model_cluster import ModelCluster, run_model
from tests.client.consumer.model_log import partition

T0 = partition(0)


def damaged(*, has_right_crc: bool) -> bytes:
    """A batch of the offsets 2 and 3 whose last record ends too early."""
    whole = bytearray(
        encode_batch([Record(number, 5, None, b"v") for number in (2, 3)], base_offset=2)
    )
    whole[-4] = 0x7F
    if has_right_crc:
        stamp_crc(whole, 0)
    return bytes(whole)


@pytest.mark.parametrize("has_right_crc", [False, True])
def test_a_damaged_batch_is_raised_behind_what_came_before_it(has_right_crc: bool) -> None:
    """CON-6, CON-7: nothing of a batch whose checksum is wrong is handed out."""

    async def run() -> None:
        cluster = ModelCluster(T0)
        cluster.logs[T0].append(b"0", b"1")
        cluster.logs[T0].append_batch(damaged(has_right_crc=has_right_crc))
        cluster.logs[T0].append(b"4")
        readable = 3 if has_right_crc else 2
        async with cluster.consumer(max_poll_records=1) as consumer:
            consumer.assign([T0])
            assert offsets(await drain(consumer, readable)) == list(range(readable))
            for _ in range(3):
                with pytest.raises(CorruptRecordError) as raised:
                    await drain(consumer, 1)
                assert raised.value.position == (*T0, readable)
            with pytest.raises(CorruptRecordError):
                async for _record in consumer:
                    raise AssertionError("nothing can be handed out")
            assert await consumer.position(T0) == readable
            consumer.seek(T0, 4)
            assert offsets(await drain(consumer, 1)) == [4]

    run_model(run())


def test_other_partitions_are_read_on_beside_a_damaged_one() -> None:
    """CON-6: a program that only logs the error and polls on gets all the rest."""

    async def run() -> None:
        cluster = ModelCluster(T0, partition(1))
        cluster.logs[T0].append_batch(damaged(has_right_crc=False))
        async with cluster.consumer(max_partition_fetch_bytes=50) as consumer:
            consumer.assign([T0, partition(1)])
            consumer.seek(T0, 2)
            found: list[int] = []
            errors = 0
            while len(found) < 20:
                cluster.logs[partition(1)].append(b"x")
                try:
                    found += offsets(await consumer.poll())
                except CorruptRecordError:
                    errors += 1
            assert found == list(range(len(found)))
            assert errors > 1

    run_model(run())


def test_columns_tell_damage_in_the_same_way() -> None:
    """The batches before it come as columns first; the position stays before the damage."""
    pytest.importorskip("pyarrow")

    async def run() -> None:
        cluster = ModelCluster(T0)
        cluster.logs[T0].append(b"0", b"1")
        cluster.logs[T0].append_batch(damaged(has_right_crc=True))
        cluster.logs[T0].append(b"4")
        async with cluster.consumer() as consumer:
            consumer.assign([T0])
            (columns,) = await consumer.poll_columns()
            assert columns.offsets.to_pylist() == [0, 1]
            for _ in range(2):
                with pytest.raises(CorruptRecordError) as raised:
                    while not await consumer.poll_columns():
                        pass
                assert raised.value.position == (*T0, 2)
            assert await consumer.position(T0) == 2
            consumer.seek(T0, 4)
            while not (found := await consumer.poll_columns()):
                pass
            assert found[0].offsets.to_pylist() == [4]

    run_model(run())
