"""Spark's Kafka connector counts exactly what was produced, in a batch and in a stream.

pyspark comes from a pinned requirement file, the connector's four jars from Maven; nothing is
resolved when the job runs. The clients inside are kafka-clients 3.9.0.
"""

import os
import subprocess
from pathlib import Path

import pytest

from tests.interop.conftest import AnyBroker
from tests.support.cache import python_environment, run
from tests.support.client_programs import CLIENT_ENVIRONMENT, INTEROP, REPOSITORY, all_clients
from tests.support.java_tools import maven_jars, require_java

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]

JARS = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.0",
    "org.apache.commons:commons-pool2:2.12.0",
)
PARTITIONS = 4
RECORDS = int(os.environ.get("BARNABAS_SPARK_RECORDS", "100000"))
MORE = 5000
TOPIC = "for-spark"


def total(count: int) -> int:
    return count * (count - 1) // 2


def test_a_batch_and_an_available_now_stream_count_what_was_produced(
    broker: AnyBroker, tmp_path: Path
) -> None:
    """Batch, batch since a time, stream with checkpoint, its continuation, and the sink."""
    require_java()
    jars = maven_jars("spark-kafka", JARS, is_transitive=False)
    python = python_environment("spark", INTEROP / "requirements" / "spark.txt")
    creation = [["create", TOPIC, str(PARTITIONS), "retention.ms=-1"]]
    all_clients()[0].run(broker.bootstrap, creation, tmp_path)
    produce(broker, 0, RECORDS)

    arguments = [broker.bootstrap, TOPIC, str(jars), str(tmp_path / "spark")]
    with subprocess.Popen(
        [str(python), "-m", "tests.interop.clients.spark_job", *arguments],
        cwd=REPOSITORY,
        # Workers of Spark start `python3` of the path unless they are told.
        env={**os.environ, **CLIENT_ENVIRONMENT, "PYSPARK_PYTHON": str(python)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as job:
        assert job.stdin is not None
        assert job.stdout is not None
        results, output = {}, []
        try:
            for line in job.stdout:
                output.append(line)
                if line.startswith("result "):
                    _, name, value = line.split()
                    results[name] = value
                    if name == "waiting":
                        produce(broker, RECORDS, RECORDS + MORE)
                        job.stdin.write("\n")
                        job.stdin.flush()
        finally:
            if job.poll() is None and "sink" not in results:
                job.kill()
    assert job.returncode == 0, "".join(output)[-6000:]

    each = RECORDS // PARTITIONS
    assert results["batch"] == f"{RECORDS},{RECORDS},{total(RECORDS)}"
    assert results["since"] == str(RECORDS - 500)
    assert results["partitions"] == ",".join(
        f"{partition}:{each}:{each - 1}" for partition in range(PARTITIONS)
    )
    assert results["stream"] == f"{RECORDS},{RECORDS},{total(RECORDS)}"
    grown = RECORDS + MORE
    assert results["resumed"] == f"{grown},{grown},{total(grown)}"
    assert results["sink"] == "1000"


def produce(broker: AnyBroker, first: int, last: int) -> None:
    python = python_environment("modern", INTEROP / "requirements" / "modern.txt")
    numbers = [str(PARTITIONS), str(first), str(last)]
    module = ["-m", "tests.interop.clients.numbered_records"]
    run(
        [python, *module, broker.bootstrap, TOPIC, *numbers],
        directory=REPOSITORY,
        environment=CLIENT_ENVIRONMENT,
    )
