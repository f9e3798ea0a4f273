"""The share partitions and share sessions of one broker.

Loads share partitions when they are first fetched, lets go of them when their group, their
partition or its leadership has gone, and hands fetches and acknowledgements to them. Not here: what
happens in one share partition, and the wire format.

Source: KIP-932; SHR-3, SHR-14, SHR-17, SHR-20, SHR-21, SHR-33. Invariants: at most one loaded share
partition for a key, and only for the leader epoch under which its partition is led here; whoever
loses a session holds no lock.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Final, Protocol

from barnabas_broker.metrics.sample import Sample
from barnabas_broker.network.heavy_work import Pause
from barnabas_broker.purgatory.purgatory import Purgatory
from barnabas_broker.replication.partition import Partition
from barnabas_broker.replication.replica_manager import ReplicaManager
from barnabas_broker.share.delayed_share_fetch import (
    DelayedShareFetch,
    Done,
    FetchedPartition,
    ShareFetchParameters,
)
from barnabas_broker.share.loaded_share_partition import LoadedSharePartition, ShareContext
from barnabas_broker.share.persister import SharePartitionKey
from barnabas_broker.share.record_states import AcknowledgementBatch, RecordState
from barnabas_broker.share.share_session import (
    MemberKey,
    SessionPartition,
    ShareSession,
    ShareSessionCache,
)
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.ids import TopicPartition

Outcome = KafkaError | None
ACKNOWLEDGEMENT_BATCHES_MAX: Final = 10_000
"""For one partition in a request: as many as there may be offsets in flight, by any setting."""
ACKNOWLEDGEMENT_TYPES_MAX: Final = 20_000
"""The same of types: more offsets than a client is ever given, holes in the log included."""
SHARE_PARTITIONS_MAX: Final = 200_000
"""In memory. Sessions forget partitions, whose state stays as long as the group has a session."""
RELEASE_WORK_MAX: Final = 2_000
"""So many share partitions and ranges are looked at in one turn of the loop."""
LOOKED_UP_AT_ONCE: Final = 200
"""So many share partitions are found or made for one fetch before the loop goes on."""
LOADS_AT_ONCE: Final = 50
"""So many states are read at a time; the others wait for their turn."""
PER_PARTITION_MAX: Final = 1_000
"""So many share partitions have their own numbers in the metrics, and the others only in sum."""


class Connection(Protocol):
    """A connection of a client."""

    def on_closed(self, callback: Callable[[], None]) -> None:
        """Have a callback run when the connection is lost."""
        ...


class SharePartitions:
    """What serves share fetches and acknowledgements."""

    def __init__(
        self,
        replicas: ReplicaManager,
        context: ShareContext,
        *,
        pause: Pause,
        session_slots: int,
    ) -> None:
        """`pause` lets the loop go on between two share partitions."""
        self._replicas = replicas
        self._context = context
        self._pause = pause
        self.sessions = ShareSessionCache(session_slots)
        self.purgatory = Purgatory("share-fetch", context.timer)
        self.loaded: dict[SharePartitionKey, LoadedSharePartition] = {}
        self._by_partition: dict[TopicPartition, dict[SharePartitionKey, LoadedSharePartition]] = {}
        self._by_group: dict[str, dict[SharePartitionKey, LoadedSharePartition]] = {}
        self._connections: dict[Connection, dict[MemberKey, None]] = {}
        self._connection_of: dict[MemberKey, Connection] = {}
        self._moved: LoadedSharePartition | None = None
        self._to_load: deque[LoadedSharePartition] = deque()
        self._loader_count = 0
        replicas.on_progress.append(self._progressed)
        replicas.on_removed.append(self._removed)

    # Share partitions.

    def leader(self, session_partition: SessionPartition) -> Partition:
        """Return the partition, led here.

        Raises: KafkaError 100 for an unknown topic id; 3, 6, 56.
        """
        topic = self._replicas.image.topics.by_id.get(session_partition.topic_id)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
        partition = self._replicas.find(TopicPartition(topic.name, session_partition.partition))
        if partition.topic_id != session_partition.topic_id:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
        partition.check_leader()
        return partition

    def find(self, group_id: str, session_partition: SessionPartition) -> LoadedSharePartition:
        """Return the share partition that is loaded. Raises: KafkaError 3, or as `leader`."""
        self.leader(session_partition)
        loaded = self.loaded.get(SharePartitionKey(group_id, *session_partition))
        if loaded is None or not loaded.is_active:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return loaded

    def find_or_load(
        self, group_id: str, session_partition: SessionPartition
    ) -> LoadedSharePartition:
        """Return the share partition; its state is read if it is not here.

        Raises: as `leader`; KafkaError 15 where there is no room.
        """
        partition = self.leader(session_partition)
        key = SharePartitionKey(group_id, *session_partition)
        loaded = self.loaded.get(key)
        if loaded is not None and loaded.partition is not partition:
            loaded.fence()
            loaded = None
        if loaded is None:
            if len(self.loaded) >= SHARE_PARTITIONS_MAX:
                raise KafkaError(
                    ErrorCode.COORDINATOR_NOT_AVAILABLE, "there are too many share partitions here"
                )
            loaded = LoadedSharePartition(
                key, partition, self._context, on_change=self._changed, on_gone=self._gone
            )
            self.loaded[key] = loaded
            self._by_partition.setdefault(partition.topic_partition, {})[key] = loaded
            self._by_group.setdefault(group_id, {})[key] = loaded
            self._to_load.append(loaded)
            if self._loader_count < LOADS_AT_ONCE:
                self._loader_count += 1
                self._context.spawn(self._load())
        return loaded

    async def _load(self) -> None:
        """Load share partitions, one after the other, until there is none to load."""
        try:
            while self._to_load:
                await self._to_load.popleft().load()
        finally:
            self._loader_count -= 1

    def _gone(self, loaded: LoadedSharePartition) -> None:
        """Forget a share partition; who waits for it gets its error."""
        key = loaded.key
        if self.loaded.get(key) is loaded:
            del self.loaded[key]
            topic_partition = loaded.partition.topic_partition
            _remove(self._by_partition, topic_partition, key)
            _remove(self._by_group, key.group_id, key)
        self._wake(loaded)

    def _changed(self, loaded: LoadedSharePartition) -> None:
        """See to the fetches that wait, and whether anybody still needs the share partition."""
        if loaded.error is None and not self.sessions.group_size(loaded.key.group_id):
            if loaded.is_idle:
                loaded.fence()
        elif loaded.fetch_offset is not None:
            self._wake(loaded)

    def _wake(self, loaded: LoadedSharePartition) -> None:
        """Try the fetches that wait for a share partition."""
        if not self.purgatory.watched_count:
            return
        before, self._moved = self._moved, loaded
        try:
            self.purgatory.check_and_complete(loaded.key)
        finally:
            self._moved = before

    # The partitions below.

    def _progressed(self, partition: Partition) -> None:
        """See to the share partitions of a partition: more may be read, or it is led elsewhere."""
        by_key = self._by_partition.get(partition.topic_partition)
        if by_key is None:
            return
        for loaded in list(by_key.values()):
            if not partition.is_leader or partition.leader_epoch != loaded.leader_epoch:
                loaded.fence()
            elif partition.log.is_offline:
                loaded.fence(ErrorCode.KAFKA_STORAGE_ERROR)
            else:
                self._changed(loaded)

    def _removed(self, topic_partition: TopicPartition) -> None:
        for loaded in list(self._by_partition.get(topic_partition, {}).values()):
            loaded.fence()

    def switched_off(self) -> None:
        """Forget everything: there are no share groups any more (SHR-1)."""
        for loaded in list(self.loaded.values()):
            loaded.fence(ErrorCode.UNSUPPORTED_VERSION)
        self.sessions = ShareSessionCache(self.sessions.slots)
        self._connections.clear()
        self._connection_of.clear()

    # Sessions.

    def begin_session(
        self, key: MemberKey, connection: Connection, partitions: Iterable[SessionPartition]
    ) -> ShareSession | None:
        """Open the session of a member, which ends with its connection; None if there is no room.

        Raises: KafkaError for too many partitions.
        """
        session = self.sessions.open(key, partitions)
        if session is not None:
            self._connect(key, connection)
        return session

    def resume_session(
        self,
        key: MemberKey,
        connection: Connection,
        session_epoch: int,
        partitions: Iterable[SessionPartition] = (),
        forgotten: Iterable[SessionPartition] = (),
    ) -> ShareSession:
        """Go on in the session of a member. Raises: KafkaError, see `ShareSessionCache.resume`."""
        session = self.sessions.resume(key, session_epoch, partitions, forgotten)
        self._connect(key, connection)
        return session

    def is_open(self, session: ShareSession) -> bool:
        """Whether a session goes on."""
        return self.sessions.find(session.key) is session

    async def end_session(self, key: MemberKey) -> None:
        """End the session of a member and release all that it has acquired (SHR-20)."""
        if self.sessions.close(key) is None:
            return
        self._disconnect(key)
        await self._release(key.group_id, {key.member_id})

    async def _release(self, group_id: str, member_ids: set[str]) -> None:
        """Release all that members without a session have, in whichever partitions of their group.

        They may have acquired it in a session before the last one, or in a partition that this one
        has forgotten.
        """
        work = 0
        for loaded in list(self._by_group.get(group_id, {}).values()):
            work += 1 + loaded.records.offsets.range_count
            loaded.release_members(member_ids)
            if work >= RELEASE_WORK_MAX:
                work = 0
                await self._pause()
                # Who is there again may have acquired more.
                member_ids = {
                    one
                    for one in member_ids
                    if self.sessions.find(MemberKey(group_id, one)) is None
                }
        if not self.sessions.group_size(group_id):
            for loaded in list(self._by_group.get(group_id, {}).values()):
                self._changed(loaded)

    def _connect(self, key: MemberKey, connection: Connection) -> None:
        if self._connection_of.get(key) is connection:
            return
        self._disconnect(key)
        if connection not in self._connections:
            self._connections[connection] = {}
            connection.on_closed(lambda: self._connection_lost(connection))
        self._connections[connection][key] = None
        self._connection_of[key] = connection

    def _disconnect(self, key: MemberKey) -> None:
        connection = self._connection_of.pop(key, None)
        if connection is not None:
            self._connections[connection].pop(key, None)

    def _connection_lost(self, connection: Connection) -> None:
        gone: dict[str, set[str]] = {}
        for key in self._connections.pop(connection, {}):
            del self._connection_of[key]
            if self.sessions.close(key) is not None:
                gone.setdefault(key.group_id, set()).add(key.member_id)
        if gone:
            self._context.spawn(self._release_all(gone))

    async def _release_all(self, gone: dict[str, set[str]]) -> None:
        """Release what the members of a connection have, one group after the other."""
        for group_id, member_ids in gone.items():
            await self._pause()  # many connections may end at once
            absent = {
                one for one in member_ids if self.sessions.find(MemberKey(group_id, one)) is None
            }
            await self._release(group_id, absent)

    # Requests.

    async def fetch(
        self,
        group_id: str,
        partitions: Sequence[SessionPartition],
        parameters: ShareFetchParameters,
        done: Done,
    ) -> DelayedShareFetch:
        """Acquire records for a member, at once or when there are some.

        `done` gets one result for each partition, in order.
        """
        fetched: list[FetchedPartition] = []
        for number, one in enumerate(partitions):
            if number % LOOKED_UP_AT_ONCE == LOOKED_UP_AT_ONCE - 1:
                await self._pause()
            try:
                fetched.append(FetchedPartition(one, self.find_or_load(group_id, one)))
            except KafkaError as error:
                fetched.append(FetchedPartition(one, None, error))
        delayed = DelayedShareFetch(
            fetched,
            parameters,
            moved=lambda: self._moved,
            reads=self._replicas.client_reads,
            pause=self._pause,
            spawn=self._context.spawn,
            done=done,
        )
        if parameters.is_gone():  # meanwhile: nobody would cancel it
            delayed.force_complete()
            return delayed
        keys = [one.loaded.key for one in fetched if one.loaded is not None]
        self.purgatory.try_complete_else_watch(delayed, keys)
        return delayed

    def acknowledge(
        self,
        key: MemberKey,
        session_partition: SessionPartition,
        batches: list[AcknowledgementBatch],
        *,
        is_renew: bool,
    ) -> Awaitable[Outcome]:
        """Acknowledge what a member has acquired of one partition; returns what becomes of it."""
        outcome: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        try:
            if (
                len(batches) > ACKNOWLEDGEMENT_BATCHES_MAX
                or sum(len(batch.types) for batch in batches) > ACKNOWLEDGEMENT_TYPES_MAX
            ):
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST, "too many acknowledgement batches, or types"
                )
            loaded = self.find(key.group_id, session_partition)
            transition = loaded.acknowledge(key.member_id, batches, is_renew=is_renew)
        except KafkaError as error:
            outcome.set_result(error)
            return outcome
        if transition is None:
            outcome.set_result(None)
        else:
            transition.on_done = lambda error: _resolve(outcome, error)
        loaded.changed()
        return outcome

    def range_count(self, group_id: str, session_partition: SessionPartition) -> int:
        """How many ranges an acknowledgement of a partition may have to look at."""
        loaded = self.loaded.get(SharePartitionKey(group_id, *session_partition))
        return 0 if loaded is None else loaded.records.offsets.range_count

    def lock_duration_ms(self, group_id: str) -> int:
        """How long a lock lasts in a group."""
        return self._context.settings(group_id).record_lock_duration_ms

    def samples(self) -> Iterator[Sample]:
        """Sessions and share partitions, for the collector."""
        sessions = self.sessions
        for name, kind, text, value in (
            ("sessions", "gauge", "Share sessions.", len(sessions)),
            ("session_partitions", "gauge", "Partitions in them.", sessions.partition_count),
            (
                "sessions_refused_total",
                "counter",
                "Share sessions that found no room.",
                sessions.refused_count,
            ),
            ("partitions", "gauge", "Share partitions in memory.", len(self.loaded)),
        ):
            yield Sample(f"barnabas_share_{name}", kind, text, {}, value)
        for loaded in islice(self.loaded.values(), PER_PARTITION_MAX):
            topic, index = loaded.partition.topic_partition
            labels = {"group": loaded.key.group_id, "topic": topic, "partition": str(index)}
            offsets = loaded.records.offsets
            for name, text, number in (
                (
                    "backlog_records",
                    "Records that a group may read and that are not done.",
                    loaded.backlog,
                ),
                (
                    "in_flight_records",
                    "Offsets between the start and the end of a share partition.",
                    offsets.offset_count,
                ),
                ("in_flight_batches", "Ranges of them that are kept apart.", offsets.range_count),
                (
                    "archiving_records",
                    "Of them, those that wait for their dead letter.",
                    offsets.counts[RecordState.ARCHIVING],
                ),
                (
                    "oldest_in_flight_seconds",
                    "For how long the first record in flight has been the first.",
                    loaded.oldest_in_flight_seconds,
                ),
            ):
                yield Sample(f"barnabas_share_{name}", "gauge", text, labels, number)

    def close(self) -> None:
        """Complete what waits and stop: the broker stops."""
        for loaded in list(self.loaded.values()):
            loaded.fence()
        self.purgatory.close()


def _resolve(outcome: asyncio.Future[Outcome], error: Outcome) -> None:
    if not outcome.done():  # or cancelled, with the request
        outcome.set_result(error)


def _remove(
    index: dict[Any, dict[SharePartitionKey, Any]], name: Any, key: SharePartitionKey
) -> None:
    of_name = index[name]
    del of_name[key]
    if not of_name:
        del index[name]
