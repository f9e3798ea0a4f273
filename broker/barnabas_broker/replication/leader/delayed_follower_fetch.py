"""Fetch requests of followers: read what is new to their sessions, or wait for any partition.

The session knows what is new (`follower_session.py`), reading is `delayed_fetch.py`'s. Source:
KIP-227, REP-3, REP-10, REQ-5 to REQ-9; KIP-73 for throttles.
Invariants: a waiting fetch is one entry in the purgatory, whatever the number of its partitions; a
fetch that has nothing to send but newer offsets waits, as they can wait, too.

A response costs both brokers about as much as the records in it. So records gather as long as each
look at the sockets brings more of them, a few times at most: a loop with much to do responds to
followers last. Nothing waits for time: where the first look brings nothing, the response goes.
"""

from __future__ import annotations

import asyncio

from barnabas_broker.purgatory.purgatory import DelayedOperation
from barnabas_broker.replication.leader.delayed_fetch import (
    Done,
    FetchParameters,
    PartitionData,
    PartitionReader,
    Spawn,
)
from barnabas_broker.replication.leader.follower_session import (
    FetchSessionPartition,
    FollowerSession,
    FollowerSessions,
)
from barnabas_broker.replication.throttle import ReplicationThrottle
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.fetch_metadata import NO_SESSION_ID

# More would not make responses much larger: producers have few requests in flight at a time.
GATHER_LOOKS_MAX = 4


class DelayedFollowerFetch(DelayedOperation):
    """One fetch of a follower between its first look and its response."""

    __slots__ = (
        "_done",
        "_fetches",
        "_has_grown",
        "_is_gathering",
        "_looks_left",
        "_parameters",
        "_reader",
        "_session",
    )

    def __init__(
        self,
        session: FollowerSession,
        parameters: FetchParameters,
        fetches: FollowerFetches,
        done: Done,
    ) -> None:
        super().__init__(parameters.max_wait_ms)
        self._parameters = parameters
        self._reader = PartitionReader(parameters, fetches.sessions.find_counted)
        self._session = session
        self._fetches = fetches
        self._done = done
        self._has_grown = False  # since the last look
        self._is_gathering = False
        self._looks_left = GATHER_LOOKS_MAX

    def is_satisfied(self) -> bool:
        """Whether there is enough to send, or an error or a diverging epoch (REQ-5)."""
        parameters, session = self._parameters, self._session
        if parameters.max_wait_ms <= 0 or parameters.min_bytes <= 0 or not session.followed:
            return True
        if session.is_urgent:
            return True
        if not session.ready:
            return False
        if parameters.min_bytes == 1 and not self._fetches.is_throttling:
            return self._has_gathered()
        readable = 0
        for followed in session.ready:
            size = self._readable(followed)
            if size is None:
                return True
            readable += size
            if readable >= parameters.min_bytes:
                return True
        return False

    def try_complete(self) -> bool:
        """Complete if it is satisfied."""
        return self.is_satisfied() and self.force_complete()

    def _has_gathered(self) -> bool:
        """Whether what is ready goes now; if not, it soon does by itself."""
        if not self._looks_left:
            return True
        self._has_grown = True
        if not self._is_gathering:
            self._is_gathering = True
            asyncio.get_running_loop().call_soon(self._look)
        return False

    def _look(self) -> None:
        """Go on gathering after the next look at the sockets, or end it."""
        if self.is_completed:
            return
        if self._has_grown and self._looks_left > 1:
            self._has_grown = False
            self._looks_left -= 1
            asyncio.get_running_loop().call_soon(self._look)
        else:
            self._looks_left = 0
            self._fetches.sessions.purgatory.check_and_complete(self._session)

    def _readable(self, followed: FetchSessionPartition) -> int | None:
        """The bytes that can be sent of a partition; None if something else is to be sent."""
        partition = followed.partition
        if partition is None or followed.refusal is not None or not partition.is_leader:
            return None
        log = partition.log
        if not log.log_start_offset <= followed.fetch_offset < log.log_end_offset:
            return None
        if not self._fetches.allows(self._session, followed):
            return 0
        return min(log.size_between(followed.fetch_offset, log.log_end_offset), followed.max_bytes)

    def cancel(self) -> None:
        """End without a response: the connection is gone."""
        super().cancel()
        if self._session.id == NO_SESSION_ID:
            self._session.close()

    def give_way(self) -> None:
        """Respond with nothing: a later fetch of the session, whose response waits for it, has all.

        A follower sends one when there are partitions that must not wait for a parked fetch.
        """
        if not self.is_completed:
            self.cancel()
            self._done([])

    def on_expire(self) -> None:
        """Respond also for what our metadata still does not know."""
        self._session.stop_waiting()

    def on_complete(self) -> None:
        """Read as much as fits, add the partitions with newer offsets, and respond."""
        session = self._session
        results: list[PartitionData] = []
        left = self._parameters.max_bytes
        throttled = self._fetches.is_throttling
        if self._parameters.max_wait_ms <= 0:
            session.stop_waiting()
        ready = list(session.ready)
        for index, followed in enumerate(ready):
            if left <= 0:
                break
            if throttled and not self._fetches.allows(session, followed):
                continue
            is_first = left == self._parameters.max_bytes
            data = self._reader.read_nowait(followed, left, is_first=is_first)
            if data is None:
                self._fetches.spawn(self._read_rest(results, ready[index:], left))
                return
            left -= data.size_bytes
            results.append(data)
        self._respond(results)

    async def _read_rest(
        self, results: list[PartitionData], rest: list[FetchSessionPartition], left: int
    ) -> None:
        for followed in rest:
            if left <= 0:
                break
            if not self._fetches.allows(self._session, followed):
                continue
            is_first = left == self._parameters.max_bytes
            data = await self._reader.read(followed, left, is_first=is_first)
            left -= data.size_bytes
            results.append(data)
        self._respond(results)

    def _respond(self, results: list[PartitionData]) -> None:
        session = self._session
        session.is_urgent = False
        for followed in list(session.changed_offsets):
            data = self._reader.read_nowait(followed, 0, is_first=False)
            if data is not None:
                results.append(data)
        for data in results:
            partition = data.request
            assert isinstance(partition, FetchSessionPartition)
            followed = partition
            followed.sent_high_watermark = data.high_watermark
            followed.sent_log_start_offset = data.log_start_offset
            self._fetches.sent(session, followed, data.size_bytes)
            session.sent(
                followed,
                is_error=data.error != ErrorCode.NONE,
                has_records=data.size_bytes > 0,
            )
        if session.id == NO_SESSION_ID:
            session.close()
        self._done(results)


class FollowerFetches:
    """The fetches of followers, and the limits to what they get."""

    def __init__(self, sessions: FollowerSessions, spawn: Spawn) -> None:
        self.sessions = sessions
        self.spawn = spawn
        self.throttle: ReplicationThrottle | None = None

    def fetch(
        self, session: FollowerSession, parameters: FetchParameters, done: Done
    ) -> DelayedFollowerFetch:
        """Serve a follower, at once or when there is enough.

        `done` gets what is new to it: partitions with records, errors or newer offsets.
        """
        if session.parked is not None:
            session.parked.give_way()
        fetching = session.parked = DelayedFollowerFetch(session, parameters, self, done)
        if not fetching.try_complete():
            self.sessions.purgatory.watch(fetching, (session,))
        return fetching

    @property
    def is_throttling(self) -> bool:
        """Whether there is a limit to what is sent to replicas that catch up."""
        return self.throttle is not None and self.throttle.leader.is_limited

    def allows(self, session: FollowerSession, followed: FetchSessionPartition) -> bool:
        """Whether records of a partition may be sent to the session's follower now."""
        throttle, partition = self.throttle, followed.partition
        if throttle is None or partition is None or not throttle.leader.is_limited:
            return True
        return throttle.leader_allows(
            partition.topic_partition,
            partition.log.config.leader_replication_throttled_replicas,
            session.node_id,
            is_in_sync=session.node_id in partition.image.isr,
        )

    def sent(
        self, session: FollowerSession, followed: FetchSessionPartition, size_bytes: int
    ) -> None:
        """Count what was sent."""
        if size_bytes and self.throttle is not None and followed.partition is not None:
            self.throttle.leader_sent(
                followed.partition.topic_partition,
                followed.partition.log.config.leader_replication_throttled_replicas,
                session.node_id,
                size_bytes,
            )
