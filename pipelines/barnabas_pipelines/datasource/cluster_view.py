"""The driver's view of the cluster: which partitions there are, where they begin and end.

Works in the process that Spark plans in. Not here: what follows from it
(`offsets.py`, `positions.py`), reading (`partition_read.py`).

Invariants: every view is of the topics that the options name, as they are at that moment;
topics are never created by a request; an error names the topic or the brokers, and what to do.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from barnabas_client.admin import Admin, OffsetSpec
from barnabas_client.config.admin_settings import AdminSettings
from barnabas_client.config.consumer_settings import ConsumerSettings
from barnabas_client.config.settings import settings_of
from barnabas_client.errors import (
    AuthenticationError,
    AuthorizationError,
    BarnabasError,
    NotFoundError,
    RetriableError,
    UsageError,
)
from barnabas_pipelines.datasource.loop_thread import KeptClients, loop_thread
from barnabas_pipelines.errors import OptionsError, PipelineError, TopicGoneError, UnreachableError
from barnabas_pipelines.offsets import LogView, StreamOffsets
from barnabas_pipelines.options import Options
from barnabas_protocol.ids import ZERO_UUID, TopicPartition, uuid_to_text

T = TypeVar("T")
SettingsKey = tuple[tuple[str, Any], ...]


class ClusterView:
    """Reads the topics of one set of options anew at each call."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._key = settings_key(options, AdminSettings)
        self._servers = options["kafka.bootstrap.servers"]
        self._is_committed = options["kafka.isolation.level"] == "read_committed"

    def log_view(self, *, may_be_missing: bool = False) -> LogView:
        """The first and last offsets of all partitions that are to be read.

        Raises: TopicGoneError if a topic or partition that is named does not exist, unless
            `may_be_missing`; UnreachableError; PipelineError.
        """
        return self._run(lambda admin: self._log_view(admin, may_be_missing))

    def offsets_at(
        self, timestamps_ms: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int | None]:
        """The first offset that is not older; None where all records are."""
        return self._run(lambda admin: self._offsets_at(admin, timestamps_ms))

    async def _log_view(self, admin: Admin, may_be_missing: bool) -> LogView:
        partitions, ids = await self._partitions(admin, may_be_missing)
        found: dict[OffsetSpec, dict[TopicPartition, int]] = {}
        for spec in (OffsetSpec.EARLIEST, OffsetSpec.LATEST):
            outcomes = await admin.partitions.list_offsets(
                dict.fromkeys(partitions, spec), read_committed=self._is_committed
            )
            found[spec] = {}
            for partition, outcome in outcomes.items():
                if may_be_missing and isinstance(outcome.error, NotFoundError):
                    continue
                found[spec][partition] = outcome.unwrap().offset or 0
        starts = found[OffsetSpec.EARLIEST]
        ends = {one: end for one, end in found[OffsetSpec.LATEST].items() if one in starts}
        return LogView(
            starts={one: starts[one] for one in ends},
            ends=StreamOffsets(offsets=ends, topic_ids=ids),
        )

    async def _partitions(
        self, admin: Admin, may_be_missing: bool
    ) -> tuple[list[TopicPartition], dict[str, str]]:
        """What the subscription means now, and the ids of those topics."""
        assigned = self._options["assign"]
        described = await admin.topics.describe(await self._topic_names(admin))
        partitions: list[TopicPartition] = []
        ids: dict[str, str] = {}
        for name, outcome in described.items():
            if isinstance(outcome.error, NotFoundError) or _is_unknown(outcome.error):
                if may_be_missing or self._options["subscribePattern"] is not None:
                    continue
                raise TopicGoneError(
                    f"topic {name} does not exist on {self._servers}: create it, or leave it out"
                )
            topic = outcome.unwrap()
            ids[name] = "" if topic.topic_id == ZERO_UUID else uuid_to_text(topic.topic_id)
            partitions += [TopicPartition(name, number) for number in topic.partitions]
        if assigned is None:
            return partitions, ids
        missing = [one for one in assigned if one not in set(partitions)]
        if missing and not may_be_missing:
            raise TopicGoneError(
                f"assign names partition {missing[0]}, which does not exist on {self._servers}"
            )
        return [one for one in assigned if one in set(partitions)], ids

    async def _topic_names(self, admin: Admin) -> list[str]:
        options = self._options
        if options["subscribe"] is not None:
            return list(options["subscribe"])
        if options["assign"] is not None:
            return sorted({topic for topic, _ in options["assign"]})
        pattern: re.Pattern[str] = options["subscribePattern"]
        return [topic.name for topic in await admin.topics.list() if pattern.search(topic.name)]

    async def _offsets_at(
        self, admin: Admin, timestamps_ms: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int | None]:
        outcomes = await admin.partitions.list_offsets(
            timestamps_ms, read_committed=self._is_committed
        )
        return {partition: outcome.unwrap().offset for partition, outcome in outcomes.items()}

    def _run(self, requests: Callable[[Admin], Coroutine[Any, Any, T]]) -> T:
        try:
            with _admins.borrow(self._key) as admin:
                return loop_thread().run(requests(admin))
        except BarnabasError as error:
            raise pipeline_error(error, self._servers) from error


def _is_unknown(error: BarnabasError | None) -> bool:
    return error is not None and error.code is not None and "UNKNOWN_TOPIC" in error.code.name


def settings_key(options: Options, role: type[Any]) -> SettingsKey:
    """The settings of the client that the role has, as a key to keep a client under."""
    known = settings_of(role)
    return tuple(sorted((k, v) for k, v in options.client_settings.items() if k in known))


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSettings:
    """What a worker needs of the options; small, because it is pickled with every reader."""

    client: SettingsKey
    servers: str
    include_headers: bool
    fails_on_data_loss: bool
    stall_timeout_ms: int
    batch_records: int

    @classmethod
    def of(cls, options: Options) -> ReadSettings:
        """Take them out of checked options."""
        return cls(
            client=settings_key(options, ConsumerSettings),
            servers=options["kafka.bootstrap.servers"],
            include_headers=options["includeHeaders"],
            fails_on_data_loss=options["failOnDataLoss"],
            stall_timeout_ms=options["kafkaConsumer.pollTimeoutMs"],
            batch_records=options["arrowBatchRecords"],
        )


def pipeline_error(error: BarnabasError, servers: str) -> PipelineError:
    """The client's error as one of ours, whose first words say what it means for a job."""
    match error:
        case AuthenticationError():
            return PipelineError(f"the brokers at {servers} refuse the login: {error}")
        case AuthorizationError():
            return PipelineError(f"this user may not read what the options name: {error}")
        case UsageError():
            return OptionsError(f"the client refuses the call: {error}")
        case NotFoundError():
            return TopicGoneError(f"a topic is not there (any more) on {servers}: {error}")
        case RetriableError():
            return UnreachableError(
                f"the brokers at {servers} do not respond: {error}. The client has tried for"
                " kafka.default.api.timeout.ms (60 seconds by default)"
            )
        case _:
            return PipelineError(f"the brokers at {servers} have refused: {error}")


async def _start_admin(key: SettingsKey) -> Admin:
    settings = dict(key)
    admin = Admin(settings.pop("bootstrap_servers"), **settings)
    await admin.start()
    return admin


_admins: Final = KeptClients[Admin](_start_admin)


def described(partitions: Iterable[TopicPartition]) -> str:
    """Partitions for a sentence, not too many of them."""
    named = sorted(str(TopicPartition(*one)) for one in partitions)
    more = len(named) - 8
    return ", ".join(named[:8]) + (f" and {more} more" if more > 0 else "")
