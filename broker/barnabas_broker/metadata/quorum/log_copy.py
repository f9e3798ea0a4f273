"""This node's copy of the metadata log: what it fetches of a better one, and what responses do.

Pure. Who fetches is a follower, an observer, or a winner that takes over the best log; of whom is
decided by `node`. One fetch is in flight at a time.

Invariants: a fetch begins only where everything below is on this disk (rule 5); no record
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
from barnabas_broker.metadata.quorum.effects import (
    Append,
    Effects,
    FetchSnapshot,
    Flush,
    InstallSnapshot,
    PublishCommitted,
    Send,
    Truncate,
)
from barnabas_broker.metadata.quorum.messages import (
    DivergenceResponse,
    QuorumFetchRequest,
    QuorumFetchResponse,
    RecordsResponse,
    SnapshotResponse,
)
from barnabas_broker.metadata.quorum.voters import Voter


class QuorumBrokenError(Exception):
    """What must never happen has happened: committed records could be lost. Stop the broker."""


class LogCopy:
    """The state of the copy and of the one fetch."""

    __slots__ = (
        "_flush_asked",
        "_requested",
        "_snapshot",
        "_voter",
        "flushed_end_offset",
        "high_watermark",
        "known_committed_offset",
        "log",
        "truncation_count",
    )

    def __init__(self, voter: Voter, log: LogView, known_committed_offset: int = 0) -> None:
        self._voter = voter
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
        self._requested: LogEnd | None = None
        self._snapshot: SnapshotResponse | None = None

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
        """Whether a response or a snapshot is expected."""
        return self._requested is not None or self._snapshot is not None

    def forget(self) -> None:
        """Expect no response any more."""
        self._requested = self._snapshot = None

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

    def respond(self, request: QuorumFetchRequest, controller_epoch: int) -> QuorumFetchResponse:
        """Answer a fetch from this copy: with records if the asker's log is its beginning."""
        source, end = self._voter, request.end
        match compare(self.log, end):
            case Agreement():
                return RecordsResponse(
                    controller_epoch=controller_epoch,
                    source=source,
                    requested=end,
                    end_offset=self.log.log_end_offset,
                    high_watermark=self.high_watermark,
                )
            case Divergence(last_epoch, end_offset):
                return DivergenceResponse(
                    controller_epoch=controller_epoch,
                    source=source,
                    requested=end,
                    diverging=LogEnd(last_epoch, end_offset),
                )
            case BehindStart(end_offset, last_epoch):
                return SnapshotResponse(
                    controller_epoch=controller_epoch,
                    source=source,
                    requested=end,
                    snapshot=LogEnd(last_epoch, end_offset),
                )
            case other:
                assert_never(other)

    def fetch(self, node_id: int, controller_epoch: int) -> Effects:
        """Ask a node for what follows the end of this log, once all of it is flushed."""
        if self._snapshot is not None:
            return ()
        if not self.is_flushed:
            return self.flush()
        self._requested = self.end
        request = QuorumFetchRequest(
            controller_epoch=controller_epoch, voter=self._voter, end=self._requested
        )
        return (Send(node_id=node_id, message=request),)

    def take(self, response: QuorumFetchResponse) -> Effects:
        """Do what a response says; nothing if it is to an older fetch.

        Raises: QuorumBrokenError if it would take committed records.
        """
        if response.requested != self._requested or response.requested != self.end:
            return ()
        self._requested = None
        match response:
            case RecordsResponse():
                return self._append(response)
            case DivergenceResponse():
                return self._truncate(response)
            case SnapshotResponse():
                if response.snapshot.end_offset <= self.high_watermark:
                    raise QuorumBrokenError(
                        f"node {response.source.node_id} offers a snapshot that ends at "
                        f"{response.snapshot.end_offset}, with epoch "
                        f"{response.snapshot.last_epoch}; "
                        f"the high watermark is {self.high_watermark}"
                    )
                self._snapshot = response
                return (FetchSnapshot(response=response),)
            case _:
                assert_never(response)

    def _append(self, response: RecordsResponse) -> Effects:
        base_offset, end_offset = response.requested.end_offset, response.end_offset
        # That the leader compared the ends makes this log, up to here, the beginning of its own.
        committed = self.raise_high_watermark(min(response.high_watermark, end_offset))
        if end_offset == base_offset:
            return committed
        return (
            Append(base_offset=base_offset, end_offset=end_offset),
            *committed,
            *self._flush(end_offset),
        )

    def _truncate(self, response: DivergenceResponse) -> Effects:
        end_offset = truncation_offset(self.log, Divergence(*response.diverging))
        committed = max(self.high_watermark, self.known_committed_offset)
        if end_offset < committed or end_offset >= self.log.log_end_offset:
            raise QuorumBrokenError(
                f"node {response.source.node_id}, in controller epoch {response.controller_epoch}, "
                f"lets the metadata log end at {end_offset}; here it is committed up to "
                f"{committed}, and ends at {self.log.log_end_offset}. Nothing was removed. The "
                "leader lacks committed metadata: stop it, and bring back the disks or the "
                "arbiter's record that it was made without; the last resort is "
                "`barnabas cluster recover` with the broker whose log is the best"
            )
        self.truncation_count += 1
        self.flushed_end_offset = min(self.flushed_end_offset, end_offset)
        return (Truncate(end_offset=end_offset), *self._flush(end_offset))

    def snapshot_fetched(self, response: SnapshotResponse) -> Effects:
        """Put the snapshot in the log's place, if it is still the one that is wanted."""
        if response != self._snapshot or response.requested != self.end:
            return ()
        self._snapshot = None
        self.truncation_count += 1
        self.flushed_end_offset = 0
        self.high_watermark = response.snapshot.end_offset
        return (
            InstallSnapshot(snapshot=response.snapshot),
            *self._flush(response.snapshot.end_offset),
        )

    def snapshot_failed(self, response: SnapshotResponse) -> bool:
        """Expect this snapshot no more; returns whether it was expected."""
        if response != self._snapshot:
            return False
        self._snapshot = None
        return True
