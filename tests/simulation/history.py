"""What clients asked for and what they were told, and whether a broker still agrees with it.

Knows nothing of the broker but its answers. What was acknowledged must be there; what was asked for
without an answer may be there, whole or not at all; nothing else may be.
"""

from dataclasses import dataclass, field

from barnabas_protocol.records.record import Record
from tests.simulation import requests
from tests.support.raw_client import RawClient


class HistoryError(AssertionError):
    """The broker contradicts what it has acknowledged, or what was ever asked for."""


@dataclass(eq=False)
class Append:
    """One batch of a sender; `base_offset` is None until it is acknowledged."""

    sender: str
    sequence: int
    values: list[bytes]
    base_offset: int | None = None


@dataclass
class Setting:
    """Something with one value: the acknowledged one, or one that was asked for since."""

    acknowledged: object
    asked: list[object] = field(default_factory=list)

    def ask(self, value: object) -> None:
        self.asked.append(value)

    def acknowledge(self, value: object) -> None:
        self.acknowledged = value
        self.asked = []

    def settle(self, found: object, what: str) -> None:
        if found != self.acknowledged and found not in self.asked:
            raise HistoryError(
                f"{what} is {found!r} instead of {self.acknowledged!r}, {self.asked}"
            )
        self.acknowledge(found)


@dataclass(eq=False)
class Partition:
    appends: list[Append] = field(default_factory=list)
    # What a reader has seen: it may grow but not change.
    seen: list[tuple[int, bytes]] = field(default_factory=list)


@dataclass(eq=False)
class Topic:
    partitions: list[Partition]
    topic_id: bytes | None = None
    is_create_acknowledged: bool = False
    is_delete_asked: bool = False
    is_delete_acknowledged: bool = False
    settings: dict[str, Setting] = field(default_factory=dict)


class History:
    """All that happened. `is_durable`: no acknowledged record and no committed offset may go."""

    def __init__(self, *, is_durable: bool) -> None:
        self.is_durable = is_durable
        self.topics: dict[str, Topic] = {}
        self.commits: dict[tuple[str, str, int], Setting] = {}
        self.producer_ids: set[int] = set()
        self.cluster_id: str | None = None

    def ask_append(self, topic: str, partition: int, append: Append) -> None:
        self.topics[topic].partitions[partition].appends.append(append)

    def new_producer(self, producer_id: int) -> None:
        if producer_id in self.producer_ids:
            raise HistoryError(f"producer id {producer_id} was given out twice")
        self.producer_ids.add(producer_id)

    async def check(self, client: RawClient, cluster_id: str) -> None:
        """Ask the broker for everything. Raises: HistoryError."""
        if self.cluster_id not in (None, cluster_id):
            raise HistoryError(f"the cluster id is {cluster_id}, it was {self.cluster_id}")
        self.cluster_id = cluster_id
        await self._check_topics(client)
        for name, topic in self.topics.items():
            if topic.topic_id is None or topic.is_delete_asked:
                continue
            for setting, value in topic.settings.items():
                found = await requests.topic_config(client, name, setting)
                value.settle(found, f"{setting} of {name}")
            for index, partition in enumerate(topic.partitions):
                records = await requests.read_all(client, name, index)
                try:
                    check_partition(partition, records, is_durable=self.is_durable)
                except HistoryError as error:
                    raise HistoryError(f"{name}-{index}: {error}") from None
        await self._check_commits(client)

    async def _check_topics(self, client: RawClient) -> None:
        found = await requests.topics(client)
        for name, topic in self.topics.items():
            topic_id, count = found.pop(name, (None, 0))
            if topic_id is None:
                if topic.is_create_acknowledged and not topic.is_delete_asked:
                    raise HistoryError(f"{name} was created and is gone")
                topic.is_delete_asked = topic.is_delete_acknowledged = True
                continue
            if topic.is_delete_acknowledged:
                raise HistoryError(f"{name} was deleted and is back")
            if topic.topic_id not in (None, topic_id):
                raise HistoryError(f"{name} has another id")
            if count != len(topic.partitions):
                raise HistoryError(f"{name} has {count} partitions")
            topic.topic_id, topic.is_create_acknowledged = topic_id, True
            # A delete without an answer that has not happened will not happen any more.
            topic.is_delete_asked = False
        if found:
            raise HistoryError(f"nobody asked for the topics {sorted(found)}")

    async def _check_commits(self, client: RawClient) -> None:
        for (group, topic, partition), setting in self.commits.items():
            if self.topics[topic].is_delete_asked:
                continue
            error_code, found = await requests.committed_offset(client, group, topic, partition)
            if error_code:
                raise HistoryError(f"the offset of {group} cannot be read: error {error_code}")
            if self.is_durable:
                setting.settle(found, f"the offset of {group} for {topic}-{partition}")


def check_partition(partition: Partition, records: list[Record], *, is_durable: bool) -> None:
    """Hold the records of a partition, from its start to its end, against its history."""
    contents = [(record.offset, record.value or b"") for record in records]
    offsets = {value: offset for offset, value in contents}
    if [offset for offset, _ in contents] != list(range(len(contents))):
        raise HistoryError(f"the offsets have gaps: {[offset for offset, _ in contents]}")
    if len(offsets) != len(contents):
        twice = {v for _, v in contents if sum(v == other for _, other in contents) > 1}
        raise HistoryError(f"there twice: {sorted(twice)}")
    unknown = set(offsets)
    last_offsets: dict[str, tuple[int, int]] = {}
    for append in sorted(partition.appends, key=lambda a: (a.sender, a.sequence)):
        unknown.difference_update(append.values)
        found = [offsets.get(value) for value in append.values]
        base_offset = found[0]
        if None in found and any(offset is not None for offset in found):
            raise HistoryError(f"{append} is there in part, at {found}")
        if base_offset is None:
            if append.base_offset is not None and is_durable:
                raise HistoryError(f"{append} was acknowledged and is gone")
            continue
        if found != list(range(base_offset, base_offset + len(found))):
            raise HistoryError(f"{append} is not in one piece, at {found}")
        if append.base_offset not in (None, base_offset) and is_durable:
            raise HistoryError(f"{append} is at {base_offset}")
        previous = last_offsets.get(append.sender, (-1, -1))
        if base_offset <= previous[1]:
            raise HistoryError(f"{append} at {base_offset} is before its sender's {previous}")
        last_offsets[append.sender] = (append.sequence, base_offset)
    if unknown:
        raise HistoryError(f"nobody sent {sorted(unknown)}")
    if is_durable and contents[: len(partition.seen)] != partition.seen:
        raise HistoryError("what a reader saw is not there any more")
    partition.seen = contents
