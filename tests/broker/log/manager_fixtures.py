"""Log managers over real directories, and a few batches to put into their logs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from barnabas_broker.config.parse import BrokerConfig
from barnabas_broker.config.topic import LogConfig
from barnabas_broker.env.clock import SystemClock
from barnabas_broker.env.disk import Disk, RealDisk
from barnabas_broker.env.randomness import SystemRandom
from barnabas_broker.log.manager.log_manager import LogManager
from barnabas_broker.log.partition_log import PartitionLog
from barnabas_broker.log.tail_cache import TailCache
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.records.record import Record, decode_records, encode_batch

TOPIC_ID = bytes(range(16))
Result = TypeVar("Result")


def topic_config(**overrides: str) -> LogConfig:
    """The settings of a topic, given as `retention_ms="1"`."""
    return LogConfig.build({}, {key.replace("_", "."): text for key, text in overrides.items()})


def manager_over(
    *directories: Path, disk: Disk | None = None, node_id: int = 1, **settings: str
) -> LogManager:
    """A manager that has opened nothing yet."""
    config = BrokerConfig.parse(
        {
            "node.id": str(node_id),
            "log.dirs": ",".join(str(directory) for directory in directories),
            **{key.replace("_", "."): text for key, text in settings.items()},
        }
    )
    return LogManager(
        config, disk or RealDisk(), SystemClock(), SystemRandom(), TailCache(1024 * 1024)
    )


def run_with(
    manager: LogManager,
    work: Callable[[LogManager], Awaitable[Result]],
    *,
    config: LogConfig | None = None,
    is_clean_stop: bool = True,
) -> Result:
    """Load a manager, do the work, close it; without a clean stop only the locks are released."""

    async def main() -> Result:
        settings = config or topic_config()
        try:
            await manager.load(lambda topic, topic_id: settings)
            await manager.forget_lost()
            result = await work(manager)
            if is_clean_stop:
                await manager.close(7)
            return result
        finally:
            crash(manager)

    return asyncio.run(main())


def crash(manager: LogManager) -> None:
    """Let go of files and locks without writing anything."""
    for log in manager.logs.values():
        log.release_files()
    for directory in manager.directories:
        directory.close()
    manager.disk.close()


def append(log: PartitionLog, *pairs: tuple[bytes | None, bytes | None], timestamp: int = 1) -> int:
    """Append one batch and make it visible; returns its first offset."""
    batch = encode_batch(
        [Record(index, timestamp, key, value) for index, (key, value) in enumerate(pairs)]
    )
    info = log.append_as_leader(memoryview(bytearray(batch)), 0, now_ms=1_000_000)
    log.write_staged()
    log.advance_high_watermark(log.log_end_offset)
    return info.first_offset


async def records_of(log: PartitionLog) -> list[tuple[int, bytes | None, bytes | None]]:
    """Offset, key and value of every record."""
    found: list[tuple[int, bytes | None, bytes | None]] = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        read = await log.read(offset, 1, log.log_end_offset)
        data = b"".join(bytes(buffer) for buffer in read.buffers)
        if not data:
            break
        records = decode_records(data)
        found += [(r.offset, r.key, r.value) for r in records if r.offset >= offset]
        header_end = int.from_bytes(data[:8], "big") + int.from_bytes(data[23:27], "big") + 1
        offset = header_end
    return found


def partition(topic: str, number: int = 0) -> TopicPartition:
    """A topic partition."""
    return TopicPartition(topic, number)
