"""State batches of one share partition: what they may say, and how they are merged.

Pure. Not here: records (`records.py`), epochs (`state.py`). Source: SHR-24.

At each offset the higher delivery count wins, then the higher state: a maximum, so it does not
matter in which order batches come, or whether one comes twice.
Invariants: merged batches are sorted, do not overlap, and no two neighbours could be one; what lies
outside the range of the new batches is not looked at.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from heapq import heappop, heappush
from operator import attrgetter
from typing import Final

from barnabas_broker.share.persister import StateBatch
from barnabas_protocol.errors import ErrorCode, KafkaError

UNKNOWN_START: Final = -1
"""Of a share partition that was never read, and of a write that leaves the start as it is."""

BATCHES_MAX: Final = 10_000
"""Of one share partition: more offsets can never be in flight (Kafka's highest limit of locks)."""

# Available, Acknowledged, Archiving, Archived. Acquired is of this moment, and never kept (SHR-5).
_KEPT_STATES: Final = frozenset((0, 2, 3, 4))

_last_offset = attrgetter("last_offset")
_first_offset = attrgetter("first_offset")


def check_batches(batches: Sequence[StateBatch]) -> None:
    """Refuse what no leader of a partition sends. Raises: KafkaError 42."""
    if len(batches) > BATCHES_MAX:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"a share partition has {BATCHES_MAX} batches at most"
        )
    for batch in batches:
        if not 0 <= batch.first_offset <= batch.last_offset:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"no batch is from {batch.first_offset} to {batch.last_offset}",
            )
        if batch.delivery_state not in _KEPT_STATES or batch.delivery_count < 0:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"state {batch.delivery_state} with {batch.delivery_count} deliveries is not kept",
            )


def merge(
    kept: tuple[StateBatch, ...], written: Sequence[StateBatch], start_offset: int
) -> tuple[StateBatch, ...]:
    """Return the batches that are kept when others are written; nothing below the start.

    `kept` has been merged before; `written` is in any order and may overlap itself.
    """
    if start_offset != UNKNOWN_START and kept and kept[0].first_offset < start_offset:
        kept = _from(kept, start_offset)
    written = [batch for batch in written if batch.last_offset >= start_offset]
    if not written:
        return kept
    # Neighbours may become one with what is written, so they belong to the part that changes.
    lowest = min(map(_first_offset, written)) - 1
    highest = max(map(_last_offset, written)) + 1
    begin = bisect_left(kept, lowest, key=_last_offset)
    end = bisect_left(kept, highest + 1, lo=begin, key=_first_offset)
    middle = _swept((*kept[begin:end], *written), start_offset)
    return (*kept[:begin], *middle, *kept[end:])


def _from(kept: tuple[StateBatch, ...], start_offset: int) -> tuple[StateBatch, ...]:
    """Cut off what is below the start."""
    kept = kept[bisect_left(kept, start_offset, key=_last_offset) :]
    if kept and kept[0].first_offset < start_offset:
        return (_part(kept[0], start_offset, kept[0].last_offset), *kept[1:])
    return kept


def _swept(batches: Iterable[StateBatch], start_offset: int) -> list[StateBatch]:
    """Go through the offsets once, with the batches that reach there in a heap, the best first."""
    coming = sorted(batches, key=_first_offset)
    if _are_apart(coming) and coming[0].first_offset >= start_offset:
        return coming
    result: list[StateBatch] = []
    here: list[tuple[int, int, int, int]] = []
    offset, index = start_offset, 0
    while True:
        if not here:
            if index == len(coming):
                return result
            offset = max(offset, coming[index].first_offset)
        while index < len(coming) and coming[index].first_offset <= offset:
            batch = coming[index]
            rank = (-batch.delivery_count, -batch.delivery_state, -batch.last_offset, index)
            heappush(here, rank)
            index += 1
        while here and -here[0][2] < offset:
            heappop(here)
        if not here:
            continue
        last_offset = -here[0][2]
        if index < len(coming):
            last_offset = min(last_offset, coming[index].first_offset - 1)
        _append(result, _part(coming[here[0][3]], offset, last_offset))
        offset = last_offset + 1


def _are_apart(batches: Sequence[StateBatch]) -> bool:
    """Whether sorted batches are merged already, as most are: a tenth of the work."""
    end, state, count = -1, -1, -1
    for batch in batches:
        first_offset = batch.first_offset
        if first_offset < end or (
            first_offset == end and batch.delivery_state == state and batch.delivery_count == count
        ):
            return False
        end, state, count = batch.last_offset + 1, batch.delivery_state, batch.delivery_count
    return True


def _append(result: list[StateBatch], batch: StateBatch) -> None:
    """Add the next batch, to the last one if both are one."""
    if result:
        last = result[-1]
        if (
            last.last_offset + 1 == batch.first_offset
            and last.delivery_state == batch.delivery_state
            and last.delivery_count == batch.delivery_count
        ):
            result[-1] = _part(last, last.first_offset, batch.last_offset)
            return
    result.append(batch)


def _part(batch: StateBatch, first_offset: int, last_offset: int) -> StateBatch:
    return StateBatch(first_offset, last_offset, batch.delivery_state, batch.delivery_count)
