"""A Broker resource as a frozen value: the set of brokers that a manifest asks for.

Not here: checking a manifest against its CRD (`crd.py`), what is made of it (`reconcile/broker/`).

Source: `crds/broker.yaml`. Invariants: `from_manifest` takes what passed the CRD's schema and
applies its defaults, so a manifest means the same with and without an API server; settings that the
operator has to decide itself cannot be in `config`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from types import MappingProxyType
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from barnabas_operator.kubernetes.objects import is_elsewhere, is_paused
from barnabas_operator.kubernetes.quantity import read_quantity, whole_quantity
from barnabas_operator.security_spec import SecurityPhase, SecuritySpec
from barnabas_operator.spec import APPROVE_ANNOTATION, SpecError, setting_text

DATA_VOLUME = "data"  # the one that brokers have where no volumes are declared
RESTART_ANNOTATION = "barnabas.dev/restart"
REPLACE_DISK_ANNOTATION = "barnabas.dev/replace-disk"
# What the operator decides: where brokers listen, who they are, where their data and arbiter are.
_RESERVED_KEYS = frozenset(
    (
        "node.id",
        "broker.id",
        "broker.rack",
        "cluster.id",
        "listeners",
        "advertised.listeners",
        "listener.security.protocol.map",
        "inter.broker.listener.name",
        "log.dir",
        "log.dirs",
        "metadata.log.dir",
        "admin.http.host",
        "admin.http.port",
        "barnabas.drain.budget.ms",
        "barnabas.other.broker.listeners",
        "barnabas.port.unification.listeners",
        "process.roles",
    )
)
_RESERVED_PREFIXES = ("arbiter.", "controller.quorum.")
# What pods have besides.
_OTHER_VOLUMES = frozenset(("config", "tmp", "tls", "externaltls"))
# The fields of a PodSpec that `podTemplate` takes as they are.
_MERGED_INTO_PODS = (
    "containers",
    "initContainers",
    "volumes",
    "securityContext",
    "topologySpreadConstraints",
    "hostAliases",
    "dnsPolicy",
    "dnsConfig",
    "runtimeClassName",
    "schedulerName",
)
_SIZE_BYTES_MAX = 2**60
_SETTING = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
# Labels and annotations by which the operator and the StatefulSet controller know pods.
_OWN_PREFIXES = ("barnabas.dev/", "statefulset.kubernetes.io/", "apps.kubernetes.io/")
_OWN_LABELS = ("controller-revision-hash",)
_ANY_TIME = datetime(2026, 1, 1, tzinfo=UTC)


def _nothing() -> Mapping[str, Any]:
    return MappingProxyType({})


class UpdatePolicy(StrEnum):
    """When brokers are restarted for a change that needs it."""

    AUTOMATIC = "Automatic"
    ON_APPROVAL = "OnApproval"
    PAUSED = "Paused"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalListener:
    """The listener for clients outside of Kubernetes."""

    type: str
    port: int = 9094
    advertised_host: str
    advertised_port: int | None = None
    advertised_port_base: int | None = None
    node_port_base: int | None = None
    # Of its Services only. What a listener is for the brokers is told by its repr: they restart
    # when that changes.
    labels: Mapping[str, str] = field(default_factory=_nothing, repr=False)
    annotations: Mapping[str, str] = field(default_factory=_nothing, repr=False)
    # What it is where security is on; of the certificate only where it is mounted from, so that a
    # renewal restarts nobody.
    protocol: str = field(default="SASL_SSL", repr=False)
    mechanisms: tuple[str, ...] = field(default=(), repr=False)
    certificate_secret: str = field(default="", repr=False)
    peers: Sequence[Mapping[str, Any]] = field(default=(), repr=False)
    gateway: Mapping[str, str] = field(default_factory=_nothing, repr=False)
    ingress_class: str = field(default="", repr=False)
    bootstrap_host: str = field(default="", repr=False)

    @property
    def is_routed(self) -> bool:
        """Whether all brokers have one address, at which their hosts tell them apart."""
        return self.type in ("TLSRoute", "Ingress")

    def host(self, node_id: int) -> str:
        """The host that clients are told for a broker."""
        return self.advertised_host.replace("{id}", str(node_id))

    def route_host(self, node_id: int | None) -> str:
        """The host that leads to a broker; None: to any, to begin with."""
        return self.bootstrap_host if node_id is None else self.host(node_id)

    def address(self, node_id: int) -> str:
        """The host and port that clients are told for a broker."""
        base = self.advertised_port_base or self.node_port_base
        port = self.port if base is None else base + node_id
        return f"{self.host(node_id)}:{self.advertised_port or port}"

    def annotations_of(self, node_id: int) -> dict[str, str]:
        """The annotations of the Service of a broker, or of its Ingress."""
        return {key: value.replace("{id}", str(node_id)) for key, value in self.annotations.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class PodTemplate:
    """What is added to the brokers' pods; `pod` are fields of a PodSpec that are merged into it."""

    labels: Mapping[str, str] = field(default_factory=_nothing)
    annotations: Mapping[str, str] = field(default_factory=_nothing)
    node_selector: Mapping[str, str] = field(default_factory=_nothing)
    tolerations: Sequence[Mapping[str, Any]] = ()
    affinity: Mapping[str, Any] | None = None
    priority_class_name: str = ""
    image_pull_secrets: Sequence[Mapping[str, Any]] = ()
    pod: Mapping[str, Any] = field(default_factory=_nothing)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceTemplate:
    """What is added to all Services."""

    labels: Mapping[str, str] = field(default_factory=_nothing)
    annotations: Mapping[str, str] = field(default_factory=_nothing)


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceWindow:
    """A time in which brokers may be restarted: it opens by a cron schedule, in a time zone."""

    schedule: str
    duration: timedelta
    time_zone: ZoneInfo

    def next_opening(self, after: datetime) -> datetime:
        """When it opens next after a moment. Raises: SpecError where that is never."""
        opening = next(CronSim(self.schedule, after.astimezone(self.time_zone)), None)
        if opening is None:
            raise SpecError(("spec", "maintenance", "windows"), f"{self.schedule!r} never opens")
        return opening.astimezone(UTC)


class DeleteClaim(StrEnum):
    """When claims are deleted: with brokers that are scaled away, with the Broker, both, never."""

    NEVER = "Never"
    WHEN_SCALED = "WhenScaled"
    WHEN_DELETED = "WhenDeleted"
    ALWAYS = "Always"

    @property
    def is_when_scaled(self) -> bool:
        """Whether the claims of a broker go that was scaled away, and those of volumes."""
        return self in (DeleteClaim.WHEN_SCALED, DeleteClaim.ALWAYS)

    @property
    def is_when_deleted(self) -> bool:
        """Whether all claims go with the Broker."""
        return self in (DeleteClaim.WHEN_DELETED, DeleteClaim.ALWAYS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume:
    """A volume of each broker, with one log directory; no class: the default storage class."""

    name: str = DATA_VOLUME
    size: str = "10Gi"
    storage_class: str | None = None

    @property
    def size_bytes(self) -> int:
        """The wanted size."""
        return quantity_bytes(self.size)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSpec:
    """One declared set of brokers; `image` is None for the operator's own choice.

    `restart` is free text: another one than before means that every broker is to be restarted.
    `replaced_disks` name lost volumes that may be replaced by an empty one: the broker's id and the
    beginning of the claim's uid, so that what was allowed once is not allowed for ever.
    `phase` is no wish, but how far the brokers are to be on the way to what `security` wants.
    `is_elsewhere` are brokers that somebody else runs: the operator only looks at them.
    """

    name: str
    namespace: str
    uid: str = ""
    generation: int = 0
    replicas: int = 3
    image: str | None = None
    volumes: tuple[Volume, ...] = (Volume(),)
    metadata_volume: str = DATA_VOLUME
    delete_claim: DeleteClaim = DeleteClaim.NEVER
    external: ExternalListener | None = None
    topology_key: str | None = None
    config: Mapping[str, str] = field(default_factory=_nothing)
    resources: Mapping[str, Any] = field(default_factory=_nothing)
    pod_template: PodTemplate = field(default_factory=PodTemplate)
    service_template: ServiceTemplate = field(default_factory=ServiceTemplate)
    update_policy: UpdatePolicy = UpdatePolicy.AUTOMATIC
    parked: frozenset[int] = frozenset()
    decommissioned: frozenset[int] = frozenset()
    windows: tuple[MaintenanceWindow, ...] = ()
    termination_grace_seconds: int = 120
    is_paused: bool = False
    approved_hash: str = ""
    restart: str = ""
    replaced_disks: frozenset[str] = frozenset()
    is_elsewhere: bool = False
    security: SecuritySpec = field(default_factory=SecuritySpec)
    phase: SecurityPhase = SecurityPhase.PLAIN

    @classmethod
    def from_manifest(cls, manifest: Mapping[str, Any]) -> BrokerSpec:
        """What a Broker resource asks for. Raises: SpecError."""
        metadata = manifest["metadata"]
        spec = manifest.get("spec") or {}
        annotations = metadata.get("annotations") or {}
        storage = spec.get("storage") or {}
        maintenance = spec.get("maintenance") or {}
        return cls(
            name=str(metadata["name"]),
            namespace=str(metadata.get("namespace") or "default"),
            uid=str(metadata.get("uid") or ""),
            generation=int(metadata.get("generation") or 0),
            replicas=int(spec.get("replicas", 3)),
            image=spec.get("image"),
            volumes=_volumes(storage),
            metadata_volume=str(storage.get("metadataVolume") or DATA_VOLUME),
            delete_claim=delete_claim_of(manifest),
            external=_external((spec.get("listeners") or {}).get("external")),
            topology_key=(spec.get("rack") or {}).get("topologyKey"),
            config=_config(spec.get("config") or {}),
            resources=spec.get("resources") or {},
            pod_template=_pod_template(spec.get("podTemplate") or {}),
            service_template=ServiceTemplate(**(spec.get("serviceTemplate") or {})),
            update_policy=UpdatePolicy(spec.get("updatePolicy") or UpdatePolicy.AUTOMATIC),
            parked=frozenset(maintenance.get("park") or ()),
            decommissioned=frozenset(maintenance.get("decommission") or ()),
            windows=tuple(
                _window(position, window)
                for position, window in enumerate(maintenance.get("windows") or ())
            ),
            termination_grace_seconds=int(spec.get("terminationGracePeriodSeconds") or 120),
            is_paused=is_paused(manifest),
            approved_hash=str(annotations.get(APPROVE_ANNOTATION, "")),
            restart=str(annotations.get(RESTART_ANNOTATION, "")),
            is_elsewhere=is_elsewhere(manifest),
            security=SecuritySpec.from_manifest(manifest),
            replaced_disks=_words(str(annotations.get(REPLACE_DISK_ANNOTATION, ""))),
        )


def delete_claim_of(manifest: Mapping[str, Any]) -> DeleteClaim:
    """What a Broker says about its claims, whatever else is wrong with it."""
    storage = (manifest.get("spec") or {}).get("storage") or {}
    return DeleteClaim(storage.get("deleteClaim") or DeleteClaim.NEVER)


def quantity_bytes(text: str) -> int:
    """The bytes that Kubernetes makes of a quantity. Raises: SpecError."""
    found = whole_quantity(text)
    if found is None:
        raise SpecError(("spec", "storage", "size"), f"{text!r} is no size, such as 10Gi")
    return found


def _volumes(storage: Mapping[str, Any]) -> tuple[Volume, ...]:
    """The declared volumes, or the one that there is where none is; what they lack is above."""
    size, storage_class = str(storage.get("size") or "10Gi"), storage.get("storageClassName")
    declared = storage.get("volumes") or ({"name": DATA_VOLUME},)
    volumes = tuple(
        Volume(
            name=str(one["name"]),
            size=str(one.get("size") or size),
            storage_class=one.get("storageClassName", storage_class),
        )
        for one in declared
    )
    for position, volume in enumerate(volumes):
        if problem := _size_problem(volume.size):
            path = ("volumes", str(position), "size") if storage.get("volumes") else ("size",)
            raise SpecError(("spec", "storage", *path), problem)
    _check_names([volume.name for volume in volumes], storage)
    return volumes


def _size_problem(text: str) -> str:
    """Why it is no size of a volume, as the API server's rules have it; empty if it is one."""
    size = read_quantity(text)
    if size is None:
        return f"{text!r} is no size, such as 10Gi"
    if not 0 < size <= _SIZE_BYTES_MAX:
        return f"{text!r} is no size of a volume: more than 0, and 1Ei at most"
    # A claim would be asked for more than the StatefulSet says, for ever.
    return "" if size.denominator == 1 else f"{text!r} is no whole number of bytes"


def _check_names(named: Sequence[str], storage: Mapping[str, Any]) -> None:
    """Raises: SpecError for what the API server's rules refuse, too."""
    path = ("spec", "storage", "volumes")
    if len(set(named)) < len(named) or not set(named).isdisjoint(_OTHER_VOLUMES):
        raise SpecError(
            path, "each volume has a name of its own, and not config, tmp, tls or externaltls"
        )
    metadata_volume = str(storage.get("metadataVolume") or DATA_VOLUME)
    if metadata_volume not in named:
        raise SpecError(path, f"{metadata_volume}, which has the metadata log, is not among them")


def _external(found: Mapping[str, Any] | None) -> ExternalListener | None:
    if not found:
        return None
    return ExternalListener(
        type=str(found["type"]),
        port=int(found.get("port") or 9094),
        advertised_host=str(found["advertisedHost"]),
        advertised_port=found.get("advertisedPort"),
        advertised_port_base=found.get("advertisedPortBase"),
        node_port_base=found.get("nodePortBase"),
        labels=found.get("labels") or {},
        annotations=found.get("annotations") or {},
        protocol=str(found.get("protocol") or "SASL_SSL"),
        mechanisms=tuple(found.get("mechanisms") or ()),
        certificate_secret=str((found.get("certificateSecretRef") or {}).get("name") or ""),
        peers=tuple(found.get("networkPolicyPeers") or ()),
        gateway={str(key): str(value) for key, value in (found.get("gateway") or {}).items()},
        ingress_class=str(found.get("ingressClassName") or ""),
        bootstrap_host=str(found.get("bootstrapHost") or ""),
    )


def _pod_template(found: Mapping[str, Any]) -> PodTemplate:
    for field_name in ("labels", "annotations"):
        for key in found.get(field_name) or {}:
            if key in _OWN_LABELS or key.startswith(_OWN_PREFIXES):
                raise SpecError(
                    ("spec", "podTemplate", field_name, key),
                    "the operator and the StatefulSet controller put it on pods themselves",
                )
    return PodTemplate(
        labels=found.get("labels") or {},
        annotations=found.get("annotations") or {},
        node_selector=found.get("nodeSelector") or {},
        tolerations=found.get("tolerations") or (),
        affinity=found.get("affinity"),
        priority_class_name=found.get("priorityClassName") or "",
        image_pull_secrets=found.get("imagePullSecrets") or (),
        pod={name: found[name] for name in _MERGED_INTO_PODS if name in found},
    )


def _window(position: int, found: Mapping[str, Any]) -> MaintenanceWindow:
    path = ("spec", "maintenance", "windows", str(position))
    schedule, time_zone = str(found["schedule"]), str(found.get("timeZone") or "UTC")
    try:
        opening = next(CronSim(schedule, _ANY_TIME), None)
    except CronSimError as error:
        text = f"{schedule!r} is no schedule: {error}"
        raise SpecError((*path, "schedule"), text) from None
    if opening is None:
        raise SpecError((*path, "schedule"), f"{schedule!r} never opens: there is no such day")
    try:
        zone = ZoneInfo(time_zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        # A folder of the time zone database, such as America, is an OSError.
        raise SpecError((*path, "timeZone"), f"{time_zone!r} is no time zone") from None
    duration = timedelta(minutes=int(found["durationMinutes"]))
    return MaintenanceWindow(schedule=schedule, duration=duration, time_zone=zone)


def _config(values: Mapping[str, Any]) -> Mapping[str, str]:
    config: dict[str, str] = {}
    for key, value in sorted(values.items()):
        if _SETTING.fullmatch(key) is None:
            # In a file of settings it could be several, or one by another name.
            raise SpecError(
                ("spec", "config"), f"{key!r} is no name of a setting: letters, digits and . _ -"
            )
        if key in _RESERVED_KEYS or key.startswith(_RESERVED_PREFIXES):
            raise SpecError(("spec", "config", key), "the operator decides this setting itself")
        text = setting_text(str(key), value)
        if text is not None:
            if "".join(text.splitlines()) != text:
                raise SpecError(("spec", "config", key), "a value is one line")
            config[str(key)] = text
    return MappingProxyType(config)


def _words(text: str) -> frozenset[str]:
    return frozenset(part.strip() for part in text.split(",") if part.strip())
