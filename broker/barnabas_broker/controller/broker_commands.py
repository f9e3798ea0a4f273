"""What brokers ask of the active controller: registration, heartbeats, ids, where replicas are.

Each method puts a pure command in the controller's queue. Not here: what the commands decide
(`brokers`, `heartbeats`, `isr`, `directories`, `producer_ids`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Hashable, Mapping, Sequence
from typing import Final

from barnabas_broker.controller import (
    brokers,
    directories,
    elections,
    features,
    heartbeats,
    isr,
    producer_ids,
    scram_credentials,
)
from barnabas_broker.controller.broker_sessions import BrokerSessions
from barnabas_broker.controller.brokers import Registration
from barnabas_broker.controller.elections import TopicConfigs
from barnabas_broker.controller.event_queue import Command, ControllerLog, Reply
from barnabas_broker.controller.heartbeats import Heartbeat, HeartbeatReply
from barnabas_broker.controller.producer_ids import ProducerIdBlock
from barnabas_broker.controller.scheduled_elections import ScheduledElections
from barnabas_broker.env.clock import Clock
from barnabas_broker.env.randomness import secret_bytes
from barnabas_broker.metadata.connection_refusals import ConnectionRefusals
from barnabas_broker.metadata.image import MetadataImage
from barnabas_broker.metadata.records import MetadataRecord, PartitionRecord
from barnabas_broker.metadata.scram_records import ScramCredentialRecord
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse

logger = logging.getLogger(__name__)

# The connection of the broker in the controller's own process: it ends when the process does.
OWN_PROCESS: Final = "own process"


_RELIEF_INTERVAL_MS: Final = 5000


class BrokerCommands:
    """Commands of and about brokers, for whoever has a queue to put them in."""

    _node_id: int
    _clock: Clock
    _log: ControllerLog
    _configs: TopicConfigs
    _sessions: BrokerSessions
    _refused: ConnectionRefusals
    _scheduled_elections: ScheduledElections
    first_credentials: Sequence[ScramCredentialRecord] = ()
    """Of `barnabas.bootstrap.users.file`, for a cluster that has none."""
    _relieve_at_ms = 0  # when leaders whose disks fill up are looked at again

    @property
    def _min_in_sync(self) -> str:
        """This broker's own `min.insync.replicas`, for a cluster that has none."""
        raise NotImplementedError

    @property
    def is_active(self) -> bool:
        """Whether this node is the controller and takes commands."""
        raise NotImplementedError

    async def submit(self, command: Command[Reply], *, is_prompt: bool = False) -> Reply:
        """Run a command in its turn; a prompt one is answered once its records are committed."""
        raise NotImplementedError

    def enqueue(self, command: Command[Reply]) -> asyncio.Future[Reply]:
        """Have a command run in its turn, without waiting."""
        raise NotImplementedError

    # ---- registration and signs of life ----------------------------------------------------------

    async def register_broker(
        self, registration: Registration, connection: Hashable | None = OWN_PROCESS
    ) -> int:
        """Register a broker and return its epoch. Raises: KafkaError 35, 101, 104, 119."""
        node_id = registration.node_id

        def command(image: MetadataImage) -> tuple[list[MetadataRecord], int]:
            now_ms = self._clock.monotonic_ms()
            known = image.brokers.get(node_id)
            records, epoch = brokers.register(
                image,
                registration,
                self._configs,
                is_alive=known is not None
                and self._sessions.is_alive(node_id, known.epoch, now_ms),
            )
            records += features.founding(image, registration.features, self._min_in_sync)
            records += self._found_credentials(image, records)
            self._sessions.registered(node_id, epoch, now_ms, connection)
            self._refused.forget(node_id)
            return records, epoch

        return await self.submit(command, is_prompt=True)

    def _found_credentials(
        self, image: MetadataImage, records: Sequence[MetadataRecord]
    ) -> list[MetadataRecord]:
        """The records of the first users, behind others that are to be written now."""
        if not self.first_credentials:
            return []
        return scram_credentials.founding(
            brokers.after(image, records), self.first_credentials, secret_bytes
        )

    async def heartbeat(
        self, heartbeat: Heartbeat, connection: Hashable | None = OWN_PROCESS
    ) -> HeartbeatReply:
        """Take note of a broker's sign of life and of what it wants. Raises: KafkaError 77, 102.

        The sign counts from now on, however long the queue is.
        """
        node_id = heartbeat.node_id
        if self.is_active:
            brokers.check_broker_epoch(self._log.pending_image, node_id, heartbeat.broker_epoch)
            self._sessions.heard(
                node_id,
                heartbeat.broker_epoch,
                heartbeat.metadata_offset,
                self._clock.monotonic_ms(),
                connection,
                heartbeat.cordoned_directories,
            )
            if heartbeat.cordoned_directories:
                self._relieve(node_id)
        return await self.submit(
            lambda image: self._decide_heartbeat(image, heartbeat), is_prompt=True
        )

    def _relieve(self, node_id: int) -> None:
        """Take leaderships from a broker whose disks fill up, now and then while they do."""
        now_ms = self._clock.monotonic_ms()
        cordoned = self._sessions.cordoned_brokers(self._log.pending_image)
        if node_id in cordoned and now_ms >= self._relieve_at_ms:
            self._relieve_at_ms = now_ms + _RELIEF_INTERVAL_MS
            self._scheduled_elections.relieve()

    def _decide_heartbeat(
        self, image: MetadataImage, heartbeat: Heartbeat
    ) -> tuple[list[MetadataRecord], HeartbeatReply]:
        node_id, sessions = heartbeat.node_id, self._sessions
        now_ms = self._clock.monotonic_ms()
        live = [broker.node_id for broker in image.brokers.values() if not broker.fenced]
        records, reply = heartbeats.decide(
            image,
            heartbeat,
            self._configs,
            is_refused=sessions.is_refused(node_id, self._refused.refused_since_ms, now_ms),
            cordoned=self._sessions.cordoned_directories(),
            knows_shutdown=sessions.knows_shutdown(node_id, live),
        )
        if reply.is_shutting_down and not image.brokers[node_id].is_shutting_down:
            logger.info("broker %d gives its leaderships away", node_id)
            sessions.shutting_down(node_id, image.offset + len(records))
        return records, reply

    def connection_ended(self, node_id: int, connection: Hashable) -> None:
        """Find out whether a broker is still there: what it was last heard by has ended (REG-5)."""
        if not self._sessions.connection_ended(node_id, connection) or not self.is_active:
            return
        broker = self._log.pending_image.brokers.get(node_id)
        if broker is not None and not broker.fenced:
            self._refused.suspect(node_id)

    def fence_lost(self, node_id: int) -> None:
        """Fence a broker unless it is heard before its turn comes (REG-5)."""
        if self.is_active:
            self.enqueue(lambda image: self._decide_loss(image, node_id))

    def _decide_loss(self, image: MetadataImage, node_id: int) -> tuple[list[MetadataRecord], None]:
        broker = image.brokers.get(node_id)
        since, now_ms = self._refused.refused_since_ms, self._clock.monotonic_ms()
        reason = self._sessions.loss(node_id, since, now_ms)
        if broker is None or broker.fenced or reason is None:
            return [], None
        records = brokers.fence(
            image, node_id, self._configs, self._sessions.cordoned_directories()
        )
        logger.warning(
            "broker %d is fenced: %s; %d partitions change", node_id, reason, len(records) - 1
        )
        return records, None

    async def unregister_broker(self, node_id: int) -> None:
        """Take a broker out of the cluster for good. Raises: KafkaError 102."""

        def command(image: MetadataImage) -> tuple[list[MetadataRecord], None]:
            decided = brokers.unregister(image, node_id, self._configs)
            self._sessions.forget(node_id)
            self._refused.forget(node_id)
            return decided

        await self.submit(command)

    # ---- what brokers tell and need --------------------------------------------------------------

    async def assign_directories(
        self, assigned: Mapping[TopicPartition, bytes], node_id: int | None = None
    ) -> None:
        """Note in which log directories a broker, by default this node, has its replicas."""
        node = self._node_id if node_id is None else node_id
        await self.submit(
            lambda image: directories.assign_directories(image, node, assigned), is_prompt=True
        )

    async def assign_replicas(
        self, node_id: int, broker_epoch: int, assigned: Mapping[tuple[bytes, int], bytes]
    ) -> dict[tuple[bytes, int], ErrorCode]:
        """Note in which log directories a broker has its replicas, by topic id and partition.

        Returns what became of each. Raises: KafkaError 77, 102.
        """
        return await self.submit(
            lambda image: directories.assign_replicas(image, node_id, broker_epoch, assigned),
            is_prompt=True,
        )

    async def replicas_lost(
        self, node_id: int, broker_epoch: int, places: Sequence[tuple[bytes, int]]
    ) -> None:
        """Let no replica lead that its broker has found to lack records. Raises: 77, 102.

        A request that comes late, when the broker serves, changes nothing: another one has told.
        """

        def command(image: MetadataImage) -> tuple[list[PartitionRecord], None]:
            if not brokers.check_broker_epoch(image, node_id, broker_epoch).fenced:
                return [], None
            return elections.lost_replicas(image, node_id, places, self._configs)

        await self.submit(command, is_prompt=True)

    async def alter_partitions(self, request: AlterPartitionRequest) -> AlterPartitionResponse:
        """Change the ISR of partitions as their leader proposes. Raises: KafkaError 77, 102."""
        topics = await self.submit(
            lambda image: isr.alter_partitions(
                image,
                request.broker_id,
                request.broker_epoch,
                request.topics,
                self._sessions.cordoned_directories(),
            ),
            is_prompt=True,
        )
        return AlterPartitionResponse(topics=topics)

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

        return await self.submit(command, is_prompt=True)
