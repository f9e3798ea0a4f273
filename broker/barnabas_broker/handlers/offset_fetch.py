"""OffsetFetch (9), versions 1 to 9: the committed offsets of groups.

v2: null means all topics. v5: leader epochs. v7: require stable. v8: several groups. v9: KIP-848
member epochs. Source: OFS-11.
"""

from functools import partial

from barnabas_broker.coordinator.group import replies
from barnabas_broker.handlers.authorization import may, parted
from barnabas_broker.handlers.group_context import group_context
from barnabas_broker.handlers.request_limits import each_once
from barnabas_broker.handlers.services import Services
from barnabas_broker.network.session import InFlightRequest
from barnabas_protocol.acl import AclOperation, AclResourceType
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)


async def handle(
    services: Services, in_flight: InFlightRequest, request: OffsetFetchRequest
) -> OffsetFetchResponse:
    """Ask the coordinator of the group."""
    request.groups = list(each_once(request.groups, lambda group: group.group_id))
    if services.authorizer is None:
        pause = partial(services.heavy_work.pause_of, in_flight)
        return await services.groups.offset_fetch(request, group_context(in_flight), pause)
    return await _fetch_visible(services, in_flight, request)


async def _fetch_visible(
    services: Services, in_flight: InFlightRequest, request: OffsetFetchRequest
) -> OffsetFetchResponse:
    """The offsets of the groups and topics that the client may see.

    Where it names no topics, the others are left out.
    """
    version = in_flight.api_version
    groups = replies.fetched_groups(request, version)
    visible = {group.group_id: _sees_group(services, in_flight, group) for group in groups}
    asked = [group for group in groups if visible[group.group_id]]
    hidden = [await _take_out_hidden(services, in_flight, group) for group in asked]
    fetched = await services.groups.fetch_offsets(
        asked,
        require_stable=request.require_stable,
        pause=partial(services.heavy_work.pause_of, in_flight),
    )
    for group, result, topics in zip(asked, fetched, hidden, strict=True):
        if result.error_code:
            continue
        if group.topics is None:
            result.topics = [
                topic
                async for topic in services.heavy_work.each(in_flight, result.topics)
                if _sees_topic(services, in_flight, topic.name, is_filter=True)
            ]
        else:
            refused = OffsetFetchRequestGroup(topics=topics)
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            result.topics += replies.fetch_error(refused, code).topics
    found = iter(fetched)
    return replies.fit_fetch(
        [
            next(found)
            if visible[group.group_id]
            else replies.fetch_error(group, ErrorCode.GROUP_AUTHORIZATION_FAILED)
            for group in groups
        ],
        version,
    )


async def _take_out_hidden(
    services: Services, in_flight: InFlightRequest, group: OffsetFetchRequestGroup
) -> list[OffsetFetchRequestTopics]:
    """Take the topics that the client may not see out of a group's request, and return them."""
    if group.topics is None:
        return []
    group.topics, hidden = await parted(
        services,
        in_flight,
        AclOperation.DESCRIBE,
        AclResourceType.TOPIC,
        group.topics,
        lambda topic: topic.name,
    )
    return hidden


def _sees_group(
    services: Services, in_flight: InFlightRequest, group: OffsetFetchRequestGroup
) -> bool:
    return may(services, in_flight, AclOperation.DESCRIBE, AclResourceType.GROUP, group.group_id)


def _sees_topic(
    services: Services, in_flight: InFlightRequest, name: str, *, is_filter: bool
) -> bool:
    return may(
        services,
        in_flight,
        AclOperation.DESCRIBE,
        AclResourceType.TOPIC,
        name,
        is_filter=is_filter,
    )


def failed(request: OffsetFetchRequest, error: KafkaError) -> OffsetFetchResponse:
    """The error of the whole request and, in new versions, of every group."""
    return OffsetFetchResponse(
        error_code=error.code,
        groups=[
            OffsetFetchResponseGroup(group_id=group.group_id, error_code=error.code)
            for group in request.groups
        ],
    )
