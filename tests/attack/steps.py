"""`python -m tests.attack.steps [NAME...]`: the longest step on a broker's loop for large requests.

Each request has as many elements as its API takes. The broker runs in this process, whoever sends
to it in another one, so that a step is the broker's alone. Told is processor time; the time that
passed holds what the machine did besides.
"""

import asyncio
import gc
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from rich.console import Console
from rich.table import Table

from barnabas_broker.config.client_metrics_settings import INTERVAL_MS_MIN
from barnabas_broker.env import allocator
from barnabas_broker.metadata.image import RESOURCE_CLIENT_METRICS
from barnabas_broker.telemetry.client_instance import Requested
from barnabas_broker.telemetry.client_metrics_manager import subscription_id_of
from barnabas_broker.telemetry.otlp import FIELDS_MAX, POINTS_MAX
from barnabas_protocol.api import ApiKey
from barnabas_protocol.messages import (
    add_partitions_to_txn,
    alter_configs,
    create_topics,
    delete_topics,
    describe_configs,
    incremental_alter_configs,
    list_offsets,
    list_transactions,
    metadata,
    offset_commit,
    offset_for_leader_epoch,
    produce,
    push_telemetry,
    txn_offset_commit,
    write_txn_markers,
)
from tests.attack.large_request import Large
from tests.attack.security_steps import SETTINGS, requests_before_login, security_requests
from tests.support.in_process_broker import running_broker
from tests.support.otlp import gauge, metrics_data, point, total
from tests.support.raw_client import RawClient
from tests.support.sasl_brokers import port_of
from tests.support.transactional_client import TransactionalClient, make_topic

ROUNDS = 3
PARTITIONS = 300
NAMES = [f"no-such-topic-{number:06d}" for number in range(99_000)]
# Sends the file of some frames and reads so many answers to their end, or until it is cut off.
SENDER = """
import socket, struct, sys
peer = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
try:
    peer.sendall(open(sys.argv[2], "rb").read())
    for _ in range(int(sys.argv[3])):
        size = peer.recv(4, socket.MSG_WAITALL)
        left = struct.unpack(">i", size)[0] if size else 0
        while left:
            left -= len(peer.recv(min(left, 1 << 20)) or exit())
except OSError:
    pass
"""


def _requests() -> Iterator[Large]:
    topics = [metadata.MetadataRequestTopic(name=name) for name in NAMES[:49_000]]
    yield Large(
        "Metadata, 49,000 unknown names",
        ApiKey.METADATA,
        12,
        metadata.MetadataRequest(topics=topics, allow_auto_topic_creation=False),
    )
    commits = [offset_commit.OffsetCommitRequestPartition(partition_index=n) for n in range(49_000)]
    yield Large(
        "OffsetCommit, 49,000 partitions",
        ApiKey.OFFSET_COMMIT,
        8,
        offset_commit.OffsetCommitRequest(
            group_id="g",
            topics=[offset_commit.OffsetCommitRequestTopic(name="known", partitions=commits)],
        ),
    )
    asked = [
        list_offsets.ListOffsetsPartition(partition_index=n, timestamp=-1) for n in range(99_000)
    ]
    yield Large(
        "ListOffsets, 99,000 partitions",
        ApiKey.LIST_OFFSETS,
        6,
        list_offsets.ListOffsetsRequest(
            topics=[list_offsets.ListOffsetsTopic(name="known", partitions=asked)]
        ),
    )
    ends = [
        offset_for_leader_epoch.OffsetForLeaderPartition(
            partition=n % PARTITIONS, current_leader_epoch=-1, leader_epoch=0
        )
        for n in range(99_000)
    ]
    yield Large(
        "OffsetForLeaderEpoch, 99,000",
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        4,
        offset_for_leader_epoch.OffsetForLeaderEpochRequest(
            replica_id=-1,
            topics=[offset_for_leader_epoch.OffsetForLeaderTopic(topic="known", partitions=ends)],
        ),
    )
    created = [
        create_topics.CreatableTopic(name=name, num_partitions=1, replication_factor=1)
        for name in NAMES
    ]
    yield Large(
        "CreateTopics, 99,000 topics (refused)",
        ApiKey.CREATE_TOPICS,
        5,
        create_topics.CreateTopicsRequest(topics=created, timeout_ms=60_000),
    )
    yield Large(
        "DeleteTopics, 19,000 names",
        ApiKey.DELETE_TOPICS,
        5,
        delete_topics.DeleteTopicsRequest(topic_names=NAMES[:19_000], timeout_ms=60_000),
    )
    for label, key, version, module, request_class in (
        ("AlterConfigs", ApiKey.ALTER_CONFIGS, 2, alter_configs, "AlterConfigsRequest"),
        (
            "IncrementalAlterConfigs",
            ApiKey.INCREMENTAL_ALTER_CONFIGS,
            1,
            incremental_alter_configs,
            "IncrementalAlterConfigsRequest",
        ),
    ):
        resources = [
            module.AlterConfigsResource(resource_type=2, resource_name=name, configs=[])
            for name in NAMES[:19_000]
        ]
        request = getattr(module, request_class)(resources=resources)
        yield Large(f"{label}, 19,000 resources", key, version, request)
    groups = [
        describe_configs.DescribeConfigsResource(resource_type=32, resource_name=name)
        for name in NAMES[:9_000]
    ]
    yield Large(
        "DescribeConfigs, 9,000 groups",
        ApiKey.DESCRIBE_CONFIGS,
        4,
        describe_configs.DescribeConfigsRequest(resources=groups),
    )
    yield Large(
        "DescribeConfigs, 400 groups in 4 KiB",
        ApiKey.DESCRIBE_CONFIGS,
        4,
        describe_configs.DescribeConfigsRequest(
            resources=[
                describe_configs.DescribeConfigsResource(resource_type=32, resource_name=str(n))
                for n in range(400)
            ]
        ),
    )
    yield Large(
        "ListTransactions, a pattern of 330 Unicode classes",
        ApiKey.LIST_TRANSACTIONS,
        2,
        list_transactions.ListTransactionsRequest(transactional_id_pattern=r"\pL" * 330),
    )
    assigned = create_topics.CreatableReplicaAssignment(broker_ids=list(range(99_000)))
    creation = create_topics.CreatableTopic(
        name="t", num_partitions=-1, replication_factor=-1, assignments=[assigned]
    )
    yield Large(
        "CreateTopics, 99,000 replicas (refused)",
        ApiKey.CREATE_TOPICS,
        5,
        create_topics.CreateTopicsRequest(topics=[creation], timeout_ms=60_000),
    )
    items = ",".join(f"{n}:1" for n in range(300_000))
    appended = incremental_alter_configs.AlterableConfig(
        name="leader.replication.throttled.replicas", config_operation=2, value=items
    )
    topic = incremental_alter_configs.AlterConfigsResource(
        resource_type=2, resource_name="known", configs=[appended]
    )
    yield Large(
        "IncrementalAlterConfigs, 300,000 items (refused)",
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        1,
        incremental_alter_configs.IncrementalAlterConfigsRequest(resources=[topic]),
    )
    data = [produce.PartitionProduceData(index=n, records=None) for n in range(9_900)]
    yield Large(
        "Produce, 9,900 unknown partitions",
        ApiKey.PRODUCE,
        9,
        produce.ProduceRequest(
            acks=-1,
            timeout_ms=1000,
            topic_data=[produce.TopicProduceData(name="nope", partition_data=data)],
        ),
    )


def _pushes() -> Iterator[Large]:
    """Metrics of two clients, which a subscription to all of them requests."""
    requested = Requested(metrics=("*",), push_interval_ms=INTERVAL_MS_MIN)
    points = [point(n, topic=f"{n:0128}", reason="x" * 128) for n in range(POINTS_MAX)]
    small = [total(f"m{n}", point(n)) for n in range(FIELDS_MAX // 12)]
    for number, (label, data) in enumerate(
        (
            (f"{POINTS_MAX:,} points", metrics_data(gauge("g", *points))),
            (f"{len(small):,} metrics", metrics_data(*small)),
            (f"{FIELDS_MAX:,} fields", b"\x10\x00" * FIELDS_MAX),
        )
    ):
        instance_id = bytes([number + 1]) * 16
        yield Large(
            f"PushTelemetry, {label}",
            ApiKey.PUSH_TELEMETRY,
            0,
            push_telemetry.PushTelemetryRequest(
                client_instance_id=instance_id,
                subscription_id=subscription_id_of(requested, instance_id),
                metrics=data,
            ),
        )


async def _subscribe(client: RawClient) -> None:
    """Request all metrics of all clients as often as can be."""
    configs = [
        incremental_alter_configs.AlterableConfig(name=name, value=value)
        for name, value in (("metrics", "*"), ("interval.ms", str(INTERVAL_MS_MIN)))
    ]
    resource = incremental_alter_configs.AlterConfigsResource(
        resource_type=RESOURCE_CLIENT_METRICS, resource_name="all", configs=configs
    )
    request = incremental_alter_configs.IncrementalAlterConfigsRequest(resources=[resource])
    await client.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request)


def _transactional(producer: TransactionalClient) -> Iterator[Large]:
    known, unknown = [n % PARTITIONS for n in range(9_900)], list(range(1_000, 10_900))
    ids = producer.producer_id, producer.producer_epoch
    yield Large(
        "AddPartitionsToTxn, 9,900 unknown partitions",
        ApiKey.ADD_PARTITIONS_TO_TXN,
        3,
        add_partitions_to_txn.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=producer.transactional_id,
            v3_and_below_producer_id=ids[0],
            v3_and_below_producer_epoch=ids[1],
            v3_and_below_topics=[
                add_partitions_to_txn.AddPartitionsToTxnTopic(name="known", partitions=unknown)
            ],
        ),
    )
    offsets = [
        txn_offset_commit.TxnOffsetCommitRequestPartition(
            partition_index=n, committed_offset=1, committed_metadata=""
        )
        for n in known
    ]
    yield Large(
        "TxnOffsetCommit, 9,900 partitions",
        ApiKey.TXN_OFFSET_COMMIT,
        5,
        txn_offset_commit.TxnOffsetCommitRequest(
            transactional_id=producer.transactional_id,
            group_id="g",
            producer_id=ids[0],
            producer_epoch=ids[1],
            topics=[
                txn_offset_commit.TxnOffsetCommitRequestTopic(name="known", partitions=offsets)
            ],
        ),
    )
    for label, markers in (
        ("3,300 markers", [(1_000_000 + n, [n % PARTITIONS]) for n in range(3_300)]),
        ("9,900 unknown partitions", [(2_000_000, unknown)]),
    ):
        yield Large(
            f"WriteTxnMarkers, {label}",
            ApiKey.WRITE_TXN_MARKERS,
            1,
            write_txn_markers.WriteTxnMarkersRequest(
                markers=[
                    write_txn_markers.WritableTxnMarker(
                        producer_id=producer_id,
                        producer_epoch=0,
                        coordinator_epoch=0,
                        topics=[
                            write_txn_markers.WritableTxnMarkerTopic(
                                name="known", partition_indexes=indexes
                            )
                        ],
                    )
                    for producer_id, indexes in markers
                ]
            ),
        )


class Steps:
    """The processor time of each step of the loop."""

    def __init__(self) -> None:
        self.longest = 0.0
        run = asyncio.events.Handle._run

        def timed(handle: asyncio.Handle) -> None:
            began = time.thread_time()
            run(handle)
            self.longest = max(self.longest, time.thread_time() - began)

        asyncio.events.Handle._run = timed  # type: ignore[method-assign]


async def _longest_ms(steps: Steps, port: int, frame: Path, answers: int) -> float:
    """The longest step of those in which a request was read, carried out and answered."""
    found = []
    for _ in range(ROUNDS):
        sender = await asyncio.create_subprocess_exec(
            sys.executable, "-c", SENDER, str(port), str(frame), str(answers)
        )
        steps.longest = 0.0
        assert await sender.wait() == 0
        found.append(steps.longest * 1000)
    return sorted(found)[ROUNDS // 2]


class Measurement:
    """What is measured, and what has come of it."""

    def __init__(self, chosen: list[str], directory: Path) -> None:
        self.table = Table("request", "bytes", "longest step, ms")
        self.directory = directory
        self._chosen = chosen
        self._steps = Steps()

    async def run(self, port: int, requests: Iterable[Large]) -> None:
        """Send each of the requests that are chosen."""
        path = self.directory / "frames"
        for large in requests:
            if self._chosen and not any(word in large.name for word in self._chosen):
                continue
            frames, answers = large.frames(), 1 + (large.begin is not None)
            path.write_bytes(frames)
            name, size = large.name, len(frames)
            del large, frames
            gc.collect()
            allocator.forget_start_up()  # as a broker does
            longest = await _longest_ms(self._steps, port, path, answers)
            self.table.add_row(name, f"{size:,}", f"{longest:.0f}")


async def _measure(chosen: list[str], directory: Path) -> Table:
    measurement = Measurement(chosen, directory)
    async with running_broker(directory / "broker") as server:
        async with await RawClient.connect(server.port) as client:
            topic = create_topics.CreatableTopic(
                name="known", num_partitions=PARTITIONS, replication_factor=1
            )
            request = create_topics.CreateTopicsRequest(topics=[topic], timeout_ms=10_000)
            await client.call(ApiKey.CREATE_TOPICS, 5, request)
            await make_topic(client, "__consumer_offsets")
            await _subscribe(client)
            producer = TransactionalClient(client, "tx")
            await producer.find_coordinator()
            await producer.init()
        await measurement.run(server.port, (*_requests(), *_pushes(), *_transactional(producer)))
    async with running_broker(directory / "secured", **SETTINGS) as server:
        await measurement.run(server.port, security_requests())
        await measurement.run(port_of(server), requests_before_login())
    return measurement.table


def main() -> None:
    """Measure, and print a table."""
    with tempfile.TemporaryDirectory() as directory:
        Console().print(asyncio.run(_measure(sys.argv[1:], Path(directory))))


if __name__ == "__main__":
    main()
