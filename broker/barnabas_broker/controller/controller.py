"""The active controller: decides what the metadata log says, while this node leads that log.

`activate` and `resign` follow the leadership of the metadata log; in between, commands go through
one event queue (`event_queue`). Not here: what commands decide (`topics`, `partitions`, `configs`,
`brokers`, `producer_ids`), nor who leads (the metadata quorum).

Invariant: each controller epoch has its own queue; nothing of an earlier epoch is acted on later.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping

from barnabas_broker.arbiter.arbiter import Arbiter, ArbiterRecord, Leader, Member
from barnabas_broker.config.dynamic import DynamicConfig
from barnabas_broker.config.parse import BrokerConfig
from barnabas_broker.controller import brokers, directories, isr, own_election, producer_ids
from barnabas_broker.controller.administration import Administration
from barnabas_broker.controller.brokers import Registration
from barnabas_broker.controller.event_queue import (
    Command,
    ControllerLog,
    ControllerMetrics,
    EventQueue,
    Reply,
)
from barnabas_broker.controller.own_election import LeadershipError
from barnabas_broker.controller.producer_ids import ProducerIdBlock
from barnabas_broker.env.clock import Clock
from barnabas_broker.env.randomness import Random
from barnabas_broker.metadata.image import MetadataImage
from barnabas_broker.metadata.metadata_log import MetadataLog
from barnabas_broker.metadata.quorum import Seat
from barnabas_broker.metadata.records import MetadataRecord
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
)

logger = logging.getLogger(__name__)


class Controller(Administration):
    """The controller of one node, active or not."""

    def __init__(
        self,
        *,
        node_id: int,
        config: BrokerConfig,
        dynamic_config: DynamicConfig,
        metadata_log: ControllerLog,
        clock: Clock,
        random: Random,
        on_failure: Callable[[BaseException], None],
        arbiter: Arbiter | None = None,
    ) -> None:
        """`on_failure` is called when the log fails while this node leads it."""
        self._node_id = node_id
        self._config = config
        self._dynamic_config = dynamic_config
        self._log = metadata_log
        self._arbiter = arbiter
        self._clock = clock
        self._random = random
        self._on_failure = on_failure
        self._queue: EventQueue | None = None
        self._watch_task: asyncio.Task[None] | None = None
        # Brokers that have registered with this controller, by their epochs.
        self._sessions: dict[int, int] = {}
        self.record: ArbiterRecord | None = None
        self.metrics = ControllerMetrics()

    @property
    def is_active(self) -> bool:
        """Whether this node is the controller and takes commands."""
        return self._queue is not None and self._queue.is_open

    @property
    def queue_length(self) -> int:
        """Commands that wait."""
        return 0 if self._queue is None else len(self._queue)

    # ---- life --------------------------------------------------------------------------------

    def activate(self, controller_epoch: int) -> None:
        """Take commands from now on: this node leads the metadata log in a new epoch (CTL-6).

        The log must hold a committed record of the epoch. Returns at once.
        """
        self.resign()
        logger.info("this node is the controller in epoch %d", controller_epoch)
        self._sessions.clear()
        self._queue = EventQueue(self._log, self._clock, self.metrics, self._on_failure)
        self._queue.start()

    def resign(self) -> None:
        """Stop being the controller before anything else happens (CTL-4); safe at any time.

        Everybody who waits is told to look for the next one.
        """
        if self._queue is not None and self._queue.is_open:
            logger.info("this node is no longer the controller")
            self._queue.fail()

    async def close(self) -> None:
        """Answer what is queued, then stop. Safe before a start and a second time."""
        if self._watch_task is not None:
            self._watch_task.cancel()
            await asyncio.gather(self._watch_task, return_exceptions=True)
            self._watch_task = None
        if self._queue is not None:
            await self._queue.close()

    async def start(self, cluster_id: str, me: Member, leader: Leader) -> None:
        """Take leadership from the arbiter, then lead the recovered log (CTL-2, CTL-6, CTL-7).

        `MetadataLog.recover` must have been awaited. Raises: LeadershipError, ArbiterError,
        NotAMemberError, ForeignClusterError, MetadataLogError, OSError.
        """
        log, arbiter = self._log, self._arbiter
        if arbiter is None or not isinstance(log, MetadataLog):
            raise LeadershipError("leadership of this log is not the controller's to take")
        known_epoch = log.pending_image.epoch
        record = await own_election.win(arbiter, self._clock, cluster_id, me, leader, known_epoch)
        members = [Seat(member.node_id, member.directory_id) for member in record.members]
        await log.lead(record.controller_epoch, leader.node_id, cluster_id, members)
        self.record = record
        self.activate(record.controller_epoch)
        self._watch_task = asyncio.create_task(
            own_election.watch(arbiter, record, self._lost), name="arbiter watch"
        )

    def _lost(self, reason: LeadershipError) -> None:
        logger.error("this node stops being the controller: %s", reason)
        self.resign()
        self._on_failure(reason)

    async def submit(self, command: Command[Reply]) -> Reply:
        """Run a command in its turn and return its reply once its records are committed.

        Raises: KafkaError: the command's own, 41 when this node is not the controller, 7 when the
        queue is full, -1 for a fault of ours.
        """
        if self._queue is None:
            raise KafkaError(ErrorCode.NOT_CONTROLLER)
        return await self._queue.submit(command)

    # ---- brokers -----------------------------------------------------------------------------

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

    async def alter_partitions(self, request: AlterPartitionRequest) -> AlterPartitionResponse:
        """Change the ISR of partitions as their leader proposes. Raises: KafkaError 77, 102."""
        topics = await self.submit(
            lambda image: isr.alter_partitions(
                image, request.broker_id, request.broker_epoch, request.topics
            )
        )
        return AlterPartitionResponse(topics=topics)

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
