"""Keys and values decoded by a schema registry, as columns of Spark. Needs pyspark.

Not here: how they are decoded (`decoding.py`).
"""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as sql

from barnabas_pipelines.registry.decoding import FIELDS, REASON, Reading, column_decoder
from barnabas_pipelines.registry.reading import ddl


def decoded(column: Column, reading: Reading) -> tuple[Column, Column]:
    """The fields of the bytes, and the reason where they cannot be decoded; null has neither.

    An action on them fails with a RegistryError if the registry is away.
    """

    @sql.arrow_udf(ddl(column_decoder(reading).type))  # type: ignore[attr-defined]
    def decode(values: pa.Array) -> pa.Array:
        """Return what the worker's own decoder finds."""
        from barnabas_pipelines.registry.decoding import column_decoder

        return column_decoder(reading).decode(values)

    found = decode(column)
    return found[FIELDS], found[REASON]
