"""`admin.share_groups`: ShareGroupDescribe (77), and Describe-, Alter- and DeleteShareGroupOffsets
(90-92), sent to the coordinators of the groups (KIP-932).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from barnabas_client.admin.api_errors import ApiError, error_of, errors_of
from barnabas_client.admin.group_descriptions import assigned
from barnabas_client.admin.lookup_strategies import GROUP, CoordinatorStrategy
from barnabas_client.admin.outcome import Outcomes
from barnabas_client.admin.routing import AdminRouting, Call, check_several
from barnabas_client.admin.values.acls import operations_of_bits
from barnabas_client.admin.values.groups import GroupState
from barnabas_client.admin.values.share_groups import (
    ShareGroupDescription,
    ShareGroupMember,
    ShareGroupOffset,
)
from barnabas_client.cluster.partitions import by_topic
from barnabas_protocol.api import ApiKey
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from barnabas_protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from barnabas_protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from barnabas_protocol.messages.share_group_describe import ShareGroupDescribeRequest

ShareOffsets = dict[TopicPartition, ShareGroupOffset | None]


class ShareGroups:
    """What can be done about share groups; `admin.groups` lists and deletes them."""

    def __init__(self, routing: AdminRouting) -> None:
        self._routing = routing

    async def describe(
        self,
        group_ids: Iterable[str],
        *,
        include_authorized_operations: bool = False,
        timeout_ms: int | None = None,
    ) -> Outcomes[str, ShareGroupDescription]:
        """Share groups with their members."""
        call = Call[str, ShareGroupDescription](
            action="describe share group",
            api=ApiKey.SHARE_GROUP_DESCRIBE,
            to=CoordinatorStrategy(GROUP, str),
            build=lambda context: ShareGroupDescribeRequest(
                group_ids=[*context.keys],
                include_authorized_operations=include_authorized_operations,
            ),
            read=lambda response, context: {
                one.group_id: error_of(one) or _described(one, context.node_id)
                for one in response.groups
            },
        )
        return await self._routing.each(group_ids, call, timeout_ms)

    async def list_offsets(
        self,
        groups: Iterable[str] | Mapping[str, Collection[TopicPartition] | None],
        *,
        timeout_ms: int | None = None,
    ) -> Outcomes[str, ShareOffsets]:
        """Where groups are in all their partitions, or in those that a mapping names.

        None stands for a partition that the group has not begun.
        """
        check_several(groups)
        if not isinstance(groups, Mapping):
            groups = dict.fromkeys(groups)
        wanted = groups
        call = Call[str, ShareOffsets](
            action="list offsets of share group",
            api=ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
            to=CoordinatorStrategy(GROUP, str),
            build=lambda context: DescribeShareGroupOffsetsRequest(
                groups=[_wanted(group_id, wanted[group_id]) for group_id in context.keys]
            ),
            read=lambda response, context: {
                group.group_id: error_of(group) or _offsets(group) for group in response.groups
            },
        )
        return await self._routing.each(wanted, call, timeout_ms)

    async def alter_offsets(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, int],
        *,
        timeout_ms: int | None = None,
    ) -> Outcomes[TopicPartition, None]:
        """Set where a group without members begins.

        Not repeated where the response is lost, for the group may have gone on by then.
        """
        call = Call[TopicPartition, None](
            action=f"alter for share group {group_id} the offset of",
            api=ApiKey.ALTER_SHARE_GROUP_OFFSETS,
            to=CoordinatorStrategy(GROUP, lambda _: group_id),
            build=lambda context: AlterShareGroupOffsetsRequest(
                group_id=group_id,
                topics=[
                    AlterShareGroupOffsetsRequestTopic(
                        topic_name=topic,
                        partitions=[
                            AlterShareGroupOffsetsRequestPartition(
                                partition_index=one.partition, start_offset=offsets[one]
                            )
                            for one in some
                        ],
                    )
                    for topic, some in by_topic(context.keys).items()
                ],
            ),
            read=lambda response, context: (
                errors_of(context.keys, response)
                or {
                    TopicPartition(topic.topic_name, one.partition_index): error_of(one)
                    for topic in response.responses
                    for one in topic.partitions
                }
            ),
            is_change=True,
            is_repeatable=False,
        )
        return await self._routing.each(offsets, call, timeout_ms)

    async def delete_offsets(
        self, group_id: str, topics: Iterable[str], *, timeout_ms: int | None = None
    ) -> Outcomes[str, None]:
        """Forget where a group without members is in topics.

        Not repeated where the response is lost, for the group may have gone on by then.
        """
        call = Call[str, None](
            action=f"delete from share group {group_id} the offsets of topic",
            api=ApiKey.DELETE_SHARE_GROUP_OFFSETS,
            to=CoordinatorStrategy(GROUP, lambda _: group_id),
            build=lambda context: DeleteShareGroupOffsetsRequest(
                group_id=group_id,
                topics=[
                    DeleteShareGroupOffsetsRequestTopic(topic_name=one) for one in context.keys
                ],
            ),
            read=lambda response, context: (
                errors_of(context.keys, response)
                or {one.topic_name: error_of(one) for one in response.responses}
            ),
            is_change=True,
            is_repeatable=False,
        )
        return await self._routing.each(topics, call, timeout_ms)


def _described(one: Any, coordinator_id: int) -> ShareGroupDescription:
    return ShareGroupDescription(
        group_id=one.group_id,
        state=GroupState(one.group_state),
        coordinator_id=coordinator_id,
        group_epoch=one.group_epoch,
        assignment_epoch=one.assignment_epoch,
        assignor=one.assignor_name,
        members=tuple(
            ShareGroupMember(
                member_id=member.member_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rack_id=member.rack_id,
                member_epoch=member.member_epoch,
                subscribed_topics=tuple(member.subscribed_topic_names),
                assignment=assigned(member.assignment),
            )
            for member in one.members
        ),
        authorized_operations=operations_of_bits(one.authorized_operations),
    )


def _wanted(
    group_id: str, partitions: Collection[TopicPartition] | None
) -> DescribeShareGroupOffsetsRequestGroup:
    topics = None
    if partitions is not None:
        topics = [
            DescribeShareGroupOffsetsRequestTopic(
                topic_name=topic, partitions=[one.partition for one in some]
            )
            for topic, some in by_topic(partitions).items()
        ]
    return DescribeShareGroupOffsetsRequestGroup(group_id=group_id, topics=topics)


def _offsets(group: Any) -> ShareOffsets | ApiError:
    """The offsets of a group; the error of one partition is that of the group."""
    offsets: ShareOffsets = {}
    for topic in group.topics:
        for one in topic.partitions:
            place = TopicPartition(topic.topic_name, one.partition_index)
            if one.error_code:
                reason = one.error_message or "it cannot be told"
                return ApiError(one.error_code, f"the offset of {place}: {reason}")
            offsets[place] = (
                ShareGroupOffset(
                    start_offset=one.start_offset,
                    leader_epoch=one.leader_epoch,
                    lag=None if one.lag < 0 else one.lag,
                )
                if one.start_offset >= 0
                else None
            )
    return offsets
