"""franz-go's own tests of transactions, groups and share groups, against three brokers.

They are chains of consumers that read what the one before has written, with members that come and
go, of every protocol and assignor; they fail on a record that is lost, doubled or out of order.
`KGO_TEST_RECORDS` says how many records go through (2,000 here, 500,000 in franz-go's own runs).
"""

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.support.barnabas_cluster import BarnabasCluster
from tests.support.source_suites import franz_go_tests

pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(3600)]

RECORDS = os.environ.get("KGO_TEST_RECORDS", "2000")
TESTS = (
    "TestTxnEtl",
    "TestGroupETL",
    "TestShareGroupETL",
    "TestShareGroupAckOnClose",
    "TestShareGroupOffsetsAdmin",
)
# As franz-go's own runs have it: members that release, close and are killed end more than the five
# attempts of a record by default, and what is archived then never reaches the next step.
BROKERS = {"group.share.delivery.count.limit": "10"}
# TestTxnEtl and TestGroupETL have six parts each: three assignors, KIP-848, static members.
PASSED_AT_LEAST = len(TESTS) + 12
_OUTCOME = re.compile(r"^ *--- (PASS|FAIL|SKIP): (\S+)", re.MULTILINE)
# What a test says, but for the names of what it deletes in the end.
_TOLD = re.compile(r"^ *\w+_test\.go:\d+: (?!deleting).*$", re.MULTILINE)


def test_the_tests_of_franz_go_pass_and_none_skips_itself(tmp_path: Path) -> None:
    """TXN-2 to TXN-5: a chain of steps is exactly once, whoever leaves in the middle."""
    with BarnabasCluster(tmp_path / "cluster", properties=BROKERS) as cluster:
        result = subprocess.run(
            [franz_go_tests(), "-test.v", f"-test.run=^({'|'.join(TESTS)})$", "-test.timeout=55m"],
            cwd=tmp_path,
            env={
                **os.environ,
                "KGO_SEEDS": cluster.bootstrap,
                "KGO_TEST_RECORDS": RECORDS,
                "KGO_TEST_RF": "3",
                "KGO_LOG_LEVEL": "none",
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
    outcomes = {name: outcome for outcome, name in _OUTCOME.findall(result.stdout)}
    others = {name: outcome for name, outcome in outcomes.items() if outcome != "PASS"}
    told = "\n".join(_TOLD.findall(result.stdout))
    assert result.returncode == 0 and not others, f"{others}\n{told}\n{result.stdout[-3000:]}"
    assert set(TESTS) <= set(outcomes)
    assert len(outcomes) >= PASSED_AT_LEAST, sorted(outcomes)
    print(f"franz-go: {len(outcomes)} passed with {RECORDS} records")
