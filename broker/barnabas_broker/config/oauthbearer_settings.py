"""The settings of OAUTHBEARER on brokers, and what they come to for one listener.

Every way ends in verified signatures: without keys, issuer and audience the broker does not start.
Kafka 4.1 to 4.4 takes unsigned tokens where no URL of keys is set (CVE-2026-33557).

Source: SEC-28, SEC-29; KIP-255, KIP-768.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from barnabas_broker.config.definitions import (
    BOOLEAN,
    INT,
    LIST,
    LONG,
    STRING,
    BrokerSetting,
    ConfigError,
    Value,
)
from barnabas_broker.config.listener_properties import ListenerProperties
from barnabas_protocol.settings.setting import by_name

_S = BrokerSetting

ALGORITHMS: Final = tuple(
    f"{kind}{bits}" for kind in ("RS", "PS", "ES") for bits in (256, 384, 512)
)
_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
SERVICE_ACCOUNT_PREFIX: Final = "system:serviceaccount:"

# Each of them may be given for one listener, and for OAUTHBEARER of it.
OAUTHBEARER_SETTINGS: Final = (
    _S(
        "sasl.oauthbearer.jwks.endpoint.url",
        STRING,
        None,
        "The keys that sign tokens: `file:` and a path, or an https address of a JSON Web Key Set.",
    ),
    _S(
        "sasl.oauthbearer.expected.issuer",
        STRING,
        None,
        "The issuer of tokens (`iss`); required, but with ServiceAccounts, whose issuer the API "
        "server says.",
    ),
    _S(
        "sasl.oauthbearer.expected.audience",
        LIST,
        None,
        "The audiences that tokens may be for (`aud`); required.",
    ),
    _S(
        "sasl.oauthbearer.sub.claim.name",
        STRING,
        "sub",
        "The claim that has the user's name.",
    ),
    _S(
        "sasl.oauthbearer.clock.skew.seconds",
        INT,
        "30",
        "By how much the clocks of issuer and broker may differ.",
        0,
        300,
    ),
    _S(
        "sasl.oauthbearer.jwks.endpoint.refresh.ms",
        LONG,
        "3600000",
        "The keys are fetched again after this; earlier where a token names an unknown key.",
        1_000,
        2**31 - 1,
    ),
    _S(
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
        LONG,
        "100",
        "The first pause after keys could not be fetched.",
        1,
        2**31 - 1,
    ),
    _S(
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
        LONG,
        "10000",
        "The longest pause after keys could not be fetched.",
        1,
        2**31 - 1,
    ),
    _S(
        "barnabas.oauthbearer.algorithms",
        LIST,
        ",".join(ALGORITHMS),
        "The algorithms that tokens may be signed by.",
    ),
    _S(
        "barnabas.oauthbearer.jwks.ca.file",
        STRING,
        None,
        "The authorities (PEM) by which the server of the keys is verified; unset: the system's.",
    ),
    _S(
        "barnabas.oauthbearer.service.accounts",
        BOOLEAN,
        "false",
        "Whether pods log in with the tokens of their ServiceAccounts, projected for "
        "sasl.oauthbearer.expected.audience. Keys and issuer come from the API server of "
        "`arbiter.kubernetes.server`, or of this pod. Needs TLS.",
    ),
    _S(
        "barnabas.oauthbearer.token.review",
        BOOLEAN,
        "false",
        "Whether the API server is asked whether the token of a ServiceAccount is still good, once "
        "a minute for each; without an answer nobody gets in. Else a token lives until it expires, "
        "also when its pod is gone.",
    ),
)
OAUTHBEARER_BY_KEY: Final = by_name(OAUTHBEARER_SETTINGS)


class KeyLocation(NamedTuple):
    """Where keys are: a path, or an address."""

    path: str | None = None
    url: str | None = None
    authority_file: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuthBearerSettings:
    """How bearer tokens are verified on one listener."""

    # None: the API server's, for tokens of ServiceAccounts.
    keys: KeyLocation | None
    issuers: tuple[str, ...]
    audiences: tuple[str, ...]
    algorithms: tuple[str, ...] = ALGORITHMS
    name_claim: str = "sub"
    skew_ms: int = 30_000
    refresh_ms: int = 3_600_000
    retry_ms: int = 100
    retry_ms_max: int = 10_000
    has_token_review: bool = False


class _Given:
    """The values of one listener."""

    def __init__(self, given: ListenerProperties) -> None:
        self._given = given

    def name(self, key: str) -> str:
        """The key as it was given."""
        return self._given.name_of(key)

    def value(self, key: str) -> Value:
        """A parsed value."""
        text = self._given.own(f"oauthbearer.{key}")
        if text is None:
            text = self._given.get(key)
        setting = OAUTHBEARER_BY_KEY[key]
        return setting.parse(setting.default if text is None else text)

    def text(self, key: str) -> str:
        """A text, empty where there is none."""
        return str(self.value(key) or "")

    def number(self, key: str) -> int:
        """A number."""
        value = self.value(key)
        assert isinstance(value, int)
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        """The items of a list."""
        value = self.value(key) or ()
        assert isinstance(value, tuple)
        return tuple(item for item in value if item)


def oauthbearer_settings(
    listener: str, properties: Mapping[str, str], *, is_encrypted: bool
) -> OAuthBearerSettings:
    """How tokens are verified on a listener with OAUTHBEARER. Raises: ConfigError."""
    given = _Given(ListenerProperties(listener, properties))
    has_accounts = bool(given.value("barnabas.oauthbearer.service.accounts"))
    has_review = bool(given.value("barnabas.oauthbearer.token.review"))
    if has_accounts and not is_encrypted:
        raise ConfigError(
            f"{given.name('barnabas.oauthbearer.service.accounts')}: the listener {listener} has "
            "no TLS, and would show everybody the tokens of pods"
        )
    if has_review and not has_accounts:
        raise ConfigError(
            f"{given.name('barnabas.oauthbearer.token.review')}: only tokens of ServiceAccounts "
            "can be reviewed; set barnabas.oauthbearer.service.accounts"
        )
    audience_key, issuer_key = (
        "sasl.oauthbearer.expected.audience",
        "sasl.oauthbearer.expected.issuer",
    )
    audiences, issuer = given.texts(audience_key), given.text(issuer_key)
    if not audiences:
        raise ConfigError(f"{given.name(audience_key)}: needed for OAUTHBEARER on {listener}")
    if not issuer and not has_accounts:
        raise ConfigError(f"{given.name(issuer_key)}: needed for OAUTHBEARER on {listener}")
    return OAuthBearerSettings(
        keys=_location(given, listener, has_accounts),
        issuers=(issuer,) if issuer else (),
        audiences=audiences,
        algorithms=_algorithms(given),
        name_claim=given.text("sasl.oauthbearer.sub.claim.name"),
        skew_ms=1000 * given.number("sasl.oauthbearer.clock.skew.seconds"),
        refresh_ms=given.number("sasl.oauthbearer.jwks.endpoint.refresh.ms"),
        retry_ms=given.number("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms"),
        retry_ms_max=given.number("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms"),
        has_token_review=has_review,
    )


def _algorithms(given: _Given) -> tuple[str, ...]:
    key = "barnabas.oauthbearer.algorithms"
    algorithms = given.texts(key)
    for algorithm in algorithms:
        if algorithm not in ALGORITHMS:
            raise ConfigError(
                f"{given.name(key)}: {algorithm} is not one of {', '.join(ALGORITHMS)}"
            )
    if not algorithms:
        raise ConfigError(f"{given.name(key)}: at least one algorithm is needed")
    return algorithms


def _location(given: _Given, listener: str, has_accounts: bool) -> KeyLocation | None:
    key = "sasl.oauthbearer.jwks.endpoint.url"
    url = given.text(key)
    if has_accounts:
        if url:
            raise ConfigError(
                f"{given.name(key)}: the keys of ServiceAccounts are the API server's"
            )
        return None
    parts = urlsplit(url)
    if parts.scheme == "file" and parts.path and not parts.netloc:
        return KeyLocation(path=parts.path)
    is_near = parts.scheme == "http" and parts.hostname in _LOOPBACK
    if (parts.scheme == "https" or is_near) and parts.hostname:
        authority_file = given.text("barnabas.oauthbearer.jwks.ca.file") or None
        return KeyLocation(url=url, authority_file=authority_file)
    if not url:
        raise ConfigError(
            f"{given.name(key)}: needed for OAUTHBEARER on {listener}: nothing is taken unverified"
        )
    raise ConfigError(f"{given.name(key)}: {url} is not file:/path or https://host/path")
