"""What the metadata quorum changes in the log directories: the cluster's id and recovery points."""

import asyncio

from barnabas_broker.config.parse import BrokerConfig
from barnabas_broker.log.manager.log_manager import LogManager
from barnabas_broker.log.tail_cache import TailCache
from barnabas_broker.metadata.metadata_log import (
    METADATA_PARTITION,
    metadata_log_config,
)
from barnabas_broker.metadata.metadata_log_storage import MetadataLogStorage
from barnabas_protocol.ids import TopicPartition
from tests.support.simulated_clock import SimulatedClock
from tests.support.simulated_disk import SimulatedDisk
from tests.support.simulated_random import SimulatedRandom

OTHER = TopicPartition("other", 0)


class Node:
    """A log manager on one disk, with the metadata log loaded."""

    def __init__(self, disk: SimulatedDisk, **properties: str) -> None:
        self.config = BrokerConfig.parse(
            {"node.id": "1", "log.dirs": "data/a,data/b"}
            | {key.replace("_", "."): value for key, value in properties.items()}
        )
        random = SimulatedRandom()
        self.logs = LogManager(self.config, disk, SimulatedClock(), random, TailCache(1 << 20))
        self.storage = MetadataLogStorage(self.logs, self.config)

    async def adopt(self, cluster_id: str, log_end_offset: int = 0) -> bool:
        log = await self.storage.load()
        if log_end_offset:
            log.truncate_fully_and_start_at(log_end_offset)
        return await self.storage.adopt_cluster_id(cluster_id)


def test_a_blank_node_belongs_to_the_cluster_that_it_finds() -> None:
    """Decision 0007: also after a restart, by all of its directories."""

    async def run() -> None:
        disk = SimulatedDisk()
        node = Node(disk)
        assert await node.adopt("found")
        assert node.logs.cluster_id == "found"
        disk.crash()
        again = Node(disk)
        await disk.run(again.logs.open_directories)
        assert again.logs.cluster_id == "found"
        await again.logs.close()

    asyncio.run(run())


def test_a_node_that_has_anything_keeps_its_cluster() -> None:
    """NODE-2: metadata, other logs, or a cluster id that was given."""

    async def run() -> None:
        assert not await Node(SimulatedDisk()).adopt("found", log_end_offset=1)
        assert not await Node(SimulatedDisk(), cluster_id="given").adopt("found")
        disk = SimulatedDisk()
        disk.make_directories("data/b")
        node = Node(disk)
        await disk.run(node.logs.open_directories)
        own_id = node.logs.cluster_id
        node.logs.create(OTHER, bytes(15) + b"\x07", metadata_log_config(1 << 20))
        assert not await node.adopt("found")
        assert node.logs.cluster_id == own_id

    asyncio.run(run())


def test_a_recovery_point_goes_back_with_a_truncation_before_the_other_logs_are_loaded() -> None:
    """REC-5: what is appended after a truncation is not flushed; other logs keep their points."""

    async def run() -> None:
        node = Node(SimulatedDisk())
        await node.adopt("found")
        logs = node.logs
        directory = node.storage.directory
        points = {METADATA_PARTITION: 50, OTHER: 9}
        await logs.disk.run(directory.recovery_points.write, points)
        await node.storage.lower_recovery_point()
        assert directory.recovery_points.read() == {METADATA_PARTITION: 0, OTHER: 9}
        await logs.close()

    asyncio.run(run())
