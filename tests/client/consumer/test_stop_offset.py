"""Reading a range: nothing is fetched behind its end, on a model of a cluster in virtual time."""

import asyncio

from tests.client.consumer.model_cluster import ModelCluster, run_model
from tests.client.consumer.model_log import partition

T0, T1 = partition(0), partition(1)


def test_nothing_is_fetched_at_or_behind_the_stop() -> None:
    """A reader of many ranges must not wait for, or load the broker with, what nobody reads."""

    async def run() -> None:
        cluster = ModelCluster(T0)
        for _ in range(10):
            cluster.logs[T0].append(b"x")
        async with cluster.consumer(max_partition_fetch_bytes=1) as consumer:
            consumer.assign([T0])
            consumer.seek(T0, 0)
            consumer.stop_at(T0, 4)
            found = []
            while len(found) < 4:
                found += await consumer.poll(timeout_ms=1000)
            assert [one.offset for one in found] == [0, 1, 2, 3]
            await asyncio.sleep(30)
            assert await consumer.poll(timeout_ms=1000) == []
            asked = {
                one.fetch_offset
                for _, request, _ in cluster.fetches
                for topic in request.topics
                for one in topic.partitions
            }
            assert max(asked) == 3
            consumer.stop_at(T0, None)
            assert [one.offset for one in await consumer.poll(timeout_ms=1000)] == [4]

    run_model(run())


def test_other_partitions_are_read_on() -> None:
    """Each partition has its own end."""

    async def run() -> None:
        cluster = ModelCluster(T0, T1)
        async with cluster.consumer() as consumer:
            consumer.assign([T0, T1])
            for one in (T0, T1):
                consumer.seek(one, 0)
            consumer.stop_at(T0, 0)
            cluster.logs[T0].append(b"x")
            cluster.logs[T1].append(b"y")
            assert [one.partition for one in await consumer.poll(timeout_ms=1000)] == [1]
            assert await consumer.poll(timeout_ms=1000) == []

    run_model(run())
