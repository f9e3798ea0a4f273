"""Columns from a broker: the same records as `poll` gives, and the same stop at a broken batch."""

from collections.abc import Callable

import pytest

from barnabas_client.consumer import columns as columns_module
from barnabas_client.consumer.consumer import Consumer
from barnabas_client.consumer.fetch_buffer import FetchBuffer, Portion
from barnabas_client.errors import ClientBrokenError, CorruptRecordError, UsageError
from barnabas_protocol.records.batch import stamp_crc
from barnabas_protocol.records.record import Record, encode_batch
from tests.client.consumer.raw_topic import RawTopic, records
from tests.client.consumer.reading import reader, run_on
from tests.support.client_brokers import ClientBrokers

Names = Callable[[str], str]


async def _all_columns(consumer: Consumer, count: int) -> list[Record]:
    found: list[Record] = []
    while len(found) < count:
        for columns in await consumer.poll_columns(timeout_ms=5000):
            for row in columns.to_record_batch().to_pylist():
                headers = tuple((header["key"], header["value"]) for header in row["headers"])
                stamp = round(row["timestamp"].timestamp() * 1000)
                found.append(Record(row["offset"], stamp, row["key"], row["value"], headers))
    return found


@pytest.mark.parametrize("codec", range(5))
def test_columns_hold_what_poll_gives(bootstrap: str, unique: Names, codec: int) -> None:
    """CON-4: two forms of the same records, from compressed and plain batches."""

    async def body(topics: RawTopic) -> None:
        (partition,) = await topics.create(unique("columns"))
        for size in (1, 30, 100):
            written = records(*(b"%d" % number * (number % 9) for number in range(size)))
            written[0] = written[0]._replace(headers=(("name", b"content"), ("none", None)))
            await topics.append(partition, *written, compression=codec)
        async with reader(bootstrap) as consumer:
            consumer.assign([partition])
            consumer.seek(partition, 0)
            polled = []
            while len(polled) < 131:
                polled += await consumer.poll(timeout_ms=5000)
            consumer.seek(partition, 0)
            assert await _all_columns(consumer, 131) == [
                Record(r.offset, r.timestamp_ms, r.key, r.value, r.headers) for r in polled
            ]
            assert await consumer.position(partition) == 131

    run_on(bootstrap, body)


def test_columns_stop_at_a_broken_batch(client_brokers: ClientBrokers, unique: Names) -> None:
    """CON-6: what comes before is handed out, then the error is raised until a seek.

    Only on Barnabas, which looks at headers alone: Apache Kafka would not take such a batch.
    """
    bootstrap = client_brokers.bootstrap("barnabas")

    async def body(topics: RawTopic) -> None:
        (partition,) = await topics.create(unique("broken"))
        await topics.append_values(partition, b"a", b"b")
        broken = bytearray(encode_batch(records(b"c")))
        broken[-1] = 2
        stamp_crc(broken, 0)
        await topics.append_batch(partition, bytes(broken))
        await topics.append_values(partition, b"d")
        async with reader(bootstrap) as consumer:
            consumer.assign([partition])
            consumer.seek(partition, 0)
            assert len(await _all_columns(consumer, 2)) == 2
            for _ in range(2):
                with pytest.raises(CorruptRecordError, match="at offset 2") as caught:
                    await consumer.poll_columns(timeout_ms=5000)
                assert caught.value.position == (*partition, 2)
            consumer.seek(partition, 3)
            assert [record.value for record in await _all_columns(consumer, 1)] == [b"d"]

    run_on(bootstrap, body)


def test_a_fault_behind_records_does_not_lose_them(
    client_brokers: ClientBrokers, unique: Names, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CON-8: their positions are moved by then; the fault is raised by the next poll."""
    bootstrap = client_brokers.bootstrap("barnabas")

    async def body(topics: RawTopic) -> None:
        (partition,) = await topics.create(unique("fault"))
        await topics.append_values(partition, b"a")
        async with reader(bootstrap) as consumer:
            consumer.assign([partition])
            consumer.seek(partition, 0)
            buffer, portions = consumer.internals.buffer, []

            def take(count_max: int) -> Portion | None:
                if portions:
                    raise MemoryError
                portion = FetchBuffer.take(buffer, count_max)
                portions.extend([] if portion is None else [portion])
                return portion

            with monkeypatch.context() as patch:
                patch.setattr(buffer, "take", take)
                found = await consumer.poll(timeout_ms=5000)
                assert [record.value for record in found] == [b"a"]
            with pytest.raises(ClientBrokenError, match="MemoryError"):
                await consumer.poll(timeout_ms=100)
            assert await consumer.poll(timeout_ms=100) == []

    run_on(bootstrap, body)


def test_what_could_not_be_made_columns_is_read_again(
    client_brokers: ClientBrokers, unique: Names, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CON-8: without pyarrow, say: the records count as processed for nobody who commits."""
    bootstrap = client_brokers.bootstrap("barnabas")

    def missing() -> None:
        raise UsageError("columns need pyarrow")

    async def body(topics: RawTopic) -> None:
        (partition,) = await topics.create(unique("failed"))
        await topics.append_values(partition, b"a", b"b")
        async with reader(bootstrap) as consumer:
            consumer.assign([partition])
            consumer.seek(partition, 0)
            with monkeypatch.context() as patch, pytest.raises(UsageError):
                patch.setattr(columns_module, "_arrays", missing)
                await consumer.poll_columns(timeout_ms=5000)
            assert await consumer.position(partition) == 0
            assert [record.value for record in await _all_columns(consumer, 2)] == [b"a", b"b"]

    run_on(bootstrap, body)
