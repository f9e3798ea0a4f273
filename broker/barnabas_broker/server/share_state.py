"""The share coordinator of a broker, and the persister that reaches all: built and connected.

Nothing is decided here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from barnabas_broker.config.parse import BrokerConfig
from barnabas_broker.coordinator.group.topics import Topics
from barnabas_broker.coordinator.runtime.pipeline import RuntimeSettings
from barnabas_broker.coordinator.share.coordinator import SHARE_STATE_TOPIC, ShareCoordinator
from barnabas_broker.coordinator.share.shard import ShareCoordinatorSettings
from barnabas_broker.coordinator.share.state_persister import StateApi, StatePersister
from barnabas_broker.env.clock import Clock
from barnabas_broker.metadata.delta import MetadataDelta
from barnabas_broker.metadata.image import MetadataImage
from barnabas_broker.metadata.publisher import MetadataPublisher
from barnabas_broker.network.peers import Peers
from barnabas_broker.purgatory.timer import Timer
from barnabas_broker.replication.committed_writer import CommittedWriter
from barnabas_broker.share.persister import SharePartitionKey
from barnabas_protocol.api import ApiKey, newest_version
from barnabas_protocol.hashing import coordinator_partition
from barnabas_protocol.records.compression import Compression

NO_LEADER = -1
RESPONSE_MARGIN_MS = 2_000
"""For the way, and a loop that is busy. One that says nothing for longer is asked no more: its
broker may be gone without a word, and another coordinates since."""
BATCH_BYTES_MAX = 64 * 1024
"""Commands share a batch of up to this size: a batch is replayed without a pause."""


class _ShareCoordinators:
    """The coordinators of share partitions, for leaders of partitions and group coordinators."""

    def __init__(self, parts: ShareStateParts) -> None:
        self._parts = parts

    def node_of(self, key: SharePartitionKey) -> int | None:
        parts = self._parts
        topic = parts.publisher.image.topics.by_name.get(SHARE_STATE_TOPIC)
        if topic is None or not topic.partitions:
            parts.create_topic()
            return None
        leader = topic.partitions[coordinator_partition(str(key), len(topic.partitions))].leader
        return None if leader == NO_LEADER else leader

    async def send(self, node_id: int, lane: int, api: StateApi, request: Any) -> Any:
        parts = self._parts
        if node_id == parts.node_id:
            return await parts.handlers[api.api_key](request)
        return await parts.peers.request(
            node_id,
            request,
            newest_version(api.api_key),
            channel=f"share-state-{lane}",
            timeout_ms=parts.timeout_ms,
        )


class ShareStateParts:
    """The coordinator, and the persister."""

    def __init__(
        self,
        *,
        config: BrokerConfig,
        clock: Clock,
        timer: Timer,
        topics: Topics,
        publisher: MetadataPublisher,
        node_id: int,
        peers: Peers,
        writer: CommittedWriter,
        create_topic: Callable[[], None],
        spawn: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        """Make the parts; partitions come with the images that are applied."""
        self.publisher = publisher
        self.node_id = node_id
        self.peers = peers
        # A coordinator responds when it has waited for its writes, some of which may follow others.
        self.timeout_ms = min(
            config.request_timeout_ms,
            RESPONSE_MARGIN_MS + 2 * config.share_coordinator_write_timeout_ms,
        )
        self.create_topic = create_topic
        self._spawn = spawn
        self.coordinator = ShareCoordinator(
            settings=ShareCoordinatorSettings.of(config),
            writer=writer,
            clock=clock,
            timer=timer,
            topics=topics,
            runtime_settings=RuntimeSettings(
                commit_timeout_ms=config.share_coordinator_write_timeout_ms,
                load_buffer_bytes=config.share_coordinator_load_buffer_size,
                compression=Compression(config.share_coordinator_state_topic_compression_codec),
                batch_bytes_max=BATCH_BYTES_MAX,
            ),
        )
        self.handlers: dict[ApiKey, Callable[[Any], Awaitable[Any]]] = {
            ApiKey.INITIALIZE_SHARE_GROUP_STATE: self.coordinator.initialize,
            ApiKey.READ_SHARE_GROUP_STATE: self.coordinator.read,
            ApiKey.WRITE_SHARE_GROUP_STATE: self.coordinator.write,
            ApiKey.DELETE_SHARE_GROUP_STATE: self.coordinator.delete,
            ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: self.coordinator.summary,
        }
        self.persister = StatePersister(_ShareCoordinators(self))
        publisher.subscribe(self._metadata_changed)

    def _metadata_changed(self, delta: MetadataDelta | None, image: MetadataImage) -> None:
        if delta is not None and delta.deleted:
            # Not waited for: it appends, and the next image must not wait for that.
            self._spawn(self.coordinator.on_topics_deleted(list(delta.deleted.values())))

    async def close(self) -> None:
        """Answer what waits and stop."""
        await self.persister.close()
        await self.coordinator.close()
