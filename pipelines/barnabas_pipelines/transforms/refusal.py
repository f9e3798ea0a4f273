"""Refusing records: an action on a frame fails at the first one, with a line that names it."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql


def refuse(records: DataFrame, reason: Column, what: str, hint: str = "") -> DataFrame:
    """The same records; one that has a reason makes any action on them fail.

    Also an action that needs no column of them, such as counting. Records that were read from a
    topic, or rows that were made of one record each, are named by their offset. A hint, such as
    the option that decides about it, stands behind the reason.
    """
    names = [name for name in ("topic", "partition", "offset") if name in records.columns]
    parts = [sql.lit(f"{what}: ")]
    for name in names:
        parts += [sql.lit(f"{name} "), sql.col(name).cast("string"), sql.lit(", ")]
    parts[-1] = sql.lit(": ")
    refusal = sql.raise_error(
        sql.concat(*parts, reason, sql.lit(f" ({hint})" if hint else ""))
    ).cast("boolean")
    return records.where(sql.when(reason.isNull(), sql.lit(True)).otherwise(refusal))
