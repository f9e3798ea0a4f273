"""The metadata log of this node: records staged, flushed, committed and published, in that order.

It is the partition log of `__cluster_metadata-0`; its leader epoch is the controller epoch. Who may
lead is not decided here (that is the arbiter's), nor what the records should be (the controller's).

Invariants: nothing is published that is not committed; each committed batch is published once, in
the order of the log; a node leads only after it has committed a record of its own epoch.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final

from barnabas_broker.config.topic import LogConfig
from barnabas_broker.env.clock import Clock
from barnabas_broker.env.disk import Buffer, Disk
from barnabas_broker.metadata import snapshot
from barnabas_broker.metadata.delta import MetadataDelta
from barnabas_broker.metadata.image import MetadataImage
from barnabas_broker.metadata.publisher import MetadataPublisher
from barnabas_broker.metadata.quorum import Seat, committed_end_offset
from barnabas_broker.metadata.records import EpochRecord, MetadataRecord, decode, encode
from barnabas_broker.metadata.replicated_log import ReplicatedLog
from barnabas_protocol.errors import ParseError
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.records.batch import BatchHeader, iterate_headers
from barnabas_protocol.records.record import Record, decode_records, encode_batch

logger = logging.getLogger(__name__)

METADATA_PARTITION: Final = TopicPartition("__cluster_metadata", 0)
# The id that Kafka gives its topic of this name: it must be known before any metadata is read.
METADATA_TOPIC_ID: Final = bytes(15) + b"\x01"
_READ_BYTES: Final = 1 << 20


class MetadataLogError(Exception):
    """The metadata log cannot be read or does not make sense: the broker cannot start."""


def metadata_log_config(segment_bytes: int) -> LogConfig:
    """The settings of the log itself: nothing is deleted but what a snapshot stands for."""
    return LogConfig.build(
        {},
        {
            "cleanup.policy": "delete",
            "max.message.bytes": str((1 << 31) - 1),
            "retention.bytes": "-1",
            "retention.ms": "-1",
            "segment.bytes": str(segment_bytes),
        },
    )


class MetadataLog:
    """The log, the image of all its records, and the part of it that is committed."""

    __slots__ = (
        "_bytes_since_snapshot",
        "_clock",
        "_disk",
        "_log",
        "_members",
        "_own_epoch_start",
        "_seat",
        "_snapshot_interval_bytes",
        "_waiting",
        "controller_epoch",
        "pending_image",
        "publisher",
    )

    def __init__(
        self,
        log: ReplicatedLog,
        *,
        disk: Disk,
        clock: Clock,
        publisher: MetadataPublisher,
        seat: Seat,
        snapshot_interval_bytes: int,
    ) -> None:
        self._log = log
        self._disk = disk
        self._clock = clock
        self._seat = seat
        self._snapshot_interval_bytes = snapshot_interval_bytes
        self._bytes_since_snapshot = 0
        self._members: tuple[frozenset[Seat], ...] = (frozenset((seat,)),)
        self._own_epoch_start = 0
        self._waiting: deque[tuple[MetadataDelta | None, MetadataImage]] = deque()
        self.publisher = publisher
        self.controller_epoch = 0
        # The image with the records that are staged but not committed yet.
        self.pending_image = MetadataImage.empty()

    @property
    def image(self) -> MetadataImage:
        """The newest committed image."""
        return self.publisher.image

    async def recover(self) -> MetadataImage:
        """Load the newest snapshot and all records after it; publishes nothing.

        Raises: MetadataLogError, OSError.
        """
        image = await self._disk.run(snapshot.load_newest, self._disk, self._log.directory)
        if self._log.log_start_offset > image.offset + 1:
            raise MetadataLogError(
                f"the metadata log begins at {self._log.log_start_offset}, "
                f"but the newest snapshot ends at {image.offset + 1}"
            )
        if image.offset + 1 > self._log.log_end_offset:
            raise MetadataLogError(
                f"the metadata log ends at {self._log.log_end_offset}, "
                f"before the newest snapshot, at {image.offset + 1}"
            )
        delta = MetadataDelta(image)
        next_offset = image.offset + 1
        while next_offset < self._log.log_end_offset:
            read = await self._log.read(next_offset, _READ_BYTES, self._log.log_end_offset)
            next_offset = self._replay(read.buffers, delta, next_offset)
        self.pending_image = delta.build()
        self._bytes_since_snapshot = self._log.size_bytes
        return self.pending_image

    def _replay(self, buffers: Iterable[Buffer], delta: MetadataDelta, next_offset: int) -> int:
        """Apply the records from an offset on; returns the offset after the last."""
        start = next_offset
        data = b"".join(buffers)
        try:
            for position, header in iterate_headers(data):
                for record in _records_of(data, position, header):
                    if record.offset >= next_offset:
                        delta.apply(decode(record.value))
                        next_offset = record.offset + 1
        except ParseError as error:
            raise MetadataLogError(f"the metadata log at {next_offset}: {error}") from error
        if next_offset == start:
            raise MetadataLogError(f"nothing could be read at {start} of the metadata log")
        return next_offset

    async def lead(
        self, controller_epoch: int, leader: int, cluster_id: str, members: Iterable[Seat]
    ) -> None:
        """Begin an epoch that the arbiter has granted: its first record is committed on return.

        All records before it, recovered but not known to be committed, are committed with it; the
        image is published whole. Raises: MetadataLogError if the epoch is not a new one.
        """
        latest = max(self.pending_image.epoch, self._log.leader_epochs.latest)
        if controller_epoch <= latest:
            raise MetadataLogError(
                f"controller epoch {controller_epoch} is not above {latest}, the log's last one"
            )
        self.controller_epoch = controller_epoch
        self._members = (frozenset(members),)
        self._own_epoch_start = self._log.log_end_offset
        self._log.leader_epochs.assign(controller_epoch, self._own_epoch_start)
        self._stage([EpochRecord(controller_epoch, leader, cluster_id)], publish_whole=True)
        await self.commit()

    def stage(self, records: Sequence[MetadataRecord]) -> int:
        """Take records that commit or vanish together; returns the offset of the last.

        `pending_image` holds them at once; nothing is on disk before `commit`.
        Raises: InconsistentRecordError, and then nothing is staged.
        """
        return self._stage(records, publish_whole=False)

    def _stage(self, records: Sequence[MetadataRecord], *, publish_whole: bool) -> int:
        if not records:
            return self.pending_image.offset
        delta = MetadataDelta(self.pending_image)
        for record in records:
            delta.apply(record)
        now_ms = self._clock.wall_ms()
        batch = encode_batch(
            [Record(index, now_ms, None, encode(record)) for index, record in enumerate(records)],
            leader_epoch=self.controller_epoch,
        )
        self._log.append_as_leader(
            memoryview(bytearray(batch)), self.controller_epoch, internal=True, now_ms=now_ms
        )
        self._bytes_since_snapshot += len(batch)
        self.pending_image = delta.build()
        self._waiting.append((None if publish_whole else delta, self.pending_image))
        return self.pending_image.offset

    async def commit(self) -> int:
        """Flush what is staged and publish what is thereby committed; returns the last offset.

        Raises: OSError or LogDirectoryError; the node must then stop leading, for it is not known
        what its disk holds.
        """
        if not self._waiting:
            return self.image.offset
        self._log.write_staged()
        end_offset = self._log.log_end_offset
        await self._log.flush(end_offset)
        committed = committed_end_offset(
            self._members, {self._seat: end_offset}, self._own_epoch_start
        )
        self._log.advance_high_watermark(committed)
        while self._waiting and self._waiting[0][1].offset < committed:
            delta, image = self._waiting.popleft()
            await self.publisher.publish(delta, image)
        if self._bytes_since_snapshot >= self._snapshot_interval_bytes:
            await self.write_snapshot()
        return committed - 1

    async def append(self, records: Sequence[MetadataRecord]) -> int:
        """Stage and commit; returns the offset of the last record."""
        offset = self.stage(records)
        await self.commit()
        return offset

    async def write_snapshot(self) -> None:
        """Write the committed image as a snapshot and trim the log to what is still needed.

        A failure is logged: the log still has everything.
        """
        self._bytes_since_snapshot = 0
        try:
            log_start_offset = await self._disk.run(
                snapshot.write, self._disk, self._log.directory, self.image, self._clock.wall_ms()
            )
        except OSError as error:
            logger.error("no snapshot of the metadata at %d: %s", self.image.offset, error)
            return
        if log_start_offset > self._log.log_start_offset:
            await self._log.delete_records(log_start_offset)


def _records_of(data: bytes, position: int, header: BatchHeader) -> list[Record]:
    return [] if header.is_control else decode_records(data, position)
