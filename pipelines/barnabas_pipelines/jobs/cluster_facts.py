"""What a job asks the cluster without Spark: partitions, ids and offsets of topics.

For plans, and for checks that must not trust what a source remembers: a topic that was deleted and
made again has another id. Each call connects, asks and closes; none is made per record.

Not here: reading records (`barnabas_pipelines.datasource`, or Spark's connector).
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, TypeVar

from barnabas_client.errors import AlreadyExistsError, NotFoundError, RetriableError
from barnabas_pipelines import kafka_settings
from barnabas_pipelines.errors import OptionsError, TopicGoneError, UnreachableError
from barnabas_pipelines.jobs.settings import JobSettings
from barnabas_protocol.ids import ZERO_UUID, TopicPartition, uuid_to_text

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from barnabas_client.admin import Admin

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicFacts:
    """A topic as the cluster tells it; offsets by partition, ends are exclusive.

    `topic_id` is None where brokers have no ids.
    """

    name: str
    topic_id: str | None
    starts: Mapping[int, int]
    ends: Mapping[int, int]

    @property
    def record_count_max(self) -> int:
        """The offsets that there are: no fewer than the records."""
        return sum(end - self.starts[partition] for partition, end in self.ends.items())


class ClusterFacts:
    """Asks the brokers that a job's settings name."""

    def __init__(self, bootstrap_servers: str, client_settings: Mapping[str, Any]) -> None:
        """Take settings of `barnabas_client.Admin`."""
        self._bootstrap_servers = bootstrap_servers
        self._client_settings = dict(client_settings)

    @classmethod
    def of(cls, settings: JobSettings) -> Self:
        """Ask as a job's source does, with the same credentials.

        Settings that only a Java client has are left out.
        """
        from barnabas_client.config.admin_settings import AdminSettings

        found: dict[str, Any] = {}
        for name, text in (settings.values.get("source-option") or {}).items():
            if not name.lower().startswith(kafka_settings.PREFIX):
                continue
            one = {name.lower().removeprefix(kafka_settings.PREFIX): text}
            try:
                found.update(kafka_settings.client_settings(one, AdminSettings))
            except OptionsError:
                continue
        return cls(settings["bootstrap-servers"], found)

    def topics(
        self, names: Collection[str], *, read_committed: bool = False
    ) -> dict[str, TopicFacts]:
        """Topics by name, with offsets; ends are those of decided transactions if it is asked for.

        Raises: TopicGoneError where one does not exist; UnreachableError.
        """
        return self._ask(self._topics(names, read_committed))

    def topic_ids(self, names: Collection[str]) -> dict[str, str | None]:
        """The ids that the topics have now. Raises: as `topics`."""
        return self._ask(self._topic_ids(names))

    def partition_count(self, name: str) -> int:
        """How many partitions a topic has. Raises: as `topics`."""

        async def ask() -> int:
            async with self._admin() as admin:
                return len((await _described(admin, [name]))[name].partitions)

        return self._ask(ask())

    def topic_setting(self, name: str, setting: str) -> str | None:
        """The value of a setting of a topic; None where the broker does not tell."""
        from barnabas_client.admin import ConfigResource

        async def ask() -> str | None:
            async with self._admin() as admin:
                resource = ConfigResource.topic(name)
                outcome = (await admin.configs.describe([resource]))[resource]
                entry = outcome.unwrap().get(setting) if outcome.is_ok else None
                return entry.value if entry is not None else None

        return self._ask(ask())

    def create_topic(
        self, name: str, partition_count: int, configs: Mapping[str, str | None]
    ) -> None:
        """Create a topic with the brokers' replication; one that is there already stays as it is.

        Raises: UnreachableError, or what the brokers refuse.
        """
        from barnabas_client.admin import NewTopic

        async def create() -> None:
            async with self._admin() as admin:
                topic = NewTopic(name=name, partition_count=partition_count, configs=configs)
                outcome = (await admin.topics.create([topic]))[name]
                if not isinstance(outcome.error, AlreadyExistsError):
                    outcome.unwrap()

        self._ask(create())

    def commit_offsets(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        """Show in a consumer group how far a topic has been read; nobody may be in the group.

        Raises: UnreachableError, or what the brokers refuse.
        """
        from barnabas_client import OffsetAndMetadata

        async def commit() -> None:
            async with self._admin() as admin:
                named = {
                    TopicPartition(topic, one): OffsetAndMetadata(offset)
                    for one, offset in offsets.items()
                }
                (await admin.group_offsets.alter(group, named)).unwrap()

        self._ask(commit())

    async def _topics(self, names: Collection[str], read_committed: bool) -> dict[str, TopicFacts]:
        from barnabas_client.admin import OffsetSpec

        async with self._admin() as admin:
            described = await _described(admin, names)
            partitions = [
                TopicPartition(name, one)
                for name in described
                for one in described[name].partitions
            ]
            limits = []
            for spec in (OffsetSpec.EARLIEST, OffsetSpec.LATEST):
                outcomes = await admin.partitions.list_offsets(
                    dict.fromkeys(partitions, spec), read_committed=read_committed
                )
                limits.append({key: one.offset or 0 for key, one in outcomes.unwrap().items()})
        starts, ends = limits
        return {
            name: TopicFacts(
                name=name,
                topic_id=_id_text(topic.topic_id),
                starts={one: starts[TopicPartition(name, one)] for one in topic.partitions},
                ends={one: ends[TopicPartition(name, one)] for one in topic.partitions},
            )
            for name, topic in described.items()
        }

    async def _topic_ids(self, names: Collection[str]) -> dict[str, str | None]:
        async with self._admin() as admin:
            described = await _described(admin, names)
        return {name: _id_text(topic.topic_id) for name, topic in described.items()}

    @asynccontextmanager
    async def _admin(self) -> AsyncIterator[Admin]:
        from barnabas_client.admin import Admin

        async with Admin(self._bootstrap_servers, **self._client_settings) as admin:
            yield admin

    def _ask(self, question: Coroutine[Any, Any, T]) -> T:
        try:
            return asyncio.run(question)
        except RetriableError as error:
            raise UnreachableError(f"{self._bootstrap_servers} does not answer: {error}") from error


async def _described(admin: Admin, names: Collection[str]) -> Mapping[str, Any]:
    try:
        return (await admin.topics.describe(names)).unwrap()
    except NotFoundError as error:
        raise TopicGoneError(str(error)) from error


def _id_text(topic_id: Any) -> str | None:
    return None if topic_id == ZERO_UUID else uuid_to_text(topic_id)
