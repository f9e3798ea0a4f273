"""What `/status` shows: the broker at a glance, as plain data for people and scripts."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any, Final

from barnabas_broker.coordinator.group.coordinator import GroupCoordinator
from barnabas_broker.lifecycle.broker_state import BrokerState
from barnabas_broker.lifecycle.drain import Drain
from barnabas_broker.log.manager.disk_guard import DirectoryRoom
from barnabas_broker.log.manager.log_manager import LogManager
from barnabas_broker.metadata.image import MetadataImage
from barnabas_broker.metadata.metadata_log import METADATA_PARTITION
from barnabas_broker.metadata.quorum.metadata_quorum import MetadataQuorum
from barnabas_broker.network.listeners import Listeners
from barnabas_broker.replication.replica_manager import ReplicaManager
from barnabas_broker.security.tls.broker_tls import BrokerTls

UNCLEANABLE_TOLD_MAX: Final = 100
PARTITIONS_TOLD_MAX: Final = 100


def status_of(
    *,
    state: BrokerState,
    image: MetadataImage,
    quorum: MetadataQuorum,
    listeners: Listeners,
    tls: BrokerTls,
    logs: LogManager,
    replicas: ReplicaManager,
    groups: GroupCoordinator,
    drain: Drain,
    comparing: Sequence[str],
    loop_lag_ms: float | None,
) -> dict[str, Any]:
    """The status of one broker; a contract: scripts and the operator read it.

    `comparing`: partitions without an eligible replica, whose logs the controller compares.
    `loop_lag_ms`: the most that the loop came late, in the last one or two minutes.
    """
    partitions = replicas.partitions.values()
    me = image.brokers.get(logs.node_id)
    return {
        "node_id": logs.node_id,
        "cluster_id": image.cluster_id,
        "state": state.name,
        "is_fenced": me is None or me.fenced,
        "drain": drain.phase.value,
        "listeners": [str(endpoint) for endpoint in listeners.advertised()],
        "tls": tls.status(),
        "controller": {"node_id": image.controller_id, "epoch": image.epoch},
        "metadata_offset": image.offset,
        "metadata_members": sorted(voter.node_id for voter in quorum.record.members),
        "metadata_partition": "-".join(map(str, METADATA_PARTITION)),
        "comparing_partitions": list(comparing[:PARTITIONS_TOLD_MAX]),
        "topics": len(image.topics.by_name),
        "partitions": len(partitions),
        "leaders": sum(partition.is_leader for partition in partitions),
        "size_bytes": sum(partition.log.size_bytes for partition in partitions),
        "bytes_in": listeners.metrics.bytes_in,
        "bytes_out": listeners.metrics.bytes_out,
        "loop_lag_ms_max": None if loop_lag_ms is None else round(loop_lag_ms, 3),
        "connections": listeners.connection_count,
        "connections_by_listener": listeners.connections_by_listener,
        "plaintext_connections_by_listener": listeners.plaintext_connections_by_listener,
        "log_directories": [
            {
                "path": directory.path,
                "online": not directory.is_offline,
                "logs": len(directory.logs),
                "strays": logs.strays.get(directory.path, 0),
                **_room(logs.disk_guard.of(directory)),
                "has_ballast": directory.ballast.is_held,
            }
            for directory in logs.directories
        ],
        "uncleanable_logs": {
            f"{one.topic}-{one.partition}": reason
            for one, reason in islice(
                sorted(logs.cleaner.uncleanable.items()), UNCLEANABLE_TOLD_MAX
            )
        },
        "groups": groups.count_by_state(),
    }


def _room(known: DirectoryRoom) -> dict[str, Any]:
    """The room of a directory; `guard` says what a full disk has stopped (VOL-4)."""
    return {
        "guard": known.room.name,
        "free_bytes": known.free_bytes,
        "total_bytes": known.total_bytes,
        "reserve_bytes": known.reserve_bytes,
    }
