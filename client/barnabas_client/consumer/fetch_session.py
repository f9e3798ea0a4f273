"""Fetch sessions: what of a fetch a broker remembers, so that requests name only what changed.

Pure: no I/O, no clock. Not here: which partitions to ask for and what to do with the answers
(`fetcher.py`). One session per broker, one request of it on its way at a time.

Source: KIP-227 (sessions), KIP-516 (topic ids). The session's id and epoch say what a request is:

    id 0, epoch 0     full, asks for a new session         id n, epoch 0    the same, and ends n
    id n, epoch >= 1  only the changes against what n has  id n, epoch -1   ends n

Invariants: after a request whose fate is not known the next one is full; one session never mixes
topic names (up to version 12) and topic ids (from 13); an answer that names partitions which the
session does not have is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.ids import ZERO_UUID, TopicPartition, Uuid
from barnabas_protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)

SESSION_VERSION_MIN: Final = 7
TOPIC_NAME_VERSION_MAX: Final = 12
EPOCH_MAX: Final = (1 << 31) - 1
_FINAL_EPOCH: Final = -1

_SESSION_ERRORS: Final = frozenset(
    (
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    )
)


class PartitionFetch(NamedTuple):
    """What is asked of one partition."""

    topic_id: Uuid
    fetch_offset: int
    current_leader_epoch: int
    last_fetched_epoch: int
    partition_max_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchLimits:
    """What holds for a request as a whole."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int
    rack_id: str


@dataclass(slots=True)
class _Sent:
    """The request on its way: an answer is judged by it."""

    is_full: bool
    names_by_id: dict[Uuid, str] = field(default_factory=dict)


class FetchSession:
    """The client's end of the session with one broker."""

    __slots__ = ("_epoch", "_partitions", "_sent", "_session_id", "_uses_ids")

    def __init__(self) -> None:
        self._session_id = 0
        self._epoch = 0
        self._uses_ids = False
        # As the broker has it, once the request on its way has arrived.
        self._partitions: dict[TopicPartition, PartitionFetch] = {}
        self._sent: _Sent | None = None

    @property
    def session_id(self) -> int:
        """The broker's name for the session; 0 without one."""
        return self._session_id

    @property
    def partitions(self) -> Mapping[TopicPartition, PartitionFetch]:
        """What was asked for last, of every partition that the newest request stands for."""
        return self._partitions

    def build(
        self, wanted: dict[TopicPartition, PartitionFetch], version: int, limits: FetchLimits
    ) -> tuple[FetchRequest, int]:
        """The next request and its version, at most `version`; takes ownership of `wanted`.

        A topic without an id holds the whole request at version 12.
        """
        if version > TOPIC_NAME_VERSION_MAX and any(
            fetch.topic_id == ZERO_UUID for fetch in wanted.values()
        ):
            version = TOPIC_NAME_VERSION_MAX
        uses_ids = version > TOPIC_NAME_VERSION_MAX
        if uses_ids != self._uses_ids:
            self._epoch = 0
        is_full = self._epoch == 0 or version < SESSION_VERSION_MIN
        changed, forgotten = (wanted, {}) if is_full else self._changes(wanted)
        request = FetchRequest(
            max_wait_ms=limits.max_wait_ms,
            min_bytes=limits.min_bytes,
            max_bytes=limits.max_bytes,
            isolation_level=limits.isolation_level,
            rack_id=limits.rack_id,
            session_id=self._session_id if version >= SESSION_VERSION_MIN else 0,
            session_epoch=self._epoch if version >= SESSION_VERSION_MIN else _FINAL_EPOCH,
            topics=_topics(changed),
            forgotten_topics_data=_forgotten_topics(forgotten),
        )
        self._uses_ids = uses_ids
        self._partitions = wanted
        self._sent = _Sent(is_full)
        if uses_ids:
            names = {fetch.topic_id: tp.topic for tp, fetch in wanted.items()}
            self._sent.names_by_id = names
        return request, version

    def build_final(self) -> FetchRequest | None:
        """The request that frees the broker's memory of the session; None if there is none."""
        if self._session_id == 0:
            return None
        request = FetchRequest(
            session_id=self._session_id, session_epoch=_FINAL_EPOCH, max_wait_ms=0, min_bytes=0
        )
        self._forget()
        return request

    def accept(self, response: FetchResponse) -> list[tuple[TopicPartition, PartitionData]] | None:
        """The partitions of an answer; None if it must not be used: the next request is full."""
        sent = self._sent
        assert sent is not None, "an answer without a request"
        self._sent = None
        if response.error_code != ErrorCode.NONE:
            self._lose(response.error_code)
            return None
        answers: list[tuple[TopicPartition, PartitionData]] = []
        for topic in response.responses:
            name = sent.names_by_id.get(topic.topic_id) if self._uses_ids else topic.topic
            for data in topic.partitions:
                if name is None or (name, data.partition_index) not in self._partitions:
                    # The broker has another idea of the session than this side.
                    self._close_then_renew()
                    return None
                answers.append((TopicPartition(name, data.partition_index), data))
        if sent.is_full and len(answers) != len(self._partitions):
            self._close_then_renew()
            return None
        if response.session_id == 0:
            self._forget()
        elif sent.is_full:
            self._session_id, self._epoch = response.session_id, 1
        else:
            self._epoch = self._epoch + 1 if self._epoch < EPOCH_MAX else 1
        return answers

    def fail(self) -> None:
        """The request got no answer: whether the broker has seen it is not known."""
        self._sent = None
        self._close_then_renew()

    def _changes(
        self, wanted: dict[TopicPartition, PartitionFetch]
    ) -> tuple[dict[TopicPartition, PartitionFetch], dict[TopicPartition, PartitionFetch]]:
        """What to tell of the difference: partitions to set, partitions to forget."""
        known = self._partitions
        changed = {tp: fetch for tp, fetch in wanted.items() if known.get(tp) != fetch}
        forgotten = {
            tp: fetch
            for tp, fetch in known.items()
            # A topic that was made anew goes by another id: its old one is forgotten.
            if tp not in wanted or wanted[tp].topic_id != fetch.topic_id
        }
        return changed, forgotten

    def _lose(self, error_code: int) -> None:
        if error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
            self._forget()
        else:
            self._close_then_renew()

    def _close_then_renew(self) -> None:
        self._epoch = 0

    def _forget(self) -> None:
        self._session_id = 0
        self._epoch = 0


def is_session_error(error_code: int) -> bool:
    """Whether an answer as a whole says no more than that the session must begin anew."""
    return error_code in _SESSION_ERRORS


def _topics(partitions: dict[TopicPartition, PartitionFetch]) -> list[FetchTopic]:
    topics: dict[tuple[str, Uuid], FetchTopic] = {}
    for (name, partition), fetch in partitions.items():
        key = (name, fetch.topic_id)
        topic = topics.get(key)
        if topic is None:
            topic = topics[key] = FetchTopic(topic=name, topic_id=fetch.topic_id, partitions=[])
        topic.partitions.append(
            FetchPartition(
                partition=partition,
                current_leader_epoch=fetch.current_leader_epoch,
                fetch_offset=fetch.fetch_offset,
                last_fetched_epoch=fetch.last_fetched_epoch,
                partition_max_bytes=fetch.partition_max_bytes,
            )
        )
    return list(topics.values())


def _forgotten_topics(partitions: dict[TopicPartition, PartitionFetch]) -> list[ForgottenTopic]:
    topics: dict[tuple[str, Uuid], ForgottenTopic] = {}
    for (name, partition), fetch in partitions.items():
        topic = topics.setdefault(
            (name, fetch.topic_id),
            ForgottenTopic(topic=name, topic_id=fetch.topic_id, partitions=[]),
        )
        topic.partitions.append(partition)
    return list(topics.values())
