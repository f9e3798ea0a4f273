"""Whether a client may see the topics of a group: those it subscribes to, or that members have.

Both are all or nothing: a member subscribes to what it may see only, and a group is described with
all its members or with none (`group_descriptions.py`).
"""

from __future__ import annotations

from collections.abc import Sequence, Set

from barnabas_broker.handlers.authorization import may
from barnabas_broker.handlers.services import Services
from barnabas_broker.network.session import InFlightRequest
from barnabas_protocol.acl import AclOperation, AclResourceType
from barnabas_protocol.errors import ErrorCode, KafkaError


async def require_topics(
    services: Services, in_flight: InFlightRequest, topics: Sequence[str] | None
) -> None:
    """Refuse a member that subscribes to a topic that it may not see. Raises: KafkaError 29."""
    if topics and not await sees_all(services, in_flight, set(topics)):
        raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)


async def sees_all(services: Services, in_flight: InFlightRequest, topics: Set[str]) -> bool:
    """Whether the client may see all of the topics that members of a group have."""
    if services.authorizer is None:
        return True
    async for topic in services.heavy_work.each(in_flight, topics):
        if not may(services, in_flight, AclOperation.DESCRIBE, AclResourceType.TOPIC, topic):
            return False
    return True
