"""Two streaming queries of one job: neither goes on without the other.

Not here: what the queries do; each is a call that runs one to its end (`streaming.run_query`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_RETRY_SECONDS: Final = 0.2
"""A query that is to be stopped may not have started yet: so often it is looked for again."""


def run_pair(
    spark: SparkSession,
    first: tuple[str, Callable[[], None]],
    second: tuple[str, Callable[[], None]],
) -> None:
    """Run two queries, each given as its name and the call that runs it; return when both ended.

    The failure of one stops the other, and is raised.
    """
    first_name, run_first = first
    second_name, run_second = second
    failures: list[Exception] = []
    first_has_ended = threading.Event()

    def beside() -> None:
        try:
            run_second()
        except Exception as error:
            failures.append(error)
            while not first_has_ended.wait(_RETRY_SECONDS):
                _stop(spark, first_name)

    thread = threading.Thread(target=beside, name=second_name)
    thread.start()
    try:
        run_first()
    except BaseException:
        first_has_ended.set()
        while thread.is_alive():
            _stop(spark, second_name)
            thread.join(_RETRY_SECONDS)
        raise
    first_has_ended.set()
    thread.join()
    if failures:
        raise failures[0]


def _stop(spark: SparkSession, name: str) -> None:
    for query in spark.streams.active:
        if query.name == name:
            query.stop()
