"""Columns from a broker: the same records as `poll` gives, and the same stop at a broken batch."""

from collections.abc import Callable

import pytest

from barnabas_client.consumer.consumer import Consumer
from barnabas_client.errors import CorruptRecordError
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
