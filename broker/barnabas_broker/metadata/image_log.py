"""This node's copy of the metadata log with the images that its records make.

Each part of the log that is not known to be committed has its image waiting beside it; committed
ones are taken out in order, each with its delta. What is truncated takes its images along; if that
is more than what waits, the image is read from the disk again.

Not here: what is committed, who leads (`quorum`), when snapshots are made.
Invariants: the last image that waits is that of the whole log; nothing is taken out twice.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from barnabas_broker.env.clock import Clock
from barnabas_broker.env.disk import Buffer, Disk
from barnabas_broker.log.leader_epochs import LeaderEpochs
from barnabas_broker.metadata import snapshot_files
from barnabas_broker.metadata.delta import MetadataDelta
from barnabas_broker.metadata.image import MetadataImage
from barnabas_broker.metadata.image_difference import difference
from barnabas_broker.metadata.log_replay import read_image, replay
from barnabas_broker.metadata.metadata_log import MetadataLogError
from barnabas_broker.metadata.record_codec import encode
from barnabas_broker.metadata.records import EpochRecord, MetadataRecord
from barnabas_broker.metadata.replicated_log import ReplicatedLog
from barnabas_broker.metadata.snapshot import SnapshotName, list_snapshots
from barnabas_protocol.records.batch import iterate_headers
from barnabas_protocol.records.record import Record, encode_batch

FETCH_BYTES: Final = 32 << 10
"""What a follower is sent at a time: it reads the records on its loop, in some milliseconds."""


RECORDS_PER_TURN: Final = 1_000
"""To apply one and to encode it takes some microseconds."""


class Change(NamedTuple):
    """From one committed image to the next; without a delta, the first one of this run."""

    delta: MetadataDelta | None
    image: MetadataImage


class PreparedRecords:
    """Records that may be staged on top of an image: applied and encoded, a part at a time."""

    __slots__ = ("delta", "values")

    def __init__(self, image: MetadataImage) -> None:
        self.delta = MetadataDelta(image)
        self.values: list[bytes] = []

    def add(self, records: Sequence[MetadataRecord]) -> None:
        """Take the next ones. Raises: InconsistentRecordError."""
        for record in records:
            self.delta.apply(record)
            self.values.append(encode(record))

    async def with_all(self, records: Sequence[MetadataRecord]) -> PreparedRecords:
        """Return these with more: at once, or where they are many some in each turn of the loop.

        A turn of its own for each part: before them the records were decided, and behind them they
        are staged. Raises: InconsistentRecordError.
        """
        if len(records) <= RECORDS_PER_TURN:
            self.add(records)
            return self
        for start in range(0, len(records), RECORDS_PER_TURN):
            await asyncio.sleep(0)
            self.add(records[start : start + RECORDS_PER_TURN])
        await asyncio.sleep(0)
        return self


class ImageLog:
    """The log on disk, seen as `log_ends.LogView`, and the images of it."""

    __slots__ = (
        "_clock",
        "_disk",
        "_log",
        "_waiting",
        "bytes_since_snapshot",
        "check",
        "committed_image",
        "has_committed",
        "log_start_epoch",
    )

    def __init__(self, log: ReplicatedLog, disk: Disk, clock: Clock) -> None:
        self._log = log
        self._disk = disk
        self._clock = clock
        self._waiting: deque[Change] = deque()
        # Raises for what this release must not work with, before it is written.
        self.check: Callable[[MetadataImage], None] = lambda image: None
        self.bytes_since_snapshot = 0
        self.committed_image = MetadataImage.empty()  # the last that was taken out
        self.has_committed = False
        self.log_start_epoch = -1

    # ---- what the rules look at ------------------------------------------------------------------

    @property
    def leader_epochs(self) -> LeaderEpochs:
        """Which controller epoch begins at which offset."""
        return self._log.leader_epochs

    @property
    def log_start_offset(self) -> int:
        """The first offset that can be read."""
        return self._log.log_start_offset

    @property
    def known_committed_offset(self) -> int:
        """Below it all was known to be committed, by this run or an earlier one."""
        return self._log.high_watermark

    @property
    def log_end_offset(self) -> int:
        """The offset after the last record written."""
        return self._log.log_end_offset

    @property
    def directory(self) -> str:
        """Where log, snapshots and promise are."""
        return self._log.directory

    @property
    def pending_image(self) -> MetadataImage:
        """The image of all that is written or staged, committed or not."""
        return self._waiting[-1].image if self._waiting else self.committed_image

    # ---- start -----------------------------------------------------------------------------------

    async def recover(self) -> MetadataImage:
        """Read what is on disk, after ending an installation that was interrupted.

        Raises: MetadataLogError, OSError.
        """
        installing = await self._disk.run(
            snapshot_files.find_installing, self._disk, self._log.directory
        )
        if installing is not None:
            await self._put_in_place(installing)
        image = await read_image(self._disk, self._log)
        self.check(image)
        await self._find_start_epoch()
        self._waiting = deque([Change(None, image)])
        self.bytes_since_snapshot = self._log.size_bytes
        return image

    async def _find_start_epoch(self) -> None:
        """The epoch before the log start is in the name of the snapshot that ends there.

        Without that one, the log is made to begin where a snapshot ends that can be read.
        """
        start, directory = self._log.log_start_offset, self._log.directory
        if start == 0:
            self.log_start_epoch = -1
            return
        names = await self._disk.run(list_snapshots, self._disk, directory)
        for name in names:
            if name.end_offset == start:
                self.log_start_epoch = name.controller_epoch
                return
        names = await self._disk.run(snapshot_files.readable_snapshots, self._disk, directory)
        await self.trim(min(name for name in names if name.end_offset > start))

    # ---- following -------------------------------------------------------------------------------

    def append(self, records: Buffer) -> None:
        """Write batches as the leader has sent them. Raises: MetadataLogError, OSError, ..."""
        base_offset = self._log.log_end_offset
        data = bytearray(records)  # the frame that they came in is not kept for them
        delta = MetadataDelta(self.pending_image)
        end_offset = replay((data,), delta, base_offset)
        image = delta.build()
        self.check(image)
        self._log.append_as_follower(memoryview(data))
        self._log.write_staged()
        if end_offset != self._log.log_end_offset:
            raise MetadataLogError(f"records up to {end_offset} are {self._log.log_end_offset}")
        self.bytes_since_snapshot += len(data)
        self._waiting.append(Change(delta, image))

    async def truncate(self, end_offset: int) -> None:
        """Drop the records from an offset on, and their images. Raises: OSError, ..."""
        await self._log.truncate(end_offset)
        while self._waiting and self._waiting[-1].image.offset >= end_offset:
            self._waiting.pop()
        if self.pending_image.offset + 1 != end_offset:
            image = await read_image(self._disk, self._log)
            self._waiting = deque([await self._change_to(image)])

    async def install(self, name: SnapshotName, data: bytes, image: MetadataImage) -> None:
        """Let a snapshot stand for the whole log, which is empty afterwards and begins at its end.

        An interruption is ended by the next start. Raises: OSError, ...
        """
        self.check(image)
        await self._disk.run(
            snapshot_files.write_installing, self._disk, self._log.directory, name, data
        )
        change = await self._change_to(image)
        await self._put_in_place(name)
        is_from_there = change.delta is not None and change.delta.image is self.committed_image
        self._waiting = deque([change if is_from_there else Change(None, image)])
        self.bytes_since_snapshot = 0

    async def _change_to(self, image: MetadataImage) -> Change:
        """What leads to an image that no records lead to, found beside the loop."""
        while self.has_committed and image.offset > self.committed_image.offset:
            known = self.committed_image
            delta = await self._disk.run(difference, known, image)
            if known is self.committed_image:
                return Change(delta, image)
        return Change(None, image)

    async def _put_in_place(self, name: SnapshotName) -> None:
        self._log.truncate_fully_and_start_at(name.end_offset)
        await self._log.settle_cut()
        await self._disk.run(
            snapshot_files.finish_installing, self._disk, self._log.directory, name
        )
        self.log_start_epoch = name.controller_epoch

    # ---- leading ---------------------------------------------------------------------------------

    def begin_epoch(self, controller_epoch: int, leader_id: int, cluster_id: str) -> None:
        """Write the first record of an epoch that this node leads. Raises: OSError, ..."""
        self.stage([EpochRecord(controller_epoch, leader_id, cluster_id)], controller_epoch)
        self._log.write_staged()

    def stage(self, records: Sequence[MetadataRecord], controller_epoch: int) -> int:
        """Take records that commit or vanish together; returns the offset of the last.

        `pending_image` holds them at once; nothing is on disk before `write`.
        Raises: InconsistentRecordError, and then nothing is staged.
        """
        prepared = PreparedRecords(self.pending_image)
        prepared.add(records)
        return self.stage_prepared(prepared, controller_epoch)

    def stage_prepared(self, prepared: PreparedRecords, controller_epoch: int) -> int:
        """The same for records that were prepared for what is the pending image."""
        if prepared.delta.image is not self.pending_image:
            raise MetadataLogError("records were prepared for another image than the pending one")
        if not prepared.values:
            return self.pending_image.offset
        delta, image = prepared.delta, prepared.delta.build()
        now_ms = self._clock.wall_ms()
        batch = encode_batch(
            [Record(index, now_ms, None, value) for index, value in enumerate(prepared.values)],
            leader_epoch=controller_epoch,
        )
        self._log.append_as_leader(
            memoryview(bytearray(batch)), controller_epoch, internal=True, now_ms=now_ms
        )
        self.bytes_since_snapshot += len(batch)
        self._waiting.append(Change(delta, image))
        return image.offset

    def write(self) -> None:
        """Write what is staged. Raises: OSError, ..."""
        self._log.write_staged()
        if self._log.log_end_offset <= self.pending_image.offset:
            raise OSError("the metadata log takes nothing any more: it is out of service")

    def discard_staged(self) -> None:
        """Forget what is staged and not written, for this node does not lead any more."""
        self._log.discard_staged()
        while self._waiting and self._waiting[-1].image.offset >= self._log.log_end_offset:
            self._waiting.pop()

    # ---- for all ---------------------------------------------------------------------------------

    async def flush(self, end_offset: int) -> None:
        """Return when everything below an offset is on the disk's surface. Raises: OSError, ..."""
        await self._log.flush(min(end_offset, self._log.log_end_offset))

    async def records(self, offset: int) -> tuple[bytes, int]:
        """Whole batches from an offset on, and the offset after the last of them."""
        read = await self._log.read(offset, FETCH_BYTES, self._log.log_end_offset)
        data = b"".join(read.buffers)
        end_offset = offset
        for _, header in iterate_headers(data):
            end_offset = header.last_offset + 1
        return data, end_offset

    def take_committed(self, high_watermark: int) -> list[Change]:
        """The changes that are newly known to be committed, in order.

        The first of a run has no delta and all that is known by then in its image.
        """
        self._log.advance_high_watermark(high_watermark)
        changes: list[Change] = []
        while self._waiting and self._waiting[0].image.offset < high_watermark:
            delta, image = self._waiting.popleft()
            if not self.has_committed:
                changes = [Change(None, image)]
            elif image.offset > self.committed_image.offset:
                if delta is None:  # it was not known then from where it would lead
                    delta = difference(self.committed_image, image)
                changes.append(Change(delta, image))
            self.committed_image = image
        self.has_committed = self.has_committed or bool(changes)
        return changes

    async def trim(self, name: SnapshotName) -> None:
        """Let the log begin where a snapshot ends. Raises: OSError, ..."""
        if name.end_offset <= self._log.log_start_offset:
            return
        self._log.advance_high_watermark(name.end_offset)
        await self._log.delete_records(name.end_offset)
        self.log_start_epoch = name.controller_epoch
