"""A topic is copied in transactions by each client, under kills of brokers and copiers (TXN-9).

`python -m tests.interop.transactional_copy` does the same with a million records and 50 kills, and
with librdkafka, whose copiers stand still now and then (docs/findings.md, Open).
"""

import asyncio
import os
import time
from pathlib import Path

import pytest

from tests.interop.transactional_copy import Copying

pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(600)]

RECORDS = 20_000
KILLS = 4
CLIENTS = ("own", "java", "franz-go")


@pytest.mark.parametrize("client", CLIENTS)
def test_a_copy_has_each_record_once_in_order(client: str, tmp_path: Path) -> None:
    """Exactly once from end to end, whoever is killed when."""
    seed = int(os.environ.get("BARNABAS_SEED", str(time.time_ns() % 10**6)))
    print(f"seed {seed}")
    copying = Copying(client, tmp_path, RECORDS, seed)
    assert asyncio.run(copying.run(KILLS)) == []
