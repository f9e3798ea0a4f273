"""The arbiter's record as a Lease of `coordination.k8s.io/v1`, in both directions. Pure.

The holder is the leader's node id, the transitions are the controller epoch; what a Lease has no
field for is in annotations. All else in the Lease, such as labels and owners, belongs to others and
is kept. The fields are in `docs/formats/arbiter.md`.

A holder that is not the leader of the annotation was written by hand: then nobody leads (CTL-10).
The leader's listeners are those of the epoch that is beside them: a broker of a release that does
not know them takes them for somebody's, and keeps those of a former leader.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from barnabas_broker.arbiter.arbiter import (
    ArbiterError,
    ArbiterRecord,
    Leader,
    LeaderListener,
    Member,
    Stored,
)
from barnabas_protocol.ids import uuid_from_text, uuid_to_text

PREFIX: Final = "barnabas.dev/"
VERSION: Final = PREFIX + "arbiter-version"
CLUSTER_ID: Final = PREFIX + "cluster-id"
LEADER: Final = PREFIX + "leader"
LEADER_LISTENERS: Final = PREFIX + "leader-listeners"
LEADER_LISTENERS_EPOCH: Final = PREFIX + "leader-listeners-epoch"
MEMBERS: Final = PREFIX + "members"
HISTORIES: Final = PREFIX + "metadata-histories"
ENDS: Final = PREFIX + "metadata-ends"
FORMAT_VERSION: Final = "1"

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
_RESOURCE_VERSION: Final = re.compile(r"[1-9][0-9]*")


def stored_in(lease: Mapping[str, Any]) -> Stored:
    """The record in a Lease, none in one that nobody has used yet, and its resource version.

    Raises: ArbiterError if it is not a Lease, or holds something else.
    """
    try:
        metadata, spec = lease["metadata"], lease.get("spec") or {}
        token = _token(metadata["resourceVersion"])
        annotations = metadata.get("annotations") or {}
        is_unused = not spec.get("holderIdentity") and not spec.get("leaseTransitions")
        if is_unused and not any(key in annotations for key in (VERSION, MEMBERS, LEADER)):
            return Stored(None, token)
        if annotations[VERSION] != FORMAT_VERSION:
            raise ValueError(f"version {annotations[VERSION]}")
        record = ArbiterRecord(
            cluster_id=str(annotations[CLUSTER_ID]),
            controller_epoch=int(spec["leaseTransitions"]),
            leader=_leader(annotations, spec),
            members=_members(annotations[MEMBERS]),
            renewed_ms=_milliseconds(spec["renewTime"]),
            histories=tuple(
                uuid_from_text(one) for one in annotations.get(HISTORIES, "").split(",") if one
            ),
            ends=_ends(annotations.get(ENDS, "")),
        )
    except (
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        OverflowError,
        RecursionError,
    ) as error:
        raise ArbiterError(f"not a Lease with an arbiter record: {error!r}") from error
    return Stored(record, token)


def lease_with(
    record: ArbiterRecord, found: Mapping[str, Any] | None, namespace: str, name: str
) -> dict[str, Any]:
    """The Lease to write: the one that was found with the record put in, or a new one."""
    old: Mapping[str, Any] = found or {"metadata": {"name": name, "namespace": namespace}}
    spec = dict(old.get("spec") or {})
    metadata = dict(old["metadata"])
    annotations = dict(metadata.get("annotations") or {})
    annotations[VERSION] = FORMAT_VERSION
    annotations[CLUSTER_ID] = record.cluster_id
    annotations[MEMBERS] = ",".join(
        f"{member.node_id}:{uuid_to_text(member.directory_id)}" for member in record.members
    )
    annotations.pop(HISTORIES, None)
    annotations.pop(ENDS, None)
    if record.ends:
        annotations[ENDS] = ",".join(f"{epoch}:{end}" for epoch, end in record.ends)
    if record.histories:
        annotations[HISTORIES] = ",".join(map(uuid_to_text, record.histories))
    # A field that is not set is left out: an empty holder is not valid everywhere.
    for fields, key in (
        (annotations, LEADER),
        (annotations, LEADER_LISTENERS),
        (annotations, LEADER_LISTENERS_EPOCH),
        (spec, "holderIdentity"),
    ):
        fields.pop(key, None)
    if record.leader is not None:
        node_id, host, port, listeners = record.leader
        annotations[LEADER] = f"{node_id}@{host}:{port}"
        if listeners:
            annotations[LEADER_LISTENERS] = json.dumps(listeners, separators=(",", ":"))
            annotations[LEADER_LISTENERS_EPOCH] = str(record.controller_epoch)
        spec["holderIdentity"] = str(node_id)
    renewed = _time_text(record.renewed_ms)
    if spec.get("leaseTransitions") != record.controller_epoch or not spec.get("acquireTime"):
        spec["acquireTime"] = renewed
    spec["leaseTransitions"] = record.controller_epoch
    spec["renewTime"] = renewed
    metadata["annotations"] = annotations
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": metadata,
        "spec": spec,
    }


def _token(resource_version: str) -> int:
    """Since Kubernetes 1.35 a resource version is promised to be a number; it has always been."""
    if not _RESOURCE_VERSION.fullmatch(resource_version):
        raise ValueError(f"resource version {resource_version!r}")
    return int(resource_version)


def _leader(annotations: Mapping[str, str], spec: Mapping[str, Any]) -> Leader | None:
    annotation = annotations.get(LEADER)
    if annotation is None:
        return None
    node_id, at, address = annotation.partition("@")
    host, colon, port = address.rpartition(":")
    if not at or not colon:
        raise ValueError(f"leader {annotation!r}")
    listeners: tuple[LeaderListener, ...] = ()
    if annotations.get(LEADER_LISTENERS_EPOCH) == str(spec["leaseTransitions"]):
        listeners = _listeners(annotations.get(LEADER_LISTENERS, "[]"))
    leader = Leader(int(node_id), host, int(port), listeners)
    return leader if spec.get("holderIdentity") == str(leader.node_id) else None


def _listeners(text: str) -> tuple[LeaderListener, ...]:
    return tuple(
        LeaderListener(str(name), str(host), int(port)) for name, host, port in json.loads(text)
    )


def _members(text: str) -> tuple[Member, ...]:
    parts = (item.partition(":") for item in text.split(",") if item)
    return tuple(
        Member(int(node_id), uuid_from_text(directory_id)) for node_id, _, directory_id in parts
    )


def _ends(text: str) -> tuple[tuple[int, int], ...]:
    parts = (item.partition(":") for item in text.split(",") if item)
    return tuple((int(epoch), int(end)) for epoch, _, end in parts)


def _time_text(time_ms: int) -> str:
    """A MicroTime: RFC 3339 with six digits after the second."""
    whole = _EPOCH + timedelta(seconds=time_ms // 1000)
    return f"{whole:%Y-%m-%dT%H:%M:%S}.{time_ms % 1000:03}000Z"


def _milliseconds(text: str) -> int:
    return (datetime.fromisoformat(text) - _EPOCH) // _MILLISECOND
