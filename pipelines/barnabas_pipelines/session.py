"""A Spark session that can read and write topics, on a laptop as in a cluster.

    from barnabas_pipelines import session
    spark = session("orders")                      # all cores of this machine
    spark = session("orders", master="local[2]", conf={"spark.driver.memory": "2g"})

What it decides: the jars of the connector and of Delta Lake are on the class path, the Python
source `barnabas` is registered, workers run the Python that runs this, times are in UTC. What
`spark-submit` has set wins over what is set here, and everything in `conf` over both.

Not here: which jars (`jars.py`), reading and writing (`sources.py`, `sinks.py`). Nothing of ours is
imported at the top, because the package imports this module.
"""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_WITHOUT_CONNECTOR: Final = ', or read and write with via="python", which needs none'
_LOCAL_SHUFFLE_PARTITIONS: Final = 8
"""Spark's 200 are for clusters: here each is a task of some milliseconds, and a state store."""

REDACTED: Final = (
    "(?i)secret|password|token|access[.]?key|jaas|credential"
    "|keystore[._]key|key[._]pem|-----BEGIN [A-Z ]*PRIVATE KEY"
)
"""What Spark shows to nobody: names and values of settings that this pattern is in."""

_DEFAULTS: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.showConsoleProgress": "false",
    # A web server that hardly anybody looks at; it listens on all addresses.
    "spark.ui.enabled": "false",
    # Spark's own pattern, and what holds a password or a key under other names (SEC-103).
    "spark.redaction.regex": REDACTED,
    "spark.sql.redaction.options.regex": f"(?i)url|{REDACTED.removeprefix('(?i)')}",
}
_TABLE_DEFAULTS: Final = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
_one_thread: Final = threading.Lock()
"""Held by the thread that changes what the process has once: `SPARK_HOME`, the environment."""
_WRITTEN_BY_STREAMS: Final = (
    "SPARK_LOCAL_DIRS",
    "SPARK_AUTH_SOCKET_TIMEOUT",
    "SPARK_BUFFER_SIZE",
    "SPARK_PYTHON_RUNTIME",
)
_LOCAL_DEFAULTS: Final = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": str(_LOCAL_SHUFFLE_PARTITIONS),
    # Delta's fifty, and ten thousand for VACUUM, are for clusters too.
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": str(_LOCAL_SHUFFLE_PARTITIONS),
}


def session(
    app_name: str,
    *,
    master: str | None = None,
    with_connector: bool = True,
    with_tables: bool = False,
    conf: Mapping[str, str] | None = None,
    log_level: str = "WARN",
) -> SparkSession:
    """The session of this process, started if there is none.

    Without a `master` it is what `spark-submit` says, or else all cores of this machine. Without
    the connector only `via="python"` can be used, without tables nothing of Delta Lake's; without
    both no jars are needed. Of a session that is running already only what is in `conf` is changed.
    Raises: JarsMissingError if what is wanted is not to be had.
    """
    from pyspark.sql import SparkSession

    from barnabas_pipelines.jars import CONNECTOR, CONNECTOR_CLASS, DELTA, DELTA_CLASS

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    is_running = SparkSession.getActiveSession() is not None
    settings: dict[str, bool | float | int | str | None] = {}
    if not is_running:
        wanted = [*(CONNECTOR if with_connector else ()), *(DELTA if with_tables else ())]
        more = _TABLE_DEFAULTS if with_tables else {}
        settings.update(_defaults(master, wanted, more))
    settings.update(conf or {})
    with _one_thread, home_without_zip():
        spark = SparkSession.builder.appName(app_name).config(map=settings).getOrCreate()
    if not is_running:
        spark.sparkContext.setLogLevel(log_level)
    if with_connector:
        _check_class(spark, CONNECTOR_CLASS, "the Kafka connector", _WITHOUT_CONNECTOR)
    if with_tables:
        _check_class(spark, DELTA_CLASS, "Delta Lake", "")
    _register_source(spark)
    return spark


def _defaults(master: str | None, wanted: Sequence[str], more: Mapping[str, str]) -> dict[str, str]:
    """What a session is started with, but for what `spark-submit` has set already."""
    from pyspark import SparkConf, SparkContext

    submitted: dict[str, str] = {}
    if _is_submitted():
        SparkContext._ensure_initialized()
        submitted = dict(SparkConf().getAll())
    elif master is None:
        master = "local[*]"
    found = {**_DEFAULTS, **more}
    if re.fullmatch(r"local(\[.*\])?", master or submitted.get("spark.master", "")):
        # The machine's name may not resolve, and nobody else is to connect.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        found |= _LOCAL_DEFAULTS
    if wanted and not _is_submitted() and (jars := _jars_to_name(wanted)):
        found["spark.jars"] = ",".join(jars)
    kept = {key: value for key, value in found.items() if key not in submitted}
    return kept if master is None else {**kept, "spark.master": master}


@contextmanager
def home_without_zip() -> Iterator[None]:
    """Start Spark in a home whose workers import the pyspark that is installed.

    Spark puts `python/lib/pyspark.zip` of its home before all other modules. That archive holds no
    byte code, so that each of the processes that Spark starts for a source in Python would compile
    pyspark anew. The home that is made here has links to all but that folder. Only for pip's Spark,
    whose package is the same pyspark.
    """
    from barnabas_pipelines.jars import cache_directory, pip_home

    before, installed = os.environ.get("SPARK_HOME"), pip_home()
    is_other = before is not None and Path(before).resolve() != installed
    if _is_submitted() or installed is None or is_other or not (installed / "python").is_dir():
        yield
        return
    home = cache_directory() / "homes" / str(installed).strip("/").replace("/", "-")
    try:
        home.mkdir(parents=True, exist_ok=True)
        for found in installed.iterdir():
            if found.name != "python" and not (home / found.name).is_symlink():
                _link(home / found.name, found)
    except OSError:  # a cache that cannot be written: Spark starts as it does by itself
        yield
        return
    os.environ["SPARK_HOME"] = str(home)
    try:
        yield
    finally:
        if before is None:
            del os.environ["SPARK_HOME"]
        else:
            os.environ["SPARK_HOME"] = before


def _link(link: Path, target: Path) -> None:
    with suppress(FileExistsError):  # another process has made it
        link.symlink_to(target)


def _is_submitted() -> bool:
    """Whether `spark-submit` has started the JVM already."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def _jars_to_name(wanted: Sequence[str]) -> list[str]:
    """These jars, unless they are in Spark's own folder.

    Those are loaded without being named, by executors, too; named ones are sent to executors, which
    write them into their working directory. Raises: JarsMissingError.
    """
    from barnabas_pipelines.jars import find_jars, spark_jar_folders

    own = spark_jar_folders()
    return [str(jar) for jar in find_jars(coordinates=wanted) if jar.parent not in own]


def _check_class(spark: SparkSession, name: str, what: str, otherwise: str) -> None:
    """Make sure that the driver can load it; the jars of a running JVM cannot be added to."""
    from py4j.protocol import Py4JJavaError

    from barnabas_pipelines.jars import JarsMissingError

    jvm = spark._jvm
    assert jvm is not None
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    try:
        loader.loadClass(name)
    except Py4JJavaError:
        raise JarsMissingError(
            f"this Spark was started without {what}; give spark-submit the jars that "
            f"python -m barnabas_pipelines.jars prints, as --jars a,b,...{otherwise}"
        ) from None


def _register_source(spark: SparkSession) -> None:
    """Let `format("barnabas")` be known, with an environment that streams can share.

    Each stream that starts writes a few variables into the one environment of the registered
    source, a `HashMap` without a lock. Two that start together could both add a key, and the map
    counted more entries than it had: no task that reads this source could be sent from then on.
    Keys that are there already are only written over, which harms nobody.

    The context gets another dictionary meanwhile, instead of more keys in its own: another thread
    may be going through that.
    """
    from barnabas_pipelines.datasource.source import BarnabasDataSource

    context = spark.sparkContext
    with _one_thread:
        before = context.environment
        context.environment = {**dict.fromkeys(_WRITTEN_BY_STREAMS, ""), **before}
        try:
            spark.dataSource.register(BarnabasDataSource)
        finally:
            context.environment = before
