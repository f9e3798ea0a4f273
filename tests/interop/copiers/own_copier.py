"""The copier with our own client."""

import asyncio
import sys

from barnabas_client import Consumer, Producer
from barnabas_client.errors import AbortableError, MembershipLostError, RetriableError

RECORDS_MAX = 500


async def input_ends() -> None:
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while await reader.read(100):
        pass


async def until_answered(call: object) -> None:
    """Repeat the end of a transaction until it has an answer."""
    while True:
        try:
            await call()  # type: ignore[operator]
        except RetriableError:
            continue
        return


async def copy_some(consumer: Consumer, producer: Producer, output: str) -> None:
    """One transaction, unless there is nothing to copy."""
    records = await consumer.poll(timeout_ms=200)
    if not records:
        return
    await producer.begin_transaction()
    try:
        for record in records:
            producer.send(output, record.value, partition=record.partition)
        await producer.send_offsets(consumer.positions(), consumer.group_metadata())
        await until_answered(producer.commit_transaction)
    except (AbortableError, MembershipLostError, RetriableError):
        await until_answered(producer.abort_transaction)
        await return_to_commits(consumer)


async def return_to_commits(consumer: Consumer) -> None:
    while True:
        try:
            committed = await consumer.committed(consumer.assignment())
        except RetriableError:
            continue
        break
    mine = consumer.assignment()
    consumer.seek_to_beginning([one for one in mine if committed.get(one) is None])
    for partition, offset in committed.items():
        if offset is not None and partition in mine:
            consumer.seek(partition, offset)


async def main() -> None:
    bootstrap, group, source, output, transactional_id = sys.argv[1:]
    stop = asyncio.create_task(input_ends())
    async with (
        Consumer(
            bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            isolation_level="read_committed",
            max_poll_records=RECORDS_MAX,
        ) as consumer,
        Producer(bootstrap, transactional_id=transactional_id) as producer,
    ):
        await until_answered(producer.init_transactions)
        consumer.subscribe([source])
        while not stop.done():
            await copy_some(consumer, producer, output)


if __name__ == "__main__":
    asyncio.run(main())
