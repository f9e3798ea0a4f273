"""A controller over a metadata log in memory, on a virtual loop, with brokers of words."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from barnabas_broker.config.dynamic import DynamicConfig
from barnabas_broker.config.parse import BrokerConfig
from barnabas_broker.controller.controller import Controller
from barnabas_broker.controller.local import LocalController
from barnabas_broker.metadata.image import MetadataImage, PartitionImage
from barnabas_broker.metadata.image_log import PreparedRecords
from barnabas_broker.metadata.quorum.leadership import NotLeadingError
from barnabas_broker.metadata.record_codec import decode
from barnabas_broker.metadata.records import EpochRecord, MetadataRecord
from barnabas_protocol.messages.broker_heartbeat import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
)
from barnabas_protocol.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    Feature,
    Listener,
)
from tests.support.partition_images import applied, directory
from tests.support.simulated_random import SimulatedRandom
from tests.support.virtual_loop import VirtualClock, run_virtual

CLUSTER_ID = "cluster"


class LeaderLog:
    """The metadata log as its leader sees it; commits take as long as a test wants."""

    def __init__(self, image: MetadataImage) -> None:
        self.image = image  # committed
        self.pending_image = image
        self.records: list[MetadataRecord] = []
        self.is_held = False
        self.error: BaseException | None = None
        self.published = asyncio.Event()  # set: this broker acts on what is committed at once
        self.published.set()
        self._changed = asyncio.Condition()

    def stage_prepared(self, prepared: PreparedRecords) -> int:
        if self.error is not None:
            raise self.error
        assert prepared.delta.image is self.pending_image
        self.pending_image = prepared.delta.build()
        self.records += [record for record in map(decode, prepared.values) if record is not None]
        return self.pending_image.offset

    async def replicate(self) -> int:
        wanted = self.pending_image
        async with self._changed:
            await self._changed.wait_for(
                lambda: self.error is not None or not self.is_held or wanted is self.image
            )
        if self.error is not None:
            raise self.error
        self.image = wanted
        return wanted.offset

    async def until_published(self, offset: int) -> None:
        """Whoever is answered acts on it at once, unless a test wants to see otherwise."""
        await self.published.wait()

    async def hold(self) -> None:
        """No majority agrees to anything, until `release`."""
        self.is_held = True

    async def release(self, error: BaseException | None = None) -> None:
        """Let commits succeed, or fail."""
        async with self._changed:
            self.is_held, self.error = False, error
            self._changed.notify_all()

    async def step_down(self) -> None:
        """Another node leads: what is not committed is lost."""
        await self.release(NotLeadingError("another epoch"))
        self.pending_image = self.image

    def lead(self, epoch: int, node_id: int = 0) -> None:
        """Lead again, in a later epoch."""
        self.error = None
        self.image = self.pending_image = applied(
            self.image, [EpochRecord(epoch, node_id, CLUSTER_ID)]
        )


class Refused:
    """Who refuses connections, as a test says."""

    def __init__(self) -> None:
        self.on_refused_change: list[Callable[[int], None]] = []
        self.since: dict[int, int] = {}
        self.suspected: list[int] = []

    def suspect(self, node_id: int) -> None:
        self.suspected.append(node_id)

    def refused_since_ms(self, node_id: int) -> int | None:
        return self.since.get(node_id)

    def forget(self, node_id: int) -> None:
        self.since.pop(node_id, None)

    def refuse(self, node_id: int, now_ms: int) -> None:
        self.since[node_id] = now_ms
        for callback in self.on_refused_change:
            callback(node_id)


class ControllerWorld:
    """One controller, node 0, over an image."""

    def __init__(self, image: MetadataImage, properties: Mapping[str, str] | None = None) -> None:
        loop = asyncio.get_running_loop()
        self.clock = VirtualClock(loop)
        self.log = LeaderLog(image)
        self.refused = Refused()
        self.failures: list[BaseException] = []
        config = BrokerConfig.parse({"node.id": "0", **(properties or {})})
        self.dynamic = DynamicConfig(config.properties)
        self.controller = Controller(
            node_id=0,
            config=config,
            dynamic_config=self.dynamic,
            metadata_log=self.log,
            clock=self.clock,
            random=SimulatedRandom(1),
            on_failure=self.failures.append,
            refused=self.refused,
        )
        self.local = LocalController(self.controller)
        # The brokers that beat by themselves, by id.
        self._hearts: dict[int, asyncio.Task[None]] = {}
        self.offsets: dict[int, int] = {}  # applied by a broker; else it has applied everything

    @property
    def image(self) -> MetadataImage:
        """What is committed."""
        return self.log.image

    def partition(self, index: int = 0, name: str = "t") -> PartitionImage:
        """One partition, as committed."""
        return self.image.topics.by_name[name].partitions[index]

    async def register(self, node_id: int, **changes: Any) -> BrokerRegistrationResponse:
        """Register a broker as it would itself; the same process unless told otherwise."""
        connection = changes.pop("connection", f"connection of {node_id}")
        request = registration(node_id, **changes)
        answer: BrokerRegistrationResponse = await self.local.answer(request, connection)
        return answer

    async def beat(self, node_id: int, **changes: Any) -> BrokerHeartbeatResponse:
        """One heartbeat of a broker that has applied everything and wants to serve."""
        connection = changes.pop("connection", f"connection of {node_id}")
        known = self.image.brokers.get(node_id)
        fields: dict[str, Any] = {
            "broker_id": node_id,
            "broker_epoch": -1 if known is None else known.epoch,
            "current_metadata_offset": self.offsets.get(node_id, self.image.offset),
            "want_fence": False,
            "want_shut_down": False,
            **changes,
        }
        answer: BrokerHeartbeatResponse = await self.local.answer(
            BrokerHeartbeatRequest(**fields), connection
        )
        return answer

    def keep_beating(self, *node_ids: int, interval_ms: int = 1500) -> None:
        """Let brokers show that they live from now on."""

        async def heart(node_id: int) -> None:
            while True:
                await self.beat(node_id)
                await asyncio.sleep(interval_ms / 1000)

        for node_id in node_ids:
            self._hearts[node_id] = asyncio.create_task(heart(node_id))

    def stop_beating(self, *node_ids: int) -> None:
        """Let brokers fall silent."""
        for node_id in node_ids:
            self._hearts.pop(node_id).cancel()

    async def pass_ms(self, duration_ms: float) -> None:
        """Let time pass."""
        await asyncio.sleep(duration_ms / 1000)

    async def close(self) -> None:
        """End everything."""
        self.stop_beating(*self._hearts)
        await self.controller.close()


def registration(node_id: int, **changes: Any) -> BrokerRegistrationRequest:
    """What a broker sends to register; its incarnation is that of `partition_images`."""
    fields: dict[str, Any] = {
        "broker_id": node_id,
        "cluster_id": CLUSTER_ID,
        "incarnation_id": bytes([node_id]) * 16,
        "listeners": [
            Listener(name="PLAINTEXT", host=f"host-{node_id}", port=9092, security_protocol=0)
        ],
        "features": [
            Feature(name="barnabas.version", min_supported_version=1, max_supported_version=1)
        ],
        "rack": "a",
        "log_dirs": [directory(node_id)],
        **changes,
    }
    return BrokerRegistrationRequest(**fields)


def run_world(
    image: MetadataImage,
    test: Callable[[ControllerWorld], Coroutine[Any, Any, None]],
    properties: Mapping[str, str] | None = None,
    *,
    is_active: bool = True,
) -> None:
    """Run a test with a controller, active in the epoch after the image's."""

    async def run() -> None:
        world = ControllerWorld(image, properties)
        if is_active:
            world.log.lead(image.epoch + 1)
            world.controller.activate(image.epoch + 1)
        try:
            await test(world)
        finally:
            await world.close()
        assert world.failures == []

    run_virtual(run())
