"""The rows of the broker's settings for the share coordinator (KIP-932).

Source: Kafka's `share.coordinator.*`. Not here: those that govern share groups.
"""

from __future__ import annotations

from typing import Final

from barnabas_broker.config.definitions import INT, SHORT, BrokerSetting

_S = BrokerSetting

SHARE_COORDINATOR_SETTINGS: Final = (
    _S(
        "share.coordinator.cold.partition.snapshot.interval.ms",
        INT,
        "300000",
        "The state of a share partition is written again when its snapshot is so old.",
        1,
    ),
    _S(
        "share.coordinator.load.buffer.size",
        INT,
        "5242880",
        "Bytes read at once when the state of share partitions loads.",
        1,
    ),
    _S(
        "share.coordinator.snapshot.update.records.per.snapshot",
        INT,
        "500",
        "Changes of a share partition that are written before its state is written as a whole.",
        0,
        500,
    ),
    _S(
        "share.coordinator.state.topic.compression.codec",
        INT,
        "0",
        "Codec of the batches in __share_group_state, by its number in batches: 0 for none, 1 gzip,"
        " 2 snappy, 3 lz4, 4 zstd.",
        0,
        4,
    ),
    _S(
        "share.coordinator.state.topic.min.isr",
        SHORT,
        "2",
        "min.insync.replicas of __share_group_state.",
        1,
    ),
    _S(
        "share.coordinator.state.topic.num.partitions",
        INT,
        "50",
        "Partitions of __share_group_state.",
        1,
    ),
    _S(
        "share.coordinator.state.topic.prune.interval.ms",
        INT,
        "300000",
        "How often records that no share partition needs are deleted from __share_group_state.",
        1,
    ),
    _S(
        "share.coordinator.state.topic.replication.factor",
        SHORT,
        "3",
        "Replicas of __share_group_state.",
        1,
    ),
    _S(
        "share.coordinator.state.topic.segment.bytes",
        INT,
        "104857600",
        "segment.bytes of __share_group_state.",
        1048576,
    ),
    _S(
        "share.coordinator.write.timeout.ms",
        INT,
        "5000",
        "How long a write to __share_group_state may take until its sender gets an error.",
        1,
    ),
)
