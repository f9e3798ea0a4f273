"""The consumer's end of the fetch session with one broker: requests name only what changed.

Pure: no I/O, no clock. Not here: session ids and epochs (`barnabas_protocol.fetch_metadata`), which
partitions to fetch and what to do with responses (`fetcher.py`). One session per broker, one
request of it in flight.

Source: KIP-227 (sessions), KIP-516 (topic ids).
Invariants: after a request whose fate is not known the next one is full; one session never mixes
topic names (up to version 12) and topic ids (from 13); a response that names partitions which the
session does not have is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.fetch_metadata import (
    FINAL_EPOCH,
    NO_SESSION_ID,
    FetchMetadata,
)
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
_WITHOUT_SESSION: Final = FetchMetadata(NO_SESSION_ID, FINAL_EPOCH)


class PartitionFetch(NamedTuple):
    """The fields of a request for one partition."""

    topic_id: Uuid
    fetch_offset: int
    current_leader_epoch: int
    last_fetched_epoch: int
    partition_max_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchLimits:
    """The fields of a request that hold for all of its partitions."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int
    rack_id: str


@dataclass(slots=True)
class _Sent:
    """The request in flight, which the response is checked against."""

    is_full: bool
    names_by_id: dict[Uuid, str] = field(default_factory=dict)


class FetchSession:
    """The partitions of the session, and the changes for the next request."""

    __slots__ = ("_metadata", "_partitions", "_sent", "_uses_ids")

    def __init__(self) -> None:
        self._metadata = FetchMetadata()
        self._uses_ids = False
        # As the broker has them, once the request in flight has arrived.
        self._partitions: dict[TopicPartition, PartitionFetch] = {}
        self._sent: _Sent | None = None

    @property
    def partitions(self) -> Mapping[TopicPartition, PartitionFetch]:
        """The newest fetch of every partition of the session."""
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
            self._metadata = self._metadata.close_existing_attempt_new()
        metadata = self._metadata if version >= SESSION_VERSION_MIN else _WITHOUT_SESSION
        is_full = metadata.is_full
        changed, forgotten = (wanted, {}) if is_full else self._changes(wanted)
        request = FetchRequest(
            max_wait_ms=limits.max_wait_ms,
            min_bytes=limits.min_bytes,
            max_bytes=limits.max_bytes,
            isolation_level=limits.isolation_level,
            rack_id=limits.rack_id,
            session_id=metadata.session_id,
            session_epoch=metadata.epoch,
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
        """The request that ends the session at the broker; None if there is none."""
        final = self._metadata.final()
        if final is None:
            return None
        self._metadata = FetchMetadata()
        return FetchRequest(
            session_id=final.session_id, session_epoch=final.epoch, max_wait_ms=0, min_bytes=0
        )

    def accept(self, response: FetchResponse) -> list[tuple[TopicPartition, PartitionData]] | None:
        """The partitions of a response; None if it must not be used: the next request is full."""
        sent = self._sent
        assert sent is not None, "a response without a request"
        self._sent = None
        if response.error_code != ErrorCode.NONE:
            self._metadata = self._metadata.on_error(response.error_code)
            return None
        found: list[tuple[TopicPartition, PartitionData]] = []
        for topic in response.responses:
            name = sent.names_by_id.get(topic.topic_id) if self._uses_ids else topic.topic
            for data in topic.partitions:
                if name is None or (name, data.partition_index) not in self._partitions:
                    # The two ends do not agree on the partitions of the session.
                    self._refuse()
                    return None
                found.append((TopicPartition(name, data.partition_index), data))
        if sent.is_full and len(found) != len(self._partitions):
            self._refuse()
            return None
        if sent.is_full or response.session_id == NO_SESSION_ID:
            self._metadata = self._metadata.on_full_response(response.session_id)
        else:
            self._metadata = self._metadata.next_incremental()
        return found

    def fail(self) -> None:
        """The request got no response: whether the broker has seen it is not known."""
        self._sent = None
        self._metadata = self._metadata.close_existing_attempt_new()

    def _refuse(self) -> None:
        self._metadata = self._metadata.close_existing_attempt_new()

    def _changes(
        self, wanted: dict[TopicPartition, PartitionFetch]
    ) -> tuple[dict[TopicPartition, PartitionFetch], dict[TopicPartition, PartitionFetch]]:
        """How the partitions differ from those of the session: to be set, to be forgotten."""
        known = self._partitions
        changed = {tp: fetch for tp, fetch in wanted.items() if known.get(tp) != fetch}
        forgotten = {
            tp: fetch
            for tp, fetch in known.items()
            # A topic that was created again has another id: its old one is forgotten.
            if tp not in wanted or wanted[tp].topic_id != fetch.topic_id
        }
        return changed, forgotten


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
