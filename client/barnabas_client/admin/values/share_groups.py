"""Values of `admin.share_groups` (KIP-932)."""

from __future__ import annotations

from dataclasses import dataclass

from barnabas_client.admin.values.groups import GroupState
from barnabas_protocol.acl import AclOperation
from barnabas_protocol.ids import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupMember:
    """A member of a share group."""

    member_id: str
    client_id: str
    client_host: str
    rack_id: str | None = None
    member_epoch: int
    subscribed_topics: tuple[str, ...] = ()
    assignment: tuple[TopicPartition, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupDescription:
    """A share group."""

    group_id: str
    state: GroupState
    coordinator_id: int
    group_epoch: int
    assignment_epoch: int
    assignor: str
    members: tuple[ShareGroupMember, ...] = ()
    authorized_operations: frozenset[AclOperation] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupOffset:
    """Where the in-flight records of a partition begin; `lag` is None for old brokers."""

    start_offset: int
    leader_epoch: int | None = None
    lag: int | None = None
