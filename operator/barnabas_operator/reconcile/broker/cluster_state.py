"""What a cluster's metadata say, as frozen values: partitions, brokers, who has the metadata log.

Gates and plans look at these alone. Not here: making them of what brokers tell (`cluster_view.py`),
what Kubernetes has (`observed.py`).

Invariant: nothing in here is a clock reading or a rate, so that looking twice at an idle cluster
gives equal values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from barnabas_protocol.ids import TopicPartition


def _nothing() -> Mapping[str, Any]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionView:
    """One partition; `replicas` holds those that are being added, too.

    `eligible` are those that have left its ISR and may lead all the same (KIP-966).
    """

    topic_partition: TopicPartition
    leader: int | None
    replicas: tuple[int, ...]
    in_sync: frozenset[int]
    in_sync_min: int
    eligible: frozenset[int] = frozenset()
    leaving: frozenset[int] = frozenset()
    is_moving: bool = False

    @property
    def is_under_replicated(self) -> bool:
        """Whether a replica is missing; one that is still being added does not count as missing."""
        return not self.is_moving and len(self.in_sync) < len(self.replicas)

    @property
    def is_unguarded(self) -> bool:
        """Whether one broker less always makes it unavailable: no restart could wait for it."""
        return len(self.replicas) <= self.in_sync_min

    @property
    def is_down_to_one(self) -> bool:
        """Whether one replica is in sync, and others could be."""
        return len(self.in_sync) == 1 < len(self.replicas)

    @property
    def is_at_limit(self) -> bool:
        """Whether it may not lose another replica that is in sync."""
        if self.is_unguarded:
            return self.is_down_to_one
        return len(self.in_sync) <= self.in_sync_min


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredBroker:
    """A broker as the metadata has it.

    `is_leaving` tells whether it leaves the members of the metadata log, or stays away from them;
    None where nobody says, as brokers of earlier releases. `factors` are its settings in force that
    say how many replicas new topics get; absent where it does not tell.
    """

    node_id: int
    is_fenced: bool = False
    rack: str | None = None
    is_leaving: bool | None = None
    factors: Mapping[str, str] = field(default_factory=_nothing)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSettings:
    """What the brokers say about settings.

    `live` can be changed while they run; `defaults` has their built-in values; `overrides` are
    those that were changed so for all brokers.
    """

    known: frozenset[str] = frozenset()
    live: frozenset[str] = frozenset()
    defaults: Mapping[str, str] = field(default_factory=_nothing)
    overrides: Mapping[str, str] = field(default_factory=_nothing)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataMembers:
    """The members of the metadata log, whose majority commits; none where nobody tells.

    `in_touch` have kept up with it lately. `wanted` is how many the controller would like to have,
    0 where it does not say.
    """

    ids: frozenset[int] = frozenset()
    in_touch: frozenset[int] = frozenset()
    wanted: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterView:
    """What the cluster's metadata says. `members` is None for brokers that have no such log."""

    cluster_id: str = ""
    controller_id: int | None = None
    brokers: Mapping[int, RegisteredBroker] = field(default_factory=dict)
    partitions: tuple[PartitionView, ...] = ()
    settings: BrokerSettings | None = None
    members: MetadataMembers | None = None

    @property
    def live_ids(self) -> frozenset[int]:
        """The brokers that take part."""
        return frozenset(
            node_id for node_id, broker in self.brokers.items() if not broker.is_fenced
        )

    def held_by(self, node_id: int) -> list[PartitionView]:
        """The partitions with a replica on a broker."""
        return [one for one in self.partitions if node_id in one.replicas]
