"""Quotas of clients: whose holds, how long clients wait, and what a whole broker makes of it."""

import asyncio
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from barnabas_broker.handlers.bandwidth_throttle import BandwidthThrottle
from barnabas_broker.handlers.client_quotas import ClientQuotas
from barnabas_broker.metadata.records import QuotaEntity
from barnabas_broker.network.connection_rates import ConnectionRates
from barnabas_broker.network.session import InFlightRequest
from barnabas_broker.quotas.quota_buckets import Entity
from barnabas_broker.security.broker_identity import BrokerIdentity
from barnabas_broker.security.principal import ANONYMOUS, Principal
from barnabas_broker.server import Server
from barnabas_protocol import codec
from barnabas_protocol.api import ApiKey
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.messages import describe_client_quotas
from tests.broker.broker_requests import (
    batch,
    fetch_request,
    produce_request,
    produced,
    set_quota,
    topic_id_of,
    with_broker,
)
from tests.support.in_process_broker import eventually, running_broker
from tests.support.raw_client import RawClient
from tests.support.simulated_clock import SimulatedClock

CLIENT = "raw-client"
PRODUCE, CONSUME = "producer_byte_rate", "consumer_byte_rate"


def request_of(client_id: str | None, principal: Principal = ANONYMOUS) -> InFlightRequest:
    made = SimpleNamespace(principal=principal, client_id=client_id)
    return cast(InFlightRequest, made)


def throttle(rates: dict[Entity, float]) -> tuple[BandwidthThrottle, SimulatedClock]:
    clock = SimulatedClock(monotonic_ms=1_000_000)
    made = BandwidthThrottle(clock)
    for entity, rate in rates.items():
        made.buckets.update(entity, rate)
    return made, clock


def test_throttle_is_the_excess_over_the_limit_in_the_window() -> None:
    """QUO-3: (observed - limit) / limit x window, of ten seconds at least."""
    made, clock = throttle({(None, "a"): 1_000.0})
    assert made.charge(request_of("a"), 10_000) == 0
    assert made.charge(request_of("a"), 5_000) == 5_000
    assert made.charge(request_of("b"), 10**9) == 0
    clock.advance(5_000)
    assert made.charge(request_of("a"), 0) == 5_000
    clock.advance(6_000)
    assert made.charge(request_of("a"), 0) == 0


def test_a_quota_of_nothing_stops_and_a_larger_one_lets_go_at_once() -> None:
    """QUO-8: a changed quota holds for the bytes that were counted already."""
    made, _ = throttle({(None, ""): 0.0})
    assert made.charge(request_of("a"), 1) == 2**31 - 1
    made.buckets.update((None, ""), 10.0)
    assert made.charge(request_of("a"), 1) == 0


def test_a_fetch_over_the_quota_is_not_sent_and_does_not_count() -> None:
    """QUO-4: but a batch larger than the quota passes when nothing else has, or it never would."""
    made, clock = throttle({(None, "a"): 1_000.0})
    assert made.charge_or_refuse(request_of("a"), 30_000) == (20_000, True)
    assert made.charge_or_refuse(request_of("a"), 5_000) == (25_000, False)
    assert made.charge_or_refuse(request_of("a"), 0) == (20_000, False)
    clock.advance(11_000)
    assert made.charge_or_refuse(request_of("a"), 5_000) == (0, True)
    assert made.bytes_max(request_of("a")) == 10_000
    assert made.bytes_max(request_of("b")) is None


def test_a_large_batch_passes_whenever_its_shared_quota_is_kept() -> None:
    """QUO-2, QUO-4: others of the bucket who read a little all the time starve nobody."""
    made, clock = throttle({("", None): 1_000.0})
    for _ in range(30):
        assert made.charge_or_refuse(request_of("small"), 100) == (0, True)
        clock.advance(1_000)
    assert made.charge_or_refuse(request_of("large"), 30_000)[1]
    assert not made.charge_or_refuse(request_of("large"), 30_000)[1]


@pytest.mark.parametrize("rate", [5e-324, 1e-300, 0.0, -1.0, -(2.0**62)])
def test_a_quota_of_nothing_lets_nothing_be_read(rate: float) -> None:
    """QUO-3, QUO-4: however small or negative, it is a number of milliseconds."""
    made, _ = throttle({(None, "a"): rate})
    assert made.bytes_max(request_of("a")) == 0
    assert made.charge(request_of("a"), 100_000_000) == 2**31 - 1
    other, _ = throttle({(None, "a"): rate})
    throttle_ms, is_sent = other.charge_or_refuse(request_of("a"), 1)
    assert throttle_ms == 2**31 - 1
    assert is_sent == (rate > 0), "what is more than nothing is paid for later"


def test_a_user_is_the_name_of_a_principal() -> None:
    """SEC-50: without its type, as in Kafka; names of certificates are names."""
    name = "CN=alice,O=shop"
    made, _ = throttle({(name, None): 10.0, ("ANONYMOUS", None): 20.0})
    assert made.bytes_max(request_of("a", Principal("User", name))) == 100
    assert made.bytes_max(request_of("a")) == 200
    assert made.bytes_max(request_of("a", Principal("User", f"User:{name}"))) is None


def test_without_quotas_there_is_nothing_to_be_asked() -> None:
    """QUO-8: a quota of one kind is none of the others, and who measures is told once."""
    clock = SimulatedClock(monotonic_ms=0)
    told: list[bool] = []
    connections = ConnectionRates(clock)
    quotas = ClientQuotas(clock, BrokerIdentity("REPLICATION"), connections)
    quotas.on_measured = lambda: told.append(quotas.request is not None)

    def kinds() -> tuple[bool, ...]:
        served = (quotas.produce, quotas.fetch, quotas.request, quotas.mutation)
        return (*(kind is not None for kind in served), bool(connections.buckets))

    assert kinds() == (False,) * 5
    app, address = (("client-id", "a"),), (("ip", None),)
    first = {app: {CONSUME: 1.0}, address: {PRODUCE: 1.0}}
    quotas.update(first)
    assert kinds() == (False, True, False, False, False)
    for key, expected in (
        ("request_percentage", (True, True, True, False, False)),
        ("controller_mutation_rate", (False, False, False, True, False)),
    ):
        quotas.update({app: {key: 1.0}}, [app, address])
        assert kinds() == expected
    quotas.update({address: {"connection_creation_rate": 1.0}}, [app, address])
    assert kinds() == (False, False, False, False, True)
    quotas.update(first)
    assert kinds() == (False, True, False, False, False)
    quotas.update({}, [app])
    assert kinds() == (False,) * 5
    assert told == [True, False]


def test_very_many_quotas_are_taken_over_in_turns() -> None:
    """QUO-8: the loop does other things in between, and all hold at the end."""
    clock = SimulatedClock(monotonic_ms=0)
    quotas = ClientQuotas(clock, BrokerIdentity("REPLICATION"), ConnectionRates(clock))
    every = {(("user", f"u{number}"),): {PRODUCE: 1.0} for number in range(5_000)}

    async def run(changed: Iterable[QuotaEntity] | None) -> int:
        updating = asyncio.create_task(quotas.update_in_turns(every, changed))
        turns = 0
        while not updating.done():
            await asyncio.sleep(0)
            turns += 1
        return turns

    assert asyncio.run(run(None)) >= 10
    assert quotas.produce is not None
    assert quotas.produce.buckets.quota_of([(("u4999", None), ("u4999", None))])
    assert asyncio.run(run(list(every)[:5])) <= 3
    every.clear()
    assert asyncio.run(run(None)) <= 3
    assert quotas.produce is None


async def describe(client: RawClient, *components: tuple[str, int, str | None], **more: Any) -> Any:
    return await client.call(
        ApiKey.DESCRIBE_CLIENT_QUOTAS,
        1,
        describe_client_quotas.DescribeClientQuotasRequest(
            components=[
                describe_client_quotas.ComponentData(entity_type=kind, match_type=match, match=name)
                for kind, match, name in components
            ],
            **more,
        ),
    )


def frame_bytes(request: Any, version: int) -> int:
    return len(codec.encode_request(request, ApiKey.PRODUCE, version, 1, CLIENT))


def test_a_producer_over_its_quota_waits_behind_the_response(tmp_path: Path) -> None:
    """QUO-4, QUO-8, KIP-219: the response comes at once, and says how long nothing is read."""

    async def test(server: Server, client: RawClient) -> None:
        topic_id = await topic_id_of(client)
        request = produce_request(batch(b"x" * 10_000), topic_id)
        await set_quota(client, PRODUCE, 1, client_id="somebody-else")
        response = await client.call(ApiKey.PRODUCE, 12, request)
        assert response.throttle_time_ms == 0
        rate = frame_bytes(request, 12) // 10.2
        await set_quota(client, PRODUCE, rate, client_id=CLIENT)
        loop = asyncio.get_running_loop()
        began = loop.time()
        for version in (12, 3):
            response = await client.call(ApiKey.PRODUCE, version, request)
            assert response.responses[0].partition_responses[0].error_code == 0
            if version == 12:
                throttle_ms = response.throttle_time_ms
                assert 0 < throttle_ms < 1_000
        assert loop.time() - began >= throttle_ms / 1000
        assert response.throttle_time_ms > 1_000
        assert server.listeners.metrics.mutes == 2
        async with await RawClient.connect(server.port) as other:
            await set_quota(other, PRODUCE, None, client_id=CLIENT)
            assert (await other.call(ApiKey.PRODUCE, 12, request)).throttle_time_ms == 0

    with_broker(tmp_path, test)


def test_a_produce_that_is_refused_counts_as_well(tmp_path: Path) -> None:
    """QUO-4: or a client could send what it likes as long as it sends it wrongly."""

    async def test(server: Server, client: RawClient) -> None:
        request = produce_request(batch(b"x" * 10_000), await topic_id_of(client))
        request.acks = 5
        await set_quota(client, PRODUCE, frame_bytes(request, 12) // 10.2, client_id=CLIENT)
        response = await client.call(ApiKey.PRODUCE, 12, request)
        refused = response.responses[0].partition_responses[0].error_code
        assert refused == ErrorCode.INVALID_REQUIRED_ACKS
        assert server.listeners.metrics.mutes == 1

    with_broker(tmp_path, test)


def test_a_consumer_over_its_quota_gets_nothing_and_loses_nothing(tmp_path: Path) -> None:
    """QUO-4: in a session as well, whose partitions the client goes on to know."""

    async def test(server: Server, client: RawClient) -> None:
        topic_id = await topic_id_of(client)
        records = batch(b"x" * 10_000)
        await produced(client, 12, produce_request(records, topic_id))
        await set_quota(client, CONSUME, len(records) // 10.2, client_id=None)
        first = await client.call(ApiKey.FETCH, 13, fetch_request(0, topic_id, session=(0, 0)))
        assert len(first.responses[0].partitions[0].records) == len(records)
        assert 0 < first.throttle_time_ms < 1_000
        again = fetch_request(0, topic_id, session=(first.session_id, 1))
        second = await client.call(ApiKey.FETCH, 13, again)
        assert (second.error_code, second.session_id) == (0, first.session_id)
        assert not second.responses
        assert second.throttle_time_ms > 1_000
        async with await RawClient.connect(server.port) as other:
            third = await other.call(ApiKey.FETCH, 4, fetch_request(0))
            (partition,) = third.responses[0].partitions
            assert (partition.high_watermark, partition.records or b"") == (1, b"")
            assert third.throttle_time_ms > 1_000
        async with await RawClient.connect(server.port) as other:
            await set_quota(other, CONSUME, None, client_id=None)
            last = await other.call(ApiKey.FETCH, 13, fetch_request(0, topic_id))
            assert len(last.responses[0].partitions[0].records) == len(records)
            assert last.throttle_time_ms == 0

    with_broker(tmp_path, test)


def test_quotas_outlive_a_restart_and_are_found_by_filters(tmp_path: Path) -> None:
    """KIP-546: by name, as the default, by type; strict filters fit whole entities."""

    async def test() -> None:
        async with running_broker(tmp_path) as server, await RawClient.connect(server.port) as one:
            await set_quota(one, PRODUCE, 1, client_id="a")
            await set_quota(one, CONSUME, 2, client_id=None)
        async with running_broker(tmp_path) as server, await RawClient.connect(server.port) as one:

            async def has_both() -> bool:
                return (server.quotas.produce is None, server.quotas.fetch is None) == (False,) * 2

            await eventually(has_both)
            for components, expected in (
                ((), {"a", None}),
                ((("client-id", 0, "a"),), {"a"}),
                ((("client-id", 1, None),), {None}),
                ((("client-id", 2, None),), {"a", None}),
                ((("client-id", 2, None), ("user", 2, None)), set()),
            ):
                response = await describe(one, *components)
                assert response.error_code == ErrorCode.NONE
                found = {entry.entity[0].entity_name for entry in response.entries}
                assert found == expected, components
            assert not (await describe(one, strict=True)).entries
            for components, code in (
                ((("client-id", 0, None),), ErrorCode.INVALID_REQUEST),
                ((("client-id", 2, "a"),), ErrorCode.INVALID_REQUEST),
                ((("client-id", 9, "a"),), ErrorCode.INVALID_REQUEST),
                ((("", 2, None),), ErrorCode.INVALID_REQUEST),
                ((("team", 2, None),), ErrorCode.UNSUPPORTED_VERSION),
                ((("user", 2, None), ("user", 2, None)), ErrorCode.INVALID_REQUEST),
                ((("ip", 2, None), ("user", 2, None)), ErrorCode.INVALID_REQUEST),
            ):
                assert (await describe(one, *components)).error_code == code, components

    asyncio.run(test())
