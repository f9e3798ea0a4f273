"""Builds a broker, starts its parts in order and stops them in the reverse one.

The start is BOOT-2's: recover the metadata log, bind, take part in it, register fenced; load logs
as the committed metadata says, follow, be unfenced, serve. The stop is STOP-8's, after the drain.
A broker without others is a cluster of one. Nothing is decided here.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from barnabas_broker.admin.admin_access import is_loopback
from barnabas_broker.admin.admin_callers import admin_callers
from barnabas_broker.admin.admin_server import AdminServer
from barnabas_broker.admin.admin_sockets import TlsPort
from barnabas_broker.admin.broker_status import status_of
from barnabas_broker.admin.deferred_admin_server import DeferredAdminServer
from barnabas_broker.arbiter.arbiter import Arbiter
from barnabas_broker.config.admin_settings import ADMIN_LISTENER
from barnabas_broker.config.definitions import LONG_MAX, ConfigError
from barnabas_broker.config.dynamic import DynamicConfig
from barnabas_broker.config.listener_properties import split_listener_key
from barnabas_broker.config.parse import BrokerConfig
from barnabas_broker.config.topic import LogConfig
from barnabas_broker.controller.log_comparison import LogEnds, TopicIdPartition
from barnabas_broker.controller.log_end_requests import LogEndRequests
from barnabas_broker.controller.scram_credentials import first_credentials
from barnabas_broker.env.clock import Clock, SystemClock
from barnabas_broker.env.disk import Disk, RealDisk
from barnabas_broker.env.network import Network, RealNetwork
from barnabas_broker.env.randomness import Random, SystemRandom, secret_bytes
from barnabas_broker.handlers.client_quotas import ClientQuotas
from barnabas_broker.handlers.dispatch import Dispatcher
from barnabas_broker.handlers.producer_id_block import ProducerIdBlock
from barnabas_broker.handlers.request_gate import RequestGate
from barnabas_broker.handlers.services import Services
from barnabas_broker.handlers.table import is_repeatable
from barnabas_broker.handlers.topic_creation import TopicCreation
from barnabas_broker.lifecycle.broker_metadata_publisher import BrokerMetadataPublisher
from barnabas_broker.lifecycle.broker_state import BrokerState, move
from barnabas_broker.lifecycle.cluster_membership import ClusterMembership
from barnabas_broker.log.manager.log_manager import LogManager
from barnabas_broker.log.tail_cache import TailCache
from barnabas_broker.metadata.acl_table import AclTable
from barnabas_broker.metadata.image import RESOURCE_TOPIC, MetadataImage
from barnabas_broker.metadata.publisher import MetadataPublisher
from barnabas_broker.metadata.quorum.peer_transport import PeerTransport
from barnabas_broker.metrics.collector import MetricsCollector
from barnabas_broker.network.broker_connections import BrokerConnections
from barnabas_broker.network.heavy_work import HeavyWork
from barnabas_broker.network.listeners import Listeners, names_of_brokers
from barnabas_broker.network.login_audit import LoginAudit
from barnabas_broker.network.logins import Logins
from barnabas_broker.network.session import InFlightRequest
from barnabas_broker.network.tls_transport import EncryptionTurns
from barnabas_broker.purgatory.timer import Timer
from barnabas_broker.replication.turn import Turn
from barnabas_broker.security.acl.acl import Acl
from barnabas_broker.security.acl.standard_authorizer import (
    LOOP_ACLS_MAX,
    StandardAuthorizer,
    standard_authorizer,
)
from barnabas_broker.security.audit.audit import Audit, is_audited
from barnabas_broker.security.audit.audit_event import AuditKind, AuditSource
from barnabas_broker.security.audit.audit_log import HOUR_MS, AuditLog
from barnabas_broker.security.authorizer import Authorizer
from barnabas_broker.security.bootstrap_users import parse_bootstrap_users
from barnabas_broker.security.broker_identity import BrokerIdentity
from barnabas_broker.security.broker_users import BrokerLogin, BrokerUsers
from barnabas_broker.security.credentials import ScramCredentials
from barnabas_broker.security.secret_files import warn_of_readable_secrets
from barnabas_broker.security.tls.broker_tls import BrokerTls
from barnabas_broker.server.background import BackgroundTasks
from barnabas_broker.server.control_plane import ControlPlane
from barnabas_broker.server.data_plane import DataPlane
from barnabas_broker.server.metrics_registration import register_samples
from barnabas_broker.server.stop_steps import run_stop_steps
from barnabas_broker.telemetry.client_metrics_manager import ClientMetricsManager
from barnabas_protocol.ids import ZERO_UUID

if TYPE_CHECKING:
    from barnabas_broker.security.audit.audit_writer import AuditWriter

logger = logging.getLogger(__name__)

NOBODY = AuditSource()


class Server:
    """One broker."""

    def __init__(
        self,
        properties: Mapping[str, str],
        *,
        clock: Clock | None = None,
        disk: Disk | None = None,
        network: Network | None = None,
        random: Random | None = None,
        arbiter: Arbiter | None = None,
        authorizer: Authorizer | None = None,
        has_admin_http: bool = True,
    ) -> None:
        """Check the settings; arbiter and authorizer are those that they name, or that are given.

        Without the admin HTTP, all input and output goes through the five: simulations need that.
        Raises: ConfigError.
        """
        self.config = BrokerConfig.parse(properties)
        self.dynamic = DynamicConfig(self.config.properties)
        self.state = BrokerState.NOT_RUNNING
        self.fatal_error: BaseException | None = None
        self.on_fatal: Callable[[], None] | None = None
        self._clock = clock or SystemClock()
        self._disk = disk or RealDisk()
        self._network = network or RealNetwork()
        self._random = random or SystemRandom()
        self._arbiter = arbiter
        self._standard_authorizer = None if authorizer else standard_authorizer(self.config)
        self.authorizer = authorizer or self._standard_authorizer
        self.broker_identity = BrokerIdentity.of(
            self.config.inter_broker_listener_name,
            self.config.barnabas_broker_principals,
            others=self.config.barnabas_other_broker_listeners,
            is_secured=self.authorizer is not None,
        )
        has_principals = bool(self.config.barnabas_broker_principals.strip())
        if self.authorizer and not has_principals and self.config.arbiter_backend != "file":
            logger.warning(
                "rights are checked and barnabas.broker.principals names nobody, so this broker"
                " takes no other for a broker: name all of them, or they cannot join"
            )
        self._broker_login: BrokerLogin | None = None
        self._broker_credentials: ScramCredentials | None = None
        self._background = BackgroundTasks()
        self._has_admin_http = has_admin_http
        self._admin: DeferredAdminServer | None = None
        self._is_built = False
        self._is_stopping = False
        self._serves_clients = False
        self._starting: asyncio.Task[None] | None = None
        self.collector = MetricsCollector()
        self._audit_writer: AuditWriter | None = None
        self.audit: Audit | None = None
        self.publisher = MetadataPublisher()
        self.logs = LogManager(
            self.config,
            self._disk,
            self._clock,
            self._random,
            TailCache(self.config.barnabas_tail_cache_bytes),
        )

    # Start.

    async def start(self) -> None:
        """Return when requests are being processed.

        Raises: what the failing part raised, or failed with beside the start, or TimeoutError once
        server.max.startup.time.ms are over (BOOT-12), after what was started has been stopped.
        """
        self.state = move(self.state, BrokerState.STARTING)
        self._starting = asyncio.create_task(self._start(), name="start")
        try:
            await self._until_started(self._starting)
        except BaseException as error:
            await self.stop()
            task = asyncio.current_task()
            is_ours = isinstance(error, asyncio.CancelledError) and not (task and task.cancelling())
            if is_ours and self.fatal_error is not None:
                raise self.fatal_error from None
            raise
        self.state = move(self.state, BrokerState.RUNNING)
        if self._admin is not None:
            self._admin.start()
        logger.info("broker %d serves clients", self.logs.node_id)

    async def _until_started(self, starting: asyncio.Task[None]) -> None:
        """Return when the start is done. Raises: what it raises; TimeoutError at its deadline."""
        limit_ms = self.config.server_max_startup_time_ms
        try:
            async with asyncio.timeout(None if limit_ms == LONG_MAX else limit_ms / 1000) as limit:
                await starting
        except TimeoutError as error:
            if limit.expired():
                raise TimeoutError(
                    f"the start took longer than server.max.startup.time.ms ({limit_ms} ms)"
                ) from error
            raise

    async def _start(self) -> None:
        await self._open_files()
        self._build()
        await self.control.recover()
        await self._read_first_users()
        await self.logs.begin_writing()
        self.heavy_work = HeavyWork(self._disk.run, *names_of_brokers(self.config))
        self._connect()
        self.collector.register(self.quotas.samples)
        self.client_metrics = ClientMetricsManager(
            self._clock,
            self._random,
            bytes_max=self.config.telemetry_max_bytes,
            series_max=self.config.barnabas_client_metrics_series_max,
        )
        self.collector.register(self.client_metrics.samples)
        if self._standard_authorizer is not None:
            self.collector.register(self._standard_authorizer.samples)
        self.audit = self._start_audit()
        self.dispatcher = Dispatcher(self._services())
        register_samples(
            self.collector,
            listeners=self.listeners,
            data=self.data,
            turn=self.turn,
            controller=self.control.controller,
            quorum=self.control.quorum,
            logs=self.logs,
            dispatcher=self.dispatcher,
            state=lambda: self.state,
            drain=self.membership.drainer.samples,
            peers=self.connections.peers,
            clock=self._clock,
        )
        await self._start_listeners()
        self.gate.open_control(self.dispatcher)
        self._admin = self._make_admin()
        await self.control.start(self.listeners.advertised())
        await self.control.complete_unsafe_recovery()
        await self.membership.join()
        await self.logs.load(self._config_of_loaded, self._topic_id_of_loaded)
        await self.membership.report_losses(self.logs.lost)
        await self.logs.forget_lost()
        application = BrokerMetadataPublisher(
            node_id=self.logs.node_id,
            dynamic=self.dynamic,
            logs=self.logs,
            replicas=self.replicas,
            groups=self.groups,
            report_directories=self.membership.directory_reports.report,
            applied=self.membership.note_applied,
            spawn=self._background.spawn,
            update_quotas=self.quotas.update_in_turns,
            update_credentials=self.logins.update,
            update_subscriptions=self.client_metrics.update,
            update_acls=None if self._standard_authorizer is None else self._update_acls,
        )
        await self.publisher.join(application.apply)
        self.state = move(self.state, BrokerState.RECOVERY)
        self.data.start_coordinators()
        self.logs.start_tasks()
        await self.membership.lifecycle.until_unfenced()
        self.gate.open(self.dispatcher)
        self._serves_clients = True
        self._choose_dispatch()

    def _build(self) -> None:
        config, clock = self.config, self._clock
        # Before anything that has to be taken down again: their settings may not do.
        self.tls = BrokerTls(config, clock)
        self.logins = self._make_logins()
        self._is_built = True
        loop = asyncio.get_running_loop()
        self.turn = Turn(loop)
        self.timer = Timer(loop, clock)
        encryption_turns = EncryptionTurns(loop)
        self.connections = BrokerConnections(
            config,
            self._network,
            clock,
            self.logs.node_id,
            self.tls.of_brokers,
            encryption_turns,
        )
        self.connections.peers.login = self._broker_login
        self.control = ControlPlane(
            config,
            self.logs,
            self._disk,
            clock,
            self._random,
            self.publisher,
            self.dynamic,
            self._fail,
            arbiter=self._arbiter,
            transport=PeerTransport(
                self.connections.peers,
                cluster_id=lambda: self.logs.cluster_id,
                history_id=lambda: self.control.quorum.history,
            ),
            refusals=self.connections.reachability,
            request_log_ends=LogEndRequests(
                self.connections.peers,
                node_id=self.logs.node_id,
                cluster_id=lambda: self.logs.cluster_id,
                history_id=lambda: self.control.quorum.history,
                own=self._own_log_ends,
            ),
        )
        self.data = DataPlane(
            config=config,
            logs=self.logs,
            clock=clock,
            random=self._random,
            turn=self.turn,
            timer=self.timer,
            topic_config=self._topic_config,
            publisher=self.publisher,
            on_fatal=self._fail,
        )
        self.replicas = self.data.replicas
        self.groups = self.data.groups
        self.gate = RequestGate()
        shared = (self.tls, encryption_turns, self.logins)
        self.listeners = Listeners(
            config, self._network, loop, self.turn, clock, self.gate, *shared
        )
        self.quotas = ClientQuotas(
            clock,
            self.broker_identity,
            self.listeners.connection_rates,
            on_measured=self._choose_dispatch,
        )
        self.dynamic.subscribe(self._take_over_settings)

    def _make_logins(self) -> Logins:
        """How others log in here. Raises: ConfigError."""
        return Logins(
            self.config,
            clock=self._clock,
            disk=self._disk,
            spawn=self._background.spawn,
            of_brokers=self._broker_credentials,
        )

    async def _open_files(self) -> None:
        """Lock the log directories; read what brokers log in by, where they do so by SCRAM."""
        await self._disk.run(self.logs.open_directories)
        config = self.config
        await self._disk.run(warn_of_readable_secrets, config)
        path = config.barnabas_broker_users_file
        if path is None:
            return
        mechanisms = config.sasl[config.inter_broker_listener_name].mechanisms
        own = config.sasl_mechanism_inter_broker_protocol
        try:
            users = BrokerUsers.parse(await self._disk.run(self._disk.read_bytes, path))
        except OSError as error:
            raise ConfigError(f"barnabas.broker.users.file: {path}: {error.strerror}") from error
        self._broker_login = users.login(own, self.broker_identity, self.logs.node_id)
        self._broker_credentials = await self._disk.run(users.credentials, mechanisms, secret_bytes)

    async def _start_listeners(self) -> None:
        """Accept connections; from now on certificates and keys of tokens are kept fresh."""
        self.collector.register(self.tls.samples)
        if self.tls.by_listener:
            self._background.spawn(self.tls.watch(self._disk.run))
        self.logins.refuse_by(self.dispatcher.refuse)
        if self.audit is not None:
            self.logins.observe_by(LoginAudit(self.audit))
        self.collector.register(self.logins.samples)
        await self.logins.start()
        await self.listeners.start()

    async def _read_first_users(self) -> None:
        """Have the users of a file ready for a cluster that has no credentials (SEC-61)."""
        path = self.config.barnabas_bootstrap_users_file
        if path is None or self.control.quorum.pending_image.scram_credentials:
            return
        try:
            users = parse_bootstrap_users(await self._disk.run(self._disk.read_bytes, path))
        except (OSError, ValueError) as error:
            raise ConfigError(f"barnabas.bootstrap.users.file: {path}: {error}") from error
        self.control.controller.first_credentials = await self._disk.run(
            first_credentials, users, secret_bytes
        )

    def _connect(self) -> None:
        """Join the parts that need the recovered metadata log."""
        self.connections.address_of = self.control.quorum.address_of
        self.membership = ClusterMembership(
            config=self.config,
            logs=self.logs,
            clock=self._clock,
            random=self._random,
            connections=self.connections,
            quorum=self.control.quorum,
            controller=self.control.controller,
            publisher=self.publisher,
            advertised=self.listeners.advertised,
            spawn=self._background.spawn,
            on_fatal=self._fail,
            on_drain=self._begin_drain,
            is_repeatable=is_repeatable,
        )
        self._producer_ids = ProducerIdBlock(
            self.membership.channel,
            node_id=self.logs.node_id,
            broker_epoch=lambda: self.membership.lifecycle.broker_epoch,
            timeout_ms=self.config.request_timeout_ms,
        )
        self.data.connect(
            self.connections.peers,
            self.membership.channel,
            self.dynamic,
            lambda: self.membership.lifecycle.broker_epoch,
            lambda: self.membership.lifecycle.lease,
            self._producer_ids.take,
            self._background.spawn,
            self.heavy_work,
            TopicCreation(
                self.membership.channel,
                self.config,
                self._background.spawn,
                self.control.controller,
                self.quotas,
            ),
        )

    def _services(self) -> Services:
        membership = self.membership
        return Services(
            config=self.config,
            dynamic=self.dynamic,
            clock=self._clock,
            random=self._random,
            logs=self.logs,
            replicas=self.replicas,
            fetch_sessions=self.data.fetch_sessions,
            controller=self.control.controller,
            groups=self.groups,
            topic_creation=self.data.topic_creation,
            producer_ids=self._producer_ids,
            load_transactions=lambda: self.data.transactions,
            load_share_state=lambda: self.data.share_state,
            load_share_partitions=lambda: self.data.share_serving.share_partitions,
            spawn=self._background.spawn,
            heavy_work=self.heavy_work,
            quotas=self.quotas,
            client_metrics=self.client_metrics,
            broker_identity=self.broker_identity,
            quorum=self.control.quorum,
            channel=membership.channel,
            peers=self.connections.peers,
            authorizer=self.authorizer,
            audit=self.audit,
            check_listeners=lambda values: self.tls.check(values, self._disk.run),
        )

    def _start_audit(self) -> Audit | None:
        """What is told the audit log from now on; None where there is none. Raises: OSError."""
        config = self.config
        if not is_audited(config):
            return None
        # Only here: a broker without an audit log starts without `logging.handlers`.
        from barnabas_broker.security.audit.audit_writer import AuditWriter, FileSink, LoggerSink

        log = AuditLog(self._clock, self.logs.node_id)
        self.collector.register(log.samples)
        path = config.barnabas_audit_file
        sink = FileSink(path, config.barnabas_audit_file_bytes_max) if path else LoggerSink()
        self._audit_writer = AuditWriter(log, self._disk, sink)
        self._audit_writer.start()
        if self._standard_authorizer is not None:
            self._background.spawn(self._forget_answers(self._standard_authorizer))
        return Audit(log, self._standard_authorizer)

    async def _forget_answers(self, authorizer: StandardAuthorizer) -> None:
        """Have what connections were allowed be asked for in each hour, and told once (SEC-71)."""
        while True:
            await asyncio.sleep(HOUR_MS / 1000)
            authorizer.forget()

    async def _stop_audit(self) -> None:
        if self._audit_writer is not None:
            await self._audit_writer.close()

    def _make_admin(self) -> DeferredAdminServer | None:
        config = self.config
        if not self._has_admin_http or config.admin_http_port < 0:
            return None
        tls = self.tls.by_listener.get(ADMIN_LISTENER)
        if self.authorizer is not None and tls is None and not is_loopback(config.admin_http_host):
            logger.warning(
                "clients need rights here, but whoever reaches the admin HTTP at %s:%d reads it:"
                " set admin.http.protocol=https",
                config.admin_http_host,
                config.admin_http_port,
            )
        admin = AdminServer(
            config.admin_http_host,
            config.admin_http_port,
            lambda: self.fatal_error is None,
            lambda: self.is_ready,
            self.status,
            self.collector,
            self.drain,
            self.undrain,
            callers=admin_callers(config, tls, self._clock, self.logins.tokens),
            tls=None if tls is None else TlsPort(self._network, lambda: tls.server),
            socket_path=config.admin_http_socket,
            console_url=config.console_url,
            audit=self.audit,
        )
        late = DeferredAdminServer(admin, self._background.spawn, self._fail)
        self.collector.register(late.loop_lag.samples)
        return late

    # Callbacks.

    async def _update_acls(
        self, acls: AclTable, changes: Callable[[], Mapping[Acl, bool]] | None, count: int
    ) -> None:
        """Have the authorizer decide by other ACLs, swapped as a whole once they are indexed."""
        authorizer = self._standard_authorizer
        assert authorizer is not None
        if count <= LOOP_ACLS_MAX:
            index = authorizer.indexed(acls, changes)
        else:
            index = await self._disk.run(authorizer.indexed, acls, changes)
        authorizer.decide_by(index, len(acls))

    def _take_over_settings(self, changed: frozenset[str]) -> None:
        """Use changed settings of the cleaner, of producers and of connections from now on."""
        live = self.config.with_values(self.dynamic.values)
        self.logs.update_config(live)
        self.listeners.update_limits(live, self.dynamic.values)
        if self.tls.by_listener and any(split_listener_key(key) for key in changed):
            self._background.spawn(self.tls.take_over(self.dynamic.values, self._disk.run))

    def _choose_dispatch(self) -> None:
        """Have requests measured while there are quotas of their time, and only then."""
        request_time = self.quotas.request
        self.heavy_work.meter = None if request_time is None else request_time.in_thread
        if self._serves_clients:
            dispatch: Callable[[InFlightRequest], None] = self.dispatcher
            if request_time is not None:
                dispatch = request_time.dispatching(dispatch)
            self.listeners.dispatch_to(dispatch)

    def _topic_config(self, topic: str) -> LogConfig:
        return self.dynamic.log_config(self.publisher.image.config_overrides(RESOURCE_TOPIC, topic))

    def _config_of_loaded(self, topic: str, topic_id: bytes) -> LogConfig | None:
        """The settings of a log found on disk; None for one that is not ours (TOP-15)."""
        image = self.publisher.image
        known = image.topics.by_name.get(topic)
        if known is None or known.topic_id != topic_id:
            return None
        return self.dynamic.log_config(image.config_overrides(RESOURCE_TOPIC, topic))

    def _topic_id_of_loaded(self, topic: str) -> bytes:
        known = self.publisher.image.topics.by_name.get(topic)
        return ZERO_UUID if known is None else known.topic_id

    def _own_log_ends(self, partitions: Sequence[TopicIdPartition]) -> LogEnds:
        return LogEnds(self.membership.lifecycle.broker_epoch, self.replicas.log_ends(partitions))

    def _fail(self, error: BaseException) -> None:
        logger.critical("the broker stops: %s", error)
        self.fatal_error = error
        if self._starting is not None:
            self._starting.cancel()  # nothing once it is done
        if self.on_fatal is not None:
            self.on_fatal()

    # Stop.

    @property
    def is_ready(self) -> bool:
        """Whether clients should come here: not before it serves, nor once it is leaving."""
        return self.state is BrokerState.RUNNING and self.membership.lifecycle.is_unfenced

    async def drain(
        self, timeout_ms: int | None = None, source: AuditSource = NOBODY
    ) -> dict[str, Any]:
        """Begin to give leaderships away and say how far that is: what `/drain` does."""
        if self.state not in (BrokerState.RUNNING, BrokerState.PENDING_CONTROLLED_SHUTDOWN):
            return {"phase": self.state.name.lower(), "leaders": 0}
        self._note_drain("begin", source)
        return await self.membership.drainer.asked(timeout_ms)

    async def undrain(self, source: AuditSource = NOBODY) -> dict[str, Any]:
        """Serve on after a drain, unless the process is stopping: what `/undrain` does."""
        if self.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN and not self._is_stopping:
            self.membership.drainer.undo()
            self._note_drain("undo", source)
            self.state = move(self.state, BrokerState.RUNNING)
        return {"state": self.state.name.lower()}

    def _note_drain(self, operation: str, source: AuditSource) -> None:
        """Tell the audit log of what the admin HTTP was asked to do."""
        if self.audit is not None:
            broker = f"BROKER:{self.logs.node_id}"
            self.audit.changed(AuditKind.DRAIN, source, broker, operation=operation)

    def _begin_drain(self) -> None:
        self.state = move(self.state, BrokerState.PENDING_CONTROLLED_SHUTDOWN)

    def hurry(self) -> None:
        """Do not wait for leaderships to move: somebody asked a second time to stop."""
        if hasattr(self, "membership"):
            self.membership.drainer.cut_short()

    async def stop(self) -> None:
        """Drain, then stop in order; safe at any time, after half a start too, and twice (BOOT-7).

        A step that fails is logged and does not keep the next from running (STOP-8).
        """
        if self.state in (BrokerState.SHUTTING_DOWN, BrokerState.NOT_RUNNING):
            return
        self._is_stopping = True
        if self._may_drain():
            self.membership.drainer.start("the broker stops")
            await self.membership.drainer.until_drained()
        self.state = move(self.state, BrokerState.SHUTTING_DOWN)
        steps = [*self._stop_steps(), self._stop_audit]
        error = await run_stop_steps(steps, lambda: self.fatal_error is not None)
        self.fatal_error = self.fatal_error or error
        self._disk.close()
        self.state = move(self.state, BrokerState.NOT_RUNNING)

    def _may_drain(self) -> bool:
        """Whether leaderships are to be given away first: not by a broker in trouble (STOP-7)."""
        if self.state is BrokerState.RUNNING:
            return self.config.controlled_shutdown_enable and self.fatal_error is None
        return self.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN

    def _stop_steps(self) -> list[Callable[[], Awaitable[None]]]:
        steps: list[Callable[[], Awaitable[None]]] = [self._stop_logs, self._stop_admin]
        if not self._is_built:
            return steps
        steps = [self._stop_partitions, self.connections.close, *steps]
        if not hasattr(self, "membership"):
            return [self._stop_requests, self.control.stop, *steps]
        membership = self.membership
        if membership.has_peers:
            # Another is to lead the control plane while this one still answers its peers.
            return [membership.leave, self._stop_control, self._stop_requests, *steps]
        return [self._stop_requests, membership.close, self._stop_control, *steps]

    async def _stop_control(self) -> None:
        """Have another lead; who waits for the controller here has to ask another broker then."""
        await self.control.stop()
        self.membership.channel.close()

    async def _stop_requests(self) -> None:
        """Take nothing new, answer what is parked (STOP-9), then close the connections."""
        self.replicas.is_closing = True
        await self.listeners.drain()
        await self.data.answer_parked()
        await self.listeners.close()
        await self.logins.close()

    async def _stop_partitions(self) -> None:
        if hasattr(self, "membership"):
            await self.membership.close()
        await self._background.cancel()
        await self.replicas.close()
        self.timer.close()

    async def _stop_logs(self) -> None:
        broker = self.publisher.image.brokers.get(self.logs.node_id)
        await self.logs.close(-1 if broker is None else broker.epoch)

    async def _stop_admin(self) -> None:
        if self._admin is not None:
            await self._admin.stop()

    # Looking in.

    @property
    def port(self) -> int:
        """The bound port of the first listener."""
        return self.listeners.port

    @property
    def replication_port(self) -> int:
        """The bound port of the listener for brokers."""
        return self.listeners.replication_port

    @property
    def image(self) -> MetadataImage:
        """The newest committed metadata."""
        return self.publisher.image

    def status(self) -> dict[str, Any]:
        """What `/status` shows: the broker at a glance."""
        return status_of(
            state=self.state,
            image=self.image,
            quorum=self.control.quorum,
            listeners=self.listeners,
            tls=self.tls,
            logs=self.logs,
            replicas=self.replicas,
            groups=self.groups,
            drain=self.membership.drainer.state,
            comparing=self.control.controller.comparison.waiting(),
            loop_lag_ms=None if self._admin is None else self._admin.loop_lag.max_ms,
        )
