"""What a follower asks one leader next, and whose answer is still of use: pure.

Keeps the partitions that one fetcher follows, where each goes on, which wait, and what the leader's
fetch session knows of them, so that a request carries only what changed. Sends and appends
nothing.

Source: KIP-227 (sessions), REP-9, REP-10, REQ-9. Invariants: a partition is in at most one of the
states `Progress` names; an answer counts only for the position that the leader knew when it
was given; what was not asked for is never used. The directory of a replica is not told: as in
Kafka, only members of a metadata log name theirs (here in `metadata_fetch`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.messages import fetch

_EPOCH_MAX = 2**31 - 1
_INITIAL_EPOCH = 0
_NO_SESSION = 0
# A leader that has not heard of its leadership yet will in a moment.
QUICK_BACKOFF_MS = 20
NO_OFFSET = -1

PartitionKey = tuple[bytes, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchSettings:
    """How a follower fetches: Kafka's `replica.fetch.*`. Times in ms, sizes in bytes."""

    wait_ms_max: int
    min_bytes: int
    response_bytes_max: int
    partition_bytes_max: int
    backoff_ms: int
    request_timeout_ms: int


class Progress(Enum):
    """Whether a partition is asked for."""

    FETCHING = "fetching"
    DELAYED = "delayed"  # again when its time has come
    PARKED = "parked"  # not before there is newer metadata
    FAILED = "failed"  # as parked, after a fault of our own


class Followed:
    """One partition that is followed, and where it goes on. Offsets are exclusive ends."""

    __slots__ = (
        "asked",
        "asked_in",
        "delayed_until_ms",
        "failure_count",
        "fetch_offset",
        "key",
        "lag",
        "last_fetched_epoch",
        "leader_epoch",
        "log_start_offset",
        "progress",
        "told_code",
        "topic_partition",
    )

    def __init__(self, topic_partition: TopicPartition, topic_id: bytes, leader_epoch: int) -> None:
        self.topic_partition = topic_partition
        self.key: PartitionKey = (topic_id, topic_partition.partition)
        self.leader_epoch = leader_epoch
        self.fetch_offset = 0
        self.last_fetched_epoch = -1
        self.log_start_offset = 0
        self.progress = Progress.FETCHING
        self.delayed_until_ms = 0
        self.failure_count = 0
        self.told_code = 0  # the leader's last error that was logged: said once, not each second
        # Records that the leader has committed and we lack; -1: not known.
        self.lag = -1
        # The position that the leader's session knows, and the number of the request that told it.
        self.asked = (NO_OFFSET, -1, NO_OFFSET)
        self.asked_in = 0

    @property
    def position(self) -> tuple[int, int, int]:
        """Where it goes on: fetch offset, last fetched epoch, log start offset."""
        return self.fetch_offset, self.last_fetched_epoch, self.log_start_offset

    def stand_at(self, offset: int, last_fetched_epoch: int, log_start_offset: int) -> None:
        """Go on from here."""
        self.fetch_offset = offset
        self.last_fetched_epoch = last_fetched_epoch
        self.log_start_offset = log_start_offset


class Answered(NamedTuple):
    """What a leader says of one partition. `is_late`: we have moved on since; records are of no
    use, offsets are.
    """

    followed: Followed
    data: fetch.PartitionData
    is_late: bool


class Ask(NamedTuple):
    """A request with its number."""

    number: int
    request: fetch.FetchRequest


class FetchPlan:
    """The partitions that one fetcher follows from one leader."""

    def __init__(
        self,
        settings: FetchSettings,
        node_id: int,
        waits_ms: Callable[[Followed], int] = lambda followed: 0,
    ) -> None:
        """Make an empty one; `waits_ms` says how long a quota holds a partition back."""
        self._settings = settings
        self._waits_ms = waits_ms
        self._node_id = node_id
        self.followed: dict[TopicPartition, Followed] = {}
        self._by_key: dict[PartitionKey, Followed] = {}
        # What the next request tells, in order; dictionaries serve as ordered sets.
        self._news: dict[Followed, None] = {}
        self._forgotten: dict[PartitionKey, None] = {}
        self._in_session: set[PartitionKey] = set()
        self._delayed: dict[Followed, None] = {}
        self._fetching_count = 0
        self._session_id = _NO_SESSION
        self._session_epoch = _INITIAL_EPOCH
        self._session_since = 1  # the number of the first request that is of this session
        self._number = 0
        self.unexpected_count = 0

    # Partitions.

    def follow(self, followed: Followed) -> None:
        """Follow a partition, from now on as this says."""
        self._drop(followed.topic_partition)
        self.followed[followed.topic_partition] = followed
        self._by_key[followed.key] = followed
        self._fetch(followed)

    def unfollow(self, topic_partition: TopicPartition) -> Followed | None:
        """Follow a partition no more; returns it."""
        followed = self._drop(topic_partition)
        if followed is not None:
            self._forget(followed)
        return followed

    def moved(self, followed: Followed) -> None:
        """Note that a partition may go on from elsewhere than the leader knows."""
        if followed.progress is Progress.FETCHING and followed.asked != followed.position:
            self._news[followed] = None

    def delay(self, followed: Followed, now_ms: int, *, is_quick: bool = False) -> None:
        """Leave a partition alone for a while: quick ones a moment that doubles each time."""
        followed.failure_count += 1
        wait_ms = self._settings.backoff_ms
        if is_quick:
            wait_ms = min(wait_ms, QUICK_BACKOFF_MS << min(followed.failure_count - 1, 16))
        self.delay_until(followed, now_ms + wait_ms)

    def delay_until(self, followed: Followed, until_ms: int) -> None:
        """Leave a partition alone until a time (monotonic)."""
        self._leave(followed, Progress.DELAYED)
        followed.delayed_until_ms = until_ms
        self._delayed[followed] = None

    def park(self, followed: Followed, progress: Progress = Progress.PARKED) -> None:
        """Leave a partition alone until it is followed anew."""
        self._leave(followed, progress)

    def _leave(self, followed: Followed, progress: Progress) -> None:
        if followed.progress is Progress.FETCHING:
            self._fetching_count -= 1
        self._delayed.pop(followed, None)
        self._news.pop(followed, None)
        followed.progress = progress
        self._forget(followed)

    def _drop(self, topic_partition: TopicPartition) -> Followed | None:
        followed = self.followed.pop(topic_partition, None)
        if followed is None:
            return None
        del self._by_key[followed.key]
        if followed.progress is Progress.FETCHING:
            self._fetching_count -= 1
        self._news.pop(followed, None)
        self._delayed.pop(followed, None)
        return followed

    def _forget(self, followed: Followed) -> None:
        if followed.key in self._in_session:
            self._forgotten[followed.key] = None

    @property
    def failed_count(self) -> int:
        """Partitions that are left alone after a fault of our own."""
        return sum(item.progress is Progress.FAILED for item in self.followed.values())

    # Requests.

    @property
    def has_news(self) -> bool:
        """Whether there are partitions that the leader does not send yet."""
        return bool(self._news)

    @property
    def has_session(self) -> bool:
        """Whether a further request may be sent before the last one is answered."""
        return self._session_epoch != _INITIAL_EPOCH

    def next_ask(self, now_ms: int, broker_epoch: int) -> Ask | None:
        """The next request; None if there is nothing to ask now: see `idle_ms`."""
        self._wake_delayed(now_ms)
        if not self._fetching_count:
            self.lost()
            return None
        is_full = self._session_epoch == _INITIAL_EPOCH
        self._number += 1
        if is_full:
            self._session_since = self._number
            self._in_session.clear()
            self._forgotten.clear()
            news = [p for p in self.followed.values() if p.progress is Progress.FETCHING]
        else:
            news = list(self._news)
        settings = self._settings
        request = fetch.FetchRequest(
            replica_state=fetch.ReplicaState(replica_id=self._node_id, replica_epoch=broker_epoch),
            max_wait_ms=min(settings.wait_ms_max, self.idle_ms(now_ms, settings.wait_ms_max)),
            min_bytes=settings.min_bytes,
            max_bytes=settings.response_bytes_max,
            session_id=self._session_id,
            session_epoch=self._session_epoch,
            topics=self._topics(news),
            forgotten_topics_data=_forgotten_topics(self._forgotten),
        )
        self._in_session.difference_update(self._forgotten)
        self._forgotten.clear()
        self._news.clear()
        if not is_full:
            epoch = self._session_epoch
            self._session_epoch = 1 if epoch == _EPOCH_MAX else epoch + 1
        return Ask(self._number, request)

    def _topics(self, news: Iterable[Followed]) -> list[fetch.FetchTopic]:
        topics: dict[bytes, fetch.FetchTopic] = {}
        number, bytes_max = self._number, self._settings.partition_bytes_max
        for followed in news:
            topic_id, partition = followed.key
            topic = topics.get(topic_id)
            if topic is None:
                topic = topics[topic_id] = fetch.FetchTopic(topic_id=topic_id, partitions=[])
            topic.partitions.append(
                fetch.FetchPartition(
                    partition=partition,
                    current_leader_epoch=followed.leader_epoch,
                    fetch_offset=followed.fetch_offset,
                    last_fetched_epoch=followed.last_fetched_epoch,
                    log_start_offset=followed.log_start_offset,
                    partition_max_bytes=bytes_max,
                )
            )
            followed.asked_in = number
            followed.asked = followed.position
            self._in_session.add(followed.key)
        return list(topics.values())

    def idle_ms(self, now_ms: int, at_most_ms: int) -> int:
        """How long nothing becomes due by itself."""
        if not self._delayed:
            return at_most_ms
        due_ms = min(followed.delayed_until_ms for followed in self._delayed)
        return max(0, min(at_most_ms, due_ms - now_ms))

    def _wake_delayed(self, now_ms: int) -> None:
        if not self._delayed:
            return
        for followed in [p for p in self._delayed if p.delayed_until_ms <= now_ms]:
            wait_ms = self._waits_ms(followed)
            if wait_ms:
                followed.delayed_until_ms = now_ms + wait_ms
            else:
                del self._delayed[followed]
                self._fetch(followed)

    def _fetch(self, followed: Followed) -> None:
        """Ask for it from now on; a session drops what it forgets after it took what is asked."""
        followed.progress = Progress.FETCHING
        self._fetching_count += 1
        self._news[followed] = None
        self._forgotten.pop(followed.key, None)

    # Answers.

    def take(self, number: int, response: fetch.FetchResponse) -> list[Answered] | None:
        """What an answer says of the partitions that were asked for; None: it is an error.

        After an error the next request begins a new session.
        """
        if number < self._session_since:
            return []  # of a session that was given up meanwhile
        if response.error_code != ErrorCode.NONE:
            self.lost()
            if response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
                self._session_id = _NO_SESSION  # it may be somebody else's by now
            return None
        if number == self._session_since:
            self._session_id = response.session_id
            begins = response.session_id != _NO_SESSION
            self._session_epoch = 1 if begins else _INITIAL_EPOCH
        answers: list[Answered] = []
        by_key = self._by_key
        for topic in response.responses:
            for data in topic.partitions:
                followed = by_key.get((topic.topic_id, data.partition_index))
                if followed is None or followed.progress is not Progress.FETCHING:
                    self._note_unexpected(topic.topic_id, data.partition_index)
                elif 0 < followed.asked_in <= number:
                    is_late = followed.asked[0] != followed.fetch_offset
                    answers.append(Answered(followed, data, is_late))
                # Else it has been asked for otherwise meanwhile, or is about to be.
        return answers

    def _note_unexpected(self, topic_id: bytes, partition: int) -> None:
        """Count what was never asked for; what we only stopped following is no surprise."""
        if (topic_id, partition) not in self._in_session:
            self.unexpected_count += 1

    def lost(self) -> None:
        """Begin a new session with the next request: one got no answer, or a refusal.

        It names the old session, so that the leader can let go of it (REQ-10).
        """
        self._session_epoch = _INITIAL_EPOCH
        self._session_since = self._number + 1
        self._in_session.clear()
        self._forgotten.clear()


def _forgotten_topics(forgotten: Iterable[PartitionKey]) -> list[fetch.ForgottenTopic]:
    topics: dict[bytes, list[int]] = {}
    for topic_id, partition in forgotten:
        topics.setdefault(topic_id, []).append(partition)
    return [
        fetch.ForgottenTopic(topic_id=topic_id, partitions=partitions)
        for topic_id, partitions in topics.items()
    ]
