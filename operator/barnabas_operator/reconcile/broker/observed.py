"""What is there, as frozen values: pods, volumes, what brokers and their cluster say.

Not here: looking (`broker_observe.py`), deciding (the plans).

Invariant: nothing in here is a clock reading or a rate, so that looking twice at an idle cluster
gives equal values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Any

from barnabas_operator.broker_spec import DATA_VOLUME, Volume
from barnabas_operator.reconcile.broker.cluster_state import ClusterView
from barnabas_operator.reconcile.broker.drain_request import DrainRequest


def _nothing() -> Mapping[str, Any]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class PodView:
    """The pod of a broker.

    `stuck` says why it cannot start without a change of it (image, crash loop, no node), else "".
    `is_running` tells whether the broker's own container runs, `is_started` whether its process has
    answered a probe, `is_broker_ready` whether its readiness probe passes, whatever is the matter
    with containers beside it. `scheduler` is the one that it waits for, where that is not
    Kubernetes' own. `warning` is what Kubernetes last warned of while it could not start it.
    `own_files` are the ids of the brokers whose properties files it mounts. `restart_asked` is what
    somebody has written on it to have this one broker restarted.
    `volumes` are those whose log directories its broker has.
    `unsettled` names the container that ended last and was started again, `settles` is when it will
    have run long enough to be believed.
    `is_gated` is a pod that waits for the operator's leave to be scheduled. `drain_request` is
    there while evictions of it are refused.
    """

    node_id: int
    name: str
    uid: str
    node: str = ""
    address: str = ""
    is_ready: bool = False
    is_running: bool = False
    is_started: bool = True
    is_broker_ready: bool = False
    scheduler: str = ""
    warning: str = ""
    own_files: frozenset[int] = frozenset()
    volumes: frozenset[str] = frozenset((DATA_VOLUME,))
    is_terminating: bool = False
    is_gated: bool = False
    is_unschedulable: bool = False
    stuck: str = ""
    unsettled: str = ""
    settles: datetime | None = None
    is_node_lost: bool = False
    rack: str | None = None
    revision: Mapping[str, str] = field(default_factory=_nothing)
    config: Mapping[str, str] = field(default_factory=_nothing)
    drain_request: DrainRequest | None = None
    restart_asked: str = ""
    labels: Mapping[str, str] = field(default_factory=_nothing)
    annotations: Mapping[str, str] = field(default_factory=_nothing)
    pull_secrets: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeView:
    """A volume of a broker, by its claim.

    `is_decommissioned`: it was found to hold nothing, and its broker does without it since.
    `can_expand` is None where the storage class is not known. `lost_node` is the node that alone
    had the volume and that is gone.
    """

    node_id: int
    claim: str
    uid: str
    requested_bytes: int
    volume: str = DATA_VOLUME
    is_going: bool = False
    capacity_bytes: int = 0
    is_bound: bool = True
    storage_class: str = ""
    can_expand: bool | None = None
    is_waiting_for_file_system: bool = False
    is_decommissioned: bool = False
    lost_node: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerTls:
    """What a listener of a broker has loaded: digests of its bundle and of its certificate."""

    trust: str | None = None
    certificate: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessView:
    """What a broker says about itself over HTTP."""

    node_id: int
    state: str
    is_fenced: bool
    drain: str
    size_bytes: int
    full_disks: tuple[str, ...] = ()  # log directories without enough room, and how bad it is
    # How many logs are in each log directory, strays too; absent where it cannot tell.
    held: Mapping[str, int] = field(default_factory=_nothing)
    tls: Mapping[str, ListenerTls] = field(default_factory=_nothing)
    # The metadata log's, as the broker knew them last; empty where it does not say.
    metadata_members: frozenset[int] = frozenset()
    # Of clients, on the plain listener and on the secure ones; None where it does not say.
    plain_connections: int | None = None
    secure_connections: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SetView:
    """The StatefulSet; `volumes` are as they stand in its claim templates.

    `revision` is that of the pods which it makes.
    """

    uid: str
    replicas: int
    volumes: tuple[Volume, ...] = (Volume(),)
    is_going: bool = False
    revision: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class InFlight:
    """The one broker that is being restarted: which pod was there before, and why."""

    node_id: int
    pod_uid: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CoveredNeed:
    """One restart that an approval covers: of this very pod, for these reasons."""

    node_id: int
    pod_uid: str
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnouncedPlan:
    """The restarts that a hash in the status stands for."""

    hash: str
    needs: tuple[CoveredNeed, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    """What the status has to keep between reconciles, because it cannot be seen."""

    in_flight: InFlight | None = None
    live_config: Mapping[str, str] = field(default_factory=_nothing)
    last_reasons: Mapping[int, str] = field(default_factory=dict)
    announced: AnnouncedPlan | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """Everything. `cluster` is None while no broker answers.

    `podless` are brokers that have no pod, and why Kubernetes makes none, as far as it says so.
    """

    pods: Mapping[int, PodView] = field(default_factory=dict)
    podless: Mapping[int, str] = field(default_factory=dict)
    volumes: tuple[VolumeView, ...] = ()
    processes: Mapping[int, ProcessView] = field(default_factory=dict)
    stateful_set: SetView | None = None
    cluster: ClusterView | None = None
    racks: Mapping[int, str | None] = field(default_factory=dict)
    remembered: Remembered = field(default_factory=Remembered)
