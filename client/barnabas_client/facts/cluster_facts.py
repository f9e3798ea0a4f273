"""Data of `barnabas cluster`: brokers, partitions in trouble, features."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from barnabas_client.admin.admin import Admin
    from barnabas_client.admin.values.cluster import BrokerDescription, ClusterDescription
    from barnabas_client.admin.values.topics import TopicDescription

# A broker's own setting: it goes for good, and is to be no member of the metadata log.
LEAVING = "metadata.member.leaving"
_ROLES_TIMEOUT_MS = 5000


async def cluster_status(admin: Admin) -> dict[str, Any]:
    """All about the cluster's health. Raises: the client's errors."""
    described, listings = await asyncio.gather(
        described_cluster(admin), admin.topics.list(include_internal=True)
    )
    topics = await admin.topics.describe([listing.name for listing in listings])
    sizes, roles = await asyncio.gather(_sizes(admin), metadata_roles(admin, described))
    return status_of(described, list(topics.successes.values()), sizes, roles)


async def feature_rows(admin: Admin) -> list[dict[str, Any]]:
    """The features that brokers support, and the agreed levels. Raises: the client's errors."""
    described = await admin.features.describe()
    rows = []
    for name in sorted({*described.supported, *described.finalized}):
        supported = described.supported.get(name)
        agreed = described.finalized.get(name)
        rows.append(
            {
                "feature": name,
                "level": agreed.maximum if agreed else 0,
                "supported": f"{supported.minimum}..{supported.maximum}" if supported else None,
            }
        )
    return rows


def status_of(
    described: ClusterDescription,
    topics: Iterable[TopicDescription],
    sizes: Mapping[int, int],
    roles: Mapping[int, str] | None = None,
) -> dict[str, Any]:
    """The status as data. Pure.

    `sizes` are the bytes on the disks of each broker that tells, `roles` what brokers are in the
    metadata log.
    """
    tally = ClusterTally()
    troubles: list[dict[str, Any]] = []
    for topic in topics:
        tally.add(topic)
        troubles += troubles_of([topic])
    return {**tally.status(described, sizes, roles or {}), "troubles": troubles}


class ClusterTally:
    """What is counted of all topics, one after another, so that none of them has to be kept."""

    def __init__(self) -> None:
        self.topic_count = 0
        self.partition_count = 0
        self.offline_count = 0
        self.under_replicated_count = 0
        self._of_brokers: dict[int, _ReplicaCounts] = {}

    def add(self, topic: TopicDescription) -> None:
        """Count a topic."""
        self.topic_count += 1
        self.partition_count += topic.partition_count
        for partition in topic.partitions.values():
            in_sync = partition.in_sync_replica_ids
            if partition.leader_id is None:
                self.offline_count += 1
            elif len(in_sync) < len(partition.replica_ids):
                self.under_replicated_count += 1
            for node_id in partition.replica_ids:
                count = self._of_brokers.setdefault(node_id, _ReplicaCounts())
                count.replicas += 1
                count.leaders += partition.leader_id == node_id
                count.out_of_sync += node_id not in in_sync

    def status(
        self,
        described: ClusterDescription,
        sizes: Mapping[int, int],
        roles: Mapping[int, str],
    ) -> dict[str, Any]:
        """The status without the single troubles."""
        brokers = self._brokers(described, sizes, roles)
        is_whole = described.controller_id is not None and all(
            broker["state"] == "ready" for broker in brokers
        )
        is_fine = is_whole and not self.under_replicated_count
        return {
            "cluster_id": described.cluster_id,
            "health": "unhealthy" if self.offline_count else "healthy" if is_fine else "degraded",
            "controller": described.controller_id,
            "topics": self.topic_count,
            "partitions": self.partition_count,
            "offline_partitions": self.offline_count,
            "under_replicated_partitions": self.under_replicated_count,
            "brokers": brokers,
        }

    def _brokers(
        self,
        described: ClusterDescription,
        sizes: Mapping[int, int],
        roles: Mapping[int, str],
    ) -> list[dict[str, Any]]:
        """All brokers, also those that hold replicas and are gone."""
        known = {broker.node_id: broker for broker in described.brokers}
        rows = []
        for node_id in sorted(known.keys() | self._of_brokers.keys()):
            broker = known.get(node_id)
            counts = self._of_brokers.get(node_id) or _ReplicaCounts()
            rows.append(
                {
                    "broker": node_id,
                    "address": f"{broker.host}:{broker.port}" if broker else None,
                    "rack": broker.rack if broker else None,
                    "controller": node_id == described.controller_id,
                    "leaders": counts.leaders,
                    "replicas": counts.replicas,
                    "out_of_sync": counts.out_of_sync,
                    "size_bytes": sizes.get(node_id),
                    "metadata_log": roles.get(node_id),
                    "state": _state(broker),
                }
            )
        return rows


def _state(broker: BrokerDescription | None) -> str:
    if broker is None:
        return "gone"
    return "fenced" if broker.is_fenced else "ready"


@dataclass(slots=True)
class _ReplicaCounts:
    """What one broker has."""

    leaders: int = 0
    replicas: int = 0
    out_of_sync: int = 0


def troubles_of(topics: Iterable[TopicDescription]) -> Iterable[dict[str, Any]]:
    """The partitions that are offline or have a replica that is not in sync."""
    for topic in topics:
        for number, partition in topic.partitions.items():
            is_offline = partition.leader_id is None
            if is_offline or len(partition.in_sync_replica_ids) < len(partition.replica_ids):
                yield {
                    "partition": f"{topic.name}-{number}",
                    "trouble": "offline" if is_offline else "under-replicated",
                    "leader": partition.leader_id,
                    "replicas": list(partition.replica_ids),
                    "in_sync": list(partition.in_sync_replica_ids),
                }


async def described_cluster(admin: Admin) -> ClusterDescription:
    """The cluster with its fenced brokers, where it tells of them."""
    from barnabas_client.errors import UnsupportedError

    try:
        return await admin.cluster.describe(include_fenced_brokers=True)
    except UnsupportedError:
        return await admin.cluster.describe()


async def _sizes(admin: Admin) -> dict[int, int]:
    """Bytes on the disks of each broker that tells."""
    from barnabas_client.errors import BarnabasError

    try:
        brokers = await admin.log_dirs.describe()
    except BarnabasError:
        return {}
    return {
        node_id: sum(
            replica.size_bytes
            for directory in directories.values()
            for replica in directory.replicas.values()
        )
        for node_id, directories in brokers.successes.items()
    }


async def metadata_roles(admin: Admin, described: ClusterDescription) -> dict[int, str]:
    """What brokers are in the metadata log: `member`, or `leaving` and then `left`.

    Brokers that only follow are absent, and all of them where nobody tells.
    """
    from barnabas_client.admin import ConfigResource
    from barnabas_client.errors import BarnabasError

    live = [broker.node_id for broker in described.brokers if not broker.is_fenced]
    asked = {node_id: ConfigResource.broker(node_id) for node_id in live}
    try:
        quorum, settings = await asyncio.gather(
            admin.quorum.describe(timeout_ms=_ROLES_TIMEOUT_MS),
            admin.configs.describe(
                {key: [LEAVING] for key in asked.values()}, timeout_ms=_ROLES_TIMEOUT_MS
            ),
        )
    except BarnabasError:
        return {}
    told = settings.successes
    leaving = {
        node_id
        for node_id, resource in asked.items()
        if resource in told
        and (entry := told[resource].get(LEAVING)) is not None
        and entry.value == "true"
    }
    members = {voter.replica_id for voter in quorum.voters}
    return {
        **dict.fromkeys(members - leaving, "member"),
        **dict.fromkeys(members & leaving, "leaving"),
        **dict.fromkeys(leaving - members, "left"),
    }
