"""The active controller: one event queue, one task, strictly first in, first out (CTL-8).

A command reads the image with everything decided so far, committed or not, and returns records and
a reply. Commands that wait together are flushed together; each reply leaves only after its records
are committed (CTL-11). Not here: what commands decide (`topics`, `partitions`, `configs`,
`brokers`, `producer_ids`), nor who leads (the arbiter, asked at the start).

Invariants: commands run one after the other without an await in between; if the log fails, nothing
is answered with success any more and the owner is told to stop the broker.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Generic, TypeVar, cast

from barnabas_broker.arbiter.arbiter import Arbiter, ArbiterError, ArbiterRecord, Leader, Member
from barnabas_broker.arbiter.decided_swap import swap_until_decided
from barnabas_broker.arbiter.election import Verdict, take_over
from barnabas_broker.config.dynamic import DynamicConfig
from barnabas_broker.config.parse import BrokerConfig
from barnabas_broker.controller import (
    brokers,
    configs,
    directories,
    partitions,
    producer_ids,
    topics,
)
from barnabas_broker.controller.brokers import Registration
from barnabas_broker.controller.configs import ResourceChange, ResourceResult
from barnabas_broker.controller.partitions import NewPartitions, NewPartitionsResult
from barnabas_broker.controller.producer_ids import ProducerIdBlock
from barnabas_broker.controller.topics import (
    DeletedTopicResult,
    NewTopic,
    NewTopicResult,
    TopicDefaults,
)
from barnabas_broker.env.clock import Clock
from barnabas_broker.env.randomness import Random
from barnabas_broker.metadata.image import MetadataImage
from barnabas_broker.metadata.metadata_log import MetadataLog
from barnabas_broker.metadata.quorum import Seat
from barnabas_broker.metadata.records import MetadataRecord
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.ids import TopicPartition

logger = logging.getLogger(__name__)

Reply = TypeVar("Reply")
Command = Callable[[MetadataImage], tuple[Sequence[MetadataRecord], Reply]]

# More commands than this in the queue are refused as timed out: clients try again.
QUEUED_COMMANDS_MAX: Final = 10_000
_ELECTION_TRIES_MAX: Final = 5
_WATCH_RETRY_SECONDS: Final = 1


class LeadershipError(Exception):
    """This node could not become the controller."""


class _Event(Generic[Reply]):
    """A command in the queue."""

    __slots__ = ("command", "queued_ns", "refusal", "reply", "result")

    def __init__(self, command: Command[Reply], reply: asyncio.Future[Reply], now_ns: int) -> None:
        self.command = command
        self.reply = reply
        self.queued_ns = now_ns
        self.result: Reply | None = None
        self.refusal: KafkaError | None = None

    def answer(self) -> None:
        """Send the reply, unless its caller has gone."""
        if self.reply.done():
            return
        if self.refusal is not None:
            self.reply.set_exception(self.refusal)
        else:
            self.reply.set_result(cast("Reply", self.result))


class ControllerMetrics:
    """Plain numbers, read when metrics are scraped."""

    __slots__ = ("events_count", "failed_count", "processing_time_ns", "queue_time_ns")

    def __init__(self) -> None:
        self.events_count = 0
        self.failed_count = 0
        self.queue_time_ns = 0
        self.processing_time_ns = 0


class Controller:
    """Decides what the metadata log says."""

    def __init__(
        self,
        *,
        node_id: int,
        config: BrokerConfig,
        dynamic_config: DynamicConfig,
        metadata_log: MetadataLog,
        arbiter: Arbiter,
        clock: Clock,
        random: Random,
        on_failure: Callable[[BaseException], None],
    ) -> None:
        self._node_id = node_id
        self._config = config
        self._dynamic_config = dynamic_config
        self._log = metadata_log
        self._arbiter = arbiter
        self._clock = clock
        self._random = random
        self._on_failure = on_failure
        self._queue: deque[_Event[Any]] = deque()
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._watch_task: asyncio.Task[None] | None = None
        self._is_active = False
        # Brokers that have registered with this controller, by their epochs.
        self._sessions: dict[int, int] = {}
        self.record: ArbiterRecord | None = None
        self.metrics = ControllerMetrics()

    @property
    def is_active(self) -> bool:
        """Whether this node is the controller and takes commands."""
        return self._is_active

    @property
    def queue_length(self) -> int:
        """Commands that wait."""
        return len(self._queue)

    # ---- life --------------------------------------------------------------------------------

    async def start(self, cluster_id: str, me: Member, leader: Leader) -> None:
        """Take leadership from the arbiter, then lead the recovered log (CTL-2, CTL-6, CTL-7).

        `MetadataLog.recover` must have been awaited. Raises: LeadershipError, ArbiterError,
        NotAMemberError, ForeignClusterError, MetadataLogError, OSError.
        """
        record = await self._win(cluster_id, me, leader)
        members = [Seat(member.node_id, member.directory_id) for member in record.members]
        await self._log.lead(record.controller_epoch, leader.node_id, cluster_id, members)
        self.record = record
        self._is_active = True
        self._task = asyncio.create_task(self._run(), name="controller")
        self._watch_task = asyncio.create_task(self._watch(record), name="arbiter watch")

    async def _win(self, cluster_id: str, me: Member, leader: Leader) -> ArbiterRecord:
        for _ in range(_ELECTION_TRIES_MAX):
            stored = await self._arbiter.read()
            tried = take_over(
                stored.record,
                cluster_id,
                me,
                leader,
                self._clock.wall_ms(),
                known_epoch=self._log.pending_image.epoch,
            )
            decided = await swap_until_decided(self._arbiter, stored.token, tried)
            match decided.verdict:
                case Verdict.WON:
                    return tried
                case Verdict.LOST:
                    raise LeadershipError("another node has become the controller")
                case Verdict.TRY_AGAIN:
                    continue
        raise LeadershipError("the arbiter's record could not be changed")

    async def _watch(self, mine: ArbiterRecord) -> None:
        """Resign as soon as another epoch or leader is stored (CTL-4).

        Losing the store is no reason: it stops failover and nothing else (CTL-13).
        """
        is_away = False
        while self._is_active:
            try:
                async for stored in self._arbiter.watch():
                    if is_away:
                        is_away = False
                        logger.info("the arbiter can be watched again")
                    now = stored.record
                    if now is not None and (now.controller_epoch, now.leader) != (
                        mine.controller_epoch,
                        mine.leader,
                    ):
                        self._resign(LeadershipError(f"epoch {mine.controller_epoch} is over"))
                        return
            except ArbiterError as error:
                if not is_away:
                    is_away = True
                    logger.warning("the arbiter cannot be watched: %s", error)
                await asyncio.sleep(_WATCH_RETRY_SECONDS)

    def _resign(self, reason: LeadershipError) -> None:
        logger.error("this node stops being the controller: %s", reason)
        self._fail(())
        self._wake.set()
        self._on_failure(reason)

    async def close(self) -> None:
        """Answer what is queued, then stop. Safe before `start` and a second time."""
        self._is_active = False
        self._wake.set()
        if self._watch_task is not None:
            self._watch_task.cancel()
            await asyncio.gather(self._watch_task, return_exceptions=True)
            self._watch_task = None
        if self._task is not None:
            await self._task
            self._task = None

    # ---- the queue ---------------------------------------------------------------------------

    async def submit(self, command: Command[Reply]) -> Reply:
        """Run a command in its turn and return its reply once its records are committed.

        Raises: KafkaError: the command's own, 41 when this node is not the controller, 7 when the
        queue is full, -1 for a fault of ours.
        """
        if not self._is_active:
            raise KafkaError(ErrorCode.NOT_CONTROLLER)
        if len(self._queue) >= QUEUED_COMMANDS_MAX:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "the controller's queue is full")
        reply: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._queue.append(_Event(command, reply, self._clock.monotonic_ns()))
        self._wake.set()
        return await reply

    async def _run(self) -> None:
        while True:
            if not self._queue:
                if not self._is_active:
                    return
                self._wake.clear()
                await self._wake.wait()
                continue
            events = list(self._queue)
            self._queue.clear()
            for event in events:
                self._decide(event)
            try:
                await self._log.commit()
            except Exception as error:
                logger.exception("the metadata log failed; this node stops being the controller")
                self._fail(events)
                self._on_failure(error)
                return
            # Refusals wait too: what they rest on may be uncommitted itself.
            for event in events:
                event.answer()

    def _decide(self, event: _Event[Any]) -> None:
        """Run one command and stage its records."""
        metrics = self.metrics
        started_ns = self._clock.monotonic_ns()
        metrics.events_count += 1
        metrics.queue_time_ns += started_ns - event.queued_ns
        try:
            records, event.result = event.command(self._log.pending_image)
            self._log.stage(records)
        except KafkaError as error:
            event.refusal = error
        except Exception:
            logger.exception("a command of the controller failed")
            metrics.failed_count += 1
            event.refusal = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
        metrics.processing_time_ns += self._clock.monotonic_ns() - started_ns

    def _fail(self, events: Sequence[_Event[Any]]) -> None:
        """Tell everybody who waits that nothing is known to be committed."""
        self._is_active = False
        for event in (*events, *self._queue):
            if not event.reply.done():
                event.reply.set_exception(KafkaError(ErrorCode.NOT_CONTROLLER))
        self._queue.clear()

    # ---- commands ----------------------------------------------------------------------------

    async def create_topics(
        self, new_topics: Sequence[NewTopic], validate_only: bool = False
    ) -> list[NewTopicResult]:
        """Make topics; a result for each, in the order of the request."""
        return await self.submit(
            lambda image: topics.create_topics(
                image,
                new_topics,
                defaults=TopicDefaults(
                    partition_count=self._config.num_partitions,
                    replication_factor=self._config.default_replication_factor,
                    broker_values=self._dynamic_config.values,
                ),
                random=self._random,
                validate_only=validate_only,
            )
        )

    async def delete_topics(self, asked: Sequence[str | bytes]) -> list[DeletedTopicResult]:
        """Remove topics, each given by its name (str) or its id (bytes); a result for each."""
        return await self.submit(
            lambda image: topics.delete_topics(
                image, asked, is_enabled=self._config.delete_topic_enable
            )
        )

    async def create_partitions(
        self, asked: Sequence[NewPartitions], validate_only: bool = False
    ) -> list[NewPartitionsResult]:
        """Let topics grow; a result for each."""
        return await self.submit(
            lambda image: partitions.create_partitions(
                image, asked, random=self._random, validate_only=validate_only
            )
        )

    async def alter_configs(
        self, resources: Sequence[ResourceChange], validate_only: bool = False
    ) -> list[ResourceResult]:
        """Replace the whole sets of overrides; a result for each resource."""
        return await self._alter_configs(resources, False, validate_only)

    async def incremental_alter_configs(
        self, resources: Sequence[ResourceChange], validate_only: bool = False
    ) -> list[ResourceResult]:
        """Set, delete, append to and subtract from overrides; a result for each resource."""
        return await self._alter_configs(resources, True, validate_only)

    async def _alter_configs(
        self, resources: Sequence[ResourceChange], is_incremental: bool, validate_only: bool
    ) -> list[ResourceResult]:
        return await self.submit(
            lambda image: configs.alter_configs(
                image,
                resources,
                broker_values=self._dynamic_config.values,
                is_incremental=is_incremental,
                validate_only=validate_only,
            )
        )

    async def register_broker(self, registration: Registration) -> int:
        """Register a broker and return its epoch. Raises: KafkaError 101, 104."""
        node_id = registration.node_id

        def command(image: MetadataImage) -> tuple[list[MetadataRecord], int]:
            records, epoch = brokers.register(
                image, registration, has_session=node_id in self._sessions
            )
            self._sessions[node_id] = epoch
            return records, epoch

        return await self.submit(command)

    async def set_broker_state(
        self, node_id: int, broker_epoch: int, *, is_fenced: bool, is_shutting_down: bool = False
    ) -> None:
        """Fence or unfence a broker. Raises: KafkaError 77, 102."""
        await self.submit(
            lambda image: brokers.set_state(
                image,
                node_id,
                broker_epoch,
                is_fenced=is_fenced,
                is_shutting_down=is_shutting_down,
            )
        )

    async def assign_directories(
        self, assigned: Mapping[TopicPartition, bytes], node_id: int | None = None
    ) -> None:
        """Note in which log directories a broker, by default this node, has its replicas."""
        node = self._node_id if node_id is None else node_id
        await self.submit(lambda image: directories.assign_directories(image, node, assigned))

    async def allocate_producer_ids(
        self, node_id: int | None = None, broker_epoch: int | None = None
    ) -> ProducerIdBlock:
        """A block of ids, `(first, size)`, by default for this node. Raises: KafkaError 77, 102."""
        node = self._node_id if node_id is None else node_id

        def command(image: MetadataImage) -> tuple[list[MetadataRecord], ProducerIdBlock]:
            epoch = broker_epoch
            if epoch is None:
                epoch = image.brokers[node].epoch if node in image.brokers else -1
            return producer_ids.allocate(image, node, epoch)

        return await self.submit(command)
