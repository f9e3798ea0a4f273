"""ConsumerGroupHeartbeat (68), versions 0 and 1: everything a member of a consumer group does.

v1: the client makes the member id; patterns. Source: CG-1 to CG-5, CG-8, CG-9.
"""

from barnabas_broker.handlers.authorization import require, topic_filter
from barnabas_broker.handlers.group_context import check_group_version, group_context
from barnabas_broker.handlers.group_topics import require_topics
from barnabas_broker.handlers.services import Services
from barnabas_broker.network.session import InFlightRequest
from barnabas_protocol.acl import AclOperation, AclResourceType
from barnabas_protocol.errors import KafkaError
from barnabas_protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)


async def handle(
    services: Services, in_flight: InFlightRequest, request: ConsumerGroupHeartbeatRequest
) -> ConsumerGroupHeartbeatResponse:
    """Ask the coordinator of the group."""
    check_group_version(services)
    require(services, in_flight, AclOperation.READ, AclResourceType.GROUP, request.group_id)
    await require_topics(services, in_flight, request.subscribed_topic_names)
    return await services.groups.consumer_group_heartbeat(
        request,
        group_context(in_flight)._replace(sees_topic=topic_filter(services, in_flight)),
    )


def failed(
    request: ConsumerGroupHeartbeatRequest, error: KafkaError
) -> ConsumerGroupHeartbeatResponse:
    """The error alone."""
    return ConsumerGroupHeartbeatResponse(error_code=error.code, error_message=error.message)
