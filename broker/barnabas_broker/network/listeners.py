"""The listeners of a broker and what they share: limits, memory, counters, one receive buffer."""

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from barnabas_broker.config.definitions import ConfigError
from barnabas_broker.config.listener_properties import ListenerProperties
from barnabas_broker.config.listeners import Endpoint
from barnabas_broker.config.parse import BY_KEY, LIMITS_OF_LISTENERS, BrokerConfig
from barnabas_broker.env.clock import Clock
from barnabas_broker.env.network import Network
from barnabas_broker.env.open_files import open_files_limit
from barnabas_broker.metrics.sample import Sample
from barnabas_broker.network.connection_limits import UNLIMITED, ConnectionLimits
from barnabas_broker.network.connection_rates import ConnectionRates
from barnabas_broker.network.decryption_turns import DecryptionTurns
from barnabas_broker.network.frame_turns import FrameTurns
from barnabas_broker.network.half_open import HalfOpenConnections
from barnabas_broker.network.handshakes import UNITS_OF_BROKERS, UNITS_OF_CLIENTS, Handshakes
from barnabas_broker.network.listener import Listener
from barnabas_broker.network.logins import Logins
from barnabas_broker.network.network_metrics import NetworkMetrics
from barnabas_broker.network.request_memory import RequestMemory
from barnabas_broker.network.session import InFlightRequest, Session, SessionSettings, TurnEnd
from barnabas_broker.network.tls_transport import EncryptionTurns
from barnabas_broker.quotas.rate_limit import UNLIMITED_RATE
from barnabas_broker.security.tls.broker_tls import BrokerTls
from barnabas_protocol.connection.framing import SharedBuffer

logger = logging.getLogger(__name__)


class Listeners:
    """All listeners of one broker."""

    def __init__(
        self,
        config: BrokerConfig,
        network: Network,
        loop: asyncio.AbstractEventLoop,
        turn: TurnEnd,
        clock: Clock,
        dispatch: Callable[[InFlightRequest], None],
        tls: BrokerTls | None = None,
        encryption_turns: EncryptionTurns | None = None,
        logins: Logins | None = None,
    ) -> None:
        """Make those that the settings name; `tls` is given where one of them has TLS."""
        self._config = config
        self._network = network
        self._own_host = ""  # given to clients where no host is configured
        self.metrics = NetworkMetrics()
        # Clients may not take the connections of brokers: who has no follower any more, and no
        # controller, stops. The other descriptors are for the logs, which fail without.
        self.connection_rates = ConnectionRates(clock)
        self.limits = ConnectionLimits(rates=self.connection_rates)
        self.broker_limits = ConnectionLimits(open_files_limit() // 8, rates=ConnectionRates(clock))
        self.handshakes = {
            is_of_brokers: _handshakes(config, network, loop, clock, is_of_brokers)
            for is_of_brokers in (False, True)
        }
        shared = {of_brokers: self._shared(of_brokers, loop, clock) for of_brokers in (False, True)}
        common = partial(
            Listener,
            network=network,
            loop=loop,
            turn=turn,
            clock=clock,
            dispatch=dispatch,
            metrics=self.metrics,
            shared_buffer=SharedBuffer(),
            backlog=config.socket_listen_backlog_size,
            encryption_turns=encryption_turns,
        )

        def listener(endpoint: Endpoint, **of_security: Any) -> Listener:
            return common(
                name=endpoint.name,
                host=endpoint.host,
                port=endpoint.port,
                security_protocol=endpoint.security_protocol,
                settings=_session_settings(config, endpoint),
                **shared[endpoint.name in names_of_brokers(config)],
                **of_security,
            )

        self._unified = {
            endpoint.name: listener(endpoint._replace(security_protocol="PLAINTEXT"))
            for endpoint in config.listeners
            if endpoint.name in config.barnabas_port_unification_listeners
        }
        self._bound = [
            listener(
                endpoint,
                login=None if logins is None else logins.stages.get(endpoint.name),
                tls=None if tls is None else tls.by_listener.get(endpoint.name),
                plaintext=self._unified.get(endpoint.name),
            )
            for endpoint in config.listeners
        ]
        # A port is closed before those who came to it without TLS are told to go.
        self._listeners = [*self._bound, *self._unified.values()]
        self.update_limits(config, config.properties)

    def _shared(
        self, is_of_brokers: bool, loop: asyncio.AbstractEventLoop, clock: Clock
    ) -> dict[str, Any]:
        """What the listeners of clients share, or those of brokers.

        Requests of brokers have memory of their own: a controller that clients keep out of reach is
        no controller.
        """
        return {
            "limits": self.broker_limits if is_of_brokers else self.limits,
            "memory": RequestMemory(self._config.queued_max_request_bytes),
            "handshakes": self.handshakes[is_of_brokers],
            "decryption_turns": DecryptionTurns(loop),
            "frame_turns": FrameTurns(loop, clock),
        }

    def update_limits(self, config: BrokerConfig, values: Mapping[str, str]) -> None:
        """Use other limits from now on; connections that are open stay.

        `values` have those of single listeners. That of the broker is no limit for brokers.
        """
        self.connection_rates.broker.rate = _rate(config.max_connection_creation_rate)
        for listener in self._bound:
            given = ListenerProperties(listener.name, values)
            connections, rate = (_number_of(given, key) for key in LIMITS_OF_LISTENERS)
            listener.limit(connections, _rate(rate))
        self.limits.update(
            min(config.max_connections, open_files_limit() // 2),
            config.max_connections_per_ip,
            config.max_connections_per_ip_overrides,
        )

    def dispatch_to(self, dispatch: Callable[[InFlightRequest], None]) -> None:
        """Hand the frames of all connections to somebody else from now on."""
        for listener in self._listeners:
            listener.dispatch_to(dispatch)

    @property
    def port(self) -> int:
        """The bound port of the first listener."""
        return self._bound[0].port

    @property
    def replication_port(self) -> int:
        """The bound port of the listener for brokers."""
        name = self._config.inter_broker_listener_name
        return next(listener.port for listener in self._listeners if listener.name == name)

    def named(self, name: str) -> Listener:
        """The listener of a name. Raises: KeyError where there is none."""
        return {listener.name: listener for listener in self._bound}[name]

    def sessions_of(self, name: str) -> list[Session]:
        """The connections of a listener."""
        return [
            session
            for listener in self._listeners
            if listener.name == name
            for session in listener.sessions
        ]

    @property
    def connections_by_listener(self) -> dict[str, int]:
        """Connections open now, by the listener that they came by."""
        return {one.name: len(self.sessions_of(one.name)) for one in self._bound}

    @property
    def plaintext_connections_by_listener(self) -> dict[str, int]:
        """Those of them without TLS, by the listeners that have both."""
        return {name: len(listener.sessions) for name, listener in self._unified.items()}

    @property
    def connection_count(self) -> int:
        """Connections open now."""
        return self.limits.total + self.broker_limits.total

    def advertised(self) -> list[Endpoint]:
        """What clients get: the advertised endpoints, with the port that was really bound.

        A listener on all interfaces without an advertised host is at this machine's canonical host
        name (REG-2).
        """
        ports = {listener.name: listener.port for listener in self._listeners}
        return [
            endpoint._replace(
                host=endpoint.host or self._own_host,
                port=endpoint.port or ports[endpoint.name],
            )
            for endpoint in self._config.advertised_listeners
        ]

    async def start(self) -> None:
        """Bind and accept on all of them.

        Raises: OSError that names the address; ConfigError where the host to advertise is unknown.
        """
        if not all(endpoint.host for endpoint in self._config.advertised_listeners):
            self._own_host = await self._canonical_host()
        for listener in self._bound:
            try:
                await listener.start()
            except OSError as error:
                await self.close()
                address = f"{listener.host}:{listener.port}"
                raise OSError(error.errno, f"cannot listen on {address}: {error}") from error

    async def _canonical_host(self) -> str:
        try:
            host = await self._network.canonical_host_name()
        except OSError as error:
            raise ConfigError(
                "advertised.listeners: no host is given, and this machine's own host name cannot "
                f"be resolved ({error}); set advertised.listeners=NAME://host:port"
            ) from error
        if host.partition(".")[0] == "localhost":
            logger.warning(
                "this broker is advertised as %s, which is reached from this machine alone; "
                "advertised.listeners=NAME://host:port gives clients another host",
                host,
            )
        return host

    async def drain(self) -> None:
        """Accept no more, start no more requests; connections close after their last response."""
        for listener in self._listeners:
            await listener.stop_accepting()
            for session in list(listener.sessions):
                session.drain()

    async def close(self) -> None:
        """Close every connection, after what is in flight is done or its time is up."""
        for listener in self._listeners:
            await listener.close()

    def samples(self) -> Iterator[Sample]:
        """The counters of the network."""
        yield from self.metrics.samples()


def _number_of(given: ListenerProperties, key: str) -> int:
    """What was given for one listener alone; what holds for all of them counts elsewhere."""
    row = BY_KEY[key]
    value = row.parse(given.own(key) or row.default)
    assert isinstance(value, int)
    return value


def _rate(configured: int) -> float:
    """The limit of a rate; the greatest number that may be set is none."""
    return UNLIMITED_RATE if configured >= UNLIMITED else configured


def names_of_brokers(config: BrokerConfig) -> frozenset[str]:
    """The listeners to which brokers connect."""
    return frozenset((config.inter_broker_listener_name, *config.barnabas_other_broker_listeners))


def _session_settings(config: BrokerConfig, endpoint: Endpoint) -> SessionSettings:
    has_sasl = endpoint.security_protocol.startswith("SASL_")
    sasl = config.sasl.get(endpoint.name) if has_sasl else None
    return SessionSettings(
        request_bytes_max=config.socket_request_max_bytes,
        first_request_bytes_max=0 if sasl is None else sasl.receive_bytes_max,
        takes_envelopes=endpoint.name in names_of_brokers(config),
        send_buffer_bytes=config.socket_send_buffer_bytes,
        receive_buffer_bytes=config.socket_receive_buffer_bytes,
        idle_ms_max=config.connections_max_idle_ms,
        in_flight_max=config.barnabas_max_requests_per_connection,
    )


def _handshakes(
    config: BrokerConfig,
    network: Network,
    loop: asyncio.AbstractEventLoop,
    clock: Clock,
    is_of_brokers: bool,
) -> Handshakes:
    """Those of clients' listeners, or of the brokers', whom clients cannot keep waiting."""
    return Handshakes(
        network,
        loop,
        clock,
        HalfOpenConnections(
            config.barnabas_half_open_connections_max,
            config.barnabas_half_open_connections_per_ip_max,
        ),
        timeout_ms=config.barnabas_login_timeout_ms,
        units_max=UNITS_OF_BROKERS if is_of_brokers else UNITS_OF_CLIENTS,
    )
