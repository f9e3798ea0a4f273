"""The leader epochs of one partition log and the offset at which each began.

Serves OffsetsForLeaderEpoch, by which followers truncate, and is persisted
as `leader-epoch-checkpoint`. Not here: who is leader now.

Source: KIP-101 (why truncation by high watermark loses data), KIP-279. Invariants: epochs and start
offsets both strictly rise. The file lags behind memory after `assign` and `truncate_from_start`,
which are repeated by recovery as long as the recovery point on disk has not moved: so `flush` comes
before every write of the recovery-point checkpoint. What a truncation from the end drops has to be
flushed before other records come to those offsets, because nothing repeats it (`log_truncation`).
"""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, NamedTuple

from barnabas_broker.log.checkpoints import CheckpointError, decode, encode, integer

if TYPE_CHECKING:
    from barnabas_broker.env.disk import Disk, DiskDirectory

LEADER_EPOCH_FILE = "leader-epoch-checkpoint"
UNDEFINED_EPOCH = -1
UNDEFINED_OFFSET = -1


class EpochEntry(NamedTuple):
    """The leader epoch and the offset of the first record written under it."""

    leader_epoch: int
    start_offset: int


class LeaderEpochs:
    """The ordered entries of one log (REP-14). `disk` None keeps them in memory only."""

    __slots__ = ("_dirty_from", "_disk", "_entries", "_write_lock", "path")

    def __init__(self, disk: Disk | None, path: str) -> None:
        self._disk = disk
        self.path = path
        # The file may be wrong about entries that begin here or later; None: it is right.
        self._dirty_from: int | None = None
        self._entries: list[EpochEntry] = []
        # Flushes come from several threads of the pool; an older content must not replace a newer
        # one. Nothing on the append path takes this lock.
        self._write_lock = threading.Lock()

    @classmethod
    def load(cls, disk: Disk, partition_directory: str) -> LeaderEpochs:
        """Return the epochs on disk, empty if there is no file.

        Raises: CheckpointError if the file is broken; then the caller starts empty and assigns from
        batches.
        """
        epochs = cls(disk, f"{partition_directory}/{LEADER_EPOCH_FILE}")
        if disk.exists(epochs.path):
            previous = EpochEntry(-1, -1)
            for epoch, offset in decode(epochs.path, disk.read_bytes(epochs.path), 2):
                entry = EpochEntry(integer(epochs.path, epoch), integer(epochs.path, offset))
                if entry.leader_epoch <= previous.leader_epoch or entry.start_offset <= previous[1]:
                    raise CheckpointError(epochs.path, f"{entry} does not rise above {previous}")
                epochs._entries.append(entry)
                previous = entry
        return epochs

    @property
    def is_dirty(self) -> bool:
        """Whether memory has moved on since the file was written."""
        return self._dirty_from is not None

    def is_dirty_below(self, offset: int) -> bool:
        """Whether the file lacks something about records below an offset.

        What begins at or above the recovery point is found again in the batches.
        """
        return self._dirty_from is not None and self._dirty_from < offset

    @property
    def entries(self) -> tuple[EpochEntry, ...]:
        """All entries, oldest first."""
        return tuple(self._entries)

    @property
    def latest(self) -> int:
        """The newest leader epoch, -1 if there is none."""
        return self._entries[-1].leader_epoch if self._entries else UNDEFINED_EPOCH

    def assign(self, leader_epoch: int, start_offset: int) -> bool:
        """Note that records from `start_offset` on carry this epoch. Returns whether anything
        changed.

        Called for every batch, so the common case, an epoch that is already the newest, costs one
        compare. An entry that begins at or after `start_offset` described records that are no
        longer there and goes.
        """
        entries = self._entries
        if leader_epoch < 0 or (entries and leader_epoch <= entries[-1].leader_epoch):
            return False
        while entries and entries[-1].start_offset >= start_offset:
            entries.pop()
        entries.append(EpochEntry(leader_epoch, start_offset))
        self._note_change(start_offset)
        return True

    def end_offset_for(self, leader_epoch: int, log_end_offset: int) -> tuple[int, int]:
        """Return the largest epoch not above the requested one and its end offset (REP-15).

        The offset is exclusive. (-1, -1) if it is not known. An epoch below all entries is returned
        itself, with the start of the first entry.
        """
        entries = self._entries
        if not entries or leader_epoch < 0 or leader_epoch > entries[-1].leader_epoch:
            return UNDEFINED_EPOCH, UNDEFINED_OFFSET
        if leader_epoch == entries[-1].leader_epoch:
            return leader_epoch, log_end_offset
        next_index = bisect_right(entries, leader_epoch, key=_epoch_of)
        if next_index == 0:
            return leader_epoch, entries[0].start_offset
        return entries[next_index - 1].leader_epoch, entries[next_index].start_offset

    def epoch_for(self, offset: int) -> int:
        """Return the leader epoch of the record at `offset`, -1 if not known."""
        index = bisect_right(self._entries, offset, key=_start_of)
        return self._entries[index - 1].leader_epoch if index else UNDEFINED_EPOCH

    def previous_epoch(self, leader_epoch: int) -> int:
        """Return the largest epoch below the given one, -1 if there is none."""
        index = bisect_left(self._entries, leader_epoch, key=_epoch_of)
        return self._entries[index - 1].leader_epoch if index else UNDEFINED_EPOCH

    def truncate_from_end(self, end_offset: int) -> bool:
        """Drop the entries that begin at or after an offset, until `flush` in memory only.

        Recovery finds them again in the batches: if it were killed before the file has them again,
        the next one might begin behind them. Returns whether there were any.
        """
        keep = bisect_left(self._entries, end_offset, key=_start_of)
        if keep == len(self._entries):
            return False
        del self._entries[keep:]
        self._note_change(end_offset)
        return True

    def truncate_from_start(self, start_offset: int) -> bool:
        """Let the log begin at `start_offset`: older entries go, the one that covers it is moved
        up.

        Returns whether anything changed.
        """
        covering = bisect_right(self._entries, start_offset, key=_start_of) - 1
        if covering < 0 or (covering == 0 and self._entries[0].start_offset == start_offset):
            return False
        moved = EpochEntry(self._entries[covering].leader_epoch, start_offset)
        self._entries[: covering + 1] = [moved]
        self._note_change(0)
        return True

    def clear(self) -> None:
        """Forget everything, until `flush` in memory only."""
        if self._entries:
            self._entries.clear()
            self._note_change(0)

    def flush(self, folder: DiskDirectory | None = None) -> None:
        """Write the file if memory has moved on. A thread names the log's folder by its handle.

        In a thread: it waits for the device, and for another thread that writes the file just now.
        """
        with self._write_lock:
            if self._disk is None or not self.is_dirty:
                return
            was_dirty_from, self._dirty_from = self._dirty_from, None
            try:
                data = encode(tuple(self._entries))
                if folder is None:
                    self._disk.write_atomically(self.path, data)
                else:
                    folder.write_atomically(LEADER_EPOCH_FILE, data)
            except OSError:
                self._note_change(0 if was_dirty_from is None else was_dirty_from)
                raise

    def note_missing(self) -> None:
        """Note that there is no file, or none that can be read: the next flush writes it."""
        self._note_change(0)

    def _note_change(self, offset: int) -> None:
        if self._dirty_from is None or offset < self._dirty_from:
            self._dirty_from = offset


def _epoch_of(entry: EpochEntry) -> int:
    return entry.leader_epoch


def _start_of(entry: EpochEntry) -> int:
    return entry.start_offset
