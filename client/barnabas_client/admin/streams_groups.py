"""`admin.streams_groups`: StreamsGroupDescribe (89), sent to the coordinators (KIP-1071)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from barnabas_client.admin.api_errors import error_of
from barnabas_client.admin.lookup_strategies import GROUP, CoordinatorStrategy
from barnabas_client.admin.outcome import Outcomes
from barnabas_client.admin.routing import AdminRouting, Call
from barnabas_client.admin.values.acls import operations_of_bits
from barnabas_client.admin.values.groups import GroupState
from barnabas_client.admin.values.streams_groups import (
    StreamsGroupDescription,
    StreamsGroupMember,
    StreamsTasks,
    StreamsTopic,
    Subtopology,
)
from barnabas_protocol.api import ApiKey
from barnabas_protocol.messages.streams_group_describe import StreamsGroupDescribeRequest


class StreamsGroups:
    """What can be done about Streams groups; `admin.groups` lists and deletes them.

    Their offsets are those of `admin.group_offsets`.
    """

    def __init__(self, routing: AdminRouting) -> None:
        self._routing = routing

    async def describe(
        self,
        group_ids: Iterable[str],
        *,
        include_authorized_operations: bool = False,
        timeout_ms: int | None = None,
    ) -> Outcomes[str, StreamsGroupDescription]:
        """Streams groups with their topology, members and tasks."""
        call = Call[str, StreamsGroupDescription](
            action="describe Streams group",
            api=ApiKey.STREAMS_GROUP_DESCRIBE,
            to=CoordinatorStrategy(GROUP, str),
            build=lambda context: StreamsGroupDescribeRequest(
                group_ids=[*context.keys],
                include_authorized_operations=include_authorized_operations,
            ),
            read=lambda response, context: {
                one.group_id: error_of(one) or _described(one, context.node_id)
                for one in response.groups
            },
        )
        return await self._routing.each(group_ids, call, timeout_ms)


def _described(one: Any, coordinator_id: int) -> StreamsGroupDescription:
    topology = one.topology
    subtopologies = () if topology is None else topology.subtopologies or ()
    return StreamsGroupDescription(
        group_id=one.group_id,
        state=GroupState(one.group_state),
        coordinator_id=coordinator_id,
        group_epoch=one.group_epoch,
        assignment_epoch=one.assignment_epoch,
        topology_epoch=None if topology is None else topology.epoch,
        subtopologies=tuple(_subtopology(part) for part in subtopologies),
        members=tuple(_member(member) for member in one.members),
        authorized_operations=operations_of_bits(one.authorized_operations),
    )


def _subtopology(part: Any) -> Subtopology:
    return Subtopology(
        subtopology_id=part.subtopology_id,
        source_topics=tuple(part.source_topics),
        repartition_sink_topics=tuple(part.repartition_sink_topics),
        state_changelog_topics=tuple(_topic(topic) for topic in part.state_changelog_topics),
        repartition_source_topics=tuple(_topic(topic) for topic in part.repartition_source_topics),
    )


def _topic(topic: Any) -> StreamsTopic:
    return StreamsTopic(
        name=topic.name,
        partition_count=topic.partitions,
        replication_factor=topic.replication_factor,
        configs={one.key: one.value for one in topic.topic_configs},
    )


def _member(member: Any) -> StreamsGroupMember:
    endpoint = member.user_endpoint
    return StreamsGroupMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        endpoint=None if endpoint is None else (endpoint.host, endpoint.port),
        client_tags={one.key: one.value for one in member.client_tags},
        tasks=_tasks(member.assignment),
        target_tasks=_tasks(member.target_assignment),
        is_classic=member.is_classic,
    )


def _tasks(assignment: Any) -> StreamsTasks:
    return StreamsTasks(
        active={one.subtopology_id: tuple(one.partitions) for one in assignment.active_tasks},
        standby={one.subtopology_id: tuple(one.partitions) for one in assignment.standby_tasks},
        warmup={one.subtopology_id: tuple(one.partitions) for one in assignment.warmup_tasks},
    )
