"""One broker under measurement: started fresh, loaded by the scenario, stopped, its data removed.

Apache Kafka and Barnabas get the same defaults, the same disk and the same clients; they never run
at the same time.
"""

from __future__ import annotations

import shutil
import socket
import struct
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from tests.support.apache_kafka import ApacheKafka
from tests.support.barnabas_process import BarnabasProcess
from tests.support.processes import ManagedProcess

Broker = ApacheKafka | BarnabasProcess


class Measured(Protocol):
    """What clients load: one broker or a cluster."""

    directory: Path

    @property
    def bootstrap(self) -> str:
        """The addresses to begin with."""
        ...

    def cpu_seconds(self) -> float:
        """User and system time so far."""
        ...


KINDS = ("apache", "barnabas")
_ANSWER_TIMEOUT_SECONDS = 180.0
_POLL_SECONDS = 0.005


class Trial:
    """What a scenario needs to measure one kind of broker."""

    def __init__(
        self,
        kind: str,
        directory: Path,
        *,
        is_quick: bool,
        repeat_count: int,
        peer_version: str,
    ) -> None:
        """`peer_version` is Apache Kafka's."""
        self.kind = kind
        self.directory = directory
        self.is_quick = is_quick
        self.peer_version = peer_version
        self.repeat_count = 1 if is_quick else repeat_count

    def size(self, full: int, quick: int) -> int:
        """A count for this run; the quick one only shows that the scenario works."""
        return quick if self.is_quick else full

    def new_broker(self, properties: Mapping[str, str] | None = None) -> Broker:
        """A broker that is not started yet, on a free port, in the trial's folder."""
        directory = self.directory / "broker"
        if self.kind == "apache":
            return ApacheKafka(directory, version=self.peer_version, properties=properties)
        return BarnabasProcess(directory, properties=properties)

    @contextmanager
    def broker(self, properties: Mapping[str, str] | None = None) -> Iterator[Broker]:
        """A running broker that answers; its data is removed behind it."""
        broker = self.new_broker(properties)
        try:
            broker.start()
            wait_until_answering(broker)
            yield broker
        finally:
            end(broker)
            shutil.rmtree(broker.directory, ignore_errors=True)


def end(broker: Broker) -> None:
    """Stops the broker if it still runs; a broker that does not end in time is killed."""
    if broker.process is None or not broker.process.is_running():
        return
    try:
        broker.stop()
    except TimeoutError as error:
        reason = str(error).splitlines()[0]
        print(f"  note: {broker.name} did not stop by itself: {reason}")


def process_of(broker: Broker) -> ManagedProcess:
    """The running process: its memory and CPU time."""
    assert broker.process is not None
    return broker.process


def peak_resident_bytes(broker: Broker) -> int:
    """The largest resident memory of the broker so far, as the kernel counts it."""
    for line in Path(f"/proc/{broker.pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"no VmHWM for process {broker.pid}")


def api_versions_answered(port: int) -> bool:
    """Whether an ApiVersions request (version 0) gets a whole answer without error."""
    answer = exchange(port, 18, 0, b"")
    return answer is not None and len(answer) > 10 and answer[4:6] == b"\0\0"


def log_end_offset(port: int, topic: str) -> int | None:
    """The end of partition 0 as clients see it (ListOffsets version 1), None while unavailable."""
    name = topic.encode()
    body = struct.pack(f">iih{len(name)}siiq", -1, 1, len(name), name, 1, 0, -1)
    answer = exchange(port, 2, 1, body)
    if answer is None or len(answer) < 12 + 2 + len(name) + 22:
        return None
    _, error_code, _, offset = struct.unpack_from(">ihqq", answer, 4 + 4 + 2 + len(name) + 4)
    return int(offset) if error_code == 0 else None


def exchange(port: int, api_key: int, api_version: int, body: bytes) -> bytes | None:
    """One request with header version 1 on a new connection; the response, None if none came."""
    request = struct.pack(">hhih5s", api_key, api_version, 1, 5, b"bench") + body
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
            connection.sendall(struct.pack(">i", len(request)) + request)
            size = struct.unpack(">i", _receive(connection, 4))[0]
            return _receive(connection, size)
    except OSError:
        return None


def _receive(connection: socket.socket, size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        part = connection.recv(size - len(parts))
        if not part:
            raise ConnectionError("closed")
        parts += part
    return bytes(parts)


def wait_until_answering(broker: Broker, topic: str | None = None, end_offset: int = 0) -> float:
    """Seconds from exec until the broker answers, for a topic: until its records are there."""
    process = process_of(broker)
    deadline = time.monotonic() + _ANSWER_TIMEOUT_SECONDS
    while time.monotonic() < deadline:
        if topic is None:
            is_ready = api_versions_answered(broker.port)
        else:
            is_ready = (log_end_offset(broker.port, topic) or -1) >= end_offset
        if is_ready:
            return time.monotonic() - process.started_at
        if not process.is_running():
            raise RuntimeError(f"{broker.name} ended:\n{process.log_tail()}")
        time.sleep(_POLL_SECONDS)
    raise TimeoutError(f"{broker.name} does not answer:\n{process.log_tail()}")
