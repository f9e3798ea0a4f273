"""Sends batches that are ready: one task that sleeps until there is something to do.

Each run: move waiting records into batches, expire old batches, see which queues are ready, and
send each broker one request with one batch per partition. Responses come as callbacks of the
network's futures, complete their batches and cause the next run.

Not here: decisions (`accumulator.py`, `batch_completion.py`, `idempotence.py`,
`transactions.py`).

Invariants: at most `max_in_flight_requests_per_connection` requests per broker; one timer in all,
for whatever is due first; connecting to one broker never delays another.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

from barnabas_client.cluster.metadata import Node
from barnabas_client.errors import (
    BarnabasError,
    ClientBrokenError,
    ClosedError,
    NotFoundError,
    RetriableError,
)
from barnabas_client.producer.accumulator import RecordAccumulator
from barnabas_client.producer.admission import Admission
from barnabas_client.producer.batch import ProducerBatch
from barnabas_client.producer.batch_completion import BatchCompletion
from barnabas_client.producer.queues import PartitionQueue
from barnabas_protocol.api import ApiKey
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.ids import ZERO_UUID, Uuid
from barnabas_protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)

if TYPE_CHECKING:
    from barnabas_client.config.producer_settings import ProducerSettings
    from barnabas_client.network.client import Client

_log = logging.getLogger(__name__)

# From 13 on topics are named by id, which needs brokers that have ids.
_VERSION_MAX: Final = 13
_VERSION_WITH_NAMES_MAX: Final = 12

Sent = list[tuple[PartitionQueue, ProducerBatch]]


class IdentitySource(Protocol):
    """The producer id to send with, and the partitions that may be sent to now."""

    @property
    def is_ready(self) -> bool:
        """Whether there is a producer id to send with."""
        ...

    @property
    def produce_version_max(self) -> int:
        """The newest Produce version to use."""
        ...

    @property
    def failure(self) -> BarnabasError | None:
        """Why no batch may be sent any more; None if they may."""
        ...

    async def acquire(self) -> None:
        """Get what is missing: a producer id, partitions into the transaction.

        Raises: RetriableError if it may be tried again, else what makes sending impossible.
        """
        ...

    def sendable(self, queues: list[PartitionQueue]) -> list[PartitionQueue]:
        """The queues that may be sent from; for the others `needs_acquire` becomes true."""
        ...

    @property
    def needs_acquire(self) -> bool:
        """Whether `acquire` has something to do."""
        ...


class Sender:
    """The producer's only task that sends records."""

    def __init__(
        self,
        client: Client,
        settings: ProducerSettings,
        accumulator: RecordAccumulator,
        admission: Admission,
        completion: BatchCompletion,
        identity: IdentitySource | None,
        on_room: Callable[[], None],
    ) -> None:
        self._client = client
        self._accumulator = accumulator
        self._admission = admission
        self._completion = completion
        self._identity = identity
        self._on_room = on_room
        self._acks = settings.required_acks
        self._transactional_id = settings.transactional_id
        self._request_timeout_ms = settings.request_timeout_ms
        self._in_flight_max = settings.max_in_flight_requests_per_connection
        self._in_flight: dict[int, int] = {}
        self._clock = client.environment.clock
        self._work = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0
        self._tasks: dict[object, asyncio.Task[None]] = {}
        self._is_closed = False
        self.failure: BarnabasError | None = None

    def wake(self) -> None:
        """Run once, soon."""
        self._work.set()

    async def run(self) -> None:
        """Run until cancelled."""
        loop = asyncio.get_running_loop()
        try:
            while True:
                await self._work.wait()
                self._work.clear()
                self._run_once(loop)
        except asyncio.CancelledError:
            if self.failure is None:
                # The loop ends without `close`: callers must not wait forever.
                self._log_lost_records()
                self.abort_incomplete_batches(
                    ClosedError("the program ended before the record was acknowledged")
                )
            raise
        except Exception as error:
            _log.exception("the producer cannot go on")
            self.abort_incomplete_batches(
                ClientBrokenError(f"the producer cannot go on: {error!r}")
            )
        finally:
            await self._stop()

    def _log_lost_records(self) -> None:
        """Log what may be lost when the loop ends before the producer was closed."""
        groups = [*self._accumulator.unfinished, *self._admission.groups()]
        count = sum(len(group.timestamps) for group in groups if not group.is_done)
        if count:
            _log.error(
                "the program ended without closing the producer, so %d records may be lost:"
                " use `async with`, or await close()",
                count,
            )

    async def _stop(self) -> None:
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def abort_incomplete_batches(self, error: BarnabasError) -> None:
        """Fail all batches and waiting records, now and later."""
        self.failure = error
        self._abort_undrained(error)
        self._admission.open_topics.clear()
        for batch, queue in list(self._accumulator.unfinished.items()):
            if not batch.is_done:
                self._completion.abort(queue, batch, error)

    def _abort_undrained(self, error: BarnabasError) -> None:
        self._admission.abort(error)
        for queue, batch in self._accumulator.undrained():
            self._completion.abort(queue, batch, error)
        self._on_room()  # callers that wait for room would wait forever

    def _run_once(self, loop: asyncio.AbstractEventLoop) -> None:
        now_ms = self._clock.monotonic_ms()
        accumulator, identity = self._accumulator, self._identity
        self._admit(now_ms)
        for queue, batch in accumulator.expired(now_ms):
            self._completion.expire(queue, batch)
        if identity is not None and (accumulator.active or self._admission.waiting):
            if identity.failure is not None:
                self._abort_undrained(identity.failure)
            elif accumulator.active and not identity.is_ready:
                self._run_task("identity", self._acquire)
        readiness = accumulator.ready(now_ms)
        for queue in readiness.gone:
            self._abort_gone(queue)
        if readiness.is_leader_missing:
            self._client.request_refresh()
        for node_id, queues in readiness.queues_by_node.items():
            admitted = queues if identity is None else identity.sendable(queues)
            if admitted:
                self._send_to(node_id, admitted)
        if identity is not None and identity.needs_acquire:
            self._run_task("identity", self._acquire)
        self._set_timer(loop, now_ms, readiness.next_ms)

    def _abort_gone(self, queue: PartitionQueue) -> None:
        count = len(queue.topic.queues)
        error = NotFoundError(
            f"topic {queue.topic.name} was created again with {count} partitions and has no "
            f"partition {queue.partition} any more"
        )
        for batch in list(queue.batches):
            self._completion.abort(queue, batch, error)

    def _set_timer(self, loop: asyncio.AbstractEventLoop, now_ms: int, next_ms: int | None) -> None:
        """Run again when the first of all deadlines is reached."""
        due = next_ms
        for other in (self._accumulator.next_expiry_ms(), self._admission.next_deadline_ms()):
            if other is not None and (due is None or other < due):
                due = other
        if self._timer is not None:
            if due == self._timer_ms:
                return
            self._timer.cancel()
            self._timer = None
        if due is not None:
            self._timer_ms = due
            # The clock counts whole milliseconds: after half of one more it is reached.
            self._timer = loop.call_later(max(due - now_ms, 0) / 1000 + 0.0005, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self._work.set()

    def _send_to(self, node_id: int, queues: list[PartitionQueue]) -> None:
        """Fill the node's pipeline as far as its limits allow."""
        in_flight = self._in_flight.get(node_id, 0)
        if in_flight >= self._in_flight_max:
            return
        client = self._client
        if not client.is_ready(node_id):
            self._run_task(node_id, partial(self._connect, node_id))
            return
        version_max = _VERSION_MAX
        if self._identity is not None:
            version_max = self._identity.produce_version_max
        if any(queue.topic.topic_id == ZERO_UUID for queue in queues):
            version_max = min(version_max, _VERSION_WITH_NAMES_MAX)
        version = client.known_version(node_id, ApiKey.PRODUCE, maximum=version_max)
        if version is None:
            self._run_task(node_id, partial(self._connect, node_id))
            return
        sent = self._accumulator.drain(node_id, queues)
        request = self._request(sent)
        future = client.send_now(node_id, request, version, timeout_ms=self._request_timeout_ms)
        self._in_flight[node_id] = in_flight + 1
        # By the ids that were sent: a topic may be created again before the response comes.
        names = {data.topic_id: data.name for data in request.topic_data}
        if version <= _VERSION_WITH_NAMES_MAX:
            names = {}
        future.add_done_callback(partial(self._on_response, node_id, names, sent))
        # There may be more for the node than one request takes.
        self._work.set()

    def _request(self, sent: Sent) -> ProduceRequest:
        by_topic: dict[str, TopicProduceData] = {}
        for queue, batch in sent:
            data = by_topic.get(batch.topic)
            if data is None:
                data = by_topic[batch.topic] = TopicProduceData(
                    name=batch.topic, topic_id=queue.topic.topic_id, partition_data=[]
                )
            data.partition_data.append(
                PartitionProduceData(index=batch.partition, records=batch.wire)
            )
        return ProduceRequest(
            transactional_id=self._transactional_id,
            acks=self._acks,
            timeout_ms=self._request_timeout_ms,
            topic_data=list(by_topic.values()),
        )

    def _on_response(
        self, node_id: int, names: dict[Uuid, str], sent: Sent, future: asyncio.Future[Any]
    ) -> None:
        """Complete the batches of a request."""
        self._in_flight[node_id] -= 1
        self._work.set()
        now_ms = self._clock.monotonic_ms()
        if future.cancelled():
            error: BaseException | None = ClosedError("the request was cancelled")
        else:
            error = future.exception()
        if error is not None:
            self._on_no_response(sent, error, now_ms)
        elif self._acks == 0:
            for queue, batch in sent:
                self._completion.complete(queue, batch, -1, -1)
        else:
            self._handle_response(names, sent, future.result(), now_ms)
        # Before the caller's code runs again, so that waiting records keep their place.
        self._admit(now_ms)

    def _admit(self, now_ms: int) -> None:
        if self._admission.waiting:
            self._admission.admit(now_ms)
            if not self._admission.is_backlogged:
                self._on_room()

    def _on_no_response(self, sent: Sent, error: BaseException, now_ms: int) -> None:
        if not isinstance(error, BarnabasError):
            error = ClientBrokenError(f"sending failed: {error!r}")
        for queue, batch in sent:
            self._completion.handle_no_response(queue, batch, error, now_ms)
        if isinstance(error, RetriableError):
            self._client.request_refresh()

    def _handle_response(
        self, names: dict[Uuid, str], sent: Sent, response: Any, now_ms: int
    ) -> None:
        """Apply the response of each partition; `names` are by topic id, if ids are used."""
        responses: dict[tuple[str, int], PartitionProduceResponse] = {}
        for topic in response.responses:
            name = names.get(topic.topic_id, "") if names else topic.name
            for answer in topic.partition_responses:
                responses[name, answer.index] = answer
        completion = self._completion
        endpoints = [
            Node(node_id=node.node_id, host=node.host, port=node.port, rack=node.rack)
            for node in response.node_endpoints
        ]
        is_stale = False
        for queue, batch in sent:
            found = responses.get((batch.topic, batch.partition))
            if found is None:
                error = ClientBrokenError(f"no response for {batch.topic}-{batch.partition}")
                completion.handle_no_response(queue, batch, error, now_ms)
            elif found.error_code == ErrorCode.NONE:
                completion.complete(queue, batch, found.base_offset, found.log_append_time_ms)
            else:
                is_stale = True
                self._handle_partition_error(queue, batch, found, endpoints, now_ms)
        if is_stale:
            self._client.request_refresh()

    def _handle_partition_error(
        self,
        queue: PartitionQueue,
        batch: ProducerBatch,
        answer: PartitionProduceResponse,
        endpoints: list[Node],
        now_ms: int,
    ) -> None:
        # KIP-951: the broker may name the new leader, sooner than metadata do.
        hint = answer.current_leader
        knows_leader = hint.leader_id >= 0 and self._client.apply_leader_hint(
            batch.topic, batch.partition, hint.leader_id, hint.leader_epoch, endpoints
        )
        message = answer.error_message
        for record_error in answer.record_errors[:1]:
            detail = record_error.batch_index_error_message or "refused"
            message = f"{message or 'invalid'}: record {record_error.batch_index}: {detail}"
        self._completion.handle_error(
            queue, batch, answer.error_code, message, now_ms, knows_leader=knows_leader
        )

    def _run_task(self, key: object, work: Any) -> None:
        """Run a coroutine, once at a time per key, and wake the sender when it is done."""
        if key in self._tasks or self._is_closed:
            return
        task = asyncio.get_running_loop().create_task(work())
        self._tasks[key] = task

        def done(finished: asyncio.Task[None]) -> None:
            del self._tasks[key]
            if not finished.cancelled() and finished.exception() is not None:
                _log.error("the producer's %s failed", key, exc_info=finished.exception())
            self._work.set()

        task.add_done_callback(done)

    async def _connect(self, node_id: int) -> None:
        """Wait until the node can be sent to."""
        try:
            await self._client.ready(node_id, timeout_ms=self._request_timeout_ms)
        except RetriableError:
            self._client.request_refresh()
            await asyncio.sleep(self._client.backoff_ms(0) / 1000)
        except BarnabasError as error:
            self._fail_node(node_id, error)

    def _fail_node(self, node_id: int, error: BarnabasError) -> None:
        """Fail the batches for a broker that will never accept them (credentials, versions)."""
        for queue, batch in self._accumulator.undrained():
            if queue.leader_id == node_id:
                self._completion.abort(queue, batch, error)

    async def _acquire(self) -> None:
        assert self._identity is not None
        try:
            await self._identity.acquire()
        except RetriableError:
            await asyncio.sleep(self._client.backoff_ms(0) / 1000)
        except BarnabasError as error:
            for queue, batch in self._accumulator.undrained():
                self._completion.abort(queue, batch, error)
