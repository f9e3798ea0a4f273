"""Sends the markers of decided transactions to the leaders of their partitions.

One task for each destination, which sends what waits for it in one request at a time. Not here:
what a leader does with a marker (`marker_writer.py`), who decides (`shard.py`).
Source: TXN-6; WriteTxnMarkers, KIP-98 and KIP-1228.

Invariants: an outcome that is decided is never given up, unless its coordinator is not here any
more or somebody newer has taken over; a partition that does not exist any more needs no marker;
a transaction is completed once, when none of its partitions is left; a marker is sent again only
when the request before has ended, and none is under way when the transaction is completed: in
version 1 the log cannot tell it from a marker of the next transaction. Partitions go in their
order, not in that of a set, so that a seed tells the same simulation in every process.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final, Protocol

from barnabas_broker.coordinator.transaction.state import Transaction, TransactionState, by_topic
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

logger = logging.getLogger(__name__)

MARKERS_PER_REQUEST: Final = 100
PARTITIONS_PER_REQUEST: Final = 2_000
"""What is more waits for the next request: each is some milliseconds of work at both ends."""
BACKOFF_MS_MIN: Final = 20
BACKOFF_MS_MAX: Final = 1000

RETRIED: Final = frozenset(
    (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.KAFKA_STORAGE_ERROR,
    )
)
"""What passes; anything else is retried too, but logged: the broker that says it is broken."""
TAKEN_OVER: Final = frozenset(
    (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED)
)


class Destinations(Protocol):
    """Where markers go."""

    def leader_of(self, topic_partition: TopicPartition) -> int | None:
        """Return the leader, -1 while there is none; None for a partition that does not exist."""
        ...

    def send(
        self, node_id: int, request: WriteTxnMarkersRequest
    ) -> Awaitable[WriteTxnMarkersResponse]:
        """Send a request to a broker, or to this one. Raises: OSError."""
        ...


class _Ending:
    """A transaction whose markers are on their way."""

    __slots__ = ("attempts", "left", "partition", "transaction", "under_way")

    def __init__(self, partition: int, transaction: Transaction) -> None:
        self.partition = partition
        self.transaction = transaction
        self.left = set(transaction.partitions)
        self.under_way: set[TopicPartition] = set()  # of `left`: in requests without a response
        self.attempts = 0


class MarkerSender:
    """All transactions of this broker's coordinators that are being ended."""

    def __init__(
        self,
        destinations: Destinations,
        *,
        coordinator_epoch: Callable[[int], int | None],
        complete: Callable[[int, Transaction], Awaitable[None]],
    ) -> None:
        """Make one.

        `coordinator_epoch` gives the leader epoch of a partition of `__transaction_state` that is
        led here, else None. `complete` writes down that all markers are written.
        """
        self._destinations = destinations
        self._coordinator_epoch = coordinator_epoch
        self._complete = complete
        self._endings: dict[tuple[int, str], _Ending] = {}
        self._waiting: defaultdict[int, dict[_Ending, list[TopicPartition]]] = defaultdict(dict)
        self._senders: dict[int, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.sent_count = 0
        self.failed_count = 0

    @property
    def ending_count(self) -> int:
        """Transactions that wait for markers."""
        return len(self._endings)

    def send(self, partition: int, transaction: Transaction) -> None:
        """Write the markers of a prepared transaction, however long that takes."""
        ending = _Ending(partition, transaction)
        self._endings[partition, transaction.transactional_id] = ending
        self._route(ending, ending.left)

    def forget(self, partition: int) -> None:
        """Stop for the transactions of a partition: its coordinator is another one from now on."""
        for key in [key for key in self._endings if key[0] == partition]:
            del self._endings[key]

    async def close(self) -> None:
        """Stop."""
        self._endings.clear()
        tasks = [*self._tasks, *self._senders.values()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    # ---- routing -------------------------------------------------------------------------------

    def _is_current(self, ending: _Ending) -> bool:
        key = ending.partition, ending.transaction.transactional_id
        return self._endings.get(key) is ending

    def _route(self, ending: _Ending, partitions: Iterable[TopicPartition]) -> None:
        """Put partitions with their leaders; complete the transaction if none is left."""
        leaderless = False
        for topic_partition in sorted(partitions):
            leader = self._destinations.leader_of(topic_partition)
            if leader is None:
                ending.left.discard(topic_partition)
            elif leader < 0:
                leaderless = True
            else:
                self._waiting[leader].setdefault(ending, []).append(topic_partition)
                self._start_sender(leader)
        if not ending.left:
            self._start(self._write_complete(ending))
        elif leaderless:
            self._retry(ending)

    def _retry(self, ending: _Ending) -> None:
        """Look for the leaders again, after a while, of what neither waits nor is under way."""
        self._start(self._route_later(ending))

    async def _route_later(self, ending: _Ending) -> None:
        await asyncio.sleep(_backoff_seconds(ending))
        if not self._is_current(ending):
            return
        placed = set[TopicPartition]()
        for waiting in self._waiting.values():
            placed.update(waiting.get(ending, ()))
        missing = ending.left - placed - ending.under_way
        if missing:
            self._route(ending, missing)

    def _start(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # ---- sending -------------------------------------------------------------------------------

    def _start_sender(self, node_id: int) -> None:
        if node_id not in self._senders:
            task = asyncio.get_running_loop().create_task(self._send_all(node_id))
            self._senders[node_id] = task

    async def _send_all(self, node_id: int) -> None:
        """Send what waits for one broker, until nothing does."""
        try:
            while waiting := self._waiting[node_id]:
                batch = self._take_batch(waiting)
                if batch:
                    await self._send_batch(node_id, batch)
        finally:
            del self._senders[node_id]

    def _take_batch(
        self, waiting: dict[_Ending, list[TopicPartition]]
    ) -> list[tuple[_Ending, list[TopicPartition]]]:
        """Take out what fits into one request, the oldest first."""
        batch: list[tuple[_Ending, list[TopicPartition]]] = []
        room = PARTITIONS_PER_REQUEST
        while waiting and room and len(batch) < MARKERS_PER_REQUEST:
            ending = next(iter(waiting))
            partitions = waiting.pop(ending)
            if not self._is_current(ending):
                continue
            if len(partitions) > room:
                waiting[ending] = partitions[room:]
                partitions = partitions[:room]
            room -= len(partitions)
            batch.append((ending, partitions))
        return batch

    async def _send_batch(
        self, node_id: int, batch: list[tuple[_Ending, list[TopicPartition]]]
    ) -> None:
        request_of: list[tuple[_Ending, list[TopicPartition], WritableTxnMarker]] = []
        for ending, partitions in batch:
            epoch = self._coordinator_epoch(ending.partition)
            if epoch is not None:
                request_of.append((ending, partitions, _marker(ending, partitions, epoch)))
        if not request_of:
            return  # their coordinator is leaving this broker
        request = WriteTxnMarkersRequest(markers=[marker for _, _, marker in request_of])
        for ending, partitions, _ in request_of:
            ending.under_way.update(partitions)
        response: WriteTxnMarkersResponse | None = None
        try:
            response = await self._destinations.send(node_id, request)
        except (OSError, KafkaError) as error:
            logger.debug("markers for broker %d: %s", node_id, error)
        except Exception:
            logger.exception("markers for broker %d failed", node_id)
        finally:
            for ending, partitions, _ in request_of:
                ending.under_way.difference_update(partitions)
        if response is None:
            self.failed_count += 1
            for ending, _, _ in request_of:
                self._retry(ending)
            return
        codes: dict[tuple[int, TopicPartition], int] = {
            (marker.producer_id, TopicPartition(topic.name, result.partition_index)): (
                result.error_code
            )
            for marker in response.markers
            for topic in marker.topics
            for result in topic.partitions
        }
        for ending, partitions, marker in request_of:
            if self._is_current(ending):
                self._take(ending, partitions, marker.producer_id, codes)

    def _take(
        self,
        ending: _Ending,
        partitions: list[TopicPartition],
        producer_id: int,
        codes: dict[tuple[int, TopicPartition], int],
    ) -> None:
        """Take the results for one transaction."""
        for topic_partition in partitions:
            code = codes.get((producer_id, topic_partition), ErrorCode.REQUEST_TIMED_OUT)
            if code == ErrorCode.NONE:
                ending.left.discard(topic_partition)
                self.sent_count += 1
            elif code in TAKEN_OVER:
                logger.warning(
                    "%s: markers of %s are somebody else's: %s",
                    topic_partition,
                    ending.transaction.transactional_id,
                    ErrorCode(code).name,
                )
                del self._endings[ending.partition, ending.transaction.transactional_id]
                return
            elif code not in RETRIED:
                logger.warning("%s: a marker failed with code %d", topic_partition, code)
        if not ending.left:
            self._start(self._write_complete(ending))
        elif not ending.left.isdisjoint(partitions):
            self.failed_count += 1
            self._retry(ending)

    async def _write_complete(self, ending: _Ending) -> None:
        """Write down that all markers are there, again and again while that fails."""
        while self._is_current(ending):
            try:
                await self._complete(ending.partition, ending.transaction)
            except KafkaError as error:
                logger.debug("%s: %s", ending.transaction.transactional_id, error)
                await asyncio.sleep(_backoff_seconds(ending))
            except Exception:
                logger.exception("%s: not completed", ending.transaction.transactional_id)
                await asyncio.sleep(_backoff_seconds(ending))
            else:
                key = ending.partition, ending.transaction.transactional_id
                if self._is_current(ending):
                    del self._endings[key]


def _backoff_seconds(ending: _Ending) -> float:
    ending.attempts += 1
    delay_ms: int = min(BACKOFF_MS_MIN << min(ending.attempts, 10), BACKOFF_MS_MAX)
    return delay_ms / 1000


def _marker(
    ending: _Ending, partitions: list[TopicPartition], coordinator_epoch: int
) -> WritableTxnMarker:
    transaction = ending.transaction
    return WritableTxnMarker(
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        transaction_result=transaction.state is TransactionState.PREPARE_COMMIT,
        topics=[
            WritableTxnMarkerTopic(name=topic, partition_indexes=indexes)
            for topic, indexes in by_topic(partitions).items()
        ],
        coordinator_epoch=coordinator_epoch,
        transaction_version=transaction.client_version,
    )
