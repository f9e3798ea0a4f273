"""Data of `barnabas topic`, gathered from several requests.

Not here: the commands (`topic.py`). What a broker does not serve (sizes, offsets) is left out
instead of failing the rest.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from barnabas_client.admin.outcome import Outcomes
from barnabas_client.admin.values.configs import ConfigResource, ConfigSource
from barnabas_client.admin.values.partitions import OffsetSpec
from barnabas_client.errors import BarnabasError, NotFoundError
from barnabas_protocol.ids import ZERO_UUID, TopicPartition, Uuid, uuid_to_text
from barnabas_protocol.settings.suggestions import hint

if TYPE_CHECKING:
    from barnabas_client.admin.admin import Admin
    from barnabas_client.admin.values.partitions import PartitionOffset
    from barnabas_client.admin.values.topics import PartitionDescription, TopicDescription

#: As many a broker reads, and a client, in a few milliseconds.
PARTITIONS_PER_CALL: Final = 500
Offsets = Mapping[TopicPartition, int | None]
Sizes = Mapping[TopicPartition, int]


async def describe_topics(admin: Admin, names: Sequence[str]) -> dict[str, TopicDescription]:
    """The topics of these names. Raises: NotFoundError naming the nearest of an unknown one."""
    described = await admin.topics.describe(names, partitions_per_page=PARTITIONS_PER_CALL)
    for name, error in described.errors.items():
        if isinstance(error, NotFoundError):
            known = [listing.name for listing in await admin.topics.list()]
            raise NotFoundError(f"No such topic '{name}'.{hint(name, known)}") from error
    return described.unwrap()


def check_partitions(topic: TopicDescription, numbers: Iterable[int]) -> None:
    """Refuse numbers of partitions that the topic does not have. Raises: NotFoundError."""
    missing = set(numbers) - topic.partitions.keys()
    if missing:
        raise NotFoundError(
            f"'{topic.name}' has no partition {min(missing)}: there are 0 to"
            f" {max(topic.partitions)}"
        )


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
        "topic_id": topic_id_text(topic.topic_id),
    }


def topic_id_text(topic_id: Uuid) -> str | None:
    """A topic's id as people read it; None where the broker has no ids."""
    return None if topic_id == ZERO_UUID else uuid_to_text(topic_id)


def is_under_replicated(partition: PartitionDescription) -> bool:
    """Whether a replica is not in sync."""
    return len(partition.in_sync_replica_ids) < len(partition.replica_ids)


async def details(
    admin: Admin,
    topics: Mapping[str, TopicDescription],
    *,
    offsets_timeout_ms: int | None = None,
) -> list[dict[str, Any]]:
    """All about topics: partitions with offsets and sizes, and the settings that are their own.

    Offsets of partitions without a leader are waited for, for that long.
    """
    partitions = [
        TopicPartition(topic.name, number)
        for topic in topics.values()
        for number in topic.partitions
    ]
    starts, ends, sizes, configs = await asyncio.gather(
        offsets(admin, partitions, OffsetSpec.EARLIEST, timeout_ms=offsets_timeout_ms),
        offsets(admin, partitions, OffsetSpec.LATEST, timeout_ms=offsets_timeout_ms),
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
    admin: Admin,
    partitions: Collection[TopicPartition],
    spec: OffsetSpec,
    *,
    timeout_ms: int | None = None,
) -> Offsets:
    """The first or the end offsets; partitions without a leader are missing."""
    found = await listed_offsets(admin, partitions, spec, timeout_ms=timeout_ms)
    return {place: found.offset for place, found in found.successes.items()}


async def listed_offsets(
    admin: Admin,
    partitions: Collection[TopicPartition],
    spec: OffsetSpec | int,
    *,
    timeout_ms: int | None = None,
) -> Outcomes[TopicPartition, PartitionOffset]:
    """What a ListOffsets says, by calls of `PARTITIONS_PER_CALL` partitions.

    One of all of them would hold the loop while its response is read, and a broker's.
    """
    places = list(partitions)
    calls = [
        admin.partitions.list_offsets(
            dict.fromkeys(places[start : start + PARTITIONS_PER_CALL], spec), timeout_ms=timeout_ms
        )
        for start in range(0, len(places), PARTITIONS_PER_CALL)
    ]
    return Outcomes({p: one for part in await asyncio.gather(*calls) for p, one in part.items()})


async def replica_sizes(admin: Admin, partitions: Collection[TopicPartition]) -> Sizes:
    """Bytes on disk: those of the largest replica. Empty where no broker tells."""
    by_broker = await replica_sizes_by_broker(admin, partitions)
    return {place: max(sizes.values()) for place, sizes in by_broker.items()}


async def replica_sizes_by_broker(
    admin: Admin, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, dict[int, int]]:
    """Bytes on disk of each replica, by broker. Empty where no broker tells."""
    if not partitions:
        return {}
    try:
        brokers = await admin.log_dirs.describe(partitions=partitions)
    except BarnabasError:
        return {}
    sizes: dict[TopicPartition, dict[int, int]] = {}
    for broker_id, directories in brokers.successes.items():
        for directory in directories.values():
            for place, replica in directory.replicas.items():
                if not replica.is_future:
                    sizes.setdefault(place, {})[broker_id] = replica.size_bytes
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
