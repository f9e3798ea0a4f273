"""`python -m benchmarks.log_pairs OLD NEW ROUNDS`: the log of two checkouts, in turn.

Each is a folder with its own `.venv`. Told is the processor time of producing, fetching, a start
after a clean stop and the recovery of everything, as medians, and the median of the pairs: two
runs one after the other see the same machine.
"""

import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

LOGS = 4
BATCHES = 12_000
RECORDS = 10
TIMESTAMP = 1_700_000_000_000
FETCH_BYTES = 65_536
RUN_SECONDS_MAX = 600


class Times:
    """Processor time by what it was needed for."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def of(self, name: str) -> Iterator[None]:
        """Measure a block."""
        began = time.process_time()
        yield
        self.seconds[name] = time.process_time() - began


async def _measure(directory: Path) -> dict[str, float]:
    """What this checkout needs. Its own modules are imported here: the parent needs none."""
    from barnabas_protocol.records.record import Record, encode_batch
    from tests.broker.log.manager_fixtures import (
        TOPIC_ID,
        crash,
        manager_over,
        partition,
        topic_config,
    )

    records = [Record(n, TIMESTAMP, b"k%d" % n, bytes(100)) for n in range(RECORDS)]
    batch = encode_batch(records)
    config = topic_config(segment_bytes="1048576", retention_ms="-1")
    times = Times()

    async def produce(logs: list[Any]) -> None:
        for number in range(BATCHES):
            for log in logs:
                log.append_as_leader(bytearray(batch), 0, now_ms=TIMESTAMP)
                log.write_staged()
            if number % 500 == 0:
                await asyncio.sleep(0)
        for log in logs:
            log.advance_high_watermark(log.log_end_offset)
            await log.flush()

    names = [partition("t", index) for index in range(LOGS)]
    manager = manager_over(directory)
    await manager.load(lambda topic, topic_id: config)
    logs = [manager.create(name, TOPIC_ID, config) for name in names]
    with times.of("produce"):
        await produce(logs)
    with times.of("fetch"):
        for log in logs:
            log.local.tail.clear()
            offset = 0
            while offset < log.log_end_offset:
                read = await log.read(offset, FETCH_BYTES, log.log_end_offset)
                offset += read.size_bytes // len(batch) * RECORDS
    await manager.close(1)
    manager = manager_over(directory)
    with times.of("start"):
        await manager.load(lambda topic, topic_id: config)
    await produce([manager.logs[name] for name in names])
    crash(manager)
    (directory / "recovery-point-offset-checkpoint").unlink(missing_ok=True)
    manager = manager_over(directory)
    with times.of("recovery of everything"):
        await manager.load(lambda topic, topic_id: config)
    assert all(manager.logs[name].log_end_offset == 2 * BATCHES * RECORDS for name in names)
    crash(manager)
    return times.seconds


def _run(checkout: Path) -> dict[str, float]:
    """One run of a checkout, in a process of its own."""
    done = subprocess.run(
        [checkout / ".venv/bin/python", Path(__file__).resolve()],
        cwd=checkout,
        env={"PYTHONPATH": str(checkout), "PYTHONWARNINGS": "ignore"},
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS_MAX,
        check=False,
    )
    if done.returncode:
        sys.exit(f"{checkout}: {done.stderr[-2000:]}")
    found: dict[str, float] = json.loads(done.stdout)
    return found


def main() -> None:
    """Without arguments one run, as JSON; with two checkouts their pairs."""
    if len(sys.argv) == 1:
        with tempfile.TemporaryDirectory() as directory:
            print(json.dumps(asyncio.run(_measure(Path(directory)))))
        return
    checkouts = [Path(each).resolve() for each in sys.argv[1:3]]
    runs: list[list[dict[str, float]]] = [[], []]
    for number in range(int(sys.argv[3])):
        for side in (0, 1) if number % 2 == 0 else (1, 0):
            runs[side].append(_run(checkouts[side]))
    for name in runs[0][0]:
        pairs = list(zip(*([run[name] for run in side] for side in runs), strict=True))
        old, new = (statistics.median(column) for column in zip(*pairs, strict=True))
        ratio = statistics.median(after / before for before, after in pairs)
        print(f"{name:24} {old:7.3f} s {new:7.3f} s   new / old {ratio:.2f}")


if __name__ == "__main__":
    main()
