"""100,000 damaged frames over all served APIs: the broker lives, serves others and stays small.

The seed is printed and can be given in `BARNABAS_SEED`; `BARNABAS_FUZZ_FRAMES` sends more.
"""

import os
import re
import selectors
import socket
import struct
import threading
import time
import urllib.request
from pathlib import Path

import pytest

from barnabas_protocol import codec
from barnabas_protocol.api import SERVED, ApiKey
from barnabas_protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas_protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from barnabas_protocol.records.record import Record, decode_records, encode_batch
from tests.interop.started_brokers import PROPERTIES, start_broker
from tests.support.barnabas_process import BarnabasProcess
from tests.support.client_programs import all_clients
from tests.support.request_frames import OUSTING, TOPIC, RequestFrames

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]

FRAMES = int(os.environ.get("BARNABAS_FUZZ_FRAMES", "100000"))
CONNECTIONS = 24
# How long an answer may take before the connection is given up: a damaged frame may announce more
# bytes than it has, or ask to wait.
PATIENCE_SECONDS = 0.05
# The broker must not grow by more after the first fifth, in which pools and caches fill.
GROWTH_BYTES_MAX = 64 << 20
HEALTHY_TOPIC = "healthy"
HEALTHY_SECONDS_MAX = 3.0


class FuzzConnection:
    """One socket that sends a frame, and waits for an answer, the end, or its patience."""

    def __init__(self, port: int, selector: selectors.BaseSelector) -> None:
        self.port = port
        self.selector = selector
        self.socket: socket.socket | None = None
        self.deadline = 0.0

    def send(self, data: bytes) -> None:
        for _ in range(2):
            try:
                if self.socket is None:
                    self.socket = socket.create_connection(("127.0.0.1", self.port), timeout=10)
                    self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    self.selector.register(self.socket, selectors.EVENT_READ, self)
                self.socket.sendall(data)
                break
            except (ConnectionError, BrokenPipeError):
                self.close()  # closed because of the frame before: this one goes on a new one
        self.deadline = time.monotonic() + PATIENCE_SECONDS

    def take_answer(self) -> bool:
        """Reads what is there; whether the connection is still of use."""
        assert self.socket is not None
        try:
            if self.socket.recv(1 << 20):
                return True
        except ConnectionError:
            pass
        self.close()
        return False

    def close(self) -> None:
        if self.socket is not None:
            self.selector.unregister(self.socket)
            self.socket.close()
            self.socket = None


class HealthyClient(threading.Thread):
    """Another connection that goes on producing and fetching, and notes its slowest round."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self.port = port
        self.is_to_stop = threading.Event()
        self.rounds = 0
        self.slowest_seconds = 0.0
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=30) as connection:
                while not self.is_to_stop.wait(0.02):
                    started = time.monotonic()
                    self._round(connection)
                    seconds = time.monotonic() - started
                    self.slowest_seconds = max(self.slowest_seconds, seconds)
                    self.rounds += 1
        except BaseException as error:
            self.error = error

    def _call(
        self, connection: socket.socket, key: ApiKey, version: int, request: object
    ) -> object:
        frame = codec.encode_request(request, key, version, self.rounds, "healthy")
        connection.sendall(struct.pack(">I", len(frame)) + frame)
        (size,) = struct.unpack(">I", receive(connection, 4))
        correlation_id, response = codec.decode_response(receive(connection, size), key, version)
        assert correlation_id == self.rounds
        return response

    def _round(self, connection: socket.socket) -> None:
        value = b"round %d" % self.rounds
        # Of now: retention would take away what is older than a week.
        records = encode_batch([Record(0, time.time_ns() // 10**6, b"k", value, ())])
        partition = PartitionProduceData(index=0, records=records)
        produce = ProduceRequest(
            acks=-1,
            timeout_ms=30000,
            topic_data=[TopicProduceData(name=HEALTHY_TOPIC, partition_data=[partition])],
        )
        produced = self._call(connection, ApiKey.PRODUCE, 9, produce)
        answer = produced.responses[0].partition_responses[0]
        assert answer.error_code == 0, answer
        fetch = FetchRequest(
            max_wait_ms=1000,
            min_bytes=1,
            max_bytes=1 << 20,
            session_epoch=-1,
            topics=[
                FetchTopic(
                    topic=HEALTHY_TOPIC,
                    partitions=[
                        FetchPartition(
                            partition=0,
                            fetch_offset=answer.base_offset,
                            partition_max_bytes=1 << 20,
                        )
                    ],
                )
            ],
        )
        fetched = self._call(connection, ApiKey.FETCH, 11, fetch)
        data = fetched.responses[0].partitions[0]
        assert data.error_code == 0, data
        assert decode_records(data.records)[0].value == value


def receive(connection: socket.socket, size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        data = connection.recv(size - len(parts))
        if not data:
            raise ConnectionError("the healthy connection was closed")
        parts += data
    return bytes(parts)


def test_the_broker_survives_damaged_frames(tmp_path: Path) -> None:
    """No crash, no growth of memory, and other connections are served meanwhile."""
    seed = int(os.environ.get("BARNABAS_SEED", str(time.time_ns() % 10**6)))
    print(f"seed {seed}")
    properties = {**PROPERTIES, "auto.create.topics.enable": "false"}
    broker = start_broker("barnabas", tmp_path / "broker", properties)
    assert isinstance(broker, BarnabasProcess)
    assert broker.process is not None
    try:
        creation = [["create", TOPIC, "3"], ["create", HEALTHY_TOPIC, "1"]]
        all_clients()[0].run(broker.bootstrap, creation, tmp_path)
        healthy = HealthyClient(broker.port)
        healthy.start()
        memory = bombard(broker, healthy, RequestFrames(seed))
        healthy.is_to_stop.set()
        healthy.join(30)
        assert healthy.error is None, repr(healthy.error)
        assert not healthy.is_alive()
        assert healthy.rounds > 10
        assert healthy.slowest_seconds < HEALTHY_SECONDS_MAX
        assert memory[-1] - memory[0] < GROWTH_BYTES_MAX, [size >> 20 for size in memory]
        assert_ordinary_service(broker)
        answered, refused = what_became_of_them(broker)
        fuzzed = {key.name.lower() for key in SERVED if key not in OUSTING}
        assert fuzzed <= answered.keys(), fuzzed - answered.keys()
        # The rest announced more bytes than it had, and waited for them.
        assert sum(answered.values()) + refused > 0.8 * FRAMES, (answered, refused)
        print(
            f"{sum(answered.values())} requests answered, {refused} connections refused more\n"
            f"{FRAMES} frames, memory in MiB {[size >> 20 for size in memory]}, "
            f"{healthy.rounds} healthy rounds, slowest {healthy.slowest_seconds:.3f} s"
        )
    finally:
        if broker.process.is_running():
            code = broker.stop()
            log = broker.process.log_path.read_text(errors="replace")
            (tmp_path / "tracebacks.txt").write_text(log)
    assert code == 0
    assert "Traceback" not in log, log[log.index("Traceback") - 500 :][:4000]


def bombard(broker: BarnabasProcess, healthy: HealthyClient, frames: RequestFrames) -> list[int]:
    """Sends all frames; the broker's memory after each fifth."""
    assert broker.process is not None
    valid = frames.valid_frames(per_version=12)
    selector = selectors.DefaultSelector()
    idle = [FuzzConnection(broker.port, selector) for _ in range(CONNECTIONS)]
    busy: set[FuzzConnection] = set()
    memory, sent = [], 0
    while sent < FRAMES or busy:
        while idle and sent < FRAMES:
            connection = idle.pop()
            connection.send(frames.damaged(valid[sent % len(valid)]))
            busy.add(connection)
            sent += 1
            if sent % (FRAMES // 5) == 0:
                memory.append(broker.process.resident_bytes())
                assert broker.process.is_running(), broker.process.log_tail()
                assert healthy.error is None, repr(healthy.error)
        for key, _ in selector.select(0.01):
            connection = key.data
            if connection.take_answer() or connection in busy:
                busy.discard(connection)
                if connection not in idle:
                    idle.append(connection)
        now = time.monotonic()
        for connection in [c for c in busy if c.deadline < now]:
            connection.close()
            busy.discard(connection)
            idle.append(connection)
    for connection in idle:
        connection.close()
    selector.close()
    return memory


def what_became_of_them(broker: BarnabasProcess) -> tuple[dict[str, int], int]:
    """From the metrics: requests that were answered, by API; connections closed from that side."""
    with urllib.request.urlopen(f"http://127.0.0.1:{broker.admin_port}/metrics") as page:
        text = page.read().decode()
    counts = re.findall(r'^barnabas_request_seconds_count\{api="(\w+)"\} (\S+)', text, re.M)
    closed = re.findall(
        r'^barnabas_connections_closed_total\{reason="([\w-]+)"\} (\S+)', text, re.M
    )
    refused = sum(int(float(count)) for reason, count in closed if reason != "peer")
    return {api: int(float(count)) for api, count in counts if float(count) > 0}, refused


def assert_ordinary_service(broker: BarnabasProcess) -> None:
    """A new connection is served as if nothing had happened."""
    with socket.create_connection(("127.0.0.1", broker.port), timeout=10) as connection:
        request = MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)])
        frame = codec.encode_request(request, ApiKey.METADATA, 9, 7, "after")
        connection.sendall(struct.pack(">I", len(frame)) + frame)
        (size,) = struct.unpack(">I", receive(connection, 4))
        _, response = codec.decode_response(receive(connection, size), ApiKey.METADATA, 9)
        assert response.topics[0].name == TOPIC
