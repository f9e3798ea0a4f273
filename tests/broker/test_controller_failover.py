"""Administration through every broker of a real cluster, while the controller moves (CTL-15)."""

import asyncio
from pathlib import Path

from barnabas_broker.metadata.delta import MetadataDelta
from barnabas_broker.metadata.image import MetadataImage
from barnabas_broker.server import Server
from barnabas_protocol.api import ApiKey
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.messages import create_topics, init_producer_id
from tests.support.in_process_cluster import broker, controller_of, running_cluster
from tests.support.raw_client import RawClient


async def create(server: Server, name: str) -> create_topics.CreatableTopicResult:
    topic = create_topics.CreatableTopic(name=name, num_partitions=2, replication_factor=2)
    async with await RawClient.connect(server.port) as client:
        request = create_topics.CreateTopicsRequest(topics=[topic])
        (result,) = (await client.call(ApiKey.CREATE_TOPICS, 7, request)).topics
    return result


def test_every_broker_creates_topics_and_gives_ids_that_are_nobody_else_s(tmp_path: Path) -> None:
    async def run() -> None:
        async with running_cluster(tmp_path) as servers:
            ids = []
            for number, server in enumerate(servers):
                result = await create(server, f"t{number}")
                assert (result.error_code, result.num_partitions) == (0, 2)
                async with await RawClient.connect(server.port) as client:
                    for _ in range(3):
                        request = init_producer_id.InitProducerIdRequest(transactional_id=None)
                        response = await client.call(ApiKey.INIT_PRODUCER_ID, 4, request)
                        assert response.error_code == 0
                        ids.append(response.producer_id)
            assert len(set(ids)) == 9
            again = await create(servers[0], "t2")
            assert again.error_code == ErrorCode.TOPIC_ALREADY_EXISTS
            assert set(controller_of(servers).image.topics.by_name) == {"t0", "t1", "t2"}

    asyncio.run(run())


def test_requests_that_wait_while_the_controller_moves_are_answered(tmp_path: Path) -> None:
    """CTL-15: not with NOT_CONTROLLER: a client of another broker need not know who it is.

    What was on its way to the controller when that closed its connections is not known to be
    carried out, and is not repeated (decision 0019): REQUEST_TIMED_OUT says so. The cluster is so
    young that the controller has no other members beside it yet.
    """

    async def run() -> None:
        async with running_cluster(tmp_path) as servers:
            old = controller_of(servers)
            others = [server for server in servers if server is not old]
            stopping = asyncio.create_task(old.stop())
            made, in_doubt, number = set[str](), set[str](), 0
            while not (stopping.done() and number >= 20):
                name = f"t{number}"
                result = await create(others[number % 2], name)
                assert result.error_code in (ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT)
                (in_doubt if result.error_code else made).add(name)
                number += 1
            await stopping
            assert made
            new = controller_of(others)
            found = set(new.image.topics.by_name)
            assert made <= found <= made | in_doubt
            assert new.image.epoch > 1

    asyncio.run(run())


def test_a_request_to_a_controller_that_stops_is_answered_before_it_is_gone(
    tmp_path: Path,
) -> None:
    """STOP-9: the next controller is out of its sight, and a client must not wait for nothing."""

    async def run() -> None:
        async with running_cluster(tmp_path) as servers:
            old = controller_of(servers)
            async with await RawClient.connect(old.port) as client:
                stopping = asyncio.create_task(old.stop())
                while old.control.controller.is_active:
                    await asyncio.sleep(0.001)
                topic = create_topics.CreatableTopic(name="t", num_partitions=1)
                request = create_topics.CreateTopicsRequest(topics=[topic])
                response = await client.call(ApiKey.CREATE_TOPICS, 7, request)
            assert response.topics[0].error_code == ErrorCode.NOT_CONTROLLER
            await stopping

    asyncio.run(run())


def test_a_start_that_is_cut_off_leaves_as_a_broker_does(tmp_path: Path) -> None:
    """REG-9: also who has asked to serve, and has not heard yet that it may."""

    async def run() -> None:
        async with running_cluster(tmp_path) as servers:
            controller = controller_of(servers)
            node_id = (controller.logs.node_id + 1) % 3
            await servers[node_id].stop()
            again = broker(tmp_path, node_id)

            async def never_told(delta: MetadataDelta | None, image: MetadataImage) -> None:
                known = image.brokers.get(node_id)
                if known is not None and not known.fenced and delta is not None:
                    await asyncio.Event().wait()

            again.publisher.subscribe(never_told)
            starting = asyncio.create_task(again.start())
            decided = controller.control.quorum
            while decided.pending_image.brokers[node_id].fenced:
                await asyncio.sleep(0.001)
            starting.cancel()
            await asyncio.gather(starting, return_exceptions=True)
            assert decided.pending_image.brokers[node_id].fenced

    asyncio.run(run())
