"""The settings of SASL, and what they come to for one listener.

Rows as in `broker_settings`. A value for one listener comes before the one for all, and one for a
mechanism of a listener before that: `listener.name.x.scram-sha-512.connections.max.reauth.ms`.
What cannot be verified, or would send passwords in the clear, is refused here, before the start.

Source: SEC-1, SEC-20 to SEC-30; KIP-43, KIP-103, KIP-368.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from barnabas_broker.config.definitions import (
    BOOLEAN,
    INT,
    LIST,
    LONG,
    PASSWORD,
    STRING,
    BrokerSetting,
    ConfigError,
    Value,
)
from barnabas_broker.config.jaas import JaasEntry
from barnabas_broker.config.listener_properties import ListenerProperties
from barnabas_broker.config.oauthbearer_settings import (
    OAUTHBEARER_SETTINGS,
    OAuthBearerSettings,
    oauthbearer_settings,
)
from barnabas_protocol.settings.setting import by_name

_S = BrokerSetting

PLAIN: Final = "PLAIN"
OAUTHBEARER: Final = "OAUTHBEARER"
GSSAPI: Final = "GSSAPI"
SCRAM_MECHANISMS: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")
MECHANISMS: Final = (PLAIN, *SCRAM_MECHANISMS, OAUTHBEARER)
SASL_PROTOCOLS: Final = ("SASL_PLAINTEXT", "SASL_SSL")
_IN_THE_CLEAR: Final = "SASL_PLAINTEXT"
_USER_OPTION: Final = "user_"
_MODULES: Final[Mapping[str, str]] = {
    PLAIN: "PlainLoginModule",
    **dict.fromkeys(SCRAM_MECHANISMS, "ScramLoginModule"),
    OAUTHBEARER: "OAuthBearerLoginModule",
}

# Each of them may be given for one listener, and for one mechanism of it.
_LOGIN: Final = (
    _S(
        "sasl.enabled.mechanisms",
        LIST,
        GSSAPI,
        "The mechanisms of a listener with SASL: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER. "
        "GSSAPI, Kafka's default, is not served: name others where a listener has SASL. Read at "
        "the start, unlike in Kafka: nobody opens another way in by AlterConfigs.",
    ),
    _S(
        "sasl.jaas.config",
        PASSWORD,
        None,
        "The login module of a mechanism, given as `listener.name.<listener>.<mechanism>."
        "sasl.jaas.config`. Only PLAIN's has an effect: its options user_NAME are the users and "
        "their passwords. Without it, PLAIN verifies passwords by the stored SCRAM credentials. "
        "Read at the start, unlike in Kafka: nobody gives himself a password by AlterConfigs.",
    ),
    _S(
        "connections.max.reauth.ms",
        LONG,
        "0",
        "A log-in lasts so long at most, then the client logs in again on the same connection or "
        "is cut off (KIP-368); 0: no limit.",
    ),
    _S(
        "connection.failed.authentication.delay.ms",
        INT,
        "100",
        "The answer to a failed log-in, and the end of its connection, are held back so long.",
        0,
        60_000,
    ),
    _S(
        "sasl.server.max.receive.size",
        INT,
        "524288",
        "The largest frame that is taken before log-in.",
        4096,
    ),
    _S(
        "barnabas.allow.plain.without.tls",
        BOOLEAN,
        "false",
        "Whether PLAIN and OAUTHBEARER, which send what others could log in with, may be enabled "
        "on a listener without TLS.",
    ),
    _S(
        "barnabas.sasl.disconnect.on.credential.change",
        BOOLEAN,
        "false",
        "Whether connections end when the SCRAM credential that they logged in with is changed or "
        "removed. Kafka leaves them until they log in again.",
    ),
)
SASL: Final = (*_LOGIN, *OAUTHBEARER_SETTINGS)
SASL_BY_KEY: Final = by_name(SASL)

# For the cluster as a whole.
CREDENTIALS: Final = (
    _S(
        "sasl.mechanism.inter.broker.protocol",
        STRING,
        GSSAPI,
        "The mechanism by which this broker logs in with others: SCRAM-SHA-256 or SCRAM-SHA-512, "
        "where their listener has SASL. GSSAPI, Kafka's default, stands for the first mechanism "
        "of that listener. Read at the start.",
    ),
    _S(
        "barnabas.scram.previous.credential.ms",
        LONG,
        "0",
        "A SCRAM password that is replaced with the same salt and iterations stays good for so "
        "long, so that clients can follow one by one; 0, as in Kafka: not at all.",
        0,
        31_536_000_000,
    ),
    _S(
        "barnabas.bootstrap.users.file",
        STRING,
        None,
        "The first users: lines of the form `name=password`, which become SCRAM credentials when "
        "the cluster has none.",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslSettings:
    """How clients log in on one listener."""

    mechanisms: tuple[str, ...]
    # None: by the stored SCRAM credentials.
    plain_users: Mapping[str, str] | None = field(default=None, repr=False)
    # By mechanism; 0 for no limit.
    session_lifetimes_ms: Mapping[str, int] = field(default_factory=dict)
    failure_delay_ms: int = 100
    receive_bytes_max: int = 524_288
    ends_on_credential_change: bool = False
    # Where OAUTHBEARER is enabled.
    tokens: OAuthBearerSettings | None = None


def sasl_settings(
    listener: str, security_protocol: str, properties: Mapping[str, str]
) -> SaslSettings:
    """The settings of a listener with SASL. Raises: ConfigError."""
    given = ListenerProperties(listener, properties)
    key = given.name_of("sasl.enabled.mechanisms")
    mechanisms = tuple(name.upper() for name in _list(given, "sasl.enabled.mechanisms"))
    for mechanism in mechanisms:
        if mechanism not in MECHANISMS:
            raise ConfigError(f"{key}: {mechanism} is not served; name {', '.join(MECHANISMS)}")
    if not mechanisms:
        raise ConfigError(f"{key}: the listener {listener} needs at least one mechanism")
    if security_protocol == _IN_THE_CLEAR and not _value(given, "barnabas.allow.plain.without.tls"):
        for mechanism in (PLAIN, OAUTHBEARER):
            if mechanism in mechanisms:
                raise ConfigError(
                    f"{key}: {mechanism} sends what others can log in with, and {listener} has no "
                    "TLS; barnabas.allow.plain.without.tls=true allows it"
                )
    return SaslSettings(
        mechanisms=mechanisms,
        plain_users=_plain_users(given, mechanisms),
        tokens=oauthbearer_settings(
            listener, properties, is_encrypted=security_protocol != _IN_THE_CLEAR
        )
        if OAUTHBEARER in mechanisms
        else None,
        session_lifetimes_ms={
            mechanism: max(_number(given, "connections.max.reauth.ms", mechanism), 0)
            for mechanism in mechanisms
        },
        failure_delay_ms=_number(given, "connection.failed.authentication.delay.ms"),
        receive_bytes_max=_number(given, "sasl.server.max.receive.size"),
        ends_on_credential_change=bool(
            _value(given, "barnabas.sasl.disconnect.on.credential.change")
        ),
    )


def _plain_users(
    given: ListenerProperties, mechanisms: tuple[str, ...]
) -> Mapping[str, str] | None:
    users: Mapping[str, str] | None = None
    for mechanism in mechanisms:
        key = f"{mechanism.lower()}.sasl.jaas.config"
        text = given.own(key)
        if text is None:
            continue
        entry = JaasEntry.parse(given.name_of(key), text)
        if entry.module != _MODULES[mechanism]:
            raise ConfigError(
                f"{given.name_of(key)}: {entry.module} is not the module of {mechanism}, which is "
                f"{_MODULES[mechanism]}"
            )
        if mechanism == PLAIN:
            users = {
                option[len(_USER_OPTION) :]: password
                for option, password in entry.options.items()
                if option.startswith(_USER_OPTION)
            }
    return users or None


def _value(given: ListenerProperties, key: str, mechanism: str = "") -> Value:
    text = given.own(f"{mechanism.lower()}.{key}") if mechanism else None
    setting = SASL_BY_KEY[key]
    if text is None:
        text = given.get(key)
    return setting.parse(setting.default if text is None else text)


def _number(given: ListenerProperties, key: str, mechanism: str = "") -> int:
    value = _value(given, key, mechanism)
    assert isinstance(value, int)
    return value


def _list(given: ListenerProperties, key: str) -> tuple[str, ...]:
    value = _value(given, key)
    assert isinstance(value, tuple)
    return tuple(item for item in value if item)
