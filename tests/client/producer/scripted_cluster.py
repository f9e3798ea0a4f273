"""Two brokers that do what a test says, and the producer's pure parts driven against them.

The brokers check producer epochs and sequence numbers as Kafka's do and remember five batches.
Requests wait on their connection until the test lets the broker take them, and answers until the
test delivers them; a lost connection loses both. No loop, no clock: time is a number.
"""

import random
from collections import deque
from dataclasses import dataclass, field

from barnabas_client.cluster.metadata import ClusterMetadata, PartitionMetadata, TopicMetadata
from barnabas_client.config.producer_settings import ProducerSettings
from barnabas_client.errors import DisconnectedError
from barnabas_client.producer.accumulator import RecordAccumulator
from barnabas_client.producer.admission import Admission
from barnabas_client.producer.batch import ProducerBatch
from barnabas_client.producer.batch_completion import BatchCompletion
from barnabas_client.producer.delivery import Delivery
from barnabas_client.producer.idempotence import Identities, ProducerIdentity
from barnabas_client.producer.queues import PartitionQueue
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.records.batch import read_header
from barnabas_protocol.records.record import decode_records

TOPIC = "t"
IN_FLIGHT_MAX = 5
SEQUENCE_MASK = (1 << 31) - 1


class PartitionLog:
    """A partition as its leaders see it: what is written, and the producer's last batches."""

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.epoch = -1
        self.recent: deque[tuple[int, int, int]] = deque(maxlen=5)

    def append(self, wire: bytes) -> tuple[int, int]:
        """The error code and the base offset for a batch (TXL-2)."""
        header = read_header(wire)
        numbers = [int(r.value or b"") for r in decode_records(wire)]
        if header.producer_id >= 0:
            if header.producer_epoch < self.epoch:
                return ErrorCode.INVALID_PRODUCER_EPOCH, -1
            for first, last, offset in self.recent:
                is_same = (first, last) == (header.base_sequence, header.last_sequence)
                if is_same and header.producer_epoch == self.epoch:
                    return ErrorCode.NONE, offset
            expected = 0
            if self.recent and header.producer_epoch == self.epoch:
                expected = (self.recent[-1][1] + 1) & SEQUENCE_MASK
            if header.base_sequence != expected:
                return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
            if header.producer_epoch != self.epoch:
                self.epoch = header.producer_epoch
                self.recent.clear()
            self.recent.append((header.base_sequence, header.last_sequence, len(self.numbers)))
        offset = len(self.numbers)
        self.numbers += numbers
        return ErrorCode.NONE, offset


@dataclass
class Request:
    """One Produce request on its way."""

    sent: list[tuple[PartitionQueue, ProducerBatch]]
    wires: list[bytes]
    answers: list[tuple[int, int]] | None = None


@dataclass
class ScriptedCluster:
    """Brokers 1 and 2, their connections, and a producer without its shell."""

    settings: ProducerSettings
    partitions: int = 2
    now_ms: int = 1000
    leaders: dict[int, int] = field(default_factory=dict)
    refused_once: dict[int, ErrorCode] = field(default_factory=dict)
    # What the broker says of the next batch although it has appended it.
    doubtful_once: dict[int, ErrorCode] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.logs = [PartitionLog() for _ in range(self.partitions)]
        self.leaders = dict.fromkeys(range(self.partitions), 1)
        self.identities = Identities() if self.settings.enable_idempotence else None
        if self.identities is not None:
            self.identities.current = ProducerIdentity(7, 0)
        self.accumulator = RecordAccumulator(self.settings, self.identities)
        self.admission = Admission(
            self.settings, self.accumulator, random.Random(0), lambda topic: None
        )
        self.completion = BatchCompletion(
            self.accumulator,
            retries=self.settings.retries,
            delivery_timeout_ms=self.settings.delivery_timeout_ms,
            backoff_ms=lambda attempt: 10,
            on_transaction_error=None,
        )
        self.connections: dict[int, list[Request]] = {1: [], 2: []}
        self.deliveries: list[tuple[int, int, Delivery]] = []
        self._version = 0
        self.refresh()

    def refresh(self, *, known_partitions: int | None = None) -> None:
        """The producer learns who leads, from a broker that may know of fewer partitions."""
        self._version += 1
        partitions = {
            p: PartitionMetadata(partition=p, leader_id=leader)
            for p, leader in self.leaders.items()
            if known_partitions is None or p < known_partitions
        }
        topic = TopicMetadata(name=TOPIC, partitions=partitions)
        self.admission.update(ClusterMetadata(version=self._version, topics={TOPIC: topic}))
        self.admission.admit(self.now_ms)

    def send(self, partition: int, padding: int = 0) -> None:
        number = len(self.deliveries)
        value = b"%d" % number + b" " * padding
        delivery = self.admission.accept(TOPIC, None, value, partition, 1, (), self.now_ms)
        self.admission.admit(self.now_ms)
        self.deliveries.append((partition, number, delivery))

    def turn(self) -> None:
        """What the sender does when it is woken."""
        self.admission.admit(self.now_ms)
        for queue, batch in self.accumulator.expired(self.now_ms):
            self.completion.expire(queue, batch)
        if self.identities is not None and self.identities.current is None:
            self.identities.current = ProducerIdentity(8, 0)
        for node, queues in self.accumulator.ready(self.now_ms).queues_by_node.items():
            if len(self.connections[node]) < IN_FLIGHT_MAX:
                sent = self.accumulator.drain(node, queues)
                wires = [bytes(batch.wire or b"") for _, batch in sent]
                self.connections[node].append(Request(sent, wires))

    def take(self, node: int) -> None:
        """The broker handles the oldest request that it has not handled yet."""
        for request in self.connections[node]:
            if request.answers is None:
                request.answers = [
                    self._append(node, queue.partition, wire)
                    for (queue, _), wire in zip(request.sent, request.wires, strict=True)
                ]
                return

    def _append(self, node: int, partition: int, wire: bytes) -> tuple[int, int]:
        if self.leaders[partition] != node:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER, -1
        log = self.logs[partition]
        if partition in self.refused_once:
            # Of a batch that is there already, too: limits and rights change, records get too old.
            return self.refused_once.pop(partition), -1
        code, offset = log.append(wire)
        if code == ErrorCode.NONE and partition in self.doubtful_once:
            return self.doubtful_once.pop(partition), -1
        return code, offset

    def answer(self, node: int) -> None:
        """The producer gets the oldest answer, if there is one."""
        requests = self.connections[node]
        if not requests or requests[0].answers is None:
            return
        request = requests.pop(0)
        for (queue, batch), (code, offset) in zip(request.sent, request.answers, strict=True):
            if code == ErrorCode.NONE:
                self.completion.complete(queue, batch, offset, -1)
            else:
                self.completion.handle_error(
                    queue, batch, code, None, self.now_ms, knows_leader=False
                )

    def disconnect(self, node: int) -> None:
        """Everything on the connection is lost, requests and answers alike."""
        requests, self.connections[node] = self.connections[node], []
        for request in requests:
            for queue, batch in request.sent:
                self.completion.handle_no_response(
                    queue, batch, DisconnectedError("lost"), self.now_ms
                )

    def settle(self) -> None:
        """Everything works from now on until nothing is left to do, without any time limit."""
        self.accumulator.delivery_timeout_ms = self.completion.delivery_timeout_ms = 10**9
        self.refused_once.clear()
        self.doubtful_once.clear()
        self.accumulator.flush_count += 1
        for _ in range(1000):
            if not self.accumulator.unfinished and not self.admission.waiting:
                break
            self.refresh()
            self.turn()
            for node in self.connections:
                self.take(node)
                self.answer(node)
            self.now_ms += 20
        self.accumulator.flush_count -= 1
