"""ACLs by `kafka-acls` and by raw requests, as Apache Kafka 4.4 answers them.

What the tool prints is compared line by line; whole responses to requests by code and text.
"""

import asyncio
import difflib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from barnabas_protocol.api import ApiKey
from barnabas_protocol.messages.create_acls import AclCreation, CreateAclsRequest
from barnabas_protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from barnabas_protocol.messages.describe_acls import DescribeAclsRequest
from tests.interop.started_brokers import AnyBroker
from tests.interop.transcripts import Transcript
from tests.support.apache_kafka import ApacheKafka
from tests.support.barnabas_process import BarnabasProcess
from tests.support.in_process_broker import eventually
from tests.support.kafka_tools import ToolCall
from tests.support.raw_client import RawClient

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]

VERSION = "4.4.0"
SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}


def _acls(*arguments: str) -> ToolCall:
    return ToolCall("acls", ("--bootstrap-server", "@", *arguments))


_ALICE = ("--allow-principal", "User:alice")
_TOPIC = ("--topic", "orders")


def _calls() -> dict[str, ToolCall]:
    return {
        "list nothing": _acls("--list"),
        "add": _acls("--add", *_ALICE, "--operation", "Read", *_TOPIC),
        "add it again": _acls("--add", *_ALICE, "--operation", "Read", *_TOPIC),
        "add a producer": _acls("--add", *_ALICE, "--producer", *_TOPIC, "--transactional-id", "t"),
        "add a consumer": _acls("--add", *_ALICE, "--consumer", *_TOPIC, "--group", "g"),
        "deny from a host": _acls(
            *("--add", "--deny-principal", "User:bob", "--deny-host", "10.0.0.1"),
            *("--operation", "All", *_TOPIC),
        ),
        "allow a range": _acls(
            "--add", *_ALICE, "--allow-host", "10.0.0.0/8", "--operation", "Write", *_TOPIC
        ),
        "allow a bad range": _acls(
            "--add", *_ALICE, "--allow-host", "10.0.0.0/33", "--operation", "Write", *_TOPIC
        ),
        "allow a bad range of IPv6": _acls(
            "--add", *_ALICE, "--allow-host", "::1/x", "--operation", "Write", *_TOPIC
        ),
        "add a prefix": _acls(
            *("--add", *_ALICE, "--operation", "Read", "--topic", "ord"),
            *("--resource-pattern-type", "prefixed"),
        ),
        "add everything": _acls("--add", *_ALICE, "--operation", "Describe", "--topic", "*"),
        "add the cluster": _acls("--add", *_ALICE, "--operation", "Alter", "--cluster"),
        "add a user": _acls(
            "--add", *_ALICE, "--operation", "CreateTokens", "--user-principal", "User:carol"
        ),
        "add a principal without a type": _acls(
            "--add", "--allow-principal", "alice", "--operation", "Read", *_TOPIC
        ),
        "list all": _acls("--list"),
        "list a topic": _acls("--list", *_TOPIC),
        "list what applies": _acls("--list", *_TOPIC, "--resource-pattern-type", "match"),
        "list any pattern": _acls("--list", "--topic", "ord", "--resource-pattern-type", "any"),
        "list a principal": _acls("--list", "--principal", "User:bob"),
        "remove one": _acls("--remove", "--force", *_ALICE, "--operation", "Write", *_TOPIC),
        "remove of a topic": _acls("--remove", "--force", *_TOPIC),
        "remove what applies": _acls(
            "--remove", "--force", "--topic", "ordinary", "--resource-pattern-type", "match"
        ),
        "list what is left": _acls("--list"),
    }


class _Case(NamedTuple):
    """A request whose whole response is compared."""

    key: ApiKey
    request: Any


def _creation(**changed: Any) -> AclCreation:
    fields: dict[str, Any] = {
        "resource_type": 2,
        "resource_name": "raw",
        "resource_pattern_type": 3,
        "principal": "User:raw",
        "host": "*",
        "operation": 3,
        "permission_type": 3,
    }
    return AclCreation(**{**fields, **changed})


def _filter(**changed: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "resource_type_filter": 1,
        "resource_name_filter": None,
        "pattern_type_filter": 1,
        "principal_filter": None,
        "host_filter": None,
        "operation": 1,
        "permission_type": 1,
    }
    return {**fields, **changed}


# Numbers that are nothing; 0 itself ends the connection there, and is 42 here. What is for filters
# alone (ANY, MATCH) fails the whole request there, with -1, and is 42 for that ACL here.
_OF_FILTERS = (
    *({"resource_type": 1}, {"resource_pattern_type": 1}, {"resource_pattern_type": 2}),
    *({"operation": 1}, {"permission_type": 1}),
    {"resource_type": 1, "resource_name": "", "host": ""},
    {"operation": 1, "principal": "raw", "host": ""},
)
_CREATIONS = [
    {},
    {},
    {"resource_name": "raw-2"},
    {"resource_pattern_type": 4},
    *({"resource_type": kind} for kind in (3, 5, 6, 7, 99, -3)),
    {"resource_pattern_type": 99},
    *({"operation": kind} for kind in (2, 15, 16, 99)),
    *({"permission_type": kind} for kind in (2, 99)),
    {"resource_name": ""},
    {"resource_type": 4},
    {"resource_type": 4, "resource_name": ""},
    {"resource_type": 4, "resource_name": "kafka-cluster"},
    {"resource_type": 4, "resource_name": "kafka-cluster", "resource_pattern_type": 4},
    {"principal": "raw"},
    {"principal": "User:"},
    {"principal": "Group:raw:x"},
    {"host": ""},
    {"host": "localhost"},
    {"host": "10.0.0.0/33"},
    {"host": "::1/129"},
    {"host": "::1/64"},
    {"resource_name": "", "principal": "raw"},
    *_OF_FILTERS,
]
_CASES = {
    **{
        f"create {changed}": _Case(
            ApiKey.CREATE_ACLS, CreateAclsRequest(creations=[_creation(**changed)])
        )
        for changed in _CREATIONS
    },
    "create several": _Case(
        ApiKey.CREATE_ACLS,
        CreateAclsRequest(
            creations=[
                _creation(**changed)
                for changed in ({}, {"host": ""}, {"operation": 99}, {"operation": 4}, {"host": ""})
            ]
        ),
    ),
    "create nothing": _Case(ApiKey.CREATE_ACLS, CreateAclsRequest(creations=[])),
    **{
        f"describe {name}": _Case(ApiKey.DESCRIBE_ACLS, DescribeAclsRequest(**_filter(**changed)))
        for name, changed in {
            "all": {},
            "one": {"resource_name_filter": "raw", "operation": 3},
            "an empty name": {"resource_name_filter": ""},
            "match": {"resource_name_filter": "raw-23", "pattern_type_filter": 2},
            "match without a name": {"pattern_type_filter": 2},
            "a prefix": {"resource_name_filter": "raw", "pattern_type_filter": 4},
            "unknown type": {"resource_type_filter": 99},
            "unknown pattern": {"pattern_type_filter": 99},
            "unknown operation": {"operation": 99},
            "unknown permission": {"permission_type": 99},
            "a host": {"host_filter": "::1/64"},
        }.items()
    },
    "delete with unknown parts": _Case(
        ApiKey.DELETE_ACLS,
        DeleteAclsRequest(
            filters=[
                DeleteAclsFilter(**_filter(**changed))
                for changed in (
                    {"resource_type_filter": 99},
                    {"pattern_type_filter": 99},
                    {"operation": 99},
                    {"permission_type": 99},
                    {"resource_type_filter": 99, "operation": 99},
                    {"resource_name_filter": "raw-2"},
                    {"resource_name_filter": "raw-2", "host_filter": "*"},
                    {"principal_filter": "Group:raw:x"},
                    {"resource_name_filter": "raw-2", "pattern_type_filter": 2},
                )
            ]
        ),
    ),
    "delete nothing": _Case(ApiKey.DELETE_ACLS, DeleteAclsRequest(filters=[])),
    "describe what is left": _Case(ApiKey.DESCRIBE_ACLS, DescribeAclsRequest(**_filter())),
    "delete all": _Case(
        ApiKey.DELETE_ACLS, DeleteAclsRequest(filters=[DeleteAclsFilter(**_filter())])
    ),
}


def _plain(value: Any) -> Any:
    """A response without order, which is that of somebody's hash table."""
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if hasattr(value, "__fields__"):
        fields = {field.name: _plain(getattr(value, field.name)) for field in value.__fields__}
        fields.pop("throttle_time_ms", None)
        for name in ("resources", "acls", "matching_acls"):
            if name in fields:
                fields[name] = sorted(fields[name], key=str)
        return fields
    return value


async def _answers(port: int, cases: dict[str, _Case]) -> dict[str, Any]:
    answers = {}
    for name, case in cases.items():
        async with await RawClient.connect(port) as client:
            answers[name] = _plain(await client.call(case.key, 3, case.request))
            if case.key is not ApiKey.DESCRIBE_ACLS:
                await _settled(client)
    return answers


async def _settled(client: RawClient) -> None:
    """Return when two looks find the same: Kafka publishes changes after its response."""
    seen: list[Any] = [None]

    async def is_same() -> bool:
        await asyncio.sleep(0.2)
        response = await client.call(ApiKey.DESCRIBE_ACLS, 3, DescribeAclsRequest(**_filter()))
        seen.append(_plain(response))
        return bool(seen[-1] == seen[-2])

    await eventually(is_same)


class _Seen(NamedTuple):
    """All that one broker has answered."""

    answers: dict[str, Any]
    transcript: Transcript
    without: dict[str, Any]


def _broker(kind: str, directory: Path, properties: dict[str, str]) -> AnyBroker:
    if kind == "apache":
        return ApacheKafka(directory, version=VERSION, properties=properties, heap="512M")
    return BarnabasProcess(directory, properties=properties)


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, _Seen]]:
    """The answers of both; each broker runs alone."""
    result = {}
    for kind in ("apache", "barnabas"):
        directory = tmp_path_factory.mktemp(f"acls-{kind}")
        broker = _broker(kind, directory / "broker", SETTINGS)
        broker.start()
        try:
            answers = asyncio.run(_answers(broker.port, _CASES))
            transcript = Transcript(broker, directory / "calls", _calls())
        finally:
            broker.stop()
        open_broker = _broker(kind, directory / "open", {})
        open_broker.start()
        try:
            keys = {case.key: name for name, case in _CASES.items()}
            first = {name: _CASES[name] for name in keys.values()}
            without = asyncio.run(_answers_without(open_broker.port, first))
        finally:
            open_broker.stop()
        result[kind] = _Seen(answers, transcript, without)
    yield result


async def _answers_without(port: int, cases: dict[str, _Case]) -> dict[str, Any]:
    async with await RawClient.connect(port) as client:
        return {
            name: _plain(await client.call(case.key, 3, case.request))
            for name, case in cases.items()
        }


@pytest.mark.parametrize("name", list(_calls()))
def test_kafka_acls_prints_the_same(seen: dict[str, _Seen], name: str) -> None:
    """SEC-43, SEC-110: good ACLs and bad ones, lists by every kind of pattern, removals."""
    kafka, ours = (sorted(seen[kind].transcript.lines(name)) for kind in ("apache", "barnabas"))
    assert not list(difflib.unified_diff(kafka, ours, "apache", "barnabas", lineterm="", n=2))


@pytest.mark.parametrize("name", list(_CASES))
def test_responses_are_the_same(seen: dict[str, _Seen], name: str) -> None:
    """SEC-43, SEC-110: codes, texts and order of whole responses."""
    ours, kafka = (seen[kind].answers[name] for kind in ("barnabas", "apache"))
    if name in {f"create {changed}" for changed in _OF_FILTERS}:
        assert [result["error_code"] for result in kafka["results"]] == [-1]
        assert [result["error_code"] for result in ours["results"]] == [42]
        return
    assert ours == kafka


def test_without_an_authorizer_both_say_so(seen: dict[str, _Seen]) -> None:
    """SEC-43: 54."""
    assert seen["barnabas"].without == seen["apache"].without
