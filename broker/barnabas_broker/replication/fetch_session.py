"""Fetch sessions: a client repeats only what changed, and is answered only what changed.

Not reading, not waiting: this keeps what a session asks for and what it was last told. Pure but for
the random session ids.
Source: KIP-227, KIP-516 (topic ids). Invariants: the cache never holds more sessions than its
slots; a session's epoch counts up from 1 and wraps to 1; a partition is answered in a session only
with records, an error, or changed offsets.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from barnabas_broker.env.randomness import Random
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.ids import ZERO_UUID, TopicPartition

INITIAL_EPOCH = 0  # asks for a new session
FINAL_EPOCH = -1  # asks for none, and closes the named one
NO_SESSION = 0
_EPOCH_MAX = 2**31 - 1
EVICTION_IDLE_MS = (
    120_000  # a session that was unused for this long gives way to a new one (REQ-10)
)


class FetchPartition:
    """What a client asks of one partition, and what it was last told about it."""

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

    def ask_again(self, other: "FetchPartition") -> None:
        """Take over what `other` asks for, keeping what was last answered in this leader epoch.

        In a new one a follower may have cut its log, and its high watermark with it: it must hear
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
    """The partitions that one client asks for again and again.

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

    def update(self, asked: Iterable[FetchPartition], forgotten: Iterable[SessionKey]) -> None:
        """Add or change the partitions asked for, drop the forgotten ones."""
        for partition in asked:
            key = session_key(partition)
            known = self.partitions.get(key)
            if known is None:
                self.partitions[key] = partition
            else:
                known.ask_again(partition)
        for key in forgotten:
            self.partitions.pop(key, None)

    @property
    def is_over(self) -> bool:
        """Whether nothing that is asked in it will ever count again."""
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


# A session of a given id and time for whoever asks.
MakeSession = Callable[[int, bool, int], FetchSession]


def consumer_session(session_id: int, uses_topic_ids: bool, now_ms: int) -> FetchSession:
    """A session of a consumer."""
    return FetchSession(session_id, False, uses_topic_ids, now_ms)


@dataclass(frozen=True, slots=True)
class FetchContext:
    """One request, resolved: which partitions to read and which session its answer belongs to."""

    partitions: Sequence[FetchPartition]
    session: FetchSession | None
    is_full: bool  # answer every partition, changed or not

    @property
    def session_id(self) -> int:
        """The id to answer with; 0 means that the client is to send full requests."""
        return NO_SESSION if self.session is None else self.session.id


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

    def get(self, session_id: int) -> FetchSession | None:
        """The session of an id, None where it is gone."""
        return self._sessions.get(session_id)

    def resolve(
        self,
        session_id: int,
        epoch: int,
        asked: Sequence[FetchPartition],
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
                return FetchContext(asked, None, True)
            if not self._has_room(len(asked), is_follower, now_ms):
                return FetchContext(asked, None, True)
            session = make_session(self._new_id(), uses_topic_ids, now_ms)
            session.update(asked, ())
            self._sessions[session.id] = session
            return FetchContext(asked, session, True)
        existing = self._sessions.get(session_id)
        if existing is None or existing.is_follower != is_follower:
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if existing.epoch != epoch:
            raise KafkaError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if existing.uses_topic_ids != uses_topic_ids:
            raise KafkaError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        existing.epoch = 1 if epoch == _EPOCH_MAX else epoch + 1
        existing.last_used_ms = now_ms
        if asked or forgotten:
            existing.update(asked, forgotten)
            if not is_follower and len(existing.partitions) > SESSION_PARTITIONS_MAX:
                # Nobody says that the partitions exist: a session is a client's to fill.
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
            session_id = self._random.integer(_EPOCH_MAX) + 1
            if session_id not in self._sessions:
                return session_id


def _is_left_behind(session: FetchSession, now_ms: int) -> bool:
    """Whether a follower's session is none any more: followers fetch without end.

    All that it asked for by a connection that is gone it now asks for anew, but for what is led
    elsewhere by now; and a process that was started again has left everything behind.
    """
    is_idle = now_ms - session.last_used_ms > EVICTION_IDLE_MS
    return not session.partitions or session.is_over or is_idle
