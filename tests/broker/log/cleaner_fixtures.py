"""A manager over a simulated disk with one compacted log, for the tests of the cleaner."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from barnabas_broker.config.parse import BrokerConfig
from barnabas_broker.config.topic import LogConfig
from barnabas_broker.log.batch_scan import scan_batches
from barnabas_broker.log.manager.log_manager import LogManager
from barnabas_broker.log.partition_log import PartitionLog
from barnabas_broker.log.tail_cache import TailCache
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.records.batch import BatchHeader
from barnabas_protocol.records.control import ControlType, encode_marker
from barnabas_protocol.records.record import Record, decode_records, encode_batch
from tests.support.simulated_clock import SimulatedClock
from tests.support.simulated_disk import SimulatedDisk
from tests.support.simulated_random import SimulatedRandom

NAME = TopicPartition("compacted", 0)
TOPIC_ID = bytes(range(16))
DAY_MS = 86_400_000


def compacted(**overrides: object) -> LogConfig:
    """The settings of a compacted topic; overrides by attribute, limits not checked."""
    config = LogConfig.build({}, {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"})
    return dataclasses.replace(config, **overrides)  # type: ignore[arg-type]


class Bench:
    """One broker's logs over a simulated disk that outlives it."""

    def __init__(self, disk: SimulatedDisk | None = None, **settings: str) -> None:
        self.clock = SimulatedClock()
        self.disk = disk or SimulatedDisk(clock=self.clock)
        self.config = BrokerConfig.parse(
            {
                "node.id": "1",
                "log.dirs": "/data",
                **{k.replace("_", "."): v for k, v in settings.items()},
            }
        )
        self.manager = self.new_manager()

    def new_manager(self) -> LogManager:
        """A manager that has opened nothing, as after a start of the process."""
        return LogManager(
            self.config, self.disk, self.clock, SimulatedRandom(), TailCache(1024 * 1024)
        )

    async def open(self, config: LogConfig | None = None) -> PartitionLog:
        """Load what is there and return the compacted log."""
        settings = config or compacted()
        await self.manager.load(lambda topic, topic_id: settings)
        log = self.manager.create(NAME, TOPIC_ID, settings)
        log.advance_high_watermark(log.log_end_offset)
        return log

    async def restart(self, config: LogConfig | None = None) -> PartitionLog:
        """Lose power and start again."""
        self.disk.crash()
        self.manager = self.new_manager()
        return await self.open(config)


def put(
    log: PartitionLog,
    *pairs: tuple[bytes | None, bytes | None],
    timestamp: int = 1000,
    compression: int = 0,
    producer: tuple[int, int, int] = (-1, -1, -1),
    is_transactional: bool = False,
) -> int:
    """Append one batch and make it visible; returns its first offset."""
    batch = encode_batch(
        [Record(index, timestamp, key, value) for index, (key, value) in enumerate(pairs)],
        compression=compression,
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=producer[2],
        is_transactional=is_transactional,
    )
    info = log.append_as_leader(bytearray(batch), 0, now_ms=log.clock.wall_ms())
    log.write_staged()
    log.advance_high_watermark(log.log_end_offset)
    return info.first_offset


def mark(log: PartitionLog, producer_id: int, control_type: ControlType) -> int:
    """Append a marker; returns its offset."""
    batch = encode_marker(
        control_type, producer_id=producer_id, producer_epoch=0, coordinator_epoch=0, timestamp=1000
    )
    info = log.append_as_leader(bytearray(batch), 0, internal=True, now_ms=log.clock.wall_ms())
    log.write_staged()
    log.advance_high_watermark(log.log_end_offset)
    return info.first_offset


async def seal(log: PartitionLog) -> None:
    """Leave the active segment and flush it, so that it may be compacted."""
    log.roll()
    await log.flush()


def batches(log: PartitionLog) -> list[tuple[BatchHeader, list[Record]]]:
    """All batches in the files of a log."""
    found: list[tuple[BatchHeader, list[Record]]] = []
    for segment in log.segments.values():
        for _, header, data in scan_batches(segment.log_path, segment.file, 0, segment.size_bytes):
            found.append((header, decode_records(data)))
    return found


def contents(log: PartitionLog) -> list[tuple[int, bytes | None, bytes | None]]:
    """Offset, key and value of every data record."""
    return [
        (record.offset, record.key, record.value)
        for header, records in batches(log)
        if not header.is_control
        for record in records
    ]


def newest(
    records: Iterable[tuple[int, bytes | None, bytes | None]], below: int
) -> list[tuple[int, bytes | None, bytes | None]]:
    """What compaction up to `below` must leave: the plain twin of the cleaner."""
    every = list(records)
    last = {key: offset for offset, key, _ in every if offset < below}
    return [
        (offset, key, value)
        for offset, key, value in every
        if offset >= below or last[key] == offset
    ]


def offsets(log):
    """The offsets of all records, in order."""
    return [offset for offset, _, _ in contents(log)]
