"""`format("barnabas")`: topics as a source and a sink that needs no jars.

    spark.dataSource.register(BarnabasDataSource)
    spark.read.format("barnabas").option("bootstrapServers", "localhost:9092")...

`barnabas_pipelines.session` registers it. Options are those of Spark's Kafka connector
(`barnabas_pipelines.options`), and so are the columns (`barnabas_pipelines.schema`).

Not here: reading (`batch_reader.py`, `stream_reader.py`), writing (`writers.py`); each is imported
only by those who need it, because this module is loaded in every worker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader

from barnabas_pipelines.errors import OptionsError, with_plain_errors
from barnabas_pipelines.option_table import Use
from barnabas_pipelines.options import Options, parse_options
from barnabas_pipelines.schema import ddl

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter
    from pyspark.sql.types import StructType


class BarnabasDataSource(DataSource):
    """What Spark makes of `format("barnabas")` and its options."""

    @classmethod
    def name(cls) -> str:
        """The word for `format`."""
        return "barnabas"

    def schema(self) -> str:
        """The connector's columns."""
        include_headers = dict(self.options).get("includeheaders", "false").strip().lower()
        return ddl(include_headers=include_headers == "true")

    @with_plain_errors
    def reader(self, schema: StructType) -> DataSourceReader:
        """For a batch read.

        Raises: OptionsError.
        """
        from barnabas_pipelines.datasource.batch_reader import BarnabasBatchReader

        return BarnabasBatchReader(self._checked(Use.BATCH_READ))

    @with_plain_errors
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """For a streaming read.

        Raises: OptionsError.
        """
        from barnabas_pipelines.datasource.stream_reader import BarnabasStreamReader

        return BarnabasStreamReader(self._checked(Use.STREAM_READ))

    @with_plain_errors
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """For a batch write.

        Raises: OptionsError, ColumnsError; OptionsError for the mode overwrite.
        """
        from barnabas_pipelines.datasource.writers import BatchWriter

        if overwrite:
            raise OptionsError("Save mode overwrite not allowed: a topic can only be appended to")
        return BatchWriter(self.options, schema, Use.BATCH_WRITE)

    @with_plain_errors
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        """For a streaming write; complete output is appended batch by batch.

        Raises: OptionsError, ColumnsError.
        """
        from barnabas_pipelines.datasource.writers import StreamWriter

        return StreamWriter(self.options, schema, Use.STREAM_WRITE)

    def _checked(self, use: Use) -> Options:
        return parse_options(dict(self.options), use)
