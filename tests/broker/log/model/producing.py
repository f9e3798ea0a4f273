"""What clients, coordinators and leaders write to the log of a world."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.records.batch import stamp
from barnabas_protocol.records.control import ControlType, encode_marker
from barnabas_protocol.records.record import Record, encode_batch
from tests.broker.log.model.checks import Wrong
from tests.broker.log.model.model import Batch, Producer

if TYPE_CHECKING:
    from tests.broker.log.model.world import World

FAR = 2**31 + 5
PLAIN_PRODUCERS = (1, 2, 3)
TRANSACTIONAL_PRODUCERS = (11, 12, 13)


def produce(world: World, kind: int, size: int) -> None:
    """A plain batch, an idempotent or transactional one, or a marker."""
    which = size % 3
    if kind < 3:
        _append(world, encode_batch(_records(world, size)))
    elif kind < 5:
        _produce_next(world, PLAIN_PRODUCERS[which], size)
    elif kind >= 7 and TRANSACTIONAL_PRODUCERS[which] in world.opened():
        end_transaction(world, TRANSACTIONAL_PRODUCERS[which], is_abort=kind == 7)
    else:
        _produce_next(world, TRANSACTIONAL_PRODUCERS[which], size)


def end_transaction(world: World, producer_id: int, *, is_abort: bool) -> None:
    """What the coordinator of transactions has the leader write."""
    marker = encode_marker(
        ControlType.ABORT if is_abort else ControlType.COMMIT,
        producer_id=producer_id,
        producer_epoch=_producer(world, producer_id).epoch,
        coordinator_epoch=0,
        timestamp=world.clock.wall_ms(),
    )
    _append(world, bytes(marker), internal=True)


def begin_epoch(world: World, which: int) -> None:
    """An idempotent producer begins anew, under a higher epoch."""
    producer_id = PLAIN_PRODUCERS[which]
    producer = _producer(world, producer_id)
    if producer.known:
        _append(world, _batch(world, producer_id, producer.epoch + 1, 0, 1))


def repeat(world: World, which: int, back: int) -> None:
    """Send one of the last batches of a producer again: the log must know it."""
    known = world.known_producers()
    if world.may_forget or world.was_compacted or not known:
        return
    producer_id = sorted(known)[which % len(known)]
    batches = known[producer_id].known
    if not batches:
        return
    again = batches[-1 - back % len(batches)]
    raw = next(b.raw for b in world.batches if b.header.last_offset == again.last_offset)
    data, end = bytearray(raw), world.log.staged_end_offset
    stamp(data, 0, 0, -1)
    if len(data) > world.config.segment_bytes:
        return  # the settings have changed since
    try:
        info = world.log.append_as_leader(data, world.epoch, now_ms=world.clock.wall_ms())
    except KafkaError as error:
        # As Kafka does: what is refused in any case is not looked up first.
        if error.code == ErrorCode.INVALID_TIMESTAMP and world.clock.wall_offset_ms < 0:
            return
        raise
    is_known = info.is_duplicate and info.last_offset == again.last_offset
    if not is_known or world.log.staged_end_offset != end:
        raise Wrong(f"producer {producer_id} repeats {again}, and is told {info.last_offset}")


def send_refused(world: World, which: int) -> None:
    """Send what a leader must refuse: a gap, an old epoch, a plain batch in a transaction."""
    known = world.known_producers()
    if world.may_forget or not known:
        return
    producer_id = sorted(known)[which % len(known)]
    producer = known[producer_id]
    if not producer.known:
        return
    after = producer.last_sequence + 1
    epoch, sequence, code = producer.epoch, after + 1, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    is_transactional = producer_id in TRANSACTIONAL_PRODUCERS
    if which % 3 == 1 and producer.epoch:
        epoch, sequence, code = producer.epoch - 1, after, ErrorCode.INVALID_PRODUCER_EPOCH
    elif which % 3 == 2 and producer.open_first_offset >= 0:
        sequence, code, is_transactional = after, ErrorCode.INVALID_TXN_STATE, False
    data = encode_batch(
        _records(world, 1),
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        is_transactional=is_transactional,
    )
    try:
        world.log.append_as_leader(bytearray(data), world.epoch, now_ms=world.clock.wall_ms())
    except KafkaError as error:
        if error.code != code:
            raise Wrong(f"{error!r}, not {code!r}") from error
    else:
        raise Wrong(f"producer {producer_id} may write where {code!r} is due")


def follow(world: World, gap: int, size: int) -> None:
    """Append as a follower of a log with gaps, the last of which is wider than a segment."""
    log = world.log
    base = log.staged_end_offset + (0, 1, 40, FAR)[gap]
    if gap and not log.size_bytes:
        return
    records = _records(world, size % 2, base)
    batch = Batch(encode_batch(records, base_offset=base, leader_epoch=world.epoch))
    world.write(batch, lambda: log.append_as_follower(batch.raw))


def _produce_next(world: World, producer_id: int, size: int) -> None:
    producer = _producer(world, producer_id)
    sequence = producer.last_sequence + 1
    _append(world, _batch(world, producer_id, producer.epoch, sequence, size))


def _producer(world: World, producer_id: int) -> Producer:
    return world.known_producers().get(producer_id, Producer(0))


def _batch(world: World, producer_id: int, epoch: int, sequence: int, size: int) -> bytes:
    return encode_batch(
        _records(world, size),
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        is_transactional=producer_id in TRANSACTIONAL_PRODUCERS,
    )


def _records(world: World, size: int, base: int = 0) -> list[Record]:
    """Records with keys that come again, and timestamps that mostly rise."""
    draw = world.random.integer
    records = []
    for number in range(1 + size % 3):
        world.next_value += 1
        late = draw(3) * draw(2) * 60_000
        value = b"%d" % world.next_value + bytes(size)
        records.append(Record(base + number, world.clock.wall_ms() - late, b"k%d" % draw(4), value))
    return records


def _append(world: World, raw: bytes, *, internal: bool = False) -> None:
    """Append as a leader; the model gets what must be in the log."""
    log, now_ms = world.log, world.clock.wall_ms()
    first = log.staged_end_offset
    data = bytearray(raw)
    stamp(data, 0, first, world.epoch)

    def append() -> None:
        info = log.append_as_leader(bytearray(raw), world.epoch, internal=internal, now_ms=now_ms)
        if info.is_duplicate or info.first_offset != first:
            raise Wrong(f"appended at {info.first_offset}, not at {first}")

    try:
        world.write(Batch(bytes(data)), append)
    except KafkaError as error:
        # A marker that outlived its producer's batches leaves a sequence that nobody knows.
        is_forgotten = world.may_forget and error.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        if error.code != ErrorCode.RECORD_LIST_TOO_LARGE and not is_forgotten:
            raise
