"""Writes dead letters of share groups to the topics that the groups have for them.

A write reads the records of the source, builds batches and has each appended by the leader of the
partition *source partition mod partitions of the topic*, with acks of all in sync. What may pass
(the topic is being made, its leader is away or another) is tried again, after 1 s doubling to 30 s,
5 times; the rest of the write is given up then, and at once where the topic is not permitted. A
batch that the topic refuses is given up alone. What is given up is counted and logged.

Not here: when a record becomes a dead letter (`share_partition.py`), batches
(`dead_letter_batch.py`), how a request reaches a leader (the server).

Source: KIP-1191; SHR-35, SHR-36. Invariants: settings are those of the moment of each attempt; a
few batches are built at a time; a write ends, whatever happens.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Any, Final, NamedTuple, Protocol

from barnabas_broker.env.clock import Clock
from barnabas_broker.env.disk import Buffer
from barnabas_broker.replication.partition import Partition
from barnabas_broker.share.dead_letter_batch import BuiltLetters, LetterSource, build_letters
from barnabas_broker.share.dead_letters import DeadLetters
from barnabas_broker.share.persister import SharePartitionKey
from barnabas_broker.share.share_metrics import DeadLetterCounts
from barnabas_protocol.backoff import ExponentialBackoff
from barnabas_protocol.errors import ErrorCode, KafkaError, is_retriable
from barnabas_protocol.ids import Uuid

logger = logging.getLogger(__name__)

BACKOFF: Final = ExponentialBackoff(1_000, 30_000)
ATTEMPTS: Final = 5
READ_BYTES_MAX: Final = 1024 * 1024
"""So much of the source is read at a time: mostly a single record is wanted."""
BATCH_BYTES_MAX: Final = 1024 * 1024
BUILT_AT_ONCE: Final = 4
"""So many batches are read, built and in memory at a time, waits between attempts apart."""
LOGGED_LOSSES: Final = 10
LOGGED_EACH: Final = 1_000
"""The first losses of a group are logged, then each thousandth."""
_INTERNAL_PREFIX: Final = "__"
NO_LEADER: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterSettings:
    """What a group and the cluster say of dead letters."""

    topic: str = ""
    copies: bool = False
    prefix: str = "dlq."
    creates_topics: bool = False


class DeadLetterTopic(NamedTuple):
    """A topic as it is now."""

    name: str
    topic_id: Uuid
    is_permitted: bool
    batch_bytes_max: int
    leaders: Sequence[int]  # of the partitions; -1 for none


class DeadLetterTopics(Protocol):
    """The topics for dead letters, and the ways to their leaders."""

    def settings(self, group_id: str) -> DeadLetterSettings:
        """Return what holds for a group."""
        ...

    def find(self, name: str) -> DeadLetterTopic | None:
        """Return a topic; None if there is none."""
        ...

    def create(self, name: str) -> None:
        """Begin to make a topic."""
        ...

    async def append(self, node_id: int, topic: DeadLetterTopic, index: int, batch: bytes) -> None:
        """Have a broker append a batch, and all in sync. Raises: OSError, KafkaError."""
        ...


class NotPermittedError(Exception):
    """A group has no topic that may have its dead letters; says why, in Kafka's words."""


class _Outcome(Enum):
    """What became of one batch."""

    WRITTEN = "written"
    REFUSED = "refused"
    GIVEN_UP = "given up"
    UNWANTED = "unwanted"


class TopicDeadLetterWriter:
    """A `DeadLetterWriter` over the brokers of the cluster."""

    def __init__(
        self,
        topics: DeadLetterTopics,
        *,
        clock: Clock,
        counts: Callable[[str], DeadLetterCounts],
        reads: asyncio.Semaphore,
        run: Callable[..., Awaitable[Any]],
    ) -> None:
        """`counts` are those of a group, `reads` bounds reads of logs, `run` has a thread work."""
        self._topics = topics
        self._clock = clock
        self._counts = counts
        self._reads = reads
        self._run = run
        self._built = asyncio.Semaphore(BUILT_AT_ONCE)

    async def write(
        self,
        key: SharePartitionKey,
        partition: Partition,
        letters: Sequence[DeadLetters],
        *,
        is_wanted: Callable[[], bool],
    ) -> None:
        """Return when all are written, or given up and counted."""
        write = _Write(key, partition, letters, is_wanted)
        while write.next_offset <= write.last_offset and is_wanted():
            try:
                outcome = await self._write_batch(write)
            except NotPermittedError as error:
                self._give_up(write, str(error))
                return
            except Exception as error:
                logger.error("dead letters of %s failed", key, exc_info=error)
                self._give_up(write, "an unexpected error")
                return
            if outcome is _Outcome.GIVEN_UP:
                self._give_up(write, f"{ATTEMPTS} attempts have failed")
                return

    async def _write_batch(self, write: _Write) -> _Outcome:
        """Build and write the next batch. Raises: NotPermittedError."""
        built: BuiltLetters | None = None
        failures = 0
        while write.is_wanted():
            name = self._permitted(write.key.group_id)
            topic = self._topics.find(name)
            try:
                if topic is None:
                    self._topics.create(name)
                    raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "it is being made")
                async with self._built:
                    if built is None:
                        built = await self._build(write, topic)
                    await self._append(write, topic, built)
            except (OSError, KafkaError) as error:
                failures += 1
                logger.info("a dead letter of %s is not in %s: %s", write.key, name, error)
                if isinstance(error, KafkaError) and not is_retriable(error.code):
                    self._lose(write, 0 if built is None else built.record_count, str(error))
                    write.next_offset = write.last_offset + 1 if built is None else built[2]
                    return _Outcome.REFUSED
                if failures == ATTEMPTS:
                    return _Outcome.GIVEN_UP
                await asyncio.sleep(BACKOFF.wait_ms(failures - 1) / 1000)
            else:
                self._counts(write.key.group_id).record_count += built.record_count
                write.next_offset = built.next_offset
                return _Outcome.WRITTEN
        return _Outcome.UNWANTED

    def _permitted(self, group_id: str) -> str:
        """Return the name of the topic of a group, which may be missing.

        Raises: NotPermittedError.
        """
        settings = self._topics.settings(group_id)
        name, prefix = settings.topic, settings.prefix
        where = f"share group: {group_id}, topic: {name}"
        if not name:
            raise NotPermittedError(
                f"Configured DLQ topic name in share group: {group_id} is empty."
            )
        if name.startswith(_INTERNAL_PREFIX):
            raise NotPermittedError(
                f"Configured DLQ topic name in share group: {group_id} cannot start with __, "
                f"topic: {name}."
            )
        topic = self._topics.find(name)
        if topic is not None and not topic.is_permitted:
            raise NotPermittedError(f"DLQ is not enabled on configured DLQ topic for {where}.")
        if topic is None and not settings.creates_topics:
            raise NotPermittedError(
                f"DLQ topic does not exist and auto create is disabled on cluster for {where}."
            )
        if not name.startswith(prefix):
            raise NotPermittedError(
                f"Configured DLQ topic name does not comply with the DLQ topic prefix in {where}, "
                f"prefix: {prefix}."
            )
        return name

    async def _build(self, write: _Write, topic: DeadLetterTopic) -> BuiltLetters:
        read = await self._read(write)
        built: BuiltLetters = await self._run(
            partial(
                build_letters,
                write.source,
                write.letters,
                write.next_offset,
                read,
                copies=self._topics.settings(write.key.group_id).copies,
                bytes_max=min(topic.batch_bytes_max, BATCH_BYTES_MAX),
                now_ms=self._clock.wall_ms(),
            )
        )
        return built

    async def _read(self, write: _Write) -> Sequence[Buffer] | None:
        """Read the source from the next offset on; None where it cannot be."""
        log = write.partition.log
        try:
            async with self._reads:
                read = await log.read(write.next_offset, READ_BYTES_MAX, log.high_watermark)
        except (OSError, KafkaError) as error:
            logger.warning("records of %s cannot be copied: %s", write.key, error)
            return None
        return read.buffers

    async def _append(self, write: _Write, topic: DeadLetterTopic, built: BuiltLetters) -> None:
        """Have the leader append a batch. Raises: OSError, KafkaError."""
        if built.batch is None:
            return
        counts = self._counts(write.key.group_id)
        index = write.key.partition % len(topic.leaders)
        node_id = topic.leaders[index]
        try:
            counts.request_count += 1
            if node_id == NO_LEADER:
                raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE)
            await self._topics.append(node_id, topic, index, built.batch)
        except (OSError, KafkaError):
            counts.failed_request_count += 1
            raise

    def _give_up(self, write: _Write, reason: str) -> None:
        """Count and log all that is left of a write."""
        count = sum(
            one.last_offset - max(one.first_offset, write.next_offset) + 1
            for one in write.letters
            if one.last_offset >= write.next_offset
        )
        self._lose(write, count, reason)

    def _lose(self, write: _Write, count: int, reason: str) -> None:
        counts = self._counts(write.key.group_id)
        counts.lost_count += count
        counts.loss_count += 1
        if counts.loss_count <= LOGGED_LOSSES or counts.loss_count % LOGGED_EACH == 0:
            # A member may reject thousands of records in a second.
            logger.error(
                "%d dead letters of %s are lost, %d of its group by now: %s",
                count,
                write.key,
                counts.lost_count,
                reason,
            )


class _Write:
    """What is to be written, and how far that is."""

    __slots__ = ("is_wanted", "key", "letters", "next_offset", "partition")

    def __init__(
        self,
        key: SharePartitionKey,
        partition: Partition,
        letters: Sequence[DeadLetters],
        is_wanted: Callable[[], bool],
    ) -> None:
        self.key = key
        self.partition = partition
        self.letters = letters
        self.is_wanted = is_wanted
        self.next_offset = letters[0].first_offset

    @property
    def last_offset(self) -> int:
        """The last offset of all."""
        return self.letters[-1].last_offset

    @property
    def source(self) -> LetterSource:
        """Where the records are."""
        topic, index = self.partition.topic_partition
        return LetterSource(topic, index, self.key.group_id)
