"""Every question that a client can ask of a log, answered by the log and by force."""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise
from typing import TYPE_CHECKING

from barnabas_broker.log.producer_state import ProducerEntry
from tests.broker.log.model import model
from tests.broker.log.model.model import Batch

if TYPE_CHECKING:
    from tests.broker.log.model.world import World

# Each offset of a log of up to so many is read; of larger ones, with their gaps, each batch's.
READ_OFFSETS_MAX = 200
TIMESTAMPS_MAX = 8


class Wrong(Exception):
    """The log is not what it should be."""


async def check_everything(world: World) -> None:
    """Ask all of it. Raises: Wrong."""
    log = world.log
    is_far = world.is_far_base(log.log_end_offset)
    if (log.log_start_offset, log.log_end_offset) != (world.start, world.end) and not is_far:
        raise Wrong(
            f"the log is [{log.log_start_offset}, {log.log_end_offset}), "
            f"it should be [{world.start}, {world.end})"
        )
    found = await read_all(world, world.start, 1 + world.random.integer(3000))
    _check_batches(world, found)
    await _check_offsets(world, found)
    await _check_times(world, found)
    _check_transactions(world, found)
    _check_stable(world, found)
    _check_producers(world, found)
    _check_epochs(world)


async def read_all(world: World, start: int, max_bytes: int) -> list[Batch]:
    """Read from an offset to the end, as a consumer does."""
    log, found, offset = world.log, list[Batch](), start
    while offset < log.log_end_offset:
        read = await log.read(offset, max_bytes, log.log_end_offset)
        batches = model.parse(b"".join(bytes(buffer) for buffer in read.buffers))
        if not batches:
            break
        if batches[0].end <= offset:
            raise Wrong(f"read at {offset}: {batches[0].header.base_offset}")
        found += batches
        offset = batches[-1].end
    return found


def _check_batches(world: World, found: list[Batch]) -> None:
    expected = [batch for batch in world.batches if batch.end > world.start]
    if not world.was_compacted:
        if [batch.raw for batch in found] != [batch.raw for batch in expected]:
            raise Wrong(f"read {_spans(found)}, which should be {_spans(expected)}")
        return
    known = {record.offset: record for batch in expected for record in batch.records}
    seen = {record.offset: record for batch in found for record in batch.records}
    for offset, record in seen.items():
        if known.get(offset) != record:
            raise Wrong(f"the record at {offset} was never appended")
    missing = [
        offset
        for offset in newest_offsets(world.batches)
        if offset not in seen and offset >= world.start and offset not in world.may_be_gone
    ]
    if missing:
        raise Wrong(f"the newest records of their keys are gone: {missing}")


def newest_offsets(batches: list[Batch]) -> set[int]:
    """Where the newest committed record of each key is."""
    aborted = model.aborted_offsets(batches)
    newest = {
        record.key: record.offset
        for batch in batches
        if batch.is_data
        for record in batch.records
        if record.offset not in aborted
    }
    return set(newest.values())


async def _check_offsets(world: World, found: list[Batch]) -> None:
    """Read at every offset: the batch that holds it, or the next one."""
    log = world.log
    if log.log_end_offset - world.start < READ_OFFSETS_MAX:
        offsets = list(range(world.start, log.log_end_offset))
    else:
        offsets = [max(batch.header.base_offset, world.start) for batch in found]
    ends = [batch.end for batch in found]
    for offset in offsets:
        at = bisect_right(ends, offset)
        first = found[at] if at < len(found) else None
        read = await log.read(offset, 1, log.log_end_offset)
        got = model.parse(b"".join(bytes(buffer) for buffer in read.buffers))
        if (got[0].raw if got else None) != (first.raw if first else None):
            raise Wrong(f"read at {offset}: {_spans(got)}, not {_spans([first] if first else [])}")
    if found:
        await _check_limit(world, found)


async def _check_limit(world: World, found: list[Batch]) -> None:
    """Read up to an offset: whole batches below it, as many as there are."""
    draw = world.random.integer
    limit = found[draw(len(found))].header.base_offset + draw(2)
    if limit < world.start:
        return
    read = await world.log.read(world.start, 1 << 20, limit)
    got = model.parse(b"".join(bytes(buffer) for buffer in read.buffers))
    below = [batch.raw for batch in found if batch.end <= limit]
    whole = [batch.raw for batch in got]
    # It ends with a segment.
    if whole != below[: len(whole)] or (below and not whole):
        raise Wrong(f"read up to {limit}: {_spans(got)}")


async def _check_times(world: World, found: list[Batch]) -> None:
    log, draw = world.log, world.random.integer
    times = sorted({record.timestamp for batch in found for record in batch.records})
    asked = {times[draw(len(times))] + draw(2) for _ in range(TIMESTAMPS_MAX)} if times else {0}
    limit = (log.log_end_offset, log.high_watermark, log.last_stable_offset)[draw(3)]
    for timestamp in asked:
        got = await log.offset_for_timestamp(timestamp, limit)
        expected = model.first_at(found, timestamp, world.start, limit)
        if (got and (got.timestamp, got.offset)) != expected:
            raise Wrong(f"the first record at {timestamp} below {limit}: {got}, not {expected}")
    newest = await log.max_timestamp_offset(log.log_end_offset)
    is_whole = bool(times) and log.segments.first.base_offset == world.start
    if is_whole and (newest is None or newest.timestamp != times[-1]):
        raise Wrong(f"the newest record: {newest}, not one of {times[-1]}")


def _check_transactions(world: World, found: list[Batch]) -> None:
    """What a read_committed consumer shows, from the start on and from anywhere."""
    aborted = model.aborted_offsets(world.batches)
    starts = [0, *(world.random.integer(len(found)) for _ in range(2))] if found else []
    for at in starts:
        batches = found[at:]
        start = max(batches[0].header.base_offset, world.start)
        expected = [
            record.offset
            for batch in batches
            if batch.is_data
            for record in batch.records
            if record.offset not in aborted
        ]
        told = world.log.aborted_transactions(start, world.log.log_end_offset)
        shown = model.committed_by(batches, told)
        if shown != expected:
            raise Wrong(
                f"from {start}, told of aborted {told}: read_committed misses "
                f"{set(expected) - set(shown)} and shows aborted {set(shown) - set(expected)}"
            )


def _check_stable(world: World, found: list[Batch]) -> None:
    log = world.log
    if log.high_watermark != world.high_watermark:
        raise Wrong(f"the high watermark is {log.high_watermark}, not {world.high_watermark}")
    lowest = _stable_offset(world, world.high_watermark)
    highest = lowest
    if world.is_restarted:
        # What was decided above the high watermark is forgotten, as Kafka's brokers do.
        highest = _stable_offset(world, None)
    if world.may_be_gone or (world.was_compacted and world.is_restarted):
        # Compaction took records of a transaction for the sake of what was cut, or because its
        # end was known, which a power cut took since: it begins later.
        present = model.open_transactions(found)
        highest = min([*present.values(), world.high_watermark])
    stable = log.last_stable_offset
    if not lowest <= stable <= highest and not world.may_forget:
        raise Wrong(f"the last stable offset is {stable}, not in [{lowest}, {highest}]")


def _stable_offset(world: World, markers_below: int | None) -> int:
    opened = model.open_transactions(world.batches, markers_below).values()
    return min([*(max(o, world.start) for o in opened), world.high_watermark])


def _check_producers(world: World, found: list[Batch]) -> None:
    known = world.log.producer_state.producers
    expected = model.producers(world.batches)
    # What is below the log start may be forgotten; what is not must be known.
    kept = {b.header.producer_id for b in found if b.is_data and b.records}
    for producer_id in kept & expected.keys() if world.may_forget else expected.keys():
        entry, want = known.get(producer_id), expected[producer_id]
        got = entry and _producer(entry)
        if got == want:
            continue
        if got is not None:
            # Compaction has taken some between: it may know older ones instead.
            every = model.producers(world.batches, len(world.batches))[producer_id]
            is_part = set(got.known) <= set(every.known) and got.epoch == want.epoch
            if world.may_be_gone and is_part and got.last_sequence < want.last_sequence:
                continue  # its newest batch was emptied, since there were newer ones, now cut
            is_newest = got.last_sequence == want.last_sequence
            if is_newest and (
                world.may_forget
                or (
                    world.was_compacted
                    and is_part
                    and (
                        got.open_first_offset == want.open_first_offset
                        or world.may_be_gone
                        or world.is_restarted
                    )
                )
            ):
                continue
        raise Wrong(f"producer {producer_id}: {got}, not {want}")
    for producer_id in known.keys() - expected.keys():
        raise Wrong(f"producer {producer_id} is not of this log")


def _producer(entry: ProducerEntry) -> model.Producer:
    known = tuple(
        model.Known(batch.last_sequence, batch.last_offset, batch.offset_delta)
        for batch in entry.batches
    )
    return model.Producer(entry.producer_epoch, known, entry.transaction_first_offset)


def _check_epochs(world: World) -> None:
    """Each batch is of its epoch, and an epoch ends between its last batch and the next one."""
    if world.was_compacted or (world.lost_epochs and world.may_forget):
        return  # they may be taken from what batches there are
    # A crash may lower the log's start, but what was below it is forgotten.
    low = max(world.start, world.start_highest)
    batches = [batch for batch in world.batches if batch.end > low]
    epochs = world.log.leader_epochs
    for batch in batches:
        offset, epoch = max(batch.header.base_offset, low), batch.header.leader_epoch
        if epochs.epoch_for(offset) != epoch:
            raise Wrong(f"leader epochs {epochs.entries}: {offset} is of {epoch}")
    for batch, following in pairwise(batches):
        epoch, end = batch.header.leader_epoch, following.header.base_offset
        if epoch != following.header.leader_epoch:
            answer = epochs.end_offset_for(epoch, world.log.log_end_offset)
            if answer[0] != epoch or not batch.end <= answer[1] <= end:
                raise Wrong(f"epoch {epoch} ends at {answer}, not in [{batch.end}, {end}]")


def _spans(batches: list[Batch]) -> list[tuple[int, int]]:
    return [(batch.header.base_offset, batch.end) for batch in batches]
