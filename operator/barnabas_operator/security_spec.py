"""The `security` block of a Broker as a frozen value: what is on, by which certificates, for whom.

`security.enabled` alone turns all of it on (SEC-80); each part can be turned off by itself. Log-in
needs TLS, since passwords and tokens must not travel in plain text, and rights need log-in, since
without it everybody is anonymous.

Source: `crds/broker.yaml`. Not here: listeners and properties made of it
(`reconcile/broker/listener_plan.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from barnabas_operator.spec import SpecError

# Of listeners; the plain ones keep theirs, so both are there while one becomes the other (SEC-89).
CLIENTS_PORT = 9093
CERTIFICATES_PORT = 9095
SECURE_REPLICATION_PORT = 9090


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
class SecuritySpec:
    """What is on. `keeps_plain` leaves the plain listener open for clients that come late."""

    has_tls: bool = False
    has_authentication: bool = False
    has_authorization: bool = False
    keeps_plain: bool = False
    cluster: CertificateSource = CertificateSource()
    clients: CertificateSource = CertificateSource()
    user_namespaces: Mapping[str, NamespaceLimit] = field(
        default_factory=lambda: MappingProxyType({})
    )
    super_users: tuple[str, ...] = ()
    has_token_review: bool = False

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
            keeps_plain=bool(found.get("keepPlainListener")) or not has_tls,
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
            has_token_review=bool((found.get("authentication") or {}).get("tokenReview")),
        )


def _part(found: Mapping[str, Any], name: str, is_enabled: bool) -> bool:
    return bool((found.get(name) or {}).get("enabled", is_enabled))


def _source(found: Mapping[str, Any]) -> CertificateSource:
    issuer = (found.get("certManager") or {}).get("issuerRef") or {}
    return CertificateSource(
        secret=str((found.get("secretRef") or {}).get("name") or ""),
        issuer=MappingProxyType({str(key): str(value) for key, value in issuer.items()}),
    )
