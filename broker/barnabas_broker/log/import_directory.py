"""Taking over a partition directory that Apache Kafka wrote (or another Barnabas).

The source is checked completely, copied under a marked name, recovered there as after a crash,
which makes indexes and producer state anew, put on the device, and only then given its name. The
source is not changed, and removed at the very end if it is to be moved. Transactions that are open
in it are ended in the copy, as was decided or else aborted: their coordinator stays behind.

Not here: making the topic with the id that was found, which is the controller's part and the
command line's order of steps. Both brokers must be stopped: their locks are taken. Source:
formats.md 5 to 8, LOG-14, REC-1. Invariant: a partition directory in the target either
has all whole batches of the source or does not exist.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from barnabas_broker.log import checkpoints, layout, properties_files
from barnabas_broker.log.batch_scan import scan_batches
from barnabas_broker.log.checkpoints import CheckpointError, OffsetCheckpoint
from barnabas_broker.log.errors import CorruptionError
from barnabas_broker.log.holes import Holes
from barnabas_broker.log.leader_epochs import LEADER_EPOCH_FILE, LeaderEpochs
from barnabas_broker.log.recovery.log_loader import LoadedLog, LogLoader
from barnabas_broker.log.segment import RELATIVE_OFFSET_MAX, Segment
from barnabas_protocol.ids import ZERO_UUID, TopicPartition
from barnabas_protocol.records.batch import check_crc, read_header
from barnabas_protocol.records.control import ControlType, encode_marker

if TYPE_CHECKING:
    from barnabas_broker.config.topic import LogConfig
    from barnabas_broker.env.clock import Clock
    from barnabas_broker.env.disk import Disk
    from barnabas_broker.env.randomness import Random

_MAGIC_POSITION = 16
_COPY_BYTES = 4 * 1024 * 1024
_GIVEN_ID_MAX = 1 << 62
"""No cluster has given out so many producer ids: what is above was chosen by a client."""
_COPIED_SUFFIXES = (layout.LOG_SUFFIX, layout.TRANSACTION_INDEX_SUFFIX)
_COPIED_NAMES = (LEADER_EPOCH_FILE, properties_files.PARTITION_METADATA_FILE)


class ImportRefusedError(Exception):
    """The directory cannot be imported; the message says what to do about it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundPartition:
    """A partition directory that passed the check.

    `topic_id` is zero if the directory has no `partition.metadata` (Kafka before 2.8).
    `cut_bytes` is what an unclean stop left behind the last whole batch; it is not imported.
    `has_holes`: offsets are missing, as after compaction.
    """

    path: str
    topic_partition: TopicPartition
    topic_id: bytes
    log_start_offset: int
    log_end_offset: int
    segment_count: int
    batch_count: int
    record_count: int
    size_bytes: int
    cut_bytes: int
    has_holes: bool


class TransactionFate(Enum):
    """What the coordinator of an open transaction has noted; ABORTED also while it may abort it."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"


#: The fate of the transaction that a producer, by id and epoch, has open in a partition.
Fates = Callable[[TopicPartition, int, int], TransactionFate]


def _nothing_known(_: TopicPartition, producer_id: int, producer_epoch: int) -> TransactionFate:
    return TransactionFate.UNKNOWN


class ImportedPartition(NamedTuple):
    """A partition directory in its new place.

    `log_end_offset` is behind the markers of transactions that were open; `committed_count` of
    them were committed, the others aborted, `unknown_count` of these because nobody knew better.
    """

    path: str
    log_end_offset: int
    aborted_count: int = 0
    unknown_count: int = 0
    committed_count: int = 0


class LatestNumbers(NamedTuple):
    """The highest leader epoch and producer id of a log, -1 for none."""

    leader_epoch: int
    producer_id: int


def inspect_partition(disk: Disk, path: str) -> FoundPartition:
    """Check every batch of a partition directory and return what is in it. Changes nothing.

    Raises: ImportRefusedError for anything that would lose or misread records; OSError.
    """
    path = path.rstrip("/")
    parent, _, name = path.rpartition("/")
    topic_partition = layout.parse_partition_directory(name)
    if topic_partition is None or not disk.is_directory(path):
        raise ImportRefusedError(f"{path} is not the directory of a partition (<topic>-<number>)")
    names = disk.list_directory(path)
    if any(n.endswith((layout.SWAP_FILE_SUFFIX, layout.CLEANED_FILE_SUFFIX)) for n in names):
        raise ImportRefusedError(
            f"{path} holds an unfinished compaction: start and stop its broker once"
        )
    bases = sorted(
        offset
        for n in names
        if n.endswith(layout.LOG_SUFFIX) and (offset := layout.parse_offset(n)) is not None
    )
    if not bases and not _is_unused(disk, path, topic_partition, names):
        raise ImportRefusedError(f"{path} has no segment")
    topic_id = _topic_id(disk, path)
    checked = _check_segments(disk, path, bases) if bases else _Checked(next_offset=0)
    start = _checkpointed_offset(
        disk, parent or "/", checkpoints.LOG_START_OFFSET_FILE, topic_partition
    )
    return FoundPartition(
        path=path,
        topic_partition=topic_partition,
        topic_id=topic_id,
        log_start_offset=min(max([start, *bases[:1]]), checked.next_offset),
        log_end_offset=checked.next_offset,
        segment_count=len(bases),
        batch_count=checked.batch_count,
        record_count=checked.record_count,
        size_bytes=checked.size_bytes,
        cut_bytes=checked.cut_bytes,
        has_holes=checked.has_holes,
    )


def import_partition(
    disk: Disk,
    clock: Clock,
    random: Random,
    found: FoundPartition,
    log_directory: str,
    config: LogConfig,
    *,
    topic_id: bytes,
    moves: bool = False,
    fates: Fates = _nothing_known,
    given_producer_ids_below: int = 0,
) -> ImportedPartition:
    """Put a partition that was inspected into a log directory.

    `topic_id` is what the topic has in the target cluster. Blocks for as long as copying and
    recovering take. Afterwards the checkpoints of the log directory know the partition.
    Transactions that are open are ended by their fates. Producers with ids that the target cluster
    has given out, too, are forgotten: its own with such an id would be taken for them.
    Raises: ImportRefusedError, OSError.
    """
    log_directory = log_directory.rstrip("/")
    name = layout.partition_directory_name(found.topic_partition)
    target = f"{log_directory}/{name}"
    with _locked(disk, found.path.rpartition("/")[0] or "/"), _locked(disk, log_directory):
        if disk.exists(target):
            raise ImportRefusedError(f"{target} exists already")
        unique = random.uuid().hex()
        # Under a discarded name: whatever interrupts this, the next start removes the copy.
        name = layout.discarded_directory_name(found.topic_partition, unique)
        working = f"{log_directory}/{name}"
        try:
            _copy(disk, found.path, working)
            properties_files.write_topic_id(
                disk, f"{working}/{properties_files.PARTITION_METADATA_FILE}", topic_id
            )
            if found.has_holes:
                # It was compacted: the topic's policy here may be another one.
                _allow_holes(disk, working, found.log_end_offset)
            loaded = LogLoader(disk, working, config, clock.wall_ms()).load(
                recovery_point=0, log_start_offset=found.log_start_offset, was_clean=False
            )
            if loaded.log_end_offset != found.log_end_offset:
                raise ImportRefusedError(
                    f"the copy of {found.path} ends at offset {loaded.log_end_offset}, "
                    f"the source at {found.log_end_offset}: was it written to meanwhile?"
                )
            place = found.topic_partition
            ended = _end_open(disk, working, loaded, clock.wall_ms(), partial(fates, place))
            _forget_producers(loaded, given_producer_ids_below)
            _make_durable(disk, working, loaded)
            _write_checkpoints(disk, log_directory, found, loaded.log_end_offset)
            disk.rename(working, target)
            disk.sync_directory(log_directory)
        except BaseException:
            disk.remove_tree(working)
            raise
        if moves:
            disk.remove_tree(found.path)
    committed_count = ended.count(TransactionFate.COMMITTED)
    return ImportedPartition(
        target,
        loaded.log_end_offset,
        aborted_count=len(ended) - committed_count,
        unknown_count=ended.count(TransactionFate.UNKNOWN),
        committed_count=committed_count,
    )


def latest_numbers(disk: Disk, path: str) -> LatestNumbers:
    """The highest numbers that a partition directory knows. Raises: OSError.

    The checkpoint of leader epochs may be missing, or end before the batches do.
    """
    leader_epoch, producer_id = LeaderEpochs.load(disk, path).latest, -1
    for name in sorted(disk.list_directory(path)):
        if not name.endswith(layout.LOG_SUFFIX):
            continue
        file = disk.open(f"{path}/{name}", read_only=True)
        try:
            for _, header, _ in scan_batches(name, file, 0, file.size()):
                leader_epoch = max(leader_epoch, header.leader_epoch)
                if header.producer_id <= _GIVEN_ID_MAX:
                    producer_id = max(producer_id, header.producer_id)
        except CorruptionError:
            continue  # what an unclean stop left at the end; the check has refused anything else
        finally:
            file.close()
    return LatestNumbers(leader_epoch, producer_id)


@dataclass(slots=True)
class _Checked:
    """The running totals of a check."""

    next_offset: int
    batch_count: int = 0
    record_count: int = 0
    size_bytes: int = 0
    cut_bytes: int = 0
    has_holes: bool = False


def _check_segments(disk: Disk, path: str, bases: list[int]) -> _Checked:
    checked = _Checked(next_offset=bases[0])
    for number, base_offset in enumerate(bases):
        log_path = f"{path}/{layout.segment_file_name(base_offset, layout.LOG_SUFFIX)}"
        if base_offset < checked.next_offset:
            raise ImportRefusedError(f"{log_path} begins before the segment in front of it ends")
        checked.has_holes |= base_offset > checked.next_offset
        checked.next_offset = base_offset
        file = disk.open(log_path, read_only=True)
        position, file_bytes = 0, file.size()
        reason = "ends within a batch"
        try:
            for at, header, data in scan_batches(log_path, file, 0, file_bytes):
                if not check_crc(data, 0, header):
                    raise CorruptionError(log_path, at, "the checksum does not match")
                if header.base_offset < checked.next_offset or header.last_offset_delta < 0:
                    raise CorruptionError(log_path, at, f"offset {header.base_offset} goes back")
                checked.has_holes |= header.base_offset > checked.next_offset
                checked.next_offset = header.last_offset + 1
                checked.batch_count += 1
                checked.record_count += header.record_count
                position = at + header.size_bytes
        except CorruptionError as error:
            reason = str(error)
        finally:
            file.close()
        checked.size_bytes += position
        if position != file_bytes:
            _refuse_unless_tail(disk, log_path, position, reason, number + 1 == len(bases))
            checked.cut_bytes = file_bytes - position
    return checked


def _refuse_unless_tail(
    disk: Disk, log_path: str, position: int, reason: str, is_last_segment: bool
) -> None:
    """Accept what a crash or preallocation leaves at the end of the last segment, nothing else."""
    if is_last_segment:
        file = disk.open(log_path, read_only=True)
        try:
            head = file.read(_MAGIC_POSITION + 1, position)
        finally:
            file.close()
        is_old_batch = len(head) > _MAGIC_POSITION and head[_MAGIC_POSITION] < 2 and any(head[8:12])
        if not is_old_batch:
            return
    raise ImportRefusedError(
        f"{log_path} is not readable from position {position} on ({reason}); "
        "segments with batches of magic 0 or 1 have to be rewritten by a Kafka broker first"
    )


def _topic_id(disk: Disk, path: str) -> bytes:
    try:
        found = properties_files.read_topic_id(
            disk, f"{path}/{properties_files.PARTITION_METADATA_FILE}"
        )
    except CheckpointError as error:
        raise ImportRefusedError(str(error)) from error
    return found or ZERO_UUID


def _is_unused(
    disk: Disk, path: str, topic_partition: TopicPartition, names: Sequence[str]
) -> bool:
    """Whether the directory is of a partition that never had a record: a broker's of our own.

    A log gets its first segment with its first batch; no checkpoint knows of any here.
    """
    parent = path.rpartition("/")[0] or "/"
    return (
        properties_files.PARTITION_METADATA_FILE in names
        and all(layout.parse_offset(name) is None for name in names)
        and not any(
            _checkpointed_offset(disk, parent, file, topic_partition)
            for file in (checkpoints.RECOVERY_POINT_FILE, checkpoints.LOG_START_OFFSET_FILE)
        )
    )


def _checkpointed_offset(
    disk: Disk, parent: str, file: str, topic_partition: TopicPartition
) -> int:
    """Return the offset that a checkpoint of the source's log directory remembers, 0 if none."""
    checkpoint = OffsetCheckpoint(disk, f"{parent}/{file}")
    try:
        return checkpoint.read().get(topic_partition, 0)
    except CheckpointError as error:
        raise ImportRefusedError(str(error)) from error


@contextlib.contextmanager
def _locked(disk: Disk, log_directory: str) -> Iterator[None]:
    """Hold the lock of a log directory, if it is one."""
    if not disk.exists(f"{log_directory}/{properties_files.META_PROPERTIES_FILE}"):
        yield
        return
    try:
        lock = disk.lock(f"{log_directory}/{properties_files.LOCK_FILE}")
    except BlockingIOError as error:
        raise ImportRefusedError(
            f"a broker is running on {log_directory}: stop it first"
        ) from error
    try:
        yield
    finally:
        lock.close()


def _copy(disk: Disk, source: str, target: str) -> None:
    disk.make_directories(target)
    for name in disk.list_directory(source):
        if name.endswith(_COPIED_SUFFIXES) or name in _COPIED_NAMES:
            _copy_file(disk, f"{source}/{name}", f"{target}/{name}")


def _copy_file(disk: Disk, source: str, target: str) -> None:
    reader = disk.open(source, read_only=True)
    try:
        writer = disk.open(target, create=True)
        try:
            position = 0
            while data := reader.read(_COPY_BYTES, position):
                writer.append([data])
                position += len(data)
            writer.sync()
        finally:
            writer.close()
    finally:
        reader.close()
    # Retention falls back on the file's time where records have no timestamp.
    disk.set_modified_ms(target, disk.modified_ms(source))


def _end_open(
    disk: Disk,
    path: str,
    loaded: LoadedLog,
    now_ms: int,
    fate_of: Callable[[int, int], TransactionFate],
) -> list[TransactionFate]:
    """Write what their coordinator would have written of open transactions; returns their fates.

    Nobody here could ever end them: readers of committed records, and compaction, would stand
    before them for good.
    """
    state, segment = loaded.producer_state, loaded.segments.active
    leader_epoch = max(loaded.leader_epochs.latest, 0)
    opened = [entry for entry in state.active() if entry.transaction_first_offset >= 0]
    if opened and loaded.log_end_offset + len(opened) - segment.base_offset > RELATIVE_OFFSET_MAX:
        loaded.write_active_indexes()
        segment = Segment(disk, path, loaded.log_end_offset, created_ms=now_ms)
        segment.create(0)
        loaded.segments.append(segment)
    fates = []
    for entry in sorted(opened, key=lambda one: one.transaction_first_offset):
        fates.append(fate_of(entry.producer_id, entry.producer_epoch))
        is_abort = fates[-1] is not TransactionFate.COMMITTED
        offset = loaded.log_end_offset
        coordinator_epoch = max(entry.coordinator_epoch, 0)
        marker = encode_marker(
            ControlType.ABORT if is_abort else ControlType.COMMIT,
            producer_id=entry.producer_id,
            producer_epoch=entry.producer_epoch,
            coordinator_epoch=coordinator_epoch,
            timestamp=now_ms,
            base_offset=offset,
            leader_epoch=leader_epoch,
        )
        segment.file.append([marker])
        loaded.leader_epochs.assign(leader_epoch, offset)
        completed = state.append_marker(
            read_header(marker), is_abort=is_abort, coordinator_epoch=coordinator_epoch
        )
        assert completed is not None
        if is_abort:
            segment.open_transaction_index().append(state.aborted(completed))
        loaded.log_end_offset = offset + 1
    return fates


def _forget_producers(loaded: LoadedLog, below: int) -> None:
    """Forget the producers of former clusters whose ids this one's may have; no older snapshot
    is left to bring them back.

    What is lost is that a batch of theirs which comes again is known to be one.
    """
    state, end = loaded.producer_state, loaded.log_end_offset
    known = list(state.active())
    kept = [entry for entry in known if not 0 <= entry.producer_id < below]
    if len(kept) != len(known):
        state.restore(kept, end)
        loaded.snapshots.remove_outside(end, end)


def _allow_holes(disk: Disk, path: str, below: int) -> None:
    holes, folder = Holes(disk, path), disk.open_directory(path)
    try:
        holes.allow(below)
        holes.flush(folder, below)
    finally:
        folder.close()


def _make_durable(disk: Disk, path: str, loaded: LoadedLog) -> None:
    """Put on the device what recovery made, and the leader epochs it found."""
    loaded.leader_epochs.flush()
    loaded.write_active_indexes()
    loaded.snapshots.take(loaded.producer_state, loaded.log_end_offset)
    for segment in loaded.segments.values():
        segment.close()
    for name in disk.list_directory(path):
        file = disk.open(f"{path}/{name}")
        try:
            file.sync()
        finally:
            file.close()
    disk.sync_directory(path)


def _write_checkpoints(
    disk: Disk, log_directory: str, found: FoundPartition, log_end_offset: int
) -> None:
    """Tell the log directory where the partition starts and that all of it is flushed."""
    for name, offset in (
        (checkpoints.LOG_START_OFFSET_FILE, found.log_start_offset),
        (checkpoints.HIGH_WATERMARK_FILE, log_end_offset),
        (checkpoints.RECOVERY_POINT_FILE, log_end_offset),
    ):
        checkpoint = OffsetCheckpoint(disk, f"{log_directory}/{name}")
        try:
            offsets = checkpoint.read()
        except CheckpointError as error:
            raise ImportRefusedError(str(error)) from error
        offsets[found.topic_partition] = offset
        checkpoint.write(offsets)
