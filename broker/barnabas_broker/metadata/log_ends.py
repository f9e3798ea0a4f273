"""Where copies of the metadata log end and where two of them part: pairs of epoch and offset.

Pure. A log is seen through its leader epochs (of the metadata log: controller epochs), its start
and its end; the records themselves are not needed. That is enough, because one leader of an epoch
writes each offset once: two logs whose records before an offset carry the same epoch there are
equal up to it.

Source: KIP-101 and KIP-279 (truncation by epochs), KIP-595 (fetching with the last fetched epoch).
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from barnabas_broker.log.leader_epochs import UNDEFINED_EPOCH, LeaderEpochs


class LogEnd(NamedTuple):
    """The end of a log; the greater of two is the better log (highest last epoch, then longest)."""

    last_epoch: int  # of the last record, -1 in an empty log
    end_offset: int  # exclusive


class LogView(Protocol):
    """What is looked at of a log; always as it is now."""

    @property
    def leader_epochs(self) -> LeaderEpochs:
        """Which epoch begins at which offset, for the records from the log start on."""
        ...

    @property
    def log_start_offset(self) -> int:
        """The first offset that can be read; a snapshot stands for the records below it."""
        ...

    @property
    def log_start_epoch(self) -> int:
        """The epoch of the record before the log start, as the snapshot tells it; -1 at 0."""
        ...

    @property
    def log_end_offset(self) -> int:
        """The offset after the last record written, flushed or not; exclusive."""
        ...


class Agreement(NamedTuple):
    """The asker's log is the beginning of this one."""


class Divergence(NamedTuple):
    """The asker's log parts from this one at the end of this epoch, or before."""

    last_epoch: int  # the largest here that is not above the asker's, -1 if there is none
    end_offset: int  # where it ends here


class BehindStart(NamedTuple):
    """The records that the asker needs are only in a snapshot."""

    end_offset: int
    last_epoch: int


AGREEMENT = Agreement()


def epoch_before(log: LogView, offset: int) -> int:
    """The epoch of the record before an offset that is not below the log start."""
    if offset <= log.log_start_offset:
        return log.log_start_epoch
    return log.leader_epochs.epoch_for(offset - 1)


def end_at(log: LogView, offset: int) -> LogEnd:
    """The end that the log would have if it ended at the offset."""
    return LogEnd(epoch_before(log, offset), offset)


def end_of(log: LogView) -> LogEnd:
    """The end of all that is written."""
    return end_at(log, log.log_end_offset)


def compare(log: LogView, other: LogEnd) -> Agreement | Divergence | BehindStart:
    """Whether a log with another end is the beginning of this one, and if not, where they part."""
    start, end = log.log_start_offset, log.log_end_offset
    if other.end_offset <= start:
        if other == LogEnd(log.log_start_epoch, start):
            return AGREEMENT
        return BehindStart(start, log.log_start_epoch)
    if other.end_offset <= end and epoch_before(log, other.end_offset) == other.last_epoch:
        return AGREEMENT
    entries = log.leader_epochs.entries
    if not entries or other.last_epoch < entries[0].leader_epoch:
        # An epoch that ended where the log starts has no entry any more.
        if start > 0 and other.last_epoch < log.log_start_epoch:
            return BehindStart(start, log.log_start_epoch)
        return Divergence(log.log_start_epoch, start)
    asked = min(other.last_epoch, entries[-1].leader_epoch)
    return Divergence(*log.leader_epochs.end_offset_for(asked, end))


def truncation_offset(log: LogView, diverged: Divergence) -> int:
    """The offset to truncate this log to after a leader has told where the two part.

    It may still be too high; the next comparison tells, and each goes back by an epoch at least.
    """
    own_epoch, own_end_offset = log.leader_epochs.end_offset_for(
        diverged.last_epoch, log.log_end_offset
    )
    if own_epoch == UNDEFINED_EPOCH:
        own_end_offset = log.log_start_offset
    return min(own_end_offset, diverged.end_offset)
