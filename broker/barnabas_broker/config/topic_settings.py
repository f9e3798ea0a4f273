"""The table of topic settings: one row each, in the order of their keys.

Names, types, defaults and ranges are Apache Kafka 4.1's; `barnabas.flush.policy` is ours. A topic
that does not override a setting takes it from the broker keys in its row, first one set wins.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from barnabas_broker.config.definitions import (
    BOOLEAN,
    CLUSTER_WIDE,
    DEFAULT_ONLY,
    DOUBLE,
    IGNORED,
    INT,
    LIST,
    LONG,
    LONG_MAX,
    STRING,
    USED,
    BrokerSetting,
)
from barnabas_protocol.settings.kinds import Kind
from barnabas_protocol.settings.setting import by_name

HOUR_MS: Final = 3_600_000
MINUTE_MS: Final = 60_000


def check_gzip_level(level: int) -> str | None:
    """Says why a gzip level is refused: 0 lies in the range of the others but is not a level."""
    return "Value must be between 1 and 9 or equal to -1" if level == 0 else None


def check_throttled_replicas(replicas: tuple[str, ...]) -> str | None:
    """Says why a list of throttled replicas is refused, None if it is well formed (CFG-6)."""
    if replicas == ("*",):
        return None
    for item in replicas:
        partition, separator, broker = item.partition(":")
        if not (separator and partition.isdigit() and broker.isdigit()):
            return (
                "{key} must be the literal '*' or a list of replicas in the following format: "
                "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
            )
    return None


def _row(
    key: str,
    kind: Kind,
    default: str,
    why: str,
    *broker_keys: str | tuple[str, int],
    low: float | None = None,
    high: float | None = None,
    choices: tuple[str, ...] = (),
    support: str = USED,
    check: Callable[[Any], str | None] | None = None,
) -> BrokerSetting:
    pairs = tuple((item, 1) if isinstance(item, str) else item for item in broker_keys)
    return BrokerSetting(
        key,
        kind,
        default,
        why,
        low,
        high,
        choices,
        check,
        update=CLUSTER_WIDE,
        support=support,
        broker_keys=pairs,
    )


TOPIC_SETTINGS: Final = (
    _row(
        "barnabas.flush.policy",
        STRING,
        "page-cache",
        "When a record counts as written: in the page cache as in Kafka, or after a shared fsync.",
        "barnabas.flush.policy",
        choices=("page-cache", "group-fsync"),
    ),
    _row(
        "cleanup.policy",
        LIST,
        "delete",
        "Whether old segments are deleted, compacted to the last record of each key, or both.",
        "log.cleanup.policy",
        choices=("compact", "delete"),
    ),
    _row(
        "compression.gzip.level",
        INT,
        "-1",
        "How hard gzip works when the broker compresses; -1 is the codec's default.",
        "compression.gzip.level",
        low=-1,
        high=9,
        check=check_gzip_level,
    ),
    _row(
        "compression.lz4.level",
        INT,
        "9",
        "How hard lz4 works when the broker compresses.",
        "compression.lz4.level",
        low=1,
        high=17,
    ),
    _row(
        "compression.type",
        STRING,
        "producer",
        "The codec that batches are stored with; `producer` keeps what the producer chose.",
        "compression.type",
        choices=("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
    ),
    _row(
        "compression.zstd.level",
        INT,
        "3",
        "How hard zstd works when the broker compresses.",
        "compression.zstd.level",
        low=-131072,
        high=22,
    ),
    _row(
        "delete.retention.ms",
        LONG,
        "86400000",
        "How long a tombstone stays in a compacted log at least, so that slow readers still see it;"
        " it stays while a replica is not in sync.",
        "log.cleaner.delete.retention.ms",
        low=0,
    ),
    _row(
        "errors.deadletterqueue.group.enable",
        BOOLEAN,
        "false",
        "Whether share groups may write their dead letters to it.",
    ),
    _row(
        "file.delete.delay.ms",
        LONG,
        "60000",
        "How long the files of a deleted segment stay, so that reads under way can finish.",
        "log.segment.delete.delay.ms",
        low=0,
    ),
    _row(
        "flush.messages",
        LONG,
        str(LONG_MAX),
        "Fsync after this many records.",
        "log.flush.interval.messages",
        low=1,
    ),
    _row(
        "flush.ms",
        LONG,
        str(LONG_MAX),
        "Fsync when the oldest record not yet flushed is this old.",
        "log.flush.interval.ms",
        "log.flush.scheduler.interval.ms",
        low=0,
    ),
    _row(
        "follower.replication.throttled.replicas",
        LIST,
        "",
        "Replicas whose fetching the follower's replication quota slows down, or *.",
        check=check_throttled_replicas,
    ),
    _row(
        "index.interval.bytes",
        INT,
        "4096",
        "Bytes of log between two index entries: smaller means shorter scans, larger indexes.",
        "log.index.interval.bytes",
        low=0,
    ),
    _row(
        "leader.replication.throttled.replicas",
        LIST,
        "",
        "Replicas whose fetching the leader's replication quota slows down, or *.",
        check=check_throttled_replicas,
    ),
    _row(
        "local.retention.bytes",
        LONG,
        "-2",
        "Tiered storage only: bytes kept on local disks; -2 means retention.bytes.",
        "log.local.retention.bytes",
        low=-2,
        support=IGNORED,
    ),
    _row(
        "local.retention.ms",
        LONG,
        "-2",
        "Tiered storage only: age kept on local disks; -2 means retention.ms.",
        "log.local.retention.ms",
        low=-2,
        support=IGNORED,
    ),
    _row(
        "max.compaction.lag.ms",
        LONG,
        str(LONG_MAX),
        "Compact a log at the latest when its oldest uncompacted record is this old.",
        "log.cleaner.max.compaction.lag.ms",
        low=1,
    ),
    _row(
        "max.message.bytes",
        INT,
        "1048588",
        "The largest record batch that producers may append, as it is stored.",
        "message.max.bytes",
        low=0,
    ),
    _row(
        "message.timestamp.after.max.ms",
        LONG,
        "3600000",
        "How far ahead of the broker's clock a producer's timestamp may be.",
        "log.message.timestamp.after.max.ms",
        low=0,
    ),
    _row(
        "message.timestamp.before.max.ms",
        LONG,
        str(LONG_MAX),
        "How far behind the broker's clock a producer's timestamp may be.",
        "log.message.timestamp.before.max.ms",
        low=0,
    ),
    _row(
        "message.timestamp.type",
        STRING,
        "CreateTime",
        "Whose clock a record's timestamp comes from: the producer's or the broker's.",
        "log.message.timestamp.type",
        choices=("CreateTime", "LogAppendTime"),
    ),
    _row(
        "min.cleanable.dirty.ratio",
        DOUBLE,
        "0.5",
        "The share of a log that must be uncompacted before compaction is worth its cost.",
        "log.cleaner.min.cleanable.ratio",
        low=0,
        high=1,
    ),
    _row(
        "min.compaction.lag.ms",
        LONG,
        "0",
        "Records younger than this are never compacted away.",
        "log.cleaner.min.compaction.lag.ms",
        low=0,
    ),
    _row(
        "min.insync.replicas",
        INT,
        "1",
        "How many replicas must be in sync for a write with acks=all to be accepted.",
        "min.insync.replicas",
        low=1,
    ),
    _row(
        "preallocate",
        BOOLEAN,
        "false",
        "Reserve a new segment's full size on disk when it is created.",
        "log.preallocate",
    ),
    _row(
        "remote.log.copy.disable",
        BOOLEAN,
        "false",
        "Tiered storage only: stop copying segments away.",
        support=IGNORED,
    ),
    _row(
        "remote.log.delete.on.disable",
        BOOLEAN,
        "false",
        "Tiered storage only: delete the copies when it is switched off.",
        support=IGNORED,
    ),
    _row(
        "remote.storage.enable",
        BOOLEAN,
        "false",
        "Tiered storage, which this broker does not have.",
        support=DEFAULT_ONLY,
    ),
    _row(
        "retention.bytes",
        LONG,
        "-1",
        "Delete the oldest segments while a partition is larger than this; -1 for no limit.",
        "log.retention.bytes",
    ),
    _row(
        "retention.ms",
        LONG,
        "604800000",
        "Delete segments whose newest record is older than this; -1 for no limit.",
        "log.retention.ms",
        ("log.retention.minutes", MINUTE_MS),
        ("log.retention.hours", HOUR_MS),
        low=-1,
    ),
    _row(
        "segment.bytes",
        INT,
        "1073741824",
        "The size at which a new segment file is begun; retention works on whole segments.",
        "log.segment.bytes",
        low=1048576,
    ),
    _row(
        "segment.index.bytes",
        INT,
        "10485760",
        "The largest size of a segment's index files.",
        "log.index.size.max.bytes",
        low=4,
    ),
    _row(
        "segment.jitter.ms",
        LONG,
        "0",
        "Spreads segment.ms by up to this much, so that many logs do not roll at once.",
        "log.roll.jitter.ms",
        ("log.roll.jitter.hours", HOUR_MS),
        low=0,
    ),
    _row(
        "segment.ms",
        LONG,
        "604800000",
        "The age at which a new segment is begun even if the old one is not full.",
        "log.roll.ms",
        ("log.roll.hours", HOUR_MS),
        low=1,
    ),
    _row(
        "unclean.leader.election.enable",
        BOOLEAN,
        "false",
        "Let a replica that is behind lead when no other is left, at the price of lost records.",
        "unclean.leader.election.enable",
    ),
)

BY_KEY: Final = by_name(TOPIC_SETTINGS)
