"""The arbiter's record as a JSON object, for stores that keep text.

The keys are in `docs/formats/arbiter.md`. Not here: the token, which is the store's own.
"""

from __future__ import annotations

import json
from typing import Any

from barnabas_broker.arbiter.arbiter import (
    ArbiterError,
    ArbiterRecord,
    Leader,
    LeaderListener,
    Member,
)
from barnabas_protocol.ids import uuid_from_text, uuid_to_text

FORMAT_VERSION = 1


def document_of(record: ArbiterRecord) -> dict[str, Any]:
    """The record's JSON object."""
    return {
        "cluster_id": record.cluster_id,
        "controller_epoch": record.controller_epoch,
        "leader": None if record.leader is None else _leader_document(record.leader),
        "members": [
            {"node_id": member.node_id, "directory_id": uuid_to_text(member.directory_id)}
            for member in record.members
        ],
        "renewed_ms": record.renewed_ms,
        "histories": [uuid_to_text(one) for one in record.histories],
        "ends": [list(end) for end in record.ends],
    }


def parse_document(data: bytes) -> tuple[dict[str, Any], ArbiterRecord]:
    """The JSON object in the text, and the record that it holds.

    Raises: ArbiterError if it is not one, or of another version.
    """
    try:
        document: Any = json.loads(data)
        if document["version"] != FORMAT_VERSION:
            raise ValueError(f"version {document['version']}")
        record = ArbiterRecord(
            cluster_id=str(document["cluster_id"]),
            controller_epoch=int(document["controller_epoch"]),
            leader=None if document["leader"] is None else _leader(document["leader"]),
            members=tuple(
                Member(int(member["node_id"]), uuid_from_text(member["directory_id"]))
                for member in document["members"]
            ),
            renewed_ms=int(document["renewed_ms"]),
            histories=tuple(uuid_from_text(one) for one in document.get("histories", ())),
            ends=tuple((int(epoch), int(end)) for epoch, end in document.get("ends", ())),
        )
    except (
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        OverflowError,
        RecursionError,
    ) as error:
        raise ArbiterError(f"not an arbiter record: {error!r}") from error
    return document, record


def _leader_document(leader: Leader) -> dict[str, Any]:
    document: dict[str, Any] = {
        "node_id": leader.node_id,
        "host": leader.host,
        "port": leader.port,
    }
    if leader.listeners:
        document["listeners"] = [list(one) for one in leader.listeners]
    return document


def _leader(document: Any) -> Leader:
    listeners = tuple(
        LeaderListener(str(name), str(host), int(port))
        for name, host, port in document.get("listeners", ())
    )
    node_id, host, port = document["node_id"], document["host"], document["port"]
    return Leader(int(node_id), str(host), int(port), listeners)
