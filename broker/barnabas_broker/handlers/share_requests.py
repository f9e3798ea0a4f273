"""What the two requests of share group members to leaders have in common.

Who sends them, which partitions they name, what they acknowledge, and the leaders where a
partition is led elsewhere. Source: KIP-932, KIP-951; SHR-15, SHR-20, SHR-33.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Sequence, Set
from typing import Any, Final

from barnabas_broker.handlers.authorization import refused_topics
from barnabas_broker.handlers.current_leaders import CurrentLeaders, LeaderIdAndEpoch
from barnabas_broker.handlers.request_limits import LOOP_BYTES_MAX
from barnabas_broker.handlers.services import Services
from barnabas_broker.network.heavy_work import ConnectionGoneError
from barnabas_broker.network.session import InFlightRequest
from barnabas_broker.share.record_states import AcknowledgementBatch
from barnabas_broker.share.share_partitions import Outcome
from barnabas_broker.share.share_session import (
    MemberKey,
    SessionPartition,
    check_partition_count,
)
from barnabas_protocol.acl import AclOperation
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.ids import TopicPartition, Uuid

SINCE_RENEWAL: Final = 2
ID_LENGTH_MAX: Final = 36
_PAUSE_AFTER: Final = 500
"""After so many types, and ranges in flight, the loop goes on before the next partition."""
NO_LEADER: Final = LeaderIdAndEpoch(-1, -1)
_MOVED: Final = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)

Acknowledgements = dict[SessionPartition, list[AcknowledgementBatch]]


def unreadable_topics(
    services: Services, in_flight: InFlightRequest, partitions: Iterable[SessionPartition]
) -> Set[Uuid]:
    """The ids of the topics that the client may not read; of an unknown id nobody says so."""
    authorizer = services.authorizer
    if authorizer is None:
        return frozenset()
    by_id = services.image.topics.by_id
    topics = (by_id.get(topic_id) for topic_id in {one.topic_id for one in partitions})
    names = {topic.name: topic.topic_id for topic in topics if topic is not None}
    refused = refused_topics(services, authorizer, in_flight, AclOperation.READ, names.keys())
    return {names[name] for name in refused}


def member_of(request: Any) -> MemberKey:
    """Return who sends a request. Raises: KafkaError INVALID_REQUEST where it does not say."""
    group_id, member_id = request.group_id, request.member_id
    if not group_id or not member_id or len(member_id) > ID_LENGTH_MAX:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "a group and a member of 1 to 36 characters")
    return MemberKey(group_id, member_id)


def check_named_partitions(topics: Sequence[Any]) -> None:
    """Refuse a request that names more partitions than a session has, whatever it is to do.

    Raises: KafkaError INVALID_REQUEST.
    """
    check_partition_count(len(topics))  # a topic without partitions counts, too
    check_partition_count(sum(len(topic.partitions) for topic in topics))


def named_partitions(topics: Iterable[Any]) -> list[SessionPartition]:
    """Return the partitions that a request names, in its order, each once."""
    return list(
        dict.fromkeys(
            SessionPartition(topic.topic_id, partition.partition_index)
            for topic in topics
            for partition in topic.partitions
        )
    )


async def acknowledgements_of(
    services: Services, in_flight: InFlightRequest, topics: Iterable[Any]
) -> Acknowledgements:
    """Return what a request acknowledges, by partition; of a repeated one what comes last.

    Raises: ConnectionGoneError.
    """
    if len(in_flight.frame) <= LOOP_BYTES_MAX:
        return _acknowledgements_of(topics)
    found = await services.heavy_work.run(in_flight, _acknowledgements_of, topics)
    if in_flight.session.is_closed:
        raise ConnectionGoneError
    return found


def _acknowledgements_of(topics: Iterable[Any]) -> Acknowledgements:
    return {
        SessionPartition(topic.topic_id, partition.partition_index): [
            AcknowledgementBatch(batch.first_offset, batch.last_offset, batch.acknowledge_types)
            for batch in partition.acknowledgement_batches
        ]
        for topic in topics
        for partition in topic.partitions
        if partition.acknowledgement_batches
    }


async def begin_acknowledgements(
    services: Services,
    in_flight: InFlightRequest,
    member: MemberKey,
    acknowledgements: Acknowledgements,
    unreadable: Set[Uuid] = frozenset(),
    *,
    is_renew: bool,
) -> dict[SessionPartition, Awaitable[Outcome]]:
    """Acknowledge each partition by itself; returns what becomes of each.

    `unreadable` are the topics that the client may not read.
    Raises: ConnectionGoneError.
    """
    shares = services.share_partitions
    outcomes: dict[SessionPartition, Awaitable[Outcome]] = {}
    refused: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
    refused.set_result(KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    work = 0
    for partition, batches in acknowledgements.items():
        if partition.topic_id in unreadable:
            outcomes[partition] = refused
            continue
        if work > _PAUSE_AFTER:
            work = 0
            await services.heavy_work.pause_of(in_flight)
        # One batch with one type may be over all that is in flight, cut as finely as can be.
        work += 1 + sum(len(batch.types) for batch in batches)
        work += shares.range_count(member.group_id, partition)
        outcomes[partition] = shares.acknowledge(member, partition, batches, is_renew=is_renew)
    return outcomes


async def results_of(
    outcomes: dict[SessionPartition, Awaitable[Outcome]],
) -> dict[SessionPartition, Outcome]:
    """Wait until everything that was acknowledged is written, or has failed."""
    return {partition: await outcome for partition, outcome in outcomes.items()}


class Leaders:
    """The leaders of the partitions of a response that are led elsewhere (KIP-951)."""

    __slots__ = ("_by_id", "_current")

    def __init__(
        self,
        services: Services,
        in_flight: InFlightRequest,
        errors: Iterable[tuple[SessionPartition, Outcome]],
    ) -> None:
        """`errors`: what has become of the partitions of the response."""
        self._by_id = services.image.topics.by_id
        moved = [one for one, error in errors if error is not None and error.code in _MOVED]
        names = [name for name in map(self._name_of, moved) if name is not None]
        self._current = CurrentLeaders.find(services.image, in_flight, names)

    def _name_of(self, partition: SessionPartition) -> TopicPartition | None:
        topic = self._by_id.get(partition.topic_id)
        return None if topic is None else TopicPartition(topic.name, partition.partition)

    def leader_of(self, partition: SessionPartition) -> LeaderIdAndEpoch:
        """Who leads a partition; -1 and -1 where that is of no interest."""
        name = self._name_of(partition)
        return NO_LEADER if name is None else self._current.leaders.get(name, NO_LEADER)

    @property
    def endpoints(self) -> Sequence[Any]:
        """Where these brokers are reached."""
        return list(self._current.endpoints.values())
