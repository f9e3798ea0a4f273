"""DescribeShareGroupOffsets (90), versions 0 and 1: where share groups begin in partitions.

V1: how far they are behind. Source: SHR-1, SHR-32.
"""

from barnabas_broker.handlers.authorization import TOPIC_REFUSED, may, parted
from barnabas_broker.handlers.request_limits import each_once
from barnabas_broker.handlers.services import Services
from barnabas_broker.handlers.share_version import check_share_version
from barnabas_broker.network.session import InFlightRequest
from barnabas_protocol.acl import AclOperation, AclResourceType
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)


async def handle(
    services: Services, in_flight: InFlightRequest, request: DescribeShareGroupOffsetsRequest
) -> DescribeShareGroupOffsetsResponse:
    """Ask the coordinator of the groups, one after the other."""
    check_share_version(services)
    return DescribeShareGroupOffsetsResponse(
        groups=[
            await _describe(services, in_flight, group)
            for group in each_once(request.groups, lambda group: group.group_id)
        ]
    )


async def _describe(
    services: Services, in_flight: InFlightRequest, group: DescribeShareGroupOffsetsRequestGroup
) -> DescribeShareGroupOffsetsResponseGroup:
    """What the client may see of a group; topics that it has not named are left out."""
    group_id = group.group_id
    if not may(services, in_flight, AclOperation.DESCRIBE, AclResourceType.GROUP, group_id):
        return DescribeShareGroupOffsetsResponseGroup(
            group_id=group_id, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED
        )
    if group.topics is None:
        response = await services.groups.share.describe_offsets(group)
        response.topics = [
            topic
            for topic in response.topics
            if may(
                services,
                in_flight,
                AclOperation.DESCRIBE,
                AclResourceType.TOPIC,
                topic.topic_name,
                is_filter=True,
            )
        ]
        return response
    group.topics, hidden = await parted(
        services,
        in_flight,
        AclOperation.DESCRIBE,
        AclResourceType.TOPIC,
        group.topics,
        lambda topic: topic.topic_name,
    )
    if hidden and not group.topics:
        return DescribeShareGroupOffsetsResponseGroup(
            group_id=group_id, topics=list(map(_hidden, hidden))
        )
    response = await services.groups.share.describe_offsets(group)
    if response.error_code == ErrorCode.NONE:
        response.topics += map(_hidden, hidden)
    return response


def _hidden(topic: DescribeShareGroupOffsetsRequestTopic) -> DescribeShareGroupOffsetsResponseTopic:
    return DescribeShareGroupOffsetsResponseTopic(
        topic_name=topic.topic_name,
        partitions=[
            DescribeShareGroupOffsetsResponsePartition(
                partition_index=index,
                start_offset=-1,
                error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
                error_message=TOPIC_REFUSED,
            )
            for index in topic.partitions
        ],
    )


def failed(
    request: DescribeShareGroupOffsetsRequest, error: KafkaError
) -> DescribeShareGroupOffsetsResponse:
    """The same error for every group."""
    return DescribeShareGroupOffsetsResponse(
        groups=[
            DescribeShareGroupOffsetsResponseGroup(
                group_id=group.group_id, error_code=error.code, error_message=error.message
            )
            for group in request.groups
        ]
    )
