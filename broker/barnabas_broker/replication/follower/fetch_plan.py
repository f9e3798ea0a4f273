"""Builds a follower's fetch requests to one leader and matches the responses: pure.

Keeps the partitions that one fetcher follows, the fetch offset of each, which wait, and what the
leader's fetch session knows of them, so that a request carries only what changed. Sends and appends
nothing.

Source: KIP-227 (sessions), REP-9, REP-10, REQ-9. Invariants: a partition is in at most one of the
states `Progress` names; a response counts only for the position that the leader knew when it sent
it; what was not requested is never used. The directory of a replica is not sent: as in Kafka, only
members of a metadata log name theirs (here in `metadata_fetch`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from barnabas_protocol.backoff import ExponentialBackoff
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.fetch_metadata import FetchMetadata
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.messages import fetch

# A leader that does not know of its leadership yet will in a moment.
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
    """Whether a partition is fetched."""

    FETCHING = "fetching"
    DELAYED = "delayed"  # again when its time has come
    PARKED = "parked"  # not before there is newer metadata
    FAILED = "failed"  # as parked, after a fault of our own


class PartitionFetchState:
    """One partition that is followed, and where it goes on. Offsets are exclusive ends."""

    __slots__ = (
        "delayed_until_ms",
        "failure_count",
        "fetch_offset",
        "key",
        "lag",
        "last_fetched_epoch",
        "leader_epoch",
        "log_start_offset",
        "logged_code",
        "progress",
        "sent_in",
        "sent_position",
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
        self.logged_code = 0  # the leader's last error that was logged: once, not each second
        # Records that the leader has committed and we lack; -1: not known.
        self.lag = -1
        # The position that the leader's session knows, and the number of the request that sent it.
        self.sent_position = (NO_OFFSET, -1, NO_OFFSET)
        self.sent_in = 0

    @property
    def position(self) -> tuple[int, int, int]:
        """Where it goes on: fetch offset, last fetched epoch, log start offset."""
        return self.fetch_offset, self.last_fetched_epoch, self.log_start_offset

    def stand_at(self, offset: int, last_fetched_epoch: int, log_start_offset: int) -> None:
        """Go on from here."""
        self.fetch_offset = offset
        self.last_fetched_epoch = last_fetched_epoch
        self.log_start_offset = log_start_offset


class PartitionResponse(NamedTuple):
    """The response for one partition.

    `is_late`: the partition has moved on since the request; records are of no use, offsets are.
    """

    followed: PartitionFetchState
    data: fetch.PartitionData
    is_late: bool


class NumberedRequest(NamedTuple):
    """A request with its number."""

    number: int
    request: fetch.FetchRequest


class FetchPlan:
    """The partitions that one fetcher follows from one leader."""

    def __init__(
        self,
        settings: FetchSettings,
        node_id: int,
        waits_ms: Callable[[PartitionFetchState], int] = lambda followed: 0,
    ) -> None:
        """Make an empty one; `waits_ms` gives how long a quota holds a partition back."""
        self._settings = settings
        self._waits_ms = waits_ms
        self._node_id = node_id
        self.followed: dict[TopicPartition, PartitionFetchState] = {}
        self._by_key: dict[PartitionKey, PartitionFetchState] = {}
        # What the next request names, in order; dictionaries serve as ordered sets.
        self._changed: dict[PartitionFetchState, None] = {}
        self._forgotten: dict[PartitionKey, None] = {}
        self._in_session: set[PartitionKey] = set()
        self._delayed: dict[PartitionFetchState, None] = {}
        self._fetching_count = 0
        self._session = FetchMetadata()
        self._session_since = 1  # the number of the first request that is of this session
        self._number = 0
        self.unexpected_count = 0

    # Partitions.

    def follow(self, followed: PartitionFetchState) -> None:
        """Follow a partition, from now on by this state."""
        self._drop(followed.topic_partition)
        self.followed[followed.topic_partition] = followed
        self._by_key[followed.key] = followed
        self._fetch(followed)

    def unfollow(self, topic_partition: TopicPartition) -> PartitionFetchState | None:
        """Follow a partition no more; returns it."""
        followed = self._drop(topic_partition)
        if followed is not None:
            self._forget(followed)
        return followed

    def moved(self, followed: PartitionFetchState) -> None:
        """Note that a partition may go on from elsewhere than the leader knows."""
        if followed.progress is Progress.FETCHING and followed.sent_position != followed.position:
            self._changed[followed] = None

    def delay(self, followed: PartitionFetchState, now_ms: int, *, is_quick: bool = False) -> None:
        """Leave a partition alone for a while: quick ones a moment that doubles each time."""
        followed.failure_count += 1
        wait_ms = self._settings.backoff_ms
        if is_quick:
            backoff = ExponentialBackoff(QUICK_BACKOFF_MS, wait_ms)
            wait_ms = backoff.wait_ms(followed.failure_count - 1)
        self.delay_until(followed, now_ms + wait_ms)

    def delay_until(self, followed: PartitionFetchState, until_ms: int) -> None:
        """Leave a partition alone until a time (monotonic)."""
        self._leave(followed, Progress.DELAYED)
        followed.delayed_until_ms = until_ms
        self._delayed[followed] = None

    def park(self, followed: PartitionFetchState, progress: Progress = Progress.PARKED) -> None:
        """Leave a partition alone until it is followed anew."""
        self._leave(followed, progress)

    def _leave(self, followed: PartitionFetchState, progress: Progress) -> None:
        if followed.progress is Progress.FETCHING:
            self._fetching_count -= 1
        self._delayed.pop(followed, None)
        self._changed.pop(followed, None)
        followed.progress = progress
        self._forget(followed)

    def _drop(self, topic_partition: TopicPartition) -> PartitionFetchState | None:
        followed = self.followed.pop(topic_partition, None)
        if followed is None:
            return None
        del self._by_key[followed.key]
        if followed.progress is Progress.FETCHING:
            self._fetching_count -= 1
        self._changed.pop(followed, None)
        self._delayed.pop(followed, None)
        return followed

    def _forget(self, followed: PartitionFetchState) -> None:
        if followed.key in self._in_session:
            self._forgotten[followed.key] = None

    @property
    def failed_count(self) -> int:
        """Partitions that are left alone after a fault of our own."""
        return sum(item.progress is Progress.FAILED for item in self.followed.values())

    # Requests.

    @property
    def has_changes(self) -> bool:
        """Whether there are partitions that the leader does not send yet."""
        return bool(self._changed)

    @property
    def has_session(self) -> bool:
        """Whether a further request may be sent before the last one has its response."""
        return not self._session.is_full

    def next_request(self, now_ms: int, broker_epoch: int) -> NumberedRequest | None:
        """The next request; None if there is nothing to fetch now: see `idle_ms`."""
        self._wake_delayed(now_ms)
        if not self._fetching_count:
            self.lost()
            return None
        session = self._session
        is_full = session.is_full
        self._number += 1
        if is_full:
            self._session_since = self._number
            self._in_session.clear()
            self._forgotten.clear()
            changed = [p for p in self.followed.values() if p.progress is Progress.FETCHING]
        else:
            changed = list(self._changed)
        settings = self._settings
        request = fetch.FetchRequest(
            replica_state=fetch.ReplicaState(replica_id=self._node_id, replica_epoch=broker_epoch),
            max_wait_ms=min(settings.wait_ms_max, self.idle_ms(now_ms, settings.wait_ms_max)),
            min_bytes=settings.min_bytes,
            max_bytes=settings.response_bytes_max,
            session_id=session.session_id,
            session_epoch=session.epoch,
            topics=self._topics(changed),
            forgotten_topics_data=_forgotten_topics(self._forgotten),
        )
        self._in_session.difference_update(self._forgotten)
        self._forgotten.clear()
        self._changed.clear()
        if not is_full:
            self._session = session.next_incremental()
        return NumberedRequest(self._number, request)

    def _topics(self, changed: Iterable[PartitionFetchState]) -> list[fetch.FetchTopic]:
        topics: dict[bytes, fetch.FetchTopic] = {}
        number, bytes_max = self._number, self._settings.partition_bytes_max
        for followed in changed:
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
            followed.sent_in = number
            followed.sent_position = followed.position
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

    def _fetch(self, followed: PartitionFetchState) -> None:
        """Fetch it from now on; a session drops what it forgets after it took what is requested."""
        followed.progress = Progress.FETCHING
        self._fetching_count += 1
        self._changed[followed] = None
        self._forgotten.pop(followed.key, None)

    # Responses.

    def take(self, number: int, response: fetch.FetchResponse) -> list[PartitionResponse] | None:
        """The responses for the partitions that were requested; None if the response is an error.

        After an error the next request begins a new session.
        """
        if number < self._session_since:
            return []  # of a session that was given up meanwhile
        if response.error_code != ErrorCode.NONE:
            self.lost()
            self._session = self._session.on_error(response.error_code)
            return None
        if number == self._session_since:
            self._session = self._session.on_full_response(response.session_id)
        responses: list[PartitionResponse] = []
        by_key = self._by_key
        for topic in response.responses:
            for data in topic.partitions:
                followed = by_key.get((topic.topic_id, data.partition_index))
                if followed is None or followed.progress is not Progress.FETCHING:
                    self._note_unexpected(topic.topic_id, data.partition_index)
                elif 0 < followed.sent_in <= number:
                    is_late = followed.sent_position[0] != followed.fetch_offset
                    responses.append(PartitionResponse(followed, data, is_late))
                # Else it has been requested otherwise meanwhile, or is about to be.
        return responses

    def _note_unexpected(self, topic_id: bytes, partition: int) -> None:
        """Count what was never requested; what we only stopped following is no surprise."""
        if (topic_id, partition) not in self._in_session:
            self.unexpected_count += 1

    def lost(self) -> None:
        """Begin a new session with the next request: one got no response, or an error.

        It names the old session, so that the leader can let go of it (REQ-10).
        """
        self._session = self._session.close_existing_attempt_new()
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
