"""A follower's fetch session: which of its partitions have something new, and which do not.

A follower names only what changed, and so does the leader: partitions notify the session when they
move, so that a fetch costs what changed, not what is followed. Not reading and not waiting
(`delayed_follower_fetch.py`). Source: KIP-227; REP-3, REP-6, REQ-9.
Invariants: a partition with records, an error or another history for the follower is in `ready`,
one with nothing but newer offsets in `changed_offsets`, one that our metadata does not know yet in
`waiting`; in none of them, the follower has all there is. A fetch whose last epoch does not lead to
its offset proves nothing about what the follower has. Only the registered incarnation of a broker
counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol, cast

from barnabas_broker.log.partition_log import PartitionLog
from barnabas_broker.purgatory.purgatory import Purgatory
from barnabas_broker.replication.leader.delayed_fetch import FindPartition, diverging
from barnabas_broker.replication.leader.fetch_session import (
    FetchPartition,
    FetchSession,
    MakeSession,
    SessionKey,
    session_key,
)
from barnabas_broker.replication.leader.follower_states import FindBroker, check_broker_epoch
from barnabas_broker.replication.partition import NO_EPOCH, Partition
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.ids import ZERO_UUID, TopicPartition

_PartitionKey = tuple[bytes, int]  # topic id and partition
# Our metadata may be behind the follower's: what it fetches is about to be here.
_UNKNOWN_YET = frozenset(
    (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
    )
)


class ParkedFetch(Protocol):
    """A follower's fetch that waits."""

    def give_way(self) -> None:
        """Respond with nothing: a later fetch of the session has all."""
        ...


class FetchSessionPartition(FetchPartition):
    """What a follower fetches of one partition; listens to the partition."""

    __slots__ = ("is_level", "partition", "refusal", "request_number", "session")

    def __init__(self, session: FollowerSession, requested: FetchPartition) -> None:
        super().__init__(
            requested.topic_partition,
            requested.topic_id,
            requested.fetch_offset,
            requested.max_bytes,
        )
        self.session = session
        self.request_number = 0  # among all partition requests of followers
        # Its last fetch was valid and at the log end, which has not moved since.
        self.is_level = False
        self.partition: Partition | None = None
        self.refusal: KafkaError | None = None  # why its last fetch did not count
        self.take_over(requested)

    @property
    def precedence(self) -> tuple[int, int]:
        """The larger one is the newer request."""
        return self.session.broker_epoch, self.request_number

    def appended(self) -> None:
        """The log end has moved: there are records to send."""
        session, partition = self.session, self.partition
        if partition is None or self in session.waiting:
            return
        if self not in session.ready:
            session.changed_offsets.pop(self, None)
            session.ready[self] = None
        if self.is_level:
            self.is_level = False
            # Up to now each fetch of the session implied, without naming it, that it had all.
            state = partition.followers.get(session.node_id)
            if state is not None:
                state.was_caught_up(session.last_used_ms)
        session.wake()

    def offsets_moved(self, *, is_urgent: bool = False) -> None:
        """The high watermark or the log start has moved: sent with the next response."""
        session = self.session
        if self not in session.ready and self not in session.waiting:
            session.changed_offsets[self] = None
        if is_urgent:
            session.is_urgent = True
            session.wake()

    def leadership_changed(self) -> None:
        """The leader or its epoch is another: look anew at what there is to send.

        A follower that names no leader epoch has fetched from another leader's log.
        """
        if self.current_leader_epoch == NO_EPOCH and self not in self.session.waiting:
            self.refusal = KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            self.session.place(self)
        else:
            self.session.note(self)
        self.session.wake()

    def replica_changed(self) -> None:
        """The follower has fetched for another replica: it has to fetch anew."""
        self.refusal = KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self.session.place(self)
        self.session.wake()


class FollowerSession(FetchSession):
    """The partitions that one incarnation of a broker fetches over one connection.

    `last_used_ms` is monotonic.
    """

    __slots__ = (
        "_is_waking",
        "_sessions",
        "broker_epoch",
        "changed_offsets",
        "followed",
        "is_urgent",
        "node_id",
        "parked",
        "ready",
        "refusal",
        "waiting",
    )

    def __init__(
        self,
        session_id: int,
        sessions: FollowerSessions,
        node_id: int,
        broker_epoch: int,
        *,
        uses_topic_ids: bool,
        now_ms: int,
    ) -> None:
        super().__init__(session_id, True, uses_topic_ids, now_ms)
        self._sessions = sessions
        self._is_waking = False
        self.is_urgent = False  # somebody waits for newer offsets
        self.parked: ParkedFetch | None = None  # the newest fetch, which may have ended
        self.node_id = node_id
        self.broker_epoch = broker_epoch
        # Why nothing of it counts: it is not the registered incarnation of its broker.
        self.refusal: KafkaError | None = sessions.refusal(node_id, broker_epoch)
        self.followed: dict[SessionKey, FetchSessionPartition] = {}
        self.partitions = cast("dict[SessionKey, FetchPartition]", self.followed)
        # Dictionaries as ordered sets: who was served longest ago comes first (REQ-8).
        self.ready: dict[FetchSessionPartition, None] = {}
        self.changed_offsets: dict[FetchSessionPartition, None] = {}
        self.waiting: dict[FetchSessionPartition, None] = {}

    # The follower's side.

    @property
    def is_over(self) -> bool:
        """Whether a newer incarnation is registered; one not known yet is refused otherwise."""
        return self.refusal is not None and self.refusal.code is ErrorCode.NOT_LEADER_OR_FOLLOWER

    def update(self, requested: Iterable[FetchPartition], forgotten: Iterable[SessionKey]) -> None:
        """Take over the partitions that a request names, and drop the forgotten ones."""
        for partition in requested:
            key = session_key(partition)
            followed = self.followed.get(key)
            if followed is None:
                followed = self.followed[key] = FetchSessionPartition(self, partition)
            else:
                if partition.topic_partition.topic:
                    followed.topic_partition = partition.topic_partition
                followed.take_over(partition)
            followed.request_number = self._sessions.next_request_number()
            self.note(followed)
        for key in forgotten:
            followed = self.followed.get(key)
            if followed is not None:
                self.drop(followed)

    def broker_changed(self) -> None:
        """See anew whether this is the registered incarnation of its broker."""
        before, self.refusal = self.refusal, self._sessions.refusal(self.node_id, self.broker_epoch)
        if (before is None) != (self.refusal is None):
            for followed in list(self.followed.values()):
                self.note(followed)
            self.wake()

    def note(self, followed: FetchSessionPartition) -> None:
        """Count a fetch for the partition where it is valid, and see what there is to send."""
        followed.refusal = self.refusal
        if self.refusal is not None:
            self.place(followed)  # and it takes no partition from the incarnation that counts
            return
        try:
            partition = self._sessions.find_again(followed)
            if not self._attach(followed, partition):
                return
            log, offset = partition.log, followed.fetch_offset
            if (
                log.log_start_offset <= offset <= log.log_end_offset
                and diverging(followed, log) is None
            ):
                partition.follower_fetched(
                    self.node_id,
                    self.broker_epoch,
                    offset,
                    followed.log_start_offset,
                    self.last_used_ms,
                )
                if offset != log.log_end_offset:
                    # As nearly always under load: there is more already.
                    self._remove(followed)
                    self.ready[followed] = None
                    return
        except KafkaError as error:
            # Kept until the follower sends another fetch: without the frames that it came
            # through, and all that they hold.
            followed.refusal = error.with_traceback(None)
            if not self._attach(followed, self._sessions.partition_of(followed)):
                return
        self.place(followed)

    def _attach(self, followed: FetchSessionPartition, partition: Partition | None) -> bool:
        """Make it the listener of the partition.

        Of several sessions the one listens in which the follower's newest incarnation fetched last:
        it may have left others behind, with a leadership that it followed before, and requests of
        an earlier incarnation may come late. Returns False where that is not this one, which is
        dropped then.
        """
        if followed.partition is partition:
            return True
        if followed.partition is not None:
            followed.partition.stop_listening(self.node_id, followed)
            followed.partition = None
        if partition is None:
            return True
        other = partition.listener_of(self.node_id)
        if isinstance(other, FetchSessionPartition):
            if other.precedence > followed.precedence:
                self.drop(followed)
                return False
            other.session.drop(other)
        followed.partition = partition
        partition.listen(self.node_id, followed)
        return True

    def drop(self, followed: FetchSessionPartition) -> None:
        """Send nothing more of a partition."""
        self.followed.pop(session_key(followed), None)
        self._remove(followed)
        self._attach(followed, None)

    def close(self) -> None:
        """Send nothing more at all."""
        self._sessions.session_closed(self)
        for followed in list(self.followed.values()):
            self.drop(followed)

    # What there is to send.

    def place(self, followed: FetchSessionPartition) -> None:
        """Put a partition where it belongs, last."""
        self._remove(followed)
        partition, refusal = followed.partition, followed.refusal
        if refusal is not None:
            if self._is_unknown_yet(followed, refusal):
                self.waiting[followed] = None
                if partition is None:
                    self._sessions.await_partition(followed)
            else:
                self.ready[followed] = None
            return
        assert partition is not None
        log = partition.log
        if followed.fetch_offset != log.log_end_offset or _is_diverging(followed, log):
            self.ready[followed] = None
            return
        followed.is_level = True
        if (
            followed.sent_high_watermark != log.high_watermark
            or followed.sent_log_start_offset != log.log_start_offset
        ):
            self.changed_offsets[followed] = None

    def _is_unknown_yet(self, followed: FetchSessionPartition, refusal: KafkaError) -> bool:
        partition = followed.partition
        if partition is None:
            return refusal.code in _UNKNOWN_YET or refusal.code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        if partition.leader_epoch < followed.current_leader_epoch:
            return not partition.log.is_offline
        return refusal.code == ErrorCode.UNKNOWN_LEADER_EPOCH

    def _remove(self, followed: FetchSessionPartition) -> None:
        followed.is_level = False
        self.ready.pop(followed, None)
        self.changed_offsets.pop(followed, None)
        if self.waiting and self.waiting.pop(followed, self) is None:
            self._sessions.await_no_more(followed)

    def stop_waiting(self) -> None:
        """Send errors for what is still unknown here: the follower has waited long enough."""
        for followed in list(self.waiting):
            self._remove(followed)
            self.ready[followed] = None

    def sent(self, followed: FetchSessionPartition, *, is_error: bool, has_records: bool) -> None:
        """Note that a partition is in a response.

        With records it stays ready until the follower's next fetch shows that it has them. An error
        is sent once: the follower fetches again when it means to go on.
        """
        if followed.session is not self or session_key(followed) not in self.followed:
            return
        if is_error:
            self._remove(followed)
        elif has_records:
            self.ready.pop(followed, None)
            self.ready[followed] = None
        else:
            self.place(followed)

    def wake(self) -> None:
        """Have a parked fetch looked at when the turn's appends are all written."""
        if (self.ready or self.is_urgent) and not self._is_waking:
            self._is_waking = True
            self._sessions.after(self._woken)

    def _woken(self) -> None:
        self._is_waking = False
        self._sessions.purgatory.check_and_complete(self)


def _is_diverging(followed: FetchSessionPartition, log: PartitionLog) -> bool:
    try:
        return diverging(followed, log) is not None
    except KafkaError:
        return True


class FollowerSessions:
    """The fetch sessions of all followers, and the partitions that they fetch here.

    `after` runs a callback at the end of the turn; `purgatory` has the fetches that wait, each
    under its session.
    """

    def __init__(
        self,
        *,
        partitions: Mapping[TopicPartition, Partition],
        find: FindPartition,
        purgatory: Purgatory,
        after: Callable[[Callable[[], None]], None],
        find_broker: FindBroker,
    ) -> None:
        self._partitions = partitions
        self._find_broker = find_broker
        self._by_node: dict[int, dict[FollowerSession, None]] = {}
        self._awaited: dict[_PartitionKey, dict[FetchSessionPartition, None]] = {}
        self._request_count = 0
        self.find = find
        self.purgatory = purgatory
        self.after = after

    @property
    def count(self) -> int:
        """How many sessions there are."""
        return sum(map(len, self._by_node.values()))

    @property
    def awaited_count(self) -> int:
        """How many partitions that are not here yet are fetched."""
        return len(self._awaited)

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
            self._by_node.setdefault(node_id, {})[session] = None
            return session

        return make

    def session_closed(self, session: FollowerSession) -> None:
        """Forget a session."""
        sessions = self._by_node.get(session.node_id)
        if sessions is not None:
            sessions.pop(session, None)
            if not sessions:
                del self._by_node[session.node_id]

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
            for session in list(self._by_node.get(node_id, ())):
                session.broker_changed()

    def next_request_number(self) -> int:
        """Number the partition requests of followers, in order."""
        self._request_count += 1
        return self._request_count

    # Partitions.

    def find_counted(self, request: FetchPartition) -> Partition:
        """The partition that a follower reads.

        Raises: KafkaError, also if its fetch was refused.
        """
        assert isinstance(request, FetchSessionPartition)
        if request.refusal is not None:
            # Another one each time: an exception keeps the frames of all who have raised it.
            raise KafkaError(request.refusal.code, request.refusal.message)
        return self.find_again(request)

    def find_again(self, followed: FetchSessionPartition) -> Partition:
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

    def await_partition(self, followed: FetchSessionPartition) -> None:
        """Notify a partition of a session once its replica is here."""
        self._awaited.setdefault(_key(followed), {})[followed] = None

    def await_no_more(self, followed: FetchSessionPartition) -> None:
        """Forget `await_partition`."""
        waiting = self._awaited.get(_key(followed))
        if waiting is not None:
            waiting.pop(followed, None)
            if not waiting:
                del self._awaited[_key(followed)]

    def leadership_changed(self, partition: Partition) -> None:
        """A partition is led here, perhaps a new one that followers fetch already."""
        key = (partition.topic_id, partition.topic_partition.partition)
        for followed in list(self._awaited.get(key, ())):
            followed.topic_partition = partition.topic_partition
            followed.leadership_changed()


def _key(followed: FetchSessionPartition) -> _PartitionKey:
    return followed.topic_id, followed.topic_partition.partition
