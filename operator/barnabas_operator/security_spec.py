"""The `security` block of a Broker as a frozen value: what is on, by which certificates, for whom.

`security.enabled` alone turns all of it on (SEC-80); each part can be turned off by itself. Log-in
needs TLS, since passwords and tokens must not travel in plain text, and rights need log-in, since
without it everybody is anonymous.

Source: `crds/broker.yaml`. Not here: listeners and properties made of it
(`reconcile/broker/listener_plan.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from enum import IntEnum, StrEnum
from types import MappingProxyType
from typing import Any

from barnabas_operator.certificates.authority_change import CLIENTS_SETTLE
from barnabas_operator.spec import SpecError

# Of listeners; the plain ones keep theirs, so both are there while one becomes the other (SEC-89).
CLIENTS_PORT = 9093
CERTIFICATES_PORT = 9097
SECURE_REPLICATION_PORT = 9090
_MINUTE = timedelta(minutes=1)


class SecurityPhase(IntEnum):
    """How far a cluster has got on its way to be secure, in order (SEC-89).

    Statuses have the names; what each of them means `reconcile/broker/security_phase.py` tells.
    """

    PLAIN = 0
    LISTENERS = 1
    BROKERS = 2
    AUDIT = 3
    SECURE = 4

    @property
    def text(self) -> str:
        """The name in a status."""
        return self.name.capitalize()

    @property
    def has_certificates(self) -> bool:
        """Whether brokers have secure listeners."""
        return self is not SecurityPhase.PLAIN


class PlainListener(StrEnum):
    """What becomes of the plain listener of a cluster that is becoming secure (SEC-89)."""

    UNTIL_UNUSED = "UntilUnused"
    OPEN = "Open"
    CLOSED = "Closed"


class SecureListeners(StrEnum):
    """What becomes of the secure listeners of a cluster that is becoming plain again (SEC-89)."""

    UNTIL_UNUSED = "UntilUnused"
    CLOSED = "Closed"


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateSource:
    """Where an authority comes from: the operator unless a Secret or an issuer is named (SEC-82).

    `issuer` is the issuerRef of cert-manager.
    """

    secret: str = ""
    issuer: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceLimit:
    """What Users of another namespace may have: rights on names with these beginnings (SEC-86)."""

    prefixes: tuple[str, ...] = ()
    may_set_quotas: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkRules:
    """Who may reach the brokers' pods: peers as a NetworkPolicy has them, none for everybody."""

    is_enabled: bool = False
    clients: Sequence[Mapping[str, Any]] = ()
    monitoring: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SecuritySpec:
    """What is on.

    `renew` is any text, another one than before asks for new authorities; `settle` is how long
    clients have to load the bundle with another one.
    """

    has_tls: bool = False
    has_authentication: bool = False
    has_authorization: bool = False
    plain_listener: PlainListener = PlainListener.UNTIL_UNUSED
    secure_listeners: SecureListeners = SecureListeners.UNTIL_UNUSED
    cluster: CertificateSource = CertificateSource()
    clients: CertificateSource = CertificateSource()
    user_namespaces: Mapping[str, NamespaceLimit] = field(
        default_factory=lambda: MappingProxyType({})
    )
    super_users: tuple[str, ...] = ()
    has_token_review: bool = False
    renew: str = ""
    settle: timedelta = CLIENTS_SETTLE
    network: NetworkRules = NetworkRules()

    @classmethod
    def from_manifest(cls, broker: Mapping[str, Any]) -> SecuritySpec:
        """What a Broker resource says. Raises: SpecError."""
        found = (broker.get("spec") or {}).get("security") or {}
        is_enabled = bool(found.get("enabled"))
        has_tls = _part(found, "tls", is_enabled)
        has_authentication = _part(found, "authentication", is_enabled)
        has_authorization = _part(found, "authorization", is_enabled)
        path = ("spec", "security")
        if has_authentication and not has_tls:
            raise SpecError((*path, "authentication"), "needs tls: passwords are not sent in plain")
        if has_authorization and not has_authentication:
            raise SpecError(
                (*path, "authorization"), "needs authentication: without it nobody has a name"
            )
        certificates = found.get("certificates") or {}
        return cls(
            has_tls=has_tls,
            has_authentication=has_authentication,
            has_authorization=has_authorization,
            plain_listener=PlainListener(found.get("plainListener") or PlainListener.UNTIL_UNUSED),
            secure_listeners=SecureListeners(
                found.get("secureListeners") or SecureListeners.UNTIL_UNUSED
            ),
            cluster=_source(certificates.get("cluster") or {}),
            clients=_source(certificates.get("clients") or {}),
            user_namespaces=MappingProxyType(
                {
                    str(one["name"]): NamespaceLimit(
                        prefixes=tuple(one.get("prefixes") or ()),
                        may_set_quotas=bool(one.get("quotas")),
                    )
                    for one in found.get("userNamespaces") or ()
                }
            ),
            super_users=tuple(found.get("superUsers") or ()),
            renew=str(certificates.get("renew") or ""),
            settle=_duration(certificates.get("clientsSettle")),
            network=_network(found, is_enabled),
            has_token_review=bool((found.get("authentication") or {}).get("tokenReview")),
        )


def token_audience(namespace: str, broker: str) -> str:
    """Whom tokens of ServiceAccounts are for (SEC-29): these brokers, never the API server."""
    return f"barnabas:{namespace}/{broker}"


def _duration(text: str | None) -> timedelta:
    """A number of minutes, hours or days; the default where nothing is said."""
    if not text:
        return CLIENTS_SETTLE
    return int(text[:-1]) * {"m": _MINUTE, "h": _MINUTE * 60, "d": _MINUTE * 1440}[text[-1]]


def _part(found: Mapping[str, Any], name: str, is_enabled: bool) -> bool:
    return bool((found.get(name) or {}).get("enabled", is_enabled))


def _network(found: Mapping[str, Any], is_enabled: bool) -> NetworkRules:
    rules = found.get("networkPolicy") or {}
    return NetworkRules(
        is_enabled=_part(found, "networkPolicy", is_enabled),
        clients=tuple(rules.get("clients") or ()),
        monitoring=tuple(rules.get("monitoring") or ()),
    )


def _source(found: Mapping[str, Any]) -> CertificateSource:
    issuer = (found.get("certManager") or {}).get("issuerRef") or {}
    return CertificateSource(
        secret=str((found.get("secretRef") or {}).get("name") or ""),
        issuer=MappingProxyType({str(key): str(value) for key, value in issuer.items()}),
    )
