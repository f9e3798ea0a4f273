"""The client against brokers that answer late, wrongly, half or not at all."""

import asyncio
import struct

import pytest

from barnabas_client.config import ClientSettings
from barnabas_client.errors import (
    AuthenticationError,
    BrokerUnreachableError,
    ClientBrokenError,
    ClosedError,
    DisconnectedError,
    RetriableError,
    TimedOutError,
)
from barnabas_client.network import Client, CoordinatorType
from barnabas_protocol.api import ApiKey
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from barnabas_protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from barnabas_protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from barnabas_protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from barnabas_protocol.messages.produce import ProduceRequest
from barnabas_protocol.messages.sasl_authenticate import SaslAuthenticateResponse
from barnabas_protocol.messages.sasl_handshake import SaslHandshakeResponse
from tests.client.network.scripted_clients import QUICK, started
from tests.support.in_process_broker import eventually
from tests.support.processes import free_port
from tests.support.scripted_broker import (
    CLOSE,
    SILENCE,
    Received,
    ScriptedBroker,
    scripted_brokers,
)

HEARTBEAT = HeartbeatRequest(group_id="g", member_id="m")


def frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (struct.pack(">i", 2_000_000_000) + b"more", "receive_message_max_bytes"),
        (struct.pack(">i", -7), "frame size is -7"),
        (frame(struct.pack(">i", 4711)), "correlation id 4711"),
        (frame(b"\0"), "no correlation id"),
        (struct.pack(">i", 100) + b"half" + b"", None),
        (CLOSE, "lost"),
    ],
    ids=["oversize", "negative", "correlation", "short", "half", "close"],
)
def test_a_hostile_response_costs_the_connection_only(answer: object, reason: str | None) -> None:
    """CLI-3 and CLI-5: what was in flight fails as disconnected, and the next request connects."""

    async def run() -> None:
        async with scripted_brokers() as (broker,), started(broker) as client:
            hostile = True

            def heartbeat(received: Received) -> object:
                if not hostile:
                    return HeartbeatResponse()
                if reason is None:  # half a frame, then the end
                    assert isinstance(answer, bytes)
                    received.connection.send(answer)
                    return CLOSE
                return answer

            await client.request(1, MetadataRequest(topics=[]))
            broker.script[ApiKey.HEARTBEAT] = heartbeat
            first = client.send_now(1, HEARTBEAT, 4, timeout_ms=9000)
            second = client.send_now(1, MetadataRequest(topics=[]), 9, timeout_ms=9000)
            with pytest.raises(DisconnectedError, match=reason or "lost"):
                await first
            with pytest.raises(DisconnectedError):
                await second
            assert not client.is_ready(1)
            hostile = False
            assert (await client.request(1, HEARTBEAT)).error_code == ErrorCode.NONE

    asyncio.run(run())


def test_a_response_that_cannot_be_read_is_the_peers_fault() -> None:
    """Repeating would not help: the one that asked is told so, the others may try again."""

    async def run() -> None:
        async with scripted_brokers() as (broker,), started(broker) as client:
            broker.script[ApiKey.HEARTBEAT] = lambda received: frame(
                struct.pack(">i", received.header.correlation_id) + b"\0\xff\xff"
            )
            first = client.send_now(1, HEARTBEAT, 4, timeout_ms=9000)
            second = client.send_now(1, HEARTBEAT, 4, timeout_ms=9000)
            with pytest.raises(ClientBrokenError, match="HEARTBEAT version 4"):
                await first
            with pytest.raises(DisconnectedError):
                await second

    asyncio.run(run())


def test_silence_is_a_disconnect_after_the_request_timeout() -> None:
    """CLI-5: a broker that does not answer one request is not asked for more."""

    async def run() -> None:
        async with scripted_brokers() as (broker,), started(broker) as client:
            broker.script[ApiKey.HEARTBEAT] = lambda _: SILENCE
            slow = client.send_now(1, HEARTBEAT, 4, timeout_ms=60)
            behind = client.send_now(1, HEARTBEAT, 4, timeout_ms=9000)
            with pytest.raises(TimedOutError, match="broker 1"):
                await slow
            with pytest.raises(DisconnectedError):
                await behind
            before = broker.count(ApiKey.METADATA)
            await eventually(lambda: _true(broker.count(ApiKey.METADATA) > before))

    asyncio.run(run())


async def _true(value: bool) -> bool:
    return value


def test_a_produce_without_acks_waits_for_no_response() -> None:
    """acks=0: there is none, and the next answer belongs to the next request."""

    async def run() -> None:
        async with scripted_brokers() as (broker,), started(broker) as client:
            broker.script[ApiKey.PRODUCE] = lambda _: SILENCE
            request = ProduceRequest(acks=0, timeout_ms=1000)
            assert await client.send_now(1, request, 9, timeout_ms=9000) is None
            assert client.in_flight_count(1) == 0
            assert await client.request(1, MetadataRequest(topics=[]))
            assert broker.count(ApiKey.PRODUCE) == 1

    asyncio.run(run())


def test_a_throttled_client_sends_nothing_until_the_time_is_over() -> None:
    """KIP-219: the broker has muted the connection, so nothing is to be had from asking."""

    async def run() -> None:
        async with scripted_brokers() as (broker,), started(broker) as client:
            broker.script[ApiKey.HEARTBEAT] = lambda _: HeartbeatResponse(throttle_time_ms=80)
            clock = client.environment.clock
            before_ms = clock.monotonic_ms()
            await client.request(1, HEARTBEAT)
            assert not client.is_ready(1)
            await client.request(1, HEARTBEAT)
            assert clock.monotonic_ms() - before_ms >= 80

    asyncio.run(run())


def test_who_waits_for_room_goes_on_when_the_throttle_time_is_over() -> None:
    """The throttle time comes with the very answer that makes room."""

    async def run() -> None:
        async with (
            scripted_brokers() as (broker,),
            started(broker, max_in_flight_requests_per_connection=1) as client,
        ):
            broker.script[ApiKey.HEARTBEAT] = lambda _: HeartbeatResponse(throttle_time_ms=50)
            clock = client.environment.clock
            before_ms = clock.monotonic_ms()
            async with asyncio.timeout(9):
                await asyncio.gather(*(client.request(1, HEARTBEAT) for _ in range(3)))
            assert clock.monotonic_ms() - before_ms >= 100

    asyncio.run(run())


def test_an_idle_connection_is_closed_and_made_again() -> None:
    """`connections.max.idle.ms`; it is no failure, so nothing is refreshed and nobody waits."""

    async def run() -> None:
        async with (
            scripted_brokers() as (broker,),
            started(broker, connections_max_idle_ms=40) as client,
        ):
            await eventually(lambda: _true(not client.is_ready(1)))
            assert broker.count(ApiKey.METADATA) == 1
            await client.request(1, MetadataRequest(topics=[]))
            assert len(broker.connections) == 2

    asyncio.run(run())


def test_an_old_broker_is_asked_for_its_versions_again() -> None:
    """Section 4 of the protocol notes: the refusal is in version 0 and names the range."""

    def refuse(received: Received) -> object:
        if received.version > 2:
            body = struct.pack(">ihihhh", received.header.correlation_id, 35, 1, 18, 0, 2)
            return frame(body)
        return ApiVersionsResponse(api_keys=[ApiVersion(api_key=3, min_version=0, max_version=5)])

    async def run() -> None:
        async with scripted_brokers() as (broker,):
            broker.script[ApiKey.API_VERSIONS] = refuse
            async with started(broker) as client:
                assert await client.version(1, ApiKey.METADATA) == 5
            assert [row.version for row in broker.received[:2]] == [4, 2]

    asyncio.run(run())


def test_all_bootstrap_servers_dead_is_told_with_the_addresses() -> None:
    """The error names what was tried and why the last one failed."""

    async def run() -> None:
        ports = [free_port(), free_port()]
        servers = [f"127.0.0.1:{port}" for port in ports]
        values = {"bootstrap_servers": servers, "default_api_timeout_ms": 150, **QUICK}
        with pytest.raises(BrokerUnreachableError, match="refused") as raised:
            await Client(ClientSettings.create(values)).start()
        for server in servers:
            assert server in str(raised.value)

    asyncio.run(run())


def test_one_of_the_bootstrap_servers_is_enough() -> None:
    """CLI-1: dead entries cost a moment, no more."""

    async def run() -> None:
        async with scripted_brokers() as (broker,):
            dead = ScriptedBroker(9)
            dead.port = free_port()
            async with started(dead, dead, broker) as client:
                assert list(client.cluster.nodes) == [1]

    asyncio.run(run())


def test_a_broker_that_comes_back_is_connected_to_again() -> None:
    """CLI-6: attempts go on with backoff; the caller's retries see it as soon as it is there."""

    async def run() -> None:
        async with scripted_brokers() as (broker,), started(broker) as client:
            await broker.stop()
            with pytest.raises(RetriableError):
                await client.request(1, MetadataRequest(topics=[]), timeout_ms=60)
            await broker.start()
            answer = await client.request_any(MetadataRequest(topics=[]), timeout_ms=9000)
            assert answer.brokers

    asyncio.run(run())


def test_the_client_begins_anew_when_no_known_broker_can_be_reached() -> None:
    """KIP-899: the bootstrap servers may lead to brokers that the client has never heard of."""

    async def run() -> None:
        async with scripted_brokers(2) as (first, second):
            first.nodes, second.nodes = [first], [second]
            second.controller_id = 2
            async with started(first, second) as client:
                known = next(iter(client.cluster.nodes))
                await (first if known == 1 else second).stop()
                picture = await client.refresh(timeout_ms=9000)
                assert list(picture.nodes) == [3 - known]

    asyncio.run(run())


def test_the_strategy_none_does_not_begin_anew() -> None:
    """KIP-899: who switches it off gets the old behaviour."""

    async def run() -> None:
        async with scripted_brokers(2) as (first, second):
            first.nodes, second.nodes = [first], [second]
            async with started(first, second, metadata_recovery_strategy="none") as client:
                known = next(iter(client.cluster.nodes))
                await (first if known == 1 else second).stop()
                with pytest.raises(BrokerUnreachableError):
                    await client.refresh(timeout_ms=150)

    asyncio.run(run())


def test_a_broker_can_tell_the_client_to_begin_anew() -> None:
    """KIP-1102: REBOOTSTRAP_REQUIRED, and the answer after that is believed in everything."""
    topic_id = bytes(range(16))

    def topic(epoch: int) -> MetadataResponseTopic:
        part = MetadataResponsePartition(partition_index=0, leader_id=1, leader_epoch=epoch)
        return MetadataResponseTopic(name="t", topic_id=topic_id, partitions=[part])

    async def run() -> None:
        async with scripted_brokers() as (broker,), started(broker) as client:
            broker.topics = [topic(7)]
            await client.wait_for_topic("t", timeout_ms=9000)
            code = int(ErrorCode.REBOOTSTRAP_REQUIRED)

            def once(_: Received) -> MetadataResponse:
                broker.topics = [topic(2)]
                del broker.script[ApiKey.METADATA]
                return MetadataResponse(error_code=code)

            broker.script[ApiKey.METADATA] = once
            picture = await client.refresh(timeout_ms=9000)
            partition = picture.partition("t", 0)
            assert partition is not None
            assert partition.leader_epoch == 2
            assert len(broker.connections) == 2

    asyncio.run(run())


def test_a_broker_that_has_moved_is_found_at_its_new_address() -> None:
    """A pod that was replaced keeps its number and gets another address."""

    async def run() -> None:
        async with scripted_brokers(2) as (old, new):
            old.nodes = [old]
            async with started(old) as client:
                assert client.is_ready(1)
                new.node_id = 1
                old.nodes = [new]
                await client.refresh()
                assert not client.is_ready(1)
                await client.request(1, MetadataRequest(topics=[]))
                assert new.count(ApiKey.METADATA) == 1

    asyncio.run(run())


def test_the_controller_is_looked_for_again() -> None:
    """A controller that is gone is replaced by the one that the next picture names."""

    async def run() -> None:
        async with scripted_brokers(2) as (first, second), started(first, second) as client:
            await first.stop()
            second.controller_id = 2
            second.nodes = [second]
            answer = await client.request_controller(MetadataRequest(topics=[]), timeout_ms=9000)
            assert answer.controller_id == 2

    asyncio.run(run())


def test_a_coordinator_that_is_loading_is_waited_for() -> None:
    """Codes 14 to 16 are asked again; an old broker is asked for one key at a time."""

    async def run() -> None:
        async with scripted_brokers() as (broker,):
            answers = [14, 15, 16, 0]

            def find(received: Received) -> FindCoordinatorResponse:
                code = answers.pop(0)
                if received.version < 4:
                    return FindCoordinatorResponse(
                        error_code=code, node_id=1, host="127.0.0.1", port=broker.port
                    )
                row = Coordinator(key="g", node_id=1, host="127.0.0.1", port=broker.port)
                row.error_code = code
                return FindCoordinatorResponse(coordinators=[row])

            broker.script[ApiKey.FIND_COORDINATOR] = find
            for newest in (6, 2):
                broker.versions[ApiKey.FIND_COORDINATOR] = (0, newest)
                answers[:] = [14, 15, 16, 0]
                async with started(broker) as client:
                    node_id = await client.coordinator(CoordinatorType.GROUP, "g", timeout_ms=9000)
                    assert client.node(node_id) == client.cluster.nodes[1]
                assert not answers

    asyncio.run(run())


def test_a_lost_coordinator_is_looked_up_again() -> None:
    """What a connection that is lost led to is no longer taken for granted."""

    async def run() -> None:
        async with scripted_brokers() as (broker,), started(broker) as client:
            row = Coordinator(key="g", node_id=1, host="127.0.0.1", port=broker.port)
            found = FindCoordinatorResponse(coordinators=[row])
            broker.script[ApiKey.FIND_COORDINATOR] = lambda _: found
            broker.script[ApiKey.HEARTBEAT] = lambda _: CLOSE
            node_id = await client.coordinator(CoordinatorType.GROUP, "g")
            with pytest.raises(RetriableError):
                await client.request(node_id, HEARTBEAT)
            await client.coordinator(CoordinatorType.GROUP, "g")
            assert broker.count(ApiKey.FIND_COORDINATOR) == 2

    asyncio.run(run())


def test_a_leader_hint_is_taken_over_at_once() -> None:
    """KIP-951: no refresh is needed to go on with the new leader."""

    async def run() -> None:
        part = MetadataResponsePartition(partition_index=0, leader_id=1, leader_epoch=3)
        async with scripted_brokers() as (broker,):
            broker.topics = [MetadataResponseTopic(name="t", partitions=[part])]
            async with started(broker) as client:
                await client.wait_for_topic("t", timeout_ms=9000)
                node = client.cluster.nodes[1]
                seen = client.cluster.version
                assert client.apply_leader_hint("t", 0, 1, 4, [node])
                assert client.cluster.version == seen + 1
                assert not client.apply_leader_hint("t", 0, 1, 4, [node])
                assert not client.apply_leader_hint("t", 0, 77, 5)

    asyncio.run(run())


def test_a_broker_without_any_log_in_is_not_tried_for_long() -> None:
    """AuthenticationError ends the start at once, also while other errors would be repeated."""

    async def run() -> None:
        async with scripted_brokers() as (broker,):
            broker.script[ApiKey.SASL_HANDSHAKE] = lambda _: SaslHandshakeResponse(
                error_code=33, mechanisms=["GSSAPI"]
            )
            login = {"sasl_username": "a", "sasl_password": "b"}
            with pytest.raises(AuthenticationError, match="which offers GSSAPI"):
                async with started(broker, security_protocol="SASL_PLAINTEXT", **login):
                    pass

    asyncio.run(run())


def test_a_log_in_of_the_callers_own_is_used_and_its_bugs_are_told() -> None:
    """`sasl_exchange` is the seam for mechanisms that are not built in."""

    class Own:
        mechanism = "OWN"
        is_complete = True

        def first(self) -> bytes:
            return b"token"

        def respond(self, challenge: bytes) -> bytes | None:
            if challenge == b"bug":
                raise ZeroDivisionError
            return None

    async def run() -> None:
        async with scripted_brokers() as (broker,):
            hosts: list[str] = []
            own = {
                "security_protocol": "SASL_PLAINTEXT",
                "sasl_exchange": lambda host: hosts.append(host) or Own(),
            }
            broker.script[ApiKey.SASL_HANDSHAKE] = lambda _: SaslHandshakeResponse()
            broker.script[ApiKey.SASL_AUTHENTICATE] = lambda _: SaslAuthenticateResponse()
            async with started(broker, **own):
                tokens = [row for row in broker.received if row.api is ApiKey.SASL_AUTHENTICATE]
                assert bytes(tokens[0].message.auth_bytes) == b"token"
                assert hosts == ["127.0.0.1"]
            broker.script[ApiKey.SASL_AUTHENTICATE] = lambda _: SaslAuthenticateResponse(
                auth_bytes=b"bug"
            )
            with pytest.raises(ClientBrokenError, match="ZeroDivisionError"):
                async with started(broker, **own):
                    pass

    asyncio.run(run())


def test_requests_wait_while_the_log_in_is_repeated() -> None:
    """KIP-368: what is in flight is answered, what comes then waits, nothing is lost."""
    log_ins: list[Received] = []

    def authenticate(received: Received) -> object:
        log_ins.append(received)
        if len(log_ins) == 1:
            return SaslAuthenticateResponse(session_lifetime_ms=60)
        return SILENCE

    async def run() -> None:
        async with scripted_brokers() as (broker,):
            broker.script[ApiKey.SASL_HANDSHAKE] = lambda _: SaslHandshakeResponse()
            broker.script[ApiKey.SASL_AUTHENTICATE] = authenticate
            login = {"sasl_username": "a", "sasl_password": "b"}
            async with started(broker, security_protocol="SASL_PLAINTEXT", **login) as client:
                await eventually(lambda: _true(len(log_ins) == 2))
                assert not client.is_ready(1)
                waiting = asyncio.ensure_future(client.request(1, MetadataRequest(topics=[])))
                before = broker.count(ApiKey.METADATA)
                second = log_ins[1]
                second.connection.answer(second, SaslAuthenticateResponse())
                assert (await waiting).brokers
                assert broker.count(ApiKey.METADATA) == before + 1
                assert len(broker.connections) == 1

    asyncio.run(run())


def test_closing_while_nothing_can_be_reached_leaves_nothing_behind() -> None:
    """A start that is given up releases all that it has opened (CLI-8)."""

    async def run() -> None:
        values = {"bootstrap_servers": f"127.0.0.1:{free_port()}", **QUICK}
        starting = asyncio.ensure_future(Client(ClientSettings.create(values)).start())
        await asyncio.sleep(0)
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(run())


def test_closing_fails_what_is_in_flight_or_waits_for_room() -> None:
    """Nobody is left waiting for a client that is gone."""

    async def run() -> None:
        async with scripted_brokers() as (broker,):
            broker.script[ApiKey.HEARTBEAT] = lambda _: SILENCE
            async with started(broker, max_in_flight_requests_per_connection=1) as client:
                sent = asyncio.ensure_future(client.request(1, HEARTBEAT))
                waiting = asyncio.ensure_future(client.request(1, HEARTBEAT))
                await eventually(lambda: _true(client.in_flight_count(1) == 1))
                refreshing = asyncio.ensure_future(client.refresh())
                await asyncio.sleep(0)
            for future in (sent, waiting, refreshing):
                with pytest.raises(ClosedError):
                    await future

    asyncio.run(run())


def test_a_silent_server_is_given_up_after_the_setup_timeout() -> None:
    """KIP-601: somebody who accepts and says nothing is no broker."""

    async def run() -> None:
        async with scripted_brokers() as (broker,):
            broker.script[ApiKey.API_VERSIONS] = lambda _: SILENCE
            with pytest.raises(BrokerUnreachableError, match="socket_connection_setup_timeout_ms"):
                async with started(
                    broker,
                    socket_connection_setup_timeout_ms=40,
                    socket_connection_setup_timeout_max_ms=40,
                    default_api_timeout_ms=200,
                ):
                    pass

    asyncio.run(run())


def test_a_server_of_another_protocol_is_recognised() -> None:
    """The port of a web server used to be answered with the size of its "frame"."""

    async def body() -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read(100)
            writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        client = Client(
            ClientSettings(bootstrap_servers=f"127.0.0.1:{port}", default_api_timeout_ms=300)
        )
        with pytest.raises(BrokerUnreachableError, match="'HTTP', so it is no Kafka broker"):
            await client.start()
        await client.close()
        server.close()
        await server.wait_closed()

    asyncio.run(body())
