"""kill -9 under load, twenty times in a row, with an idempotent producer.

Every acknowledged record is there, in order, once. The clean stop at the end and the start after
it change nothing. `BARNABAS_KILLS` runs more rounds; the seed is printed and can be given in
`BARNABAS_SEED`.
"""

import os
import random
import subprocess
import time
from pathlib import Path

import pytest

from tests.interop.acknowledged_lines import TOPIC, check, line_count, wait_for_lines
from tests.interop.started_brokers import AnyBroker, start_broker
from tests.support.cache import python_environment
from tests.support.client_programs import CLIENT_ENVIRONMENT, INTEROP, REPOSITORY, all_clients
from tests.support.history import violations

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]

KILLS = int(os.environ.get("BARNABAS_KILLS", "20"))
PARTITIONS = 3


def test_the_checker_sees_loss_duplicates_and_disorder() -> None:
    acknowledged = {0: {0: 0, 1: 1, 2: 2}}
    assert violations(acknowledged, {0: [(0, 0), (1, 1), (2, 2), (3, 3)]}) == []
    assert violations(acknowledged, {0: [(0, 0), (1, 1)]}) == ["0: acknowledged 2 at 2 is lost"]
    assert len(violations(acknowledged, {0: [(0, 0), (1, 1), (2, 2), (3, 1)]})) == 1
    assert len(violations(acknowledged, {0: [(0, 0), (1, 2), (2, 1)]})) == 3
    assert len(violations(acknowledged, {0: [(1, 0), (1, 1), (2, 2)]})) == 2


def test_no_acknowledged_record_is_lost_doubled_or_moved_by_kills(
    broker_kind: str, tmp_path: Path
) -> None:
    """Kill -9 under load, 20 times in a row: each acknowledged record once and in order."""
    seed = int(os.environ.get("BARNABAS_SEED", str(time.time_ns() % 10**6)))
    print(f"seed {seed}")
    randomness = random.Random(seed)
    confluent = all_clients()[0]
    # Small segments and indexes, so that kills meet rolls as well.
    broker = start_broker(broker_kind, tmp_path / "broker", {"log.segment.bytes": "1048576"})
    load: subprocess.Popen[str] | None = None
    try:
        confluent.run(broker.bootstrap, [["create", TOPIC, str(PARTITIONS)]], tmp_path)
        acknowledged_path = tmp_path / "acknowledged.txt"
        load = start_load(broker, acknowledged_path, tmp_path / "load.log")
        counts, restarts = [], []
        for _ in range(KILLS):
            wanted = line_count(acknowledged_path) + randomness.randrange(100, 3000)
            wait_for_lines(acknowledged_path, wanted, load, broker)
            broker.kill()
            counts.append(line_count(acknowledged_path))
            restarts.append(broker.start())
        wait_for_lines(acknowledged_path, counts[-1] + 300, load, broker)
        output, _ = load.communicate(timeout=180)
        assert load.returncode == 0, output
        check(broker, acknowledged_path, tmp_path)
        broker.stop()
        broker.start()
        check(broker, acknowledged_path, tmp_path)
    finally:
        if load is not None and load.poll() is None:
            load.kill()
            load.communicate()
        if broker.process is not None and broker.process.is_running():
            broker.stop()
    slowest = max(restarts)
    total = line_count(acknowledged_path)
    print(f"{KILLS} kills, {total} records acknowledged, slowest restart {slowest:.2f} s")


def start_load(broker: AnyBroker, acknowledged: Path, log: Path) -> "subprocess.Popen[str]":
    acknowledged.touch()
    python = python_environment("modern", INTEROP / "requirements" / "modern.txt")
    module = "tests.interop.clients.steady_load"
    arguments = [broker.bootstrap, TOPIC, str(PARTITIONS), str(acknowledged)]
    return subprocess.Popen(
        [str(python), "-m", module, *arguments],
        cwd=REPOSITORY,
        env={**os.environ, **CLIENT_ENVIRONMENT},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
