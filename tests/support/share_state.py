"""A share coordinator over logs in memory, with a persister in front of it; on a virtual loop.

Whoever needs a `SharePersister` in a test has one that keeps all rules of the coordinator:

    world = ShareStateWorld({topic_id: partition_count})
    await world.start()
    await world.persister.initialize(key, state_epoch, start_offset)

`move()` has another coordinator load the logs; `failures` are what the next requests end in.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any

from barnabas_broker.controller.features import SHARE_VERSION, UpgradeType
from barnabas_broker.coordinator.runtime.pipeline import RuntimeSettings
from barnabas_broker.coordinator.share.coordinator import SHARE_STATE_TOPIC, ShareCoordinator
from barnabas_broker.coordinator.share.shard import ShareCoordinatorSettings
from barnabas_broker.coordinator.share.state_persister import StateApi, StatePersister
from barnabas_broker.purgatory.timer import Timer
from barnabas_broker.share.persister import SharePartitionKey
from barnabas_protocol.api import ApiKey
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.ids import TopicPartition, Uuid
from barnabas_protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.support.partition_writer import FakePartitionWriter
from tests.support.raw_client import RawClient
from tests.support.virtual_loop import VirtualClock

PARTITION_COUNT = 4


async def switch_on_share_groups(client: RawClient) -> None:
    """Finalize `share.version` 2, by which share groups are served."""
    await set_share_version(client, 2)


async def set_share_version(client: RawClient, level: int) -> None:
    """Finalize a level of `share.version`; 0 is off."""
    upgrade_type = UpgradeType.UPGRADE if level else UpgradeType.SAFE_DOWNGRADE
    request = UpdateFeaturesRequest(
        feature_updates=[
            FeatureUpdateKey(
                feature=SHARE_VERSION, max_version_level=level, upgrade_type=upgrade_type
            )
        ]
    )
    response = await client.call(ApiKey.UPDATE_FEATURES, 1, request)
    assert [response.error_code, *(one.error_code for one in response.results)] == [0, 0]


class StateLog(FakePartitionWriter):
    """Logs in memory whose oldest batches can be deleted."""

    def __init__(self) -> None:
        super().__init__()
        self.delete_error: ErrorCode | None = None

    async def delete_records(self, topic_partition: TopicPartition, offset: int) -> None:
        if self.delete_error is not None:
            raise KafkaError(self.delete_error)
        log = self.log(topic_partition)
        ends = [base_offset for base_offset, _ in log.batches[1:]] + [log.end_offset]
        log.batches = [batch for batch, end in zip(log.batches, ends, strict=False) if end > offset]


class ImageOfTopics:
    """Topics by their ids; a name is the text of an id."""

    def __init__(self, partition_counts: dict[Uuid, int]) -> None:
        self.partition_counts = partition_counts

    def topic_id(self, name: str) -> bytes | None:
        return next((one for one in self.partition_counts if one.hex() == name), None)

    def partition_count(self, name: str) -> int:
        if name == SHARE_STATE_TOPIC:
            return PARTITION_COUNT
        topic_id = self.topic_id(name)
        return 0 if topic_id is None else self.partition_counts[topic_id]

    def topic_name(self, topic_id: bytes) -> str | None:
        return topic_id.hex() if topic_id in self.partition_counts else None

    def names(self) -> Collection[str]:
        return [topic_id.hex() for topic_id in self.partition_counts]

    def names_version(self) -> int:
        return len(self.partition_counts)

    def snapshot(self) -> object:
        return dict(self.partition_counts)

    def metadata_offset(self) -> int:
        return 0


class ShareStateWorld:
    """One coordinator at a time, its logs, and a persister that reaches it."""

    def __init__(self, partition_counts: dict[Uuid, int], **settings: int) -> None:
        self.loop = asyncio.get_running_loop()
        self.clock = VirtualClock(self.loop)
        self.topics = ImageOfTopics(partition_counts)
        self.writer = StateLog()
        self.settings = ShareCoordinatorSettings(**settings)
        self.leader_epoch = 0
        self.coordinator = self._new_coordinator()
        self.persister = StatePersister(self)
        self.node_id: int | None = 1
        # What the next requests end in: an error before they are carried out, or None.
        self.failures: list[Exception | None] = []
        # As `failures`, but the requests have been carried out.
        self.lost_responses: list[Exception | None] = []
        self.requests: list[Any] = []
        self.request_ms: list[int] = []
        self.delay_ms = 1

    def _new_coordinator(self) -> ShareCoordinator:
        return ShareCoordinator(
            settings=self.settings,
            writer=self.writer,
            clock=self.clock,
            timer=Timer(self.loop, self.clock),
            topics=self.topics,
            runtime_settings=RuntimeSettings(),
        )

    async def start(self) -> None:
        """Serve, with all partitions loaded."""
        self.coordinator.runtime.start()
        self.leader_epoch += 1
        for partition in range(PARTITION_COUNT):
            self.coordinator.runtime.load(partition, self.leader_epoch)
        for partition in range(PARTITION_COUNT):
            await self.coordinator.runtime.wait_until_loaded(partition)

    async def move(self) -> None:
        """Another broker coordinates from now on."""
        await self.coordinator.close()
        self.coordinator = self._new_coordinator()
        await self.start()

    async def close(self) -> None:
        await self.persister.close()
        await self.coordinator.close()

    # ---- what the persister needs --------------------------------------------------------------

    def node_of(self, key: SharePartitionKey) -> int | None:
        return self.node_id

    async def send(self, node_id: int, lane: int, api: StateApi, request: Any) -> Any:
        self.requests.append(request)
        self.request_ms.append(self.clock.monotonic_ms())
        await asyncio.sleep(self.delay_ms / 1000)
        if self.failures and (failure := self.failures.pop(0)) is not None:
            raise failure
        handler = {
            ApiKey.INITIALIZE_SHARE_GROUP_STATE: self.coordinator.initialize,
            ApiKey.READ_SHARE_GROUP_STATE: self.coordinator.read,
            ApiKey.WRITE_SHARE_GROUP_STATE: self.coordinator.write,
            ApiKey.DELETE_SHARE_GROUP_STATE: self.coordinator.delete,
            ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: self.coordinator.summary,
        }[api.api_key]
        response = await handler(request)  # type: ignore[operator]
        if self.lost_responses and (failure := self.lost_responses.pop(0)) is not None:
            raise failure
        return response
