"""Faults that the log once had, planted one at a time, to see that the histories find them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple
from unittest.mock import patch

from barnabas_broker.env.disk import Disk
from barnabas_broker.log import layout
from barnabas_broker.log.checkpoints import CheckpointError
from barnabas_broker.log.holes import ANYWHERE, Holes
from barnabas_broker.log.index_file import write_index
from barnabas_broker.log.leader_epochs import LEADER_EPOCH_FILE, LeaderEpochs
from barnabas_broker.log.local_log import LocalLog
from barnabas_broker.log.log_flush import LogFlush
from barnabas_broker.log.manager import leftover_copies
from barnabas_broker.log.manager.leftover_copies import Leftovers
from barnabas_broker.log.manager.log_directory import LogDirectory
from barnabas_broker.log.manager.log_manager import LogManager
from barnabas_broker.log.manager.offset_checkpointing import OffsetCheckpointing
from barnabas_broker.log.partition_log import LogRead, PartitionLog
from barnabas_broker.log.properties_files import MoveNote
from barnabas_broker.log.recovery import segment_recovery
from barnabas_broker.log.recovery.log_loader import LoadedLog, LogLoader
from barnabas_broker.log.segment import Segment
from barnabas_broker.log.time_index import ENTRY
from barnabas_broker.log.transaction_index import TransactionIndex
from barnabas_broker.log.truncation_note import TruncationNote
from barnabas_broker.replication import future_log
from barnabas_broker.replication.future_log import FutureLogs
from tests.broker.log.model.stepping_disk import SteppingDisk

_load = LogLoader.load
_roll = PartitionLog.roll
_find_holes = Holes.load.__func__  # type: ignore[attr-defined]


class Bug(NamedTuple):
    """What is wrong, and what is replaced: owner, name and the wrong thing."""

    what: str
    replacements: tuple[tuple[Any, str, Any], ...]


def _note_nothing(self: LogFlush, segment: Segment) -> None:
    """As if the recovery point told of files too."""


def _believe_the_end(segment: Segment, interval_bytes: int) -> tuple[int, int]:
    """The end of the time index, as it is."""
    (file,) = segment.open_files(layout.TIME_INDEX_SUFFIX)
    end = file.size() - file.size() % ENTRY.size
    if not end:
        return -1, segment.base_offset
    timestamp, relative = ENTRY.unpack(file.read(ENTRY.size, end - ENTRY.size))
    return timestamp, segment.base_offset + relative


async def _flush_nothing(self: FutureLogs, *_: object) -> None:
    """As if the copy would be flushed some day."""


def _load_as_synced(self: LogLoader, **offsets: Any) -> LoadedLog:
    loaded = _load(self, **offsets)
    loaded.unsynced = []
    return loaded


def _write_unsynced(self: LogLoader, segments: list[Segment]) -> None:
    """Write all indexes, and take them for written."""
    for segment in segments:
        for index in (segment.time_index, segment.offset_index):
            assert index is not None
            position, data = index.pending()
            write_index(self._disk, index.path, position, data, sync=False)
            index.mark_written(position + len(data))
        if segment is not segments[-1]:
            segment.drop_indexes()
            segment.close()


def _holes_by_policy(cls: type[Holes], disk: Any, directory: str, unless_noted: int) -> Holes:
    holes: Holes = _find_holes(cls, disk, directory, unless_noted)
    holes.below = ANYWHERE if unless_noted == ANYWHERE else 0
    return holes


def _roll_at_the_end(self: PartitionLog, lowest_base: int = 0) -> None:
    _roll(self)


async def _keep_log_starts(self: LogManager, logs: Sequence[PartitionLog]) -> None:
    for log in logs:
        await log.settle_cut()
        await self.checkpointing.write_recovery_points(self.directory_of(log))


def _guess_by_cut_names(self: Leftovers, disk: Disk, path: str) -> MoveNote | None:
    topic_partition = layout.parse_marked_directory(path.rpartition("/")[2])
    topic_id = leftover_copies.topic_id_of(disk, path)
    same = self.replaced.get(leftover_copies.cut_name(path), {}).get(topic_id, [""])
    assert topic_partition is not None
    return MoveNote(topic_partition, same[0].rpartition("/")[2])


def _epochs_start_anew(self: LogLoader, segments: list[Segment]) -> LeaderEpochs:
    try:
        return LeaderEpochs.load(self._disk, self._directory)
    except CheckpointError:
        return LeaderEpochs(self._disk, f"{self._directory}/{LEADER_EPOCH_FILE}")


def _remove_from_the_start(self: LocalLog, gone: Sequence[Segment]) -> None:
    self.removal.remove(gone, self.config.file_delete_delay_ms)


def _write_but_cleaner_offsets(self: OffsetCheckpointing, directory: LogDirectory) -> Any:
    async def pretend() -> bool:
        return True

    return pretend()


async def _look_up_afterwards(
    self: PartitionLog, offset: int, max_bytes: int, limit_offset: int, *, at_least_one: bool = True
) -> tuple[LogRead, list[tuple[int, int]]]:
    read = await self.read(offset, max_bytes, limit_offset, at_least_one=at_least_one)
    return read, self.aborted_transactions(offset, limit_offset)


_HEALING_OFF = (segment_recovery, "_read_time_index_end", _believe_the_end)

BUGS = {
    "L1": Bug(
        "a segment that is left is not flushed again",
        ((LogFlush, "note_unsynced", _note_nothing), _HEALING_OFF),
    ),
    "L2": Bug(
        "a copy takes the place of its log before it is flushed",
        (
            (FutureLogs, "_flush_too", _flush_nothing),
            (future_log, "_vouches_for", lambda log, copy: True),
        ),
    ),
    "L3": Bug(
        "torn entries of a transaction index stay",
        ((TransactionIndex, "_good_count", lambda self: len(self)),),
    ),
    "L4": Bug(
        "what recovery wrote counts as synced",
        (
            (LogLoader, "load", _load_as_synced),
            (LogLoader, "_write_indexes", _write_unsynced),
            _HEALING_OFF,
        ),
    ),
    "L5": Bug(
        "whether there may be holes is told by today's policy",
        ((Holes, "load", classmethod(_holes_by_policy)),),
    ),
    "L6": Bug("a segment begins at the log end", ((PartitionLog, "roll", _roll_at_the_end),)),
    "L7": Bug(
        "a flush writes along the path of its log's folder",
        ((SteppingDisk, "follows_renames", False),),
    ),
    "L8": Bug(
        "the cut of a left segment's zeros is not synced",
        (
            (LogFlush, "note_unsynced", _note_nothing),
            (segment_recovery, "_is_zero", lambda segment, end: False),
        ),
    ),
    "R8": Bug(
        "a lowered log start is written within a minute",
        ((LogManager, "note_truncations", _keep_log_starts),),
    ),
    "R9": Bug(
        "the cut name of a directory is taken for the partition's",
        (
            (leftover_copies, "read_move_note", lambda disk, path: None),
            (Leftovers, "guess", _guess_by_cut_names),
        ),
    ),
    "R11": Bug(
        "a recovery believes the recovery point from before a cut",
        ((TruncationNote, "lowered", lambda self, recovery_point: recovery_point),),
    ),
    "R12": Bug(
        "the cleaner's checkpoint outlives what it speaks of",
        ((OffsetCheckpointing, "write_cleaner_offsets", _write_but_cleaner_offsets),),
    ),
    "R13": Bug(
        "segments are cut off lowest first",
        ((LocalLog, "_remove_from_the_end", _remove_from_the_start),),
    ),
    "R14": Bug(
        "aborted transactions are looked up when segments that were read have gone",
        ((PartitionLog, "read_with_aborted", _look_up_afterwards),),
    ),
    "R10": Bug(
        "lost leader epochs start anew",
        ((LogLoader, "_load_epochs", _epochs_start_anew),),
    ),
}


@contextmanager
def planted(name: str) -> Iterator[None]:
    """Have the bug until the end of the block."""
    with ExitStack() as patches:
        for owner, attribute, wrong in BUGS[name].replacements:
            patches.enter_context(patch.object(owner, attribute, wrong))
        yield
