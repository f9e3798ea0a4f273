"""`admin.group_offsets`: OffsetCommit (8), OffsetFetch (9) and OffsetDelete (47), sent to the
coordinators of the groups.

Version 10 of the first two names topics by id only and is left out: a group's offsets are found by
name here, also those of topics that are gone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from barnabas_client.admin.api_errors import ApiError, error_of, errors_of
from barnabas_client.admin.lookup_strategies import GROUP, CoordinatorStrategy
from barnabas_client.admin.outcome import Outcomes
from barnabas_client.admin.routing import AdminRouting, Call, RequestContext, check_several
from barnabas_client.cluster.offsets import OffsetAndMetadata
from barnabas_client.cluster.partitions import by_topic
from barnabas_protocol.api import ApiKey
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas_protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from barnabas_protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)

_LAST_VERSION_WITH_NAMES: Final = 9
# OffsetFetch: all partitions of a group, stable offsets only, many groups at once.
_ALL_PARTITIONS_VERSION: Final = 2
_STABLE_VERSION: Final = 7
_MANY_GROUPS_VERSION: Final = 8

Committed = dict[TopicPartition, OffsetAndMetadata | None]


class GroupOffsets:
    """What can be done about the offsets that groups have committed."""

    def __init__(self, routing: AdminRouting) -> None:
        self._routing = routing

    async def list(
        self,
        groups: Iterable[str] | Mapping[str, Collection[TopicPartition] | None],
        *,
        require_stable: bool = False,
        timeout_ms: int | None = None,
    ) -> Outcomes[str, Committed]:
        """The committed offsets of groups, of all partitions or of those that a mapping names.

        None stands for a named partition without one. A group that does not exist has none at all.
        With `require_stable`, offsets in transactions that are not decided are waited for.
        """
        check_several(groups)
        if not isinstance(groups, Mapping):
            groups = dict.fromkeys(groups)
        wanted = groups
        call = Call[str, Committed](
            action="list offsets of group",
            api=ApiKey.OFFSET_FETCH,
            to=CoordinatorStrategy(GROUP, str),
            build=lambda context: _fetch(context, wanted, require_stable),
            read=_fetched,
            version_min=_STABLE_VERSION if require_stable else _ALL_PARTITIONS_VERSION,
            version_max=_LAST_VERSION_WITH_NAMES,
            items_per_request=lambda version: None if version >= _MANY_GROUPS_VERSION else 1,
        )
        return await self._routing.each(wanted, call, timeout_ms)

    async def alter(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        *,
        timeout_ms: int | None = None,
    ) -> Outcomes[TopicPartition, None]:
        """Commit offsets for a group without members, which comes into being if there is none.

        While the group has members this is a RejectedError with NON_EMPTY_GROUP. Not repeated where
        the response is lost, for a member may have come, committed and gone by then.
        """
        call = Call[TopicPartition, None](
            action=f"commit for group {group_id} the offset of",
            api=ApiKey.OFFSET_COMMIT,
            to=CoordinatorStrategy(GROUP, lambda _: group_id),
            build=lambda context: OffsetCommitRequest(
                group_id=group_id,
                topics=[
                    OffsetCommitRequestTopic(
                        name=topic,
                        partitions=[_committed(one, offsets[one]) for one in partitions],
                    )
                    for topic, partitions in by_topic(context.keys).items()
                ],
            ),
            read=lambda response, context: {
                TopicPartition(topic.name, one.partition_index): _commit_verdict(one)
                for topic in response.topics
                for one in topic.partitions
            },
            is_change=True,
            is_repeatable=False,
            version_max=_LAST_VERSION_WITH_NAMES,
        )
        return await self._routing.each(offsets, call, timeout_ms)

    async def delete(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition],
        *,
        timeout_ms: int | None = None,
    ) -> Outcomes[TopicPartition, None]:
        """Forget the committed offsets of partitions whose topics no member of the group reads.

        Not repeated where the response is lost, for who reads may have committed anew by then.
        """
        call = Call[TopicPartition, None](
            action=f"delete from group {group_id} the offset of",
            api=ApiKey.OFFSET_DELETE,
            to=CoordinatorStrategy(GROUP, lambda _: group_id),
            build=lambda context: OffsetDeleteRequest(
                group_id=group_id,
                topics=[
                    OffsetDeleteRequestTopic(
                        name=topic,
                        partitions=[
                            OffsetDeleteRequestPartition(partition_index=one.partition)
                            for one in some
                        ],
                    )
                    for topic, some in by_topic(context.keys).items()
                ],
            ),
            read=lambda response, context: (
                errors_of(context.keys, response)
                or {
                    TopicPartition(topic.name, one.partition_index): error_of(one)
                    for topic in response.topics
                    for one in topic.partitions
                }
            ),
            is_change=True,
            is_repeatable=False,
        )
        return await self._routing.each(partitions, call, timeout_ms)


def _fetch(
    context: RequestContext[str],
    wanted: Mapping[str, Collection[TopicPartition] | None],
    require_stable: bool,
) -> OffsetFetchRequest:
    if context.version >= _MANY_GROUPS_VERSION:
        groups = [
            OffsetFetchRequestGroup(
                group_id=group_id, topics=_topics(OffsetFetchRequestTopics, wanted[group_id])
            )
            for group_id in context.keys
        ]
        return OffsetFetchRequest(groups=groups, require_stable=require_stable)
    (group_id,) = context.keys
    return OffsetFetchRequest(
        group_id=group_id,
        topics=_topics(OffsetFetchRequestTopic, wanted[group_id]),
        require_stable=require_stable,
    )


def _topics(kind: Any, partitions: Collection[TopicPartition] | None) -> Any:
    if partitions is None:
        return None
    return [
        kind(name=topic, partition_indexes=[one.partition for one in some])
        for topic, some in by_topic(partitions).items()
    ]


def _fetched(response: Any, context: RequestContext[str]) -> dict[str, Committed | ApiError]:
    if context.version >= _MANY_GROUPS_VERSION:
        return {group.group_id: _offsets(group) for group in response.groups}
    (group_id,) = context.keys
    return {group_id: _offsets(response)}


def _offsets(group: Any) -> Committed | ApiError:
    """The offsets of a group; the error of one partition is that of the group."""
    whole = error_of(group)
    if whole is not None:
        return whole
    offsets: Committed = {}
    for topic in group.topics:
        for one in topic.partitions:
            place = TopicPartition(topic.name, one.partition_index)
            if one.error_code:
                return ApiError(one.error_code, f"the offset of {place} cannot be told")
            offsets[place] = (
                OffsetAndMetadata(
                    one.committed_offset, one.committed_leader_epoch, one.metadata or ""
                )
                if one.committed_offset >= 0
                else None
            )
    return offsets


def _committed(
    partition: TopicPartition, offset: OffsetAndMetadata
) -> OffsetCommitRequestPartition:
    return OffsetCommitRequestPartition(
        partition_index=partition.partition,
        committed_offset=offset.offset,
        committed_leader_epoch=offset.leader_epoch,
        committed_metadata=offset.metadata,
    )


def _commit_verdict(one: Any) -> ApiError | None:
    # A commit without a member is refused with this code as soon as the group has members.
    if one.error_code == ErrorCode.UNKNOWN_MEMBER_ID:
        return ApiError(ErrorCode.NON_EMPTY_GROUP, "the group has members; stop them first")
    return error_of(one)
