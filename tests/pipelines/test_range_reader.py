"""A worker's consumer on a model of a cluster: markers, holes, stalls, in virtual time."""

import asyncio

import pytest

from barnabas_client.cluster.metadata import ClusterMetadata, TopicMetadata
from barnabas_pipelines.datasource.cluster_view import ReadSettings
from barnabas_pipelines.datasource.partition_read import RangeReader
from barnabas_pipelines.errors import StalledError
from barnabas_pipelines.offsets import OffsetRange
from barnabas_protocol.ids import uuid_to_text
from barnabas_protocol.records.control import ControlType, encode_marker
from tests.client.consumer.model_cluster import ModelCluster, run_model
from tests.client.consumer.model_log import partition, topic_id_of

T0 = partition(0)
SETTINGS = ReadSettings(
    client=(),
    servers="model:1",
    include_headers=False,
    fails_on_data_loss=True,
    stall_timeout_ms=20_000,
    batch_records=100,
)


class Cluster(ModelCluster):
    """Answers also what only a reader of ranges asks."""

    async def wait_for_topic(self, name: str, *, timeout_ms: int) -> TopicMetadata:
        return self.cluster.topics[name]

    async def refresh(self, *, timeout_ms: int | None = None) -> ClusterMetadata:
        await asyncio.sleep(0.002)
        return self.cluster


def wanted(start: int, end: int) -> OffsetRange:
    return OffsetRange("t", 0, uuid_to_text(topic_id_of("t")), start, end)


async def read(cluster: Cluster, target: OffsetRange, **settings: str | int) -> list[int]:
    """The offsets of all records below the end."""
    async with cluster.consumer(enable_auto_commit=False, **settings) as consumer:
        reader = RangeReader(cluster, consumer)  # type: ignore[arg-type]
        found: list[int] = []
        batches, is_last = await reader.begin(target, SETTINGS)
        while True:
            found += [record.offset for batch in batches for record in batch.records()]
            if is_last:
                return [offset for offset in found if offset < target.end]
            batches, is_last = await reader.next_batches()


def add_marker(cluster: Cluster) -> None:
    """What ends a transaction: takes an offset and is no record."""
    marker = encode_marker(
        ControlType.COMMIT,
        producer_id=7,
        producer_epoch=0,
        coordinator_epoch=0,
        timestamp=1000,
        base_offset=cluster.logs[T0].end_offset,
    )
    cluster.logs[T0].append_batch(marker)


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
@pytest.mark.parametrize(
    ("start", "end", "expected"), [(0, 9, [0, 1, 3, 4, 6, 7]), (8, 9, []), (1, 4, [1, 3])]
)
def test_a_range_that_ends_with_a_marker_ends_at_once(
    isolation: str, start: int, end: int, expected: list[int]
) -> None:
    """Every topic of a transactional producer does; waiting for its record would take for ever."""

    async def run() -> None:
        cluster = Cluster(T0, auto_offset_reset="none", isolation_level=isolation)
        for _ in range(3):
            cluster.logs[T0].append(b"a", b"b")
            add_marker(cluster)
        now = asyncio.get_running_loop().time
        began_at = now()
        assert await read(cluster, wanted(start, end)) == expected
        assert now() - began_at < 0.5

    run_model(run())


def test_nothing_behind_the_end_is_asked_for() -> None:
    """Neither the broker nor the next task waits for records that nobody wants."""

    async def run() -> None:
        cluster = Cluster(T0, auto_offset_reset="none")
        for _ in range(50):
            cluster.logs[T0].append(b"a")
        assert await read(cluster, wanted(0, 50)) == list(range(50))
        asked = [
            one.fetch_offset
            for _, request, _ in cluster.fetches
            for topic in request.topics
            for one in topic.partitions
        ]
        assert asked
        assert max(asked) < 50

    run_model(run())


def test_a_partition_that_gives_nothing_is_told_after_the_timeout() -> None:
    """Without it a task would wait for a leader for ever."""

    async def run() -> None:
        cluster = Cluster(T0, auto_offset_reset="none")
        cluster.logs[T0].append(b"a", b"b")
        cluster.unreachable.update((1, 2))
        now = asyncio.get_running_loop().time
        began_at = now()
        with pytest.raises(StalledError, match="t-0 offsets 0 to 1: nothing has come"):
            await read(cluster, wanted(0, 2), default_api_timeout_ms=1000)
        assert 20 <= now() - began_at < 30

    run_model(run())
