"""A follower's fetch session: which of its partitions have something to tell, and which do not.

A follower repeats only what changed, and so does the leader: partitions tell the session when they
move, so that a fetch costs what changed, not what is followed. Not reading and not waiting
(`follower_fetching.py`). Source: KIP-227; REP-3, REP-6, REQ-9 of the behaviour list.
Invariants: a partition with records, an error or another history for the follower is in `ready`,
one with nothing but newer offsets in `news`, one that our metadata does not know yet in `waiting`;
in none of them, the follower has all there is. A fetch whose last epoch does not lead to its offset
says nothing about what the follower has. Only the registered incarnation of a broker counts.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, cast

from barnabas_broker.log.partition_log import PartitionLog
from barnabas_broker.replication.fetch_session import (
    FetchPartition,
    FetchSession,
    SessionKey,
    session_key,
)
from barnabas_broker.replication.fetching import diverging
from barnabas_broker.replication.partition import NO_EPOCH, Partition
from barnabas_protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from barnabas_broker.replication.follower_fetching import FollowerFetches, FollowerFetching

# Our metadata may be behind the follower's: what it asks for is about to be here.
_UNKNOWN_YET = frozenset(
    (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
    )
)


class FollowedPartition(FetchPartition):
    """What a follower asks of one partition; hears of the partition's moves."""

    __slots__ = ("asked_number", "is_level", "partition", "refusal", "session")

    def __init__(self, session: FollowerSession, asked: FetchPartition) -> None:
        super().__init__(asked.topic_partition, asked.topic_id, asked.fetch_offset, asked.max_bytes)
        self.session = session
        self.asked_number = 0  # of all that followers have asked of us, the place of this
        # Its last fetch was valid and at the log end, which has not moved since.
        self.is_level = False
        self.partition: Partition | None = None
        self.refusal: KafkaError | None = None  # why its last fetch did not count
        self.ask_again(asked)

    @property
    def precedence(self) -> tuple[int, int]:
        """The larger one is the newer question."""
        return self.session.broker_epoch, self.asked_number

    def appended(self) -> None:
        """The log end has moved: there are records to send."""
        session, partition = self.session, self.partition
        if partition is None or self in session.waiting:
            return
        if self not in session.ready:
            session.news.pop(self, None)
            session.ready[self] = None
        if self.is_level:
            self.is_level = False
            # Up to now each fetch of the session said, without naming it, that it had everything.
            state = partition.followers.get(session.node_id)
            if state is not None:
                state.was_caught_up(session.last_used_ms)
        session.wake()

    def offsets_moved(self, *, is_urgent: bool = False) -> None:
        """The high watermark or the log start has moved: told with the next answer."""
        session = self.session
        if self not in session.ready and self not in session.waiting:
            session.news[self] = None
        if is_urgent:
            session.is_urgent = True
            session.wake()

    def leadership_changed(self) -> None:
        """Whoever leads, and in which epoch: see anew what there is to tell.

        What a follower that names no leader epoch has said was about another leader's log.
        """
        if self.current_leader_epoch == NO_EPOCH and self not in self.session.waiting:
            self.refusal = KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            self.session.place(self)
        else:
            self.session.note(self)
        self.session.wake()

    def replica_changed(self) -> None:
        """What the follower has said was about another replica: have it say it again."""
        self.refusal = KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self.session.place(self)
        self.session.wake()


class FollowerSession(FetchSession):
    """The partitions that one incarnation of a broker fetches over one connection.

    `last_used_ms` is monotonic.
    """

    __slots__ = (
        "_fetches",
        "_is_waking",
        "broker_epoch",
        "followed",
        "is_urgent",
        "news",
        "node_id",
        "parked",
        "ready",
        "refusal",
        "waiting",
    )

    def __init__(
        self,
        session_id: int,
        fetches: FollowerFetches,
        node_id: int,
        broker_epoch: int,
        *,
        uses_topic_ids: bool,
        now_ms: int,
    ) -> None:
        super().__init__(session_id, True, uses_topic_ids, now_ms)
        self._fetches = fetches
        self._is_waking = False
        self.is_urgent = False  # newer offsets are waited for
        self.parked: FollowerFetching | None = None  # the newest fetch, which may have ended
        self.node_id = node_id
        self.broker_epoch = broker_epoch
        # Why nothing of it counts: it is not the registered incarnation of its broker.
        self.refusal: KafkaError | None = fetches.refusal(node_id, broker_epoch)
        self.followed: dict[SessionKey, FollowedPartition] = {}
        self.partitions = cast("dict[SessionKey, FetchPartition]", self.followed)
        # Dictionaries as ordered sets: who was answered longest ago comes first (REQ-8).
        self.ready: dict[FollowedPartition, None] = {}
        self.news: dict[FollowedPartition, None] = {}
        self.waiting: dict[FollowedPartition, None] = {}

    # The follower's side.

    @property
    def is_over(self) -> bool:
        """Whether a newer incarnation is registered; one not known yet is refused otherwise."""
        return self.refusal is not None and self.refusal.code is ErrorCode.NOT_LEADER_OR_FOLLOWER

    def update(self, asked: Iterable[FetchPartition], forgotten: Iterable[SessionKey]) -> None:
        """Note how far the follower is where it says so, and drop the forgotten partitions."""
        for partition in asked:
            key = session_key(partition)
            followed = self.followed.get(key)
            if followed is None:
                followed = self.followed[key] = FollowedPartition(self, partition)
            else:
                if partition.topic_partition.topic:
                    followed.topic_partition = partition.topic_partition
                followed.ask_again(partition)
            followed.asked_number = self._fetches.next_asked_number()
            self.note(followed)
        for key in forgotten:
            followed = self.followed.get(key)
            if followed is not None:
                self.drop(followed)

    def broker_changed(self) -> None:
        """See anew whether this is the registered incarnation of its broker."""
        before, self.refusal = self.refusal, self._fetches.refusal(self.node_id, self.broker_epoch)
        if (before is None) != (self.refusal is None):
            for followed in list(self.followed.values()):
                self.note(followed)
            self.wake()

    def note(self, followed: FollowedPartition) -> None:
        """Count a fetch for the partition where it is valid, and see what there is to tell."""
        followed.refusal = self.refusal
        if self.refusal is not None:
            self.place(followed)  # and it takes no partition from the incarnation that counts
            return
        try:
            partition = self._fetches.find_again(followed)
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
            # Kept for as long as the follower asks nothing else: without the frames that it came
            # through, and all that they know.
            followed.refusal = error.with_traceback(None)
            if not self._attach(followed, self._fetches.partition_of(followed)):
                return
        self.place(followed)

    def _attach(self, followed: FollowedPartition, partition: Partition | None) -> bool:
        """Have it hear of the partition's moves.

        Of several sessions the one hears in which the follower's newest incarnation asked last: it
        may have left others behind, with a leadership that it followed before, and what an earlier
        incarnation asked may come late. Returns False where that is not this one, which is dropped
        then.
        """
        if followed.partition is partition:
            return True
        if followed.partition is not None:
            followed.partition.unwatch(self.node_id, followed)
            followed.partition = None
        if partition is None:
            return True
        other = partition.view_of(self.node_id)
        if isinstance(other, FollowedPartition):
            if other.precedence > followed.precedence:
                self.drop(followed)
                return False
            other.session.drop(other)
        followed.partition = partition
        partition.watch(self.node_id, followed)
        return True

    def drop(self, followed: FollowedPartition) -> None:
        """Tell nothing more about a partition."""
        self.followed.pop(session_key(followed), None)
        self._remove(followed)
        self._attach(followed, None)

    def close(self) -> None:
        """Tell nothing more at all."""
        self._fetches.session_closed(self)
        for followed in list(self.followed.values()):
            self.drop(followed)

    # What there is to tell.

    def place(self, followed: FollowedPartition) -> None:
        """Put a partition where it belongs, last."""
        self._remove(followed)
        partition, refusal = followed.partition, followed.refusal
        if refusal is not None:
            if self._is_unknown_yet(followed, refusal):
                self.waiting[followed] = None
                if partition is None:
                    self._fetches.await_partition(followed)
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
            self.news[followed] = None

    def _is_unknown_yet(self, followed: FollowedPartition, refusal: KafkaError) -> bool:
        partition = followed.partition
        if partition is None:
            return refusal.code in _UNKNOWN_YET or refusal.code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        if partition.leader_epoch < followed.current_leader_epoch:
            return not partition.log.is_offline
        return refusal.code == ErrorCode.UNKNOWN_LEADER_EPOCH

    def _remove(self, followed: FollowedPartition) -> None:
        followed.is_level = False
        self.ready.pop(followed, None)
        self.news.pop(followed, None)
        if self.waiting and self.waiting.pop(followed, self) is None:
            self._fetches.await_no_more(followed)

    def stop_waiting(self) -> None:
        """Tell the follower what is still unknown here: it has waited for long enough."""
        for followed in list(self.waiting):
            self._remove(followed)
            self.ready[followed] = None

    def told(self, followed: FollowedPartition, *, is_error: bool, has_records: bool) -> None:
        """Note that a partition was answered.

        With records it stays ready until the follower says that it has them. An error is told once:
        the follower asks again when it means to go on.
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
            self._fetches.after(self._woken)

    def _woken(self) -> None:
        self._is_waking = False
        self._fetches.purgatory.check_and_complete(self)


def _is_diverging(followed: FollowedPartition, log: PartitionLog) -> bool:
    try:
        return diverging(followed, log) is not None
    except KafkaError:
        return True
