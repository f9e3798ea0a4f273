"""The examples of examples/spark as programs, over what the example of a client has written."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from deltalake import DeltaTable

from barnabas_testing.broker import Broker

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]
EXAMPLES = Path(__file__).resolve().parents[3] / "examples"


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    """A broker with the orders of the client's example."""
    with Broker() as broker:
        run(broker.bootstrap_servers, str(EXAMPLES / "clients" / "python" / "orders.py"))
        yield broker.bootstrap_servers


def run(bootstrap: str, *arguments: str) -> str:
    environment = {**os.environ, "BOOTSTRAP_SERVERS": bootstrap}
    return subprocess.run(
        [sys.executable, *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        timeout=300,
        check=True,
    ).stdout


def run_job(bootstrap: str, name: str, *others: str) -> str:
    """A job by its file, told where the broker is and where to write."""
    config = ("--config", str(EXAMPLES / "spark" / f"{name}.yaml"))
    where = ("--bootstrap-servers", bootstrap)
    return run(bootstrap, "-m", f"barnabas_pipelines.jobs.{name}", *config, *where, *others)


def test_the_example_counts_the_orders_of_each_customer(bootstrap: str) -> None:
    assert run(bootstrap, str(EXAMPLES / "spark" / "order_counts.py")).split("\n") == [
        "customer-0 4",
        "customer-1 3",
        "customer-2 3",
        "",
    ]


def test_the_archive_has_every_order(bootstrap: str, tmp_path: Path) -> None:
    table = tmp_path / "orders"
    run_job(bootstrap, "archive", "--path", str(table))
    rows = DeltaTable(str(table)).to_pyarrow_table(columns=["value"]).to_pylist()
    assert sorted(row["value"] for row in rows) == [b"order %d" % number for number in range(10)]


def test_the_rules_find_no_bad_order(bootstrap: str, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    folders = ("--dead-letter-table", str(tmp_path / "bad"), "--checkpoint", str(tmp_path / "at"))
    run_job(bootstrap, "quality", *folders, "--report", str(report))
    counts = json.loads(report.read_text(encoding="utf-8"))
    assert (counts["records"], counts["bad"]) == (10, 0)
