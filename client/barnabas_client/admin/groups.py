"""`admin.groups`: ListGroups (16), ConsumerGroupDescribe (69) with DescribeGroups (15) in its place
for classic groups, DeleteGroups (42) and LeaveGroup (13) for removing members.

Groups are sent to their coordinators, lists of every broker.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any, Final, TypeVar

from barnabas_client.admin.api_errors import ApiError, error_of, errors_of
from barnabas_client.admin.group_descriptions import (
    classic_group,
    consumer_group,
    consumer_group_of_classic,
)
from barnabas_client.admin.lookup_strategies import GROUP, CoordinatorStrategy, LookupStrategy
from barnabas_client.admin.outcome import Outcomes
from barnabas_client.admin.routing import AdminRouting, Call, RequestContext
from barnabas_client.admin.values.groups import (
    ClassicGroupDescription,
    GroupDescription,
    GroupListing,
    GroupState,
    GroupType,
    MemberIdentity,
)
from barnabas_client.errors import UnsupportedError
from barnabas_protocol.api import ApiKey
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from barnabas_protocol.messages.delete_groups import DeleteGroupsRequest
from barnabas_protocol.messages.describe_groups import DescribeGroupsRequest
from barnabas_protocol.messages.leave_group import LeaveGroupRequest
from barnabas_protocol.messages.leave_group import MemberIdentity as LeavingMember
from barnabas_protocol.messages.list_groups import ListGroupsRequest

T = TypeVar("T")

# The first versions of ListGroups with states and types, and of LeaveGroup with many members.
_STATES_VERSION: Final = 4
_TYPES_VERSION: Final = 5
_MANY_MEMBERS_VERSION: Final = 3


class Groups:
    """What can be done about groups."""

    def __init__(self, routing: AdminRouting) -> None:
        self._routing = routing

    async def list(
        self,
        *,
        states: Collection[GroupState] = (),
        types: Collection[GroupType] = (),
        timeout_ms: int | None = None,
    ) -> tuple[GroupListing, ...]:
        """The groups of all coordinators, by id; of certain states and types if any are named.

        Raises: UnsupportedError if a broker cannot tell states or types; TimedOutError, or what a
        broker says.
        """
        version_min = _TYPES_VERSION if types else _STATES_VERSION if states else 0

        def call(to: LookupStrategy[int]) -> Call[int, tuple[GroupListing, ...]]:
            return Call(
                action="list groups of broker",
                api=ApiKey.LIST_GROUPS,
                to=to,
                build=lambda context: ListGroupsRequest(
                    states_filter=[state.value for state in states],
                    types_filter=[kind.value for kind in types],
                ),
                read=lambda response, context: {
                    context.node_id: error_of(response)
                    or tuple(_listing(one) for one in response.groups)
                },
                version_min=version_min,
            )

        by_broker = (await self._routing.every_broker(call, timeout_ms)).unwrap()
        groups = {one.group_id: one for some in by_broker.values() for one in some}
        return tuple(groups[group_id] for group_id in sorted(groups))

    async def describe(
        self,
        group_ids: Iterable[str],
        *,
        include_authorized_operations: bool = False,
        timeout_ms: int | None = None,
    ) -> Outcomes[str, GroupDescription]:
        """Consumer groups of either protocol, with members and assignments.

        A group that does not exist is a NotFoundError, one of another protocol type a UsageError.
        """
        remaining_ms = self._routing.countdown(timeout_ms)
        call = Call[str, GroupDescription](
            action="describe group",
            api=ApiKey.CONSUMER_GROUP_DESCRIBE,
            to=CoordinatorStrategy(GROUP, str),
            build=lambda context: ConsumerGroupDescribeRequest(
                group_ids=[*context.keys],
                include_authorized_operations=include_authorized_operations,
            ),
            read=lambda response, context: {
                one.group_id: error_of(one) or consumer_group(one, context.node_id)
                for one in response.groups
            },
        )
        described = await self._routing.each(group_ids, call, timeout_ms)
        classic = [
            group_id
            for group_id, error in described.errors.items()
            if isinstance(error, UnsupportedError) or error.code is ErrorCode.GROUP_ID_NOT_FOUND
        ]
        if not classic:
            return described
        classic_call = _describe_classic(include_authorized_operations, consumer_group_of_classic)
        others = await self._routing.each(classic, classic_call, remaining_ms())
        return Outcomes({**described, **others})

    async def describe_classic(
        self,
        group_ids: Iterable[str],
        *,
        include_authorized_operations: bool = False,
        timeout_ms: int | None = None,
    ) -> Outcomes[str, ClassicGroupDescription]:
        """Classic groups of any protocol type, with their members' metadata as bytes."""
        call = _describe_classic(include_authorized_operations, classic_group)
        return await self._routing.each(group_ids, call, timeout_ms)

    async def delete(
        self, group_ids: Iterable[str], *, timeout_ms: int | None = None
    ) -> Outcomes[str, None]:
        """Delete groups of any type that have no members, and what they have committed.

        Not repeated where the response is lost, for a group may be there again by then.
        """
        call = Call[str, None](
            action="delete group",
            api=ApiKey.DELETE_GROUPS,
            to=CoordinatorStrategy(GROUP, str),
            build=lambda context: DeleteGroupsRequest(groups_names=[*context.keys]),
            read=lambda response, context: {
                one.group_id: error_of(one) for one in response.results
            },
            is_change=True,
            is_repeatable=False,
        )
        return await self._routing.each(group_ids, call, timeout_ms)

    async def remove_members(
        self,
        group_id: str,
        members: Iterable[MemberIdentity] | None = None,
        *,
        reason: str | None = None,
        timeout_ms: int | None = None,
    ) -> Outcomes[MemberIdentity, None]:
        """Take members out of a consumer group, all that it has now if none are named.

        A member that is still alive joins again. The reason appears in the broker's log.

        Raises: what describing the group says, if no members are named.
        """
        remaining_ms = self._routing.countdown(timeout_ms)
        if members is None:
            described = await self.describe([group_id], timeout_ms=remaining_ms())
            members = [
                MemberIdentity(group_instance_id=one.group_instance_id)
                if one.group_instance_id is not None
                else MemberIdentity(member_id=one.member_id)
                for one in described[group_id].unwrap().members
            ]
        call = Call[MemberIdentity, None](
            action=f"remove from group {group_id} member",
            api=ApiKey.LEAVE_GROUP,
            to=CoordinatorStrategy(GROUP, lambda _: group_id),
            build=lambda context: LeaveGroupRequest(
                group_id=group_id,
                members=[
                    LeavingMember(
                        member_id=one.member_id,
                        group_instance_id=one.group_instance_id,
                        reason=reason,
                    )
                    for one in context.keys
                ],
            ),
            read=_removed,
            is_change=True,
            version_min=_MANY_MEMBERS_VERSION,
        )
        return await self._routing.each(members, call, remaining_ms())


def _listing(one: Any) -> GroupListing:
    return GroupListing(
        group_id=one.group_id,
        protocol_type=one.protocol_type,
        state=GroupState(one.group_state),
        type=GroupType(one.group_type),
    )


def _describe_classic(
    include_authorized_operations: bool, read: Callable[[Any, int], T | ApiError]
) -> Call[str, T]:
    return Call(
        action="describe group",
        api=ApiKey.DESCRIBE_GROUPS,
        to=CoordinatorStrategy(GROUP, str),
        build=lambda context: DescribeGroupsRequest(
            groups=[*context.keys], include_authorized_operations=include_authorized_operations
        ),
        read=lambda response, context: {
            one.group_id: error_of(one) or read(one, context.node_id) for one in response.groups
        },
    )


def _removed(
    response: Any, context: RequestContext[MemberIdentity]
) -> dict[MemberIdentity, ApiError] | dict[MemberIdentity, ApiError | None]:
    whole = errors_of(context.keys, response)
    if whole:
        return whole
    verdicts = {str(_identity(one)): error_of(one) for one in response.members}
    return {key: verdicts[str(key)] for key in context.keys if str(key) in verdicts}


def _identity(one: Any) -> MemberIdentity:
    return MemberIdentity(member_id=one.member_id, group_instance_id=one.group_instance_id)
