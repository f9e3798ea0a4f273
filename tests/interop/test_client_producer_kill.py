"""kill -9 of the broker under load, again and again, with our own idempotent producer.

Every acknowledged record is there, once, in order and where the acknowledgement said; what was not
acknowledged is not there twice either (PRD-8, PRD-9). `BARNABAS_KILLS` runs more rounds; the seed
is printed and can be given in `BARNABAS_SEED`.
"""

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.interop.acknowledged_lines import check, line_count, wait_for_lines
from tests.interop.started_brokers import start_broker
from tests.support.client_programs import REPOSITORY, all_clients

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]

# Apache Kafka takes much longer to come back.
KILLS = {"barnabas": 8, "apache": 3}
PARTITIONS = 3
TOPIC = "killed"
LOAD = "tests.interop.clients.barnabas_steady_load"


@pytest.mark.parametrize("kind", ["barnabas", pytest.param("apache", marks=pytest.mark.long)])
def test_kills_of_the_broker_lose_double_and_move_nothing(kind: str, tmp_path: Path) -> None:
    """The producer repeats what was in flight and the broker knows what it has already."""
    kills = int(os.environ.get("BARNABAS_KILLS", KILLS[kind]))
    seed = int(os.environ.get("BARNABAS_SEED", str(time.time_ns() % 10**6)))
    print(f"seed {seed}")
    randomness = random.Random(seed)
    broker = start_broker(kind, tmp_path / "broker", {"log.segment.bytes": "1048576"})
    acknowledged = tmp_path / "acknowledged.txt"
    load: subprocess.Popen[str] | None = None
    try:
        all_clients()[0].run(broker.bootstrap, [["create", TOPIC, str(PARTITIONS)]], tmp_path)
        acknowledged.touch()
        load = subprocess.Popen(
            [sys.executable, "-m", LOAD, broker.bootstrap, TOPIC, str(PARTITIONS), acknowledged],
            cwd=REPOSITORY,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for _ in range(kills):
            wanted = line_count(acknowledged) + randomness.randrange(100, 3000)
            wait_for_lines(acknowledged, wanted, load, broker)
            broker.kill()
            broker.start()
        wait_for_lines(acknowledged, line_count(acknowledged) + 300, load, broker)
        output, _ = load.communicate(timeout=180)
        assert load.returncode == 0, output
        check(broker, acknowledged, tmp_path)
    finally:
        if load is not None and load.poll() is None:
            load.kill()
            load.communicate()
        if broker.process is not None and broker.process.is_running():
            broker.stop()
    print(f"{kills} kills, {line_count(acknowledged)} records acknowledged")
