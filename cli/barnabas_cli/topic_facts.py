"""Data of `barnabas topic`, gathered from several requests.

Not here: the commands (`topic.py`). What a broker does not serve (sizes, offsets) is left out
instead of failing the rest.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from barnabas_client.admin.values.configs import ConfigResource, ConfigSource
from barnabas_client.admin.values.partitions import OffsetSpec
from barnabas_client.errors import BarnabasError
from barnabas_protocol.ids import ZERO_UUID, TopicPartition, uuid_to_text

if TYPE_CHECKING:
    from barnabas_client.admin.admin import Admin
    from barnabas_client.admin.values.topics import PartitionDescription, TopicDescription

Offsets = Mapping[TopicPartition, int | None]
Sizes = Mapping[TopicPartition, int]


def summary(topic: TopicDescription) -> dict[str, Any]:
    """One line about a topic."""
    partitions = topic.partitions.values()
    return {
        "topic": topic.name,
        "partitions": topic.partition_count,
        "replicas": topic.replication_factor,
        "leaders": sum(partition.leader_id is not None for partition in partitions),
        "under_replicated": sum(map(is_under_replicated, partitions)),
        "offline": sum(partition.leader_id is None for partition in partitions),
        "internal": topic.is_internal,
        "topic_id": None if topic.topic_id == ZERO_UUID else uuid_to_text(topic.topic_id),
    }


def is_under_replicated(partition: PartitionDescription) -> bool:
    """Whether a replica is not in sync."""
    return len(partition.in_sync_replica_ids) < len(partition.replica_ids)


async def details(admin: Admin, topics: Mapping[str, TopicDescription]) -> list[dict[str, Any]]:
    """All about topics: partitions with offsets and sizes, and the settings that are their own."""
    partitions = [
        TopicPartition(topic.name, number)
        for topic in topics.values()
        for number in topic.partitions
    ]
    starts, ends, sizes, configs = await asyncio.gather(
        offsets(admin, partitions, OffsetSpec.EARLIEST),
        offsets(admin, partitions, OffsetSpec.LATEST),
        replica_sizes(admin, partitions),
        own_configs(admin, topics),
    )
    return [_details_of(topic, starts, ends, sizes, configs) for topic in topics.values()]


def _details_of(
    topic: TopicDescription,
    starts: Offsets,
    ends: Offsets,
    sizes: Sizes,
    configs: Mapping[str, Mapping[str, str]],
) -> dict[str, Any]:
    rows = []
    for number, partition in topic.partitions.items():
        place = TopicPartition(topic.name, number)
        start, end = starts.get(place), ends.get(place)
        rows.append(
            {
                "partition": number,
                "leader": partition.leader_id,
                "leader_epoch": partition.leader_epoch,
                "replicas": list(partition.replica_ids),
                "in_sync": list(partition.in_sync_replica_ids),
                "eligible": list(partition.eligible_leader_replica_ids or ()),
                "last_known_eligible": list(partition.last_known_eligible_leader_replica_ids or ()),
                "offline": list(partition.offline_replica_ids),
                "start_offset": start,
                "end_offset": end,
                "records": None if start is None or end is None else end - start,
                "size_bytes": sizes.get(place),
            }
        )
    return {**summary(topic), "config": dict(configs.get(topic.name, {})), "partition_list": rows}


async def offsets(
    admin: Admin, partitions: Collection[TopicPartition], spec: OffsetSpec
) -> Offsets:
    """The first or the end offsets; partitions without a leader are missing."""
    if not partitions:
        return {}
    found = await admin.partitions.list_offsets(dict.fromkeys(partitions, spec))
    return {place: found.offset for place, found in found.successes.items()}


async def replica_sizes(admin: Admin, partitions: Collection[TopicPartition]) -> Sizes:
    """Bytes on disk: those of the largest replica. Empty where no broker tells."""
    try:
        brokers = await admin.log_dirs.describe(partitions=partitions)
    except BarnabasError:
        return {}
    sizes: dict[TopicPartition, int] = {}
    for directories in brokers.successes.values():
        for directory in directories.values():
            for place, replica in directory.replicas.items():
                if not replica.is_future:
                    sizes[place] = max(sizes.get(place, 0), replica.size_bytes)
    return sizes


async def own_configs(admin: Admin, names: Collection[str]) -> dict[str, dict[str, str]]:
    """The settings that were given to the topics themselves."""
    described = await admin.configs.describe([ConfigResource.topic(name) for name in names])
    return {
        resource.name: {
            entry.name: entry.value or ""
            for entry in entries.values()
            if entry.source is ConfigSource.DYNAMIC_TOPIC
        }
        for resource, entries in described.successes.items()
    }
