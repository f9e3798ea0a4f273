"""Short calls of a share partition without any I/O, for tests."""

from __future__ import annotations

from collections.abc import Sequence

from barnabas_broker.share.acquisition import (
    AcquiredRecords,
    AcquireParameters,
    FetchedBatch,
    acquire,
)
from barnabas_broker.share.record_states import AcknowledgementBatch
from barnabas_broker.share.share_partition import SharePartition
from barnabas_broker.share.share_settings import ShareSettings

MEMBER = "m"


def batches(*sizes: int, base: int = 0) -> list[FetchedBatch]:
    """Record batches of so many records, one behind the other."""
    found = []
    for size in sizes:
        found.append(FetchedBatch(base, base + size - 1))
        base += size
    return found


def take(
    partition: SharePartition,
    read: Sequence[FetchedBatch],
    *,
    records_max: int = 1_000,
    batch_size: int = 1_000,
    is_record_limit: bool = False,
    now_ms: int = 0,
) -> list[AcquiredRecords]:
    """Acquire out of what was read from the next fetch offset on."""
    offset = partition.next_fetch_offset
    assert offset is not None
    parameters = AcquireParameters(
        member_id=MEMBER,
        records_max=records_max,
        batch_size=batch_size,
        is_record_limit=is_record_limit,
    )
    rest = [batch for batch in read if batch.last_offset >= offset]
    return acquire(partition, parameters, offset, rest, now_ms)


def acknowledge(partition: SharePartition, *acknowledged: tuple[int, int, int]) -> None:
    """Acknowledge ranges with a type each, and have that written."""
    partition.acknowledge(
        MEMBER, [AcknowledgementBatch(first, last, [kind]) for first, last, kind in acknowledged], 0
    )
    write = partition.take_write()
    assert write is not None
    partition.finish_write(write, None)


def release(partition: SharePartition) -> None:
    """Release all that is acquired."""
    partition.release_members({MEMBER})


def new(**settings: int) -> SharePartition:
    """A share partition that begins at 0."""
    return SharePartition(0, ShareSettings(**settings))  # type: ignore[arg-type]
