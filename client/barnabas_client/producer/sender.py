"""Sends what is ready: one task that sleeps until there is something to do.

Each turn: let records out of their lines, fail what is too old, look which queues are ready, and
send each broker one request with one batch per partition. Answers come as callbacks of the
network's futures, settle their batches and cause the next turn.

Not here: every decision (`accumulator.py`, `outcomes.py`, `idempotence.py`, `transactions.py`).

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
from barnabas_client.producer.accumulator import Accumulator
from barnabas_client.producer.admission import Admission
from barnabas_client.producer.batch import ProducerBatch
from barnabas_client.producer.outcomes import Outcomes
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
    """Who writes, and to which partitions it may write now."""

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
        """Why nothing that waits may go out; None if it may."""
        ...

    async def acquire(self) -> None:
        """Get what is missing: a producer id, partitions into the transaction.

        Raises: RetriableError if it may be tried again, else what makes sending impossible.
        """
        ...

    def admitted(self, queues: list[PartitionQueue]) -> list[PartitionQueue]:
        """Those that may be sent to; for the others `needs_acquire` turns true."""
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
        accumulator: Accumulator,
        admission: Admission,
        outcomes: Outcomes,
        identity: IdentitySource | None,
        on_room: Callable[[], None],
    ) -> None:
        self._client = client
        self._accumulator = accumulator
        self._admission = admission
        self._outcomes = outcomes
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
        self._helpers: dict[object, asyncio.Task[None]] = {}
        self._is_closed = False
        self.failure: BarnabasError | None = None

    def wake(self) -> None:
        """Cause a turn, soon."""
        self._work.set()

    async def run(self) -> None:
        """Take turns until cancelled."""
        loop = asyncio.get_running_loop()
        try:
            while True:
                await self._work.wait()
                self._work.clear()
                self._turn(loop)
        except asyncio.CancelledError:
            if self.failure is None:
                # The loop ends, not the producer: who waits for records must not wait for ever.
                self._complain()
                self.give_up(ClosedError("the program ended before the record was acknowledged"))
            raise
        except Exception as error:
            _log.exception("the producer cannot go on")
            self.give_up(ClientBrokenError(f"the producer cannot go on: {error!r}"))
        finally:
            await self._stop()

    def _complain(self) -> None:
        """Say what is lost when the loop ends before the producer was closed."""
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
        helpers = list(self._helpers.values())
        for helper in helpers:
            helper.cancel()
        await asyncio.gather(*helpers, return_exceptions=True)

    def give_up(self, error: BarnabasError) -> None:
        """Fail all that is not done, now and later."""
        self.failure = error
        self._abandon_waiting(error)
        self._admission.open_topics.clear()
        for batch, queue in list(self._accumulator.unfinished.items()):
            if not batch.is_done:
                self._outcomes.abandon(queue, batch, error)

    def _abandon_waiting(self, error: BarnabasError) -> None:
        self._admission.abandon(error)
        for queue, batch in self._accumulator.waiting():
            self._outcomes.abandon(queue, batch, error)
        self._on_room()  # those who wait for some would wait forever

    def _turn(self, loop: asyncio.AbstractEventLoop) -> None:
        now_ms = self._clock.monotonic_ms()
        accumulator, identity = self._accumulator, self._identity
        self._admit(now_ms)
        for queue, batch in accumulator.expired(now_ms):
            self._outcomes.expire(queue, batch)
        if identity is not None and (accumulator.active or self._admission.lines):
            if identity.failure is not None:
                self._abandon_waiting(identity.failure)
            elif accumulator.active and not identity.is_ready:
                self._help("identity", self._acquire)
        readiness = accumulator.ready(now_ms)
        for queue in readiness.gone:
            self._abandon_gone(queue)
        if readiness.is_leader_missing:
            self._client.request_refresh()
        for node_id, queues in readiness.queues_by_node.items():
            admitted = queues if identity is None else identity.admitted(queues)
            if admitted:
                self._send_to(node_id, admitted)
        if identity is not None and identity.needs_acquire:
            self._help("identity", self._acquire)
        self._set_timer(loop, now_ms, readiness.next_ms)

    def _abandon_gone(self, queue: PartitionQueue) -> None:
        count = len(queue.topic.queues)
        error = NotFoundError(
            f"topic {queue.topic.name} was made anew with {count} partitions and has no partition "
            f"{queue.partition} any more"
        )
        for batch in list(queue.batches):
            self._outcomes.abandon(queue, batch, error)

    def _set_timer(self, loop: asyncio.AbstractEventLoop, now_ms: int, next_ms: int | None) -> None:
        """Come back when the first of all deadlines is reached."""
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
            # The clock counts whole milliseconds: half a one more, and it is surely reached.
            self._timer = loop.call_later(max(due - now_ms, 0) / 1000 + 0.0005, self._ring)

    def _ring(self) -> None:
        self._timer = None
        self._work.set()

    def _send_to(self, node_id: int, queues: list[PartitionQueue]) -> None:
        """Fill the node's pipeline as far as its limits allow."""
        in_flight = self._in_flight.get(node_id, 0)
        if in_flight >= self._in_flight_max:
            return
        client = self._client
        if not client.is_ready(node_id):
            self._help(node_id, partial(self._connect, node_id))
            return
        version_max = _VERSION_MAX
        if self._identity is not None:
            version_max = self._identity.produce_version_max
        if any(queue.topic.topic_id == ZERO_UUID for queue in queues):
            version_max = min(version_max, _VERSION_WITH_NAMES_MAX)
        version = client.known_version(node_id, ApiKey.PRODUCE, maximum=version_max)
        if version is None:
            self._help(node_id, partial(self._connect, node_id))
            return
        sent = self._accumulator.drain(node_id, queues)
        request = self._request(sent)
        future = client.send_now(node_id, request, version, timeout_ms=self._request_timeout_ms)
        self._in_flight[node_id] = in_flight + 1
        # By the ids that went out: a topic may be made anew before the answer comes.
        names = {data.topic_id: data.name for data in request.topic_data}
        if version <= _VERSION_WITH_NAMES_MAX:
            names = {}
        future.add_done_callback(partial(self._answered, node_id, names, sent))
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

    def _answered(
        self, node_id: int, names: dict[Uuid, str], sent: Sent, future: asyncio.Future[Any]
    ) -> None:
        """Settle the batches of a request."""
        self._in_flight[node_id] -= 1
        self._work.set()
        now_ms = self._clock.monotonic_ms()
        if future.cancelled():
            error: BaseException | None = ClosedError("the request was cancelled")
        else:
            error = future.exception()
        if error is not None:
            self._lost(sent, error, now_ms)
        elif self._acks == 0:
            for queue, batch in sent:
                self._outcomes.acknowledge(queue, batch, -1, -1)
        else:
            self._settle(names, sent, future.result(), now_ms)
        # Before the caller's code runs again, so that those in line keep their place.
        self._admit(now_ms)

    def _admit(self, now_ms: int) -> None:
        if self._admission.lines:
            self._admission.admit(now_ms)
            if not self._admission.is_crowded:
                self._on_room()

    def _lost(self, sent: Sent, error: BaseException, now_ms: int) -> None:
        if not isinstance(error, BarnabasError):
            error = ClientBrokenError(f"sending failed: {error!r}")
        for queue, batch in sent:
            self._outcomes.lose(queue, batch, error, now_ms)
        if isinstance(error, RetriableError):
            self._client.request_refresh()

    def _settle(self, names: dict[Uuid, str], sent: Sent, response: Any, now_ms: int) -> None:
        """Apply the answer for each partition; `names` are those of topic ids, if ids are used."""
        answers: dict[tuple[str, int], PartitionProduceResponse] = {}
        for topic in response.responses:
            name = names.get(topic.topic_id, "") if names else topic.name
            for answer in topic.partition_responses:
                answers[name, answer.index] = answer
        outcomes = self._outcomes
        endpoints = [
            Node(node_id=node.node_id, host=node.host, port=node.port, rack=node.rack)
            for node in response.node_endpoints
        ]
        is_stale = False
        for queue, batch in sent:
            found = answers.get((batch.topic, batch.partition))
            if found is None:
                error = ClientBrokenError(f"no answer for {batch.topic}-{batch.partition}")
                outcomes.lose(queue, batch, error, now_ms)
            elif found.error_code == ErrorCode.NONE:
                outcomes.acknowledge(queue, batch, found.base_offset, found.log_append_time_ms)
            else:
                is_stale = True
                self._refused(queue, batch, found, endpoints, now_ms)
        if is_stale:
            self._client.request_refresh()

    def _refused(
        self,
        queue: PartitionQueue,
        batch: ProducerBatch,
        answer: PartitionProduceResponse,
        endpoints: list[Node],
        now_ms: int,
    ) -> None:
        # KIP-951: the broker may tell who leads now, sooner than metadata do.
        hint = answer.current_leader
        knows_leader = hint.leader_id >= 0 and self._client.apply_leader_hint(
            batch.topic, batch.partition, hint.leader_id, hint.leader_epoch, endpoints
        )
        message = answer.error_message
        for record_error in answer.record_errors[:1]:
            detail = record_error.batch_index_error_message or "refused"
            message = f"{message or 'invalid'}: record {record_error.batch_index}: {detail}"
        self._outcomes.refuse(
            queue, batch, answer.error_code, message, now_ms, knows_leader=knows_leader
        )

    def _help(self, key: object, work: Any) -> None:
        """Run something that waits, once at a time per key, and take a turn when it is done."""
        if key in self._helpers or self._is_closed:
            return
        task = asyncio.get_running_loop().create_task(work())
        self._helpers[key] = task

        def done(finished: asyncio.Task[None]) -> None:
            del self._helpers[key]
            if not finished.cancelled() and finished.exception() is not None:
                _log.error("the producer's %s failed", key, exc_info=finished.exception())
            self._work.set()

        task.add_done_callback(done)

    async def _connect(self, node_id: int) -> None:
        """Wait until the node takes requests."""
        try:
            await self._client.ready(node_id, timeout_ms=self._request_timeout_ms)
        except RetriableError:
            self._client.request_refresh()
            await asyncio.sleep(self._client.backoff_ms(0) / 1000)
        except BarnabasError as error:
            self._fail_node(node_id, error)

    def _fail_node(self, node_id: int, error: BarnabasError) -> None:
        """Fail what waits for a broker that will never take it (credentials, versions)."""
        for queue, batch in self._accumulator.waiting():
            if queue.leader_id == node_id:
                self._outcomes.abandon(queue, batch, error)

    async def _acquire(self) -> None:
        assert self._identity is not None
        try:
            await self._identity.acquire()
        except RetriableError:
            await asyncio.sleep(self._client.backoff_ms(0) / 1000)
        except BarnabasError as error:
            for queue, batch in self._accumulator.waiting():
                self._outcomes.abandon(queue, batch, error)
