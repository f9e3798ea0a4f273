"""The table of options: a row each, and what they can be used for.

Not here: checking what was given against it (`options.py`), the kinds of values
(`option_values.py`).

Source: the structured streaming and Kafka integration guide of Spark 4.2; rows that are not
`is_on_connector` are of this source alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from barnabas_client.config.client_settings import ClientSettings
from barnabas_client.config.consumer_settings import ConsumerSettings
from barnabas_client.config.producer_settings import ProducerSettings
from barnabas_pipelines.errors import OptionsError
from barnabas_pipelines.option_values import KINDS

LONG_MAX: Final = 2**63 - 1
INT_MAX: Final = 2**31 - 1


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
class Row:
    """One option. `default` is text as a user would give it; None is "not set"."""

    name: str
    kind: str
    uses: frozenset[Use]
    meaning: str
    default: str | None = None
    minimum: int | None = None
    maximum: int | None = None
    choices: tuple[str, ...] = ()
    is_required: bool = False
    #: Whether Spark's Kafka connector knows it as well.
    is_on_connector: bool = True

    def value(self, text: str) -> Any:
        """The text as a value of the option's kind, within its range.

        Raises: OptionsError.
        """
        try:
            found = KINDS[self.kind](text)
            if self.choices:
                found = self._choice(text)
            if self.minimum is not None and found < self.minimum:
                raise ValueError(f"the least is {self.minimum}")
            if self.maximum is not None and found > self.maximum:
                raise ValueError(f"the most is {self.maximum}")
        except ValueError as error:
            raise OptionsError(f"{self.name}={text!r}: {error}") from None
        return found

    def _choice(self, text: str) -> str:
        for choice in self.choices:
            if choice == text.strip().lower():
                return choice
        raise ValueError(f"it must be one of {', '.join(self.choices)}")


ROWS: Final[tuple[Row, ...]] = (
    Row(
        name="kafka.bootstrap.servers",
        kind="text",
        uses=ALL,
        is_required=True,
        meaning="Brokers to find the cluster through: `host:port`, several with commas. "
        "`bootstrapServers` is the same.",
    ),
    Row(
        name="subscribe",
        kind="names",
        uses=READS,
        meaning="The topics to read, with commas. One of subscribe, subscribePattern and assign "
        "must be given.",
    ),
    Row(
        name="subscribePattern",
        kind="pattern",
        uses=READS,
        meaning="Read all topics in whose names this regular expression (Python's) is found, those "
        "that a running query sees appear included; `^` and `$` stand for the ends of the name. "
        "Internal topics are left out.",
    ),
    Row(
        name="assign",
        kind="partitions",
        uses=READS,
        meaning='The partitions to read: `{"orders": [0, 1]}`.',
    ),
    Row(
        name="startingOffsets",
        kind="offsets",
        uses=READS,
        meaning="Where to begin: `earliest` (a batch's default), `latest` (a stream's default; not "
        'for a batch), or an offset for every partition: `{"orders": {"0": 23, "1": -2}}`; -2 is '
        "the earliest, -1 the latest. A stream that has a checkpoint goes on there; partitions "
        "that appear later begin at their first record.",
    ),
    Row(
        name="startingOffsetsByTimestamp",
        kind="timestamps",
        uses=READS,
        meaning="Begin at the first record that is not older, by partition: "
        '`{"orders": {"0": 1700000000000}}`, in milliseconds since 1970. Goes before '
        "startingOffsets.",
    ),
    Row(
        name="startingTimestamp",
        kind="int",
        uses=READS,
        minimum=0,
        maximum=LONG_MAX,
        meaning="The same for all partitions. Goes before startingOffsetsByTimestamp.",
    ),
    Row(
        name="startingOffsetsByTimestampStrategy",
        kind="text",
        uses=READS,
        default="error",
        choices=("error", "latest"),
        meaning="What a partition does whose records are all older: `error`, or begin at its end.",
    ),
    Row(
        name="endingOffsets",
        kind="offsets",
        uses=BATCH_READ,
        default="latest",
        meaning="Where a batch ends, exclusive: `latest`, or an offset for every partition; -1 is "
        "the latest.",
    ),
    Row(
        name="endingOffsetsByTimestamp",
        kind="timestamps",
        uses=BATCH_READ,
        meaning="End before the first record that is not older, by partition; at the end if all "
        "are older. Goes before endingOffsets.",
    ),
    Row(
        name="endingTimestamp",
        kind="int",
        uses=BATCH_READ,
        minimum=0,
        maximum=LONG_MAX,
        meaning="The same for all partitions. Goes before endingOffsetsByTimestamp.",
    ),
    Row(
        name="failOnDataLoss",
        kind="bool",
        uses=READS,
        default="true",
        meaning="Whether to fail when records that were to be read are gone (deleted by retention, "
        "topic made anew). With false, reading goes on at the first record there is, and a warning "
        "counts what is missing.",
    ),
    Row(
        name="includeHeaders",
        kind="bool",
        uses=READS,
        default="false",
        meaning="Whether there is a column `headers`.",
    ),
    Row(
        name="minPartitions",
        kind="int",
        uses=READS,
        minimum=1,
        maximum=INT_MAX,
        meaning="Cut the partitions of the topics into at least so many Spark partitions, in "
        "proportion to their records; by default one is one.",
    ),
    Row(
        name="maxRecordsPerPartition",
        kind="int",
        uses=READS,
        minimum=1,
        maximum=LONG_MAX,
        meaning="Cut them also so that none has more records.",
    ),
    Row(
        name="maxOffsetsPerTrigger",
        kind="int",
        uses=STREAM_READ,
        minimum=1,
        maximum=LONG_MAX,
        meaning="The most records of one trigger, shared in proportion to what each partition has.",
    ),
    Row(
        name="minOffsetsPerTrigger",
        kind="int",
        uses=STREAM_READ,
        minimum=1,
        maximum=LONG_MAX,
        meaning="Wait until there are so many records, but no longer than maxTriggerDelay.",
    ),
    Row(
        name="maxTriggerDelay",
        kind="duration",
        uses=STREAM_READ,
        default="15m",
        minimum=0,
        meaning="How long minOffsetsPerTrigger may wait: `500ms`, `10s`, `15m`, `2h`.",
    ),
    Row(
        name="kafka.isolation.level",
        kind="text",
        uses=READS,
        default="read_uncommitted",
        choices=("read_uncommitted", "read_committed"),
        meaning="With read_committed, records of open and aborted transactions are not read.",
    ),
    Row(
        name="kafkaConsumer.pollTimeoutMs",
        kind="int",
        uses=READS,
        default="120000",
        minimum=1,
        maximum=INT_MAX,
        meaning="A task fails when nothing comes for so many milliseconds, broker restarts "
        "included; Spark then tries it again.",
    ),
    Row(
        name="fetchOffset.numRetries",
        kind="int",
        uses=READS,
        default="3",
        minimum=0,
        maximum=INT_MAX,
        meaning="Accepted, without effect: the client repeats until kafka.default.api.timeout.ms.",
    ),
    Row(
        name="fetchOffset.retryIntervalMs",
        kind="int",
        uses=READS,
        default="10",
        minimum=0,
        maximum=LONG_MAX,
        meaning="Accepted, without effect: kafka.retry.backoff.ms is the client's.",
    ),
    Row(
        name="groupIdPrefix",
        kind="text",
        uses=READS,
        meaning="Accepted, without effect: this source has no group, and needs no right to one.",
    ),
    Row(
        name="arrowBatchRecords",
        kind="int",
        uses=READS,
        default="100000",
        minimum=1,
        maximum=1_000_000,
        is_on_connector=False,
        meaning="The most records that are handed to Spark at once.",
    ),
    Row(
        name="topic",
        kind="text",
        uses=WRITES,
        meaning="The topic of all rows; without it, a column `topic` says it.",
    ),
    Row(
        name="checkpointLocation",
        kind="text",
        uses=frozenset({Use.STREAM_WRITE}),
        meaning="Spark's own: where the query keeps its progress.",
    ),
)
