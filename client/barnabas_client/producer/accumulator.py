"""All batches of a producer that wait to be sent, and the memory they take. Pure.

    new batch --(filled by send)--> queue --drain--> in flight --complete/fail--> done
                                      ^------------- reenqueue / split --------------|

A queue may be drained when its first batch is closed, full, old enough (`linger_ms`), followed by
another one, or when all must go (flush, close, memory exhausted); not while the batch waits for
its next attempt, nor while the order demands that something else goes first.

Not here: what a response means (`batch_completion.py`), requests (`sender.py`).

Invariants: memory is reserved when a batch is created and freed exactly when it is done and off the
wire; a request carries one batch per partition; work per turn grows with the partitions that
have batches, not with those that exist.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from barnabas_client.config.producer_settings import ProducerSettings
from barnabas_client.producer.batch import ProducerBatch, record_size
from barnabas_client.producer.idempotence import Identities
from barnabas_client.producer.queues import PartitionQueue
from barnabas_protocol.records.compression import Compression
from barnabas_protocol.records.record import decode_records

# How fast the estimate of a topic's compression follows what batches show: quickly to the worse,
# slowly to the better, as in Java's client, and never so far that a batch takes too much memory.
_RATIO_STEP_UP: Final = 0.05
_RATIO_STEP_DOWN: Final = 0.02
_RATIO_MIN: Final = 0.1
# Below this no record fits in, so the batch counts as full.
_ROOM_MIN_BYTES: Final = 12
# What a batch may decompress to when it is split; its bytes are our own.
_PLAIN_BYTES_MAX: Final = 1 << 31


@dataclass(slots=True)
class Readiness:
    """Which queues can be drained now."""

    queues_by_node: dict[int, list[PartitionQueue]]
    # When another queue becomes ready by time alone; None if none will.
    next_ms: int | None
    is_leader_missing: bool
    # Queues whose partition does not exist any more: their batches cannot be sent.
    gone: list[PartitionQueue]


class RecordAccumulator:
    """All batches of a producer, by partition."""

    def __init__(self, settings: ProducerSettings, identities: Identities | None) -> None:
        self.identities = identities
        self.used_bytes = 0
        self.is_exhausted = False
        self.flush_count = 0
        # Those with batches in the queue, in the order in which they got one.
        self.active: dict[PartitionQueue, None] = {}
        self.unfinished: dict[ProducerBatch, PartitionQueue] = {}
        self._batch_size = max(settings.batch_size, 1)
        self._linger_ms = settings.linger_ms
        self._buffer_memory = settings.buffer_memory
        self.delivery_timeout_ms = settings.delivery_timeout_ms
        self._max_request_size = settings.max_request_size
        self._codec = Compression[settings.compression_type.upper()]
        self._level = settings.compression_level
        self._is_transactional = settings.transactional_id is not None
        self._is_single = settings.max_in_flight_requests_per_connection == 1
        self.batch_count = 0
        self._turns: dict[int, int] = {}

    def new_batch(self, queue: PartitionQueue, size: int, now_ms: int) -> ProducerBatch | None:
        """Begin a batch with room for a record of that size; None while memory is exhausted.

        The batch that was open stays in the queue and gets no more records.
        """
        target = self._batch_size
        if self._codec:
            target = int(target / max(queue.topic.compression_ratio, _RATIO_MIN))
        reserved = max(target, size)
        if self.used_bytes + reserved > self._buffer_memory:
            reserved = max(self._batch_size, size)
            if self.used_bytes + reserved > self._buffer_memory and self.used_bytes:
                self.is_exhausted = True
                return None
        self.used_bytes += reserved
        self.batch_count += 1
        queue.topic.used_at_ms = now_ms
        batch = ProducerBatch(
            queue.topic.name,
            queue.partition,
            room_bytes=reserved,
            reserved_bytes=reserved,
            created_ms=now_ms,
            order=(self.batch_count,),
        )
        queue.batches.append(batch)
        queue.open_batch = batch
        self.active[queue] = None
        self.unfinished[batch] = queue
        return batch

    def ready(self, now_ms: int) -> Readiness:
        """Which queues may be drained, by the broker that leads them."""
        by_node: dict[int, list[PartitionQueue]] = {}
        next_ms: int | None = None
        is_leader_missing = False
        gone: list[PartitionQueue] = []
        is_urgent = self.is_exhausted or self.flush_count > 0
        for queue in self.active:
            batch = queue.next_batch
            if queue.is_gone:
                gone.append(queue)
                continue
            if not self._may_send(queue, batch):
                continue
            due_ms = now_ms if is_urgent else self._due_ms(queue, batch, now_ms)
            due_ms = max(due_ms, batch.retry_at_ms)
            if due_ms > now_ms:
                next_ms = due_ms if next_ms is None else min(next_ms, due_ms)
            elif queue.leader_id < 0:
                is_leader_missing = True
            else:
                by_node.setdefault(queue.leader_id, []).append(queue)
        return Readiness(by_node, next_ms, is_leader_missing, gone)

    def _due_ms(self, queue: PartitionQueue, batch: ProducerBatch, now_ms: int) -> int:
        is_full = batch is not queue.open_batch or batch.room_bytes < _ROOM_MIN_BYTES
        return now_ms if is_full else batch.created_ms + self._linger_ms

    def _may_send(self, queue: PartitionQueue, batch: ProducerBatch) -> bool:
        if queue.sequences is not None and self.identities is not None:
            return queue.sequences.may_send(batch, self.identities)
        return not (self._is_single and queue.in_flight)

    def drain(
        self, node_id: int, queues: Sequence[PartitionQueue]
    ) -> list[tuple[PartitionQueue, ProducerBatch]]:
        """Take one batch of each ready queue for a request to the node, up to its largest size.

        Begins with another queue each time, so that a full request starves nobody.
        """
        turn = self._turns.get(node_id, 0)
        self._turns[node_id] = turn + 1
        start = turn % len(queues)
        drained: list[tuple[PartitionQueue, ProducerBatch]] = []
        size = 0
        for queue in (*queues[start:], *queues[:start]):
            batch = queue.next_batch
            if not batch.is_closed:
                self._close(queue, batch)
            assert batch.wire is not None
            size += len(batch.wire)
            # The first one goes whatever its size: alone it is as small as can be.
            if drained and size > self._max_request_size:
                break
            queue.take(batch)
            if not queue.batches:
                del self.active[queue]
            if queue.sequences is not None:
                queue.sequences.on_sent(batch)
            queue.in_flight.append(batch)
            batch.attempts += 1
            batch.stamp(is_transactional=self._is_transactional)
            drained.append((queue, batch))
        return drained

    def _close(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        if queue.open_batch is batch:
            queue.open_batch = None
        topic = queue.topic
        topic.batch_ends(batch)
        ratio = batch.close(self._codec, self._level)
        if ratio > topic.compression_ratio:
            topic.compression_ratio = max(topic.compression_ratio + _RATIO_STEP_UP, ratio)
        else:
            topic.compression_ratio = max(topic.compression_ratio - _RATIO_STEP_DOWN, ratio)

    def on_response(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        """The batch is off the wire; one of the calls below follows."""
        queue.in_flight.remove(batch)
        if batch.sequences is not None:
            batch.sequences.on_response(batch)

    def deallocate(self, batch: ProducerBatch) -> None:
        """The batch is done and off the wire: free its memory."""
        if self.unfinished.pop(batch, None) is not None:
            self.used_bytes -= batch.reserved_bytes
            self.is_exhausted = False

    def reenqueue(self, queue: PartitionQueue, batch: ProducerBatch, retry_at_ms: int) -> None:
        """Send the batch again, at its place in the order, not before that time."""
        if batch.sequences is not None:
            batch.sequences.on_retry(batch)
        batch.retry_at_ms = retry_at_ms
        queue.reenqueue(batch)
        self.active[queue] = None

    def split(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        """The broker refused the batch as too large: send two halves in its place."""
        assert batch.wire is not None
        records = decode_records(bytes(batch.wire), max_decompressed_bytes=_PLAIN_BYTES_MAX)
        middle = (len(records) + 1) // 2
        parts: list[ProducerBatch] = []
        moves: list[tuple[int, ProducerBatch, int]] = []
        for index, rows in enumerate((records[:middle], records[middle:])):
            part = ProducerBatch(
                batch.topic,
                batch.partition,
                room_bytes=0,
                # The memory of the whole comes back with its second part.
                reserved_bytes=batch.reserved_bytes if index else 0,
                created_ms=batch.created_ms,
                order=(*batch.order, index),
            )
            for row in rows:
                size = record_size(row.key, row.value, row.headers)
                part.append(row.key, row.value, row.headers, row.timestamp, size)
            part.close(self._codec, self._level)
            parts.append(part)
            moves.append((index * middle, part, 0))
        queue.topic.compression_ratio = 1.0
        if batch.sequences is not None:
            batch.sequences.split(batch, parts)
        del self.unfinished[batch]
        for part in parts:
            self.unfinished[part] = queue
            self.reenqueue(queue, part, 0)
        batch.move(list(moves))

    def expired(self, now_ms: int) -> list[tuple[PartitionQueue, ProducerBatch]]:
        """Batches that were not acknowledged in time, waiting or on the wire, oldest first."""
        oldest_ms = now_ms - self.delivery_timeout_ms
        late: list[tuple[PartitionQueue, ProducerBatch]] = []
        for batch, queue in self.unfinished.items():
            if batch.created_ms > oldest_ms:
                # Parts of split batches are older than what is before them, and wait one turn.
                break
            if not batch.is_done:
                late.append((queue, batch))
        return late

    def next_expiry_ms(self) -> int | None:
        """When the oldest batch's time is over."""
        for batch in self.unfinished:
            if not batch.is_done:
                return batch.created_ms + self.delivery_timeout_ms
        return None

    def remove(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        """Take a batch out of the queue that waits there; it will not be sent (again)."""
        queue.batches.remove(batch)
        if queue.open_batch is batch:
            queue.open_batch = None
        if not queue.batches:
            self.active.pop(queue, None)
        if not batch.is_closed:
            # So that nothing is added.
            queue.topic.batch_ends(batch)
            batch.close(Compression.NONE, None)

    def undrained(self) -> Iterator[tuple[PartitionQueue, ProducerBatch]]:
        """All batches that are not in flight."""
        for queue in list(self.active):
            for batch in list(queue.batches):
                yield queue, batch
