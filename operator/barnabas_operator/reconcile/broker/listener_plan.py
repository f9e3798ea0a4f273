"""The listeners of the brokers and the settings of their security, in each phase. Pure.

Secure listeners have names and ports of their own, so that plain ones are there beside them while
clients change (SEC-89): CLIENTS for passwords and tokens (SASL_SSL), CERTIFICATES for clients that
show one (SSL), REPLICATION_SSL for brokers and the operator, which trusts the cluster's authority
and no other (SEC-81).

A broker's name is the whole subject of its certificate, `CN=broker-0,O=<namespace>.<name>`; a
client's is its common name. The external listener has one port, at which it takes clients of both
kinds meanwhile. No User can have a name with `=` in it, so none is ever taken for a
broker or the operator.

Not here: the phases (`security_phase.py`), files (`properties.py`), who signs (`authorities.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from barnabas_operator.broker_spec import BrokerSpec
from barnabas_operator.reconcile.broker import names
from barnabas_operator.security_spec import (
    CERTIFICATES_PORT,
    CLIENTS_PORT,
    SECURE_REPLICATION_PORT,
    SecurityPhase,
    SecuritySpec,
    token_audience,
)

PLAIN = "PLAINTEXT"
REPLICATION = "REPLICATION"
SECURE_REPLICATION = "REPLICATION_SSL"
CLIENTS = "CLIENTS"
CERTIFICATES = "CERTIFICATES"
EXTERNAL = "EXTERNAL"
ADMIN = "ADMIN"
ADMIN_TOKEN = "admin-token"
ADMIN_SOCKET = "/tmp/barnabas-admin.sock"
TLS_PATH = "/etc/barnabas-tls"
EXTERNAL_PATH = "/etc/barnabas-external-tls"
CLUSTER_BUNDLE = "cluster-ca.crt"
CLIENTS_BUNDLE = "clients-ca.crt"
OPERATOR_NAME = "barnabas-operator"
MECHANISMS = "SCRAM-SHA-512,OAUTHBEARER"
_PORT_NAMES = {
    PLAIN: "kafka",
    REPLICATION: "replication",
    CLIENTS: "clients",
    CERTIFICATES: "certificates",
    SECURE_REPLICATION: "replicationtls",
    EXTERNAL: "external",
}
# Of the 24 hours that a rotation may overlap.
_PREVIOUS_CREDENTIAL_MS = 24 * 60 * 60 * 1000
_COMMON_NAME_RULE = "RULE:CN=([^,]+)(,.*)?/$1/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """One listener of every broker."""

    name: str
    port: int
    protocol: str

    @property
    def port_name(self) -> str:
        """The name of its port in Services and pods."""
        return _PORT_NAMES[self.name]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerPlan:
    """The listeners of a Broker in the phase that its spec has."""

    spec: BrokerSpec = field(repr=False)

    @property
    def phase(self) -> SecurityPhase:
        """Which listeners there are."""
        return self.spec.phase

    @property
    def security(self) -> SecuritySpec:
        """What is on at the end of the way there, or was at the beginning of the way back."""
        return self.spec.security

    @property
    def listeners(self) -> tuple[Listener, ...]:
        """All of them, those for clients first."""
        return tuple(self._listeners())

    def _listeners(self) -> Iterator[Listener]:
        phase, has_login = self.phase, self.has_login
        if phase < SecurityPhase.SECURE:
            yield Listener(name=PLAIN, port=names.KAFKA_PORT, protocol="PLAINTEXT")
        if phase < SecurityPhase.AUDIT:
            yield Listener(name=REPLICATION, port=names.REPLICATION_PORT, protocol="PLAINTEXT")
        if phase.has_certificates:
            protocol = "SASL_SSL" if has_login else "SSL"
            yield Listener(name=CLIENTS, port=CLIENTS_PORT, protocol=protocol)
            if has_login:
                yield Listener(name=CERTIFICATES, port=CERTIFICATES_PORT, protocol="SSL")
            yield Listener(name=SECURE_REPLICATION, port=SECURE_REPLICATION_PORT, protocol="SSL")
        external = self.spec.external
        if external is not None:
            protocol = self._external_protocol() if phase.has_certificates else "PLAINTEXT"
            yield Listener(name=EXTERNAL, port=external.port, protocol=protocol)

    @property
    def has_login(self) -> bool:
        """Whether clients log in on the secure listeners."""
        return self.security.has_authentication

    @property
    def has_admin_tls(self) -> bool:
        """Whether the admin port has TLS: from the phase on in which all brokers have listeners
        with it, so that on the way back as on the way there it is known who may be plain.
        """
        return self.phase >= SecurityPhase.BROKERS

    @property
    def bootstrap_port(self) -> int:
        """The port that clients begin with."""
        is_plain = self.phase < SecurityPhase.SECURE
        return names.KAFKA_PORT if is_plain else CLIENTS_PORT

    def _external_protocol(self) -> str:
        external = self.spec.external
        assert external is not None
        if external.protocol == "SSL" or not self.has_login:
            return "SSL"
        return "SASL_SSL"

    def inside(self) -> tuple[Listener, ...]:
        """The listeners that are advertised by the name of a Service."""
        return tuple(one for one in self.listeners if one.name != EXTERNAL)

    def advertised(self, host: str) -> str:
        """What of `advertised.listeners` is the same for clients inside and brokers."""
        return ",".join(f"{one.name}://{host}:{one.port}" for one in self.inside())

    def properties(self) -> dict[str, str]:
        """The settings of the listeners and of security, the same for every broker."""
        listeners = self.listeners
        found = {
            "listeners": ",".join(f"{one.name}://:{one.port}" for one in listeners),
            "listener.security.protocol.map": ",".join(
                f"{one.name}:{one.protocol}" for one in listeners
            ),
        }
        if self.phase.has_certificates:
            found |= self._tls()
        if self.phase.has_certificates and self.has_login:
            found |= self._login()
        if self.phase >= SecurityPhase.AUDIT:
            found["barnabas.broker.principals"] = broker_principal(self.spec, "{id}")
            if self.security.has_authorization:
                found |= self._rights()
        return found

    def _tls(self) -> dict[str, str]:
        found = {
            "ssl.truststore.type": "PEM",
            **_of(SECURE_REPLICATION, "ssl.client.auth", "required"),
            **_of(SECURE_REPLICATION, "ssl.truststore.location", f"{TLS_PATH}/{CLUSTER_BUNDLE}"),
        }
        if self.has_admin_tls:
            found |= {
                "admin.http.protocol": "https",
                "admin.http.principals": operator_principal(self.spec),
                "admin.http.token.file": f"{TLS_PATH}/{ADMIN_TOKEN}",
                "admin.http.socket": ADMIN_SOCKET,
                **_of(ADMIN, "ssl.client.auth", "requested"),
                **_of(ADMIN, "ssl.truststore.location", f"{TLS_PATH}/{CLUSTER_BUNDLE}"),
            }
        external = self.spec.external
        if external is not None and self.phase < SecurityPhase.SECURE:
            found["barnabas.port.unification.listeners"] = EXTERNAL
        if external is not None and external.certificate_secret:
            found |= {
                **_of(EXTERNAL, "barnabas.ssl.certificate.file", f"{EXTERNAL_PATH}/tls.crt"),
                **_of(EXTERNAL, "barnabas.ssl.key.file", f"{EXTERNAL_PATH}/tls.key"),
            }
        match self.phase:
            case SecurityPhase.LISTENERS:
                found["barnabas.other.broker.listeners"] = SECURE_REPLICATION
            case SecurityPhase.BROKERS:
                found["inter.broker.listener.name"] = SECURE_REPLICATION
                found["barnabas.other.broker.listeners"] = REPLICATION
            case _:
                found["inter.broker.listener.name"] = SECURE_REPLICATION
        return found

    def _login(self) -> dict[str, str]:
        found = {
            **_of(CLIENTS, "sasl.enabled.mechanisms", MECHANISMS),
            **_by_certificate(CERTIFICATES),
            "barnabas.scram.previous.credential.ms": str(_PREVIOUS_CREDENTIAL_MS),
            # Keys and issuer are the API server's (SEC-29).
            "barnabas.oauthbearer.service.accounts": "true",
            "sasl.oauthbearer.expected.audience": token_audience(
                self.spec.namespace, self.spec.name
            ),
        }
        if self.security.has_token_review:
            found["barnabas.oauthbearer.token.review"] = "true"
        if self.spec.external is not None:
            if self._external_protocol() == "SSL":
                found |= _by_certificate(EXTERNAL)
            else:
                mechanisms = ",".join(self.spec.external.mechanisms) or MECHANISMS
                found |= _of(EXTERNAL, "sasl.enabled.mechanisms", mechanisms)
        return found

    def _rights(self) -> dict[str, str]:
        is_enforced = self.phase is SecurityPhase.SECURE
        return {
            "authorizer.class.name": "StandardAuthorizer",
            "barnabas.authorizer.mode": "enforce" if is_enforced else "audit-only",
            "super.users": ";".join((operator_principal(self.spec), *self.security.super_users)),
        }

    def command_settings(self) -> list[str]:
        """What the command line says of a secure phase: where the certificate is, and all else."""
        if not self.phase.has_certificates:
            return []
        own = f"{TLS_PATH}/broker-$(NODE_ID)"
        settings = {
            **self.properties(),
            "barnabas.ssl.certificate.file": f"{own}.crt",
            "barnabas.ssl.key.file": f"{own}.key",
        }
        # A dollar before a bracket would be a variable of the pod; `$$` is one dollar.
        texts = [f"{key}={_literal(value)}" for key, value in sorted(settings.items())]
        return [part for text in texts for part in ("--set", text)]


def organization(spec: BrokerSpec) -> str:
    """What certificates of brokers and operator have besides their name."""
    return f"{spec.namespace}.{spec.name}"


def broker_principal(spec: BrokerSpec, node_id: int | str) -> str:
    """What a broker is known by to the others; `{id}` for each of them."""
    return f"User:CN=broker-{node_id},O={organization(spec)}"


def operator_principal(spec: BrokerSpec) -> str:
    """What the operator is known by to the brokers."""
    return f"User:CN={OPERATOR_NAME},O={organization(spec)}"


def _literal(value: str) -> str:
    """A value in which Kubernetes puts no variable but that of the node id."""
    return value if "$(NODE_ID)" in value else value.replace("$(", "$$(")


def _of(listener: str, key: str, value: str) -> dict[str, str]:
    """A setting of one listener."""
    return {f"listener.name.{listener.lower()}.{key}": value}


def _by_certificate(listener: str) -> dict[str, str]:
    """Clients of this listener are who their certificate says, by the clients' authority."""
    return {
        **_of(listener, "ssl.client.auth", "required"),
        **_of(listener, "ssl.truststore.location", f"{TLS_PATH}/{CLIENTS_BUNDLE}"),
        **_of(listener, "ssl.principal.mapping.rules", _COMMON_NAME_RULE),
    }
