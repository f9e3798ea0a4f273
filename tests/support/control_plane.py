"""A control plane of one node on simulated disk, clock and randomness."""

from collections.abc import Mapping

from barnabas_broker.arbiter.arbiter import Leader
from barnabas_broker.arbiter.local_file import LocalFileArbiter
from barnabas_broker.config.dynamic import DynamicConfig
from barnabas_broker.config.parse import BrokerConfig
from barnabas_broker.controller.brokers import Registration
from barnabas_broker.controller.controller import Controller
from barnabas_broker.env.clock import Clock
from barnabas_broker.metadata.connection_refusals import NoConnectionRefusals
from barnabas_broker.metadata.delta import MetadataDelta
from barnabas_broker.metadata.image import RESOURCE_BROKER, MetadataImage
from barnabas_broker.metadata.publisher import MetadataPublisher
from barnabas_broker.metadata.quorum.event_loop import QuorumCallbacks
from barnabas_broker.metadata.quorum.metadata_quorum import MetadataQuorum
from barnabas_broker.metadata.quorum.timing import QuorumSettings
from barnabas_broker.metadata.quorum.transport import NobodyElse
from barnabas_broker.metadata.quorum.voters import Voter
from barnabas_broker.metadata.records import ListenerAddress
from tests.support.memory_log import MemoryLog
from tests.support.simulated_clock import SimulatedClock
from tests.support.simulated_disk import SimulatedDisk
from tests.support.simulated_random import SimulatedRandom

CLUSTER_ID = "cluster-of-the-test"
DIRECTORY_ID = b"directory-of-one"
LISTENER = ListenerAddress("PLAINTEXT", "localhost", 9092, "PLAINTEXT")


class ControlPlane:
    """What outlives a process (disk, log, arbiter's file), and the process of the moment."""

    def __init__(
        self,
        properties: Mapping[str, str] | None = None,
        seed: int = 1,
        clock: Clock | None = None,
    ) -> None:
        self.disk = SimulatedDisk()
        self.disk.make_directories("data/log")
        self.clock = clock or SimulatedClock()
        self.random = SimulatedRandom(seed)
        self.log = MemoryLog("data/log")
        self.config = BrokerConfig.parse({"node.id": "0", **(properties or {})})
        self.snapshot_interval_bytes = 1 << 30
        self.directory_id = DIRECTORY_ID
        self.failures: list[BaseException] = []
        self.published: list[tuple[MetadataDelta | None, MetadataImage]] = []
        self._make()

    def _make(self) -> None:
        self.publisher = MetadataPublisher()
        self.dynamic_config = DynamicConfig(self.config.properties)
        self.publisher.subscribe(
            lambda delta, image: self.dynamic_config.update(
                image.config_overrides(RESOURCE_BROKER, ""),
                image.config_overrides(RESOURCE_BROKER, "0"),
            )
        )
        self.publisher.subscribe(lambda delta, image: self.published.append((delta, image)))
        self.arbiter = LocalFileArbiter(
            self.disk, self.clock, "data/arbiter.json", poll_interval_ms=1
        )
        self.quorum = MetadataQuorum(
            self.log,
            disk=self.disk,
            clock=self.clock,
            arbiter=self.arbiter,
            transport=NobodyElse(),
            refusals=NoConnectionRefusals(),
            publisher=self.publisher,
            voter=Voter(0, self.directory_id),
            cluster_id=CLUSTER_ID,
            listener_name="PLAINTEXT",
            settings=QuorumSettings(snapshot_interval_bytes=self.snapshot_interval_bytes),
            callbacks=QuorumCallbacks(on_failure=self.failures.append),
        )
        self.controller = Controller(
            node_id=0,
            config=self.config,
            dynamic_config=self.dynamic_config,
            metadata_log=self.quorum,
            clock=self.clock,
            random=self.random,
            on_failure=self.failures.append,
        )
        self.quorum.callbacks.on_lead = self.controller.activate
        self.quorum.callbacks.on_step_down = self.controller.resign

    @property
    def image(self) -> MetadataImage:
        return self.publisher.image

    async def start(self, previous_broker_epoch: int = -1) -> int:
        """Recover, lead, register; returns the broker epoch."""
        await self.quorum.recover()
        await self.quorum.start(Leader(0, "localhost", 9092), ["PLAINTEXT"])
        await self.quorum.until_active(20)
        self.controller.expect_no_heartbeats()
        return await self.controller.register_broker(
            Registration(
                node_id=0,
                incarnation_id=self.random.uuid(),
                cluster_id=CLUSTER_ID,
                listeners=(LISTENER,),
                directories=(DIRECTORY_ID,),
                previous_broker_epoch=previous_broker_epoch,
            )
        )

    async def close(self) -> None:
        """Stop cleanly."""
        await self.controller.close()
        await self.quorum.stop()

    async def restart(self, previous_broker_epoch: int = -1) -> int:
        """Stop this process, as if killed, and start the next one on what is on disk."""
        await self.kill()
        return await self.start(previous_broker_epoch)

    async def kill(self) -> None:
        """End this process without a word; what is on disk is there for the next one."""
        await self.controller.close()
        await self.quorum.abandon()
        self.log.crash()
        self._make()
