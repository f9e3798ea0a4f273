"""What the three requests that describe groups share: which of them a client may see, and how much.

A group that it may not see is refused in its place, before anything is looked up (SEC-46); one with
a topic that it may not see has an error in place of its members.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Set
from typing import Final, Protocol, TypeVar

from barnabas_broker.handlers.authorization import parted
from barnabas_broker.handlers.authorized_operations import OPERATIONS_SLICE, authorized_operations
from barnabas_broker.handlers.group_topics import sees_all
from barnabas_broker.handlers.request_limits import each_once
from barnabas_broker.handlers.services import Services
from barnabas_broker.network.session import InFlightRequest
from barnabas_protocol.acl import AclOperation, AclResourceType
from barnabas_protocol.errors import ErrorCode

HIDDEN_TOPICS: Final = (
    "The group has described topic(s) that the client is not authorized to describe."
)
"""Apache Kafka's words."""


class DescribedGroup(Protocol):
    """The description of a group in the response of any of the three."""

    group_id: str
    error_code: int
    authorized_operations: int


GroupT = TypeVar("GroupT")


async def visible_groups(
    services: Services, in_flight: InFlightRequest, group_ids: Sequence[str]
) -> tuple[list[str], list[str]]:
    """The groups that the client may see, and the others, each once.

    Raises: ConnectionGoneError.
    """
    return await parted(
        services,
        in_flight,
        AclOperation.DESCRIBE,
        AclResourceType.GROUP,
        each_once(group_ids, str),
        str,
    )


async def add_operations(
    services: Services, in_flight: InFlightRequest, groups: Iterable[DescribedGroup]
) -> None:
    """Tell of each group that was found what the client may do with it.

    Raises: ConnectionGoneError.
    """
    async for group in services.heavy_work.each(in_flight, groups, OPERATIONS_SLICE):
        if group.error_code == ErrorCode.NONE:
            group.authorized_operations = authorized_operations(
                services, in_flight, AclResourceType.GROUP, group.group_id
            )


async def unless_hidden(
    services: Services,
    in_flight: InFlightRequest,
    group: GroupT,
    topics: Set[str],
    refusal: Callable[[ErrorCode, str], GroupT],
) -> GroupT:
    """A group, or its refusal where one of its members has a topic that the client may not see."""
    if await sees_all(services, in_flight, topics):
        return group
    return refusal(ErrorCode.TOPIC_AUTHORIZATION_FAILED, HIDDEN_TOPICS)
