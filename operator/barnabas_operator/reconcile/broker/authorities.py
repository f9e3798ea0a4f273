"""The authorities of a Broker and the certificates of its brokers, in Secrets (SEC-81, SEC-82).

Not here: when what is signed (`certificates/`). Each pass reads what is there, takes at most one
step of a change, signs what is due, and writes what differs. Authorities have no owner: like the
data they outlive the Broker, so that clients which trust them go on when it is made again.

Invariants: a Secret of somebody else is never written; keys of authorities are in Secrets that no
pod mounts; the pods' own Secret holds bundles of anchors only.
"""

from __future__ import annotations

import base64
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any

from cryptography.hazmat.primitives.serialization import Encoding

from barnabas_operator.broker_spec import BrokerSpec
from barnabas_operator.certificates.authority import (
    LEAF_VALIDITY,
    Authority,
    KeyPair,
    LeafRequest,
    new_authority,
)
from barnabas_operator.certificates.authority_change import (
    AuthorityStep,
    AuthorityUse,
    HeldAuthority,
    advanced,
    waits_for,
    wants_successor,
)
from barnabas_operator.certificates.authority_secret import (
    given_authority,
    held_data,
    read_held,
    secret_text,
)
from barnabas_operator.certificates.leaf_names import leaf_hosts
from barnabas_operator.certificates.pem import CertificateError, ends
from barnabas_operator.certificates.renewal import renewed
from barnabas_operator.conditions import timestamp
from barnabas_operator.kubernetes.api import (
    ForbiddenError,
    InvalidError,
    KubernetesApi,
    NotFoundError,
    Object,
)
from barnabas_operator.kubernetes.kinds import CERTIFICATE, SECRET
from barnabas_operator.kubernetes.objects import annotations_of, broker_labels, owner_reference
from barnabas_operator.reconcile.broker import names
from barnabas_operator.reconcile.broker.listener_plan import (
    ADMIN_TOKEN,
    CERTIFICATES,
    CLIENTS_BUNDLE,
    CLUSTER_BUNDLE,
    OPERATOR_NAME,
    SECURE_REPLICATION,
    organization,
)
from barnabas_operator.reconcile.broker.observed import ListenerTls, Observed
from barnabas_operator.reconcile.broker.ownership import is_ours, not_ours_text
from barnabas_operator.security_spec import CertificateSource

_RENEW_ANNOTATION = "barnabas.dev/renew"
_TOKEN_BYTES = 24
_AUTHORITY_HOURS = 5 * 365 * 24


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorityReport:
    """How an authority stands, for the status."""

    name: str
    step: AuthorityStep
    waiting_on: str
    ends: datetime

    def to_manifest(self) -> dict[str, Any]:
        """As it stands in a status."""
        fields = {
            "name": self.name,
            "step": str(self.step),
            "waitingOn": self.waiting_on,
            "expires": timestamp(self.ends),
        }
        return {key: value for key, value in fields.items() if value}


@dataclass(frozen=True, slots=True, kw_only=True)
class Authorities:
    """What a pass has come to; `problem` says why not all of it could be done."""

    reports: tuple[AuthorityReport, ...] = ()
    leaves_end: datetime | None = None
    problem: str = ""
    has_changed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kind:
    """One of the two authorities of a Broker."""

    name: str
    secret: str
    source: CertificateSource
    listener: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Settled:
    """An authority after a pass; `problem` says why another one that is offered is not taken."""

    held: HeldAuthority
    has_changed: bool
    problem: str = ""


class BrokerAuthorities:
    """Looks after them."""

    def __init__(self, api: KubernetesApi) -> None:
        self._api = api

    async def settle(
        self,
        broker: Object,
        spec: BrokerSpec,
        observed: Observed,
        now: datetime,
        *,
        cluster_domain: str,
    ) -> Authorities:
        """Bring authorities and certificates forward.

        What is refused stops nothing else, and is told. Raises: KubernetesError, for what may go
        well the next time.
        """
        certificates = names.broker_certificates(spec.name)
        problems: list[str] = []
        try:
            present = await self._read(spec, certificates)
            cluster_use = self._use(spec, observed, present)
            cluster_settled = await self._authority(spec, _cluster(spec), cluster_use, now)
            clients_use = _clients_use(spec, observed)
            clients_settled = await self._authority(spec, _clients(spec), clients_use, now)
            cluster, clients = cluster_settled.held, clients_settled.held
            problems += [one.problem for one in (cluster_settled, clients_settled) if one.problem]
            wanted, leaves_end = _leaves(spec, observed, cluster, present, now, cluster_domain)
            wanted[CLUSTER_BUNDLE] = cluster.bundle
            wanted[CLIENTS_BUNDLE] = clients.bundle
            token = await self._metrics_token(broker, spec, cluster)
            wanted[ADMIN_TOKEN] = f"{token}\n"
            has_written = await self._write(
                spec, certificates, present, _encoded(wanted), owner=broker
            )
            has_written |= await self._settle_operator(broker, spec, cluster, now)
        except (CertificateError, ForbiddenError, InvalidError) as error:
            return Authorities(problem=_problem([*problems, str(error)]))
        reports = tuple(
            AuthorityReport(
                name=kind.name,
                step=held.step,
                waiting_on=waits_for(held, use, now),
                ends=held.signer.ends,
            )
            for kind, held, use in (
                (_cluster(spec), cluster, cluster_use),
                (_clients(spec), clients, _with_end(clients_use, clients)),
            )
        )
        return Authorities(
            reports=reports,
            leaves_end=leaves_end,
            problem=_problem(problems),
            has_changed=cluster_settled.has_changed or clients_settled.has_changed or has_written,
        )

    async def look(self, spec: BrokerSpec) -> Authorities:
        """How long the certificates last that nobody renews now. Raises: KubernetesError."""
        try:
            present = await self._read(spec, names.broker_certificates(spec.name))
            pairs = (_pair(present, f"broker-{node_id}") for node_id in range(spec.replicas))
            found = [ends(pair.certificate) for pair in pairs if pair is not None]
        except CertificateError as error:
            return Authorities(problem=_problem([str(error)]))
        return Authorities(leaves_end=min(found, default=None))

    async def _authority(
        self, spec: BrokerSpec, kind: _Kind, use: AuthorityUse, now: datetime
    ) -> _Settled:
        """What is kept by now; goes on with what was given before where nothing good is any more.

        Raises: CertificateError where there is nothing to go on with; KubernetesError.
        """
        secret = await self._read(spec, kind.secret)
        held = read_held(secret)
        offered, problem = None, ""
        try:
            offered = await self._offered(spec, kind, now)
        except (CertificateError, ForbiddenError, InvalidError, NotFoundError) as error:
            # A kind of cert-manager that is not there is not found, either.
            if held is None:
                raise CertificateError(str(error)) from error
            problem = str(error)
        is_own = not (kind.source.secret or kind.source.issuer)
        renew = annotations_of(secret or {}).get(_RENEW_ANNOTATION, "")
        # Without a text nothing is asked for: who takes it out of a manifest wants no change.
        wanted = spec.security.renew or renew
        if held is None:
            if offered is None and not is_own:
                raise CertificateError(f"the authority for {kind.name} is not there yet")
            held = HeldAuthority(signer=offered or _new(spec, kind, now))
        elif is_own and (
            wants_successor(held, now) or (held.step is AuthorityStep.STABLE and renew != wanted)
        ):
            offered = _new(spec, kind, now)
        noted = wanted if held.step is AuthorityStep.STABLE else renew
        if kind.listener == CERTIFICATES:
            use = _with_end(use, held)
        after = advanced(held, offered, use, now)
        changed = await self._write(
            spec, kind.secret, secret, held_data(after), {_RENEW_ANNOTATION: noted}
        )
        return _Settled(held=after, has_changed=changed, problem=problem)

    async def _offered(self, spec: BrokerSpec, kind: _Kind, now: datetime) -> Authority | None:
        """The authority that somebody else gives, None where nobody does.

        Raises: CertificateError; KubernetesError.
        """
        source = kind.source
        if source.secret:
            given = await self._api.get(SECRET, spec.namespace, source.secret)
            if given is None:
                raise CertificateError(f"there is no Secret {source.secret}")
            return _valid(source.secret, given_authority(given), now)
        if not source.issuer:
            return None
        # cert-manager writes this Secret, and never the one that the operator keeps.
        secret = f"{kind.secret}-issued"
        await self._ask_cert_manager(spec, kind, secret)
        issued = given_authority(await self._api.get(SECRET, spec.namespace, secret))
        return _valid(secret, issued, now)

    async def _ask_cert_manager(self, spec: BrokerSpec, kind: _Kind, secret: str) -> None:
        wanted = {
            "secretName": secret,
            "commonName": f"{organization(spec)} {kind.name}"[:64],
            "isCA": True,
            "duration": f"{_AUTHORITY_HOURS}h",
            "privateKey": {"algorithm": "ECDSA", "size": 256, "rotationPolicy": "Always"},
            "usages": ["cert sign", "crl sign", "digital signature"],
            "issuerRef": dict(kind.source.issuer),
        }
        found = await self._api.get(CERTIFICATE, spec.namespace, kind.secret)
        if found is not None and not is_ours(found, spec):
            raise CertificateError(not_ours_text(CERTIFICATE.kind, found, spec))
        if found is not None and wanted.items() <= (found.get("spec") or {}).items():
            return
        await self._api.apply(
            {
                "apiVersion": CERTIFICATE.api_version,
                "kind": CERTIFICATE.kind,
                "metadata": {
                    "name": kind.secret,
                    "namespace": spec.namespace,
                    "labels": broker_labels(spec.name),
                },
                "spec": wanted,
            }
        )

    async def _settle_operator(
        self, broker: Object, spec: BrokerSpec, cluster: HeldAuthority, now: datetime
    ) -> bool:
        """The certificate by which the operator is known to the brokers."""
        name = names.operator_certificate(spec.name)
        found = await self._read(spec, name)
        request = LeafRequest(common_name=OPERATOR_NAME, organization=organization(spec))
        pair = renewed(_pair(found, "tls"), cluster.signer, request, now)
        data = {"tls.crt": pair.chain, "tls.key": pair.key, "ca.crt": cluster.bundle}
        return await self._write(spec, name, found, _encoded(data), owner=broker)

    async def _metrics_token(self, broker: Object, spec: BrokerSpec, cluster: HeldAuthority) -> str:
        """The token by which Prometheus asks the admin port, with what it has to trust."""
        name = names.metrics_token(spec.name)
        found = await self._read(spec, name)
        token = secret_text(found, "token") or secrets.token_urlsafe(_TOKEN_BYTES)
        data = {"token": token, "ca.crt": cluster.bundle}
        await self._write(spec, name, found, _encoded(data), owner=broker)
        return token

    def _use(self, spec: BrokerSpec, observed: Observed, present: Object | None) -> AuthorityUse:
        """How far the cluster's authority has got: bundles, and leaves that brokers still show."""
        shown = _reported(observed, SECURE_REPLICATION)
        old = tuple(
            f"broker {node_id}"
            for node_id, told in sorted(shown.items())
            if told is None or told.certificate != _fingerprint(present, node_id)
        )
        return AuthorityUse(
            bundles={one: told.trust if told else None for one, told in shown.items()},
            old_leaves=old,
            settle=spec.security.settle,
        )

    async def _read(self, spec: BrokerSpec, name: str) -> Object | None:
        """A Secret of the operator's own. Raises: CertificateError where it is not."""
        found = await self._api.get(SECRET, spec.namespace, name)
        if found is not None and not is_ours(found, spec):
            raise CertificateError(not_ours_text(SECRET.kind, found, spec))
        return found

    async def _write(
        self,
        spec: BrokerSpec,
        name: str,
        found: Object | None,
        data: Mapping[str, str],
        annotations: Mapping[str, str] | None = None,
        *,
        owner: Object | None = None,
    ) -> bool:
        """Whether anything was written; nothing is where it says so already."""
        wanted = {key: value for key, value in (annotations or {}).items() if value}
        if (
            found is not None
            and (found.get("data") or {}) == data
            and wanted.items() <= annotations_of(found).items()
        ):
            return False
        metadata: dict[str, Any] = {
            "name": name,
            "namespace": spec.namespace,
            "labels": broker_labels(spec.name),
        }
        if owner is not None:
            metadata["ownerReferences"] = [owner_reference(owner)]
        if wanted:
            metadata["annotations"] = wanted
        await self._api.apply(
            {
                "apiVersion": SECRET.api_version,
                "kind": SECRET.kind,
                "metadata": metadata,
                "type": "Opaque",
                "data": dict(data),
            }
        )
        return True


def _leaves(
    spec: BrokerSpec,
    observed: Observed,
    cluster: HeldAuthority,
    present: Object | None,
    now: datetime,
    cluster_domain: str,
) -> tuple[dict[str, str], datetime]:
    """The files of all brokers, and when the first of their certificates ends."""
    current = observed.stateful_set.replicas if observed.stateful_set is not None else 0
    count = max(spec.replicas, current, *(one + 1 for one in observed.pods), 1)
    files: dict[str, str] = {}
    first = now + timedelta(days=36500)
    for node_id in range(count):
        request = LeafRequest(
            common_name=f"broker-{node_id}",
            organization=organization(spec),
            hosts=_hosts(spec, node_id, cluster_domain),
            is_server=True,
        )
        pair = renewed(_pair(present, f"broker-{node_id}"), cluster.signer, request, now)
        files[f"broker-{node_id}.crt"], files[f"broker-{node_id}.key"] = pair.chain, pair.key
        first = min(first, ends(pair.certificate))
    return files, first


def _hosts(spec: BrokerSpec, node_id: int, cluster_domain: str) -> tuple[str, ...]:
    advertised = []
    if spec.external is not None:
        advertised = [spec.external.host(node_id), spec.external.bootstrap_host]
    return leaf_hosts(
        namespace=spec.namespace,
        services=(names.bootstrap_service(spec.name), names.broker_service(spec.name, node_id)),
        headless=names.headless_service(spec.name),
        pod=names.pod(spec.name, node_id),
        advertised=[host for host in advertised if host],
        cluster_domain=cluster_domain,
    )


def _pair(secret: Object | None, name: str) -> KeyPair | None:
    chain, key = secret_text(secret, f"{name}.crt"), secret_text(secret, f"{name}.key")
    return KeyPair(chain=chain, key=key) if chain and key else None


def _fingerprint(secret: Object | None, node_id: int) -> str:
    """The SHA-256 of the certificate that a broker is to show, empty where there is none."""
    pair = _pair(secret, f"broker-{node_id}")
    return "" if pair is None else sha256(pair.certificate.public_bytes(Encoding.DER)).hexdigest()


def _reported(observed: Observed, listener: str) -> dict[int, ListenerTls | None]:
    """What each broker that has a pod tells of a listener, None where it tells nothing yet.

    Those that are parked have loaded nothing, and will mount what there is when they start.
    """
    found: dict[int, ListenerTls | None] = {}
    for node_id, pod in observed.pods.items():
        if pod.is_gated:
            continue
        process = observed.processes.get(node_id)
        if process is None or not process.tls:
            found[node_id] = None
        elif listener in process.tls:
            found[node_id] = process.tls[listener]
    return found


def _clients_use(spec: BrokerSpec, observed: Observed) -> AuthorityUse:
    shown = _reported(observed, CERTIFICATES)
    return AuthorityUse(
        bundles={one: told.trust if told else None for one, told in shown.items()},
        settle=spec.security.settle,
    )


def _with_end(use: AuthorityUse, held: HeldAuthority) -> AuthorityUse:
    """Clients that read their certificate once use it to its end, long after it was renewed."""
    if held.step is not AuthorityStep.REPLACING or held.since is None:
        return use
    assert held.previous is not None
    return replace(use, old_leaves_end=min(held.since + LEAF_VALIDITY, ends(held.previous)))


def _cluster(spec: BrokerSpec) -> _Kind:
    return _Kind(
        name="cluster",
        secret=names.cluster_authority(spec.name),
        source=spec.security.cluster,
        listener=SECURE_REPLICATION,
    )


def _clients(spec: BrokerSpec) -> _Kind:
    return _Kind(
        name="clients",
        secret=names.clients_authority(spec.name),
        source=spec.security.clients,
        listener=CERTIFICATES,
    )


def _valid(secret: str, offered: Authority | None, now: datetime) -> Authority | None:
    """What a Secret offers. Raises: CertificateError where that has ended."""
    if offered is not None and offered.has_ended(now):
        raise CertificateError(
            f"the authority in Secret {secret} has ended at {offered.ends:%Y-%m-%dT%H:%MZ}"
        )
    return offered


def _problem(problems: Sequence[str]) -> str:
    return f"certificates: {'; '.join(problems)}" if problems else ""


def _new(spec: BrokerSpec, kind: _Kind, now: datetime) -> Authority:
    return new_authority(f"{organization(spec)} {kind.name}"[:40], now)


def _encoded(files: Mapping[str, str]) -> dict[str, str]:
    return {key: base64.b64encode(text.encode()).decode() for key, text in files.items()}
