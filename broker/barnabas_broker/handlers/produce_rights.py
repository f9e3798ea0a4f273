"""What of a Produce request its client may append, where there is an authorizer.

A transactional batch needs a transactional id that the client may use, whatever else the request
holds; of the topics each is judged by itself. Source: SEC-46, SHR-35.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from functools import partial

from barnabas_broker.handlers.authorization import refused_of_many_topics, refused_topics, require
from barnabas_broker.handlers.broker_listener import is_of_brokers
from barnabas_broker.handlers.services import Services
from barnabas_broker.metadata.image import RESOURCE_TOPIC
from barnabas_broker.network.session import InFlightRequest
from barnabas_broker.replication.leader.delayed_produce import Done, ProduceResult, TopicRecords
from barnabas_broker.security.authorizer import Authorizer
from barnabas_protocol.acl import AclOperation, AclResourceType
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.records.batch import is_transactional


def check_transactional_id(
    services: Services,
    in_flight: InFlightRequest,
    transactional_id: str | None,
    entries: TopicRecords,
) -> None:
    """Refuse a transactional batch without an id that the client may use. Raises: KafkaError 53."""
    if not any(records and is_transactional(records) for _, _, records in entries):
        return
    if transactional_id is None:
        raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    require(
        services,
        in_flight,
        AclOperation.WRITE,
        AclResourceType.TRANSACTIONAL_ID,
        transactional_id,
    )


def writable(
    services: Services,
    authorizer: Authorizer,
    in_flight: InFlightRequest,
    entries: TopicRecords,
    done: Done,
) -> tuple[TopicRecords, Done]:
    """What the client may append, and what takes its results and adds those of the rest.

    Brokers append dead letters of share groups, where a topic permits those (SHR-35).
    """
    names = _names(services, in_flight, entries)
    refused = refused_topics(services, authorizer, in_flight, AclOperation.WRITE, names)
    return _without(entries, refused, done)


async def writable_of_many(
    services: Services,
    authorizer: Authorizer,
    in_flight: InFlightRequest,
    entries: TopicRecords,
    done: Done,
) -> tuple[TopicRecords, Done]:
    """The same while the loop goes on. Raises: ConnectionGoneError."""
    names = _names(services, in_flight, entries)
    refused = await refused_of_many_topics(
        services, authorizer, in_flight, AclOperation.WRITE, names
    )
    return _without(entries, refused, done)


def _names(services: Services, in_flight: InFlightRequest, entries: TopicRecords) -> Set[str]:
    """The topics to be asked about."""
    names = {topic_partition.topic for topic_partition, _, _ in entries}
    names.discard("")  # of an id that no topic has
    if is_of_brokers(services, in_flight):
        names = {name for name in names if not _takes_dead_letters(services, name)}
    return names


def _without(entries: TopicRecords, unwritable: Set[str], done: Done) -> tuple[TopicRecords, Done]:
    if not unwritable:
        return entries, done
    error = KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    refused = {
        place: ProduceResult(topic_partition, None, None, error)
        for place, (topic_partition, _, _) in enumerate(entries)
        if topic_partition.topic in unwritable
    }
    rest = [entry for place, entry in enumerate(entries) if place not in refused]
    return rest, partial(_done_with_refused, done, refused)


def _takes_dead_letters(services: Services, topic: str) -> bool:
    overrides = services.image.config_overrides(RESOURCE_TOPIC, topic)
    return services.dynamic.log_config(overrides).errors_deadletterqueue_group_enable


def _done_with_refused(
    done: Done, refused: Mapping[int, ProduceResult], results: Sequence[ProduceResult]
) -> None:
    """Hand on the results of all partitions, in the order of the request."""
    appended = iter(results)
    count = len(results) + len(refused)
    done([refused[place] if place in refused else next(appended) for place in range(count)])
