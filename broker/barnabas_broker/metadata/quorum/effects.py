"""What `node` wants to have done, as frozen values.

The effects of one event are carried out in order, and all of them, before the next event.
Only sending, flushing, fetching a snapshot and asking the arbiter may end later: their outcome is
an event of its own. If one fails on this node's disk, the node stops: what its disk holds is not
known any more.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas_broker.metadata.log_ends import LogEnd
from barnabas_broker.metadata.quorum.messages import (
    Message,
    Proposal,
    QuorumFetchRequest,
    SnapshotResponse,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PersistPromise:
    """Bring the epoch to the disk's surface, before anything that follows is done."""

    controller_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Send:
    """Send a message to a node; it may get lost.

    `RecordsResponse` is sent with the records from the requested offset on; fewer may be sent if
    its `end_offset` is lowered to theirs. They are read now, or the response is dropped if this
    node's promised epoch has changed by the time they are.
    """

    node_id: int
    message: Message


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldFetch:
    """Handle the fetch again after `Lead` or `StepDown`; drop it when its time is up."""

    request: QuorumFetchRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Append:
    """Write the records that came with the response just handled, where the log ends."""

    base_offset: int
    end_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Truncate:
    """Drop all records from an offset on."""

    end_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Flush:
    """Bring what is written to the disk's surface, then call `flushed` with both values."""

    truncation_count: int
    end_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchSnapshot:
    """Load the snapshot from the response's source, then call `snapshot_fetched` or `_failed`."""

    response: SnapshotResponse


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallSnapshot:
    """Let the snapshot that was loaded, durable, stand for the whole log, which begins there."""

    snapshot: LogEnd


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishCommitted:
    """All records below the offset are committed."""

    high_watermark: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Lead:
    """Write the Epoch record of this epoch at this offset, the log's end, then call `appended`."""

    controller_epoch: int
    base_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StepDown:
    """Stop at once what only the leader of this epoch does (CTL-4)."""

    controller_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Swap:
    """Ask the arbiter to store the proposal; whatever the outcome, read back (rule 7)."""

    expected_token: int
    proposal: Proposal


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRecord:
    """Read the arbiter's record and call `record_read`."""


Effect = (
    PersistPromise
    | Send
    | HoldFetch
    | Append
    | Truncate
    | Flush
    | FetchSnapshot
    | InstallSnapshot
    | PublishCommitted
    | Lead
    | StepDown
    | Swap
    | ReadRecord
)
Effects = tuple[Effect, ...]
