"""The state of share partitions through whole brokers: requests, topic, restarts, other brokers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from barnabas_broker.controller.features import SHARE_VERSION
from barnabas_broker.coordinator.share.coordinator import SHARE_STATE_TOPIC
from barnabas_broker.server import Server
from barnabas_broker.share.persister import SharePartitionKey, SharePersister, StateBatch
from barnabas_protocol.api import ApiKey
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.messages import (
    create_topics,
    delete_share_group_state,
    delete_topics,
    initialize_share_group_state,
    read_share_group_state,
    read_share_group_state_summary,
    write_share_group_state,
)
from barnabas_protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from tests.broker.broker_requests import produce_request, topic_id_of
from tests.support.in_process_broker import DEADLINE_SECONDS, broker_on, eventually, running_broker
from tests.support.raw_client import RawClient
from tests.support.share_state import set_share_version, switch_on_share_groups

GROUP, SHARE = "group", 2
FEW = {
    "share_coordinator_state_topic_num_partitions": "3",
    "share_coordinator_state_topic_replication_factor": "1",
    "share_coordinator_state_topic_min_isr": "1",
}
BATCH = StateBatch(0, 9, 2, 1)


def persister_of(server: Server) -> SharePersister:
    return server.data.share_state.persister


@asynccontextmanager
async def sharing_broker(directory: Path, **properties: str) -> AsyncIterator[Server]:
    """One broker on which share groups are on."""
    async with running_broker(directory, **{**FEW, **properties}) as server:
        async with await RawClient.connect(server.port) as client:
            await switch_on_share_groups(client)
        yield server


async def topic_of(server: Server, name: str = "orders") -> bytes:
    async with await RawClient.connect(server.port) as client:
        return await topic_id_of(client, name)


def with_broker(
    tmp_path: Path, work: Callable[[Server], Awaitable[None]], **properties: str
) -> None:
    async def scenario() -> None:
        async with sharing_broker(tmp_path, **properties) as server:
            await work(server)

    asyncio.run(scenario())


def requests_for(topic_id: bytes, group_id: str = GROUP) -> list[tuple[ApiKey, int, Any]]:
    """One request of each API, in the order of a share partition's life."""
    initialize, read = initialize_share_group_state, read_share_group_state
    write, delete = write_share_group_state, delete_share_group_state
    summary = read_share_group_state_summary
    return [
        (
            ApiKey.INITIALIZE_SHARE_GROUP_STATE,
            0,
            initialize.InitializeShareGroupStateRequest(
                group_id=group_id,
                topics=[
                    initialize.InitializeStateData(
                        topic_id=topic_id,
                        partitions=[
                            initialize.PartitionData(partition=0, state_epoch=1, start_offset=0)
                        ],
                    )
                ],
            ),
        ),
        (
            ApiKey.WRITE_SHARE_GROUP_STATE,
            1,
            write.WriteShareGroupStateRequest(
                group_id=group_id,
                topics=[
                    write.WriteStateData(
                        topic_id=topic_id,
                        partitions=[
                            write.PartitionData(
                                partition=0,
                                state_epoch=1,
                                leader_epoch=0,
                                start_offset=3,
                                delivery_complete_count=4,
                                state_batches=[
                                    write.StateBatch(
                                        first_offset=0,
                                        last_offset=9,
                                        delivery_state=2,
                                        delivery_count=1,
                                    )
                                ],
                            )
                        ],
                    )
                ],
            ),
        ),
        (
            ApiKey.READ_SHARE_GROUP_STATE,
            0,
            read.ReadShareGroupStateRequest(
                group_id=group_id,
                topics=[
                    read.ReadStateData(
                        topic_id=topic_id,
                        partitions=[read.PartitionData(partition=0, leader_epoch=2)],
                    )
                ],
            ),
        ),
        (
            ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
            1,
            summary.ReadShareGroupStateSummaryRequest(
                group_id=group_id,
                topics=[
                    summary.ReadStateSummaryData(
                        topic_id=topic_id,
                        partitions=[summary.PartitionData(partition=0, leader_epoch=-1)],
                    )
                ],
            ),
        ),
        (
            ApiKey.DELETE_SHARE_GROUP_STATE,
            0,
            delete.DeleteShareGroupStateRequest(
                group_id=group_id,
                topics=[
                    delete.DeleteStateData(
                        topic_id=topic_id, partitions=[delete.PartitionData(partition=0)]
                    )
                ],
            ),
        ),
    ]


async def codes_of(client: RawClient, requests: list[tuple[ApiKey, int, Any]]) -> list[int]:
    codes = []
    for request in requests:
        response = await client.call(*request)
        (result,) = response.results[0].partitions
        codes.append(result.error_code)
    return codes


# ---- requests ----------------------------------------------------------------------------------


def test_brokers_keep_the_state_of_share_partitions_by_requests(tmp_path: Path) -> None:
    """SHR-25: each API in its newest version, by the listener of the brokers."""

    async def work(server: Server) -> None:
        topic_id = await topic_of(server)
        await persister_of(server).initialize(SharePartitionKey("other", topic_id, 0), 1, 0)
        async with await RawClient.connect(server.replication_port) as client:
            responses = [await client.call(*request) for request in requests_for(topic_id)]
            results = [response.results[0].partitions[0] for response in responses]
            assert [result.error_code for result in results] == [0] * 5
            _, _, read, summary, _ = results
            assert (read.state_epoch, read.start_offset) == (1, 3)
            (batch,) = read.state_batches
            assert (batch.first_offset, batch.last_offset) == (3, 9)
            assert (summary.leader_epoch, summary.delivery_complete_count) == (2, 4)

    with_broker(tmp_path, work)


def test_nothing_is_served_while_share_groups_are_off(tmp_path: Path) -> None:
    """SHR-1: 35 for each share partition; and the topic is not made."""

    async def scenario() -> None:
        async with running_broker(tmp_path, **FEW) as server:
            topic_id = await topic_of(server)
            async with await RawClient.connect(server.port) as client:
                await set_share_version(client, 0)
            async with await RawClient.connect(server.replication_port) as client:
                codes = await codes_of(client, requests_for(topic_id))
                assert codes == [ErrorCode.UNSUPPORTED_VERSION] * 5
                found = await find(client, f"{GROUP}:AAECAwQFBgcICQoLDA0ODw:0")
                assert found.coordinators[0].error_code == ErrorCode.INVALID_REQUEST
            assert SHARE_STATE_TOPIC not in server.replicas.image.topics.by_name

    asyncio.run(scenario())


@pytest.mark.parametrize("index", range(5))
def test_no_client_reaches_the_coordinator(tmp_path: Path, index: int) -> None:
    """SHR-25: what only brokers say closes the connection of anybody else."""

    async def work(server: Server) -> None:
        topic_id = await topic_of(server)
        async with await RawClient.connect(server.port) as client:
            key, version, request = requests_for(topic_id)[index]
            client.send(key, version, request)
            assert await client.is_closed_by_peer()
        assert not server.data.has_share_state

    with_broker(tmp_path, work)


def test_a_broker_that_sends_nonsense_gets_errors_and_changes_nothing(tmp_path: Path) -> None:
    """SHR-25: numbers out of any range, states that are never stored, topics that are not there."""

    async def work(server: Server) -> None:
        topic_id = await topic_of(server)
        persister = persister_of(server)
        key = SharePartitionKey(GROUP, topic_id, 0)
        await persister.initialize(key, 1, 0)
        await persister.write(key, 1, 0, 0, 0, [BATCH])
        big = 2**31 - 1
        no_topic = SharePartitionKey(GROUP, bytes(16), 0)
        for refused, code in (
            (persister.write(key, 1, 0, 0, 0, [StateBatch(9, 3, 2, 1)]), 42),
            (persister.write(key, 1, 0, 0, 0, [StateBatch(0, 2**63 - 1, 1, 1)]), 42),
            (persister.write(key, 1, 0, -5, 0, []), 42),
            (persister.write(key, 1, 0, 0, 0, [StateBatch(i, i, 2, 1) for i in range(10_001)]), 42),
            (persister.write(key, -1, 0, 0, 0, [BATCH]), 42),
            (persister.read(key, -1), 42),
            (persister.read(SharePartitionKey(GROUP, topic_id, big), 0), 42),
            (persister.initialize(SharePartitionKey(GROUP, topic_id, big), 1, 0), 3),
            (persister.initialize(SharePartitionKey(GROUP, topic_id, -1), 1, 0), 42),
            (persister.initialize(no_topic, 1, 0), 3),
            (persister.initialize(key, 0, 0), 124),
        ):
            with pytest.raises(KafkaError) as caught:
                await refused
            assert caught.value.code == code
        assert (await persister.read(key, 0)).batches == (BATCH,)
        await persister.write(key, 1, 0, 2**63 - 1, big, [StateBatch(0, 2**63 - 1, 4, 32_767)])
        assert (await persister.read(key, 0)).start_offset == 2**63 - 1

    with_broker(tmp_path, work)


async def find(client: RawClient, *keys: str, version: int = 6) -> FindCoordinatorResponse:
    request = FindCoordinatorRequest(key_type=SHARE, coordinator_keys=list(keys))
    response: FindCoordinatorResponse = await client.call(ApiKey.FIND_COORDINATOR, version, request)
    return response


def test_share_coordinators_are_found_by_brokers(tmp_path: Path) -> None:
    """SHR-2: the topic is made at first; keys that are none and older versions are refused."""

    async def work(server: Server) -> None:
        key = "a:b:AAECAwQFBgcICQoLDA0ODw:0"
        async with await RawClient.connect(server.replication_port) as client:
            first = await find(client, key)
            assert first.coordinators[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE

            async def is_found() -> bool:
                (found,) = (await find(client, key)).coordinators
                return found.error_code == 0 and found.port == server.replication_port

            await eventually(is_found)
            found = await find(client, key, "group:0", "")
            assert [one.error_code for one in found.coordinators] == [0, 42, 42]
            old = await find(client, key, version=5)
            assert old.coordinators[0].error_code == ErrorCode.INVALID_REQUEST
            oldest = await client.call(
                ApiKey.FIND_COORDINATOR, 3, FindCoordinatorRequest(key_type=SHARE, key=key)
            )
            assert oldest.error_code == ErrorCode.INVALID_REQUEST
        async with await RawClient.connect(server.port) as client:
            (refused,) = (await find(client, key)).coordinators
            assert refused.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED

    with_broker(tmp_path, work)


# ---- the topic ---------------------------------------------------------------------------------


def test_the_topic_is_made_when_it_is_needed(tmp_path: Path) -> None:
    """SHR-22: deleted, not compacted, and never by age or size; no client writes to it."""

    async def work(server: Server) -> None:
        topic_id = await topic_of(server)
        await persister_of(server).initialize(SharePartitionKey(GROUP, topic_id, 0), 1, 0)
        topic = server.replicas.image.topics.by_name[SHARE_STATE_TOPIC]
        assert len(topic.partitions) == 3
        config = server.replicas.find(TopicPartition(SHARE_STATE_TOPIC, 0)).log.config
        assert config.cleanup_policy == frozenset(("delete",))
        assert (config.retention_ms, config.retention_bytes) == (-1, -1)
        assert (config.segment_bytes, config.min_insync_replicas) == (104_857_600, 1)
        assert config.compression_type == "producer"
        async with await RawClient.connect(server.port) as client:
            request = produce_request(b"")
            request.topic_data[0].name = SHARE_STATE_TOPIC
            response = await client.call(ApiKey.PRODUCE, 9, request)
            (result,) = response.responses[0].partition_responses
            assert result.error_code != 0

    with_broker(tmp_path, work)


def test_states_survive_a_restart(tmp_path: Path) -> None:
    """SHR-26, OFS-2: from a log that has been cut meanwhile."""
    keys: list[SharePartitionKey] = []
    rounds = 5

    async def before(server: Server) -> None:
        topic_id = await topic_of(server)
        keys[:] = [SharePartitionKey(f"group-{index}", topic_id, 0) for index in range(6)]
        persister = persister_of(server)
        for key in keys:
            await persister.initialize(key, 1, 0)
            await persister.read(key, 7)
            for offset in range(rounds):
                await persister.write(key, 1, 7, 0, offset, [StateBatch(offset, offset, 2, 1)])
        await persister.delete(keys[0])
        logs = [
            server.replicas.find(TopicPartition(SHARE_STATE_TOPIC, index)).log for index in range(3)
        ]

        async def are_cut() -> bool:
            return all(log.log_start_offset > 0 for log in logs if log.log_end_offset)

        await eventually(are_cut)

    async def after(server: Server) -> None:
        persister = persister_of(server)
        assert await persister.summary(keys[0]) == (0, 0, -1, -1)
        for key in keys[1:]:
            assert await persister.summary(key) == (1, 7, 0, rounds - 1)
            assert (await persister.read(key, 7)).batches == (StateBatch(0, rounds - 1, 2, 1),)

    settings = {
        "share_coordinator_snapshot_update_records_per_snapshot": "2",
        "share_coordinator_state_topic_prune_interval_ms": "50",
        "share_coordinator_cold_partition_snapshot_interval_ms": "100",
    }
    with_broker(tmp_path, before, **settings)

    async def again() -> None:
        async with running_broker(tmp_path, **FEW) as server:
            await after(server)

    asyncio.run(again())


def test_a_deleted_topic_is_forgotten_by_its_coordinators(tmp_path: Path) -> None:
    """SHR-25: tombstones, without anybody asking; the name's next topic is another."""

    async def work(server: Server) -> None:
        topic_id = await topic_of(server)
        persister = persister_of(server)
        for index in range(5):
            await persister.initialize(SharePartitionKey(f"group-{index}", topic_id, 0), 1, 0)
        metrics = server.data.share_state.coordinator.metrics
        assert metrics.share_partition_count == 5
        async with await RawClient.connect(server.port) as client:
            request = delete_topics.DeleteTopicsRequest(topic_names=["orders"], timeout_ms=5_000)
            assert (await client.call(ApiKey.DELETE_TOPICS, 5, request)).responses[
                0
            ].error_code == 0

        async def are_forgotten() -> bool:
            return metrics.tombstone_count == 5 and metrics.share_partition_count == 0

        await eventually(are_forgotten)
        key = SharePartitionKey("group-0", await topic_of(server), 0)
        assert key.topic_id != topic_id
        assert (await persister.summary(key)).start_offset == -1

    with_broker(tmp_path, work)


def test_the_collector_shows_the_coordinator(tmp_path: Path) -> None:
    """MET-6: once anybody has needed it."""

    async def work(server: Server) -> None:
        def shown() -> dict[str, float]:
            return {
                sample.name: sample.value
                for sample in server.collector.snapshot()
                if "_share_" in sample.name and isinstance(sample.value, int | float)
            }

        assert shown() == {}
        key = SharePartitionKey(GROUP, await topic_of(server), 0)
        await persister_of(server).initialize(key, 1, 0)
        await persister_of(server).write(key, 1, 0, 0, 0, [BATCH])
        found = shown()
        assert found["barnabas_share_state_partitions"] == 1
        assert found["barnabas_share_state_snapshots_total"] == 1
        assert found["barnabas_share_state_updates_total"] == 1
        assert found["barnabas_share_state_writes_total"] == 1
        assert found["barnabas_share_persister_requests_total"] >= 2

    with_broker(tmp_path, work)


# ---- several brokers ---------------------------------------------------------------------------


@asynccontextmanager
async def sharing_cluster(directory: Path) -> AsyncIterator[list[Server]]:
    """Three brokers in this loop on which share groups are on, and a topic of 24 partitions."""
    replicated = {
        "cluster_id": "AAAAAAAAAAAAAAAAAAAAAQ",
        "arbiter_file_path": str(directory / "arbiter"),
        "share_coordinator_state_topic_num_partitions": "6",
        "share_coordinator_state_topic_replication_factor": "3",
        "share_coordinator_state_topic_min_isr": "2",
        "broker_fence_on_refused_ms": "600000",
        "replica_lag_time_max_ms": "2000",
    }
    servers = [
        broker_on(directory / str(node_id), **replicated, node_id=str(node_id))
        for node_id in range(3)
    ]
    await asyncio.gather(*(server.start() for server in servers))
    try:
        async with await RawClient.connect(servers[0].port) as client:
            await switch_on_share_groups(client)
            topic = create_topics.CreatableTopic(
                name="orders", num_partitions=24, replication_factor=3
            )
            request = create_topics.CreateTopicsRequest(topics=[topic], timeout_ms=20_000)
            (created,) = (await client.call(ApiKey.CREATE_TOPICS, 7, request)).topics
            assert created.error_code == 0

        async def all_know() -> bool:
            return all(
                "orders" in server.replicas.image.topics.by_name
                and SHARE_VERSION in server.replicas.image.features
                for server in servers
            )

        await eventually(all_know)
        yield servers
    finally:
        for server in servers:
            await server.stop()


def keys_of(topic_id: bytes) -> list[SharePartitionKey]:
    return [SharePartitionKey(f"group-{index // 12}", topic_id, index) for index in range(24)]


def test_every_broker_reaches_every_coordinator(tmp_path: Path) -> None:
    """SHR-27: what one writes, the others read; nothing is sent to oneself over a connection."""

    async def scenario() -> None:
        async with sharing_cluster(tmp_path) as servers:
            topic_id = servers[0].replicas.image.topics.by_name["orders"].topic_id
            keys = keys_of(topic_id)
            persisters = [persister_of(server) for server in servers]
            await asyncio.gather(*(persisters[0].initialize(key, 1, 0) for key in keys))
            await asyncio.gather(*(persisters[1].write(key, 1, 0, 0, 1, [BATCH]) for key in keys))
            states = await asyncio.gather(*(persisters[2].read(key, 3) for key in keys))
            assert [state.batches for state in states] == [(BATCH,)] * 24
            refused = await asyncio.gather(
                *(persisters[1].write(key, 1, 2, 0, 1, [BATCH]) for key in keys),
                return_exceptions=True,
            )
            assert {getattr(one, "code", None) for one in refused} == {
                ErrorCode.FENCED_LEADER_EPOCH
            }
            counts = [
                server.data.share_state.coordinator.metrics.share_partition_count
                for server in servers
            ]
            assert sum(counts) == 24
            assert sum(count > 0 for count in counts) > 1

    asyncio.run(scenario())


def test_coordinators_move_while_everybody_writes(tmp_path: Path) -> None:
    """SHR-26, SHR-27: a broker stops cleanly, and nobody loses what was written."""

    async def scenario() -> None:
        async with sharing_cluster(tmp_path) as servers:
            topic_id = servers[0].replicas.image.topics.by_name["orders"].topic_id
            keys = keys_of(topic_id)
            persisters = [persister_of(server) for server in servers]
            await asyncio.gather(*(persisters[0].initialize(key, 1, 0) for key in keys))
            written = dict.fromkeys(keys, -1)
            is_over = asyncio.Event()

            async def keep_writing(number: int, key: SharePartitionKey) -> None:
                offset = 0
                while not is_over.is_set():
                    batch = StateBatch(offset, offset, 2, 1)
                    await persisters[number % 2].write(key, 1, 0, 0, offset, [batch])
                    written[key] = offset
                    offset += 1
                    await asyncio.sleep(0.005)

            async with asyncio.timeout(4 * DEADLINE_SECONDS), asyncio.TaskGroup() as tasks:
                for number, key in enumerate(keys):
                    tasks.create_task(keep_writing(number, key))
                await eventually(lambda: all_above(written, 3))
                await servers[2].stop()
                after = max(written.values())
                await eventually(lambda: all_above(written, after))
                is_over.set()
            for key in keys:
                state = await persisters[1].read(key, 1)
                assert state.batches == (StateBatch(0, written[key], 2, 1),)

    async def all_above(written: dict[SharePartitionKey, int], offset: int) -> bool:
        return min(written.values()) > offset

    asyncio.run(scenario())
