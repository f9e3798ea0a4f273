"""The settings of TLS, and what they come to for one listener.

Rows as in `broker_settings`; each may be given for one listener alone (SEC-1).
`ListenerTlsSettings` says where key, chain and anchors are and how connections are verified;
nothing here reads a file. What only Java reads is refused, as ignoring it would leave a listener
without what it was meant to have.

Source: SEC-2, SEC-3, SEC-4, SEC-7; KIP-651 (PEM), KIP-684 (client authentication beside SASL).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from barnabas_broker.config.definitions import (
    BOOLEAN,
    INT,
    LIST,
    PASSWORD,
    PER_BROKER,
    STRING,
    BrokerSetting,
    ConfigError,
)
from barnabas_broker.config.listener_properties import ListenerProperties, listener_key
from barnabas_protocol.settings.setting import by_name

_S = BrokerSetting

CLIENT_AUTH: Final = ("none", "requested", "required")
PROTOCOLS: Final = ("TLSv1.2", "TLSv1.3")
_CONVERT: Final = (
    "only Java reads such a store: convert it by `keytool -importkeystore -srckeystore STORE "
    "-destkeystore store.p12 -deststoretype PKCS12` and `openssl pkcs12 -in store.p12 -nodes -out "
    "store.pem`, then set"
)


def _known_protocols(names: tuple[str, ...]) -> str | None:
    for name in names:
        if name not in PROTOCOLS:
            return f"{name} is not one of {', '.join(PROTOCOLS)}; older ones are not safe"
    return None if names else "at least one protocol is needed"


TLS: Final = (
    _S(
        "ssl.keystore.location",
        STRING,
        None,
        "A file (PEM) with the broker's key and its certificate chain, the broker's own first.",
        update=PER_BROKER,
    ),
    _S(
        "ssl.keystore.key",
        PASSWORD,
        None,
        "The key itself (PEM), instead of a file; with ssl.keystore.certificate.chain.",
        update=PER_BROKER,
    ),
    _S(
        "ssl.keystore.certificate.chain",
        PASSWORD,
        None,
        "The certificate chain itself (PEM), instead of a file; with ssl.keystore.key.",
        update=PER_BROKER,
    ),
    _S(
        "barnabas.ssl.certificate.file",
        STRING,
        None,
        "The certificate chain in a file of its own, as the `tls.crt` of a Secret.",
        update=PER_BROKER,
    ),
    _S(
        "barnabas.ssl.key.file",
        STRING,
        None,
        "The key in a file of its own, as the `tls.key` of a Secret.",
        update=PER_BROKER,
    ),
    _S(
        "ssl.key.password",
        PASSWORD,
        None,
        "The password of the key, if it is encrypted.",
        update=PER_BROKER,
    ),
    _S(
        "ssl.keystore.type",
        STRING,
        "JKS",
        "PEM, where one of the stores is given; the other types are Java's and are refused.",
        update=PER_BROKER,
    ),
    _S(
        "ssl.truststore.location",
        STRING,
        None,
        "A file (PEM) of certificates by which others' are verified; each of them is an anchor.",
        update=PER_BROKER,
    ),
    _S(
        "ssl.truststore.certificates",
        PASSWORD,
        None,
        "Those certificates themselves (PEM), instead of a file.",
        update=PER_BROKER,
    ),
    _S(
        "ssl.truststore.type",
        STRING,
        "JKS",
        "PEM, where one of the stores is given; the other types are Java's and are refused.",
        update=PER_BROKER,
    ),
    _S(
        "ssl.client.auth",
        STRING,
        "none",
        "Whether clients have to show a certificate; for SASL_SSL it counts only if it is given "
        "for the listener.",
        choices=CLIENT_AUTH,
        update=PER_BROKER,
    ),
    _S(
        "ssl.enabled.protocols",
        LIST,
        "TLSv1.2,TLSv1.3",
        "The versions of TLS that are spoken.",
        check=_known_protocols,
        update=PER_BROKER,
    ),
    _S(
        "ssl.cipher.suites",
        LIST,
        "",
        "Cipher suites of TLS 1.2, as Java or OpenSSL spells them; empty means the usual ones.",
        update=PER_BROKER,
    ),
    _S(
        "ssl.endpoint.identification.algorithm",
        STRING,
        "https",
        "How this broker checks the names in other brokers' certificates; empty means not at all.",
        choices=("https", ""),
        folds_case=True,
        update=PER_BROKER,
    ),
    _S(
        "ssl.principal.mapping.rules",
        STRING,
        "DEFAULT",
        "How the name in a client's certificate becomes a principal: RULE:pattern/replacement/[LU] "
        "or DEFAULT (the whole name), the first that matches.",
    ),
    _S(
        "ssl.allow.dn.changes",
        BOOLEAN,
        "false",
        "Whether kafka-configs may bring a certificate with another distinguished name.",
    ),
    _S(
        "ssl.allow.san.changes",
        BOOLEAN,
        "false",
        "Whether kafka-configs may bring a certificate that lacks an alternative name.",
    ),
)
"""What may be given for each listener."""

HANDSHAKES: Final = (
    _S(
        "barnabas.login.timeout.ms",
        INT,
        "10000",
        "A TLS handshake and a log-in together take so long at most.",
        1,
    ),
    _S(
        "barnabas.half.open.connections.max",
        INT,
        "1000",
        "Connections whose TLS handshake or log-in is not over, of all addresses.",
        1,
    ),
    _S(
        "barnabas.half.open.connections.per.ip.max",
        INT,
        "200",
        "Connections of one address, or of one /64 of IPv6, whose TLS handshake or log-in is not "
        "over.",
        1,
    ),
)
"""What holds for all listeners."""

TLS_BY_KEY: Final = by_name(TLS)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerTlsSettings:
    """TLS on one listener: where key, chain and anchors are, and how connections are verified.

    Files are paths; `inline_*` is PEM text. Of the sources of the key exactly one is given.
    """

    listener: str
    keystore_file: str | None = None
    certificate_file: str | None = None
    key_file: str | None = None
    inline_key: str | None = field(default=None, repr=False)
    inline_chain: str | None = field(default=None, repr=False)
    key_password: str | None = field(default=None, repr=False)
    truststore_file: str | None = None
    inline_anchors: str | None = field(default=None, repr=False)
    client_auth: str = "none"
    protocols: tuple[str, ...] = PROTOCOLS
    cipher_suites: tuple[str, ...] = ()
    verifies_names: bool = True
    mapping_rules: str = "DEFAULT"
    allows_dn_changes: bool = False
    allows_san_changes: bool = False

    @property
    def has_anchors(self) -> bool:
        """Whether there is something by which others can be verified."""
        return self.truststore_file is not None or self.inline_anchors is not None


def tls_settings(
    listener: str, security_protocol: str, properties: Mapping[str, str], *, is_of_brokers: bool
) -> ListenerTlsSettings:
    """What the properties come to for a listener.

    On that of the brokers both ends of a connection use them. Raises: ConfigError.
    """
    given = ListenerProperties(listener, properties)
    values = {
        key: setting.parse(given.get(key) if given.get(key) is not None else setting.default)
        for key, setting in TLS_BY_KEY.items()
    }

    def text(key: str) -> str | None:
        value = values[key]
        return value if isinstance(value, str) and value.strip() else None

    _check_stores(given)
    client_auth = text("ssl.client.auth") or "none"
    if security_protocol == "SASL_SSL":
        # There the principal is SASL's, and what was meant for SSL listeners does not count.
        own = given.own("ssl.client.auth")
        client_auth = own.strip().lower() if own is not None else "none"
    protocols, suites = values["ssl.enabled.protocols"], values["ssl.cipher.suites"]
    assert isinstance(protocols, tuple)
    assert isinstance(suites, tuple)
    settings = ListenerTlsSettings(
        listener=listener,
        keystore_file=text("ssl.keystore.location"),
        certificate_file=text("barnabas.ssl.certificate.file"),
        key_file=text("barnabas.ssl.key.file"),
        inline_key=text("ssl.keystore.key"),
        inline_chain=text("ssl.keystore.certificate.chain"),
        key_password=text("ssl.key.password"),
        truststore_file=text("ssl.truststore.location"),
        inline_anchors=text("ssl.truststore.certificates"),
        client_auth=client_auth,
        protocols=tuple(name for name in PROTOCOLS if name in protocols),
        cipher_suites=tuple(suite for suite in suites if suite),
        verifies_names=bool(values["ssl.endpoint.identification.algorithm"]),
        mapping_rules=text("ssl.principal.mapping.rules") or "DEFAULT",
        allows_dn_changes=values["ssl.allow.dn.changes"] is True,
        allows_san_changes=values["ssl.allow.san.changes"] is True,
    )
    if not settings.has_anchors and (client_auth != "none" or is_of_brokers):
        why = "brokers verify one another" if is_of_brokers else f"ssl.client.auth is {client_auth}"
        raise ConfigError(
            f"{listener}: {why}, so ssl.truststore.location or ssl.truststore.certificates is "
            "needed"
        )
    return settings


def _check_stores(given: ListenerProperties) -> None:
    """Exactly one source of the key, whole; at most one of anchors; nothing that Java alone reads.

    Raises: ConfigError.
    """
    for key in ("ssl.keystore.password", "ssl.truststore.password"):
        if given.get(key):
            raise ConfigError(
                f"{given.name_of(key)}: PEM has no password for a whole store, only "
                "ssl.key.password for the key"
            )
    sources = [
        [key for key in keys if given.get(key)]
        for keys in (
            ("ssl.keystore.location",),
            ("ssl.keystore.key", "ssl.keystore.certificate.chain"),
            ("barnabas.ssl.certificate.file", "barnabas.ssl.key.file"),
        )
    ]
    chosen = [keys for keys in sources if keys]
    listener = given.listener
    if not chosen:
        raise ConfigError(
            f"{listener}: TLS needs a key and a certificate: set "
            f"{listener_key(listener, 'barnabas.ssl.certificate.file')} and "
            f"{listener_key(listener, 'barnabas.ssl.key.file')}, or ssl.keystore.location with "
            "ssl.keystore.type=PEM"
        )
    if len(chosen) > 1:
        names = " and ".join(given.name_of(keys[0]) for keys in chosen)
        raise ConfigError(f"{listener}: {names} both say what the key is; keep one of them")
    if chosen[0] is sources[1] and len(chosen[0]) == 1:
        raise ConfigError(
            f"{listener}: ssl.keystore.key and ssl.keystore.certificate.chain go together, and "
            f"only {given.name_of(chosen[0][0])} is given"
        )
    if chosen[0] is sources[2] and len(chosen[0]) == 1:
        raise ConfigError(
            f"{listener}: barnabas.ssl.certificate.file and barnabas.ssl.key.file go together, "
            f"and only {given.name_of(chosen[0][0])} is given"
        )
    if given.get("ssl.truststore.location") and given.get("ssl.truststore.certificates"):
        raise ConfigError(
            f"{listener}: ssl.truststore.location and ssl.truststore.certificates both say whom "
            "to trust; keep one of them"
        )
    if chosen[0] is not sources[2]:
        _check_type(given, "ssl.keystore.type")
    # With our own keys there is no key store of Java's, and none is meant for the anchors.
    names_type = chosen[0] is not sources[2] or given.get("ssl.truststore.type") is not None
    if names_type and given.has_any(("ssl.truststore.location", "ssl.truststore.certificates")):
        _check_type(given, "ssl.truststore.type")


def _check_type(given: ListenerProperties, key: str) -> None:
    kind = (given.get(key) or TLS_BY_KEY[key].default or "").strip()
    if kind.upper() != "PEM":
        raise ConfigError(f"{given.listener}: {given.name_of(key)} is {kind}; {_CONVERT} {key}=PEM")
