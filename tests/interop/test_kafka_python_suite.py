"""kafka-python's own integration tests, from its source distributions, against our address.

What is not run is listed with reasons in `left_out/kafka_python_*.txt`; everything else must pass,
and nothing may skip itself.
"""

import os
import subprocess
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from tests.interop.left_out import left_out
from tests.interop.started_brokers import AnyBroker
from tests.support.cache import python_environment
from tests.support.client_programs import INTEROP
from tests.support.source_suites import kafka_python_source

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]

# The suite's own brokers allow shorter sessions than Kafka's default.
BROKER_PROPERTIES = {"group.min.session.timeout.ms": "1000"}
# How many tests pass at least, so that a change of names cannot empty the suite unseen.
SUITES = {
    "kafka_python_3": ("3.0.12", "modern", 40),
    "kafka_python_2": ("2.3.3", "kafka_python_2", 30),
}


@pytest.mark.parametrize(
    "suite", ["kafka_python_3", pytest.param("kafka_python_2", marks=pytest.mark.long)]
)
def test_the_integration_tests_of_kafka_python_pass(
    suite: str, broker: AnyBroker, tmp_path: Path
) -> None:
    version, requirements, least = SUITES[suite]
    source = kafka_python_source(version)
    python = python_environment(requirements, INTEROP / "requirements" / f"{requirements}.txt")
    root = tmp_path / "kafka-root"  # the fixtures want a folder, for an external broker any
    root.mkdir()
    report = tmp_path / "report.xml"
    # A module as a whole is ignored, a test is deselected by its name.
    excluded = [
        f"--deselect=test/integration/{name}"
        if "::" in name
        else f"--ignore=test/integration/{name}"
        for name in left_out(suite)
    ]
    options = ["-q", "-rfEs", "-p", "no:cacheprovider", "--timeout=60", "--show-capture=no"]
    result = subprocess.run(
        [python, "-m", "pytest", "test/integration", *options, f"--junitxml={report}", *excluded],
        cwd=source,
        env={
            **os.environ,
            "KAFKA_URI": f"PLAINTEXT://{broker.bootstrap}",
            "KAFKA_VERSION": "4.1.1",
            "KAFKA_ROOT": str(root),
            "PYTHONDONTWRITEBYTECODE": "1",
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=800,
        check=False,
    )
    assert report.exists(), result.stdout[-4000:] + result.stderr[-4000:]
    outcomes: dict[str, list[str]] = {"passed": [], "failure": [], "error": [], "skipped": []}
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        marks = [child.tag for child in case if child.tag in outcomes]
        outcomes[marks[0] if marks else "passed"].append(str(case.get("name")))
    bad = outcomes["failure"] + outcomes["error"] + outcomes["skipped"]
    assert not bad, f"{bad}\n{result.stdout[-8000:]}"
    assert len(outcomes["passed"]) >= least
    print(f"{suite}: {len(outcomes['passed'])} passed, {len(left_out(suite))} left out")
