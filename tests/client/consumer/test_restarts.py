"""A broker that is killed and comes back: the consumer reads on, alone and in a group."""

import asyncio
from pathlib import Path

from barnabas_client.consumer.consumer import Consumer
from barnabas_client.consumer.records import ConsumerRecord
from tests.client.consumer.raw_topic import raw_topic
from tests.support.barnabas_process import BarnabasProcess

DEADLINE_SECONDS = 60


def test_a_killed_broker_is_waited_for_and_read_on(tmp_path: Path) -> None:
    """CON-4, CLI-5: polls return nothing meanwhile; afterwards every record comes once."""
    broker = BarnabasProcess(tmp_path, properties={"num.partitions": "1"})
    broker.start()

    async def read(consumer: Consumer, count: int) -> list[int]:
        found: list[ConsumerRecord] = []
        while len(found) < count:
            found += await consumer.poll(timeout_ms=200)
        return [record.offset for record in found]

    async def run() -> None:
        async with asyncio.timeout(DEADLINE_SECONDS), raw_topic(broker.bootstrap) as topics:
            (partition,) = await topics.create("restarted")
            await topics.append_values(partition, b"0", b"1")
            settings = {"auto_offset_reset": "earliest", "fetch_max_wait_ms": 50}
            async with (
                Consumer(broker.bootstrap, **settings) as alone,  # type: ignore[arg-type]
                Consumer(broker.bootstrap, group_id="g", **settings) as member,  # type: ignore[arg-type]
            ):
                alone.assign([partition])
                member.subscribe([partition.topic])
                assert await read(alone, 2) == await read(member, 2) == [0, 1]
                await member.commit()
                broker.kill()
                assert await alone.poll(timeout_ms=300) == []
                await asyncio.to_thread(broker.start)
                await topics.append_values(partition, b"2", b"3")
                assert await read(alone, 2) == await read(member, 2) == [2, 3]
                await member.commit()
                assert (await member.committed([partition]))[partition].offset == 4  # type: ignore[union-attr]

    try:
        asyncio.run(run())
    finally:
        broker.stop()
