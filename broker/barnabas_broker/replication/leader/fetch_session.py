"""Fetch sessions: requests name only what changed, and so do responses.

Not reading, not waiting: this keeps what a session fetches and what it was last sent. Pure but for
the random session ids.
Source: KIP-227, KIP-516 (topic ids). Invariants: the cache never holds more sessions than its
slots; a session's epoch counts up from 1 and wraps to 1; a partition is in a response only
with records, an error, or changed offsets.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from barnabas_broker.env.randomness import Random
from barnabas_broker.metrics.sample import Sample
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.fetch_metadata import FINAL_EPOCH, INITIAL_EPOCH, NO_SESSION_ID, next_epoch
from barnabas_protocol.ids import ZERO_UUID, TopicPartition

_SESSION_ID_MAX = 2**31 - 1
EVICTION_IDLE_MS = (
    120_000  # a session that was unused for this long gives way to a new one (REQ-10)
)


class FetchPartition:
    """What a client fetches of one partition, and the offsets that it was last sent."""

    __slots__ = (
        "current_leader_epoch",
        "fetch_offset",
        "last_fetched_epoch",
        "log_start_offset",
        "max_bytes",
        "sent_high_watermark",
        "sent_log_start_offset",
        "topic_id",
        "topic_partition",
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        topic_id: bytes,
        fetch_offset: int,
        max_bytes: int,
        current_leader_epoch: int = -1,
        last_fetched_epoch: int = -1,
        log_start_offset: int = -1,
    ) -> None:
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.fetch_offset = fetch_offset
        self.max_bytes = max_bytes
        self.current_leader_epoch = current_leader_epoch
        self.last_fetched_epoch = last_fetched_epoch
        self.log_start_offset = log_start_offset
        self.sent_high_watermark = -1
        self.sent_log_start_offset = -1

    def take_over(self, other: "FetchPartition") -> None:
        """Take over the request `other`, keeping what was last sent in this leader epoch.

        In a new one a follower may have cut its log, and its high watermark with it: it needs
        the present one although nothing has moved here.
        """
        if other.current_leader_epoch != self.current_leader_epoch:
            self.sent_high_watermark = self.sent_log_start_offset = -1
        self.fetch_offset = other.fetch_offset
        self.max_bytes = other.max_bytes
        self.current_leader_epoch = other.current_leader_epoch
        self.last_fetched_epoch = other.last_fetched_epoch
        self.log_start_offset = other.log_start_offset


SessionKey = tuple[bytes | str, int]  # a topic's id (or its name in old versions) and a partition


def session_key(partition: FetchPartition) -> SessionKey:
    """The identity of a partition within a session: by id where the client speaks ids."""
    if partition.topic_id != ZERO_UUID:
        return partition.topic_id, partition.topic_partition.partition
    return partition.topic_partition


class FetchSession:
    """The partitions that one client fetches again and again.

    In the order in which they are read next.
    """

    __slots__ = (
        "created_ms",
        "epoch",
        "id",
        "is_follower",
        "last_used_ms",
        "partitions",
        "uses_topic_ids",
    )

    def __init__(
        self, session_id: int, is_follower: bool, uses_topic_ids: bool, now_ms: int
    ) -> None:
        self.id = session_id
        self.epoch = 1
        self.is_follower = is_follower
        self.uses_topic_ids = uses_topic_ids
        self.created_ms = self.last_used_ms = now_ms
        self.partitions: dict[SessionKey, FetchPartition] = {}

    def update(self, requested: Iterable[FetchPartition], forgotten: Iterable[SessionKey]) -> None:
        """Add or change the requested partitions, drop the forgotten ones."""
        for partition in requested:
            key = session_key(partition)
            known = self.partitions.get(key)
            if known is None:
                self.partitions[key] = partition
            else:
                known.take_over(partition)
        for key in forgotten:
            self.partitions.pop(key, None)

    @property
    def is_over(self) -> bool:
        """Whether nothing that is fetched in it will ever count again."""
        return False

    def close(self) -> None:
        """Let go of what the session holds elsewhere; it is used no more."""

    def move_to_end(self, partition: FetchPartition) -> None:
        """Read this partition last from now on, so that a byte limit starves nobody (REQ-8)."""
        key = session_key(partition)
        if self.partitions.pop(key, None) is not None:
            self.partitions[key] = partition


PARTITIONS_MAX = 500_000
"""Partitions in the sessions of consumers together; who finds no room is served without one."""
SESSION_PARTITIONS_MAX = 10_000
"""Partitions in the session of one consumer: each of its requests looks at all of them."""


# Makes a session of an id, with topic ids or not, at a time.
MakeSession = Callable[[int, bool, int], FetchSession]


def consumer_session(session_id: int, uses_topic_ids: bool, now_ms: int) -> FetchSession:
    """A session of a consumer."""
    return FetchSession(session_id, False, uses_topic_ids, now_ms)


@dataclass(frozen=True, slots=True)
class FetchContext:
    """One request, resolved: which partitions to read, and the session of the response."""

    partitions: Sequence[FetchPartition]
    session: FetchSession | None
    is_full: bool  # the response has every partition, changed or not

    @property
    def session_id(self) -> int:
        """The id for the response; 0 means that the client is to send full requests."""
        return NO_SESSION_ID if self.session is None else self.session.id


class FetchSessionCache:
    """All live sessions of a broker, bounded by its slots."""

    def __init__(self, slots: int, random: Random) -> None:
        self._slots = slots
        self._random = random
        self._sessions: dict[int, FetchSession] = {}
        self.evictions_count = 0

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def partitions_count(self) -> int:
        """Partitions cached over all sessions."""
        return sum(len(session.partitions) for session in self._sessions.values())

    @property
    def consumer_partitions_count(self) -> int:
        """The same over the sessions of consumers, which may name what is not there."""
        return sum(
            len(session.partitions)
            for session in self._sessions.values()
            if not session.is_follower
        )

    def samples(self) -> Iterator[Sample]:
        """Sessions and their partitions, for the collector (MET-1)."""
        for name, kind, text, value in (
            ("sessions", "gauge", "Fetch sessions kept.", len(self)),
            ("session_partitions", "gauge", "Partitions in fetch sessions.", self.partitions_count),
            (
                "session_evictions_total",
                "counter",
                "Fetch sessions that gave way to others.",
                self.evictions_count,
            ),
        ):
            yield Sample(f"barnabas_fetch_{name}", kind, text, {}, value)

    def get(self, session_id: int) -> FetchSession | None:
        """The session of an id, None where it is gone."""
        return self._sessions.get(session_id)

    def resolve(
        self,
        session_id: int,
        epoch: int,
        requested: Sequence[FetchPartition],
        forgotten: Sequence[SessionKey],
        *,
        is_follower: bool,
        uses_topic_ids: bool,
        now_ms: int,
        make_session: MakeSession = consumer_session,
    ) -> FetchContext:
        """Tell which partitions a request reads.

        A follower's session knows by itself what to read: its partitions are not listed.
        Raises: KafkaError 70 for an unknown session, 71 for a wrong epoch, 106 for names and ids
        mixed.
        """
        if epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            self._remove(session_id)
            if epoch == FINAL_EPOCH:
                return FetchContext(requested, None, True)
            if not self._has_room(len(requested), is_follower, now_ms):
                return FetchContext(requested, None, True)
            session = make_session(self._new_id(), uses_topic_ids, now_ms)
            session.update(requested, ())
            self._sessions[session.id] = session
            return FetchContext(requested, session, True)
        existing = self._sessions.get(session_id)
        if existing is None or existing.is_follower != is_follower:
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if existing.epoch != epoch:
            raise KafkaError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if existing.uses_topic_ids != uses_topic_ids:
            raise KafkaError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        existing.epoch = next_epoch(epoch)
        existing.last_used_ms = now_ms
        if requested or forgotten:
            existing.update(requested, forgotten)
            if not is_follower and len(existing.partitions) > SESSION_PARTITIONS_MAX:
                # The partitions need not exist: a session is a client's to fill.
                self._remove(session_id)
                raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        partitions = () if is_follower else list(existing.partitions.values())
        return FetchContext(partitions, existing, False)

    def _has_room(self, partitions_count: int, is_follower: bool, now_ms: int) -> bool:
        """Whether one more session has room, or now has."""
        if is_follower:
            for session in list(self._sessions.values()):
                if session.is_follower and _is_left_behind(session, now_ms):
                    self._remove(session.id)
        elif (
            partitions_count > SESSION_PARTITIONS_MAX
            or self.consumer_partitions_count + partitions_count > PARTITIONS_MAX
        ):
            return False
        return len(self._sessions) < self._slots or self._evict(
            partitions_count, is_follower, now_ms
        )

    def _remove(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            session.close()

    def _evict(self, partitions_count: int, is_follower: bool, now_ms: int) -> bool:
        """Make room by the rules of REQ-10; returns whether there is room."""
        victim = next(self._evictable(partitions_count, is_follower, now_ms), None)
        if victim is None:
            return False
        self._remove(victim.id)
        self.evictions_count += 1
        return True

    def _evictable(
        self, partitions_count: int, is_follower: bool, now_ms: int
    ) -> Iterator[FetchSession]:
        sessions = sorted(self._sessions.values(), key=lambda session: session.last_used_ms)
        for session in sessions:
            if now_ms - session.last_used_ms > EVICTION_IDLE_MS:
                yield session
        for session in sessions:
            if (is_follower and not session.is_follower) or (
                session.is_follower == is_follower
                and len(session.partitions) < partitions_count
                and now_ms - session.created_ms > EVICTION_IDLE_MS
            ):
                yield session

    def _new_id(self) -> int:
        while True:
            session_id = self._random.integer(_SESSION_ID_MAX) + 1
            if session_id not in self._sessions:
                return session_id


def _is_left_behind(session: FetchSession, now_ms: int) -> bool:
    """Whether a follower's session is none any more: followers fetch without end.

    All that it fetched by a connection that is gone it now fetches anew, but for what is led
    elsewhere by now; and a process that was started again has left everything behind.
    """
    is_idle = now_ms - session.last_used_ms > EVICTION_IDLE_MS
    return not session.partitions or session.is_over or is_idle
