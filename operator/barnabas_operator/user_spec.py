"""A User resource as a frozen value: who somebody is and what they may do.

Not here: checking a manifest against its CRD (`crd.py`), what exists (`reconcile/user/`).

Source: `crds/user.yaml`. Invariants: `from_manifest` takes what passed the CRD's schema and applies
its defaults. A user's name has no `=`, `,`, `*` or blank in it, so that it can never be a broker's
or the operator's, which are whole names of certificates (`CN=broker-0,O=...`); and but for the
namespace of a User from elsewhere no colon, so that it is no ServiceAccount's.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from barnabas_client.admin.values.acls import AclBinding
from barnabas_operator.kubernetes.objects import is_paused
from barnabas_operator.spec import SpecError
from barnabas_protocol.acl import AclOperation, AclPermission, AclResourceType, PatternType

CLUSTER_NAME = "kafka-cluster"
DEFAULT_MOUNT_PATH = "/etc/barnabas/user"
PASSWORD_KEY = "password"
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
_RESERVED_NAMES = frozenset(("ANONYMOUS",))
_HOURS = {"h": 1, "d": 24}
_RESOURCES = {
    "topic": AclResourceType.TOPIC,
    "group": AclResourceType.GROUP,
    "transactionalId": AclResourceType.TRANSACTIONAL_ID,
    "cluster": AclResourceType.CLUSTER,
}
_OPERATIONS = {
    "All": AclOperation.ALL,
    "Read": AclOperation.READ,
    "Write": AclOperation.WRITE,
    "Create": AclOperation.CREATE,
    "Delete": AclOperation.DELETE,
    "Alter": AclOperation.ALTER,
    "Describe": AclOperation.DESCRIBE,
    "ClusterAction": AclOperation.CLUSTER_ACTION,
    "DescribeConfigs": AclOperation.DESCRIBE_CONFIGS,
    "AlterConfigs": AclOperation.ALTER_CONFIGS,
    "IdempotentWrite": AclOperation.IDEMPOTENT_WRITE,
    "TwoPhaseCommit": AclOperation.TWO_PHASE_COMMIT,
}
_QUOTAS = {
    "producerByteRate": "producer_byte_rate",
    "consumerByteRate": "consumer_byte_rate",
    "requestPercentage": "request_percentage",
    "controllerMutationRate": "controller_mutation_rate",
}


class Authentication(StrEnum):
    """How a user logs in."""

    TLS = "tls"
    SCRAM_SHA_512 = "scram-sha-512"
    SERVICE_ACCOUNT = "serviceAccount"
    NONE = "none"


class UserDriftPolicy(StrEnum):
    """What happens to rights and quotas that the resource does not declare."""

    REVERT = "Revert"
    WARN = "Warn"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rotation:
    """When a password is changed by itself, and how long the former one stays valid."""

    every: timedelta
    overlap: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class PasswordSource:
    """A key of a Secret in the User's own namespace (SEC-86)."""

    secret: str
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UserSpec:
    """One declared user.

    `name` is what brokers know them by, without type. `age` orders resources that mean the same
    principal: the smallest was first. `rights` have the principal in them.
    """

    resource: str
    namespace: str
    name: str
    authentication: Authentication
    age: tuple[str, int, str] = ("", 0, "")
    broker: str | None = None
    broker_namespace: str = ""
    password_source: PasswordSource | None = None
    rotation: Rotation | None = None
    service_account: tuple[str, str] | None = None
    rights: frozenset[AclBinding] = frozenset()
    quotas: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    secret: str = ""
    mount_path: str = DEFAULT_MOUNT_PATH
    drift_policy: UserDriftPolicy = UserDriftPolicy.REVERT
    is_paused: bool = False

    @property
    def principal(self) -> str:
        """The user as ACLs name them."""
        return f"User:{self.name}"

    @property
    def is_from_elsewhere(self) -> bool:
        """Whether the User is in another namespace than the Broker."""
        return self.namespace != self.broker_namespace

    @classmethod
    def from_manifest(cls, manifest: Mapping[str, Any]) -> UserSpec:
        """What a User resource asks for. Raises: SpecError."""
        metadata, spec = manifest["metadata"], manifest.get("spec") or {}
        own_name, namespace = str(metadata["name"]), str(metadata.get("namespace") or "default")
        broker = spec.get("brokerRef") or {}
        broker_namespace = str(broker.get("namespace") or namespace)
        found = spec.get("authentication") or {}
        authentication = Authentication(found["type"])
        account = _service_account(found.get("serviceAccount"), namespace, broker_namespace)
        if (account is not None) != (authentication is Authentication.SERVICE_ACCOUNT):
            raise SpecError(
                ("spec", "authentication", "serviceAccount"), "goes with type serviceAccount"
            )
        name = _name(spec.get("userName") or own_name)
        if account is not None:
            name = f"system:serviceaccount:{account[0]}:{account[1]}"
        elif namespace != broker_namespace:
            name = f"{namespace}:{name}"
        acls = (spec.get("authorization") or {}).get("acls") or ()
        secret = spec.get("connectionSecret") or {}
        written = str(secret.get("name") or own_name)
        quotas = spec.get("quotas") or {}
        return cls(
            resource=f"{namespace}/{own_name}",
            namespace=namespace,
            name=name,
            authentication=authentication,
            age=(str(metadata.get("creationTimestamp") or ""), 0, f"{namespace}/{own_name}"),
            broker=broker.get("name"),
            broker_namespace=broker_namespace,
            password_source=_password_source(found, authentication, written),
            rotation=_rotation(found, authentication),
            service_account=account,
            rights=frozenset(
                right
                for position, acl in enumerate(acls)
                for right in _rights(acl, f"User:{name}", position)
            ),
            quotas=MappingProxyType({_QUOTAS[key]: float(quotas[key]) for key in sorted(quotas)}),
            secret=written,
            mount_path=str(secret.get("mountPath") or DEFAULT_MOUNT_PATH),
            drift_policy=UserDriftPolicy(spec.get("driftPolicy") or UserDriftPolicy.REVERT),
            is_paused=is_paused(manifest),
        )


def principal_name_of(manifest: Mapping[str, Any]) -> str:
    """The name of the principal that a User means, its own name where it is not valid."""
    try:
        return UserSpec.from_manifest(manifest).name
    except (SpecError, ValueError, KeyError, TypeError):
        return str(manifest["metadata"]["name"])


def former_name_of(manifest: Mapping[str, Any]) -> str:
    """Whom a User meant when its status was written; empty unless it is somebody else by now.

    That is another ServiceAccount, or what a spec meant that is not valid any more. Of a User from
    elsewhere only names that those of its namespace can have: somebody may have written the status.
    """
    principal = str((manifest.get("status") or {}).get("principal") or "")
    name = principal.removeprefix("User:")
    try:
        is_same = UserSpec.from_manifest(manifest).name == name
    except (SpecError, ValueError, KeyError, TypeError):
        is_same = False
    namespace = str(manifest["metadata"].get("namespace") or "default")
    broker = (manifest.get("spec") or {}).get("brokerRef") or {}
    if is_same or str(broker.get("namespace") or namespace) == namespace:
        return "" if is_same else name
    own = (f"{namespace}:", f"system:serviceaccount:{namespace}:")
    return name if name.startswith(own) else ""


def _name(text: str) -> str:
    if _NAME.fullmatch(text) is None or text in _RESERVED_NAMES:
        raise SpecError(("spec", "userName"), f"{text!r} cannot be a user's name")
    return text


def _service_account(
    found: Mapping[str, Any] | None, namespace: str, broker_namespace: str
) -> tuple[str, str] | None:
    """Namespace and name."""
    if not found:
        return None
    home = str(found.get("namespace") or namespace)
    if home != namespace and namespace != broker_namespace:
        raise SpecError(
            ("spec", "authentication", "serviceAccount", "namespace"),
            "a User of another namespace than the Broker's names ServiceAccounts of its own only",
        )
    return home, str(found["name"])


def _password_source(
    found: Mapping[str, Any], authentication: Authentication, written: str
) -> PasswordSource | None:
    source = found.get("passwordSecretRef")
    if source is None:
        return None
    if authentication is not Authentication.SCRAM_SHA_512:
        raise SpecError(
            ("spec", "authentication", "passwordSecretRef"), "goes with type scram-sha-512"
        )
    if source["name"] == written:
        raise SpecError(
            ("spec", "authentication", "passwordSecretRef", "name"),
            f"Secret {written} is the one that is written for clients: give the password in another"
            " one",
        )
    return PasswordSource(secret=str(source["name"]), key=str(source.get("key") or PASSWORD_KEY))


def _rotation(found: Mapping[str, Any], authentication: Authentication) -> Rotation | None:
    rotation = found.get("rotation")
    if rotation is None:
        return None
    if authentication is not Authentication.SCRAM_SHA_512 or found.get("passwordSecretRef"):
        raise SpecError(
            ("spec", "authentication", "rotation"),
            "goes with type scram-sha-512 and a password that the operator makes",
        )
    every, overlap = _duration(rotation["every"]), _duration(rotation.get("overlap") or "24h")
    if overlap >= every:
        raise SpecError(
            ("spec", "authentication", "rotation", "overlap"),
            "ends before the next change: it has to be shorter than every",
        )
    return Rotation(every=every, overlap=overlap)


def _duration(text: str) -> timedelta:
    return timedelta(hours=int(text[:-1]) * _HOURS[text[-1]])


def _rights(acl: Mapping[str, Any], principal: str, position: int) -> list[AclBinding]:
    resource = acl["resource"]
    kind = _RESOURCES[resource["type"]]
    is_prefix = resource.get("patternType") == "prefix"
    path = ("spec", "authorization", "acls", str(position))
    if is_prefix and resource.get("name") == "*":
        raise SpecError((*path, "resource", "name"), "* means all names with patternType literal")
    host = str(acl.get("host") or "*")
    if host != "*":
        try:
            ipaddress.ip_network(host, strict=False)
        except ValueError:
            raise SpecError((*path, "host"), f"{host!r} is no address and no CIDR") from None
    return [
        AclBinding(
            resource_type=kind,
            resource_name=CLUSTER_NAME
            if kind is AclResourceType.CLUSTER
            else str(resource["name"]),
            pattern_type=PatternType.PREFIXED if is_prefix else PatternType.LITERAL,
            principal=principal,
            host=host,
            operation=_OPERATIONS[operation],
            permission=AclPermission.DENY
            if acl.get("permission") == "Deny"
            else AclPermission.ALLOW,
        )
        for operation in acl["operations"]
    ]
