"""The two ways between Spark and topics, as names: `via="connector"` or `via="python"`.

The connector is Spark's own (`format("kafka")`, jars needed); the other is `format("barnabas")` of
this package. Options, schema and rows are the same; what differs is in docs/pipelines.md.

Not here: what the options mean (`options.py`).
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from barnabas_pipelines.errors import OptionsError
from barnabas_pipelines.options import Options, Use, parse_options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONNECTOR: Final = "connector"
PYTHON: Final = "python"
_FORMATS: Final = {CONNECTOR: "kafka", PYTHON: "barnabas"}

# Its executors ask for both ends of a partition once a poll, and a poll gives 500 records by
# default: with this a million records take 5 % of the requests and two thirds of the time. At the
# end of a partition a task waits for a fetch that nothing can come for, half a second by default: a
# million records of 12 partitions took 3.7 s in two tasks at once, and take 1.1 s with this.
_CONNECTOR_READ_DEFAULTS: Final = {
    "kafka.max.poll.records": "10000",
    "kafka.fetch.max.wait.ms": "50",
}


def format_and_options(
    given: Mapping[str, str], use: Use, via: str
) -> tuple[str, dict[str, str], Options]:
    """Spark's format, the options for it, and the checked ones.

    Raises: OptionsError.
    """
    if via not in _FORMATS:
        nearest = difflib.get_close_matches(via.lower(), _FORMATS, 1, 0.0)
        raise OptionsError(
            f"via={via!r} is neither connector nor python: did you mean {nearest[0]}?"
        )
    checked = parse_options(given, use, via=via)
    if via == PYTHON:
        return _FORMATS[via], dict(checked.given), checked
    defaults = _CONNECTOR_READ_DEFAULTS if use in (Use.BATCH_READ, Use.STREAM_READ) else {}
    return _FORMATS[via], {**defaults, **checked.connector_options()}, checked


def make_active(spark: SparkSession) -> None:
    """Let sources in Python be found from this thread.

    Spark looks them up in the active session of the thread alone, and a new thread has none.
    """
    from pyspark.sql import SparkSession

    if isinstance(spark, SparkSession):  # not that of Spark Connect, which has no JVM here
        java_class = SparkSession._get_j_spark_session_class(spark._jvm)
        java_class.setActiveSession(spark._jsparkSession)
