"""ShareAcknowledge (79), versions 1 and 2.

What a member of a share group makes of records that it has acquired, without fetching others. It
takes part in the member's share session, and epoch -1 ends that.

v2: locks may be renewed, and the response says how long they last. Source: KIP-932, KIP-1222;
SHR-15 to SHR-20.
"""

from barnabas_broker.handlers.authorization import require
from barnabas_broker.handlers.services import Services
from barnabas_broker.handlers.share_requests import (
    Leaders,
    acknowledgements_of,
    begin_acknowledgements,
    check_named_partitions,
    member_of,
    named_partitions,
    results_of,
    unreadable_topics,
)
from barnabas_broker.handlers.share_version import check_share_version
from barnabas_broker.network.session import InFlightRequest
from barnabas_broker.share.share_session import SessionPartition
from barnabas_protocol.acl import AclOperation, AclResourceType
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.fetch_metadata import FINAL_EPOCH, INITIAL_EPOCH
from barnabas_protocol.messages.share_acknowledge import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)


async def handle(
    services: Services, in_flight: InFlightRequest, request: ShareAcknowledgeRequest
) -> ShareAcknowledgeResponse:
    """Acknowledge, and respond when all is written.

    Raises: KafkaError for the session as a whole.
    """
    check_share_version(services)
    require(services, in_flight, AclOperation.READ, AclResourceType.GROUP, request.group_id or "")
    member, shares = member_of(request), services.share_partitions
    check_named_partitions(request.topics)
    acknowledgements = await acknowledgements_of(services, in_flight, request.topics)
    named, session_epoch = named_partitions(request.topics), request.share_session_epoch
    if session_epoch == INITIAL_EPOCH:
        raise KafkaError(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
    if session_epoch == FINAL_EPOCH:
        shares.sessions.get(member)
    else:
        shares.resume_session(member, in_flight.session, session_epoch, named)
    outcomes = await begin_acknowledgements(
        services,
        in_flight,
        member,
        acknowledgements,
        unreadable_topics(services, in_flight, named),
        is_renew=request.is_renew_ack,
    )
    if session_epoch == FINAL_EPOCH:
        await shares.end_session(member)
    results = await results_of(outcomes)
    leaders = Leaders(services, in_flight, results.items())
    response = ShareAcknowledgeResponse(
        acquisition_lock_timeout_ms=shares.lock_duration_ms(member.group_id),
        node_endpoints=[
            NodeEndpoint(node_id=one.node_id, host=one.host, port=one.port, rack=one.rack)
            for one in leaders.endpoints
        ],
    )
    topics: dict[bytes, ShareAcknowledgeTopicResponse] = {}
    for partition in named:
        topic = topics.get(partition.topic_id)
        if topic is None:
            topic = ShareAcknowledgeTopicResponse(topic_id=partition.topic_id)
            topics[partition.topic_id] = topic
        topic.partitions.append(_data_of(partition, results.get(partition), leaders))
    response.responses = list(topics.values())
    return response


def _data_of(
    partition: SessionPartition, error: KafkaError | None, leaders: Leaders
) -> PartitionData:
    leader = leaders.leader_of(partition)
    return PartitionData(
        partition_index=partition.partition,
        error_code=ErrorCode.NONE if error is None else error.code,
        error_message=None if error is None else error.message,
        current_leader=LeaderIdAndEpoch(leader_id=leader.node_id, leader_epoch=leader.leader_epoch),
    )


def failed(request: ShareAcknowledgeRequest, error: KafkaError) -> ShareAcknowledgeResponse:
    """The error of the whole request."""
    return ShareAcknowledgeResponse(error_code=error.code, error_message=error.message)
