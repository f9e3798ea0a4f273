"""Data of `barnabas cluster status`: brokers, and partitions in trouble."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from barnabas_client.admin.admin import Admin
    from barnabas_client.admin.values.cluster import ClusterDescription
    from barnabas_client.admin.values.topics import TopicDescription

# A broker's own setting: it goes for good, and is to be no member of the metadata log.
LEAVING = "metadata.member.leaving"
_ROLES_TIMEOUT_MS = 5000


async def cluster_status(admin: Admin) -> dict[str, Any]:
    """All about the cluster's health. Raises: the client's errors."""
    described, listings = await asyncio.gather(
        _described(admin), admin.topics.list(include_internal=True)
    )
    topics = await admin.topics.describe([listing.name for listing in listings])
    sizes, roles = await asyncio.gather(_sizes(admin), _metadata_roles(admin, described))
    return status_of(described, list(topics.successes.values()), sizes, roles)


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
    topics = list(topics)
    troubles = list(_troubles(topics))
    brokers = _brokers(described, topics, sizes, roles or {})
    offline = sum(trouble["trouble"] == "offline" for trouble in troubles)
    is_whole = described.controller_id is not None and all(
        broker["state"] == "ready" for broker in brokers
    )
    health = "unhealthy" if offline else "degraded" if troubles or not is_whole else "healthy"
    return {
        "cluster_id": described.cluster_id,
        "health": health,
        "controller": described.controller_id,
        "topics": len(topics),
        "partitions": sum(topic.partition_count for topic in topics),
        "offline_partitions": offline,
        "under_replicated_partitions": len(troubles) - offline,
        "brokers": brokers,
        "troubles": troubles,
    }


def _troubles(topics: Iterable[TopicDescription]) -> Iterable[dict[str, Any]]:
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


def _brokers(
    described: ClusterDescription,
    topics: Iterable[TopicDescription],
    sizes: Mapping[int, int],
    roles: Mapping[int, str],
) -> list[dict[str, Any]]:
    """All brokers, also those that hold replicas and are gone."""
    known = {broker.node_id: broker for broker in described.brokers}
    counts = {node_id: {"leaders": 0, "replicas": 0, "out_of_sync": 0} for node_id in known}
    for topic in topics:
        for partition in topic.partitions.values():
            for node_id in partition.replica_ids:
                count = counts.setdefault(node_id, {"leaders": 0, "replicas": 0, "out_of_sync": 0})
                count["replicas"] += 1
                count["leaders"] += partition.leader_id == node_id
                count["out_of_sync"] += node_id not in partition.in_sync_replica_ids
    rows = []
    for node_id in sorted(counts):
        broker = known.get(node_id)
        rows.append(
            {
                "broker": node_id,
                "address": f"{broker.host}:{broker.port}" if broker else None,
                "rack": broker.rack if broker else None,
                "controller": node_id == described.controller_id,
                **counts[node_id],
                "size_bytes": sizes.get(node_id),
                "metadata_log": roles.get(node_id),
                "state": "gone" if broker is None else "fenced" if broker.is_fenced else "ready",
            }
        )
    return rows


async def _described(admin: Admin) -> ClusterDescription:
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


async def _metadata_roles(admin: Admin, described: ClusterDescription) -> dict[int, str]:
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
