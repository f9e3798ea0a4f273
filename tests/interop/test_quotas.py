"""Quotas of every kind, by Kafka's own tools and by requests, as Apache Kafka answers them.

What `kafka-configs` prints is compared line by line, and what becomes of requests over a quota by
their error codes and by whether they say to wait.
"""

import asyncio
import difflib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from barnabas_protocol.api import ApiKey
from barnabas_protocol.messages import (
    alter_client_quotas,
    api_versions,
    create_partitions,
    create_topics,
    delete_topics,
    metadata,
)
from tests.interop.started_brokers import PROPERTIES, AnyBroker, start_broker
from tests.interop.transcripts import Transcript
from tests.support.in_process_broker import eventually
from tests.support.kafka_tools import ToolCall
from tests.support.raw_client import RawClient

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]

_ALICE = ("--entity-type", "users", "--entity-name", "alice")
_APP = ("--entity-type", "clients", "--entity-name", "app")
_ADDRESS = ("--entity-type", "ips", "--entity-name", "10.0.0.1")
_USERS = ("--entity-type", "users", "--entity-default")
_CLIENTS = ("--entity-type", "clients", "--entity-default")
_ADDRESSES = ("--entity-type", "ips", "--entity-default")
_RATES = "connection_creation_rate"


def _configs(*arguments: str) -> ToolCall:
    return ToolCall("configs", ("--bootstrap-server", "@", *arguments))


def _set(entity: tuple[str, ...], *quotas: str) -> ToolCall:
    return _configs("--alter", *entity, "--add-config", ",".join(quotas))


def _calls() -> dict[str, ToolCall]:
    calls = {
        "set request time and changes": _set(
            _ALICE, "request_percentage=12.25", "controller_mutation_rate=5.5"
        ),
        "describe a user": _configs("--describe", *_ALICE),
        "set all four": _set(
            (*_ALICE, *_APP),
            "producer_byte_rate=1000",
            "consumer_byte_rate=2000",
            "request_percentage=200",
            "controller_mutation_rate=10",
        ),
        "describe a user with a client": _configs("--describe", *_ALICE, *_APP),
        "set a default user": _set(_USERS, "request_percentage=50"),
        "describe the default user": _configs("--describe", *_USERS),
        "set the default pair": _set((*_USERS, *_CLIENTS), "controller_mutation_rate=1"),
        "describe all pairs": _configs(
            "--describe", "--entity-type", "users", "--entity-type", "clients"
        ),
        "describe addresses before": _configs("--describe", "--entity-type", "ips"),
        "set an address": _set(_ADDRESS, f"{_RATES}=5"),
        "set the default address": _set(_ADDRESSES, f"{_RATES}=7"),
        "set a longer address": _set((*_ADDRESS[:3], "::1"), f"{_RATES}=2147483647"),
        "describe an address": _configs("--describe", *_ADDRESS),
        "describe the default address": _configs("--describe", *_ADDRESSES),
        "describe another address": _configs("--describe", *_ADDRESS[:3], "10.0.0.9"),
        "describe all addresses": _configs("--describe", "--entity-type", "ips"),
        "set a bad address": _set((*_ADDRESS[:3], "300.1.1.1"), f"{_RATES}=1"),
        "set a quota of clients for an address": _set(_ADDRESS, "request_percentage=5"),
        "set a quota of addresses for a user": _set(_ALICE, f"{_RATES}=5"),
    }
    for value in ("0", "-1", "-0.5", "1.5", "1e308", "1e19", "3e9", "Infinity", "x"):
        for entity, key in (
            (_ALICE, "request_percentage"),
            (_APP, "controller_mutation_rate"),
            (_APP, "producer_byte_rate"),
            (_ADDRESS, _RATES),
        ):
            if value == "Infinity" and key in ("request_percentage", "controller_mutation_rate"):
                continue  # Kafka takes a rate that is no number
            calls[f"set {key} to {value}"] = _set(entity, f"{key}={value}")
        calls[f"describe what became of {value}"] = _configs("--describe", *_APP)
    calls |= {
        "unset an address": _configs("--alter", *_ADDRESS, "--delete-config", _RATES),
        "unset the default address": _configs("--alter", *_ADDRESSES, "--delete-config", _RATES),
        "unset it again": _configs("--alter", *_ADDRESSES, "--delete-config", _RATES),
        "unset a percentage": _configs("--alter", *_ALICE, "--delete-config", "request_percentage"),
        "describe all users": _configs("--describe", "--entity-type", "users"),
        "describe what addresses are left": _configs("--describe", "--entity-type", "ips"),
    }
    return calls


# Listings in the order of somebody's hash table.
_UNORDERED = ("describe all pairs", "describe all addresses", "describe all users")
# The tool asks for SCRAM credentials of users as well, which are not served here.
_WITH_CREDENTIALS = ("describe a user", "describe all users")


class _Outcome(NamedTuple):
    """What a response says: its error codes, and whether its client is to wait."""

    what: str
    codes: list[int]
    waits: bool


async def _alter(client: RawClient, key: str, value: float | None) -> None:
    entry = alter_client_quotas.AlterClientQuotasRequestEntryData(
        entity=[alter_client_quotas.EntityData(entity_type="client-id", entity_name="raw-client")],
        ops=[alter_client_quotas.OpData(key=key, value=value or 0.0, remove=value is None)],
    )
    request = alter_client_quotas.AlterClientQuotasRequest(entries=[entry])
    response = await client.call(ApiKey.ALTER_CLIENT_QUOTAS, 1, request)
    assert [result.error_code for result in response.entries] == [0]


def _creation(*counts: int, prefix: str, validate_only: bool = False) -> Any:
    topics = [
        create_topics.CreatableTopic(
            name=f"{prefix}-{index}", num_partitions=count, replication_factor=1
        )
        for index, count in enumerate(counts)
    ]
    return create_topics.CreateTopicsRequest(
        topics=topics, timeout_ms=30_000, validate_only=validate_only
    )


class _Requests:
    """Requests under quotas, each on a connection of its own: who is muted does not hold it up."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.outcomes: list[_Outcome] = []

    async def call(self, what: str, key: ApiKey, version: int, request: Any) -> None:
        async with await RawClient.connect(self._port) as client:
            response = await client.call(key, version, request)
        array = {ApiKey.DELETE_TOPICS: "responses", ApiKey.CREATE_PARTITIONS: "results"}.get(
            key, "topics"
        )
        # Kafka responds to deletions in an order of its own.
        codes = sorted(one.error_code for one in getattr(response, array))
        self.outcomes.append(_Outcome(what, codes, response.throttle_time_ms > 0))

    async def refill(self, rate: float) -> None:
        """A quota of changes whose bucket is full, as the last one's debt is paid."""
        async with await RawClient.connect(self._port) as client:
            await _alter(client, "controller_mutation_rate", 1e9)

        async def is_full() -> bool:
            async with await RawClient.connect(self._port) as client:
                request = _creation(1, prefix="full", validate_only=True)
                response = await client.call(ApiKey.CREATE_TOPICS, 7, request)
                return response.topics[0].error_code == 0 and not response.throttle_time_ms

        await eventually(is_full)
        async with await RawClient.connect(self._port) as client:
            await _alter(client, "controller_mutation_rate", rate)
        # Until the smaller quota holds, which Kafka's controller publishes after its response.
        await asyncio.sleep(1)

    async def run(self) -> list[_Outcome]:
        rate = 0.1  # 1.1 tokens when full
        for version in (5, 7):
            await self.refill(rate)
            prefix = f"v{version}"
            request = _creation(1, 2, 3, prefix=prefix, validate_only=True)
            await self.call("validate topics", ApiKey.CREATE_TOPICS, version, request)
            await self.refill(rate)
            request = _creation(1, 2, 3, prefix=prefix)
            await self.call("create topics", ApiKey.CREATE_TOPICS, version, request)
            request = _creation(0, 1, prefix=f"{prefix}-more")
            await self.call("create more", ApiKey.CREATE_TOPICS, version, request)
        await self.refill(1e6)
        request = _creation(1, 1, 1, 1, 1, 1, 1, prefix="given")
        await self.call("create the rest", ApiKey.CREATE_TOPICS, 7, request)
        for version in (2, 3):
            await self.refill(rate)
            topics = [
                create_partitions.CreatePartitionsTopic(name=name, count=count, assignments=None)
                for name, count in (("nobody", 2), ("given-0", version + 2), ("given-1", version))
            ]
            grown = create_partitions.CreatePartitionsRequest(topics=topics, timeout_ms=30_000)
            await self.call("grow", ApiKey.CREATE_PARTITIONS, version, grown)
        for version, first in ((4, 1), (5, 4)):
            await self.refill(rate)
            names = ["nobody", *(f"given-{index}" for index in range(first, first + 3))]
            gone = delete_topics.DeleteTopicsRequest(topic_names=names, timeout_ms=30_000)
            await self.call("delete", ApiKey.DELETE_TOPICS, version, gone)
        return self.outcomes


async def _waits(port: int, key: ApiKey, version: int, request: Any, expected: bool) -> bool:
    async with await RawClient.connect(port) as client:
        response = await client.call(key, version, request)
    return bool(response.throttle_time_ms) is expected


async def _request_times(port: int) -> list[bool]:
    """Whether ApiVersions and Metadata say to wait, without, with and after a tiny percentage."""
    waits = []
    for value in (None, 1e-6, None):
        async with await RawClient.connect(port) as client:
            await _alter(client, "request_percentage", value)
        for key, version, request in (
            (ApiKey.API_VERSIONS, 2, api_versions.ApiVersionsRequest()),
            (ApiKey.METADATA, 9, metadata.MetadataRequest(topics=[])),
        ):
            await eventually(partial(_waits, port, key, version, request, value is not None))
            waits.append(value is not None)
    return waits


class _Seen(NamedTuple):
    """All that one broker has answered."""

    transcript: Transcript
    outcomes: list[_Outcome]
    waits: list[bool]


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, _Seen]]:
    """The answers of both; each broker runs alone."""
    result = {}
    for kind in ("apache", "barnabas"):
        directory = tmp_path_factory.mktemp(f"quotas-{kind}")
        broker = start_broker(kind, directory / "broker", {**PROPERTIES, "num.partitions": "1"})
        try:
            result[kind] = _look(broker, directory)
        finally:
            broker.stop()
    yield result


def _look(broker: AnyBroker, directory: Path) -> _Seen:
    waits = asyncio.run(_request_times(broker.port))
    outcomes = asyncio.run(_Requests(broker.port).run())
    # Last: its quotas of users are more special than those of the client ids above.
    return _Seen(Transcript(broker, directory / "calls", _calls()), outcomes, waits)


@pytest.mark.parametrize("name", list(_calls()))
def test_kafka_configs_prints_the_same(seen: dict[str, _Seen], name: str) -> None:
    """QUO-1: KIP-546; every kind of quota and entity, good values and bad ones."""
    kafka, ours = (seen[kind].transcript.lines(name) for kind in ("apache", "barnabas"))
    if name in _UNORDERED:
        kafka, ours = sorted(kafka), sorted(ours)
    if name in _WITH_CREDENTIALS:
        kafka, ours = ([line for line in lines if "Quota" in line] for lines in (kafka, ours))
    assert not list(difflib.unified_diff(kafka, ours, "apache", "barnabas", lineterm="", n=2))


def test_changes_over_a_quota_are_refused_or_throttled_alike(seen: dict[str, _Seen]) -> None:
    """QUO-7: by the version of the request."""
    assert seen["barnabas"].outcomes == seen["apache"].outcomes
    codes = {code for outcome in seen["barnabas"].outcomes for code in outcome.codes}
    assert 89 in codes


def test_request_time_throttles_alike(seen: dict[str, _Seen]) -> None:
    """QUO-3: all APIs, ApiVersions included, on new connections at once."""
    assert seen["barnabas"].waits == seen["apache"].waits
