"""The settings that every role has: where the cluster is, how to talk to it, how long to wait.

Source: the configuration of Kafka's Java client, KIP-899 and KIP-1102 (rebootstrap), KIP-601
(connection set-up timeouts).
"""

# ruff: noqa: RUF009 - `setting` returns a dataclass field.

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Self

from barnabas_client.config.settings import INT_MAX, LONG_MAX, accept_all, build, setting
from barnabas_client.config.spellings import OAUTHBEARER, SASL_MECHANISMS, respelled
from barnabas_client.errors import ConfigurationError

TLS_VERSIONS: Final = ("TLSv1.2", "TLSv1.3")
FRAME_BYTES_MAX: Final = 100_000_000
"""What librdkafka accepts too; a Fetch answer is bounded by `fetch_max_bytes` long before."""


def _check_servers(servers: Sequence[Any]) -> str | None:
    if not servers:
        return "name at least one broker, as in 'broker-1:9092,broker-2:9092'"
    for server in servers:
        try:
            parse_address(server)
        except ValueError as error:
            return str(error)
    return None


def parse_address(text: Any) -> tuple[str, int]:
    """Cut `host:port`; an IPv6 address is written in brackets, `SECURITY://` in front is skipped.

    Raises: ValueError saying what is wrong with the text.
    """
    if not isinstance(text, str):
        raise ValueError(f"{text!r} is not text such as 'broker-1:9092'")
    host, colon, port = text.rpartition("://")[2].rpartition(":")
    host = host.strip()
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ValueError(f"{text!r} must have its IPv6 address in brackets, as in '[::1]:9092'")
    if not colon or not host:
        raise ValueError(f"{text!r} must be a host and a port, as in 'broker-1:9092'")
    if not port.isdecimal() or not 0 < int(port) < 65536:
        raise ValueError(f"{text!r} has no port between 1 and 65535 behind the last colon")
    return host, int(port)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """What a connection to a cluster needs; the roles add their own."""

    role: ClassVar[str] = "client"

    bootstrap_servers: str | Sequence[str] = setting(
        why="Brokers to find the cluster through: `host:port`, several with commas or as a list.",
        check=_check_servers,
    )
    client_id: str | None = setting(
        None, why="The name in the brokers' logs and quotas; the default counts, as `producer-1`."
    )
    client_rack: str | None = setting(
        None, why="Where this client runs; a consumer then reads from replicas of the same rack."
    )
    request_timeout_ms: int = setting(
        30000,
        minimum=1,
        maximum=INT_MAX,
        unit="ms",
        why="How long a request may take; then the connection counts as dead.",
    )
    default_api_timeout_ms: int = setting(
        60000,
        minimum=1,
        maximum=INT_MAX,
        unit="ms",
        why="How long a call repeats what fails for a while, unless it names a timeout.",
    )
    bootstrap_timeout_ms: int = setting(
        10000,
        minimum=1,
        maximum=INT_MAX,
        unit="ms",
        why="How long the first response of the cluster is waited for: an address that is wrong"
        " does not become right. What has responded once is waited for as long as a call may take.",
    )
    retry_backoff_ms: int = setting(
        100,
        minimum=0,
        maximum=LONG_MAX,
        unit="ms",
        why="The wait before the first repetition; it doubles with each further one.",
    )
    retry_backoff_max_ms: int = setting(
        1000, minimum=0, maximum=LONG_MAX, unit="ms", why="The longest wait between repetitions."
    )
    reconnect_backoff_ms: int = setting(
        50,
        minimum=0,
        maximum=LONG_MAX,
        unit="ms",
        why="The wait before a broker is connected to again; it doubles with each failure.",
    )
    reconnect_backoff_max_ms: int = setting(
        1000, minimum=0, maximum=LONG_MAX, unit="ms", why="The longest wait between connections."
    )
    socket_connection_setup_timeout_ms: int = setting(
        10000,
        minimum=1,
        maximum=LONG_MAX,
        unit="ms",
        why="How long connecting, TLS and logging in may take; it doubles with each failure.",
    )
    socket_connection_setup_timeout_max_ms: int = setting(
        30000, minimum=1, maximum=LONG_MAX, unit="ms", why="The most that it doubles to."
    )
    connections_max_idle_ms: int = setting(
        540000,
        minimum=-1,
        maximum=LONG_MAX,
        unit="ms",
        why="A connection without traffic for so long is closed; -1 keeps it.",
    )
    max_in_flight_requests_per_connection: int = setting(
        100,
        minimum=1,
        maximum=INT_MAX,
        why="How many requests may wait for their answers on one connection.",
    )
    metadata_max_age_ms: int = setting(
        300000,
        minimum=1,
        maximum=LONG_MAX,
        unit="ms",
        why="How old the picture of the cluster may become without any error that renews it.",
    )
    metadata_recovery_strategy: str = setting(
        "rebootstrap",
        choices=("rebootstrap", "none"),
        why="What to do when no known broker can be reached: begin anew from bootstrap_servers.",
    )
    metadata_recovery_rebootstrap_trigger_ms: int = setting(
        300000,
        minimum=0,
        maximum=LONG_MAX,
        unit="ms",
        why="Begin anew also if no picture of the cluster could be had for so long.",
    )
    allow_auto_create_topics: bool = setting(
        True, why="Let brokers create a topic that is asked for, where they are set to do so."
    )
    send_buffer_bytes: int = setting(
        -1,
        minimum=-1,
        maximum=INT_MAX,
        unit="bytes",
        why="The kernel's send buffer of a connection; -1 lets the system fit it to the load. Java "
        "sets 131072: a request of 1 MB then costs ten times the CPU.",
    )
    receive_buffer_bytes: int = setting(
        -1,
        minimum=-1,
        maximum=INT_MAX,
        unit="bytes",
        why="The kernel's receive buffer of a connection; -1 lets the system fit it to the load. "
        "Java sets 32768 or 65536.",
    )
    receive_message_max_bytes: int = setting(
        FRAME_BYTES_MAX,
        minimum=1000,
        maximum=INT_MAX,
        unit="bytes",
        why="The largest answer that is accepted; more means that the peer speaks no Kafka.",
    )
    security_protocol: str = setting(
        "PLAINTEXT",
        choices=("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
        why="Whether connections are encrypted (SSL) and whether the client logs in (SASL).",
    )
    sasl_mechanism: str = setting(
        "PLAIN",
        why="How to log in: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER, or what "
        "sasl_exchange speaks. Java begins with GSSAPI.",
    )
    sasl_username: str | None = setting(None, why="The name to log in with.")
    sasl_password: str | None = setting(None, secret=True, why="The password to log in with.")
    sasl_oauthbearer_token_file: str | None = setting(
        None,
        why="OAUTHBEARER: a file with the token, such as a pod's ServiceAccount token. It is read "
        "at each log-in, as its owner renews it.",
    )
    sasl_oauthbearer_token_callback: Callable[[], str | Awaitable[str]] | None = setting(
        None,
        why="OAUTHBEARER: gives the token, at each log-in; a coroutine function, or a function "
        "that may take long: it is called in a thread.",
    )
    sasl_exchange: Callable[[str], Any] | None = setting(
        None, why="For other mechanisms: gives a `SaslClient` for the broker's host name."
    )
    ssl_cafile: str | None = setting(
        None,
        why="Certificates (PEM) that may have signed a broker's; default: the system's. Like the "
        "other files it is read anew for new connections when it has changed.",
    )
    ssl_ca_pem: str | None = setting(None, why="The same as text, in place of a file.")
    ssl_certfile: str | None = setting(
        None,
        why="The client's own certificate (PEM) with its chain, where brokers ask for one; the key "
        "may be in the same file.",
    )
    ssl_certificate_pem: str | None = setting(None, why="The same as text, in place of a file.")
    ssl_keyfile: str | None = setting(
        None, why="The key (PEM) of ssl_certfile, if it is not in the same file."
    )
    ssl_key_pem: str | None = setting(
        None, secret=True, why="The key of ssl_certificate_pem as text (PEM); no file is written."
    )
    ssl_password: str | None = setting(None, secret=True, why="The password of the key.")
    ssl_check_hostname: bool = setting(
        True, why="Whether a broker's certificate must name the host that was connected to."
    )
    ssl_enabled_protocols: Sequence[str] = setting(
        TLS_VERSIONS, choices=TLS_VERSIONS, why="The versions of TLS that may be spoken."
    )
    ssl_context: ssl.SSLContext | None = setting(
        None, why="A context made by the caller instead of the other ssl settings."
    )

    def __post_init__(self) -> None:
        """Check every row, and rows against each other."""
        accept_all(self)
        self.check()

    @classmethod
    def create(cls, values: Mapping[str, Any]) -> Self:
        """Make settings from what a user gave; names may be Java's or librdkafka's, with dots.

        Raises: ConfigurationError naming the setting and what to do.
        """
        return build(cls, respelled(values))

    @property
    def addresses(self) -> tuple[tuple[str, int], ...]:
        """The bootstrap servers as hosts and ports, each once, in the order given."""
        return tuple(dict.fromkeys(parse_address(server) for server in self.bootstrap_servers))

    @property
    def uses_tls(self) -> bool:
        """Whether connections are encrypted."""
        return self.security_protocol.endswith("SSL")

    @property
    def uses_sasl(self) -> bool:
        """Whether the client logs in."""
        return self.security_protocol.startswith("SASL")

    def check(self) -> None:
        """Refuse settings that contradict each other; roles add theirs.

        Raises: ConfigurationError.
        """
        for low, high in (
            ("retry_backoff_ms", "retry_backoff_max_ms"),
            ("reconnect_backoff_ms", "reconnect_backoff_max_ms"),
            ("socket_connection_setup_timeout_ms", "socket_connection_setup_timeout_max_ms"),
        ):
            if getattr(self, low) > getattr(self, high):
                # As in Java: a first wait above the default maximum is the constant wait.
                object.__setattr__(self, high, getattr(self, low))
        self._check_sasl()
        self._check_tls()

    def _check_sasl(self) -> None:
        if not self.uses_sasl:
            given = [name for name in _LOGIN if getattr(self, name) is not None]
            if given:
                raise ConfigurationError(
                    f"{given[0]} is given, but security_protocol={self.security_protocol} does not "
                    "log in: set SASL_SSL or SASL_PLAINTEXT"
                )
            return
        if self.sasl_exchange is not None:
            return
        name = self.sasl_mechanism.strip().upper()
        if name not in SASL_MECHANISMS:
            raise ConfigurationError(
                f"sasl_mechanism={self.sasl_mechanism!r} is none of {', '.join(SASL_MECHANISMS)}: "
                "choose one of them, or give its exchange as sasl_exchange"
            )
        object.__setattr__(self, "sasl_mechanism", name)
        self._check_token_source(is_needed=name == OAUTHBEARER)
        for needed in ("sasl_username", "sasl_password") if name != OAUTHBEARER else ():
            if getattr(self, needed) is None:
                raise ConfigurationError(
                    f"{needed} is missing: security_protocol={self.security_protocol} with "
                    f"sasl_mechanism={name} needs it"
                )

    def _check_token_source(self, *, is_needed: bool) -> None:
        given = [name for name in _TOKEN_SOURCES if getattr(self, name) is not None]
        if not is_needed:
            if given:
                raise ConfigurationError(
                    f"{given[0]} is given, but sasl_mechanism={self.sasl_mechanism} shows no "
                    f"token: set {OAUTHBEARER}"
                )
        elif len(given) > 1:
            raise ConfigurationError(f"{' and '.join(given)} are both given: keep one")
        elif not given:
            raise ConfigurationError(
                f"sasl_mechanism={OAUTHBEARER} needs a token: give {' or '.join(_TOKEN_SOURCES)}"
            )

    def _check_tls(self) -> None:
        given = [name for name in _TLS if getattr(self, name) is not None]
        if given and not self.uses_tls:
            raise ConfigurationError(
                f"{given[0]} is given, but security_protocol={self.security_protocol} does not "
                "encrypt: set SSL or SASL_SSL"
            )
        if self.ssl_context is not None and len(given) > 1:
            raise ConfigurationError(
                f"{given[0]} and ssl_context are both given: put the files into the context"
            )
        for file, text in (("ssl_cafile", "ssl_ca_pem"), ("ssl_certfile", "ssl_certificate_pem")):
            if file in given and text in given:
                raise ConfigurationError(f"{file} and {text} are both given: keep one")
        for key, certificate in (
            ("ssl_keyfile", "ssl_certfile"),
            ("ssl_key_pem", "ssl_certificate_pem"),
        ):
            if key in given and certificate not in given:
                raise ConfigurationError(f"{key} is given without {certificate}: give both")
        if not self.ssl_enabled_protocols:
            raise ConfigurationError("ssl_enabled_protocols is empty: name TLSv1.3 at least")


_TOKEN_SOURCES: Final = ("sasl_oauthbearer_token_file", "sasl_oauthbearer_token_callback")
_LOGIN: Final = ("sasl_username", "sasl_password", *_TOKEN_SOURCES)
_TLS: Final = (
    "ssl_cafile",
    "ssl_ca_pem",
    "ssl_certfile",
    "ssl_certificate_pem",
    "ssl_keyfile",
    "ssl_key_pem",
    "ssl_password",
    "ssl_context",
)
