"""Counts the modules that a request runs through, and the moves between them.

`python -m handbook.request_path` starts a broker in this process and sends it a produce with
acks=all, a fetch that finds records, and an offset commit, each a few times. Told are the modules
of ours that run, and how often a call goes from one module into another; calls into the library
count for whoever made them, returns do not count. `-v` lists the moves. The requests come from a
thread of their own, which is not traced. Of several requests the one with the fewest moves counts:
in the others a timer or a heartbeat ran as well.
"""

import argparse
import asyncio
import contextlib
import socket
import struct
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from barnabas_broker.server import Server
from barnabas_protocol import codec
from barnabas_protocol.api import ApiKey
from barnabas_protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas_protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas_protocol.messages.find_coordinator import FindCoordinatorRequest
from barnabas_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas_protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from barnabas_protocol.records.record import Record, encode_batch

PREFIX = "barnabas_"
TOPIC, GROUP = "path", "path-group"
ROUNDS = 20
TIMEOUT_SECONDS = 20


@dataclass(slots=True)
class RequestPath:
    """What one request ran through."""

    modules: set[str] = field(default_factory=set)
    moves: Counter[tuple[str, str]] = field(default_factory=Counter)

    @property
    def move_count(self) -> int:
        """How often one module called another."""
        return self.moves.total()


class PathTracer:
    """Notes each call from one of our modules into another, in the thread that starts it."""

    def __init__(self) -> None:
        self.path = RequestPath()

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        """What `sys.setprofile` calls."""
        if event != "call":
            return
        name = frame.f_globals.get("__name__", "")
        if not name.startswith(PREFIX):
            return
        self.path.modules.add(name)
        caller = _caller(frame)
        if caller != name:
            self.path.moves[caller, name] += 1


def _caller(frame: FrameType) -> str:
    """The nearest module of ours that led here; the event loop where there is none."""
    outer = frame.f_back
    while outer is not None:
        name: str = outer.f_globals.get("__name__", "")
        if name.startswith(PREFIX):
            return name
        outer = outer.f_back
    return "loop"


class BlockingClient:
    """One connection that sends a request and waits for its response, in the calling thread."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), TIMEOUT_SECONDS)

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def call(self, key: ApiKey, version: int, request: Any) -> Any:
        """Send one request and return its response."""
        self.send(codec.encode_request(request, key, version, 1, "path"))
        return codec.decode_response(self.receive(), key, version)[1]

    def send(self, frame: bytes) -> None:
        """Send a frame."""
        self._socket.sendall(struct.pack(">i", len(frame)) + frame)

    def receive(self) -> bytes:
        """Return the next frame."""
        (size,) = struct.unpack(">i", self._read(4))
        return self._read(size)

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = self._socket.recv(size - len(data))
            if not more:
                raise ConnectionError("the broker has closed the connection")
            data += more
        return data


@contextlib.contextmanager
def _traced() -> Iterator[PathTracer]:
    tracer = PathTracer()
    sys.setprofile(tracer)
    try:
        yield tracer
    finally:
        sys.setprofile(None)


async def _path_of(client: BlockingClient, key: ApiKey, version: int, request: Any) -> RequestPath:
    """The shortest path of some equal requests."""
    frame = codec.encode_request(request, key, version, 1, "path")

    def exchange() -> bytes:
        client.send(frame)
        return client.receive()

    paths = list[RequestPath]()
    for _ in range(ROUNDS):
        await asyncio.sleep(0.01)
        with _traced() as tracer:
            response = await asyncio.to_thread(exchange)
        _check(codec.decode_response(response, key, version)[1])
        paths.append(tracer.path)
    return min(paths, key=lambda path: (path.move_count, len(path.modules)))


def _check(response: Any) -> None:
    """Raise where the response has an error: that would be another path."""
    for name in getattr(response, "__slots__", ()):
        value = getattr(response, name)
        if name == "error_code" and value:
            raise RuntimeError(f"the broker answered with error {value}")
        for element in value if isinstance(value, list) else ():
            _check(element)


def requests() -> dict[str, tuple[ApiKey, int, Any]]:
    """What is measured: a name, the API with its version, and the request."""
    batch = encode_batch([Record(0, 1_700_000_000_000, b"key", bytes(100))])
    partition = PartitionProduceData(index=0, records=batch)
    topic = TopicProduceData(name=TOPIC, partition_data=[partition])
    wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    commit = OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    return {
        "produce, acks=all": (
            ApiKey.PRODUCE,
            9,
            ProduceRequest(acks=-1, timeout_ms=5_000, topic_data=[topic]),
        ),
        "fetch": (
            ApiKey.FETCH,
            12,
            FetchRequest(
                replica_id=-1,
                max_wait_ms=500,
                min_bytes=1,
                max_bytes=1 << 20,
                session_epoch=-1,
                topics=[FetchTopic(topic=TOPIC, partitions=[wanted])],
            ),
        ),
        "offset commit": (
            ApiKey.OFFSET_COMMIT,
            8,
            OffsetCommitRequest(
                group_id=GROUP,
                topics=[OffsetCommitRequestTopic(name=TOPIC, partitions=[commit])],
            ),
        ),
    }


def _prepare(client: BlockingClient) -> None:
    """Make the topic and have the group's coordinator loaded."""
    topic = CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=1)
    client.call(ApiKey.CREATE_TOPICS, 5, CreateTopicsRequest(topics=[topic], timeout_ms=5_000))
    find = FindCoordinatorRequest(key=GROUP, key_type=0)
    for _ in range(TIMEOUT_SECONDS * 100):
        response = client.call(ApiKey.FIND_COORDINATOR, 3, find)
        if not response.error_code:
            commit = client.call(*requests()["offset commit"])
            if not commit.topics[0].partitions[0].error_code:
                return
        time.sleep(0.01)
    raise RuntimeError("the group has no coordinator")


async def measure(directory: Path) -> dict[str, RequestPath]:
    """The path of each request through a broker on the directory."""
    server = Server(
        {
            "node.id": "0",
            "listeners": "PLAINTEXT://127.0.0.1:0,REPLICATION://127.0.0.1:0",
            "log.dirs": str(directory),
            "offsets.topic.replication.factor": "1",
            "admin.http.port": "0",
        }
    )
    await server.start()
    try:
        client = await asyncio.to_thread(BlockingClient, server.port)
        try:
            await asyncio.to_thread(_prepare, client)
            return {name: await _path_of(client, *request) for name, request in requests().items()}
        finally:
            client.close()
    finally:
        await server.stop()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-v", "--verbose", action="store_true", help="list the moves")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        paths = asyncio.run(measure(Path(directory)))
    for name, path in paths.items():
        print(f"{name}: {len(path.modules)} modules, {path.move_count} moves")
        if arguments.verbose:
            for (caller, called), count in sorted(path.moves.items()):
                print(f"    {count:3} {caller} -> {called}")


if __name__ == "__main__":
    main()
