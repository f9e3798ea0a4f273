"""Fetches and acknowledges records: one request in flight per leader, while there is work for it.

A thin shell around pure parts: the session with each leader (`share_session.py`), what waits for
its next request (`pending_acknowledgements.py`), one partition's records (`acquired_fetch.py`). Not
here: waiting for records (`share_consumer.py`).

Source: KIP-932, KIP-951 (new leaders named in responses); SHR-41.
Invariants: records are fetched only while the program waits for some and none is here, since locks
run from the response on; acknowledgements ride on that fetch, or go alone when no fetch is to be
sent, for partitions that are not assigned any more, and for renewals. Acknowledgements of a lost
session, or whose locks have run out, are not sent: they would take those of the same partition
with them. What is dropped undelivered while its locks hold is released.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from barnabas_client.cluster.metadata import Node
from barnabas_client.config.share_consumer_settings import ShareConsumerSettings
from barnabas_client.consumer.deserialization import RecordDeserializer
from barnabas_client.errors import (
    BarnabasError,
    ClientBrokenError,
    MembershipLostError,
    RetriableError,
    TimedOutError,
    UnsupportedError,
    error_for,
    known_code,
)
from barnabas_client.network.client import Client
from barnabas_client.share.acquired_fetch import AcquiredFetch
from barnabas_client.share.acquisition import Acquisition, TopicIdPartition
from barnabas_client.share.pending_acknowledgements import (
    PartitionAcknowledgements,
    PendingAcknowledgements,
)
from barnabas_client.share.records import (
    AcknowledgedRange,
    AcknowledgementResult,
    AcknowledgeType,
    ShareRecord,
)
from barnabas_client.share.share_session import ShareFetchLimits, ShareSession
from barnabas_protocol.api import ApiKey
from barnabas_protocol.errors import ErrorCode, ParseError
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.messages import share_acknowledge, share_fetch

_log = logging.getLogger(__name__)

_MODES: Final = {"batch_optimized": 0, "record_limit": 1}
# Version 2 has acquire modes and renewals.
_MODES_SINCE: Final = 2
# The state could not be written now: the lock still holds, so it is tried again.
_TRY_AGAIN: Final = frozenset(
    (
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    )
)


class _Leader:
    """One broker with its session, and what is to be sent to it."""

    __slots__ = ("attempt", "node_id", "pending", "retry_at_ms", "sent", "session", "task")

    def __init__(self, node_id: int, session: ShareSession) -> None:
        self.node_id = node_id
        self.session = session
        self.pending = PendingAcknowledgements()
        self.sent: Sequence[PartitionAcknowledgements] = ()
        self.task: asyncio.Task[None] | None = None
        self.attempt = 0
        self.retry_at_ms = 0

    def holds(self, acquisition: Acquisition) -> bool:
        """Whether its session is the one that acquired."""
        return acquisition.session_number == self.session.number


class ShareFetcher:
    """The sessions of one share consumer, and the records that were not delivered yet."""

    def __init__(
        self,
        client: Client,
        settings: ShareConsumerSettings,
        member_id: str,
        *,
        on_change: Callable[[], None],
        on_result: Callable[[AcknowledgementResult], None],
        on_renewed: Callable[[Acquisition, Sequence[AcknowledgedRange]], None],
    ) -> None:
        """`on_change` is called when there may be records, an error, or less to wait for."""
        self._client = client
        self._settings = settings
        self._member_id = member_id
        self._on_change = on_change
        self._on_result = on_result
        self._on_renewed = on_renewed
        self._clock = client.environment.clock
        self._deserializer = RecordDeserializer(
            settings.key_deserializer, settings.value_deserializer
        )
        self._leaders: dict[int, _Leader] = {}
        self._assigned: Mapping[TopicIdPartition, TopicPartition] = {}
        self._buffer: deque[AcquiredFetch] = deque()
        self._error: BarnabasError | None = None
        # The program waits for records.
        self._is_wanting = False
        self._is_closing = False
        self._retry_timer: asyncio.TimerHandle | None = None

    # ---- what the consumer calls -----------------------------------------------------------

    def assign(self, partitions: Mapping[TopicIdPartition, TopicPartition]) -> None:
        """Fetch from these partitions; release what is here of others."""
        self._assigned = partitions
        kept: deque[AcquiredFetch] = deque()
        for fetch in self._buffer:
            if fetch.acquisition.topic_id_partition in partitions:
                kept.append(fetch)
            else:
                self._drop(fetch)
        self._buffer = kept
        self.send()

    def want_records(self, *, is_wanting: bool) -> None:
        """The program waits for records, or it does so no longer."""
        self._is_wanting = is_wanting
        if is_wanting:
            self.send()

    def take(self, count_max: int) -> list[tuple[Acquisition, list[ShareRecord]]]:
        """Up to `count_max` records by acquisition; none whose lock may have run out.

        Raises: the error behind the last record of a partition; errors of fetching.
        """
        taken: list[tuple[Acquisition, list[ShareRecord]]] = []
        count = 0
        while self._buffer and count < count_max and self._error is None:
            fetch = self._buffer[0]
            if not self._is_held(fetch.acquisition):
                self._buffer.popleft()
                self._drop(fetch)
                continue
            records: list[ShareRecord] = []
            try:
                records = fetch.read(count_max - count)
            except BarnabasError as unreadable:
                self._error = unreadable
            self._settle(fetch)
            if fetch.is_done:
                self._buffer.popleft()
            if records:
                taken.append((fetch.acquisition, records))
                count += len(records)
        if not taken and self._error is not None:
            error, self._error = self._error, None
            raise error
        return taken

    def acknowledge(self, acquisition: Acquisition, ranges: Iterable[AcknowledgedRange]) -> None:
        """Have acknowledgements sent, by the next fetch or with `send`."""
        self._leader(acquisition.node_id).pending.add(acquisition, ranges)

    def send(self) -> None:
        """Send what is to be sent, to every leader that has no request of ours in flight."""
        if self._client.has_ended:
            return
        now_ms = self._clock.monotonic_ms()
        if self._is_wanting and not self._is_closing:
            for node_id in self._wanted_by_leader():
                self._leader(node_id)
        for leader in self._leaders.values():
            if leader.task is not None or not self._has_work(leader):
                continue
            if now_ms < leader.retry_at_ms:
                self._retry_at(leader.retry_at_ms)
                continue
            leader.task = asyncio.create_task(
                self._exchange(leader), name=f"share-{leader.node_id}"
            )

    def unsettled(self) -> set[TopicPartition]:
        """The partitions with acknowledgements that have no result yet."""
        found = {one.topic_partition for leader in self._leaders.values() for one in leader.sent}
        for leader in self._leaders.values():
            found |= leader.pending.topic_partitions()
        return found

    async def close(self, timeout_ms: int) -> None:
        """Send the last acknowledgements, and let the brokers release every lock."""
        self._is_closing, self._is_wanting = True, False
        if self._retry_timer is not None:
            self._retry_timer.cancel()
        self._buffer.clear()
        for leader in self._leaders.values():
            # It waits for a connection: nothing is to be sent there any more.
            is_idle = not (leader.session.is_open or leader.pending or leader.sent)
            if leader.task is not None and is_idle:
                leader.task.cancel()
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                while tasks := [one.task for one in self._leaders.values() if one.task is not None]:
                    await asyncio.wait(tasks)
                await asyncio.gather(*map(self._finish, self._leaders.values()))
        except TimeoutError:
            _log.info("group %s: no time to end the share sessions", self._settings.group_id)
        finally:
            await self._stop()

    # ---- one leader ------------------------------------------------------------------------

    async def _exchange(self, leader: _Leader) -> None:
        """Send requests while there is something to send and nothing fails."""
        try:
            while self._has_work(leader):
                await self._client.ready(leader.node_id)
                if not await self._send_one(leader):
                    break
        except BarnabasError as error:
            self._fail(leader, error)
        except Exception as error:
            broken = ClientBrokenError(
                f"a response of broker {leader.node_id} made no sense: {error!r}"
            )
            broken.__cause__ = error
            self._fail(leader, broken)
        finally:
            leader.task = None
        self.send()
        self._on_change()

    async def _send_one(self, leader: _Leader) -> bool:
        """Send the next request and take its response; False if the leader is to be left alone."""
        self._fail_hopeless(leader)
        wanted = self._wanted_by_leader().get(leader.node_id, ())
        alone = self._take(leader, lambda key, is_renewal: is_renewal or key not in wanted)
        is_fetch = self._is_fetch_due(wanted)
        if alone or not is_fetch:
            rest = [] if is_fetch else self._take(leader, lambda key, is_renewal: True)
            if not alone and not rest:
                return False
            return await self._acknowledge(leader, [*alone, *rest])
        is_open = leader.session.is_open
        riding = self._take(leader, lambda key, is_renewal: True) if is_open else []
        return await self._fetch(leader, wanted, riding)

    async def _fetch(
        self,
        leader: _Leader,
        wanted: Sequence[TopicIdPartition],
        riding: Sequence[PartitionAcknowledgements],
    ) -> bool:
        leader.sent = riding
        version = await self._client.version(leader.node_id, ApiKey.SHARE_FETCH)
        mode = _MODES[self._settings.share_acquire_mode]
        if mode and version < _MODES_SINCE:
            raise UnsupportedError(
                f"broker {leader.node_id} does not know"
                f" share_acquire_mode={self._settings.share_acquire_mode}"
            )
        limits = ShareFetchLimits(
            max_wait_ms=self._settings.fetch_max_wait_ms,
            min_bytes=self._settings.fetch_min_bytes,
            max_bytes=self._settings.fetch_max_bytes,
            max_records=self._settings.max_poll_records,
            acquire_mode=mode,
        )
        request = leader.session.build_fetch(wanted, riding, limits)
        sent_at_ms = self._clock.monotonic_ms()
        response = await self._client.request(leader.node_id, request, version=version)
        if not self._take_session(leader, response):
            return False
        lock_ms = response.acquisition_lock_timeout_ms
        endpoints = _nodes(response.node_endpoints)
        by_key = {one.topic_id_partition: one for one in riding}
        is_well = True
        for topic in response.responses:
            for data in topic.partitions:
                key = TopicIdPartition(topic.topic_id, data.partition_index)
                sent = by_key.pop(key, None)
                if sent is not None:
                    self._on_acknowledged(
                        leader, sent, data.acknowledge_error_code, data.acknowledge_error_message
                    )
                is_well &= self._take_data(leader, key, data, endpoints, lock_ms, sent_at_ms)
        # A broker leaves out a partition that has neither records nor an error.
        for sent in by_key.values():
            self._on_acknowledged(leader, sent, ErrorCode.NONE, None)
        leader.sent = ()
        self._on_change()
        return is_well or self._wait(leader)

    async def _acknowledge(
        self,
        leader: _Leader,
        acknowledgements: Sequence[PartitionAcknowledgements],
        *,
        is_final: bool = False,
    ) -> bool:
        leader.sent = acknowledgements
        version = await self._client.version(leader.node_id, ApiKey.SHARE_ACKNOWLEDGE)
        if version < _MODES_SINCE and any(one.is_renewal for one in acknowledgements):
            old = UnsupportedError(f"broker {leader.node_id} does not renew locks of records")
            for one in acknowledgements:
                if one.is_renewal:
                    self._report(one, old)
            acknowledgements = [one for one in acknowledgements if not one.is_renewal]
            leader.sent = acknowledgements
            if not acknowledgements and not is_final:
                return True
        request = leader.session.build_acknowledge(acknowledgements, is_final=is_final)
        sent_at_ms = self._clock.monotonic_ms()
        response: share_acknowledge.ShareAcknowledgeResponse = await self._client.request(
            leader.node_id, request, version=version
        )
        if not self._take_session(leader, response):
            return False
        endpoints = _nodes(response.node_endpoints)
        by_key = {one.topic_id_partition: one for one in acknowledgements}
        is_well = True
        for topic in response.responses:
            for data in topic.partitions:
                sent = by_key.pop(TopicIdPartition(topic.topic_id, data.partition_index), None)
                if sent is None:
                    continue
                self._take_leader(sent.topic_partition, data, endpoints)
                is_well &= self._on_acknowledged(leader, sent, data.error_code, data.error_message)
                if sent.is_renewal and data.error_code == ErrorCode.NONE:
                    self._renew(sent, response.acquisition_lock_timeout_ms, sent_at_ms)
        for sent in by_key.values():
            self._on_acknowledged(leader, sent, ErrorCode.UNKNOWN_SERVER_ERROR, "no answer")
        leader.sent = ()
        self._on_change()
        return is_well or self._wait(leader)

    async def _finish(self, leader: _Leader) -> None:
        """End the session, with the acknowledgements that are left."""
        self._fail_hopeless(leader)
        if not leader.session.is_open:
            return
        left = self._take(leader, lambda key, is_renewal: not is_renewal)
        try:
            await self._acknowledge(leader, left, is_final=True)
        except BarnabasError as error:
            self._fail(leader, error)

    async def _stop(self) -> None:
        tasks = [one.task for one in self._leaders.values() if one.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for leader in self._leaders.values():
            leader.session.reset()
            late = TimedOutError("the consumer was closed before the acknowledgement was answered")
            for one in [*leader.sent, *leader.pending.take(lambda *_: True)]:
                self._report(one, late)
            leader.sent = ()
        self._leaders.clear()

    # ---- responses -------------------------------------------------------------------------

    def _take_session(self, leader: _Leader, response: Any) -> bool:
        """Take the error of the whole response; False if there is one."""
        if response.error_code == ErrorCode.NONE:
            leader.session.on_success()
            leader.attempt = 0
            return True
        text = response.error_message or "the broker refused the request"
        self._fail(leader, error_for(response.error_code, f"share session: {text}"))
        return False

    def _take_data(
        self,
        leader: _Leader,
        key: TopicIdPartition,
        data: share_fetch.PartitionData,
        endpoints: Sequence[Node],
        lock_ms: int,
        sent_at_ms: int,
    ) -> bool:
        """Take one partition's records; False if it is to be fetched from only after a pause."""
        partition = self._assigned.get(key)
        if data.error_code != ErrorCode.NONE:
            return partition is None or self._take_error(partition, data, endpoints)
        if not data.acquired_records:
            return True
        if partition is None:
            name = self._client.cluster.topic_names.get(key.topic_id, "")
            partition = TopicPartition(name, key.partition)
        acquisition = Acquisition(
            partition,
            key,
            node_id=leader.node_id,
            session_number=leader.session.number,
            lock_ms=lock_ms,
            sent_at_ms=sent_at_ms,
            received_at_ms=self._clock.monotonic_ms(),
        )
        records = data.records
        assert not isinstance(records, list), "a response that was read has its records in one"
        try:
            fetch = AcquiredFetch(
                acquisition,
                records or b"",
                data.acquired_records,
                self._deserializer,
                check_crcs=self._settings.check_crcs,
            )
        except ParseError as error:
            self._error = ClientBrokenError(f"{partition}: broker {leader.node_id}: {error}")
            return False
        if key in self._assigned:
            self._buffer.append(fetch)
        else:
            self._drop(fetch)
        return True

    def _take_error(
        self,
        partition: TopicPartition,
        data: share_fetch.PartitionData,
        endpoints: Sequence[Node],
    ) -> bool:
        """Take the error of fetching one partition; True if there is a newer leader."""
        if self._take_leader(partition, data, endpoints):
            return True
        text = data.error_message or known_code(data.error_code).name
        error = error_for(data.error_code, f"fetching {partition}: {text}")
        _log.debug("%s", error)
        if isinstance(error, RetriableError) or data.error_code == ErrorCode.UNKNOWN_SERVER_ERROR:
            self._client.request_refresh()
        else:
            self._error = error
        return False

    def _take_leader(
        self,
        partition: TopicPartition,
        data: share_fetch.PartitionData | share_acknowledge.PartitionData,
        endpoints: Sequence[Node],
    ) -> bool:
        """Take over the leader that a response names; whether it is a newer one."""
        leader = data.current_leader
        return leader.leader_id >= 0 and self._client.apply_leader_hint(
            *partition, leader.leader_id, leader.leader_epoch, endpoints
        )

    def _on_acknowledged(
        self, leader: _Leader, sent: PartitionAcknowledgements, code: int, message: str | None
    ) -> bool:
        """Take the result of one partition; False if it is to be sent again after a pause."""
        if code in _TRY_AGAIN:
            leader.pending.restore(sent)
            return False
        error = None
        if code != ErrorCode.NONE:
            text = message or known_code(code).name
            error = error_for(code, f"acknowledging records of {sent.topic_partition}: {text}")
            if isinstance(error, RetriableError):
                self._client.request_refresh()
        self._report(sent, error)
        return True

    def _renew(self, sent: PartitionAcknowledgements, lock_ms: int, sent_at_ms: int) -> None:
        now_ms = self._clock.monotonic_ms()
        for acquisition, ranges in sent.by_acquisition:
            self._on_renewed(acquisition.renewed(lock_ms, sent_at_ms, now_ms), ranges)

    def _report(self, sent: PartitionAcknowledgements, error: BarnabasError | None) -> None:
        if error is not None:
            _log.info("acknowledgements of %s failed: %s", sent.topic_partition, error)
        self._on_result(
            AcknowledgementResult(
                topic_partition=sent.topic_partition, ranges=sent.ranges, error=error
            )
        )

    # ---- failures --------------------------------------------------------------------------

    def _fail(self, leader: _Leader, error: BarnabasError) -> None:
        """A request failed: the session is lost, and with it all that it acquired."""
        leader.session.reset()
        sent, leader.sent = leader.sent, ()
        for one in sent:
            self._report(one, error)
        self._fail_hopeless(leader)
        if isinstance(error, RetriableError):
            self._client.request_refresh()
        elif not self._is_closing:
            self._error = error
        self._wait(leader)
        self._on_change()

    def _fail_hopeless(self, leader: _Leader) -> None:
        """Give up acknowledgements of locks that are lost or have run out."""
        now_ms = self._clock.monotonic_ms()
        hopeless = leader.pending.take(
            lambda acquisition, _: (
                not leader.holds(acquisition) or not acquisition.is_acknowledgeable(now_ms)
            )
        )
        for one in hopeless:
            is_lost = not all(leader.holds(acquisition) for acquisition, _ in one.by_acquisition)
            why = "the share session was lost" if is_lost else "their locks have run out"
            text = f"acknowledging records of {one.topic_partition}: {why}"
            self._report(one, MembershipLostError(text, ErrorCode.INVALID_RECORD_STATE))

    def _wait(self, leader: _Leader) -> bool:
        """Leave the leader alone for a while."""
        leader.retry_at_ms = self._clock.monotonic_ms() + self._client.backoff_ms(leader.attempt)
        leader.attempt += 1
        return False

    def _retry_at(self, at_ms: int) -> None:
        """Send again then; one timer serves all leaders."""
        if self._retry_timer is not None or self._is_closing:
            return
        delay_ms = max(0, at_ms - self._clock.monotonic_ms())
        loop = asyncio.get_running_loop()
        self._retry_timer = loop.call_later(delay_ms / 1000, self._retry)

    def _retry(self) -> None:
        self._retry_timer = None
        self.send()

    # ---- inside ----------------------------------------------------------------------------

    def _leader(self, node_id: int) -> _Leader:
        leader = self._leaders.get(node_id)
        if leader is None:
            session = ShareSession(self._settings.group_id, self._member_id)
            leader = self._leaders[node_id] = _Leader(node_id, session)
        return leader

    def _has_work(self, leader: _Leader) -> bool:
        if leader.pending:
            return True
        return self._is_fetch_due(self._wanted_by_leader().get(leader.node_id, ()))

    def _is_fetch_due(self, wanted: Sequence[TopicIdPartition]) -> bool:
        """Whether the program waits, and these partitions may have something for it."""
        is_hungry = self._is_wanting and not self._is_closing and self._error is None
        return is_hungry and not self._buffer and bool(wanted)

    def _wanted_by_leader(self) -> dict[int, list[TopicIdPartition]]:
        """The assigned partitions by the leader that metadata names."""
        found: dict[int, list[TopicIdPartition]] = {}
        cluster = self._client.cluster
        for key, partition in self._assigned.items():
            leader = cluster.leader(*partition)
            if leader is None:
                self._client.request_refresh()
                continue
            found.setdefault(leader.node_id, []).append(key)
        return found

    def _take(
        self, leader: _Leader, condition: Callable[[TopicIdPartition, bool], bool]
    ) -> list[PartitionAcknowledgements]:
        """Take what waits for the leader and fulfils the condition on partition and renewal."""
        return leader.pending.take(
            lambda acquisition, ranges: condition(
                acquisition.topic_id_partition,
                any(one.acknowledge_type == AcknowledgeType.RENEW for one in ranges),
            )
        )

    def _is_held(self, acquisition: Acquisition) -> bool:
        """Whether the locks certainly are this member's."""
        leader = self._leaders.get(acquisition.node_id)
        is_held = leader is not None and leader.holds(acquisition)
        return is_held and acquisition.is_deliverable(self._clock.monotonic_ms())

    def _drop(self, fetch: AcquiredFetch) -> None:
        """Release what was not delivered, if its locks are still this member's."""
        rest = fetch.release_rest()
        if self._is_held(fetch.acquisition):
            self.acknowledge(fetch.acquisition, rest)
        elif rest:
            _log.info(
                "records of %s are dropped: their locks are lost",
                fetch.acquisition.topic_partition,
            )

    def _settle(self, fetch: AcquiredFetch) -> None:
        """Acknowledge gaps and what could not be read."""
        self.acknowledge(fetch.acquisition, fetch.take_settled())


def _nodes(
    endpoints: Iterable[share_fetch.NodeEndpoint | share_acknowledge.NodeEndpoint],
) -> list[Node]:
    return [
        Node(node_id=one.node_id, host=one.host, port=one.port, rack=one.rack) for one in endpoints
    ]
