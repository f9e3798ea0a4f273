"""`barnabas log strays`: partition directories that a broker has put aside, in a stopped broker.

Restoring gives a directory its partition's name back, where the broker's metadata says that the
partition is this broker's; of a topic that the metadata does not know, it makes the topic as well,
which only a broker that leads alone can. Not here: what a stray is (`log.manager.strays`).
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from barnabas_broker.arbiter.arbiter import ArbiterError
from barnabas_broker.config.definitions import ConfigError
from barnabas_broker.config.parse import BrokerConfig
from barnabas_broker.config.topic import LogConfig
from barnabas_broker.controller.adoption import FoundTopic, adopt_topic, check_adoption
from barnabas_broker.env.clock import SystemClock
from barnabas_broker.env.disk import RealDisk
from barnabas_broker.env.randomness import SystemRandom
from barnabas_broker.log.errors import CorruptionError
from barnabas_broker.log.manager.log_directory import LogDirectoryLockedError
from barnabas_broker.log.manager.log_identity import IdentityError
from barnabas_broker.log.manager.strays import (
    Stray,
    StrayRefusedError,
    delete,
    list_strays,
    restore,
)
from barnabas_broker.log.properties_files import LOCK_FILE, META_PROPERTIES_FILE
from barnabas_broker.metadata.image import MetadataImage
from barnabas_broker.metadata.metadata_log import METADATA_PARTITION, MetadataLogError
from barnabas_broker.offline.found_topic import found_topic
from barnabas_broker.offline.stopped_broker import recovered_metadata, stopped_broker
from barnabas_cli.data_owner import given_to_owner
from barnabas_cli.failures import CommandError
from barnabas_cli.output import Column, Output, bytes_text
from barnabas_client.facts.moments import moment_text
from barnabas_client.facts.topic_facts import topic_id_text
from barnabas_protocol.errors import KafkaError

_REFUSALS = (
    ArbiterError,
    ConfigError,
    CorruptionError,
    IdentityError,
    KafkaError,
    LogDirectoryLockedError,
    MetadataLogError,
    OSError,
    StrayRefusedError,
)
_COLUMNS = (
    Column(title="PARTITION", field="partition"),
    Column(title="TOPIC ID", field="topic_id"),
    Column(title="SIZE", field="size_bytes", text=bytes_text, is_right=True),
    Column(title="PUT ASIDE", field="put_aside"),
    Column(title="REASON", field="reason"),
    Column(title="NAME", field="name"),
)


def list_all(data: Sequence[Path], output: Output) -> None:
    """Show the strays of log directories; the broker may be running. Raises: CommandError."""
    with _refusals(), _disk() as disk:
        rows = [_row(disk, stray) for stray in _found(disk, data)]
    output.rows(rows, _COLUMNS, empty="there are no strays")


def delete_some(
    data: Sequence[Path], names: Sequence[str], output: Output, *, is_confirmed: bool
) -> None:
    """Delete strays of a stopped broker for good. Raises: CommandError."""
    with _refusals(), given_to_owner(data), _disk() as disk, _locked(disk, data):
        chosen = _chosen(_found(disk, data), names)
        if not is_confirmed:
            click.confirm(
                f"This deletes {len(chosen)} partition directories with all records. Continue?",
                abort=True,
                err=True,
            )
        for stray in chosen:
            delete(disk, SystemRandom(), stray)
            output.said(f"deleted {stray.name}")
    if not output.is_table:
        output.data([{"name": stray.name, "deleted": True} for stray in chosen])


def restore_some(data: Sequence[Path], names: Sequence[str], output: Output) -> None:
    """Restore strays of a stopped broker, all or none by what the metadata says.

    Raises: CommandError.
    """
    with _refusals(), given_to_owner(data), _disk() as disk:
        chosen = _chosen(_found(disk, data), names)
        partitions = [stray.topic_partition for stray in chosen]
        for topic_partition in partitions:
            if partitions.count(topic_partition) > 1:
                raise StrayRefusedError(
                    "{}-{} is named twice: restore one of the two".format(*topic_partition)
                )
        config = _config(data)
        topics = asyncio.run(_check(config, disk, chosen))
        ids = {topic.name: topic.topic_id for topic in topics}
        done: list[dict[str, Any]] = []
        with _locked(disk, data):
            for stray in chosen:
                topic_id = ids.get(stray.topic_partition.topic, stray.topic_id)
                # Whatever the topic's policy was: gaps are no damage.
                settings = LogConfig.build({}, {"cleanup.policy": "compact"})
                end = restore(disk, stray, topic_id, settings, SystemClock().wall_ms())
                text = "{}-{}".format(*stray.topic_partition)
                done.append({"partition": text, "name": stray.name, "log_end_offset": end})
                output.said(f"restored {text}, up to offset {end}")
        if topics:
            asyncio.run(_adopt(config, topics))
            output.said(f"made topics {', '.join(topic.name for topic in topics)}")
    if not output.is_table:
        output.data(done)


async def _check(config: BrokerConfig, disk: RealDisk, chosen: Sequence[Stray]) -> list[FoundTopic]:
    """The topics that have to be made. Raises: StrayRefusedError, KafkaError, ..."""
    unknown: dict[str, dict[int, Stray]] = defaultdict(dict)
    async with recovered_metadata(config) as (image, node_id):
        for stray in chosen:
            name, number = stray.topic_partition
            if stray.topic_id in image.topics.by_id:
                _check_assigned(image, stray, node_id)
            else:
                unknown[name][number] = stray
        topics = [_topic(disk, name, strays) for name, strays in unknown.items()]
        for topic in topics:
            check_adoption(image, topic)
        if topics and image.brokers.keys() - {node_id}:
            names = ", ".join(topic.name for topic in topics)
            raise StrayRefusedError(
                f"the cluster does not know the topic {names}: a broker of several cannot make it."
                " Restore into a broker that is alone, by `barnabas log import`, and copy the"
                " records from there"
            )
    return topics


def _check_assigned(image: MetadataImage, stray: Stray, node_id: int) -> None:
    topic = image.topics.by_id[stray.topic_id]
    name, number = stray.topic_partition
    if topic.name != name or number >= len(topic.partitions):
        raise StrayRefusedError(f"{name}-{number} is no partition of the topic {topic.name}")
    partition = topic.partitions[number]
    replicas = partition.replicas
    in_sync = ", ".join(str(node) for node in partition.isr if node != node_id)
    if node_id not in replicas:
        raise StrayRefusedError(
            f"{name}-{number} is on brokers {', '.join(map(str, replicas))}, not on this one:"
            " reassign it here first, or delete the stray"
        )
    if in_sync:
        # What was deleted since is nowhere any more, not even as a tombstone: it would come back.
        raise StrayRefusedError(
            f"{name}-{number} is in sync on brokers {in_sync}: delete the stray, the broker copies"
            " the partition from there"
        )


def _topic(disk: RealDisk, name: str, strays: dict[int, Stray]) -> FoundTopic:
    missing = sorted(set(range(max(strays) + 1)) - set(strays))
    if missing:
        raise StrayRefusedError(
            f"the metadata does not know the topic {name}: restore its partitions {missing} too"
        )
    ids = {stray.topic_id for stray in strays.values()}
    if len(ids) > 1:
        raise StrayRefusedError(f"{name}: the partitions are of different topics of that name")
    if not all(stray.is_name_whole for stray in strays.values()):
        raise StrayRefusedError(f"{name}: the topic's whole name is not known any more")
    folders = [strays[number].path for number in range(len(strays))]
    return found_topic(disk, name, ids.pop(), folders)


async def _adopt(config: BrokerConfig, topics: Sequence[FoundTopic]) -> None:
    async with stopped_broker(config) as (control, logs):
        for topic in topics:
            await control.controller.submit(
                lambda image, topic=topic: adopt_topic(image, topic, logs.node_id)  # type: ignore[misc]
            )


def _row(disk: RealDisk, stray: Stray) -> dict[str, Any]:
    path = Path(stray.path)
    return {
        "partition": "{}-{}".format(*stray.topic_partition),
        "topic_id": topic_id_text(stray.topic_id),
        "size_bytes": sum(file.stat().st_size for file in path.iterdir() if file.is_file()),
        "put_aside": moment_text(stray.put_aside_ms) if stray.put_aside_ms else None,
        "reason": stray.reason or None,
        "name": stray.name,
        "path": stray.path,
    }


def _found(disk: RealDisk, data: Sequence[Path]) -> list[Stray]:
    for directory in data:
        if not (directory / META_PROPERTIES_FILE).exists():
            raise StrayRefusedError(f"{directory} is no log directory of a broker")
    return [stray for directory in data for stray in list_strays(disk, str(directory))]


def _chosen(found: Sequence[Stray], names: Sequence[str]) -> list[Stray]:
    """The strays of these names; none given: all. Raises: StrayRefusedError."""
    by_name = {stray.name: stray for stray in found}
    unknown = [name for name in names if name not in by_name]
    if unknown:
        raise StrayRefusedError(f"there is no stray {unknown[0]}: see `barnabas log strays list`")
    chosen = [by_name[name] for name in names] if names else list(found)
    if not chosen:
        raise StrayRefusedError("there are no strays")
    return chosen


def _config(data: Sequence[Path]) -> BrokerConfig:
    """The settings of the broker; all of its log directories must be given."""
    metadata = "-".join(map(str, METADATA_PARTITION))
    home = next((one for one in data if (one / metadata).is_dir()), None)
    if home is None:
        raise StrayRefusedError("give the broker's metadata.log.dir with --data as well")
    return BrokerConfig.parse({"log.dirs": ",".join(map(str, data)), "metadata.log.dir": str(home)})


@contextmanager
def _locked(disk: RealDisk, data: Sequence[Path]) -> Iterator[None]:
    locks = []
    try:
        for directory in data:
            try:
                locks.append(disk.lock(str(directory / LOCK_FILE)))
            except BlockingIOError as error:
                raise StrayRefusedError(
                    f"a broker is running on {directory}: stop it first; a running broker leaves"
                    " its strays alone"
                ) from error
        yield
    finally:
        for lock in locks:
            lock.close()


@contextmanager
def _disk() -> Iterator[RealDisk]:
    disk = RealDisk()
    try:
        yield disk
    finally:
        disk.close()


@contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except _REFUSALS as error:
        raise CommandError(str(error)) from error
