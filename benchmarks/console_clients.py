"""Who loads brokers and a console in `console_load.py`: producers and browsers' tabs.

    python -m benchmarks.console_clients flood BOOTSTRAP TOPIC RECORDS_PER_SECOND
    python -m benchmarks.console_clients paced BOOTSTRAP TOPIC RECORDS_PER_SECOND SECONDS
    python -m benchmarks.console_clients tabs ADDRESS TOPIC TABS SCANS

Processes of their own, so that none waits for another's interpreter. `flood` and `tabs` go on until
their standard input ends; each prints a line of JSON at its end. A tab polls what the page of its
kind polls, as often, with ETags; one follows the flooded topic, and scans begin again when they
have ended.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, Final

import aiohttp

from barnabas_client.producer.producer import Producer

VALUE: Final = b'{"amount":120,"currency":"EUR","customer":"' + b"x" * 50 + b'"}'
_TICK_SECONDS: Final = 0.01
_HEADERS: Final = {"X-Barnabas-Console": "1"}
#: What pages poll, and after how many seconds again.
PAGES: Final = (
    ("overview", 2.0),
    ("topics?sort=topic&limit=100", 4.0),
    ("topics?sort=-records_per_second&limit=100", 4.0),
    ("groups?limit=100", 4.0),
    ("brokers", 3.0),
    ("timeline", 4.0),
)
_SCAN_PAUSE_SECONDS: Final = 0.2


async def flood(bootstrap: str, topic: str, per_second: int, stop: asyncio.Event) -> dict[str, Any]:
    """Write so many records a second; says how many were written."""
    sent, began = 0, time.monotonic()
    async with Producer(bootstrap, acks=1, enable_idempotence=False) as producer:
        while not stop.is_set():
            due = int((time.monotonic() - began) * per_second)
            if due > sent:
                await producer.send_many(topic, [VALUE] * (due - sent))
                sent = due
            await asyncio.sleep(_TICK_SECONDS)
        await producer.flush()
    return {"per_second": round(sent / (time.monotonic() - began))}


async def paced(bootstrap: str, topic: str, per_second: int, seconds: float) -> dict[str, Any]:
    """Write single records at a steady pace; milliseconds from when each was due."""
    latencies: list[float] = []
    tasks: set[asyncio.Task[None]] = set()

    async def measure(delivery: Any, due: float) -> None:
        await delivery
        latencies.append((time.monotonic() - due) * 1000)

    async with Producer(bootstrap, linger_ms=0) as producer:
        await producer.send(topic, VALUE)
        began = time.monotonic()
        for number in range(int(per_second * seconds)):
            due = began + number / per_second
            if (wait := due - time.monotonic()) > 0:
                await asyncio.sleep(wait)
            task = asyncio.ensure_future(measure(producer.send(topic, VALUE), due))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
        await asyncio.gather(*tasks)
    cut = statistics.quantiles(latencies, n=100)
    return {"p50": cut[49], "p99": cut[98]}


class Tabs:
    """Tabs at one console; counts what they were answered."""

    def __init__(self, address: str, topic: str) -> None:
        self._api = f"{address}/api/v1"
        self._topic = topic
        self.statuses: Counter[str] = Counter()
        self.milliseconds: list[float] = []
        self.came = self.shown = self.missed = self.scans = 0

    async def poll(self, session: aiohttp.ClientSession, path: str, pause: float) -> None:
        """A page that is looked at."""
        etag = ""
        while True:
            began = time.monotonic()
            headers = {"If-None-Match": etag} if etag else {}
            async with session.get(f"{self._api}/{path}", headers=headers) as response:
                await response.read()
                etag = response.headers.get("ETag", "")
                self.statuses[str(response.status)] += 1
            self.milliseconds.append((time.monotonic() - began) * 1000)
            await asyncio.sleep(pause)

    async def tail(self, session: aiohttp.ClientSession) -> None:
        """Follow the topic."""
        async with session.get(f"{self._api}/topics/{self._topic}/tail") as response:
            self.statuses[f"tail {response.status}"] += 1
            is_progress = False
            async for line in response.content:
                if line.startswith(b"event:"):
                    is_progress = line.strip() == b"event: progress"
                elif is_progress and line.startswith(b"data:"):
                    data = json.loads(line[5:])
                    self.came += data["came"]
                    self.shown += data["shown"]
                    self.missed += data["missed"]

    async def scan(self, session: aiohttp.ClientSession) -> None:
        """Search through the topic for what is not there, again and again."""
        body = {"filter": "json.amount>100000", "at": "oldest"}
        while True:
            async with session.post(
                f"{self._api}/topics/{self._topic}/scan", json=body
            ) as response:
                self.statuses[f"scan {response.status}"] += 1
                async for _ in response.content:
                    pass
                self.scans += response.status == 200
            await asyncio.sleep(_SCAN_PAUSE_SECONDS)


async def tabs(
    address: str, topic: str, count: int, scans: int, stop: asyncio.Event
) -> dict[str, Any]:
    """So many tabs that poll, one of which follows, and scans; each is a browser of its own."""
    loaded = Tabs(address, topic)
    began = time.monotonic()
    sessions = [
        aiohttp.ClientSession(
            headers={**_HEADERS, "X-Barnabas-Browser": f"browser-{number}"},
            timeout=aiohttp.ClientTimeout(total=None, sock_read=60),
        )
        for number in range(count)
    ]
    work: list[Awaitable[None]] = [loaded.tail(sessions[0])]
    work += [loaded.scan(sessions[1 + number]) for number in range(scans)]
    work += [
        loaded.poll(session, *PAGES[number % len(PAGES)]) for number, session in enumerate(sessions)
    ]
    tasks = [asyncio.ensure_future(one) for one in work]
    await asyncio.wait({asyncio.ensure_future(stop.wait()), *tasks}, return_when="FIRST_COMPLETED")
    failed = [str(task.exception()) for task in tasks if task.done() and task.exception()]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for session in sessions:
        await session.close()
    seconds = time.monotonic() - began
    return {
        "statuses": dict(loaded.statuses),
        "poll_ms_median": statistics.median(loaded.milliseconds),
        "poll_ms_p99": statistics.quantiles(loaded.milliseconds, n=100)[98],
        "tail_per_second": round(loaded.came / seconds),
        "tail_shown_per_second": round(loaded.shown / seconds),
        "tail_missed": loaded.missed,
        "scans": loaded.scans,
        "failed": failed,
    }


async def _until_told(work: Callable[[asyncio.Event], Awaitable[dict[str, Any]]]) -> dict[str, Any]:
    """Work until the standard input ends."""
    stop = asyncio.Event()
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)

    async def watch() -> None:
        await reader.read()
        stop.set()

    watching = asyncio.ensure_future(watch())
    try:
        return await work(stop)
    finally:
        watching.cancel()


def main(kind: str, *given: str) -> None:
    """Do what one of the lines above says."""
    if kind == "paced":
        bootstrap, topic, rate, seconds = given
        told = asyncio.run(paced(bootstrap, topic, int(rate), float(seconds)))
    elif kind == "flood":
        bootstrap, topic, rate = given
        told = asyncio.run(_until_told(lambda stop: flood(bootstrap, topic, int(rate), stop)))
    else:
        address, topic, count, scans = given
        told = asyncio.run(
            _until_told(lambda stop: tabs(address, topic, int(count), int(scans), stop))
        )
    print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
