"""Fetches of followers: read what their sessions have to tell, or wait once for all partitions.

What is told of is the session's (`follower_session.py`), reading is `fetching.py`'s. Source:
KIP-227, REP-3, REP-10, REQ-5 to REQ-9 of the behaviour list; KIP-73 for throttles.
Invariants: a waiting fetch is one entry in the purgatory, whatever the number of its partitions; a
fetch that has nothing to send but newer offsets waits, as they can wait, too.

An answer costs both brokers about as much as the records in it. So records gather as long as each
look at the sockets brings more of them, a few times at most: a loop with much to do answers
followers last. Nothing waits for time: where the first look brings nothing, the answer goes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping

from barnabas_broker.purgatory.purgatory import Purgatory
from barnabas_broker.replication.fetch_session import NO_SESSION, FetchPartition, MakeSession
from barnabas_broker.replication.fetching import (
    Fetching,
    FetchParameters,
    FindPartition,
    PartitionData,
    Spawn,
)
from barnabas_broker.replication.follower_session import FollowedPartition, FollowerSession
from barnabas_broker.replication.follower_states import FindBroker, check_broker_epoch
from barnabas_broker.replication.partition import Partition
from barnabas_broker.replication.throttle import ReplicationThrottle
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.ids import ZERO_UUID, TopicPartition

# More would not make answers much larger: producers have few requests on their way at a time.
GATHER_LOOKS_MAX = 4

Done = Callable[[list[PartitionData]], None]
_PartitionKey = tuple[bytes, int]  # topic id and partition


class FollowerFetching(Fetching):
    """One fetch of a follower between its first look and its answer."""

    __slots__ = ("_fetches", "_has_grown", "_is_gathering", "_looks_left", "_session")

    def __init__(
        self,
        session: FollowerSession,
        parameters: FetchParameters,
        fetches: FollowerFetches,
        done: Done,
    ) -> None:
        super().__init__((), parameters, fetches.find_counted, fetches.spawn, done)
        self._session = session
        self._fetches = fetches
        self._has_grown = False  # since the last look
        self._is_gathering = False
        self._looks_left = GATHER_LOOKS_MAX

    def is_satisfied(self) -> bool:
        """Whether there is enough to send, or an error or another history to tell (REQ-5)."""
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
            self._fetches.purgatory.check_and_complete(self._session)

    def _readable(self, followed: FollowedPartition) -> int | None:
        """The bytes that can be sent of a partition; None if something else is to be told."""
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
        """End without an answer: the connection is gone."""
        super().cancel()
        if self._session.id == NO_SESSION:
            self._session.close()

    def give_way(self) -> None:
        """Answer with nothing: a later fetch of the session, whose answer waits for it, tells all.

        A follower sends one when there are partitions that must not wait for a parked fetch.
        """
        if not self.is_completed:
            self.cancel()
            self._done([])

    def on_expire(self) -> None:
        """Tell also what our metadata still does not know."""
        self._session.stop_waiting()

    def on_complete(self) -> None:
        """Read as much as fits, add the partitions with newer offsets, and answer."""
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
            data = self._read_nowait(followed, left, is_first=is_first)
            if data is None:
                self._spawn(self._read_rest(results, ready[index:], left))
                return
            left -= data.size_bytes
            results.append(data)
        self._answer(results)

    async def _read_rest(
        self, results: list[PartitionData], rest: list[FollowedPartition], left: int
    ) -> None:
        for followed in rest:
            if left <= 0:
                break
            if not self._fetches.allows(self._session, followed):
                continue
            is_first = left == self._parameters.max_bytes
            data = self._read_nowait(followed, left, is_first=is_first)
            if data is None:
                data = await self._read_cold(followed, left, is_first=is_first)
            left -= data.size_bytes
            results.append(data)
        self._answer(results)

    def _answer(self, results: list[PartitionData]) -> None:
        session = self._session
        session.is_urgent = False
        for followed in list(session.news):
            data = self._read_nowait(followed, 0, is_first=False)
            if data is not None:
                results.append(data)
        for data in results:
            told = data.request
            assert isinstance(told, FollowedPartition)
            followed = told
            followed.sent_high_watermark = data.high_watermark
            followed.sent_log_start_offset = data.log_start_offset
            self._fetches.sent(session, followed, data.size_bytes)
            session.told(
                followed,
                is_error=data.error != ErrorCode.NONE,
                has_records=data.size_bytes > 0,
            )
        if session.id == NO_SESSION:
            session.close()
        self._done(results)


class FollowerFetches:
    """All that followers fetch of this broker. `after` runs a callback at the end of the turn."""

    def __init__(
        self,
        *,
        partitions: Mapping[TopicPartition, Partition],
        find: FindPartition,
        purgatory: Purgatory,
        after: Callable[[Callable[[], None]], None],
        spawn: Spawn,
        find_broker: FindBroker,
    ) -> None:
        self._partitions = partitions
        self._find_broker = find_broker
        self._sessions: dict[int, dict[FollowerSession, None]] = {}  # by the follower's node
        self.find = find
        self.purgatory = purgatory
        self.after = after
        self.spawn = spawn
        self.throttle: ReplicationThrottle | None = None
        self._awaited: dict[_PartitionKey, dict[FollowedPartition, None]] = {}
        self._asked_count = 0

    # Requests.

    def session_maker(self, node_id: int, broker_epoch: int) -> MakeSession:
        """What makes sessions for a follower."""

        def make(session_id: int, uses_topic_ids: bool, now_ms: int) -> FollowerSession:
            session = FollowerSession(
                session_id,
                self,
                node_id,
                broker_epoch,
                uses_topic_ids=uses_topic_ids,
                now_ms=now_ms,
            )
            self._sessions.setdefault(node_id, {})[session] = None
            return session

        return make

    def session_closed(self, session: FollowerSession) -> None:
        """Forget a session."""
        sessions = self._sessions.get(session.node_id)
        if sessions is not None:
            sessions.pop(session, None)
            if not sessions:
                del self._sessions[session.node_id]

    def refusal(self, node_id: int, broker_epoch: int) -> KafkaError | None:
        """Why nothing counts that a broker fetches under this epoch; None if it does."""
        try:
            check_broker_epoch(self._find_broker(node_id), node_id, broker_epoch)
        except KafkaError as error:
            return error.with_traceback(None)
        return None

    def brokers_changed(self, node_ids: Iterable[int]) -> None:
        """Have the sessions of brokers see whether they still, or only now, count."""
        for node_id in node_ids:
            for session in list(self._sessions.get(node_id, ())):
                session.broker_changed()

    def fetch(
        self, session: FollowerSession, parameters: FetchParameters, done: Done
    ) -> FollowerFetching:
        """Answer a follower, at once or when there is enough.

        `done` gets what is new to it: partitions with records, errors or newer offsets.
        """
        if session.parked is not None:
            session.parked.give_way()
        fetching = session.parked = FollowerFetching(session, parameters, self, done)
        if not fetching.try_complete():
            self.purgatory.watch(fetching, (session,))
        return fetching

    def next_asked_number(self) -> int:
        """Numbers what followers ask, in order."""
        self._asked_count += 1
        return self._asked_count

    # Partitions.

    def find_counted(self, request: FetchPartition) -> Partition:
        """The partition that a follower reads.

        Raises: KafkaError, also if its fetch was refused.
        """
        assert isinstance(request, FollowedPartition)
        if request.refusal is not None:
            # Another one each time: an exception keeps the frames of all who have raised it.
            raise KafkaError(request.refusal.code, request.refusal.message)
        return self.find_again(request)

    def find_again(self, followed: FollowedPartition) -> Partition:
        """The partition that is to be read, as `find`, which mostly is the same as before."""
        partition = followed.partition
        if (
            partition is not None
            and partition.is_leader
            and partition.image.leader_epoch == followed.current_leader_epoch
            and not partition.log.is_offline
        ):
            return partition
        return self.find(followed)

    def partition_of(self, request: FetchPartition) -> Partition | None:
        """The replica here, led or not."""
        partition = self._partitions.get(request.topic_partition)
        if partition is None or request.topic_id not in (ZERO_UUID, partition.topic_id):
            return None
        return partition

    def await_partition(self, followed: FollowedPartition) -> None:
        """Have a partition that is not here told once it is."""
        self._awaited.setdefault(_key(followed), {})[followed] = None

    def await_no_more(self, followed: FollowedPartition) -> None:
        """Forget `await_partition`."""
        waiting = self._awaited.get(_key(followed))
        if waiting is not None:
            waiting.pop(followed, None)
            if not waiting:
                del self._awaited[_key(followed)]

    def leadership_changed(self, partition: Partition) -> None:
        """A partition is led here, perhaps a new one that followers have asked for already."""
        key = (partition.topic_id, partition.topic_partition.partition)
        for followed in list(self._awaited.get(key, ())):
            followed.topic_partition = partition.topic_partition
            followed.leadership_changed()

    # Throttles.

    @property
    def is_throttling(self) -> bool:
        """Whether there is a limit to what is sent to replicas that catch up."""
        return self.throttle is not None and self.throttle.leader.is_limited

    def allows(self, session: FollowerSession, followed: FollowedPartition) -> bool:
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

    def sent(self, session: FollowerSession, followed: FollowedPartition, size_bytes: int) -> None:
        """Count what was sent."""
        if size_bytes and self.throttle is not None and followed.partition is not None:
            self.throttle.leader_sent(
                followed.partition.topic_partition,
                followed.partition.log.config.leader_replication_throttled_replicas,
                session.node_id,
                size_bytes,
            )


def _key(followed: FollowedPartition) -> _PartitionKey:
    return followed.topic_id, followed.topic_partition.partition
