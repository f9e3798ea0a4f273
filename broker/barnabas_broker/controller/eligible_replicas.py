"""Who may lead a partition besides its ISR without losing records: pure (KIP-966, LEAD-7).

While the ISR has fewer members than `min.insync.replicas`, its leader does not raise the high
watermark (REP-2). So whoever leaves such an ISR goes on having all that is below it, and is an
eligible leader replica (ELR) until the ISR is large enough again. One that stopped uncleanly may
have lost records: it is neither in sync nor eligible, only remembered as a last known one.

All of it is on from level 2 of `barnabas.version`. What `min.insync.replicas` is, the metadata
alone says: of the topic, or of the whole cluster. It must be the same for the controller, which
says who is eligible, and for the leader, which holds back the high watermark. So at level 2 there
is always a value for the whole cluster, and none for single brokers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from barnabas_broker.metadata.image import (
    RESOURCE_BROKER,
    RESOURCE_TOPIC,
    MetadataImage,
    PartitionImage,
)
from barnabas_broker.metadata.records import ConfigRecord, MetadataRecord, PartitionRecord

BARNABAS_VERSION: Final = "barnabas.version"
"""The feature of what brokers say to one another and write to their disks."""
ELR_LEVEL: Final = 2
MIN_IN_SYNC: Final = "min.insync.replicas"


def is_on(image: MetadataImage) -> bool:
    """Whether the cluster has agreed on a level with eligible leader replicas."""
    return image.features.get(BARNABAS_VERSION, 0) >= ELR_LEVEL


class MinInSync:
    """`min.insync.replicas` of the topics of an image."""

    __slots__ = ("_default", "_image")

    def __init__(self, image: MetadataImage) -> None:
        self._image = image
        self._default: str | None = None
        if is_on(image):
            self._default = image.config_overrides(RESOURCE_BROKER, "").get(MIN_IN_SYNC)

    def of(self, topic_id: bytes) -> int | None:
        """The value of a topic; None while there are no eligible leader replicas."""
        if self._default is None:
            return None
        topic = self._image.topics.by_id.get(topic_id)
        if topic is None:
            return int(self._default)
        overrides = self._image.config_overrides(RESOURCE_TOPIC, topic.name)
        return int(overrides.get(MIN_IN_SYNC, self._default))


class Eligible(NamedTuple):
    """The eligible leader replicas of a partition, and those that were so before they crashed."""

    replicas: tuple[int, ...] = ()
    last_known: tuple[int, ...] = ()

    @staticmethod
    def beside(
        isr: Sequence[int],
        before: PartitionImage,
        replicas: Sequence[int],
        min_in_sync: int | None,
        unclean: int = -1,
    ) -> Eligible:
        """Those beside an ISR, for a partition that was in a state before; none if it is enough.

        `unclean` is a node that may have lost records, -1 for none.
        """
        if min_in_sync is None or len(isr) >= min(min_in_sync, len(replicas)):
            return _NOBODY
        had_all = {*before.isr, *before.eligible_leader_replicas}
        eligible = had_all.difference(isr, (unclean,))
        known = had_all.union(before.last_known_elr).difference(isr, eligible)
        return Eligible(
            tuple([node for node in replicas if node in eligible]),
            tuple([node for node in replicas if node in known]),
        )


_NOBODY: Final = Eligible()


def level_records(image: MetadataImage, level: int, min_in_sync: str) -> Iterator[MetadataRecord]:
    """What has to be said before a cluster is at another level of `barnabas.version`.

    Upwards `min_in_sync` becomes the value for the cluster, unless there is one; values of single
    brokers go, as in Kafka. Downwards nobody is eligible any more.
    """
    if level < ELR_LEVEL:
        for topic in image.topics.by_id.values():
            for index, partition in enumerate(topic.partitions):
                if partition.eligible_leader_replicas or partition.last_known_elr:
                    yield _without_eligible(topic.topic_id, index, partition)
        return
    for resource_type, name in image.configs:
        is_broker = resource_type == RESOURCE_BROKER and name
        if is_broker and MIN_IN_SYNC in image.config_overrides(RESOURCE_BROKER, name):
            yield ConfigRecord(RESOURCE_BROKER, name, MIN_IN_SYNC, None)
    if MIN_IN_SYNC not in image.config_overrides(RESOURCE_BROKER, ""):
        yield ConfigRecord(RESOURCE_BROKER, "", MIN_IN_SYNC, min_in_sync)


def first_without_isr(image: MetadataImage) -> str | None:
    """A partition whose ISR is empty, None if there is none."""
    for topic in image.topics.by_id.values():
        for index, partition in enumerate(topic.partitions):
            if not partition.isr:
                return f"{topic.name}-{index}"
    return None


def _without_eligible(topic_id: bytes, index: int, partition: PartitionImage) -> PartitionRecord:
    return PartitionRecord(
        topic_id,
        index,
        partition.replicas,
        partition.isr,
        partition.leader,
        partition.leader_epoch,
        partition.partition_epoch + 1,
        partition.directories,
        partition.adding_replicas,
        partition.removing_replicas,
    )
