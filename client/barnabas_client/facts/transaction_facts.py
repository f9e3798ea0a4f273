"""Data of `barnabas transaction list` and `describe`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from barnabas_client.facts.moments import moment_text

if TYPE_CHECKING:
    from barnabas_client.admin.values.transactions import TransactionDescription, TransactionListing


def listing_data(one: TransactionListing) -> dict[str, Any]:
    """One transactional id in a list."""
    return {
        "transactional_id": one.transactional_id,
        "state": str(one.state),
        "producer_id": one.producer_id,
    }


def description_data(name: str, one: TransactionDescription) -> dict[str, Any]:
    """All about one transactional id."""
    return {
        "transactional_id": name,
        "state": str(one.state),
        "producer_id": one.producer_id,
        "producer_epoch": one.producer_epoch,
        "coordinator": one.coordinator_id,
        "timeout_ms": one.timeout_ms,
        "started_at": moment_text(one.started_at_ms),
        "partitions": [
            {"topic": place.topic, "partition": place.partition} for place in sorted(one.partitions)
        ],
    }
