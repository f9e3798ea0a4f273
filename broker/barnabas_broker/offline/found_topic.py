"""A topic as the folders of its partitions tell it, for a cluster that does not know it yet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from barnabas_broker.controller.adoption import KEEP_EVERYTHING, FoundTopic
from barnabas_broker.env.disk import Disk
from barnabas_broker.env.randomness import SystemRandom
from barnabas_broker.log.import_directory import latest_numbers
from barnabas_protocol.ids import ZERO_UUID


def found_topic(
    disk: Disk,
    name: str,
    topic_id: bytes,
    folders: Sequence[str],
    settings: Mapping[str, str] = KEEP_EVERYTHING,
) -> FoundTopic:
    """Read the latest numbers of all logs, in the order of the partitions. Raises: OSError.

    A topic that had no id gets one.
    """
    latest = [latest_numbers(disk, folder) for folder in folders]
    return FoundTopic(
        name=name,
        topic_id=SystemRandom().uuid() if topic_id == ZERO_UUID else topic_id,
        latest_leader_epochs=[one.leader_epoch for one in latest],
        latest_producer_id=max(one.producer_id for one in latest),
        settings=settings,
    )
