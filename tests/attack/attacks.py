"""The attacks: each an ordinary client's doing, each bounded in time by who runs it.

What an attack must not achieve beyond stopping the others is checked here: an attack returns what
is wrong, and an empty text if nothing is.
"""

import asyncio
import contextlib
import logging
import random
import struct
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from barnabas_protocol import codec
from barnabas_protocol.api import INTERNAL, ApiKey
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.messages import (
    api_versions,
    create_topics,
    describe_configs,
    describe_groups,
    fetch,
    find_coordinator,
    incremental_alter_configs,
    init_producer_id,
    join_group,
    list_groups,
    list_offsets,
    metadata_promise,
    offset_fetch,
    produce,
)
from barnabas_protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
)
from barnabas_protocol.messages.push_telemetry import PushTelemetryRequest
from barnabas_protocol.records.batch import stamp_crc
from barnabas_protocol.records.compression import compress
from barnabas_protocol.records.record import Record, encode_batch
from tests.attack.target import (
    COMPACTED_TOPIC,
    DATA_TOPIC,
    Connection,
    Target,
    connections,
    framed,
)
from tests.protocol.random_messages import RandomMessages
from tests.support.otlp import gauge, metrics_data, point
from tests.support.request_frames import RequestFrames
from tests.support.tls13_client import Tls13Client

Attack = Callable[[Target], Awaitable[str]]
HOUR_MS = 3_600_000
ATTACK_SECONDS_MAX = 120
MEBIBYTE = 1 << 20
BOMB_RECORDS = 8_000_000
TOPIC_RESOURCE, BROKER_RESOURCE, CLIENT_METRICS_RESOURCE = 2, 4, 16
SERIES_OF_CLIENTS_MAX = 10_000
_HIGHEST_EPOCH = 2**31 - 1


def _now_ms() -> int:
    return int(time.time() * 1000)


def _batch_of(count: int, max_timestamp: int) -> bytes:
    """A few kilobytes that claim to be very many records."""
    one = encode_batch([Record(0, _now_ms(), b"k", b"")])
    head = bytearray(one[:61])
    head[21:23] = (4).to_bytes(2, "big")
    head[23:27] = (count - 1).to_bytes(4, "big")
    head[35:43] = max_timestamp.to_bytes(8, "big")
    head[57:61] = count.to_bytes(4, "big")
    batch = head + compress(4, one[61:] * count)
    batch[8:12] = (len(batch) - 12).to_bytes(4, "big")
    stamp_crc(batch, 0)
    return bytes(batch)


def _produce(topic: str, batch: bytes) -> produce.ProduceRequest:
    partition = produce.PartitionProduceData(index=0, records=batch)
    topics = [produce.TopicProduceData(name=topic, partition_data=[partition])]
    return produce.ProduceRequest(acks=-1, timeout_ms=5_000, topic_data=topics)


async def _produced(connection: Connection, topic: str, batch: bytes) -> int | None:
    """The error code; None where the connection was closed."""
    response = await connection.call(ApiKey.PRODUCE, 9, _produce(topic, batch))
    return None if response is None else response.responses[0].partition_responses[0].error_code


async def mutated_frames(target: Target) -> str:
    """Valid requests of every API, those of brokers too, with bits flipped, cut and grown."""
    pick = random.Random(target.seed)
    frames = RequestFrames(target.seed)
    valid = frames.valid_frames(per_version=1)
    messages = RandomMessages(target.seed, small=True)
    for key, (low, high) in INTERNAL.items():
        for version in range(low, high + 1):
            request = messages.message(codec.request_class(key), version)
            valid.append(codec.encode_request(request, key, version, 1, "attacker"))
    until = time.monotonic() + target.seconds

    async def one(port: int) -> None:
        while time.monotonic() < until:
            async with connections(port) as opened:
                for connection in opened:
                    for _ in range(50):
                        connection.send(frames.damaged(pick.choice(valid)))
                    await connection.sent()
                    await connection.answer(0.05)
            await asyncio.sleep(0.01)

    await asyncio.gather(*(one(port) for port in target.ports for _ in range(2)))
    return ""


async def speaking_for_brokers(target: Target) -> str:
    """A promise of the highest epoch, and fetches in the name of followers."""
    promise = framed(
        ApiKey.METADATA_PROMISE,
        0,
        metadata_promise.MetadataPromiseRequest(
            cluster_id=None, receiver_id=0, controller_epoch=_HIGHEST_EPOCH, leader_id=0
        ),
    )
    for port in target.ports:
        async with connections(port, 2) as (liar, follower):
            liar.send(promise)
            if await liar.answer(5) is not None:
                return "a client was promised a controller epoch"
            for replica_id in range(len(target.brokers)):
                state = fetch.ReplicaState(replica_id=replica_id, replica_epoch=10**12)
                response = await follower.call(
                    ApiKey.FETCH, 17, fetch.FetchRequest(replica_state=state, max_wait_ms=10)
                )
                code = None if response is None else response.error_code
                if code != ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
                    return f"a client fetched as a follower: {code}"
    return ""


async def half_frames(target: Target) -> str:
    """Connections that stop in the middle of frames, large and small."""
    half, whole = 70 * MEBIBYTE, 100 * MEBIBYTE
    async with contextlib.AsyncExitStack() as stack:
        for port in target.ports:
            for hog in await stack.enter_async_context(connections(port, 2)):
                hog.send(struct.pack(">i", whole) + bytes(half))
            for small in await stack.enter_async_context(connections(port, 200)):
                small.send(struct.pack(">i", 16_000) + bytes(8_000))
        await asyncio.sleep(target.seconds)
    return ""


async def slow_writers(target: Target) -> str:
    """Frames of a megabyte that arrive byte by byte."""
    until = time.monotonic() + target.seconds
    async with contextlib.AsyncExitStack() as stack:
        writers = [
            writer
            for port in target.ports
            for writer in await stack.enter_async_context(connections(port, 100))
        ]
        for writer in writers:
            writer.send(struct.pack(">i", MEBIBYTE) + bytes(20_000))
        while time.monotonic() < until:
            for writer in writers:
                writer.send(b"x")
            await asyncio.sleep(0.1)
    return ""


async def parked_fetches(target: Target) -> str:
    """Fetches that wait, with megabytes in a tag that nobody knows."""
    request = fetch.FetchRequest(max_wait_ms=int(target.seconds * 1000), min_bytes=MEBIBYTE)
    frame = codec.encode_request(request, ApiKey.FETCH, 12, 1, "attacker")
    tag = bytes(12 * MEBIBYTE)
    size = bytearray()
    left = len(tag)
    while left > 0x7F:
        size.append(left & 0x7F | 0x80)
        left >>= 7
    size.append(left)
    frame = frame[:-1] + b"\x01\x7f" + bytes(size) + tag
    async with contextlib.AsyncExitStack() as stack:
        for port in target.ports:
            for connection in await stack.enter_async_context(connections(port, 12)):
                connection.send(struct.pack(">i", len(frame)) + frame)
                await connection.sent()
        await asyncio.sleep(target.seconds)
    return ""


async def decompression_bombs(target: Target) -> str:
    """Batches of a few kilobytes with millions of records: too late, compacted, stored."""
    late = _batch_of(BOMB_RECORDS, _now_ms() + 2 * HOUR_MS)
    timely = _batch_of(BOMB_RECORDS, _now_ms())
    stored = _batch_of(500_000, _now_ms())
    for port in target.ports:
        async with connections(port) as (connection,):
            for topic, batch in (
                (DATA_TOPIC, late),
                (DATA_TOPIC, timely),
                (COMPACTED_TOPIC, timely),
            ):
                if await _produced(connection, topic, batch) == 0:
                    return f"a bomb of {BOMB_RECORDS} records was stored in {topic}"
            await _produced(connection, DATA_TOPIC, stored)
            for _ in range(3):
                partition = list_offsets.ListOffsetsPartition(
                    partition_index=0, current_leader_epoch=-1, timestamp=_now_ms() + HOUR_MS
                )
                topics = [list_offsets.ListOffsetsTopic(name=DATA_TOPIC, partitions=[partition])]
                await connection.call(
                    ApiKey.LIST_OFFSETS,
                    7,
                    list_offsets.ListOffsetsRequest(replica_id=-1, topics=topics),
                )
    return ""


async def broken_compaction(target: Target) -> str:
    """Two records of one offset into a compacted topic."""
    records = [Record(index, _now_ms(), b"k", b"v") for index in range(2)]
    batch = bytearray(encode_batch(records))
    batch[61 + (len(batch) - 61) // 2 + 3] = 0
    stamp_crc(batch, 0)
    for port in target.ports:
        async with connections(port) as (connection,):
            if await _produced(connection, COMPACTED_TOPIC, bytes(batch)) == 0:
                return "two records of one offset were stored in a compacted topic"
    return ""


def _element_bombs(count: int) -> list[tuple[ApiKey, int, Any]]:
    topic = create_topics.CreatableTopic(name="t", num_partitions=1, replication_factor=1)
    assigned = create_topics.CreatableReplicaAssignment(broker_ids=list(range(count)))
    placed = create_topics.CreatableTopic(
        name="t", num_partitions=-1, replication_factor=-1, assignments=[assigned]
    )
    return [
        (
            ApiKey.FIND_COORDINATOR,
            4,
            find_coordinator.FindCoordinatorRequest(key_type=0, coordinator_keys=["g"] * count),
        ),
        (ApiKey.DESCRIBE_GROUPS, 5, describe_groups.DescribeGroupsRequest(groups=["g"] * count)),
        (ApiKey.LIST_GROUPS, 4, list_groups.ListGroupsRequest(states_filter=["s"] * count)),
        (
            ApiKey.CREATE_TOPICS,
            7,
            create_topics.CreateTopicsRequest(topics=[topic] * count, validate_only=True),
        ),
        (
            ApiKey.CREATE_TOPICS,
            7,
            create_topics.CreateTopicsRequest(topics=[placed], validate_only=True),
        ),
    ]


async def element_bombs(target: Target) -> str:
    """Arrays of up to a million entries, and a million tagged fields."""
    bombs = [
        framed(key, version, request)
        for count in ((1_900, 40_000, 400_000) if target.is_quick else (1_900, 40_000, 1_000_000))
        for key, version, request in _element_bombs(count)
    ]
    tags = struct.pack(">hhih", ApiKey.METADATA, 12, 1, -1) + b"\xc0\x84\x3d"
    bombs.append(struct.pack(">i", len(tags) + 2_000_000) + tags + bytes(2_000_000))
    for port in target.ports:
        for bomb in bombs:
            async with connections(port) as (connection,):
                connection.send(bomb)
                if await connection.sent():
                    await connection.answer(10)
    return ""


async def repeated_names(target: Target) -> str:
    """One group or broker, named some thousand times in one request."""
    group = offset_fetch.OffsetFetchRequestGroup(group_id="attacked", topics=None)
    for number, port in enumerate(target.ports):
        resource = describe_configs.DescribeConfigsResource(
            resource_type=4, resource_name=str(number), configuration_keys=None
        )
        async with connections(port) as (connection,):
            for key, version, request in (
                (ApiKey.OFFSET_FETCH, 8, offset_fetch.OffsetFetchRequest(groups=[group] * 5_400)),
                (
                    ApiKey.DESCRIBE_CONFIGS,
                    4,
                    describe_configs.DescribeConfigsRequest(resources=[resource] * 2_000),
                ),
            ):
                connection.send(framed(key, version, request))
                frame = await connection.answer()
                if frame is not None and len(frame) > 4 * MEBIBYTE:
                    return f"{key.name} of one name has {len(frame)} bytes"
    return ""


async def hostile_settings(target: Target) -> str:
    """Lists of very many items, appended and subtracted, and names and numbers that are none."""
    items = ",".join(f"{number}:1" for number in range(300_000))
    for kind, name, key, operation, value in (
        (TOPIC_RESOURCE, DATA_TOPIC, "leader.replication.throttled.replicas", 2, items),
        (TOPIC_RESOURCE, DATA_TOPIC, "leader.replication.throttled.replicas", 0, items),
        (TOPIC_RESOURCE, DATA_TOPIC, "cleanup.policy", 3, items),
        (TOPIC_RESOURCE, DATA_TOPIC, "min.cleanable.dirty.ratio", 0, "9" * 400),
        (BROKER_RESOURCE, "\u00b2", "message.max.bytes", 0, "1"),
        (BROKER_RESOURCE, "9" * 5_000, "message.max.bytes", 0, "1"),
    ):
        config = incremental_alter_configs.AlterableConfig(
            name=key, config_operation=operation, value=value
        )
        resource = incremental_alter_configs.AlterConfigsResource(
            resource_type=kind, resource_name=name, configs=[config]
        )
        request = incremental_alter_configs.IncrementalAlterConfigsRequest(resources=[resource])
        for port in target.ports:
            async with connections(port) as (connection,):
                changed = await connection.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request)
                codes = [] if changed is None else [one.error_code for one in changed.responses]
                if not set(codes) & {ErrorCode.INVALID_CONFIG, ErrorCode.INVALID_REQUEST}:
                    return f"{key} with {len(value)} characters was answered {codes}"
    return ""


async def unread_fetches(target: Target) -> str:
    """Fetches of all there is, on connections that read nothing."""
    batch = encode_batch([Record(0, _now_ms(), b"k", random.Random(1).randbytes(900_000))])
    partition = fetch.FetchPartition(
        partition=0, fetch_offset=0, partition_max_bytes=64 * MEBIBYTE, current_leader_epoch=-1
    )
    topics = [fetch.FetchTopic(topic=DATA_TOPIC, partitions=[partition])]
    request = framed(
        ApiKey.FETCH,
        12,
        fetch.FetchRequest(max_wait_ms=0, max_bytes=64 * MEBIBYTE, topics=topics),
    )
    for port in target.ports:
        async with connections(port) as (connection,):
            for _ in range(30):
                await _produced(connection, DATA_TOPIC, batch)
    async with contextlib.AsyncExitStack() as stack:
        for port in target.ports:
            for connection in await stack.enter_async_context(connections(port, 100)):
                connection.writer.transport.pause_reading()  # type: ignore[attr-defined]
                connection.send(request * 4)
        await asyncio.sleep(target.seconds)
    return ""


async def pipelined_requests(target: Target) -> str:
    """The smallest requests there are, two thousand at once on each connection."""
    until = time.monotonic() + target.seconds
    request = framed(ApiKey.API_VERSIONS, 0, api_versions.ApiVersionsRequest()) * 2_000

    async def one(port: int) -> None:
        async with connections(port) as opened:
            for connection in opened:
                while time.monotonic() < until:
                    connection.send(request)
                    for _ in range(2_000):
                        if await connection.answer() is None:
                            return

    await asyncio.gather(*(one(port) for port in target.ports for _ in range(4)))
    return ""


async def key_updates(target: Target) -> str:
    """SEC-8: keys of TLS 1.3 that are renewed and renewed, on many connections at once."""
    until = time.monotonic() + target.seconds

    def one(port: int, directory: Path, number: int) -> None:
        client = Tls13Client.connect(port, directory / str(number))
        with client.socket, contextlib.suppress(ConnectionError):
            client.socket.sendall(b"".join(client.key_update() for _ in range(2_000)))
            while client.socket.recv(65_536):
                pass

    with tempfile.TemporaryDirectory() as directory:
        while time.monotonic() < until:
            work = (
                asyncio.to_thread(one, broker.tls_port, Path(directory), number)
                for number, broker in enumerate([*target.brokers] * 5)
            )
            try:
                await asyncio.gather(*work)
            except TimeoutError:
                return "two thousand key updates did not end a connection"
    return ""


async def connection_flood(target: Target) -> str:
    """Connections that come and go, and some hundred that stay and say nothing."""
    until = time.monotonic() + target.seconds
    async with contextlib.AsyncExitStack() as stack:
        for port in target.ports:
            await stack.enter_async_context(connections(port, 400))
        while time.monotonic() < until:
            for port in target.ports:
                async with connections(port, 50):
                    pass
    return ""


async def invented_producers(target: Target) -> str:
    """Producer ids without end."""
    until = time.monotonic() + target.seconds
    request = init_producer_id.InitProducerIdRequest(
        transactional_id=None, transaction_timeout_ms=60_000
    )
    for port in target.ports:
        async with connections(port) as (connection,):
            producer_id = 1 << 40
            while time.monotonic() < until:
                await connection.call(ApiKey.INIT_PRODUCER_ID, 4, request)
                for _ in range(50):
                    producer_id += 1
                    batch = encode_batch(
                        [Record(0, _now_ms(), b"k", b"v")],
                        producer_id=producer_id,
                        producer_epoch=0,
                        base_sequence=0,
                    )
                    await _produced(connection, DATA_TOPIC, batch)
    return ""


async def fetch_session_flood(target: Target) -> str:
    """Sessions of tens of thousands of invented partitions, each left behind for a new one."""
    until = time.monotonic() + target.seconds
    names = [f"invented-{number}" for number in range(20)]
    partitions = [
        fetch.FetchPartition(partition=number, fetch_offset=0, partition_max_bytes=1)
        for number in range(1_000)
    ]
    topics = [fetch.FetchTopic(topic=name, partitions=partitions) for name in names]
    known = fetch.FetchTopic(
        topic=DATA_TOPIC,
        partitions=[fetch.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1)],
    )
    large, small = (
        framed(
            ApiKey.FETCH,
            12,
            fetch.FetchRequest(max_wait_ms=0, session_id=0, session_epoch=0, topics=asked),
        )
        for asked in (topics, [known])
    )

    async def one(port: int) -> None:
        while time.monotonic() < until:
            async with connections(port) as opened:
                for connection in opened:
                    connection.send(large + small * 200)
                    if await connection.sent():
                        for _ in range(201):
                            if await connection.answer(5) is None:
                                break

    await asyncio.gather(*(one(port) for port in target.ports for _ in range(5)))
    return ""


async def group_flood(target: Target) -> str:
    """Groups without end, and members of one group with megabytes of metadata each."""
    until = 0.0  # set when groups are served

    def joining(group_id: str, metadata_bytes: int) -> bytes:
        protocol = join_group.JoinGroupRequestProtocol(name="p", metadata=bytes(metadata_bytes))
        request = join_group.JoinGroupRequest(
            group_id=group_id,
            session_timeout_ms=30_000,
            rebalance_timeout_ms=30_000,
            protocol_type="consumer",
            protocols=[protocol],
        )
        return framed(ApiKey.JOIN_GROUP, 3, request)

    async def many(port: int, place: int) -> None:
        number = 0
        while time.monotonic() < until:
            # The members' connections end, their groups stay until the sessions are over.
            async with connections(port, 50) as opened:
                for connection in opened:
                    number += 1
                    connection.send(joining(f"flood-{port}-{place}-{number}", 1_000))
                for connection in opened:
                    await connection.sent()
                await asyncio.sleep(0.01)

    async def absent(port: int) -> None:
        """Ids that are given out for half an hour, to members that never join."""
        request = join_group.JoinGroupRequest(
            group_id="flood-absent", session_timeout_ms=1_800_000, protocol_type="consumer"
        )
        request.protocols = [join_group.JoinGroupRequestProtocol(name="p", metadata=b"")]
        async with connections(port) as opened:
            for connection in opened:
                while time.monotonic() < until:
                    connection.send(framed(ApiKey.JOIN_GROUP, 5, request) * 50)
                    for _ in range(50):
                        if await connection.answer() is None:
                            return

    async def heavy(port: int) -> None:
        async with connections(port, 40) as opened:
            for connection in opened:
                connection.send(joining("flood-heavy", 20 * MEBIBYTE))
                await connection.sent()
                if time.monotonic() > until:
                    break
            await asyncio.sleep(max(until - time.monotonic(), 0))

    await _until_groups_are_served(target)
    until = time.monotonic() + target.seconds
    await asyncio.gather(
        *(many(port, place) for port in target.ports for place in range(3)),
        *(heavy(port) for port in target.ports),
        *(absent(port) for port in target.ports),
    )
    made_count = 0
    for port in target.ports:
        async with connections(port) as (connection,):
            listed = await connection.call(
                ApiKey.LIST_GROUPS, 4, list_groups.ListGroupsRequest(states_filter=[])
            )
            made_count += 0 if listed is None else len(listed.groups)
    return "" if made_count else "the flood of groups has made none"


async def _until_groups_are_served(target: Target) -> None:
    """The first question for a coordinator makes the offsets topic."""
    request = find_coordinator.FindCoordinatorRequest(key_type=0, coordinator_keys=["flood"])
    async with connections(target.ports[0]) as (connection,), asyncio.timeout(30):
        while True:
            response = await connection.call(ApiKey.FIND_COORDINATOR, 4, request)
            if response is not None and not response.coordinators[0].error_code:
                return
            await asyncio.sleep(0.1)


async def telemetry_flood(target: Target) -> str:
    """TEL-5, TEL-6: invented clients that push a thousand series each, bombs and noise."""
    until = time.monotonic() + target.seconds
    configs = [
        incremental_alter_configs.AlterableConfig(name=name, value=value)
        for name, value in (("metrics", "*"), ("interval.ms", "100"))
    ]
    resource = incremental_alter_configs.AlterConfigsResource(
        resource_type=CLIENT_METRICS_RESOURCE, resource_name="attack", configs=configs
    )
    async with connections(target.ports[0]) as (connection,):
        await connection.call(
            ApiKey.INCREMENTAL_ALTER_CONFIGS,
            1,
            incremental_alter_configs.IncrementalAlterConfigsRequest(resources=[resource]),
        )
    points = [point(n, topic=f"{n:0128}", reason="x" * 128) for n in range(1_000)]
    pushes = (
        (0, metrics_data(*(gauge(f"{n:0128}", points[n]) for n in range(1_000)))),
        (0, metrics_data(gauge("g", *points))),
        (4, compress(4, bytes(100 * MEBIBYTE))),
        (0, b"\x10\x00" * 500_000),
        (0, b"\x0a\xff\xff\xff\xff\x0f"),
    )

    async def one(port: int) -> None:
        while time.monotonic() < until:
            async with connections(port) as opened:
                for connection in opened:
                    for codec_number, data in pushes:
                        told = await connection.call(
                            ApiKey.GET_TELEMETRY_SUBSCRIPTIONS,
                            0,
                            GetTelemetrySubscriptionsRequest(),
                        )
                        if told is None:
                            break
                        await connection.call(
                            ApiKey.PUSH_TELEMETRY,
                            0,
                            PushTelemetryRequest(
                                client_instance_id=told.client_instance_id,
                                subscription_id=told.subscription_id,
                                compression_type=codec_number,
                                metrics=data,
                            ),
                        )

    await asyncio.gather(*(one(port) for port in target.ports for _ in range(20)))
    for broker in target.brokers:
        async with connections(broker.admin_port) as (connection,):
            connection.send(
                b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
            )
            async with asyncio.timeout(30):
                page = await connection.reader.read()
        shown = page.count(b"barnabas_client_reported_value{")
        if not shown:
            return "no series of a client is shown"
        if shown > SERIES_OF_CLIENTS_MAX:
            return f"{shown} series of clients are shown"
    return ""


async def admin_flood(target: Target) -> str:
    """Silent connections to the admin port, drains by anybody, foreign hosts and origins."""
    for broker in target.brokers:
        async with connections(broker.admin_port, 500):
            for head, allowed in (
                ("GET /live HTTP/1.1\r\nHost: localhost", True),
                ("GET /drain HTTP/1.1\r\nHost: localhost", False),
                ("POST /drain HTTP/1.1\r\nHost: evil.example", False),
                ("POST /drain HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil.example", False),
                ("GET /status HTTP/1.1\r\nHost: evil.example", False),
            ):
                async with connections(broker.admin_port) as opened:
                    if not opened:
                        return "the admin port takes no probe"
                    (connection,) = opened
                    connection.send(f"{head}\r\nConnection: close\r\n\r\n".encode())
                    async with asyncio.timeout(10):
                        answer = await connection.reader.read()
                if (answer[9:12] == b"200") is not allowed:
                    return f"{head.splitlines()} was answered {answer[:40]!r}"
    return ""


ATTACKS: tuple[Attack, ...] = (
    speaking_for_brokers,
    mutated_frames,
    half_frames,
    slow_writers,
    parked_fetches,
    decompression_bombs,
    broken_compaction,
    element_bombs,
    repeated_names,
    hostile_settings,
    unread_fetches,
    pipelined_requests,
    key_updates,
    connection_flood,
    invented_producers,
    fetch_session_flood,
    group_flood,
    telemetry_flood,
    admin_flood,
)


def run_attack(attack: Attack, target: Target) -> str:
    """Run one attack in the attacker's process; returns what is wrong."""
    logging.getLogger("asyncio").setLevel(logging.ERROR)  # who is cut off is warned otherwise

    async def bounded() -> str:
        async with asyncio.timeout(ATTACK_SECONDS_MAX):
            return await attack(target)

    try:
        return asyncio.run(bounded())
    except TimeoutError:
        return f"the attack was not answered within {ATTACK_SECONDS_MAX} s"
