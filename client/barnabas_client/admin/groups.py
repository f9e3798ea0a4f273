"""Groups: LeaveGroup (13), DescribeGroups (15), ListGroups (16), DeleteGroups (42), ConsumerGroupDescribe (69)."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from barnabas_client.admin.outcome import Outcomes
from barnabas_client.admin.routing import AdminRouting
from barnabas_client.admin.values.groups import (
    ClassicGroupDescription,
    GroupDescription,
    GroupListing,
    GroupState,
    GroupType,
    MemberIdentity,
)


class Groups:
    """`admin.groups`."""

    def __init__(self, routing: AdminRouting) -> None:
        self._routing = routing

    async def list(
        self,
        *,
        states: Collection[GroupState] = (),
        types: Collection[GroupType] = (),
        timeout_ms: int | None = None,
    ) -> tuple[GroupListing, ...]:
        """All groups of all coordinators, by id; states and types narrow it. Raises: what went wrong."""
        raise NotImplementedError

    async def describe(
        self,
        group_ids: Iterable[str],
        *,
        include_authorized_operations: bool = False,
        timeout_ms: int | None = None,
    ) -> Outcomes[str, GroupDescription]:
        """Consumer groups of either protocol, with members and assignments."""
        raise NotImplementedError

    async def describe_classic(
        self,
        group_ids: Iterable[str],
        *,
        include_authorized_operations: bool = False,
        timeout_ms: int | None = None,
    ) -> Outcomes[str, ClassicGroupDescription]:
        """Classic groups of any protocol type."""
        raise NotImplementedError

    async def delete(
        self, group_ids: Iterable[str], *, timeout_ms: int | None = None
    ) -> Outcomes[str, None]:
        """Delete groups without members, and their offsets."""
        raise NotImplementedError

    async def remove_members(
        self,
        group_id: str,
        members: Iterable[MemberIdentity] | None = None,
        *,
        reason: str | None = None,
        timeout_ms: int | None = None,
    ) -> Outcomes[MemberIdentity, None]:
        """Take members out of a group, all of them if none are named."""
        raise NotImplementedError
