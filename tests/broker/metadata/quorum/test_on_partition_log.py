"""The metadata log on a real partition log, and on the one in memory that other tests use."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from barnabas_broker.arbiter.arbiter import Leader
from barnabas_broker.config.parse import BrokerConfig
from barnabas_broker.env.clock import SystemClock
from barnabas_broker.env.disk import RealDisk
from barnabas_broker.log.manager.log_manager import LogManager
from barnabas_broker.log.tail_cache import TailCache
from barnabas_broker.metadata.connection_refusals import NoConnectionRefusals
from barnabas_broker.metadata.metadata_log import (
    METADATA_PARTITION,
    METADATA_TOPIC_ID,
    metadata_log_config,
)
from barnabas_broker.metadata.publisher import MetadataPublisher
from barnabas_broker.metadata.quorum.event_loop import QuorumCallbacks
from barnabas_broker.metadata.quorum.metadata_quorum import MetadataQuorum
from barnabas_broker.metadata.quorum.timing import QuorumSettings
from barnabas_broker.metadata.quorum.transport import NobodyElse
from barnabas_broker.metadata.quorum.voters import Voter
from barnabas_broker.metadata.records import ConfigRecord
from barnabas_broker.metadata.replicated_log import ReplicatedLog
from tests.support.memory_arbiter import MemoryArbiter, MemoryStore
from tests.support.memory_log import MemoryLog
from tests.support.simulated_clock import SimulatedClock
from tests.support.simulated_random import SimulatedRandom

SEAT = Voter(0, b"directory-of-one")


class OnDisk:
    """A log manager over a folder; a restart forgets it without closing it, as kill -9 does."""

    def __init__(self, path: Path) -> None:
        self.disk = RealDisk()
        self._path = str(path)
        self._manager: LogManager | None = None

    async def open(self) -> ReplicatedLog:
        config = BrokerConfig.parse({"node.id": "0", "log.dirs": self._path})
        if self._manager is not None:
            for directory in self._manager.directories:
                directory.close()
        self._manager = LogManager(
            config, self.disk, SimulatedClock(), SimulatedRandom(), TailCache(1 << 20)
        )
        return await self._manager.load_partition(
            METADATA_PARTITION, METADATA_TOPIC_ID, metadata_log_config(8 << 20)
        )

    async def close(self) -> None:
        assert self._manager is not None
        await self._manager.close()
        self.disk.close()


class InMemory:
    def __init__(self, path: Path) -> None:
        self.disk = RealDisk()
        self._log = MemoryLog(str(path))

    async def open(self) -> ReplicatedLog:
        self._log.crash()
        return self._log

    async def close(self) -> None:
        self.disk.close()


@pytest.mark.parametrize("home", [OnDisk, InMemory])
def test_metadata_survives_restarts_and_trimming(
    tmp_path: Path, home: Callable[[Path], OnDisk | InMemory]
) -> None:
    """CTL-11, CTL-12: three epochs, each with more records than a snapshot's interval."""

    async def run() -> None:
        place = home(tmp_path)
        overrides: dict[str, str] = {}
        store = MemoryStore()
        failures: list[BaseException] = []
        for epoch in (1, 2, 3):
            partition_log = await place.open()
            quorum = MetadataQuorum(
                partition_log,
                disk=place.disk,
                clock=SystemClock(),
                arbiter=MemoryArbiter(store),
                transport=NobodyElse(),
                refusals=NoConnectionRefusals(),
                publisher=MetadataPublisher(),
                voter=SEAT,
                cluster_id="cluster",
                listener_name="PLAINTEXT",
                settings=QuorumSettings(snapshot_interval_bytes=3000),
                callbacks=QuorumCallbacks(on_failure=failures.append),
            )
            recovered = await quorum.recover()
            assert recovered.config_overrides(2, "t") == overrides
            await quorum.start(Leader(0, "localhost", 1), ["PLAINTEXT"])
            await quorum.until_active(20)
            assert quorum.controller_epoch == epoch
            number = 0
            # Snapshots are written beside the commits; the log is trimmed behind the second.
            while number < 100 or partition_log.log_start_offset <= recovered.offset:
                assert number < 10_000
                key = f"key-{epoch}-{number % 100}"
                overrides[key] = "v" * 50
                offset = quorum.stage([ConfigRecord(2, "t", key, "v" * 50)])
                assert await quorum.commit() == offset == quorum.publisher.image.offset
                assert offset == recovered.offset + 2 + number
                number += 1
            await quorum.abandon()
        await place.close()
        assert failures == []

    asyncio.run(run())
