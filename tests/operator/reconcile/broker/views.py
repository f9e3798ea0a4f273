"""Observations for tests of the plans: healthy unless said otherwise."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from barnabas_operator.broker_spec import BrokerSpec
from barnabas_operator.reconcile.broker.cluster_state import (
    BrokerSettings,
    ClusterView,
    MetadataMembers,
    PartitionView,
    RegisteredBroker,
)
from barnabas_operator.reconcile.broker.observed import (
    InFlight,
    Observed,
    PodView,
    ProcessView,
    Remembered,
    SetView,
    VolumeView,
)
from barnabas_operator.reconcile.broker.revision import revision_of
from barnabas_protocol.ids import TopicPartition

IMAGE = "good:1"
SPEC = BrokerSpec(name="demo", namespace="kafka", uid="u1")
GIB = 2**30
NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)  # a Monday


def pod(node_id: int, **fields: Any) -> PodView:
    """A ready pod of the present revision."""
    given: dict[str, Any] = {
        "name": f"demo-{node_id}",
        "uid": f"pod-{node_id}",
        "node": f"node{node_id}",
        "address": f"10.0.0.{node_id}",
        "is_ready": True,
        "revision": revision_of(SPEC, IMAGE),
    }
    return PodView(**{**given, "node_id": node_id, **fields})


def volume(node_id: int, **fields: Any) -> VolumeView:
    """A bound volume of the declared size."""
    given: dict[str, Any] = {
        "claim": f"data-demo-{node_id}",
        "uid": f"claim-{node_id}",
        "requested_bytes": 10 * GIB,
        "capacity_bytes": 10 * GIB,
    }
    return VolumeView(**{**given, "node_id": node_id, **fields})


def partition(
    name: str, replicas: Iterable[int], in_sync: Iterable[int] | None = None, **fields: Any
) -> PartitionView:
    """Partition 0 of a topic; all of its replicas are in sync, two have to be."""
    members = tuple(replicas)
    synced = frozenset(members if in_sync is None else in_sync)
    given: dict[str, Any] = {"leader": min(synced, default=None), "in_sync_min": 2}
    return PartitionView(
        topic_partition=TopicPartition(name, 0),
        replicas=members,
        in_sync=synced,
        **{**given, **fields},
    )


def cluster(
    *partitions: PartitionView,
    controller_id: int | None = 0,
    live: Iterable[int] = (0, 1, 2),
    fenced: Iterable[int] = (),
    settings: BrokerSettings | None = None,
    members: MetadataMembers | None = None,
) -> ClusterView:
    """A cluster whose brokers all take part."""
    brokers = [RegisteredBroker(node_id=node_id) for node_id in live]
    brokers += [RegisteredBroker(node_id=node_id, is_fenced=True) for node_id in fenced]
    return ClusterView(
        cluster_id="c1",
        controller_id=controller_id,
        brokers={broker.node_id: broker for broker in brokers},
        partitions=partitions,
        settings=settings or BrokerSettings(),
        members=members,
    )


def members(*ids: int, in_touch: Iterable[int] | None = None, wanted: int = 3) -> MetadataMembers:
    """Members of the metadata log, all of them in touch."""
    return MetadataMembers(
        ids=frozenset(ids),
        in_touch=frozenset(ids if in_touch is None else in_touch),
        wanted=wanted,
    )


def observed(
    pods: Iterable[PodView] | None = None,
    *,
    view: ClusterView | None = None,
    volumes: Iterable[VolumeView] = (),
    in_flight: InFlight | None = None,
    live_config: Mapping[str, str] | None = None,
    **fields: Any,
) -> Observed:
    """Three ready brokers, unless others are given."""
    found = [pod(node_id) for node_id in range(3)] if pods is None else list(pods)
    processes = {
        one.node_id: ProcessView(
            node_id=one.node_id, state="RUNNING", is_fenced=False, drain="running", size_bytes=0
        )
        for one in found
        if one.is_ready
    }
    given: dict[str, Any] = {
        "stateful_set": SetView(uid="set", replicas=len(found)),
        "processes": processes,
    }
    return Observed(
        pods={one.node_id: one for one in found},
        volumes=tuple(volumes),
        cluster=view,
        remembered=Remembered(in_flight=in_flight, live_config=live_config or {}),
        **{**given, **fields},
    )
