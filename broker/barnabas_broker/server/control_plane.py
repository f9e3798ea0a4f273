"""The control plane of one node: metadata log, arbiter and controller, built and started in order.

Source: CTL-6, BOOT-2. It decides nothing; it only connects.
"""

from collections.abc import Callable, Sequence

from barnabas_broker.arbiter.arbiter import Arbiter, Leader, Member
from barnabas_broker.config.dynamic import DynamicConfig
from barnabas_broker.config.listeners import Endpoint
from barnabas_broker.config.parse import BrokerConfig
from barnabas_broker.controller.brokers import Registration
from barnabas_broker.controller.controller import Controller
from barnabas_broker.env.clock import Clock
from barnabas_broker.env.disk import Disk
from barnabas_broker.env.randomness import Random
from barnabas_broker.log.log_directory import LogDirectory
from barnabas_broker.log.log_manager import LogManager
from barnabas_broker.metadata.image import MetadataImage
from barnabas_broker.metadata.metadata_log import (
    METADATA_PARTITION,
    METADATA_TOPIC_ID,
    MetadataLog,
    metadata_log_config,
)
from barnabas_broker.metadata.publisher import MetadataPublisher
from barnabas_broker.metadata.quorum import Seat
from barnabas_broker.metadata.records import ListenerAddress
from barnabas_broker.server.arbiter_choice import make_arbiter


class ControlPlane:
    """What this node contributes to the control plane."""

    def __init__(
        self,
        config: BrokerConfig,
        logs: LogManager,
        disk: Disk,
        clock: Clock,
        random: Random,
        publisher: MetadataPublisher,
        dynamic: DynamicConfig,
        on_failure: Callable[[BaseException], None],
    ) -> None:
        self._config = config
        self._logs = logs
        self._disk = disk
        self._clock = clock
        self._random = random
        self._publisher = publisher
        self._dynamic = dynamic
        self._on_failure = on_failure
        self._arbiter: Arbiter | None = None
        self.controller: Controller
        self.recovered_image = MetadataImage.empty()

    async def recover(self) -> None:
        """Open the metadata log and read all of it: `recovered_image` is what logs are loaded by.

        Raises: MetadataLogError, IdentityError, LogDirectoryLockedError, ConfigError, OSError.
        """
        config = self._config
        self._logs.open_directories()
        log = await self._logs.load_partition(
            METADATA_PARTITION,
            METADATA_TOPIC_ID,
            metadata_log_config(config.metadata_log_segment_bytes),
        )
        directory = self._directory()
        metadata_log = MetadataLog(
            log,
            disk=self._disk,
            clock=self._clock,
            publisher=self._publisher,
            seat=Seat(self._logs.node_id, directory.directory_id),
            snapshot_interval_bytes=config.metadata_log_max_record_bytes_between_snapshots,
        )
        self._arbiter = make_arbiter(config, self._disk, self._clock)
        self.controller = Controller(
            node_id=self._logs.node_id,
            config=config,
            dynamic_config=self._dynamic,
            metadata_log=metadata_log,
            arbiter=self._arbiter,
            clock=self._clock,
            random=self._random,
            on_failure=self._on_failure,
        )
        self.recovered_image = await metadata_log.recover()

    def _directory(self) -> LogDirectory:
        for directory in self._logs.online_directories():
            if directory.path == self._config.metadata_log_dir:
                return directory
        raise OSError(f"metadata.log.dir {self._config.metadata_log_dir} is offline")

    async def start(self, advertised: Sequence[Endpoint]) -> None:
        """Take leadership and register this broker, unfenced.

        Raises: LeadershipError, ArbiterError, NotAMemberError, ForeignClusterError, OSError.
        """
        await self.lead(advertised[0])
        await self.controller.register_broker(
            Registration(
                node_id=self._logs.node_id,
                incarnation_id=self._random.uuid(),
                cluster_id=self._logs.cluster_id,
                listeners=tuple(ListenerAddress(*endpoint) for endpoint in advertised),
                rack=self._config.broker_rack,
                directories=tuple(
                    directory.directory_id for directory in self._logs.online_directories()
                ),
                previous_broker_epoch=min(
                    directory.clean_broker_epoch for directory in self._logs.directories
                ),
            )
        )

    async def lead(self, reached_at: Endpoint) -> None:
        """Take leadership of the control plane, without a broker behind it.

        Raises: LeadershipError, ArbiterError, NotAMemberError, ForeignClusterError, OSError.
        """
        me = Member(self._logs.node_id, self._directory().directory_id)
        leader = Leader(self._logs.node_id, reached_at.host, reached_at.port)
        await self.controller.start(self._logs.cluster_id, me, leader)

    async def stop(self) -> None:
        """Answer what is queued at the controller, stop it and let go of the arbiter."""
        if hasattr(self, "controller"):
            await self.controller.close()
        if self._arbiter is not None:
            await self._arbiter.close()
