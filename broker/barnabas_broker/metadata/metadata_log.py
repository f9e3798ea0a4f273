"""The metadata log as a partition: its name, its id, its settings.

It is the partition log of `__cluster_metadata-0`; its leader epoch is the controller epoch. Not
here: what is in it (`records`), the images of it (`image_log`), its replication (`quorum`).
"""

from __future__ import annotations

from typing import Final

from barnabas_broker.config.topic import LogConfig
from barnabas_protocol.ids import TopicPartition

METADATA_PARTITION: Final = TopicPartition("__cluster_metadata", 0)
# The id that Kafka gives its topic of this name: it must be known before any metadata is read.
METADATA_TOPIC_ID: Final = bytes(15) + b"\x01"


class MetadataLogError(Exception):
    """The metadata log cannot be read or does not make sense: the broker cannot start."""


def metadata_log_config(segment_bytes: int) -> LogConfig:
    """The settings of the log itself: nothing is deleted but what a snapshot stands for."""
    return LogConfig.build(
        {},
        {
            "cleanup.policy": "delete",
            "max.message.bytes": str((1 << 31) - 1),
            "retention.bytes": "-1",
            "retention.ms": "-1",
            "segment.bytes": str(segment_bytes),
        },
    )
