"""This node's copy of the metadata log: what is asked of a better one, and what its answers do.

Pure. The one who asks is a follower, an observer, or a winner that takes over the best log; whom to
ask is `quorum_node`'s to say. One fetch is under way at a time.

Invariants: a fetch is asked only from where everything below is on this disk (rule 5); no record
below the high watermark, of this run or the last, is ever dropped; the high watermark never goes
back while the node runs.
"""

from __future__ import annotations

from typing import assert_never

from barnabas_broker.metadata.log_ends import (
    Agreement,
    BehindStart,
    Divergence,
    LogEnd,
    LogView,
    compare,
    end_of,
    truncation_offset,
)
from barnabas_broker.metadata.quorum import Seat
from barnabas_broker.metadata.quorum_effects import (
    Append,
    Effects,
    FetchSnapshot,
    Flush,
    InstallSnapshot,
    PublishCommitted,
    Send,
    Truncate,
)
from barnabas_broker.metadata.quorum_messages import (
    DivergenceAnswered,
    FetchAnswered,
    FetchAsked,
    RecordsAnswered,
    SnapshotAnswered,
)


class QuorumBrokenError(Exception):
    """What must never happen has happened: committed records could be lost. Stop the broker."""


class LogCopy:
    """The state of the copy and of the one fetch."""

    __slots__ = (
        "_asked",
        "_flush_asked",
        "_seat",
        "_snapshot",
        "flushed_end_offset",
        "high_watermark",
        "known_committed_offset",
        "log",
        "truncation_count",
    )

    def __init__(self, seat: Seat, log: LogView, known_committed_offset: int = 0) -> None:
        self._seat = seat
        self.log = log
        # What recovery found may still be in the page cache only: nothing counts before a flush.
        self.flushed_end_offset = 0
        self._flush_asked = 0  # up to where a flush is done or under way
        # A flush that was asked for before a truncation says nothing about what came after it.
        self.truncation_count = 0
        # A snapshot holds only committed records.
        self.high_watermark = log.log_start_offset
        # What an earlier run knew: nothing is published by it, but none of it is ever dropped.
        self.known_committed_offset = min(known_committed_offset, log.log_end_offset)
        self._asked: LogEnd | None = None
        self._snapshot: SnapshotAnswered | None = None

    @property
    def end(self) -> LogEnd:
        """The end of all that is written."""
        return end_of(self.log)

    @property
    def is_flushed(self) -> bool:
        """Whether a crash can take nothing of the log."""
        return self.flushed_end_offset >= self.log.log_end_offset

    @property
    def is_waiting(self) -> bool:
        """Whether an answer or a snapshot is expected."""
        return self._asked is not None or self._snapshot is not None

    def forget(self) -> None:
        """Expect no answer any more."""
        self._asked = self._snapshot = None

    def flush(self) -> Effects:
        """Have flushed what is not, and is not being flushed."""
        end_offset = self.log.log_end_offset
        return self._flush(end_offset) if end_offset > self._flush_asked else ()

    def _flush(self, end_offset: int) -> Effects:
        self._flush_asked = end_offset
        return (Flush(truncation_count=self.truncation_count, end_offset=end_offset),)

    def flushed(self, truncation_count: int, end_offset: int) -> bool:
        """Take note of a flush; returns whether it was one of the log as it is."""
        if truncation_count != self.truncation_count:
            return False
        self.flushed_end_offset = max(self.flushed_end_offset, end_offset)
        return True

    def raise_high_watermark(self, offset: int) -> Effects:
        """Publish what is newly known to be committed; never lowers it."""
        if offset <= self.high_watermark:
            return ()
        self.high_watermark = offset
        return (PublishCommitted(high_watermark=offset),)

    def agrees(self, end: LogEnd) -> bool:
        """Whether a log with this end is the beginning of this one."""
        return isinstance(compare(self.log, end), Agreement)

    def answer(self, asked: FetchAsked, controller_epoch: int) -> FetchAnswered:
        """Answer a fetch from this copy: with records if the asker's log is its beginning."""
        source, end = self._seat, asked.end
        match compare(self.log, end):
            case Agreement():
                return RecordsAnswered(
                    controller_epoch=controller_epoch,
                    source=source,
                    asked=end,
                    end_offset=self.log.log_end_offset,
                    high_watermark=self.high_watermark,
                )
            case Divergence(last_epoch, end_offset):
                return DivergenceAnswered(
                    controller_epoch=controller_epoch,
                    source=source,
                    asked=end,
                    diverging=LogEnd(last_epoch, end_offset),
                )
            case BehindStart(end_offset, last_epoch):
                return SnapshotAnswered(
                    controller_epoch=controller_epoch,
                    source=source,
                    asked=end,
                    snapshot=LogEnd(last_epoch, end_offset),
                )
            case other:
                assert_never(other)

    def ask(self, node_id: int, controller_epoch: int) -> Effects:
        """Ask a node for what follows the end of this log, once all of it is flushed."""
        if self._snapshot is not None:
            return ()
        if not self.is_flushed:
            return self.flush()
        self._asked = self.end
        request = FetchAsked(controller_epoch=controller_epoch, seat=self._seat, end=self._asked)
        return (Send(node_id=node_id, message=request),)

    def take(self, answer: FetchAnswered) -> Effects:
        """Do what an answer of the one who was asked says; nothing if it is to an older fetch.

        Raises: QuorumBrokenError if it would take committed records.
        """
        if answer.asked != self._asked or answer.asked != self.end:
            return ()
        self._asked = None
        match answer:
            case RecordsAnswered():
                return self._append(answer)
            case DivergenceAnswered():
                return self._truncate(answer)
            case SnapshotAnswered():
                if answer.snapshot.end_offset <= self.high_watermark:
                    raise QuorumBrokenError(
                        f"node {answer.source.node_id} offers a snapshot that ends at "
                        f"{answer.snapshot.end_offset}, with epoch {answer.snapshot.last_epoch}; "
                        f"the high watermark is {self.high_watermark}"
                    )
                self._snapshot = answer
                return (FetchSnapshot(answer=answer),)
            case _:
                assert_never(answer)

    def _append(self, answer: RecordsAnswered) -> Effects:
        base_offset, end_offset = answer.asked.end_offset, answer.end_offset
        # That the leader compared the ends makes this log, up to here, the beginning of its own.
        committed = self.raise_high_watermark(min(answer.high_watermark, end_offset))
        if end_offset == base_offset:
            return committed
        return (
            Append(base_offset=base_offset, end_offset=end_offset),
            *committed,
            *self._flush(end_offset),
        )

    def _truncate(self, answer: DivergenceAnswered) -> Effects:
        end_offset = truncation_offset(self.log, Divergence(*answer.diverging))
        committed = max(self.high_watermark, self.known_committed_offset)
        if end_offset < committed or end_offset >= self.log.log_end_offset:
            raise QuorumBrokenError(
                f"node {answer.source.node_id}, in controller epoch {answer.controller_epoch}, "
                f"lets the metadata log end at {end_offset}; here it is committed up to "
                f"{committed}, and ends at {self.log.log_end_offset}. Nothing was removed. The "
                "leader lacks committed metadata: stop it, and bring back the disks or the "
                "arbiter's record that it was made without; the last resort is "
                "`barnabas cluster recover` with the broker whose log is the best"
            )
        self.truncation_count += 1
        self.flushed_end_offset = min(self.flushed_end_offset, end_offset)
        return (Truncate(end_offset=end_offset), *self._flush(end_offset))

    def snapshot_fetched(self, answer: SnapshotAnswered) -> Effects:
        """Put the snapshot in the log's place, if it is still the one that is wanted."""
        if answer != self._snapshot or answer.asked != self.end:
            return ()
        self._snapshot = None
        self.truncation_count += 1
        self.flushed_end_offset = 0
        self.high_watermark = answer.snapshot.end_offset
        return (
            InstallSnapshot(snapshot=answer.snapshot),
            *self._flush(answer.snapshot.end_offset),
        )

    def snapshot_failed(self, answer: SnapshotAnswered) -> bool:
        """Expect this snapshot no more; returns whether it was expected."""
        if answer != self._snapshot:
            return False
        self._snapshot = None
        return True
