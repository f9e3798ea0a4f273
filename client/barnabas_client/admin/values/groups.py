"""Values of `admin.groups`: consumer groups of either protocol, and classic groups of any kind."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from barnabas_protocol.acl import AclOperation
from barnabas_protocol.ids import TopicPartition


class GroupType(StrEnum):
    """Which protocol a group speaks; the texts are the wire's."""

    UNKNOWN = "Unknown"
    CLASSIC = "Classic"
    CONSUMER = "Consumer"
    SHARE = "Share"
    STREAMS = "Streams"

    @classmethod
    def _missing_(cls, value: object) -> GroupType:
        wanted = str(value).lower()
        return next((one for one in cls if one.value.lower() == wanted), cls.UNKNOWN)


class GroupState(StrEnum):
    """What a group is doing; the texts are the wire's."""

    UNKNOWN = "Unknown"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"
    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    NOT_READY = "NotReady"

    @classmethod
    def _missing_(cls, value: object) -> GroupState:
        wanted = str(value).lower()
        return next((one for one in cls if one.value.lower() == wanted), cls.UNKNOWN)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupListing:
    """A group that exists; type and state are UNKNOWN for old brokers."""

    group_id: str
    protocol_type: str
    state: GroupState = GroupState.UNKNOWN
    type: GroupType = GroupType.UNKNOWN

    @property
    def is_simple(self) -> bool:
        """Whether it only holds offsets: no member ever joined it."""
        return self.protocol_type == ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberDescription:
    """A member of a consumer group.

    Epoch, target assignment, rack, regular expression and `is_upgraded` exist in the protocol
    `consumer` (KIP-848) only, where `subscribed_topics` is what the broker was told. The epoch
    is None for classic groups.
    """

    member_id: str
    group_instance_id: str | None = None
    client_id: str
    client_host: str
    assignment: tuple[TopicPartition, ...] = ()
    target_assignment: tuple[TopicPartition, ...] | None = None
    subscribed_topics: tuple[str, ...] = ()
    subscribed_topic_regex: str | None = None
    rack_id: str | None = None
    member_epoch: int | None = None
    is_upgraded: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDescription:
    """A consumer group; the two epochs are None for classic groups."""

    group_id: str
    type: GroupType
    state: GroupState
    protocol_type: str = "consumer"
    assignor: str = ""
    coordinator_id: int
    members: tuple[MemberDescription, ...] = ()
    group_epoch: int | None = None
    assignment_epoch: int | None = None
    authorized_operations: frozenset[AclOperation] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicGroupMember:
    """A member of a classic group; its metadata and assignment are bytes of its protocol type."""

    member_id: str
    group_instance_id: str | None = None
    client_id: str
    client_host: str
    metadata: bytes = b""
    assignment: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicGroupDescription:
    """A classic group of any protocol type: consumers, Connect workers, Schema Registries."""

    group_id: str
    state: GroupState
    protocol_type: str
    protocol_name: str
    coordinator_id: int
    members: tuple[ClassicGroupMember, ...] = ()
    authorized_operations: frozenset[AclOperation] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberIdentity:
    """Whom to remove: a static member by its instance id, or any by its member id."""

    member_id: str = ""
    group_instance_id: str | None = None

    def __str__(self) -> str:
        """Return what an error message shows."""
        return self.group_instance_id or self.member_id
