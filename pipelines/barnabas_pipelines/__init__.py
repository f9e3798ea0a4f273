"""Spark on topics: a source, a sink, visible progress and ready-made jobs, for PySpark.

    from barnabas_pipelines import read_topic, session

    spark = session("orders")
    read_topic(spark, {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "orders"}).show()

Names are imported when they are first used: options and plans are looked at without Spark.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

# At once, and not when first used: else the name would be that of the module.
from barnabas_pipelines.session import session as session

if TYPE_CHECKING:
    from barnabas_pipelines.datasource.source import BarnabasDataSource as BarnabasDataSource
    from barnabas_pipelines.progress import ProgressCommitter as ProgressCommitter
    from barnabas_pipelines.progress import attach as attach
    from barnabas_pipelines.sinks import write_topic as write_topic
    from barnabas_pipelines.sinks import write_topic_stream as write_topic_stream
    from barnabas_pipelines.sources import read_topic as read_topic
    from barnabas_pipelines.sources import read_topic_stream as read_topic_stream

_MODULE_BY_NAME: Final = {
    "BarnabasDataSource": "barnabas_pipelines.datasource.source",
    "ProgressCommitter": "barnabas_pipelines.progress",
    "attach": "barnabas_pipelines.progress",
    "read_topic": "barnabas_pipelines.sources",
    "read_topic_stream": "barnabas_pipelines.sources",
    "write_topic": "barnabas_pipelines.sinks",
    "write_topic_stream": "barnabas_pipelines.sinks",
}


def __getattr__(name: str) -> Any:
    """Import a name at its first use (PEP 562)."""
    module = _MODULE_BY_NAME.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the names that can be imported."""
    return sorted([*_MODULE_BY_NAME, "session"])
