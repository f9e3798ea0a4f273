"""Rows to topics: the batch and the streaming sink of `format("barnabas")`.

What is guaranteed: at least once. In detail:

- A task returns only when the brokers have acknowledged every row of it (acks=all), so that a batch
  that Spark counts as written is in the log.
- Within one attempt of a task nothing is doubled or reordered within its partition: the
  producer is idempotent, also over repeated requests and a broker's restart.
- What a failed attempt had written stays, and its next attempt writes it again; so does a
  speculative twin of a task, and a micro-batch that is run again after a restart. Give rows a key
  and readers that keep the last one per key, or a number to recognise doubles by; leave
  `spark.speculation` off.

Commit and abort have nothing to do: there are no transactions.

Not here: columns (`record_rows.py`), the producer (`record_sender.py`), options (`options.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from barnabas_pipelines.datasource.record_rows import check_columns
from barnabas_pipelines.kafka_settings import PRODUCER_DEFAULTS
from barnabas_pipelines.option_table import Use
from barnabas_pipelines.options import parse_options

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


class _RowWriter:
    """Writes the rows of a task; pickled from the driver to the workers."""

    def __init__(self, options: Mapping[str, str], schema: StructType, use: Use) -> None:
        """Check options and columns. Raises: OptionsError, ColumnsError."""
        checked = parse_options(options, use)
        self._topic: str | None = checked["topic"]
        columns = [(field.name, field.dataType.simpleString()) for field in schema.fields]
        check_columns(columns, has_topic=self._topic is not None)
        self._settings: Mapping[str, Any] = {**PRODUCER_DEFAULTS, **checked.client_settings}

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Send the rows and wait for their acknowledgements."""
        from barnabas_pipelines.datasource.record_sender import record_sender

        batches = (batch for batch in iterator if batch.num_rows)
        first = next(batches, None)
        if first is None:
            return WriterCommitMessage()
        with record_sender(self._settings, self._topic) as sender:
            sender.send(first)
            for batch in batches:
                sender.send(batch)
            sender.finish()
        return WriterCommitMessage()


class BatchWriter(_RowWriter, DataSourceArrowWriter):
    """The sink of `DataFrame.write`."""


class StreamWriter(_RowWriter, DataSourceStreamArrowWriter):
    """The sink of `DataFrame.writeStream`."""
