"""Values of `admin.streams_groups` (KIP-1071)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from barnabas_client.admin.values.groups import GroupState
from barnabas_protocol.acl import AclOperation


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsTopic:
    """An internal topic that a subtopology needs."""

    name: str
    partition_count: int
    replication_factor: int
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Subtopology:
    """A part of the topology that runs as one task per partition."""

    subtopology_id: str
    source_topics: tuple[str, ...]
    repartition_sink_topics: tuple[str, ...]
    state_changelog_topics: tuple[StreamsTopic, ...]
    repartition_source_topics: tuple[StreamsTopic, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsTasks:
    """The tasks of a member: subtopology -> partitions."""

    active: Mapping[str, tuple[int, ...]]
    standby: Mapping[str, tuple[int, ...]]
    warmup: Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsGroupMember:
    """A member of a Streams group; its endpoint for interactive queries is None if it has none."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rack_id: str | None
    member_epoch: int
    topology_epoch: int
    process_id: str
    endpoint: tuple[str, int] | None
    client_tags: Mapping[str, str]
    tasks: StreamsTasks
    target_tasks: StreamsTasks
    is_classic: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsGroupDescription:
    """A Streams group; there is no topology before a member has sent it."""

    group_id: str
    state: GroupState
    coordinator_id: int
    group_epoch: int
    assignment_epoch: int
    topology_epoch: int | None
    subtopologies: tuple[Subtopology, ...] = ()
    members: tuple[StreamsGroupMember, ...] = ()
    authorized_operations: frozenset[AclOperation] | None = None
