"""Text checkpoints: small files of numbers, replaced as a whole and never half written.

Line 1 is the version `0`, line 2 the number of entries, then one entry per line, fields separated
by spaces. The same layout holds the recovery points, log start offsets, high watermarks and first
dirty offsets of a log directory (`topic partition offset`), and the leader epochs of a partition
(`epoch startOffset`).

Not here: what a broken file means. That differs per file (a broken recovery-point file means
recovery point 0, a broken leader-epoch file is rebuilt from batches), so `read` raises and the
caller decides.

Source: Apache Kafka's file layout, `docs/formats/log.md`. Invariant: `write` leaves either the old
or the new content on disk, whenever the machine stops.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from barnabas_protocol.ids import TopicPartition

if TYPE_CHECKING:
    from barnabas_broker.env.disk import Disk

VERSION = 0
RECOVERY_POINT_FILE = "recovery-point-offset-checkpoint"
LOG_START_OFFSET_FILE = "log-start-offset-checkpoint"
HIGH_WATERMARK_FILE = "replication-offset-checkpoint"
CLEANER_FILE = "cleaner-offset-checkpoint"


class CheckpointError(Exception):
    """A checkpoint or property file whose content cannot be trusted."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


class OffsetCheckpoint:
    """One file that maps topic partitions to offsets."""

    __slots__ = ("_disk", "path")

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self.path = path

    def read(self) -> dict[TopicPartition, int]:
        """Return the offsets in the file, empty if there is no file.

        Raises: CheckpointError if the content is not a checkpoint of this version.
        """
        if not self._disk.exists(self.path):
            return {}
        offsets: dict[TopicPartition, int] = {}
        for topic, partition, offset in decode(self.path, self._disk.read_bytes(self.path), 3):
            key = TopicPartition(topic, integer(self.path, partition))
            if key in offsets:
                raise CheckpointError(self.path, f"{topic}-{partition} is listed twice")
            value = integer(self.path, offset)
            if key.partition < 0 or value < 0:
                raise CheckpointError(self.path, f"negative number in {topic} {partition} {offset}")
            offsets[key] = value
        return offsets

    def write(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Replace the file. Blocks for two fsyncs: call it through `Disk.run`."""
        rows = ((key.topic, key.partition, offset) for key, offset in sorted(offsets.items()))
        self._disk.write_atomically(self.path, encode(rows))


def encode(rows: Iterable[Sequence[object]]) -> bytes:
    """Return the bytes of a checkpoint with these rows."""
    lines = [" ".join(map(str, row)) for row in rows]
    return "\n".join([str(VERSION), str(len(lines)), *lines, ""]).encode("utf-8")


def decode(path: str, data: bytes, field_count: int) -> list[list[str]]:
    """Return the rows of a checkpoint, each of `field_count` fields.

    `path` only names the file in errors. Raises: CheckpointError for anything but a whole
    checkpoint.
    """
    try:
        lines = data.decode("utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise CheckpointError(path, "not UTF-8 text") from error
    if len(lines) < 2:
        raise CheckpointError(path, f"{len(lines)} lines where version and count are expected")
    if integer(path, lines[0]) != VERSION:
        raise CheckpointError(path, f"version {lines[0]!r} is unknown")
    rows = [line.split() for line in lines[2:] if line.strip()]
    if integer(path, lines[1]) != len(rows):
        raise CheckpointError(path, f"{lines[1]} entries announced, {len(rows)} found")
    for row in rows:
        if len(row) != field_count:
            raise CheckpointError(
                path, f"entry {' '.join(row)!r} does not have {field_count} fields"
            )
    return rows


def integer(path: str, text: str) -> int:
    """Return the number in a field. Raises: CheckpointError if it is none."""
    try:
        return int(text)
    except ValueError as error:
        raise CheckpointError(path, f"{text!r} is not a number") from error
