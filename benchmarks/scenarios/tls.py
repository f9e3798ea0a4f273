"""What does TLS cost: a producer, beside the same without; a handshake; and an idle connection?

Kafka's performance tools by TLS 1.3 with a server certificate of ECDSA P-256 (PEM on both sides),
then plainly on another listener of the same broker; the median of several runs counts. Handshakes
are whole ones, by threads of this process that ask for nothing else. Idle connections have asked
for ApiVersions once; what the first 500 take, buffers that all share among it, counts as broker.
"""

from __future__ import annotations

import socket
import ssl
import struct
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from barnabas_broker.env.open_files import allow_many_open_files
from benchmarks import clients
from benchmarks.scenario import Figure, Scenario, medians
from benchmarks.trial import Broker, Trial, end, process_of, wait_until_answering
from tests.support.processes import free_port
from tests.support.tls_files import TlsFiles

_GIBIBYTE = 1 << 30
_CLIENTS = 8

FIGURES = [
    Figure(name="records/s", unit="1/s", is_lower_better=False, goal_ratio=1.0),
    Figure(name="broker CPU per GiB", unit="s", is_lower_better=True, goal_ratio=0.8),
    Figure(name="CPU, times plain", unit="", is_lower_better=True),
]

HANDSHAKE_FIGURES = [
    Figure(name="handshakes/s", unit="1/s", is_lower_better=False, goal_ratio=1.0),
    Figure(name="broker CPU per handshake", unit="µs", is_lower_better=True, goal_ratio=0.8),
]


IDLE_FIGURES = [
    Figure(name="memory of each", unit="KiB", is_lower_better=True),
    Figure(name="memory in all", unit="MiB", is_lower_better=True, goal_ratio=1.0),
]

# ApiVersions 0 by a client that is called "idle".
_REQUEST = struct.pack(">ihhih4s", 14, 18, 0, 1, 4, b"idle")


def secure(broker: Broker, directory: Path) -> tuple[str, ...]:
    """Give a broker that is not started a listener with TLS; returns what its clients need."""
    files = TlsFiles(directory).create("localhost")
    store = directory / "store.pem"
    store.write_bytes(files.broker_key.read_bytes() + files.broker_certificate.read_bytes())
    address = f"SSL://localhost:{free_port()}"
    for key in ("listeners", "advertised.listeners"):
        broker.properties[key] = f"{broker.properties[key]},{address}"
    broker.properties.update(
        {
            "listener.security.protocol.map": (
                "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,REPLICATION:PLAINTEXT,SSL:SSL"
            ),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(store),
        }
    )
    return (
        f"bootstrap.servers={address.partition('://')[2]}",
        "security.protocol=SSL",
        "ssl.truststore.type=PEM",
        f"ssl.truststore.location={files.authority}",
    )


def measure(trial: Trial, *, record_bytes: int, full: int) -> dict[str, float]:
    """Rate and CPU of the broker by TLS, and its CPU in times of that without."""
    record_count = trial.size(full, full // 10)
    gibibytes = record_count * record_bytes / _GIBIBYTE
    broker = trial.new_broker()
    by_tls = secure(broker, trial.directory / "tls")
    runs = []
    try:
        broker.start()
        wait_until_answering(broker)
        clients.create_topic(broker, "produce")
        produce = partial(clients.produce, broker, "produce")
        produce(record_count // 2, record_bytes, "acks=all", *by_tls)
        for _ in range(trial.repeat_count):
            plain = produce(record_count, record_bytes, "acks=all")
            load = produce(record_count, record_bytes, "acks=all", *by_tls)
            runs.append(
                {
                    "records/s": load.records_per_second,
                    "broker CPU per GiB": load.broker_cpu_seconds / gibibytes,
                    "CPU, times plain": load.broker_cpu_seconds / plain.broker_cpu_seconds,
                }
            )
    finally:
        end(broker)
    return medians(runs)


def measure_handshakes(trial: Trial) -> dict[str, float]:
    """Connections by TLS 1.3 that are closed after the handshake, none by a session of before."""
    count = trial.size(4_000, 400)
    broker = trial.new_broker()
    secure(broker, trial.directory / "tls")
    host, _, port = broker.properties["listeners"].rpartition(",SSL://")[2].partition(":")
    context = ssl.create_default_context(cafile=trial.directory / "tls" / "authority.pem")

    def shake(_: int) -> None:
        with (
            socket.create_connection((host, int(port)), timeout=60) as connection,
            context.wrap_socket(connection, server_hostname=host) as secured,
        ):
            assert secured.version() == "TLSv1.3"

    runs = []
    try:
        broker.start()
        wait_until_answering(broker)
        with ThreadPoolExecutor(_CLIENTS) as threads:
            list(threads.map(shake, range(count)))  # Java compiles what it runs often
            for _ in range(trial.repeat_count):
                began, before = time.monotonic(), broker.cpu_seconds()
                list(threads.map(shake, range(count)))
                seconds, used = time.monotonic() - began, broker.cpu_seconds() - before
                runs.append(
                    {
                        "handshakes/s": count / seconds,
                        "broker CPU per handshake": used / count * 1e6,
                    }
                )
    finally:
        end(broker)
    return medians(runs)


def measure_idle(trial: Trial) -> dict[str, float]:
    """Resident memory of the broker with so many connections that do nothing."""
    few, many = trial.size(500, 100), trial.size(10_000, 1_000)
    allow_many_open_files()
    broker = trial.new_broker()
    secure(broker, trial.directory / "tls")
    host, _, port = broker.properties["listeners"].rpartition(",SSL://")[2].partition(":")
    context = ssl.create_default_context(cafile=trial.directory / "tls" / "authority.pem")

    def connected(_: int) -> ssl.SSLSocket:
        connection = socket.create_connection((host, int(port)), timeout=60)
        secured = context.wrap_socket(connection, server_hostname=host)
        secured.sendall(_REQUEST)
        size = int.from_bytes(_exactly(secured, 4), "big")
        _exactly(secured, size)
        return secured

    idle: list[ssl.SSLSocket] = []
    try:
        broker.start()
        wait_until_answering(broker)
        process = process_of(broker)
        with ThreadPoolExecutor(_CLIENTS) as threads:
            idle += threads.map(connected, range(few))
            before = process.resident_bytes()
            idle += threads.map(connected, range(many - few))
        after = process.resident_bytes()
    finally:
        for one in idle:
            one.close()
        end(broker)
    return {
        "memory of each": (after - before) / (many - few) / 1024,
        "memory in all": after / 2**20,
    }


def _exactly(connection: ssl.SSLSocket, size: int) -> bytes:
    """So many bytes. Raises: ConnectionError where the peer closes before."""
    received = b""
    while len(received) < size:
        piece = connection.recv(size - len(received))
        if not piece:
            raise ConnectionError(f"closed after {len(received)} of {size} bytes")
        received += piece
    return received


SCENARIOS = [
    Scenario(
        name="tls-idle",
        question="10,000 idle connections by TLS",
        figures=IDLE_FIGURES,
        measure=measure_idle,
    ),
    Scenario(
        name="tls-handshakes",
        question="Connections by TLS, one after the other",
        figures=HANDSHAKE_FIGURES,
        measure=measure_handshakes,
    ),
    *(
        Scenario(
            name=f"tls-produce-{name}",
            question=f"Produce {words} records by TLS, acks=all",
            figures=FIGURES,
            measure=partial(measure, record_bytes=record_bytes, full=full),
        )
        for name, words, record_bytes, full in (
            ("1k", "1 KiB", 1024, 1_000_000),
            ("100b", "100 B", 100, 3_000_000),
        )
    ),
]
