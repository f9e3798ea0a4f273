"""`admin.quorum`: DescribeQuorum (55), AddRaftVoter (80) and RemoveRaftVoter (81).

The quorum is that of Kafka's controllers (KIP-595, KIP-853), or the members of
Barnabas' metadata log, which the cluster chooses by itself: they can only be described.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from barnabas_client.admin.api_errors import ApiError, error_of
from barnabas_client.admin.lookup_strategies import AnyBrokerStrategy
from barnabas_client.admin.routing import AdminRouting, Call, nameless
from barnabas_client.admin.values.cluster import (
    QuorumDescription,
    QuorumReplica,
    RaftEndpoint,
)
from barnabas_protocol.api import ApiKey
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.ids import Uuid
from barnabas_protocol.messages.add_raft_voter import AddRaftVoterRequest, Listener
from barnabas_protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
)
from barnabas_protocol.messages.remove_raft_voter import RemoveRaftVoterRequest

_METADATA_TOPIC: Final = "__cluster_metadata"


class Quorum:
    """What can be done about the controllers' quorum."""

    def __init__(self, routing: AdminRouting) -> None:
        self._routing = routing

    async def describe(self, *, timeout_ms: int | None = None) -> QuorumDescription:
        """The leader, voters and observers of the metadata log.

        Raises: TimedOutError, or what the broker says.
        """
        call = Call[None, QuorumDescription](
            action="describe the quorum",
            api=ApiKey.DESCRIBE_QUORUM,
            to=AnyBrokerStrategy(),
            build=lambda context: DescribeQuorumRequest(
                topics=[
                    DescribeQuorumRequestTopicData(
                        topic_name=_METADATA_TOPIC,
                        partitions=[DescribeQuorumRequestPartitionData(partition_index=0)],
                    )
                ]
            ),
            read=lambda response, context: {None: error_of(response) or _described(response)},
            name=nameless,
        )
        return await self._routing.one(call, timeout_ms)

    async def add_voter(
        self,
        voter_id: int,
        directory_id: Uuid,
        endpoints: Iterable[RaftEndpoint],
        *,
        cluster_id: str | None = None,
        timeout_ms: int | None = None,
    ) -> None:
        """Make a controller that follows the log a voter; with a cluster id only of that cluster.

        Raises: AlreadyExistsError, TimedOutError, or what the broker says.
        """
        listeners = [Listener(name=one.listener, host=one.host, port=one.port) for one in endpoints]
        call = Call[None, None](
            action=f"add voter {voter_id}",
            api=ApiKey.ADD_RAFT_VOTER,
            to=AnyBrokerStrategy(),
            build=lambda context: AddRaftVoterRequest(
                cluster_id=cluster_id,
                timeout_ms=context.timeout_ms,
                voter_id=voter_id,
                voter_directory_id=directory_id,
                listeners=listeners,
            ),
            read=lambda response, context: {None: error_of(response)},
            name=nameless,
            is_change=True,
        )
        await self._routing.one(call, timeout_ms)

    async def remove_voter(
        self,
        voter_id: int,
        directory_id: Uuid,
        *,
        cluster_id: str | None = None,
        timeout_ms: int | None = None,
    ) -> None:
        """Take a voter out; with a cluster id only of that cluster.

        Raises: NotFoundError, TimedOutError, or what the broker says.
        """
        call = Call[None, None](
            action=f"remove voter {voter_id}",
            api=ApiKey.REMOVE_RAFT_VOTER,
            to=AnyBrokerStrategy(),
            build=lambda context: RemoveRaftVoterRequest(
                cluster_id=cluster_id, voter_id=voter_id, voter_directory_id=directory_id
            ),
            read=lambda response, context: {None: error_of(response)},
            name=nameless,
            is_change=True,
        )
        await self._routing.one(call, timeout_ms)


def _described(response: Any) -> QuorumDescription | ApiError:
    for topic in response.topics:
        for one in topic.partitions:
            return error_of(one) or QuorumDescription(
                leader_id=one.leader_id,
                leader_epoch=one.leader_epoch,
                high_watermark=one.high_watermark,
                voters=tuple(_replica(replica) for replica in one.current_voters),
                observers=tuple(_replica(replica) for replica in one.observers),
                endpoints={
                    node.node_id: tuple(
                        RaftEndpoint(listener.name, listener.host, listener.port)
                        for listener in node.listeners
                    )
                    for node in response.nodes
                },
            )
    return ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, "the response names no quorum")


def _replica(one: Any) -> QuorumReplica:
    fetched, caught_up = one.last_fetch_timestamp, one.last_caught_up_timestamp
    return QuorumReplica(
        replica_id=one.replica_id,
        directory_id=one.replica_directory_id,
        log_end_offset=one.log_end_offset,
        last_fetch_timestamp_ms=None if fetched < 0 else fetched,
        last_caught_up_timestamp_ms=None if caught_up < 0 else caught_up,
    )
