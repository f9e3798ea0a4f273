"""Client telemetry through a whole broker: subscribe, ask, push, and look at what is shown."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from barnabas_broker.handlers import push_telemetry
from barnabas_broker.handlers.push_telemetry import LOOP_BYTES_MAX
from barnabas_broker.metadata.image import RESOURCE_CLIENT_METRICS
from barnabas_broker.metrics.sample import Sample
from barnabas_broker.server import Server
from barnabas_protocol.api import ApiKey
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.ids import ZERO_UUID, uuid_to_text
from barnabas_protocol.messages import incremental_alter_configs, list_config_resources
from barnabas_protocol.messages.api_versions import ApiVersionsRequest
from barnabas_protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from barnabas_protocol.messages.push_telemetry import PushTelemetryRequest
from barnabas_protocol.records.compression import Compression, compress
from tests.broker.broker_requests import with_broker
from tests.support.in_process_broker import eventually
from tests.support.otlp import gauge, metrics_data, point, total
from tests.support.raw_client import RawClient

MAX_BYTES = 20_000
SMALL = metrics_data(gauge("org.a.size", point(2.5, topic="t")), total("org.a.sent", point(3)))


async def alter(client: RawClient, name: str, **values: str | None) -> int:
    """Set or (None) delete settings of a subscription; `a_b` stands for `a.b`."""
    configs = [
        incremental_alter_configs.AlterableConfig(
            name=key.replace("_", "."), config_operation=int(value is None), value=value
        )
        for key, value in values.items()
    ]
    resource = incremental_alter_configs.AlterConfigsResource(
        resource_type=RESOURCE_CLIENT_METRICS, resource_name=name, configs=configs
    )
    response = await client.call(
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        1,
        incremental_alter_configs.IncrementalAlterConfigsRequest(resources=[resource]),
    )
    return int(response.responses[0].error_code)


async def get(client: RawClient, instance_id: bytes = ZERO_UUID) -> Any:
    return await client.call(
        ApiKey.GET_TELEMETRY_SUBSCRIPTIONS,
        0,
        GetTelemetrySubscriptionsRequest(client_instance_id=instance_id),
    )


async def push(
    client: RawClient,
    subscription: GetTelemetrySubscriptionsResponse,
    data: bytes,
    codec: int = Compression.NONE,
    **changes: Any,
) -> int:
    request = PushTelemetryRequest(
        client_instance_id=subscription.client_instance_id,
        subscription_id=subscription.subscription_id,
        compression_type=codec,
        metrics=data,
    )
    for name, value in changes.items():
        setattr(request, name, value)
    return int((await client.call(ApiKey.PUSH_TELEMETRY, 0, request)).error_code)


def samples(server: Server, name: str) -> list[Sample]:
    return [sample for sample in server.collector.snapshot() if sample.name == name]


async def subscribed(client: RawClient, **values: str) -> GetTelemetrySubscriptionsResponse:
    """Make a subscription and ask until it is in force."""
    assert await alter(client, "all", **(values or {"metrics": "*"})) == 0

    async def is_requested() -> bool:
        return bool((await get(client)).requested_metrics)

    await eventually(is_requested)
    subscription: GetTelemetrySubscriptionsResponse = await get(client)
    return subscription


def run(directory: Path, test: object) -> None:
    with_broker(directory, test, telemetry_max_bytes=str(MAX_BYTES))


def test_a_client_is_told_what_to_push(tmp_path: Path) -> None:
    """TEL-2: codecs in Kafka's order, deltas, the largest push."""

    async def test(server: Server, client: RawClient) -> None:
        nothing = await get(client)
        assert (nothing.requested_metrics, nothing.push_interval_ms) == ([], 300_000)
        told = await subscribed(client, metrics="org.a.,org.b.", interval_ms="60000")
        assert told.error_code == 0
        assert told.client_instance_id != ZERO_UUID
        assert told.requested_metrics == ["org.a.", "org.b."]
        assert told.push_interval_ms == 60_000
        assert told.accepted_compression_types == [4, 3, 1, 2]
        assert told.telemetry_max_bytes == MAX_BYTES
        assert told.delta_temporality
        assert (await get(client, told.client_instance_id)).error_code == 89

    run(tmp_path, test)


@pytest.mark.parametrize("codec", list(Compression))
def test_what_a_client_pushes_is_shown(tmp_path: Path, codec: Compression) -> None:
    """TEL-6: by client, software and metric, whatever it is compressed with."""

    async def test(server: Server, client: RawClient) -> None:
        versions = ApiVersionsRequest(client_software_name="test", client_software_version="1")
        await client.call(ApiKey.API_VERSIONS, 3, versions)
        told = await subscribed(client)
        assert await push(client, told, compress(codec, SMALL), codec) == 0
        (value,) = samples(server, "barnabas_client_reported_value")
        assert value.value == 2.5
        assert value.labels == {
            "client_id": "raw-client",
            "client_software_name": "test",
            "client_instance_id": uuid_to_text(told.client_instance_id),
            "metric": "org.a.size",
            "topic": "t",
            "partition": "",
            "node_id": "",
            "attributes": "",
        }
        (counted,) = samples(server, "barnabas_client_reported_total")
        assert (counted.value, counted.labels["metric"]) == (3, "org.a.sent")
        assert await push(client, told, SMALL) == 89

    run(tmp_path, test)


@pytest.mark.parametrize(
    ("data", "codec", "changes", "code"),
    [
        (SMALL, 0, {"client_instance_id": ZERO_UUID}, ErrorCode.INVALID_REQUEST),
        (SMALL, 0, {"subscription_id": 1}, ErrorCode.UNKNOWN_SUBSCRIPTION_ID),
        (SMALL, 5, {}, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (SMALL, -1, {}, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (bytes(MAX_BYTES + 1), 0, {}, ErrorCode.TELEMETRY_TOO_LARGE),
        (bytes(5_000_000), 0, {}, ErrorCode.TELEMETRY_TOO_LARGE),
        (compress(4, bytes(10_000_000)), 4, {}, ErrorCode.TELEMETRY_TOO_LARGE),
        (b"\xff", 0, {}, ErrorCode.INVALID_RECORD),
        (b"\xff" * 5000, 0, {}, ErrorCode.INVALID_RECORD),
        (SMALL, 1, {}, ErrorCode.INVALID_RECORD),
        (b"", 0, {}, ErrorCode.NONE),
    ],
)
def test_a_push_that_cannot_be_taken_is_refused(
    tmp_path: Path, data: bytes, codec: int, changes: dict[str, Any], code: ErrorCode
) -> None:
    """TEL-4: by its code, and the connection lives."""

    async def test(server: Server, client: RawClient) -> None:
        told = await subscribed(client)
        assert await push(client, told, data, codec, **changes) == code
        assert samples(server, "barnabas_client_reported_value") == []
        assert (await get(client)).error_code == 0

    run(tmp_path, test)


def test_after_its_last_push_a_client_pushes_no_more(tmp_path: Path) -> None:
    """TEL-3, TEL-4: the last is in time at any time."""

    async def test(server: Server, client: RawClient) -> None:
        told = await subscribed(client)
        assert await push(client, told, SMALL) == 0
        assert await push(client, told, SMALL, terminating=True) == 0
        assert await push(client, told, SMALL, terminating=True) == ErrorCode.INVALID_REQUEST
        (counted,) = samples(server, "barnabas_client_reported_total")
        assert counted.value == 6

    run(tmp_path, test)


def test_what_is_large_or_compressed_is_read_in_a_thread(tmp_path: Path) -> None:
    """TEL-5: what takes longer than a moment must not hold up other connections."""

    async def test(server: Server, client: RawClient) -> None:
        told = await subscribed(client)
        before = server.heavy_work.run_count
        assert len(SMALL) <= LOOP_BYTES_MAX
        assert await push(client, told, SMALL) == 0
        assert server.heavy_work.run_count == before
        large = metrics_data(gauge("g", *(point(n, topic=f"t{n}") for n in range(60))))
        assert LOOP_BYTES_MAX < len(large) < 4096
        for data, codec in ((large, 0), (compress(4, SMALL), 4)):
            before = server.heavy_work.run_count
            assert await push(client, await get(client), data, codec) == 0
            assert server.heavy_work.run_count == before + 1

    run(tmp_path, test)


def test_pushes_do_not_wait_behind_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """TEL-5: what producers need goes before; what needs no thread is taken."""
    monkeypatch.setattr(push_telemetry, "WAITING_MAX", 0)  # so none is few enough

    async def test(server: Server, client: RawClient) -> None:
        told = await subscribed(client)
        code = await push(client, told, compress(4, SMALL), 4)
        assert code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
        assert await push(client, await get(client), SMALL) == 0

    run(tmp_path, test)


def test_subscriptions_are_listed_while_they_have_settings(tmp_path: Path) -> None:
    """TEL-1: version 0 lists nothing else, newer ones what they are asked for."""

    async def listed(client: RawClient, version: int) -> list[tuple[int | None, str]]:
        request = list_config_resources.ListConfigResourcesRequest()
        if version:
            request.resource_types = [RESOURCE_CLIENT_METRICS]
        response = await client.call(ApiKey.LIST_CONFIG_RESOURCES, version, request)
        return [(each.resource_type, each.resource_name) for each in response.config_resources]

    async def test(server: Server, client: RawClient) -> None:
        assert await alter(client, "one", metrics="a", interval_ms="1000") == 0
        assert await alter(client, "two", match="client_id=x") == 0
        for version in (0, 1):
            assert [name for _, name in await listed(client, version)] == ["one", "two"]
        assert await alter(client, "one", metrics=None, interval_ms=None) == 0
        assert await listed(client, 1) == [(RESOURCE_CLIENT_METRICS, "two")]

    run(tmp_path, test)


def test_a_subscription_that_goes_is_in_force_no_more(tmp_path: Path) -> None:
    """TEL-2, TEL-3: clients hear of it at once when they ask, and are refused when they push."""

    async def test(server: Server, client: RawClient) -> None:
        told = await subscribed(client)
        assert await alter(client, "all", metrics=None) == 0

        async def is_gone() -> bool:
            return not (await get(client)).requested_metrics

        await eventually(is_gone)
        assert await push(client, told, SMALL) == ErrorCode.UNKNOWN_SUBSCRIPTION_ID
        assert (await get(client, told.client_instance_id)).requested_metrics == []

    run(tmp_path, test)


def test_clients_are_matched_by_what_their_requests_tell(tmp_path: Path) -> None:
    """TEL-1, TEL-2: the id in the header, the peer of the connection, ApiVersions' software."""

    async def test(server: Server, client: RawClient) -> None:
        versions = ApiVersionsRequest(client_software_name="test", client_software_version="1.2")
        await client.call(ApiKey.API_VERSIONS, 3, versions)
        for name, match in {
            "all": "client_id=raw-client,client_software_name=t.*,client_software_version=1[.].*",
            "peer": "client_source_address=127.0.0.1,client_source_port=[0-9]+",
            "other-peer": "client_source_address=127.0.0.2",
            "other-port": "client_source_port=1",
            "other-software": "client_software_name=tes",
        }.items():
            assert await alter(client, name, metrics=name, match=match) == 0
        assert (await get(client)).requested_metrics == ["all", "peer"]
        async with await RawClient.connect(server.port) as silent:
            assert (await get(silent)).requested_metrics == ["peer"]

    run(tmp_path, test)


def test_a_subscription_is_in_force_after_a_restart(tmp_path: Path) -> None:
    """TEL-1, TEL-2: it is in the metadata log, and clients notice nothing."""
    ids = []

    async def before(server: Server, client: RawClient) -> None:
        told = await subscribed(client)
        ids.append((told.client_instance_id, told.subscription_id))

    async def after(server: Server, client: RawClient) -> None:
        told = await get(client, ids[0][0])
        assert (told.client_instance_id, told.subscription_id) == ids[0]
        assert await push(client, told, SMALL) == 0

    run(tmp_path, before)
    run(tmp_path, after)


def test_two_clients_at_once_are_two(tmp_path: Path) -> None:
    """TEL-6: pushes in threads do not mix what they show."""

    async def test(server: Server, client: RawClient) -> None:
        await subscribed(client)

        async def one(number: int) -> None:
            async with await RawClient.connect(server.port) as other:
                data = compress(4, metrics_data(gauge(f"g{number}", point(number))))
                assert await push(other, await get(other), data, 4) == 0

        await asyncio.gather(*(one(number) for number in range(8)))
        found = samples(server, "barnabas_client_reported_value")
        assert {sample.labels["metric"]: sample.value for sample in found} == {
            f"g{number}": number for number in range(8)
        }
        assert len({sample.labels["client_instance_id"] for sample in found}) == 8

    run(tmp_path, test)
