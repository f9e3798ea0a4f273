"""Partition logs on a simulated disk, and what tests ask of them."""

import asyncio
from collections.abc import Sequence
from typing import Any

from barnabas_broker.config.topic import LogConfig
from barnabas_broker.log.local_log import LogContext
from barnabas_broker.log.log_reader import IndexCache
from barnabas_broker.log.partition_log import PartitionLog
from barnabas_broker.log.tail_cache import TailCache
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.records.batch import iterate_headers
from barnabas_protocol.records.record import Record, decode_records, encode_batch
from tests.support.simulated_clock import SimulatedClock
from tests.support.simulated_disk import SimulatedDisk
from tests.support.simulated_random import SimulatedRandom

TP = TopicPartition("topic", 0)
TOPIC_ID = bytes(range(16))
DIRECTORY = "/logs/topic-0"
NOW_MS = 1_700_000_000_000

# Replaced after parsing, because Kafka's lower bounds are larger than tests want.
SMALL = {"segment_bytes": 4096, "index_interval_bytes": 256}


def config(overrides: dict[str, str] | None = None, **attributes: Any) -> LogConfig:
    built = LogConfig.build({}, overrides or {})
    values = {name: getattr(built, name) for name in LogConfig.__slots__}
    return LogConfig(**{**values, **attributes})


def small_config(**attributes: Any) -> LogConfig:
    return config(None, **{**SMALL, **attributes})


class LogFixture:
    """A disk with one partition directory, and the log that is open on it."""

    def __init__(
        self, log_config: LogConfig | None = None, seed: int = 0, cache_bytes: int = 1 << 20
    ) -> None:
        self.random = SimulatedRandom(seed)
        self.clock = SimulatedClock(wall_ms=NOW_MS)
        self.disk = SimulatedDisk(self.random, self.clock)
        self.disk.make_directories(DIRECTORY)
        self.config = log_config or small_config()
        self.cache = TailCache(cache_bytes)
        self.log = PartitionLog.create(*self._common())

    def _common(self) -> tuple[Any, ...]:
        return (
            LogContext(
                disk=self.disk,
                clock=self.clock,
                random=self.random,
                tail_cache=self.cache,
                index_cache=IndexCache(),
            ),
            TP,
            TOPIC_ID,
            DIRECTORY,
            self.config,
        )

    async def reopen(
        self,
        *,
        was_clean: bool,
        recovery_point: int = 0,
        log_start_offset: int = 0,
        is_page_cache_lost: bool = False,
    ) -> PartitionLog:
        self.log = await PartitionLog.load(
            *self._common(),
            recovery_point=recovery_point,
            log_start_offset=log_start_offset,
            was_clean=was_clean,
            is_page_cache_lost=is_page_cache_lost,
        )
        return self.log

    def reopen_now(self, *, was_clean: bool, recovery_point: int = 0) -> PartitionLog:
        return asyncio.run(self.reopen(was_clean=was_clean, recovery_point=recovery_point))

    def append(self, *values: bytes, timestamp: int = NOW_MS, epoch: int = 0, **batch: Any) -> int:
        """Append one batch and write it; returns its first offset."""
        info = self.log.append_as_leader(
            client_batch(*values, timestamp=timestamp, **batch),
            epoch,
            now_ms=self.clock.wall_ms(),
        )
        self.log.write_staged()
        return info.first_offset

    def file(self, name: str) -> bytes:
        return self.disk.read_bytes(f"{DIRECTORY}/{name}")

    def files(self, *suffixes: str) -> dict[str, bytes]:
        names = self.disk.list_directory(DIRECTORY)
        return {name: self.file(name) for name in names if name.endswith(suffixes or "")}

    async def offsets(self, start: int | None = None) -> list[int]:
        return [record.offset for record in await self.records(start)]

    async def records(self, start: int | None = None, max_bytes: int = 700) -> list[Record]:
        log = self.log
        offset = log.log_start_offset if start is None else start
        found: list[Record] = []
        while offset < log.log_end_offset:
            data = b"".join((await log.read(offset, max_bytes, log.log_end_offset)).buffers)
            batches = list(iterate_headers(data))
            if not batches:
                break
            for position, header in batches:
                found += [r for r in decode_records(data, position) if r.offset >= offset]
                offset = header.last_offset + 1
        return found


def client_batch(
    *values: bytes, timestamp: int = NOW_MS, key: bytes | None = b"k", **batch: Any
) -> memoryview:
    records = [Record(i, timestamp, key, value, ()) for i, value in enumerate(values or (b"v",))]
    return memoryview(bytearray(encode_batch(records, **batch)))


def concatenated(buffers: Sequence[Any]) -> bytes:
    return b"".join(bytes(buffer) for buffer in buffers)
