"""The metadata log on a real partition log, and on the one in memory that other tests use."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from barnabas_broker.config.parse import BrokerConfig
from barnabas_broker.env.disk import RealDisk
from barnabas_broker.log.log_manager import LogManager
from barnabas_broker.log.tail_cache import TailCache
from barnabas_broker.metadata.metadata_log import (
    METADATA_PARTITION,
    METADATA_TOPIC_ID,
    MetadataLog,
    metadata_log_config,
)
from barnabas_broker.metadata.publisher import MetadataPublisher
from barnabas_broker.metadata.quorum import Seat
from barnabas_broker.metadata.records import ConfigRecord
from barnabas_broker.metadata.replicated_log import ReplicatedLog
from tests.support.memory_log import MemoryLog
from tests.support.simulated_clock import SimulatedClock
from tests.support.simulated_random import SimulatedRandom

SEAT = Seat(0, b"directory-of-one")


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
        for epoch in (1, 2, 3):
            partition_log = await place.open()
            log = MetadataLog(
                partition_log,
                disk=place.disk,
                clock=SimulatedClock(),
                publisher=MetadataPublisher(),
                seat=SEAT,
                snapshot_interval_bytes=3000,
            )
            recovered = await log.recover()
            assert recovered.config_overrides(2, "t") == overrides
            await log.lead(epoch, 0, "cluster", [SEAT])
            assert log.image.offset == recovered.offset + 1
            for number in range(100):
                overrides[f"key-{epoch}-{number}"] = "v" * 50
                offset = await log.append([ConfigRecord(2, "t", f"key-{epoch}-{number}", "v" * 50)])
                assert offset == log.image.offset == recovered.offset + 2 + number
            assert partition_log.log_start_offset > recovered.offset
        await place.close()

    asyncio.run(run())
