"""Facts about the cluster that a job reads without Spark: partitions, ids and offsets of topics.

For plans, and for checks that must not trust what a source remembers: a topic that was deleted and
made again has another id. Each call connects, reads and closes; none is made per record.

Not here: reading records (`barnabas_pipelines.datasource`, or Spark's connector).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from barnabas_client.errors import (
    AlreadyExistsError,
    BarnabasError,
    NotFoundError,
    RetriableError,
)
from barnabas_pipelines import kafka_settings
from barnabas_pipelines.errors import (
    PipelineError,
    TopicGoneError,
    UnreachableError,
)
from barnabas_pipelines.jobs.settings import JobSettings
from barnabas_protocol.ids import ZERO_UUID, TopicPartition, uuid_to_text
from barnabas_protocol.settings.suggestions import did_you_mean

if TYPE_CHECKING:
    from barnabas_client.admin import Admin

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicFacts:
    """A topic as the cluster describes it; offsets by partition, ends are exclusive.

    `topic_id` is None where brokers have no ids. `epochs` are the leader epochs of the ends; those
    that brokers do not say are left out.
    """

    name: str
    topic_id: str | None
    starts: Mapping[int, int]
    ends: Mapping[int, int]
    epochs: Mapping[int, int]

    @property
    def record_count_max(self) -> int:
        """The offsets that there are: no fewer than the records."""
        return sum(end - self.starts[partition] for partition, end in self.ends.items())


class ClusterFacts:
    """Reads from the brokers that a job's settings name."""

    def __init__(self, bootstrap_servers: str, client_settings: Mapping[str, Any]) -> None:
        """Take settings of `barnabas_client.Admin`."""
        self._bootstrap_servers = bootstrap_servers
        self._client_settings = dict(client_settings)

    @classmethod
    def of(cls, settings: JobSettings) -> Self:
        """Connect as a job's source does, with the same credentials.

        Settings that only a Java client has are left out, but for those of security.
        Raises: OptionsError.
        """
        from barnabas_client.config.admin_settings import AdminSettings

        given = {
            name.lower().removeprefix(kafka_settings.PREFIX): str(text)
            for name, text in (settings.values.get("source-option") or {}).items()
            if name.lower().startswith(kafka_settings.PREFIX)
        }
        found = kafka_settings.known_settings(given, AdminSettings)
        return cls(settings["bootstrap-servers"], found)

    @property
    def client_settings(self) -> Mapping[str, Any]:
        """The settings for another client of the same cluster, but for where it is."""
        return self._client_settings

    def topics(
        self, names: Collection[str], *, read_committed: bool = False
    ) -> dict[str, TopicFacts]:
        """Topics by name, with offsets; ends are those of decided transactions on demand.

        Raises: TopicGoneError where one does not exist; UnreachableError.
        """
        return self._run(lambda admin: _topics(admin, names, read_committed))

    def topic_ids(self, names: Collection[str]) -> dict[str, str | None]:
        """The ids that the topics have now. Raises: as `topics`."""
        found = self._run(lambda admin: _described(admin, names))
        return {name: _id_text(topic.topic_id) for name, topic in found.items()}

    def epoch_ends(self, topic: str, epochs: Mapping[int, int]) -> dict[int, int]:
        """Below which offset each log is what it was under that leader epoch, as far as it knows.

        Raises: UnreachableError, or what the brokers refuse.
        """
        if not epochs:
            return {}
        wanted = {TopicPartition(topic, one): epoch for one, epoch in epochs.items()}
        found = self._run(lambda admin: admin.partitions.epoch_ends(wanted)).unwrap()
        return {one.partition: end for one, end in found.items() if end is not None}

    def cluster_id(self) -> str:
        """The id of the cluster, empty where brokers have none. Raises: UnreachableError."""
        return self._run(lambda admin: admin.cluster.describe()).cluster_id or ""

    def partition_count(self, name: str) -> int:
        """How many partitions a topic has. Raises: as `topics`."""
        return len(self._run(lambda admin: _described(admin, [name]))[name].partitions)

    def topic_setting(self, name: str, setting: str) -> str | None:
        """The value of a setting of a topic; None where the broker does not return it."""
        from barnabas_client.admin import ConfigResource

        resource = ConfigResource.topic(name)
        outcome = self._run(lambda admin: admin.configs.describe([resource]))[resource]
        entry = outcome.unwrap().get(setting) if outcome.is_ok else None
        return entry.value if entry is not None else None

    def create_topic(
        self, name: str, partition_count: int, configs: Mapping[str, str | None]
    ) -> None:
        """Create a topic with the brokers' replication; one that is there already stays as it is.

        Raises: UnreachableError, or what the brokers refuse.
        """
        from barnabas_client.admin import NewTopic

        topic = NewTopic(name=name, partition_count=partition_count, configs=configs)
        outcome = self._run(lambda admin: admin.topics.create([topic]))[name]
        if not isinstance(outcome.error, AlreadyExistsError):
            outcome.unwrap()

    def commit_offsets(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        """Show in a consumer group how far a topic has been read; nobody may be in the group.

        Raises: UnreachableError, or what the brokers refuse.
        """
        from barnabas_client import OffsetAndMetadata

        named = {
            TopicPartition(topic, one): OffsetAndMetadata(offset) for one, offset in offsets.items()
        }
        self._run(lambda admin: admin.group_offsets.alter(group, named)).unwrap()

    def committed_offsets(
        self, group: str, topic: str, *, require_stable: bool = False
    ) -> dict[int, int]:
        """What is committed for a topic's partitions; open transactions are waited for on demand.

        Raises: UnreachableError, or what the brokers refuse.
        """

        async def committed(admin: Admin) -> dict[int, int]:
            outcomes = await admin.group_offsets.list([group], require_stable=require_stable)
            found = outcomes.unwrap()[group]
            return {
                one.partition: offset.offset
                for one, offset in found.items()
                if one.topic == topic and offset is not None
            }

        return self._run(committed)

    def show_progress(
        self,
        group: str | None,
        ends: Mapping[str, Mapping[int, int]],
        report: Callable[[str], None],
    ) -> None:
        """Commit to the group, if there is one; a failure is reported and changes nothing."""
        if group is None:
            return
        try:
            for topic, offsets in ends.items():
                self.commit_offsets(group, topic, offsets)
        except (PipelineError, BarnabasError) as error:
            report(f"progress is not shown in group {group}: {error}")

    def _run(self, requests: Callable[[Admin], Awaitable[T]]) -> T:
        """What the requests bring, over connections of their own."""
        from barnabas_client.admin import Admin

        async def run() -> T:
            async with Admin(self._bootstrap_servers, **self._client_settings) as admin:
                return await requests(admin)

        try:
            return asyncio.run(run())
        except RetriableError as error:
            raise UnreachableError(
                f"{self._bootstrap_servers} does not respond: {error}"
            ) from error


async def _topics(
    admin: Admin, names: Collection[str], read_committed: bool
) -> dict[str, TopicFacts]:
    from barnabas_client.admin import OffsetSpec

    described = await _described(admin, names)
    partitions = [
        TopicPartition(name, one) for name in described for one in described[name].partitions
    ]
    limits = []
    for spec in (OffsetSpec.EARLIEST, OffsetSpec.LATEST):
        outcomes = await admin.partitions.list_offsets(
            dict.fromkeys(partitions, spec), read_committed=read_committed
        )
        limits.append(outcomes.unwrap())
    starts, ends = ({key: one.offset or 0 for key, one in found.items()} for found in limits)
    epochs = {key: one.leader_epoch for key, one in limits[1].items()}
    return {
        name: TopicFacts(
            name=name,
            topic_id=_id_text(topic.topic_id),
            starts={one: starts[TopicPartition(name, one)] for one in topic.partitions},
            ends={one: ends[TopicPartition(name, one)] for one in topic.partitions},
            epochs={
                one: epoch
                for one in topic.partitions
                if (epoch := epochs[TopicPartition(name, one)]) is not None
            },
        )
        for name, topic in described.items()
    }


async def _described(admin: Admin, names: Collection[str]) -> Mapping[str, Any]:
    described = await admin.topics.describe(names)
    for name, error in described.errors.items():
        if isinstance(error, NotFoundError):
            known = [listing.name for listing in await admin.topics.list()]
            raise TopicGoneError(f"there is no topic {name}{did_you_mean(name, known)}") from error
    return described.unwrap()


def _id_text(topic_id: Any) -> str | None:
    return None if topic_id == ZERO_UUID else uuid_to_text(topic_id)


class SameTopics:
    """The topics of a run, with the ids that they had when it, or its checkpoint, began.

    Of topics to which keys lead, the partitions must stay as many.
    """

    def __init__(
        self,
        cluster: ClusterFacts,
        ids: Mapping[str, str | None],
        partition_counts: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        self._cluster = cluster
        self.ids = dict(ids)
        self._partition_counts = dict(partition_counts)

    def check(self) -> None:
        """Look at the topics again. Raises: TopicGoneError, PipelineError, UnreachableError."""
        now = self._cluster.topic_ids(list(self.ids))
        for name, known in self.ids.items():
            if None not in (known, now[name]) and now[name] != known:
                raise TopicGoneError(
                    f"topic {name} was deleted and made anew since the job began (its id was "
                    f"{known} and is {now[name]}): what was not finished is not written. Give a "
                    "new --checkpoint, and a new target if its rows are of the old topic"
                )
        for name, count in self._partition_counts.items():
            if (found := self._cluster.partition_count(name)) != count:
                raise PipelineError(
                    f"{name} had {count} partitions and has {found}: rows of a key would go to "
                    "another one than before, where none replaces the other. Give a new target "
                    "and a new --checkpoint"
                )
