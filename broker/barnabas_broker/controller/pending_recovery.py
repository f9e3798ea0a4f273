"""The order that completes `barnabas cluster recover`, kept on disk until it is carried out.

Making one broker the only voter is one swap of the arbiter's record; what has to follow is in the
metadata log, which that broker can lead only afterwards. So the order is written first, beside the
log, and carried out before the broker is registered: by the command itself or, if that was
interrupted, by the broker's next start. It names the history that the swap begins: an order whose
swap never happened is dropped.

What is ordered: all other brokers are fenced as if their disks were lost, else the survivor's own
return would count first, and it would leave the ISR in favour of disks that are gone. And numbers
that the lost metadata may have given out are skipped: leader epochs, partition epochs, producer
ids. Source: decision 0015.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Final

from barnabas_broker.controller import brokers, producer_ids
from barnabas_broker.controller.controller import Controller
from barnabas_broker.controller.elections import TopicConfigs
from barnabas_broker.env.disk import Disk
from barnabas_broker.metadata.image import MetadataImage
from barnabas_broker.metadata.metadata_log import MetadataLogError
from barnabas_broker.metadata.quorum.metadata_quorum import MetadataQuorum
from barnabas_broker.metadata.records import MetadataRecord, PartitionRecord
from barnabas_protocol.ids import uuid_from_text, uuid_to_text

logger = logging.getLogger(__name__)

ORDER_FILE: Final = "recovery-order"
# More than any cluster gives out in the moments whose metadata is lost.
EPOCHS_SKIPPED: Final = 1000
_VERSION: Final = "0"
_PARTITIONS_AT_ONCE: Final = 500
# The only voter leads as soon as it has read the record.
LEAD_SECONDS_MAX: Final = 60


class PendingRecovery:
    """The order in the directory of the metadata log."""

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._path = f"{directory}/{ORDER_FILE}"

    async def write(self, history_id: bytes) -> None:
        """Return once the order is on the disk's surface. Raises: OSError."""
        text = f"{_VERSION}\n{uuid_to_text(history_id)}\n"
        await self._disk.run(self._disk.write_atomically, self._path, text.encode())

    async def read(self) -> bytes | None:
        """The history that the order is for; None without an order.

        Raises: MetadataLogError, OSError.
        """
        return await self._disk.run(self._read)

    async def remove(self) -> None:
        """Return once no crash brings the order back. Raises: OSError."""
        await self._disk.run(self._remove)

    def _read(self) -> bytes | None:
        if not self._disk.exists(self._path):
            return None
        lines = bytes(self._disk.read_bytes(self._path)).decode("ascii", "replace").split()
        if len(lines) != 2 or lines[0] != _VERSION:
            raise MetadataLogError(f"{self._path} is not a recovery order: {lines!r}")
        return uuid_from_text(lines[1])

    def _remove(self) -> None:
        if self._disk.exists(self._path):
            self._disk.remove(self._path)
            self._disk.sync_directory(self._path.rpartition("/")[0])


async def settle_pending_recovery(
    quorum: MetadataQuorum, controller: Controller, order: PendingRecovery, configs: TopicConfigs
) -> None:
    """Carry out an order that an interruption has left; drop one whose swap never happened.

    Waits until it is known which, and for this node to lead if it has to. Without a record in the
    arbiter the order stays: nobody leads then anyway.
    Raises: what stops the quorum, OSError, KafkaError.
    """
    history_id = await order.read()
    if history_id is None:
        return
    while quorum.record.token < 0:
        await quorum.wait_for_reading()
    if quorum.record.controller_epoch == 0:
        return
    if quorum.history != history_id or quorum.record.members != {quorum.voter}:
        logger.warning("a recovery that was ordered here is not in force: it is dropped")
        await order.remove()
        return
    logger.warning("`barnabas cluster recover` was interrupted: it is completed now")
    await quorum.until_active(LEAD_SECONDS_MAX)
    await complete_unsafe_recovery(quorum, controller, configs)
    await order.remove()


async def complete_unsafe_recovery(
    quorum: MetadataQuorum, controller: Controller, configs: TopicConfigs
) -> list[int]:
    """Change the metadata as a recovery has to, on the leader; returns who was fenced.

    Safe to be repeated. Raises: KafkaError.
    """
    node_id, known = quorum.voter.node_id, quorum.pending_image.brokers
    others = sorted(one for one in known if one != node_id and not known[one].fenced)
    for other in sorted(known.keys() - {node_id}):
        await controller.submit(partial(_fence_as_lost, other, configs))
    await controller.submit(_skip_producer_ids)
    keys_left = _partitions(quorum.pending_image)
    while keys := tuple(islice(keys_left, _PARTITIONS_AT_ONCE)):
        await controller.submit(partial(_skip_epochs, keys))
    return others


def _fence_as_lost(
    node_id: int, configs: TopicConfigs, image: MetadataImage
) -> tuple[list[MetadataRecord], None]:
    return brokers.fence_as_lost(image, node_id, configs), None


def _skip_producer_ids(image: MetadataImage) -> tuple[list[MetadataRecord], None]:
    return producer_ids.skipped(image, image.next_producer_id), None


def _partitions(image: MetadataImage) -> Iterator[tuple[bytes, int]]:
    for topic in image.topics.by_id.values():
        for index in range(len(topic.partitions)):
            yield topic.topic_id, index


def _skip_epochs(
    keys: Sequence[tuple[bytes, int]], image: MetadataImage
) -> tuple[list[MetadataRecord], None]:
    records: list[MetadataRecord] = []
    for topic_id, index in keys:
        found = image.topics.by_id[topic_id].partitions[index]
        records.append(
            PartitionRecord(
                topic_id,
                index,
                found.replicas,
                found.isr,
                found.leader,
                found.leader_epoch + EPOCHS_SKIPPED,
                found.partition_epoch + EPOCHS_SKIPPED,
                found.directories,
                found.adding_replicas,
                found.removing_replicas,
                found.eligible_leader_replicas,
                found.last_known_elr,
            )
        )
    return records, None
