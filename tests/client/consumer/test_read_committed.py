"""Reading topics with transactions: what each isolation level sees."""

import asyncio
from collections.abc import Callable

from barnabas_client.consumer.consumer import Consumer
from tests.client.consumer.raw_topic import raw_topic
from tests.client.consumer.raw_transaction import RawTransaction

Names = Callable[[str], str]


def test_aborted_and_open_transactions_are_not_seen(bootstrap: str, unique: Names) -> None:
    """CON-7: aborted records and markers are skipped, the last stable offset bounds reading."""

    async def run() -> None:
        async with asyncio.timeout(60), raw_topic(bootstrap) as topics:
            (partition,) = await topics.create(unique("txn"))
            one = RawTransaction(topics.client, unique("one"))
            two = RawTransaction(topics.client, unique("two"))
            await one.start()
            await two.start()
            await one.append(partition, b"one aborted")
            await two.append(partition, b"two committed")
            await topics.append_values(partition, b"plain")
            await one.end(commits=False)
            await one.append(partition, b"one committed")
            await two.end(commits=True)
            await one.end(commits=True)
            await two.append(partition, b"two open")
            await topics.append_values(partition, b"behind")

            committed = await read(bootstrap, partition, "read_committed", 3)
            assert committed == [b"two committed", b"plain", b"one committed"]
            everything = await read(bootstrap, partition, "read_uncommitted", 6)
            assert everything == [
                *(b"one aborted", b"two committed", b"plain", b"one committed"),
                *(b"two open", b"behind"),
            ]

            async with Consumer(
                bootstrap,
                isolation_level="read_committed",
                auto_offset_reset="latest",
                fetch_max_wait_ms=50,
            ) as consumer:
                consumer.assign([partition])
                # Before the open transaction: the last stable offset, not the end.
                assert await consumer.position(partition) == 7
                assert await consumer.lag() == {partition: 0}
                assert (await consumer.end_offsets([partition]))[partition] == 7
                await two.end(commits=False)
                assert [r.value for r in await drain(consumer, 1)] == [b"behind"]
                while await consumer.position(partition) < 10:
                    assert await consumer.poll(timeout_ms=100) == []

    asyncio.run(run())


async def read(bootstrap: str, partition: object, isolation_level: str, count: int) -> list[bytes]:
    """The first values of the partition, and no more than there should be."""
    async with Consumer(
        bootstrap,
        isolation_level=isolation_level,
        auto_offset_reset="earliest",
        fetch_max_wait_ms=50,
    ) as consumer:
        consumer.assign([partition])  # type: ignore[list-item]
        records = await drain(consumer, count)
        records += await consumer.poll(timeout_ms=200)
        consumer.seek_to_beginning()
        batches = []
        while sum(len(batch.records()) for batch in batches) < count:
            batches += await consumer.poll_batches()
        values = [record.value for record in records]
        assert [r.value for batch in batches for r in batch.records()] == values
        return values


async def drain(consumer: Consumer, count: int) -> list:  # type: ignore[type-arg]
    """Poll until so many records have come."""
    found = []
    while len(found) < count:
        found += await consumer.poll()
    return found
