"""The table of options, a row each; and the kinds of values that only Spark's users know.

Kinds, ranges and choices are checked by the engine of `barnabas_protocol.settings`.

Not here: checking what was given against the table (`options.py`).

Source: the forms, names and meanings are those of Spark's Kafka connector (integration guide of
Spark 4.2); rows that are not `is_on_connector` are of this source alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from barnabas_client.config.client_settings import ClientSettings
from barnabas_client.config.consumer_settings import ConsumerSettings
from barnabas_client.config.producer_settings import ProducerSettings
from barnabas_pipelines.errors import OptionsError
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.settings.kinds import (
    BOOLEAN,
    DURATION,
    FILLED_TEXT,
    INT_MAX,
    INTEGER,
    LONG_MAX,
    NAMES,
    Kind,
)
from barnabas_protocol.settings.setting import Setting, SettingError

#: What JSON says for "from the first record there is" and "behind the last one".
EARLIEST: Final = -2
LATEST: Final = -1

_OFFSETS_EXAMPLE: Final = '{"orders": {"0": 23, "1": -2}}'


def _pattern(value: str) -> re.Pattern[str]:
    """A regular expression for whole topic names."""
    try:
        return re.compile(FILLED_TEXT.read(value))
    except re.error as error:
        raise ValueError(f"it is no regular expression: {error}") from None


def _assignment(value: str) -> tuple[TopicPartition, ...]:
    """The partitions of `{"orders": [0, 1]}`, in order."""
    example = 'it must be JSON such as {"orders": [0, 1]}'
    found = set()
    for topic, partitions in _mapping(value, example).items():
        if not isinstance(partitions, list) or not partitions:
            raise ValueError(example)
        for partition in partitions:
            found.add(TopicPartition(topic, _number(partition, 0, example)))
    return tuple(sorted(found))


def _offsets(value: str) -> str | Mapping[TopicPartition, int]:
    """`earliest`, `latest`, or an offset per partition; EARLIEST and LATEST may be among them."""
    word = value.strip().lower()
    if word in ("earliest", "latest"):
        return word
    example = f"it must be earliest, latest or JSON such as {_OFFSETS_EXAMPLE}"
    return _per_partition(value, EARLIEST, example)


def _timestamps(value: str) -> Mapping[TopicPartition, int]:
    """Milliseconds since 1970 per partition."""
    example = 'it must be JSON such as {"orders": {"0": 1700000000000}}'
    return _per_partition(value, 0, example)


def _per_partition(value: str, least: int, example: str) -> dict[TopicPartition, int]:
    found = {}
    for topic, numbers in _mapping(value, example).items():
        if not isinstance(numbers, dict) or not numbers:
            raise ValueError(example)
        for partition, number in numbers.items():
            if not partition.strip().isdecimal():
                raise ValueError(example)
            found[TopicPartition(topic, int(partition))] = _number(number, least, example)
    return found


def _mapping(value: str, example: str) -> dict[str, Any]:
    try:
        found = json.loads(value)
    except ValueError:
        raise ValueError(example) from None
    if not isinstance(found, dict) or not found:
        raise ValueError(example)
    return found


def _number(value: Any, least: int, example: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ValueError(example)
    return value


PATTERN: Final = Kind("pattern", "a regular expression", _pattern)
PARTITIONS: Final = Kind("partitions", "partitions as JSON", _assignment)
OFFSETS: Final = Kind("offsets", "earliest, latest, or offsets as JSON", _offsets)
TIMESTAMPS: Final = Kind("timestamps", "times as JSON", _timestamps)


class Use(Enum):
    """What a data source is opened for; the value is the word in errors and tables."""

    BATCH_READ = "batch read"
    STREAM_READ = "stream read"
    BATCH_WRITE = "batch write"
    STREAM_WRITE = "stream write"

    @property
    def role(self) -> type[ClientSettings]:
        """The settings of the client that does the work."""
        return ConsumerSettings if self in READS else ProducerSettings


BATCH_READ: Final = frozenset({Use.BATCH_READ})
STREAM_READ: Final = frozenset({Use.STREAM_READ})
READS: Final = BATCH_READ | STREAM_READ
WRITES: Final = frozenset({Use.BATCH_WRITE, Use.STREAM_WRITE})
ALL: Final = READS | WRITES


@dataclass(frozen=True, slots=True, kw_only=True)
class Row(Setting):
    """One option of the source or the sink."""

    kind: Kind = FILLED_TEXT
    default: Any = None
    uses: frozenset[Use]
    #: Whether Spark's Kafka connector knows it as well.
    is_on_connector: bool = True

    def value(self, text: str) -> Any:
        """The text as a value of the option's kind, within its range. Raises: OptionsError."""
        try:
            return self.accept(text)
        except SettingError as error:
            raise OptionsError(f"{self.name}={text!r}: {error.reason}") from None


ROWS: Final[tuple[Row, ...]] = (
    Row(
        "kafka.bootstrap.servers",
        "Brokers to find the cluster through: `host:port`, several with commas. "
        "`bootstrapServers` is the same.",
        uses=ALL,
        is_required=True,
    ),
    Row(
        "subscribe",
        "The topics to read, with commas. One of subscribe, subscribePattern and assign "
        "must be given.",
        kind=NAMES,
        uses=READS,
    ),
    Row(
        "subscribePattern",
        "Read all topics in whose names this regular expression (Python's) is found, those "
        "that a running query sees appear included; `^` and `$` stand for the ends of the name. "
        "Internal topics are left out.",
        kind=PATTERN,
        uses=READS,
    ),
    Row("assign", 'The partitions to read: `{"orders": [0, 1]}`.', kind=PARTITIONS, uses=READS),
    Row(
        "startingOffsets",
        "Where to begin: `earliest` (a batch's default), `latest` (a stream's default; not "
        'for a batch), or an offset for every partition: `{"orders": {"0": 23, "1": -2}}`; -2 is '
        "the earliest, -1 the latest. A stream that has a checkpoint goes on there; partitions "
        "that appear later begin at their first record.",
        kind=OFFSETS,
        uses=READS,
    ),
    Row(
        "startingOffsetsByTimestamp",
        "Begin at the first record that is not older, by partition: "
        '`{"orders": {"0": 1700000000000}}`, in milliseconds since 1970. Goes before '
        "startingOffsets.",
        kind=TIMESTAMPS,
        uses=READS,
    ),
    Row(
        "startingTimestamp",
        "The same for all partitions. Goes before startingOffsetsByTimestamp.",
        kind=INTEGER,
        uses=READS,
        minimum=0,
        maximum=LONG_MAX,
    ),
    Row(
        "startingOffsetsByTimestampStrategy",
        "What a partition does whose records are all older: `error`, or begin at its end.",
        uses=READS,
        default="error",
        choices=("error", "latest"),
    ),
    Row(
        "endingOffsets",
        "Where a batch ends, exclusive: `latest`, or an offset for every partition; -1 is "
        "the latest.",
        kind=OFFSETS,
        uses=BATCH_READ,
        default="latest",
    ),
    Row(
        "endingOffsetsByTimestamp",
        "End before the first record that is not older, by partition; at the end if all "
        "are older. Goes before endingOffsets.",
        kind=TIMESTAMPS,
        uses=BATCH_READ,
    ),
    Row(
        "endingTimestamp",
        "The same for all partitions. Goes before endingOffsetsByTimestamp.",
        kind=INTEGER,
        uses=BATCH_READ,
        minimum=0,
        maximum=LONG_MAX,
    ),
    Row(
        "failOnDataLoss",
        "Whether to fail when records that were to be read are gone (deleted by retention, "
        "topic made anew). With false, reading goes on at the first record there is, and a warning "
        "counts what is missing.",
        kind=BOOLEAN,
        uses=READS,
        default="true",
    ),
    Row(
        "includeHeaders",
        "Whether there is a column `headers`.",
        kind=BOOLEAN,
        uses=READS,
        default="false",
    ),
    Row(
        "minPartitions",
        "Cut the partitions of the topics into at least so many Spark partitions, in "
        "proportion to their records; by default one is one.",
        kind=INTEGER,
        uses=READS,
        minimum=1,
        maximum=INT_MAX,
    ),
    Row(
        "maxRecordsPerPartition",
        "Cut them also so that none has more records.",
        kind=INTEGER,
        uses=READS,
        minimum=1,
        maximum=LONG_MAX,
    ),
    Row(
        "maxOffsetsPerTrigger",
        "The most records of one trigger, shared in proportion to what each partition has.",
        kind=INTEGER,
        uses=STREAM_READ,
        minimum=1,
        maximum=LONG_MAX,
    ),
    Row(
        "minOffsetsPerTrigger",
        "Wait until there are so many records, but no longer than maxTriggerDelay.",
        kind=INTEGER,
        uses=STREAM_READ,
        minimum=1,
        maximum=LONG_MAX,
    ),
    Row(
        "maxTriggerDelay",
        "How long minOffsetsPerTrigger may wait: `500ms`, `10s`, `15m`, `2h`.",
        kind=DURATION,
        uses=STREAM_READ,
        default="15m",
        minimum=0,
    ),
    Row(
        "kafka.isolation.level",
        "With read_committed, records of open and aborted transactions are not read.",
        uses=READS,
        default="read_uncommitted",
        choices=("read_uncommitted", "read_committed"),
    ),
    Row(
        "kafkaConsumer.pollTimeoutMs",
        "A task fails when nothing comes for so many milliseconds, broker restarts "
        "included; Spark then tries it again.",
        kind=INTEGER,
        uses=READS,
        default="120000",
        minimum=1,
        maximum=INT_MAX,
    ),
    Row(
        "fetchOffset.numRetries",
        "Accepted, without effect: the client repeats until kafka.default.api.timeout.ms.",
        kind=INTEGER,
        uses=READS,
        default="3",
        minimum=0,
        maximum=INT_MAX,
    ),
    Row(
        "fetchOffset.retryIntervalMs",
        "Accepted, without effect: kafka.retry.backoff.ms is the client's.",
        kind=INTEGER,
        uses=READS,
        default="10",
        minimum=0,
        maximum=LONG_MAX,
    ),
    Row(
        "groupIdPrefix",
        "Accepted, without effect: this source has no group, and needs no right to one.",
        uses=READS,
    ),
    Row(
        "arrowBatchRecords",
        "The most records that are handed to Spark at once.",
        kind=INTEGER,
        uses=READS,
        default="100000",
        minimum=1,
        maximum=1_000_000,
        is_on_connector=False,
    ),
    Row("topic", "The topic of all rows; without it, a column `topic` says it.", uses=WRITES),
    Row(
        "checkpointLocation",
        "Spark's own: where the query keeps its progress.",
        uses=frozenset({Use.STREAM_WRITE}),
    ),
)
