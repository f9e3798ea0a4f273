"""CreateTopics (19), versions 2 to 7: new topics, placed or with given replicas.

v4: -1 stands for the broker's defaults. v5: the response has counts and configs. v6: what exceeds
the quota of the client is refused (89). v7: and the topic id.
Source: TOP-1 to TOP-8, QUO-7.
"""

from barnabas_broker.controller import topic_requests
from barnabas_broker.controller.topic_requests import failed
from barnabas_broker.handlers.authorization import topic_rights
from barnabas_broker.handlers.services import Services
from barnabas_broker.network.session import InFlightRequest
from barnabas_protocol.acl import AclOperation
from barnabas_protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse

__all__ = ["failed", "handle"]


async def handle(
    services: Services, in_flight: InFlightRequest, request: CreateTopicsRequest
) -> CreateTopicsResponse:
    """Create each topic on its own."""
    quota = services.quotas.mutation_quota(in_flight)
    may = topic_rights(services, in_flight, AclOperation.CREATE)
    response = await topic_requests.create_topics(services.controller, request, quota, may)
    if quota is not None:
        response.throttle_time_ms = services.quotas.throttled_by_mutation(quota)
    return response
