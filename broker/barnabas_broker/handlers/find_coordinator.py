"""FindCoordinator (10), versions 0 to 6: who coordinates a group, a transaction or a share.

v1: key types. v3: flexible. v4: several keys at once. v6: share coordinators, for brokers only,
while share groups are on. The coordinators' topics are created when they are first needed (TOP-7).
Source: OFS-1, SHR-2.
"""

from barnabas_broker.handlers import share_version
from barnabas_broker.handlers.authorization import REFUSALS, acts_as_broker, may
from barnabas_broker.handlers.metadata import live_brokers
from barnabas_broker.handlers.request_limits import each_once
from barnabas_broker.handlers.services import Services
from barnabas_broker.handlers.topic_creation import (
    OFFSETS_TOPIC,
    SHARE_STATE_TOPIC,
    TRANSACTION_STATE_TOPIC,
)
from barnabas_broker.network.session import InFlightRequest
from barnabas_broker.share.persister import SharePartitionKey
from barnabas_protocol.acl import AclOperation, AclResourceType
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.hashing import coordinator_partition
from barnabas_protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

GROUP = 0
TRANSACTION = 1
SHARE = 2
BATCH_SINCE = 4
SHARE_SINCE = 6
_TOPICS = {
    GROUP: OFFSETS_TOPIC,
    TRANSACTION: TRANSACTION_STATE_TOPIC,
    SHARE: SHARE_STATE_TOPIC,
}
# What a client must be able to see, to be told who coordinates it.
_NAMED = {
    GROUP: AclResourceType.GROUP,
    TRANSACTION: AclResourceType.TRANSACTIONAL_ID,
}
INVALID_REQUEST_TEXT = (
    "This most likely occurs because of a request being malformed by the client library or the "
    "message was sent to an incompatible broker. See the broker logs for more details."
)
_REFUSAL_TEXTS = {
    AclResourceType.GROUP: "Group authorization failed.",
    AclResourceType.TRANSACTIONAL_ID: "Transactional Id authorization failed.",
}
NOT_AVAILABLE = "The coordinator is not available."


def handle(
    services: Services, in_flight: InFlightRequest, request: FindCoordinatorRequest
) -> FindCoordinatorResponse:
    """Look up one key, or each of several."""
    if in_flight.api_version < BATCH_SINCE:
        if request.key_type == SHARE:
            raise KafkaError(ErrorCode.INVALID_REQUEST, INVALID_REQUEST_TEXT)
        found = _find(services, in_flight, request.key_type, request.key)
        return FindCoordinatorResponse(
            error_code=found.error_code,
            # Kafka names the code in these versions, also where there is no error.
            error_message=found.error_message or "NONE",
            node_id=found.node_id,
            host=found.host,
            port=found.port,
        )
    is_share = request.key_type == SHARE and _serves_share(services, in_flight)
    if is_share and not acts_as_broker(services, in_flight):
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    return FindCoordinatorResponse(
        coordinators=[
            _find(services, in_flight, request.key_type, key)
            for key in each_once(request.coordinator_keys, str)
        ]
    )


def _find(services: Services, in_flight: InFlightRequest, key_type: int, key: str) -> Coordinator:
    named = _NAMED.get(key_type)
    if named is not None and not may(services, in_flight, AclOperation.DESCRIBE, named, key):
        return _absent(key, REFUSALS[named], _REFUSAL_TEXTS[named])
    name = _TOPICS.get(key_type)
    if name is None:
        return _absent(key, ErrorCode.INVALID_REQUEST, INVALID_REQUEST_TEXT)
    if key_type == SHARE and not (_serves_share(services, in_flight) and _is_share_key(key)):
        return _absent(key, ErrorCode.INVALID_REQUEST, "")
    topic = services.image.topics.by_name.get(name)
    if topic is None:
        services.topic_creation.ensure(name)
        return _absent(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, NOT_AVAILABLE)
    # By the count that the topic has, whatever this broker's settings are.
    leader = topic.partitions[coordinator_partition(key, len(topic.partitions))].leader
    for broker, host, port in live_brokers(services, in_flight):
        if broker.node_id == leader:
            return Coordinator(key=key, node_id=leader, host=host, port=port)
    return _absent(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, NOT_AVAILABLE)


def _serves_share(services: Services, in_flight: InFlightRequest) -> bool:
    return in_flight.api_version >= SHARE_SINCE and share_version.is_on(services)


def _is_share_key(key: str) -> bool:
    try:
        SharePartitionKey.from_text(key)
    except ValueError:
        return False
    return True


def _absent(key: str, code: ErrorCode, message: str | None = None) -> Coordinator:
    return Coordinator(
        key=key, node_id=-1, host="", port=-1, error_code=code, error_message=message
    )


def failed(request: FindCoordinatorRequest, error: KafkaError) -> FindCoordinatorResponse:
    """The error of the whole request and, in new versions, of every key."""
    return FindCoordinatorResponse(
        error_code=error.code,
        error_message=error.message,
        node_id=-1,
        port=-1,
        coordinators=[_absent(key, error.code, error.message) for key in request.coordinator_keys],
    )
