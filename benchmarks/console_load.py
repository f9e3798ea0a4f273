"""What a console takes of a machine, and of brokers, under the load of its goals (CON-174).

    python -m benchmarks.console_load [--topics 10000] [--groups 1000] [--rounds 3] [--seconds 15]
        [--parts dev,idle,page,load]

Three brokers or more with topics of three partitions, groups, a console whose loop is watched; then
50 tabs that poll, one of which follows 50,000 records a second, four scans, and a Chromium. Prints
the table of goals; medians of rounds, and of what is compared the median of the ratios of pairs.
What other work takes of the machine is told beside it: latencies mean little in a crowd.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import aiohttp

from barnabas_client.admin.admin import Admin
from barnabas_client.admin.values.topics import NewTopic
from barnabas_client.cluster.offsets import OffsetAndMetadata
from barnabas_protocol.ids import TopicPartition
from benchmarks.console_paint import measured as painted
from benchmarks.quiet import OthersLoad
from tests.support.barnabas_cluster import BarnabasCluster
from tests.support.chromium import running_browser
from tests.support.console_process import ConsoleProcess, run
from tests.support.processes import free_ports

FLOODED: Final = "load"
PACED: Final = "paced"
FLOOD_RATE: Final = 50_000
PACED_RATE: Final = 5_000
TABS: Final = 50
SCANS: Final = 4
_BATCH: Final = 200
_DEV_ROUNDS: Final = 3
_DEADLINE_SECONDS: Final = 180.0
_MIB: Final = 2**20
_OTHER_REPLICAS: Final = 100
#: What is in answers once the console has read topics, and has looked at traffic and groups.
_TOLD: Final = {"topics": '"total":', "series?names=cluster:arriving:": '"t":[1'}
_PROPERTIES: Final = {
    "min.insync.replicas": "1",
    # A broker that waits for its turn on a crowded machine lives all the same.
    "broker.session.timeout.ms": "30000",
    "arbiter.time.to.live.ms": "30000",
}


@dataclass(slots=True)
class Table:
    """The lines of the table, as they are found."""

    lines: list[tuple[str, str, str]] = field(default_factory=list)

    def add(self, what: str, goal: str, found: str) -> None:
        """One more line, told at once, too."""
        self.lines.append((what, goal, found))
        print(f"  {what}: {found} (goal {goal or 'none'})", flush=True)

    def __str__(self) -> str:
        rows = [f"| {what} | {goal} | {found} |" for what, goal, found in self.lines]
        return "\n".join(["| Figure | goal | measured |", "|---|---:|---:|", *rows])


class WatchedConsole(ConsoleProcess):
    """A console that writes the longest turns of its loop when it ends."""

    def __init__(self, directory: Path, bootstrap: str, *options: str) -> None:
        super().__init__(directory, bootstrap, *options)
        self.report = directory / f"turns-{self.port}.json"
        command = list(self._command)
        place = command.index("barnabas_cli.main")
        command[place : place + 1] = ["benchmarks.console_loop", str(self.report)]
        self._command = command

    def __enter__(self) -> WatchedConsole:
        self.start()
        return self

    def resident_mib(self) -> float:
        """What it has of memory now."""
        assert self.process is not None
        return self.process.resident_bytes() / _MIB

    def peak_mib(self) -> float:
        """The most that it had."""
        assert self.process is not None
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(r"VmHWM:\s+(\d+)", status)
        assert found is not None
        return int(found[1]) / 1024

    def turns(self) -> list[tuple[float, int, str]]:
        """The longest turns of its loop, once it has ended: milliseconds, how many above 10."""
        return [(row[0], row[1], row[2]) for row in json.loads(self.report.read_text())]


def main(topics: int, groups: int, rounds: int, seconds: float, parts: Sequence[str]) -> None:
    """Measure the parts, and print the table."""
    from playwright.sync_api import sync_playwright

    table = Table()
    others = OthersLoad()
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        # As installed: no process compiles its modules each time it starts.
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        os.environ["PYTHONPYCACHEPREFIX"] = str(folder / "bytecode")
        if "dev" in parts:
            measure_dev(table)
        count = broker_count(3 * topics)
        with BarnabasCluster(folder, count, properties=_PROPERTIES) as cluster:
            with WatchedConsole(folder, cluster.bootstrap) as console:
                until_looked(console)
                table.add("memory idle", "60 MiB", f"{console.resident_mib():.1f} MiB")
            began = time.monotonic()
            asyncio.run(fill(cluster.bootstrap, topics, groups))
            print(f"{topics:,} topics, {groups:,} groups: {time.monotonic() - began:.0f} s")
            if "idle" in parts:
                measure_brokers_without_page(table, folder, cluster, rounds, seconds)
            with (
                WatchedConsole(folder, cluster.bootstrap) as console,
                sync_playwright() as playwright,
                running_browser(playwright) as browser,
            ):
                until_looked(console)
                found = f"{console.resident_mib():.1f} MiB"
                table.add(f"memory with {topics:,} topics", "60 MiB", found)
                if "page" in parts:
                    measure_page(table, browser, console, cluster, seconds)
                if "load" in parts:
                    measure_load(table, browser, console, cluster, rounds, seconds)
            tell_turns(table, console)
    table.add("of the machine to others", "", f"{others.share(own_cpu_seconds()):.0%}")
    print(f"\nload average {os.getloadavg()[0]:.1f}\n\n{table}")


def broker_count(partitions: int) -> int:
    """Three, or as many as it takes: a broker has a quarter of its files for replicas."""
    _, files = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(3, -(-partitions // (files // 4 - _OTHER_REPLICAS)))


def own_cpu_seconds() -> float:
    """Of this process and its children that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


# ---- barnabas dev ------------------------------------------------------------------------------


def measure_dev(table: Table) -> None:
    """How soon brokers are ready with a console and without, and the console after them."""
    ready: dict[bool, list[float]] = {True: [], False: []}
    after: list[float] = []
    started_dev(True)  # compiles the modules
    for _ in range(_DEV_ROUNDS):
        for has_console in (True, False):
            at = started_dev(has_console)
            ready[has_console].append(at[0])
            after += at[1:]
    ratio = statistics.median(
        with_it / without for with_it, without in zip(ready[True], ready[False], strict=True)
    )
    table.add("`barnabas dev` ready, beside one without a console", "1", f"{ratio:.2f} x")
    table.add(
        "console up after that", "1 s", f"{statistics.median(after):.2f} s, best {min(after):.2f} s"
    )


def started_dev(has_console: bool) -> list[float]:
    """Seconds until the brokers are ready, and from then on until their console is up."""
    port, admin_port = free_ports(1), free_ports(5) + 4
    arguments = [f"--port={port}", f"--admin-port={admin_port}"]
    if not has_console:
        arguments.append("--no-console")
    with tempfile.TemporaryDirectory() as folder:
        began = time.monotonic()
        process = subprocess.Popen(
            [sys.executable, "-m", "barnabas_cli.main", "dev", *arguments, f"--data={folder}/data"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert process.stdout is not None
        found: list[float] = []
        for line in process.stdout:
            if f"127.0.0.1:{port}" in line and not found:
                found.append(time.monotonic() - began)
            if "console is at" in line:
                found.append(time.monotonic() - began - found[0])
            if len(found) > has_console:
                break
        process.terminate()
        process.communicate(timeout=60)
    return found


# ---- what is on the brokers --------------------------------------------------------------------


async def fill(bootstrap: str, topics: int, groups: int) -> None:
    """Topics of three partitions, groups with commits, and what producers write to."""
    names = [f"team-{number % 40:02}.events.{number:05}" for number in range(topics)]
    async with Admin(
        bootstrap, default_api_timeout_ms=300_000, request_timeout_ms=120_000
    ) as admin:
        special = [
            NewTopic(name=name, partition_count=6, replication_factor=1)
            for name in (FLOODED, PACED)
        ]
        (await admin.topics.create(special)).unwrap()
        for first in range(0, topics, _BATCH):
            new = [
                NewTopic(name=name, partition_count=3, replication_factor=1)
                for name in names[first : first + _BATCH]
            ]
            (await admin.topics.create(new)).unwrap()
        for first in range(0, groups, _BATCH):
            await asyncio.gather(
                *(
                    admin.group_offsets.alter(
                        f"group-{number:04}",
                        {TopicPartition(names[number], 0): OffsetAndMetadata(0)},
                    )
                    for number in range(first, min(first + _BATCH, groups))
                )
            )


async def is_told(session: aiohttp.ClientSession, address: str, words: str) -> bool:
    """Whether an answer is there that has these words."""
    async with session.get(address) as response:
        return response.status == 200 and words in await response.text()


def until_looked(console: ConsoleProcess) -> None:
    """Return when the console has all that its pages show: topics, and a look at the groups."""

    async def ask() -> None:
        async with aiohttp.ClientSession(headers={"X-Barnabas-Console": "1"}) as session:
            async with asyncio.timeout(_DEADLINE_SECONDS):
                for path, is_there in _TOLD.items():
                    address = f"{console.address}/api/v1/{path}"
                    while True:
                        if await is_told(session, address, is_there):
                            break
                        await asyncio.sleep(0.2)

    run(ask)


# ---- what pages take -----------------------------------------------------------------------------


def broker_share(cluster: BarnabasCluster, seconds: float) -> float:
    """Processor time of all brokers in the next seconds, as a share of a core."""
    before = broker_cpu_seconds(cluster)
    time.sleep(seconds)
    return (broker_cpu_seconds(cluster) - before) / seconds


def broker_cpu_seconds(cluster: BarnabasCluster) -> float:
    """Of all brokers so far, to the nanosecond that the scheduler counts."""
    total = 0
    for broker in cluster.brokers.values():
        assert broker.process is not None
        for task in Path(f"/proc/{broker.process.pid}/task").iterdir():
            total += int((task / "schedstat").read_text().split()[0])
    return total / 1e9


def measure_brokers_without_page(
    table: Table, folder: Path, cluster: BarnabasCluster, rounds: int, seconds: float
) -> None:
    """What a console that nobody looks at takes of brokers: one in turns with none."""
    differences = []
    for _ in range(rounds):
        without = broker_share(cluster, 2 * seconds)
        with ConsoleProcess(folder, cluster.bootstrap):
            time.sleep(seconds)  # its first look at everything is not what it takes in the long run
            differences.append(broker_share(cluster, 2 * seconds) - without)
    found = statistics.median(differences)
    table.add("broker CPU by no page", "0.3 % of a core", f"{found:.2%} (all brokers)")


def measure_page(
    table: Table,
    browser: Any,
    console: WatchedConsole,
    cluster: BarnabasCluster,
    seconds: float,
) -> None:
    """First paint, and an idle page beside brokers."""
    found = painted(browser, console.address)
    for name, goal, key in (
        ("first paint of Topics, cold", "300 ms", "first paint"),
        ("rows painted", "", "rows"),
        ("key to rows", "50 ms", "key to rows"),
    ):
        values = found[key]
        text = f"{statistics.median(values):.0f} ms, best {min(values):.0f} ms"
        table.add(name, goal, text)
    page = browser.new_page()
    page.set_default_timeout(_DEADLINE_SECONDS * 1000)
    page.goto(f"{console.address}/orders-prod/overview")
    page.get_by_role("heading", level=1).wait_for()
    differences = []
    for _ in range(3):
        page.goto(f"{console.address}/orders-prod/overview")
        page.get_by_role("heading", level=1).wait_for()
        with_page = broker_share(cluster, seconds)
        page.goto("about:blank")
        differences.append(with_page - broker_share(cluster, seconds))
    page.close()
    table.add(
        "broker CPU by an idle page",
        "1 % of a core",
        f"{statistics.median(differences):.2%} (all brokers)",
    )


# ---- the load ------------------------------------------------------------------------------------


@contextmanager
def client(*arguments: str) -> Iterator[list[dict[str, Any]]]:
    """A process of `console_clients`; what it told is in the list once it has ended."""
    command = [sys.executable, "-m", "benchmarks.console_clients", *arguments]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    told: list[dict[str, Any]] = []
    try:
        yield told
    finally:
        try:
            output, _ = process.communicate(timeout=_DEADLINE_SECONDS)
        finally:
            process.kill()  # where it has not ended, it must not go on by itself
    told.append(json.loads(output))


def paced(bootstrap: str, seconds: float) -> dict[str, float]:
    """The latencies of a producer that keeps a pace."""
    arguments = ("paced", bootstrap, PACED, str(PACED_RATE), str(seconds))
    command = [sys.executable, "-m", "benchmarks.console_clients", *arguments]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found: dict[str, float] = json.loads(output)
    return found


def measure_load(
    table: Table,
    browser: Any,
    console: WatchedConsole,
    cluster: BarnabasCluster,
    rounds: int,
    seconds: float,
) -> None:
    """Everything at once, in turns with the flood alone."""
    ratios: list[float] = []
    alone_p99: list[float] = []
    memory: list[float] = []
    all_told: list[dict[str, Any]] = []
    page = browser.new_page()
    page.set_default_timeout(_DEADLINE_SECONDS * 1000)
    with client("flood", cluster.bootstrap, FLOODED, str(FLOOD_RATE)) as flooded:
        paced(cluster.bootstrap, 2)  # warms up
        for _ in range(rounds):
            page.goto("about:blank")
            alone = paced(cluster.bootstrap, seconds)
            page.goto(f"{console.address}/orders-prod/topics/{FLOODED}/records?tail=1")
            page.get_by_text("live").wait_for()
            arguments = (console.address, FLOODED, str(TABS), str(SCANS))
            with client("tabs", *arguments) as told:
                beside = paced(cluster.bootstrap, seconds)
                memory.append(console.resident_mib())
            all_told += told
            alone_p99.append(alone["p99"])
            ratios.append(beside["p99"] / alone["p99"])
    page.close()
    table.add("memory under the load", "120 MiB", f"{max(memory):.1f} MiB")
    table.add("memory, the most", "120 MiB", f"{console.peak_mib():.1f} MiB")
    table.add(
        "produce p99 at 5,000/s beside the load",
        "1.05 x",
        f"{statistics.median(ratios):.2f} x of {statistics.median(alone_p99):.1f} ms",
    )
    table.add("flood", "", f"{flooded[0]['per_second']:,} records/s")
    table.add("polls, median and p99", "", _spread(all_told))
    last = all_told[-1]
    table.add(
        "tail",
        "",
        f"{last['tail_per_second']:,}/s came, {last['tail_shown_per_second']}/s shown,"
        f" {last['tail_missed']:,} missed",
    )
    table.add("answers", "", f"{last['statuses']}, failed {last['failed']}")


def _spread(told: Sequence[dict[str, Any]]) -> str:
    medians = statistics.median(one["poll_ms_median"] for one in told)
    return f"{medians:.0f} ms, {statistics.median(one['poll_ms_p99'] for one in told):.0f} ms"


def tell_turns(table: Table, console: WatchedConsole) -> None:
    """The longest turns of the console's loop."""
    turns = console.turns()
    for taken_ms, count, name in turns[:20]:
        print(f"    {taken_ms:7.1f} ms  {count:5} above 10 ms  {name}")
    longest = turns[0] if turns else (0.0, 0, "nothing above 2 ms")
    table.add("longest turn of the console's loop", "10 ms", f"{longest[0]} ms ({longest[2]})")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--topics", type=int, default=10_000)
    parser.add_argument("--groups", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--parts", default="dev,idle,page,load")
    chosen = parser.parse_args()
    main(chosen.topics, chosen.groups, chosen.rounds, chosen.seconds, chosen.parts.split(","))
