"""Blocks of producer ids: each broker takes one at a time and hands its ids out (CTL-15).

Invariant: no id is given twice in the life of a cluster; a block that a broker did not use up when
it stopped is lost. Nor is one given that was given elsewhere and may be in a log here: those in
logs that were found, and in metadata that was lost, are skipped, with many more.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from barnabas_broker.controller.brokers import check_broker_epoch
from barnabas_broker.metadata.image import MetadataImage
from barnabas_broker.metadata.records import MetadataRecord, ProducerIdsRecord
from barnabas_protocol.errors import ErrorCode, KafkaError

BLOCK_IDS: Final = 1000
IDS_SKIPPED: Final = 1_000_000_000
"""More than were given out since the last one that is known of, by a cluster that is gone."""
_PRODUCER_ID_MAX: Final = (1 << 63) - 1


class ProducerIdBlock(NamedTuple):
    """`size` ids from `first` on."""

    first: int
    size: int


def allocate(
    image: MetadataImage, node_id: int, broker_epoch: int
) -> tuple[list[MetadataRecord], ProducerIdBlock]:
    """The next block, for a registered broker.

    Raises: KafkaError 77 if the broker's epoch is not the current one, -1 if all ids are used up.
    """
    check_broker_epoch(image, node_id, broker_epoch)
    first = image.next_producer_id
    if first > _PRODUCER_ID_MAX - BLOCK_IDS:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "all producer ids are used up")
    record = ProducerIdsRecord(node_id, broker_epoch, first + BLOCK_IDS)
    return [record], ProducerIdBlock(first, BLOCK_IDS)


def skipped(image: MetadataImage, latest: int) -> list[MetadataRecord]:
    """The record that skips the ids up to `latest`, and those that may have been given after it."""
    first = latest + 1 + IDS_SKIPPED
    if first <= image.next_producer_id:
        return []
    return [ProducerIdsRecord(max(image.controller_id, 0), 0, first)]
