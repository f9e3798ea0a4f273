"""`barnabas log import`: check, copy, then make the topics with the ids that were found."""

import asyncio
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import click

from barnabas_broker.config.definitions import ConfigError
from barnabas_broker.config.parse import BrokerConfig
from barnabas_broker.config.topic import LogConfig
from barnabas_broker.controller.adoption import (
    KEEP_EVERYTHING,
    FoundTopic,
    adopt_topic,
    check_adoption,
)
from barnabas_broker.env.clock import SystemClock
from barnabas_broker.env.disk import RealDisk
from barnabas_broker.env.randomness import SystemRandom
from barnabas_broker.log.checkpoints import CheckpointError
from barnabas_broker.log.import_directory import (
    FoundPartition,
    ImportedPartition,
    ImportRefusedError,
    import_partition,
    inspect_partition,
)
from barnabas_broker.log.manager.log_directory import LogDirectoryLockedError
from barnabas_broker.log.manager.log_identity import IdentityError
from barnabas_broker.log.properties_files import META_PROPERTIES_FILE, read_meta_properties
from barnabas_broker.metadata.metadata_log import METADATA_PARTITION
from barnabas_broker.offline.found_topic import found_topic
from barnabas_broker.offline.stopped_broker import stopped_broker
from barnabas_broker.offline.transaction_decisions import TransactionDecisions
from barnabas_cli.output import counted
from barnabas_protocol.errors import KafkaError


def import_partitions(
    directories: Sequence[Path], data: Path, settings: Mapping[str, str] | None = None
) -> Iterator[str]:
    """Import partition directories; yields a line of what was done for each.

    The topics get the settings, and keep all records where these do not say how long.

    Raises: click.ClickException with what to do about it; nothing is changed then, or what was
    copied is removed by the broker's next start.
    """
    disk = RealDisk()
    try:
        config = _target(data)
        found = [inspect_partition(disk, str(directory)) for directory in directories]
        overrides = {**KEEP_EVERYTHING, **(settings or {})}
        LogConfig.build({}, overrides)
        topics = _group(disk, found, overrides)
        given_ids = asyncio.run(_check(config, topics))
        ids = {topic.name: topic.topic_id for topic in topics}
        source = _Source(disk, data, given_ids)
        for partition in found:
            yield from source.bring(partition, ids[partition.topic_partition.topic])
        asyncio.run(_adopt(config, topics))
        for topic in topics:
            count = counted(len(topic.latest_leader_epochs), "partition")
            yield f"topic {topic.name} with {count} is ready for the broker's next start"
            if overrides["retention.ms"] == "-1":
                yield (
                    f"it keeps all records: set its retention by `barnabas config set topic"
                    f" {topic.name} retention.ms=...`, and its cleanup.policy, where it had another"
                )
    except (
        ConfigError,
        IdentityError,
        ImportRefusedError,
        LogDirectoryLockedError,
        KafkaError,
        OSError,
    ) as error:
        raise click.ClickException(str(error)) from error
    finally:
        disk.close()


def _target(data: Path) -> BrokerConfig:
    """The settings of the broker that owns the log directory, or of a new one.

    Raises: ImportRefusedError where the broker's metadata is in another of its log directories.
    """
    if not (data / META_PROPERTIES_FILE).exists():
        return BrokerConfig.parse({"log.dirs": str(data), "node.id": "0"})
    if not (data / "-".join(map(str, METADATA_PARTITION))).is_dir():
        raise ImportRefusedError(f"{data} has no metadata log: give the broker's metadata.log.dir")
    return BrokerConfig.parse({"log.dirs": str(data)})


def _group(
    disk: RealDisk, found: Sequence[FoundPartition], settings: Mapping[str, str]
) -> list[FoundTopic]:
    """The topics of the partitions, each of them whole.

    Raises: ImportRefusedError.
    """
    by_name: dict[str, dict[int, FoundPartition]] = defaultdict(dict)
    for partition in found:
        name, number = partition.topic_partition
        if number in by_name[name]:
            raise ImportRefusedError(f"{name}-{number} is named twice")
        by_name[name][number] = partition
    topics = []
    for name, partitions in by_name.items():
        missing = sorted(set(range(max(partitions) + 1)) - set(partitions))
        if missing:
            raise ImportRefusedError(f"{name}: give the directories of partitions {missing} too")
        ids = {partition.topic_id for partition in partitions.values()}
        if len(ids) > 1:
            raise ImportRefusedError(f"{name}: the partitions have different topic ids")
        folders = [partitions[number].path for number in range(len(partitions))]
        topics.append(found_topic(disk, name, ids.pop(), folders, settings))
    return topics


async def _check(config: BrokerConfig, topics: Sequence[FoundTopic]) -> int:
    """Refuse topics that are there. Returns below which producer ids were given out."""
    async with stopped_broker(config) as (control, _):
        for topic in topics:
            check_adoption(control.recovered_image, topic)
        return control.recovered_image.next_producer_id


class _Source:
    """The directories that partitions come from, with what their coordinators have noted there."""

    def __init__(self, disk: RealDisk, data: Path, given_producer_ids_below: int) -> None:
        self._disk = disk
        self._data = data
        self._given_producer_ids_below = given_producer_ids_below
        self._decisions: dict[Path, TransactionDecisions] = {}

    def bring(self, found: FoundPartition, topic_id: bytes) -> Iterator[str]:
        """Import one partition; the lines that tell of it. Raises: as `import_partition`."""
        parent = Path(found.path).parent
        decisions = self._decisions.get(parent)
        if decisions is None:
            decisions = self._decisions[parent] = TransactionDecisions(self._disk, str(parent))
        imported = import_partition(
            self._disk,
            SystemClock(),
            SystemRandom(),
            found,
            str(self._data),
            # Whatever the topic's policy was: gaps between batches or segments are no damage.
            LogConfig.build({}, {"cleanup.policy": "compact"}),
            topic_id=topic_id,
            fates=decisions.fate,
            given_producer_ids_below=0
            if self._is_of_target(parent)
            else self._given_producer_ids_below,
        )
        yield from _told(found, imported)

    def _is_of_target(self, directory: Path) -> bool:
        """Whether a broker of the same cluster has written a log directory: the ids are its own."""
        try:
            ours, theirs = (
                read_meta_properties(self._disk, str(folder / META_PROPERTIES_FILE))
                for folder in (self._data, directory)
            )
        except CheckpointError:
            return False
        return ours is not None and theirs is not None and ours.cluster_id == theirs.cluster_id


def _told(found: FoundPartition, imported: ImportedPartition) -> Iterator[str]:
    name, number = found.topic_partition
    line = (
        f"{name}-{number}: {counted(found.record_count, 'record')} in "
        f"{counted(found.segment_count, 'segment')}, "
        f"offsets {found.log_start_offset} to {imported.log_end_offset}"
    )
    if imported.committed_count:
        line += f"; decided transactions that were committed: {imported.committed_count}"
    if imported.aborted_count:
        line += f"; open transactions that were aborted: {imported.aborted_count}"
    yield line
    if imported.unknown_count:
        yield (
            f"{name}-{number}: WARNING: {imported.unknown_count} of these may have been committed:"
            " no __transaction_state-* beside the directory tells of them"
        )


async def _adopt(config: BrokerConfig, topics: Sequence[FoundTopic]) -> None:
    async with stopped_broker(config) as (control, logs):
        for topic in topics:
            await control.controller.submit(
                lambda image, topic=topic: adopt_topic(image, topic, logs.node_id)  # type: ignore[misc]
            )
