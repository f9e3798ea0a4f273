"""Fetches the partitions that one leader leads: one task, one fetch session.

Long polls in a fetch session, so that thousands of idle partitions cost one small request twice a
second. A partition that joins while a poll is parked is not kept waiting: a second request of the
same session is sent after it. Not here: requests (`fetch_plan.py`), what to do with a response
(`follower_append.py`).

Source: REP-9 to REP-12, KIP-227. Invariants: at most two requests are in flight; responses are
taken in the order of their requests; a leader that cannot be reached is tried again after a pause
that grows, or at once when its metadata changes.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Protocol

from barnabas_broker.env.clock import Clock
from barnabas_broker.network.peers import PeerUnreachableError
from barnabas_broker.replication.follower.fetch_plan import (
    FetchPlan,
    FetchSettings,
    NumberedRequest,
    PartitionFetchState,
    Progress,
)
from barnabas_broker.replication.follower.follower_append import FollowerAppend, Step
from barnabas_protocol.backoff import ExponentialBackoff
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.messages import fetch, list_offsets

logger = logging.getLogger(__name__)

FETCH_VERSION = 17
LIST_OFFSETS_VERSION = 8
_EARLIEST = -2
_LATEST = -1
_REQUESTS_MAX = 2
_UNREACHABLE_BACKOFF_MS = 50
_FOREVER_MS = 3_600_000


class PeerRequests(Protocol):
    """Sends requests to other brokers, as `network.peers.Peers` does."""

    def request(
        self, node_id: int, message: Any, version: int, *, channel: str, timeout_ms: int
    ) -> Awaitable[Any]:
        """Send a request at once; awaited, it gives the response or raises PeerUnreachableError."""
        ...


class FollowerThrottle(Protocol):
    """Holds back replicas that catch up."""

    def waits_ms(self, followed: PartitionFetchState) -> int:
        """How long not to fetch a partition; 0: fetch it."""
        ...

    def fetched(self, followed: PartitionFetchState, size_bytes: int) -> None:
        """Count what came."""
        ...


class ReplicaFetcher:
    """Follows some partitions of one leader."""

    def __init__(
        self,
        leader_id: int,
        number: int,
        peers: PeerRequests,
        clock: Clock,
        settings: FetchSettings,
        target: FollowerAppend,
        throttle: FollowerThrottle,
        *,
        node_id: int,
        broker_epoch: Callable[[], int],
    ) -> None:
        self.leader_id = leader_id
        self.channel = f"fetch-{number}"
        self.plan = FetchPlan(settings, node_id, self._waits_ms)
        self._node_id = node_id
        self._broker_epoch = broker_epoch
        self._peers = peers
        self._clock = clock
        self._settings = settings
        self._target = target
        self._throttle = throttle
        self._has_work = asyncio.Event()
        self._in_flight: deque[tuple[int, asyncio.Future[Any]]] = deque()
        self._lost_count = 0
        self._refused_count = 0  # requests that were refused as a whole, one after the other
        self._is_following_up = False
        self._task: asyncio.Task[None] | None = None
        self._settling: asyncio.Task[list[TopicPartition]] | None = None
        self.request_count = 0

    # Partitions.

    def follow(self, followed: Iterable[PartitionFetchState]) -> None:
        """Follow partitions from where their logs end, in place of what was followed of them."""
        for item in followed:
            step = self._target.start(item)
            self.plan.follow(item)
            if step is not Step.GO_ON:
                self.plan.park(item)
            else:
                self._hold_back(item)
        self.hurry()
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    def unfollow(self, topic_partition: TopicPartition) -> None:
        """Follow a partition no more; what is in flight for it is not used."""
        self.plan.unfollow(topic_partition)

    def hurry(self) -> None:
        """Send a request soon: there are new partitions, or newer metadata of the leader."""
        self._has_work.set()
        if self._in_flight and not self._is_following_up:
            # Many partitions come in one turn: they go into one request.
            self._is_following_up = True
            asyncio.get_running_loop().call_soon(self._follow_up)

    def _follow_up(self) -> None:
        """Send the leader new partitions while an earlier request is parked there."""
        self._is_following_up = False
        if (
            0 < len(self._in_flight) < _REQUESTS_MAX
            and self.plan.has_changes
            and self.plan.has_session
            and not self._target.is_unsettled
        ):
            numbered = self.plan.next_request(self._clock.monotonic_ms(), self._broker_epoch())
            if numbered is not None:
                self._send(numbered)

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to follow."""
        return not self.plan.followed

    async def close(self) -> None:
        """End; nothing is appended after, and what was cut is safely so."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        self._drop_requests()
        await self._settle()

    # The task.

    async def _run(self) -> None:
        while True:
            try:
                await self._round()
            except PeerUnreachableError as error:
                self._lost(error)
                await self._pause(self._lost_backoff_ms())
            except Exception:
                logger.exception("fetching from broker %d failed", self.leader_id)
                self._lost(None)
                await self._pause(self._settings.backoff_ms)

    async def _round(self) -> None:
        """Send a request and take all responses."""
        await self._settle()
        self._has_work.clear()
        numbered = self.plan.next_request(self._clock.monotonic_ms(), self._broker_epoch())
        if numbered is None:
            await self._pause(self.plan.idle_ms(self._clock.monotonic_ms(), _FOREVER_MS))
            return
        self._send(numbered)
        while self._in_flight:
            number, sent = self._in_flight[0]
            response = await sent
            self._in_flight.popleft()
            self._lost_count = 0
            await self._take(number, response)

    async def _settle(self) -> None:
        """Make safe what the next fetch relies on.

        Never broken off: what a thread writes for it would go on, and meet who writes next.
        """
        while self._settling is not None or self._target.is_unsettled:
            if self._settling is None:
                self._settling = asyncio.get_running_loop().create_task(self._target.settle())
            try:
                unflushed = await asyncio.shield(self._settling)
            finally:
                if self._settling is not None and self._settling.done():
                    self._settling = None
            for topic_partition in unflushed:
                followed = self.plan.followed.get(topic_partition)
                if followed is not None and followed.progress is Progress.FETCHING:
                    self.plan.delay(followed, self._clock.monotonic_ms())

    def _waits_ms(self, followed: PartitionFetchState) -> int:
        """How long not to fetch a partition; 0: fetch it."""
        if not self._target.is_flushed(followed):
            return self._settings.backoff_ms
        return self._throttle.waits_ms(followed)

    def _send(self, numbered: NumberedRequest) -> None:
        self.request_count += 1
        request = self._peers.request(
            self.leader_id,
            numbered.request,
            FETCH_VERSION,
            channel=self.channel,
            timeout_ms=numbered.request.max_wait_ms + self._settings.request_timeout_ms,
        )
        self._in_flight.append((numbered.number, asyncio.ensure_future(request)))

    async def _take(self, number: int, response: fetch.FetchResponse) -> None:
        responses = self.plan.take(number, response)
        if responses is None:
            logger.info(
                "broker %d refuses a fetch with error %d", self.leader_id, response.error_code
            )
            self._refused_count += 1
            if response.error_code not in _SESSION_ERRORS or self._refused_count > 1:
                await self._pause(self._settings.backoff_ms)
            return
        self._refused_count = 0
        looked_up: list[PartitionFetchState] = []
        for partition_response in responses:
            followed = partition_response.followed
            if self.plan.followed.get(followed.topic_partition) is not followed:
                continue
            before_bytes = self._target.bytes_in
            step = self._target.take(partition_response)
            if step is Step.GO_ON:
                self.plan.moved(followed)
            elif step is Step.LOOK_UP:
                looked_up.append(followed)
            else:
                self._next(followed, step)
            if self._target.bytes_in > before_bytes:
                self._throttle.fetched(followed, self._target.bytes_in - before_bytes)
            self._hold_back(followed)
        if looked_up:
            await self._look_up(looked_up)

    def _next(self, followed: PartitionFetchState, step: Step) -> None:
        """Apply a step to a partition."""
        plan, now_ms = self.plan, self._clock.monotonic_ms()
        if plan.followed.get(followed.topic_partition) is not followed:
            return
        match step:
            case Step.GO_ON:
                plan.moved(followed)
            case Step.RETRY_SOON:
                plan.delay(followed, now_ms, is_quick=True)
            case Step.RETRY_LATER | Step.LOOK_UP:
                plan.delay(followed, now_ms)
            case Step.PARK:
                plan.park(followed)
            case Step.FAIL:
                plan.park(followed, Progress.FAILED)

    def _hold_back(self, followed: PartitionFetchState) -> None:
        """Leave alone what the quota does not let through; what is in sync always passes."""
        if followed.progress is Progress.FETCHING and followed.lag:
            wait_ms = self._throttle.waits_ms(followed)
            if wait_ms:
                self.plan.delay_until(followed, self._clock.monotonic_ms() + wait_ms)

    # Out of range.

    async def _look_up(self, followed: list[PartitionFetchState]) -> None:
        """Look up where the leader's logs start and end, for offsets outside of them."""
        starts = await self._offsets(followed, _EARLIEST)
        ends = await self._offsets(followed, _LATEST)
        for item in followed:
            start_offset = starts.get(item.topic_partition)
            end_offset = ends.get(item.topic_partition)
            if self.plan.followed.get(item.topic_partition) is not item:
                continue
            if start_offset is None or end_offset is None:
                self._next(item, Step.RETRY_SOON)
            else:
                self._next(item, self._target.ranged(item, start_offset, end_offset))

    async def _offsets(
        self, followed: Iterable[PartitionFetchState], timestamp: int
    ) -> dict[TopicPartition, int]:
        topics: dict[str, list[list_offsets.ListOffsetsPartition]] = {}
        for item in followed:
            topic, partition = item.topic_partition
            topics.setdefault(topic, []).append(
                list_offsets.ListOffsetsPartition(
                    partition_index=partition,
                    current_leader_epoch=item.leader_epoch,
                    timestamp=timestamp,
                )
            )
        response = await self._peers.request(
            self.leader_id,
            list_offsets.ListOffsetsRequest(
                replica_id=self._node_id,
                topics=[
                    list_offsets.ListOffsetsTopic(name=name, partitions=partitions)
                    for name, partitions in topics.items()
                ],
            ),
            LIST_OFFSETS_VERSION,
            channel=self.channel,
            timeout_ms=self._settings.request_timeout_ms,
        )
        return {
            TopicPartition(topic.name, partition.partition_index): partition.offset
            for topic in response.topics
            for partition in topic.partitions
            if partition.error_code == ErrorCode.NONE and partition.offset >= 0
        }

    # Faults.

    def _lost(self, error: PeerUnreachableError | None) -> None:
        """Begin anew: nothing that is still in flight is used."""
        if error is not None and self._lost_count == 0:
            logger.info("fetching from broker %d pauses: %s", self.leader_id, error)
        self._lost_count += 1
        self._drop_requests()
        self.plan.lost()

    def _lost_backoff_ms(self) -> int:
        backoff = ExponentialBackoff(_UNREACHABLE_BACKOFF_MS, self._settings.backoff_ms)
        return backoff.wait_ms(self._lost_count - 1)

    def _drop_requests(self) -> None:
        while self._in_flight:
            sent = self._in_flight.popleft()[1]
            if not sent.done():
                sent.cancel()
            elif not sent.cancelled():
                sent.exception()  # retrieved, or asyncio would log it

    async def _pause(self, at_most_ms: int) -> None:
        """Wait until there is something to do, at most so long."""
        if at_most_ms <= 0:
            await asyncio.sleep(0)
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(at_most_ms / 1000):
                await self._has_work.wait()
        self._has_work.clear()


_SESSION_ERRORS = frozenset(
    (
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    )
)
