"""Values of `admin.cluster`: brokers, features, the controllers' quorum."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from barnabas_protocol.acl import AclOperation
from barnabas_protocol.ids import ZERO_UUID, Uuid


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerDescription:
    """A broker of the cluster; a fenced one is registered and does not take part."""

    node_id: int
    host: str
    port: int
    rack: str | None = None
    is_fenced: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterDescription:
    """The cluster; `controller_id` is None while none is known."""

    cluster_id: str | None
    controller_id: int | None
    brokers: tuple[BrokerDescription, ...]
    authorized_operations: frozenset[AclOperation] | None = None


class LevelRange(NamedTuple):
    """From and to which level of a feature, both included."""

    minimum: int
    maximum: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FeaturesDescription:
    """What one broker supports and what the cluster has agreed on.

    `finalized_epoch` is None where the broker does not say.
    """

    supported: Mapping[str, LevelRange]
    finalized: Mapping[str, LevelRange]
    finalized_epoch: int | None = None


class FeatureUpgradeType(IntEnum):
    """Which direction is allowed; an unsafe downgrade may lose metadata. Numbers are the wire's."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureUpdate:
    """The level that a feature shall have; 0 removes it and needs a downgrade type."""

    level: int
    upgrade_type: FeatureUpgradeType = FeatureUpgradeType.UPGRADE


class RaftEndpoint(NamedTuple):
    """Where a voter listens."""

    listener: str
    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumReplica:
    """A replica of the metadata log; timestamps are None where they are not known."""

    replica_id: int
    directory_id: Uuid = ZERO_UUID
    log_end_offset: int
    last_fetch_timestamp_ms: int | None = None
    last_caught_up_timestamp_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumDescription:
    """The quorum of the metadata log; `endpoints` is empty if the broker does not return them."""

    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[QuorumReplica, ...]
    observers: tuple[QuorumReplica, ...]
    endpoints: Mapping[int, tuple[RaftEndpoint, ...]]
