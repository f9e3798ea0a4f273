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

from barnabas_operator.kubernetes.objects import BOOTSTRAP_SERVERS_ANNOTATION, is_paused
from barnabas_operator.spec import SpecError, setting_text

APPROVE_ANNOTATION = "barnabas.dev/approve"
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
        "process.roles",
    )
)
_RESERVED_PREFIXES = ("arbiter.", "controller.quorum.")
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
_UNITS = {
    "": 1,
    "k": 10**3,
    "M": 10**6,
    "G": 10**9,
    "T": 10**12,
    "P": 10**15,
    "Ki": 2**10,
    "Mi": 2**20,
    "Gi": 2**30,
    "Ti": 2**40,
    "Pi": 2**50,
}
_ANY_TIME = datetime(2026, 1, 1, tzinfo=UTC)
_QUANTITY = re.compile(r"([0-9]+(?:[.][0-9]+)?)([A-Za-z]*)")


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
    advertised_port_base: int | None = None
    node_port_base: int | None = None
    # Of its Services only. What a listener is for the brokers is told by its repr: they restart
    # when that changes.
    labels: Mapping[str, str] = field(default_factory=_nothing, repr=False)
    annotations: Mapping[str, str] = field(default_factory=_nothing, repr=False)

    def address(self, node_id: int) -> str:
        """The host and port that clients are told for a broker."""
        base = self.advertised_port_base or self.node_port_base
        port = self.port if base is None else base + node_id
        return f"{self.advertised_host.replace('{id}', str(node_id))}:{port}"

    def annotations_of(self, node_id: int) -> dict[str, str]:
        """The annotations of the Service of a broker."""
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
        """When it opens next after a moment."""
        return next(CronSim(self.schedule, after.astimezone(self.time_zone))).astimezone(UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSpec:
    """One declared set of brokers; `image` is None for the operator's own choice.

    `restart` is free text: another one than before means that every broker is to be restarted.
    `replaced_disks` name lost volumes that may be replaced by an empty one: the broker's id and the
    beginning of the claim's uid, so that what was allowed once is not allowed for ever.
    `is_elsewhere` are brokers that somebody else runs: the operator only looks at them.
    """

    name: str
    namespace: str
    uid: str = ""
    generation: int = 0
    replicas: int = 3
    image: str | None = None
    storage_size: str = "10Gi"
    storage_class_name: str | None = None
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

    @property
    def storage_bytes(self) -> int:
        """The wanted size of each volume."""
        return quantity_bytes(self.storage_size)

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
            storage_size=str(storage.get("size", "10Gi")),
            storage_class_name=storage.get("storageClassName"),
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
            is_elsewhere=bool(annotations.get(BOOTSTRAP_SERVERS_ANNOTATION)),
            replaced_disks=_words(str(annotations.get(REPLACE_DISK_ANNOTATION, ""))),
        )


def quantity_bytes(text: str) -> int:
    """The bytes of a quantity as Kubernetes writes it. Raises: SpecError."""
    found = _QUANTITY.fullmatch(text.strip())
    if found is None or found[2] not in _UNITS:
        raise SpecError(("spec", "storage", "size"), f"{text!r} is no size, such as 10Gi")
    # In thousandths, so that 0.5Ti is exact enough and no float is rounded.
    whole, _, fraction = found[1].partition(".")
    thousandths = int(whole) * 1000 + int((fraction + "000")[:3])
    return thousandths * _UNITS[found[2]] // 1000


def _external(found: Mapping[str, Any] | None) -> ExternalListener | None:
    if not found:
        return None
    return ExternalListener(
        type=str(found["type"]),
        port=int(found.get("port") or 9094),
        advertised_host=str(found["advertisedHost"]),
        advertised_port_base=found.get("advertisedPortBase"),
        node_port_base=found.get("nodePortBase"),
        labels=found.get("labels") or {},
        annotations=found.get("annotations") or {},
    )


def _pod_template(found: Mapping[str, Any]) -> PodTemplate:
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
        CronSim(schedule, _ANY_TIME)
    except CronSimError as error:
        text = f"{schedule!r} is no schedule: {error}"
        raise SpecError((*path, "schedule"), text) from None
    try:
        zone = ZoneInfo(time_zone)
    except (ZoneInfoNotFoundError, ValueError):
        raise SpecError((*path, "timeZone"), f"{time_zone!r} is no time zone") from None
    duration = timedelta(minutes=int(found["durationMinutes"]))
    return MaintenanceWindow(schedule=schedule, duration=duration, time_zone=zone)


def _config(values: Mapping[str, Any]) -> Mapping[str, str]:
    config: dict[str, str] = {}
    for key, value in sorted(values.items()):
        if key in _RESERVED_KEYS or key.startswith(_RESERVED_PREFIXES):
            raise SpecError(("spec", "config", key), "the operator decides this setting itself")
        text = setting_text(str(key), value)
        if text is not None:
            if "\n" in text or "\r" in text:
                raise SpecError(("spec", "config", key), "a value is one line")
            config[str(key)] = text
    return MappingProxyType(config)


def _words(text: str) -> frozenset[str]:
    return frozenset(part.strip() for part in text.split(",") if part.strip())
