"""The control plane of one node: metadata quorum, arbiter and controller, built and started.

Source: CTL-6, BOOT-2. It decides nothing; it only connects. The quorum says when this node leads,
and the controller is active from then on until the quorum says that it is over.
"""

from collections.abc import Callable, Sequence

from barnabas_broker.arbiter.arbiter import Arbiter, Leader, LeaderListener
from barnabas_broker.arbiter.arbiter_factory import make_arbiter
from barnabas_broker.config.dynamic import DynamicConfig
from barnabas_broker.config.listeners import Endpoint
from barnabas_broker.config.parse import BrokerConfig
from barnabas_broker.controller.controller import Controller
from barnabas_broker.controller.elections import topic_configs
from barnabas_broker.controller.features import check_levels
from barnabas_broker.controller.local import LocalController
from barnabas_broker.controller.log_comparison import RequestLogEnds
from barnabas_broker.controller.pending_recovery import PendingRecovery, settle_pending_recovery
from barnabas_broker.env.clock import Clock
from barnabas_broker.env.disk import Disk
from barnabas_broker.env.open_files import open_files_limit
from barnabas_broker.env.randomness import Random
from barnabas_broker.log.manager.log_manager import LogManager
from barnabas_broker.metadata.connection_refusals import ConnectionRefusals, NoConnectionRefusals
from barnabas_broker.metadata.image import MetadataImage
from barnabas_broker.metadata.metadata_log_storage import MetadataLogStorage
from barnabas_broker.metadata.publisher import MetadataPublisher
from barnabas_broker.metadata.quorum.event_loop import QuorumCallbacks
from barnabas_broker.metadata.quorum.metadata_quorum import MetadataQuorum
from barnabas_broker.metadata.quorum.timing import QuorumSettings
from barnabas_broker.metadata.quorum.transport import NobodyElse, QuorumTransport
from barnabas_broker.metadata.quorum.voters import Voter

DESCRIPTORS_PER_REPLICA = 4
"""A replica has one open: the others are for connections (`listeners`), for old segments that are
read, and for indexes. The brokers of a cluster are taken to have the same limit."""


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
        *,
        arbiter: Arbiter | None = None,
        transport: QuorumTransport | None = None,
        refusals: ConnectionRefusals | None = None,
        request_log_ends: RequestLogEnds | None = None,
    ) -> None:
        """The arbiter is the settings' one unless it is given; without transport: a lone node."""
        self._config = config
        self._logs = logs
        self._disk = disk
        self._clock = clock
        self._random = random
        self._publisher = publisher
        self._dynamic = dynamic
        self._on_failure = on_failure
        self._arbiter = arbiter
        self._transport = transport or NobodyElse()
        self._refusals = refusals or NoConnectionRefusals()
        self._request_log_ends = request_log_ends
        self._storage = MetadataLogStorage(logs, config)
        self.quorum: MetadataQuorum
        self.controller: Controller
        self._local: LocalController
        self.recovered_image = MetadataImage.empty()

    async def recover(self) -> None:
        """Open the metadata log and read all of it: `recovered_image` is what logs are loaded by.

        Raises: MetadataLogError, IdentityError, LogDirectoryLockedError, ConfigError, OSError.
        """
        config = self._config
        await self._disk.run(self._logs.open_directories)
        log = await self._storage.load()
        directory = self._storage.directory
        if self._arbiter is None:
            self._arbiter = make_arbiter(config, log.disk, self._clock, directory=directory.path)
        self.quorum = MetadataQuorum(
            log,
            disk=log.disk,  # its promise, history and snapshots may use the ballast, too
            clock=self._clock,
            arbiter=self._arbiter,
            transport=self._transport,
            refusals=self._refusals,
            publisher=self._publisher,
            voter=Voter(self._logs.node_id, directory.directory_id),
            cluster_id=self._logs.cluster_id,
            listener_name=config.inter_broker_listener_name,
            settings=QuorumSettings.of(config),
            callbacks=QuorumCallbacks(
                on_failure=self._on_failure,
                save_recovery_points=self._storage.lower_recovery_point,
                forget_high_watermark=self._storage.forget_high_watermark,
                may_found=self._storage.has_no_partitions,
                check_image=check_levels,
                adopt_cluster_id=self._storage.adopt_cluster_id,
            ),
        )
        self.controller = Controller(
            node_id=self._logs.node_id,
            config=config,
            dynamic_config=self._dynamic,
            metadata_log=self.quorum,
            clock=self._clock,
            random=self._random,
            on_failure=self._on_failure,
            refused=self._refusals,
            request_log_ends=self._request_log_ends,
            replicas_max=open_files_limit() // DESCRIPTORS_PER_REPLICA,
        )
        self._local = LocalController(self.controller)
        self.quorum.callbacks.on_lead = self._activate
        self.quorum.callbacks.on_step_down = self.controller.resign
        self.recovered_image = await self.quorum.recover()

    def _activate(self, controller_epoch: int) -> None:
        self.controller.activate(controller_epoch, self.quorum.leaders_heard_ms)

    @property
    def local(self) -> LocalController | None:
        """The controller in this process, while it is the active one."""
        return self._local if self.controller.is_active else None

    async def start(self, advertised: Sequence[Endpoint]) -> None:
        """Take part in the metadata log, reached by others at one of the advertised endpoints."""
        name = self._config.inter_broker_listener_name
        others = self._config.barnabas_other_broker_listeners
        endpoint = next((one for one in advertised if one.name == name), advertised[0])
        listeners = tuple(
            LeaderListener(one.name, one.host, one.port)
            for one in advertised
            if others and one.name in (name, *others)
        )
        leader = Leader(self._logs.node_id, endpoint.host, endpoint.port, listeners)
        await self.quorum.start(leader, [one.name for one in advertised])

    async def lead(self, advertised: Sequence[Endpoint], seconds_max: float | None = None) -> None:
        """Start, and return when this node leads the control plane.

        Raises: what stopped the quorum; ArbiterError if it does not lead in time.
        """
        await self.start(advertised)
        await self.quorum.until_active(seconds_max)

    async def complete_unsafe_recovery(self) -> None:
        """Carry out what an interrupted `barnabas cluster recover` has left to be done.

        Raises: what stops the quorum, OSError, KafkaError.
        """
        pending = PendingRecovery(self._disk, self.quorum.log.directory)
        configs = topic_configs(self._dynamic)
        await settle_pending_recovery(self.quorum, self.controller, pending, configs)

    async def stop(self) -> None:
        """Answer what is queued at the controller, give leadership up, let go of the arbiter."""
        if hasattr(self, "controller"):
            await self.controller.close()
            await self.quorum.stop()
        if self._arbiter is not None:
            await self._arbiter.close()
