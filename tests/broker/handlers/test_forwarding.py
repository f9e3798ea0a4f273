"""Clients' requests for the controller through another broker, there and back (CTL-15)."""

import asyncio
import random
import struct
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from barnabas_broker.controller.channel import ControllerChannel
from barnabas_broker.env.clock import SystemClock
from barnabas_broker.env.network import RealNetwork
from barnabas_broker.handlers.client_quotas import ClientQuotas
from barnabas_broker.handlers.dispatch import Dispatcher
from barnabas_broker.handlers.services import Services
from barnabas_broker.handlers.table import FORWARDED, HANDLERS, OWN_REQUESTS, is_repeatable
from barnabas_broker.metadata.image import MetadataImage
from barnabas_broker.network.connection_rates import ConnectionRates
from barnabas_broker.network.heavy_work import HeavyWork
from barnabas_broker.network.peers import Peers
from barnabas_broker.security.broker_identity import BrokerIdentity
from barnabas_broker.security.principal import Principal
from barnabas_broker.security.principal_data import decode_principal
from barnabas_broker.server import Server
from barnabas_protocol import codec
from barnabas_protocol.api import SERVED, ApiKey
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.messages import (
    create_topics,
    delete_topics,
    describe_quorum,
    envelope,
    metadata,
)
from barnabas_protocol.messages.unregister_broker import UnregisterBrokerRequest
from barnabas_protocol.schema import Message
from tests.protocol.random_messages import RandomMessages
from tests.support.in_process_broker import running_broker
from tests.support.peer_nodes import PeerNode, until
from tests.support.raw_client import RawClient
from tests.support.request_frames import RequestFrames
from tests.support.session_bench import Bench


class Front:
    """A broker that is not the controller: a listener, the dispatcher and the channel."""

    def __init__(self, bench: Bench, request_timeout_ms: int) -> None:
        self.bench = bench
        self.tasks: set[asyncio.Task[None]] = set()
        self.controller: tuple[str, int] | None = None
        self.has_become_controller = False
        clock = SystemClock()
        self.peers = Peers(
            bench.network, resolve=lambda node_id: self.controller, client_id="front"
        )
        channel = ControllerChannel(
            self.peers,
            clock,
            controller_id=lambda: None if self.controller is None else 0,
            local=lambda: cast(Any, self) if self.has_become_controller else None,
            wait_for_change=asyncio.Event().wait,  # type: ignore[arg-type]
            is_repeatable=is_repeatable,
        )
        self.services = SimpleNamespace(
            channel=channel,
            clock=clock,
            authorizer=None,
            audit=None,
            config=SimpleNamespace(
                request_timeout_ms=request_timeout_ms,
                inter_broker_listener_name="PLAINTEXT",
                listeners=(),
            ),
            spawn=self._spawn,
            apis={},
            heavy_work=HeavyWork(asyncio.to_thread, ""),
            image=MetadataImage.empty(),
            quotas=ClientQuotas(clock, BrokerIdentity(""), ConnectionRates(clock)),
            broker_identity=BrokerIdentity("PLAINTEXT"),
        )
        bench.dispatch = Dispatcher(cast(Services, self.services))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)


def with_front(
    work: Callable[[Front, RawClient], Awaitable[None]], *, request_timeout_ms: int = 20_000
) -> None:
    async def run() -> None:
        async with Bench(RealNetwork(), SystemClock()) as bench:
            front = Front(bench, request_timeout_ms)
            async with await RawClient.connect(bench.listener.port) as client:
                await work(front, client)
            await until(lambda: not front.tasks)
            await front.peers.close()

    asyncio.run(run())


def with_controller(
    directory: Path,
    work: Callable[[Front, RawClient, Server, RawClient], Awaitable[None]],
    **properties: str,
) -> None:
    """The last client is connected to the controller itself."""

    async def run(front: Front, client: RawClient) -> None:
        async with running_broker(directory, **properties) as server:
            front.controller = "127.0.0.1", server.replication_port
            async with await RawClient.connect(server.replication_port) as direct:
                await work(front, client, server, direct)
            front.peers.disconnect(0)

    with_front(run)


def new_topic(name: str, validate_only: bool = False) -> create_topics.CreateTopicsRequest:
    topic = create_topics.CreatableTopic(name=name, num_partitions=2, replication_factor=1)
    return create_topics.CreateTopicsRequest(topics=[topic], validate_only=validate_only)


def test_a_topic_is_created_through_another_broker(tmp_path: Path) -> None:
    async def work(front: Front, client: RawClient, server: Server, direct: RawClient) -> None:
        created = await client.call(ApiKey.CREATE_TOPICS, 7, new_topic("a"))
        (result,) = created.topics
        assert (result.error_code, result.num_partitions) == (0, 2)
        known = server.image.topics.by_name["a"]
        assert result.topic_id == known.topic_id
        again = await client.call(ApiKey.CREATE_TOPICS, 7, new_topic("a"))
        assert again.topics[0].error_code == ErrorCode.TOPIC_ALREADY_EXISTS
        assert again == await direct.call(ApiKey.CREATE_TOPICS, 7, new_topic("a"))
        gone = delete_topics.DeleteTopicsRequest(topic_names=["a"])
        assert (await client.call(ApiKey.DELETE_TOPICS, 5, gone)).responses[0].error_code == 0
        assert server.image.topics.by_name == {}

    with_controller(tmp_path, work)


@pytest.mark.parametrize(
    "key",
    sorted(key for key in FORWARDED if key in HANDLERS),
    ids=lambda key: key.name.lower(),
)
def test_answers_are_those_of_the_controller_in_every_version(tmp_path: Path, key: ApiKey) -> None:
    """The client must not see which broker it has asked."""

    async def work(front: Front, client: RawClient, server: Server, direct: RawClient) -> None:
        for version in range(SERVED[key][0], SERVED[key][1] + 1):
            for seed in range(3):
                messages = RandomMessages(seed, small=True)
                request: Message = messages.message(codec.request_class(key), version)
                if hasattr(request, "validate_only"):
                    request.validate_only = True
                if isinstance(request, UnregisterBrokerRequest):
                    request.broker_id = 77  # there is one broker, and it is needed
                expected = await direct.call(key, version, request)
                assert await client.call(key, version, request) == expected

    with_controller(tmp_path, work)


def test_the_largest_request_of_a_client_fits_into_the_envelope(tmp_path: Path) -> None:
    """CTL-15: socket.request.max.bytes is about what a client sends, not about its envelope."""

    def request_of(frame_bytes: int) -> create_topics.CreateTopicsRequest:
        nameless = new_topic("", validate_only=True)
        rest = len(codec.encode_request(nameless, ApiKey.CREATE_TOPICS, 4, 1, "raw-client"))
        return new_topic("a" * (frame_bytes - rest), validate_only=True)

    async def work(front: Front, client: RawClient, server: Server, direct: RawClient) -> None:
        largest = request_of(30_000)
        expected = await direct.call(ApiKey.CREATE_TOPICS, 4, largest)
        assert expected.topics[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
        assert await client.call(ApiKey.CREATE_TOPICS, 4, largest) == expected
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await direct.call(ApiKey.CREATE_TOPICS, 4, request_of(30_001))

    with_controller(tmp_path, work, socket_request_max_bytes="30000")


@pytest.mark.parametrize("version", [0, 1, 2])
def test_the_metadata_log_is_described_by_any_broker(tmp_path: Path, version: int) -> None:
    """KIP-595, KIP-836: what kafka-metadata-quorum shows; nothing is known of other partitions."""

    def asked(topic: str, *indexes: int) -> describe_quorum.DescribeQuorumRequest:
        partitions = [
            describe_quorum.DescribeQuorumRequestPartitionData(partition_index=index)
            for index in indexes
        ]
        return describe_quorum.DescribeQuorumRequest(
            topics=[
                describe_quorum.DescribeQuorumRequestTopicData(
                    topic_name=topic, partitions=partitions
                )
            ]
        )

    async def work(front: Front, client: RawClient, server: Server, direct: RawClient) -> None:
        for one in (client, direct):
            answer = await one.call(ApiKey.DESCRIBE_QUORUM, version, asked("__cluster_metadata", 0))
            assert answer.error_code == 0
            (partition,) = answer.topics[0].partitions
            assert (partition.error_code, partition.leader_id) == (0, 0)
            assert partition.leader_epoch == server.image.epoch
            (voter,) = partition.current_voters
            assert voter.log_end_offset == partition.high_watermark == server.image.offset + 1
            assert partition.observers == []
            assert (voter.last_caught_up_timestamp > 0) == (version > 0)
            directory_id = server.logs.directories[0].directory_id
            assert voter.replica_directory_id == (directory_id if version == 2 else bytes(16))
            assert [(node.node_id, len(node.listeners)) for node in answer.nodes] == (
                [(0, 2)] if version == 2 else []
            )
            for other in (asked("__cluster_metadata", 0, 1), asked("other", 0)):
                refused = await one.call(ApiKey.DESCRIBE_QUORUM, version, other)
                codes = [item.error_code for item in refused.topics[0].partitions]
                assert set(codes) == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}

    with_controller(tmp_path, work)


def test_the_controller_counts_what_is_in_envelopes(tmp_path: Path) -> None:
    """MET-5: who looks for the cause of its load sees which requests came, by whatever way."""

    async def work(front: Front, client: RawClient, server: Server, direct: RawClient) -> None:
        def counted(key: ApiKey) -> int:
            times = server.listeners.metrics.times.get(key)
            return 0 if times is None else times.count

        for number in range(3):
            created = await client.call(ApiKey.CREATE_TOPICS, 7, new_topic(f"topic-{number}"))
            assert created.topics[0].error_code == 0
        await direct.call(ApiKey.CREATE_TOPICS, 7, new_topic("topic-3"))
        await until(lambda: counted(ApiKey.CREATE_TOPICS) == 4)
        assert counted(ApiKey.ENVELOPE) == 3
        assert server.dispatcher.apis[ApiKey.CREATE_TOPICS].requests_count == 4

    with_controller(tmp_path, work)


def test_requests_of_one_connection_keep_their_order(tmp_path: Path) -> None:
    async def work(front: Front, client: RawClient, server: Server, direct: RawClient) -> None:
        names = [f"t{number}" for number in range(20)]
        sent = [client.send(ApiKey.CREATE_TOPICS, 7, new_topic(name)) for name in names]
        for name, correlation_id in zip(names, sent, strict=True):
            response = await client.receive(ApiKey.CREATE_TOPICS, 7)
            assert client.last_correlation_id == correlation_id
            assert (response.topics[0].name, response.topics[0].error_code) == (name, 0)

    with_controller(tmp_path, work)


def test_many_clients_are_forwarded_at_once(tmp_path: Path) -> None:
    """Envelopes do not wait for one another, as commands on one connection otherwise do."""

    async def work(front: Front, client: RawClient, server: Server, direct: RawClient) -> None:
        async def create(number: int) -> int:
            async with await RawClient.connect(front.bench.listener.port) as one:
                response = await one.call(ApiKey.CREATE_TOPICS, 7, new_topic(f"t{number}"))
                return int(response.topics[0].error_code)

        assert await asyncio.gather(*map(create, range(100))) == [0] * 100
        assert len(server.image.topics.by_name) == 100

    with_controller(tmp_path, work)


def test_without_a_controller_the_client_is_told_after_the_request_timeout() -> None:
    async def work(front: Front, client: RawClient) -> None:
        response = await client.call(ApiKey.CREATE_TOPICS, 7, new_topic("a"))
        assert response.topics[0].error_code == ErrorCode.REQUEST_TIMED_OUT

    with_front(work, request_timeout_ms=100)


def test_a_broker_that_is_not_the_controller_never_sends_an_envelope_on() -> None:
    """Two brokers with an old view of each other would send it to and fro."""

    async def work(front: Front, client: RawClient) -> None:
        front.controller = "127.0.0.1", front.bench.listener.port
        inner = codec.encode_request(new_topic("a"), ApiKey.CREATE_TOPICS, 7, 1, "c")
        request = envelope.EnvelopeRequest(request_data=inner)
        response = await client.call(ApiKey.ENVELOPE, 0, request)
        assert response.error_code == ErrorCode.NOT_CONTROLLER
        assert front.bench.metrics.connections_open == 1

    with_front(work)


def test_a_controller_that_steps_down_is_asked_again_until_there_is_one(tmp_path: Path) -> None:
    async def work(front: Front, client: RawClient, server: Server, direct: RawClient) -> None:
        node = PeerNode(RealNetwork())
        await node.start()
        refusal = envelope.EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER)
        node.script = lambda asked: refusal
        front.controller, controller = node.address, front.controller
        client.send(ApiKey.CREATE_TOPICS, 7, new_topic("a"))
        await until(lambda: len(node.asked) == 2)
        front.controller = controller
        response = await client.receive(ApiKey.CREATE_TOPICS, 7)
        assert response.topics[0].error_code == 0
        await node.stop()

    with_controller(tmp_path, work)


async def lost_in_the_middle(front: Front, send: Callable[[], None]) -> PeerNode:
    """A controller that got what `send` sends and is gone, half-way through its answer."""
    node = PeerNode(RealNetwork())
    await node.start()
    front.controller, controller = node.address, front.controller
    send()
    await until(lambda: len(node.asked) == 1)
    node.asked[0].connection.transport.write(b"\0\0\0\x20\0\0")
    front.controller = controller
    await node.stop()
    return node


def test_a_controller_lost_in_the_middle_is_asked_again_where_that_is_harmless(
    tmp_path: Path,
) -> None:
    async def work(front: Front, client: RawClient, server: Server, direct: RawClient) -> None:
        asked = describe_quorum.DescribeQuorumRequest(topics=[])
        await lost_in_the_middle(front, lambda: client.send(ApiKey.DESCRIBE_QUORUM, 2, asked))
        response = await client.receive(ApiKey.DESCRIBE_QUORUM, 2)
        assert response.error_code == 0

    with_controller(tmp_path, work)


def test_a_controller_lost_in_the_middle_is_not_asked_again_where_that_does_harm(
    tmp_path: Path,
) -> None:
    """Whether it has carried it out is not known, and this is what the client is told."""

    async def work(front: Front, client: RawClient, server: Server, direct: RawClient) -> None:
        await lost_in_the_middle(
            front, lambda: client.send(ApiKey.CREATE_TOPICS, 7, new_topic("a"))
        )
        response = await client.receive(ApiKey.CREATE_TOPICS, 7)
        assert response.topics[0].error_code == ErrorCode.REQUEST_TIMED_OUT
        assert "a" not in server.image.topics.by_name

    with_controller(tmp_path, work)


def deletion(version: int, *names: str) -> delete_topics.DeleteTopicsRequest:
    if version >= 6:
        topics = [delete_topics.DeleteTopicState(name=name) for name in names]
        return delete_topics.DeleteTopicsRequest(topics=topics)
    return delete_topics.DeleteTopicsRequest(topic_names=list(names))


@pytest.mark.parametrize("version", [1, 5, 6])
def test_a_deletion_that_is_repeated_spares_the_topic_that_was_made_anew(
    tmp_path: Path, version: int
) -> None:
    """It is sent by the id that the name stood for when it came; gone is gone, whoever did it."""

    async def work(front: Front, client: RawClient, server: Server, direct: RawClient) -> None:
        for name in ("anew", "b"):
            await direct.call(ApiKey.CREATE_TOPICS, 7, new_topic(name))
        first = server.image.topics.by_name["anew"].topic_id
        front.services.image = server.image
        node = await lost_in_the_middle(
            front,
            lambda: client.send(ApiKey.DELETE_TOPICS, version, deletion(version, "anew", "b")),
        )
        # Meanwhile: carried out for one of the two, and the name used again.
        await direct.call(ApiKey.DELETE_TOPICS, 6, deletion(6, "anew"))
        await direct.call(ApiKey.CREATE_TOPICS, 7, new_topic("anew"))
        response = await client.receive(ApiKey.DELETE_TOPICS, version)
        assert {result.name: result.error_code for result in response.responses} == {
            "anew": 0,
            "b": 0,
        }
        assert list(server.image.topics.by_name) == ["anew"]
        assert server.image.topics.by_name["anew"].topic_id != first
        assert b"anew" not in bytes(node.asked[0].message.request_data)[20:]

    with_controller(tmp_path, work)


@pytest.mark.parametrize("version", [3, 6])
def test_a_name_that_is_another_topic_s_at_the_controller_means_that_topic(
    tmp_path: Path, version: int
) -> None:
    """The metadata of the broker that was asked is old; nothing has been carried out yet."""

    async def work(front: Front, client: RawClient, server: Server, direct: RawClient) -> None:
        for name in ("a", "b"):
            await direct.call(ApiKey.CREATE_TOPICS, 7, new_topic(name))
        front.services.image = server.image
        await direct.call(ApiKey.DELETE_TOPICS, 6, deletion(6, "a"))
        await direct.call(ApiKey.CREATE_TOPICS, 7, new_topic("a"))
        response = await client.call(ApiKey.DELETE_TOPICS, version, deletion(version, "a", "b"))
        assert {result.name: result.error_code for result in response.responses} == {"a": 0, "b": 0}
        assert not server.image.topics.by_name
        gone = await client.call(ApiKey.DELETE_TOPICS, version, deletion(version, "a", "a"))
        assert [result.error_code for result in gone.responses] == [ErrorCode.INVALID_REQUEST]

    with_controller(tmp_path, work)


def test_every_request_to_the_controller_says_whether_it_may_be_repeated() -> None:
    """And why: what changes something without naming the state that it changes, may not."""
    asked_of_controllers = {*FORWARDED, *OWN_REQUESTS}
    assert asked_of_controllers <= set(HANDLERS)
    assert set(FORWARDED) <= set(SERVED)
    for repetition in (*FORWARDED.values(), *OWN_REQUESTS.values()):
        assert repetition.reason
    assert {key for key in FORWARDED if is_repeatable(key)} == {
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ApiKey.DESCRIBE_QUORUM,
    }


def test_nobody_waits_for_the_controller_when_the_client_has_left() -> None:
    """NET-9: else clients that come and go would leave any number of tasks behind."""

    async def work(front: Front, client: RawClient) -> None:
        node = PeerNode(RealNetwork())
        await node.start()
        for controller in (None, node.address):
            front.controller = controller
            async with await RawClient.connect(front.bench.listener.port) as leaving:
                leaving.send(ApiKey.CREATE_TOPICS, 7, new_topic("a"))
                await until(lambda: len(front.tasks) == 1)
                if controller is not None:
                    await until(lambda: len(node.asked) == 1)
            await until(lambda: not front.tasks)
            assert front.bench.metrics.connections_open == 1
        inner = create_topics.CreateTopicsResponse()
        frame = codec.encode_response(inner, ApiKey.CREATE_TOPICS, 7, 1)
        node.asked[0].answer(envelope.EnvelopeResponse(response_data=frame))
        client.send(ApiKey.CREATE_TOPICS, 7, new_topic("a"))
        await until(lambda: len(node.asked) == 2)
        node.asked[1].answer(envelope.EnvelopeResponse(response_data=frame))
        assert await client.receive(ApiKey.CREATE_TOPICS, 7) == inner
        await node.stop()

    with_front(work)


def test_a_node_that_becomes_the_controller_carries_it_out_itself(tmp_path: Path) -> None:
    async def work(front: Front, client: RawClient) -> None:
        refused = asyncio.Event()

        class Controller:
            async def create_topics(self, asked: Any, validate_only: bool, quota: Any) -> list[Any]:
                refused.set()
                return []

        front.services.controller = Controller()
        client.send(ApiKey.CREATE_TOPICS, 7, new_topic("a"))
        await until(lambda: len(front.tasks) == 1)
        front.has_become_controller = True
        response = await client.receive(ApiKey.CREATE_TOPICS, 7)
        assert refused.is_set()
        assert response == create_topics.CreateTopicsResponse()

    with_front(work)


def _enveloped(message: Message, key: ApiKey, version: int) -> envelope.EnvelopeRequest:
    frame = codec.encode_request(message, key, version, 1, "c")
    return envelope.EnvelopeRequest(request_data=frame)


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (envelope.EnvelopeRequest(request_data=b""), ErrorCode.INVALID_REQUEST),
        (envelope.EnvelopeRequest(request_data=b"\0\x13\0\x07"), ErrorCode.INVALID_REQUEST),
        (envelope.EnvelopeRequest(request_data=b"\xff" * 50), ErrorCode.INVALID_REQUEST),
        (
            _enveloped(metadata.MetadataRequest(), ApiKey.METADATA, 9),
            ErrorCode.INVALID_REQUEST,
        ),
        (
            _enveloped(envelope.EnvelopeRequest(request_data=b"x"), ApiKey.ENVELOPE, 0),
            ErrorCode.INVALID_REQUEST,
        ),
        (
            envelope.EnvelopeRequest(request_data=b"\0\x13\0\x63\0\0\0\x01\xff\xff\0"),
            ErrorCode.UNSUPPORTED_VERSION,
        ),
    ],
)
def test_an_envelope_with_something_else_in_it_is_refused(
    tmp_path: Path, request_: envelope.EnvelopeRequest, code: ErrorCode
) -> None:
    """Anybody who reaches the port can send one."""

    async def work(front: Front, client: RawClient, server: Server, direct: RawClient) -> None:
        response = await direct.call(ApiKey.ENVELOPE, 0, request_)
        assert response.error_code == code
        assert response.response_data is None
        created = await direct.call(ApiKey.CREATE_TOPICS, 7, new_topic("a"))
        assert created.topics[0].error_code == 0

    with_controller(tmp_path, work)


def test_damaged_requests_in_envelopes_are_answered_and_harm_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Each gets an answer, and none of them fails by a fault of ours."""

    async def work(front: Front, client: RawClient, server: Server, direct: RawClient) -> None:
        frames = RequestFrames(seed=11)
        valid = [
            frame
            for frame in frames.valid_frames(2)
            if struct.unpack_from(">h", frame)[0] in FORWARDED.keys() - {ApiKey.UNREGISTER_BROKER}
        ]
        pick = random.Random(11)
        for _ in range(500):
            inner = frames.damaged(pick.choice(valid))[4:]
            if inner[:2] == struct.pack(">h", ApiKey.UNREGISTER_BROKER):
                continue
            response = await direct.call(
                ApiKey.ENVELOPE, 0, envelope.EnvelopeRequest(request_data=inner)
            )
            assert (response.error_code == 0) == (response.response_data is not None)
            assert response.error_code != ErrorCode.UNKNOWN_SERVER_ERROR
        created = await client.call(ApiKey.CREATE_TOPICS, 7, new_topic("after"))
        assert created.topics[0].error_code == 0
        assert not [record for record in caplog.records if record.exc_info]

    with_controller(tmp_path, work)


def test_a_broker_sends_the_principal_and_the_address_of_the_connection() -> None:
    """SEC-62."""

    async def work(front: Front, client: RawClient) -> None:
        alice = Principal("User", "alice")
        node = PeerNode(front.bench.network)
        await node.start()
        front.controller = node.address
        try:
            for session in front.bench.listener.sessions:
                session.principal = alice
            client.send(ApiKey.CREATE_TOPICS, 7, new_topic("a"))
            await until(lambda: bool(node.asked))
            (asked,) = node.asked
            message: envelope.EnvelopeRequest = asked.message
            assert decode_principal(message.request_principal) == alice
            assert bytes(message.client_host_address) == b"\x7f\0\0\1"
        finally:
            await node.stop()

    with_front(work)
