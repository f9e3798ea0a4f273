"""`barnabas dev --brokers N`: N brokers as processes of this machine, with one arbiter in a file.

Each broker is what `barnabas broker --config DATA/broker-N.properties` runs, so that one of them
can also be started by hand. Invariants: no broker outlives this command, except where it is ended
by SIGKILL; the brokers get no Ctrl-C of the terminal, so that all stop once and in order.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from barnabas_cli.dev_checks import PORT_MAX, WantedPort
from barnabas_cli.failures import FAILED
from barnabas_cli.held_log import HELD_SECONDS

if TYPE_CHECKING:
    from barnabas_cli.dev_security import DevSecurity
    from barnabas_client.admin.admin import Admin

REPLICAS_MAX = 3
IN_SYNC_MIN = 2
_MEMBERS_MAX = "3"  # of the metadata log, where metadata.members does not say otherwise
CLUSTER_FILE = "cluster.properties"
# Of a disk that is not the broker's own, a share for others to grow is not the broker's affair.
DISK_RESERVE_BYTES = str(256 * 1024 * 1024)
_LINE_BYTES_MAX = 1 << 20
_STOP_SECONDS = 30
_READY_TIMEOUT_MS = 60_000
_LOOK_SECONDS = 0.1
_COLOURS = ("cyan", "magenta", "yellow", "green", "blue", "red")


@dataclass(frozen=True, slots=True, kw_only=True)
class DevCluster:
    """What to run; the ports are those of broker 0, the others follow."""

    count: int
    port: int
    admin_port: int  # -1 for none
    data: Path
    settings: Mapping[str, str]
    security: DevSecurity | None = None

    @property
    def bootstrap(self) -> str:
        """The addresses of all brokers."""
        return ",".join(f"127.0.0.1:{self.port + number}" for number in range(self.count))

    @property
    def member_count(self) -> int:
        """How many brokers come to hold the metadata log."""
        return min(self.count, int(self.settings.get("metadata.members", _MEMBERS_MAX)))

    def check_data(self) -> None:
        """Refuse data that is another cluster's. Raises: click.UsageError."""
        if (self.data / "meta.properties").exists():
            raise click.UsageError(
                f"{self.data} holds the data of a single broker: leave --brokers out, or name"
                " another folder with --data."
            )
        known = brokers_in(self.data)
        if known > self.count:
            raise click.UsageError(
                f"{self.data} holds the data of {known} brokers: start them with"
                f" --brokers {known}, or name another folder with --data."
            )

    def write_properties(self) -> list[Path]:
        """Write what each broker is started with; returns the files."""
        self.data.mkdir(parents=True, exist_ok=True)
        cluster_id = _cluster_id(self.data / CLUSTER_FILE)
        files = []
        for number in range(self.count):
            path = self.data / f"broker-{number}.properties"
            properties = self.properties_of(number, cluster_id)
            path.write_text(
                "".join(f"{key}={value}\n" for key, value in properties.items()), encoding="utf-8"
            )
            files.append(path)
        return files

    def properties_of(self, number: int, cluster_id: str) -> dict[str, str]:
        """The settings of one broker."""
        # The listener for brokers is 10,000 ports away, where every start finds the others.
        protocol = "PLAINTEXT" if self.security is None else "SASL_SSL"
        address = f"{protocol}://127.0.0.1:{self.port + number}"
        replicas = str(min(self.count, REPLICAS_MAX))
        data = self.data.resolve()
        return {
            "cluster.id": cluster_id,
            "node.id": str(number),
            "listeners": address,
            "advertised.listeners": address,
            "log.dirs": str(data / f"broker-{number}"),
            "arbiter.backend": "file",
            "arbiter.file.path": str(data / "arbiter.json"),
            "admin.http.host": "127.0.0.1",
            "admin.http.port": str(self.admin_port + number if self.admin_port >= 0 else -1),
            "default.replication.factor": replicas,
            "offsets.topic.replication.factor": replicas,
            "transaction.state.log.replication.factor": replicas,
            "transaction.state.log.min.isr": str(min(self.count, IN_SYNC_MIN)),
            "share.coordinator.state.topic.replication.factor": replicas,
            "share.coordinator.state.topic.min.isr": str(min(self.count, IN_SYNC_MIN)),
            "barnabas.disk.reserve.bytes.max": DISK_RESERVE_BYTES,
            "group.initial.rebalance.delay.ms": "0",
            "barnabas.drain.budget.ms": "5000",
            **({} if self.security is None else self.security.settings(number)),
            **self.settings,
        }


def ports_of(first: int, count: int) -> list[WantedPort]:
    """The ports of all listeners of a cluster, and the option that moves them."""
    from barnabas_broker.config.parse import REPLICATION_PORT_DISTANCE

    away = REPLICATION_PORT_DISTANCE
    if first + away + count > PORT_MAX:
        away = -away
    return [
        WantedPort(start + number, "--port")
        for start in (first, first + away)
        for number in range(count)
    ]


def brokers_in(data: Path) -> int:
    """How many brokers of a cluster have their data there."""
    return len([folder for folder in data.glob("broker-*") if folder.is_dir()])


def _cluster_id(path: Path) -> str:
    """The id that all brokers of this folder share; made at the first start."""
    if path.exists():
        return path.read_text(encoding="utf-8").partition("=")[2].strip()
    from barnabas_broker.env.randomness import SystemRandom
    from barnabas_protocol.ids import uuid_to_text

    cluster_id = uuid_to_text(SystemRandom().uuid())
    path.write_text(f"cluster.id={cluster_id}\n", encoding="utf-8")
    return cluster_id


def run(cluster: DevCluster, on_ready: Callable[[], Coroutine[Any, Any, None]]) -> NoReturn:
    """Run the brokers until Ctrl-C or SIGTERM, until none is left, or one does not come up.

    A broker that ends later, because somebody kills it, say, is what a cluster is for: the others
    go on. The process exits 0 after a clean stop of all that ran, 1 otherwise.
    Raises: click.UsageError.
    """
    cluster.check_data()
    sys.exit(asyncio.run(_run(cluster, cluster.write_properties(), on_ready)))


async def _run(
    cluster: DevCluster, files: list[Path], on_ready: Callable[[], Coroutine[Any, Any, None]]
) -> int:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for signal_number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(signal_number, stop.set)
    processes = [await _start(file) for file in files]
    log = _Log()
    late = loop.call_later(HELD_SECONDS, log.show)
    lines = [
        asyncio.ensure_future(log.relay(number, process))
        for number, process in enumerate(processes)
    ]
    ready = asyncio.ensure_future(_tell_ready(cluster, on_ready))
    ready.add_done_callback(lambda _: log.show())
    await _until_over(processes, files, ready, stop, log)
    late.cancel()
    ready.cancel()
    await asyncio.gather(ready, return_exceptions=True)
    running = [process for process in processes if process.returncode is None]
    await _stop(running)
    await asyncio.gather(*lines)
    was_asked = stop.is_set() and bool(running)
    return 0 if was_asked and not any(process.returncode for process in running) else FAILED


async def _until_over(
    processes: list[asyncio.subprocess.Process],
    files: list[Path],
    ready: asyncio.Future[None],
    stop: asyncio.Event,
    log: _Log,
) -> None:
    """Wait for the stop, for the last broker's end, or for one that ends before all were ready."""
    stopping = asyncio.ensure_future(stop.wait())
    ends = {
        asyncio.ensure_future(process.wait()): number for number, process in enumerate(processes)
    }
    while ends:
        done, _ = await asyncio.wait({stopping, *ends}, return_when=asyncio.FIRST_COMPLETED)
        if stopping in done:
            break
        for end in done:
            number = ends.pop(end)
            if ready.done():
                _tell_end(number, processes[number].returncode, files[number])
            else:
                await log.tell_failure(number, processes[number].returncode)
        if not ready.done():
            break
    for task in (stopping, *ends):
        task.cancel()
    await asyncio.gather(stopping, *ends, return_exceptions=True)


def _tell_end(number: int, exit_code: int | None, file: Path) -> None:
    click.echo(
        f"Error: broker {number} ended with exit code {exit_code}: the others go on. Bring it back"
        f" with: barnabas broker --config {file}",
        err=True,
    )


async def _start(file: Path) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "barnabas_cli.main",
        "broker",
        "--config",
        str(file),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        limit=_LINE_BYTES_MAX,
        start_new_session=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )


class _Log:
    """What the brokers print, each line with the broker's number; held back while they start.

    Where one does not come up, its last word is all that is shown.
    """

    def __init__(self) -> None:
        self._held: list[str] | None = []
        self._last_words: dict[int, str] = {}
        self._ends: dict[int, asyncio.Event] = {}

    async def relay(self, number: int, process: asyncio.subprocess.Process) -> None:
        """Take what a broker prints until its end."""
        assert process.stdout is not None
        prefix = click.style(f"{number} |", fg=_COLOURS[number % len(_COLOURS)])
        ended = self._ends[number] = asyncio.Event()
        while True:
            try:
                line = await process.stdout.readline()
            except ValueError:  # longer than the limit: what was read of it is gone
                continue
            if not line:
                ended.set()
                return
            text = line.decode("utf-8", "replace").rstrip("\n")
            if " CRITICAL " in text:
                self._last_words[number] = text.partition(" CRITICAL ")[2].partition(": ")[2]
            if self._held is None:
                click.echo(f"{prefix} {text}", err=True)
            else:
                self._held.append(f"{prefix} {text}")

    def show(self) -> None:
        """Show what is held, and all that comes from now on."""
        held, self._held = self._held, None
        for line in held or ():
            click.echo(line, err=True)

    async def tell_failure(self, number: int, exit_code: int | None) -> None:
        """Tell in one line why a broker has not come up."""
        await self._ends[number].wait()
        cause = self._last_words.get(number, f"it ended with exit code {exit_code}")
        click.echo(f"Error: broker {number}: {cause}; stopping the others.", err=True)
        if self._held is not None:
            self._held = []


async def _tell_ready(
    cluster: DevCluster, on_ready: Callable[[], Coroutine[Any, Any, None]]
) -> None:
    """Wait until clients see all brokers and one of them can be lost, then say so."""
    # That nobody responds for a while is no news here.
    logging.getLogger("barnabas_client").setLevel(logging.ERROR)
    from barnabas_cli.connection import connect
    from barnabas_client.errors import BarnabasError

    file = None if cluster.security is None else str(cluster.security.client_properties)
    while True:
        with contextlib.suppress(BarnabasError, OSError):
            async with connect(cluster.bootstrap, file, _READY_TIMEOUT_MS).admin() as admin:
                while True:
                    if await _is_ready(admin, cluster):
                        await on_ready()
                        return
                    await asyncio.sleep(_LOOK_SECONDS)
        await asyncio.sleep(_LOOK_SECONDS)


async def _is_ready(admin: Admin, cluster: DevCluster) -> bool:
    """Whether all serve, and as many as can be hold the metadata: until then one is on its own."""
    described = await admin.cluster.describe()
    if sum(not broker.is_fenced for broker in described.brokers) < cluster.count:
        return False
    return len((await admin.quorum.describe()).voters) >= cluster.member_count


async def _stop(processes: list[asyncio.subprocess.Process]) -> None:
    """SIGTERM to all, and a wait for the slowest; a second Ctrl-C is passed on."""
    loop = asyncio.get_running_loop()

    def terminate() -> None:
        for process in processes:
            if process.returncode is None:
                process.terminate()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, terminate)
    terminate()
    try:
        async with asyncio.timeout(_STOP_SECONDS):
            await asyncio.gather(*(process.wait() for process in processes))
    except TimeoutError:
        left = [str(process.pid) for process in processes if process.returncode is None]
        click.echo(
            f"Error: processes {', '.join(left)} have not ended after {_STOP_SECONDS} s:"
            " waiting on; Ctrl-C cuts the drain short.",
            err=True,
        )
        await asyncio.gather(*(process.wait() for process in processes))
