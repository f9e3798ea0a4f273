"""Who lacks a right is refused by Apache Kafka and by Barnabas alike (SEC-46, SEC-110).

Each request of administrators goes to both without rights, with each right that it needs, with all,
with a denial on top, by prefixes, by `*`, from addresses and ranges; the whole answers are the
same, but for what brokers draw themselves.
"""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from barnabas_protocol import codec
from barnabas_protocol.acl import AclOperation, AclResourceType
from barnabas_protocol.api import ApiKey
from barnabas_protocol.messages import (
    create_topics,
)
from tests.interop.oracle.plain import build
from tests.interop.rights_oracle import (
    ALICE,
    STANDARD,
    Grant,
    comparable,
    grant,
    grants,
    kafka_with_rights,
    logged_in,
)
from tests.support.apache_kafka import ApacheKafka
from tests.support.in_process_broker import running_broker
from tests.support.known_principals import connected_as
from tests.support.memory_authorizer import Given, to_cluster
from tests.support.raw_client import RawClient

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]

_OPERATION = AclOperation
_TIMEOUT_MS = 20_000


class Case(NamedTuple):
    """A request, and what it needs."""

    key: ApiKey
    version: int
    values: dict[str, Any]
    rights: tuple[Given, ...]


def topic(operation: AclOperation, name: str) -> Given:
    return Given(operation, AclResourceType.TOPIC, name)


def group(operation: AclOperation, name: str) -> Given:
    return Given(operation, AclResourceType.GROUP, name)


def configs(*resources: tuple[int, str], value: str = "1000000") -> list[dict[str, Any]]:
    keys = {2: "retention.ms", 32: "consumer.session.timeout.ms", 4: "log.cleaner.threads"}
    return [
        {
            "resource_type": kind,
            "resource_name": name,
            "configs": [{"name": keys.get(kind, "interval.ms"), "value": value}],
        }
        for kind, name in resources
    ]


_NEW = {"num_partitions": 1, "replication_factor": 1}
_CASES = {
    "create-topics": Case(
        ApiKey.CREATE_TOPICS,
        7,
        {
            "topics": [
                {"name": name, **_NEW}
                for name in ("new", "there", "twice", "twice", "__cluster_metadata", "bad name")
            ],
            "validate_only": True,
            "timeout_ms": _TIMEOUT_MS,
        },
        (
            topic(_OPERATION.CREATE, "new"),
            topic(_OPERATION.CREATE, "there"),
            topic(_OPERATION.CREATE, "bad name"),
            to_cluster(_OPERATION.CREATE),
        ),
    ),
    "delete-topics": Case(
        ApiKey.DELETE_TOPICS,
        6,
        {
            "topics": [{"name": name} for name in ("there", "absent", "twice", "twice")],
            "timeout_ms": _TIMEOUT_MS,
        },
        (topic(_OPERATION.DESCRIBE, "there"), topic(_OPERATION.DESCRIBE, "absent")),
    ),
    "delete-topics-by-unknown-id": Case(
        ApiKey.DELETE_TOPICS,
        6,
        {"topics": [{"name": None, "topic_id": b"\7" * 16}], "timeout_ms": _TIMEOUT_MS},
        (),
    ),
    "create-partitions": Case(
        ApiKey.CREATE_PARTITIONS,
        3,
        {
            "topics": [{"name": name, "count": 1} for name in ("there", "absent")],
            "timeout_ms": _TIMEOUT_MS,
            "validate_only": True,
        },
        (topic(_OPERATION.ALTER, "there"), topic(_OPERATION.ALTER, "absent")),
    ),
    "describe-configs": Case(
        ApiKey.DESCRIBE_CONFIGS,
        4,
        {
            "resources": [
                {"resource_type": kind, "resource_name": name, "configuration_keys": ["none"]}
                for kind, name in (
                    (2, "there"),
                    (2, "absent"),
                    (4, "1"),
                    (4, ""),
                    (8, "1"),
                    (16, "metrics"),
                    (32, "group"),
                )
            ]
        },
        (
            topic(_OPERATION.DESCRIBE_CONFIGS, "there"),
            topic(_OPERATION.DESCRIBE_CONFIGS, "absent"),
            group(_OPERATION.DESCRIBE_CONFIGS, "group"),
            to_cluster(_OPERATION.DESCRIBE_CONFIGS),
        ),
    ),
    **{
        f"{key.name.lower()}": Case(
            key,
            version,
            {
                "resources": configs((2, "there"), (2, "absent"), (4, ""), (32, "group")),
                "validate_only": True,
            },
            (
                topic(_OPERATION.ALTER_CONFIGS, "there"),
                topic(_OPERATION.ALTER_CONFIGS, "absent"),
                group(_OPERATION.ALTER_CONFIGS, "group"),
                to_cluster(_OPERATION.ALTER_CONFIGS),
            ),
        )
        for key, version in ((ApiKey.ALTER_CONFIGS, 2), (ApiKey.INCREMENTAL_ALTER_CONFIGS, 1))
    },
    "list-config-resources": Case(
        ApiKey.LIST_CONFIG_RESOURCES,
        1,
        {"resource_types": [16]},
        (to_cluster(_OPERATION.DESCRIBE_CONFIGS),),
    ),
    "elect-leaders": Case(
        ApiKey.ELECT_LEADERS,
        2,
        {
            "topic_partitions": [{"topic": "absent", "partitions": [0, 1]}],
            "election_type": 0,
            "timeout_ms": _TIMEOUT_MS,
        },
        (to_cluster(_OPERATION.ALTER),),
    ),
    "elect-leaders-of-all": Case(
        ApiKey.ELECT_LEADERS,
        2,
        {"topic_partitions": None, "election_type": 0},
        (to_cluster(_OPERATION.ALTER),),
    ),
    "alter-replica-log-dirs": Case(
        ApiKey.ALTER_REPLICA_LOG_DIRS,
        2,
        {"dirs": [{"path": "/none", "topics": [{"name": "absent", "partitions": [0]}]}]},
        (to_cluster(_OPERATION.ALTER),),
    ),
    "describe-log-dirs": Case(
        ApiKey.DESCRIBE_LOG_DIRS, 4, {"topics": []}, (to_cluster(_OPERATION.DESCRIBE),)
    ),
    "describe-log-dirs-2": Case(
        ApiKey.DESCRIBE_LOG_DIRS, 2, {"topics": []}, (to_cluster(_OPERATION.DESCRIBE),)
    ),
    "alter-partition-reassignments": Case(
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        1,
        {"topics": [{"name": "absent", "partitions": [{"partition_index": 0, "replicas": [1]}]}]},
        (to_cluster(_OPERATION.ALTER),),
    ),
    "list-partition-reassignments": Case(
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        0,
        {"topics": [{"name": "there", "partition_indexes": [0]}]},
        (to_cluster(_OPERATION.DESCRIBE),),
    ),
    "describe-client-quotas": Case(
        ApiKey.DESCRIBE_CLIENT_QUOTAS, 1, {}, (to_cluster(_OPERATION.DESCRIBE_CONFIGS),)
    ),
    "alter-client-quotas": Case(
        ApiKey.ALTER_CLIENT_QUOTAS,
        1,
        {
            "entries": [
                {
                    "entity": [{"entity_type": "user", "entity_name": "bob"}],
                    "ops": [{"key": "request_percentage", "value": 5.0}],
                }
            ],
            "validate_only": True,
        },
        (to_cluster(_OPERATION.ALTER_CONFIGS),),
    ),
    "update-features": Case(
        ApiKey.UPDATE_FEATURES,
        1,
        {
            "feature_updates": [{"feature": "none", "max_version_level": 1, "upgrade_type": 1}],
            "validate_only": True,
        },
        (to_cluster(_OPERATION.ALTER),),
    ),
    "unregister-broker": Case(
        ApiKey.UNREGISTER_BROKER, 0, {"broker_id": 99}, (to_cluster(_OPERATION.ALTER),)
    ),
}
_ONLY_REFUSED = {
    # What is told then is each broker's own.
    "describe-log-dirs",
    "describe-log-dirs-2",
    "update-features",
    "elect-leaders-of-all",
    "alter-partition-reassignments",
}


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ApacheKafka, int]]:
    """An Apache Kafka, and the port where clients log in."""
    with kafka_with_rights(tmp_path_factory.mktemp("apache")) as running:
        yield running


async def make_topic(admin: RawClient) -> None:
    wanted = create_topics.CreatableTopic(name="there", num_partitions=1, replication_factor=1)
    made = await admin.call(
        ApiKey.CREATE_TOPICS, 7, create_topics.CreateTopicsRequest(topics=[wanted])
    )
    assert made.topics[0].error_code in (0, 36)


@pytest.mark.parametrize("name", sorted(_CASES))
def test_refusals_are_kafka_s(kafka: tuple[ApacheKafka, int], tmp_path: Path, name: str) -> None:
    node, login = kafka
    case = _CASES[name]
    request = build(codec.request_class(case.key), case.values)
    needless = (to_cluster(_OPERATION.CLUSTER_ACTION), topic(_OPERATION.ALL, "there"))
    given = [Grant("none", ()), Grant("what does not help", needless)]
    if name not in _ONLY_REFUSED:
        given = list(grants(case.rights))

    async def run() -> None:
        async with (
            running_broker(
                tmp_path, node_id="1", authorizer_class_name=STANDARD, super_users="User:ANONYMOUS"
            ) as server,
            await RawClient.connect(server.port) as our_admin,
            await RawClient.connect(node.port) as admin,
            await logged_in(login) as alice,
            connected_as(server, ALICE) as ours,
        ):
            await asyncio.gather(make_topic(our_admin), make_topic(admin))
            for one in given:
                more = {"pattern": one.pattern, "host": one.host}
                await asyncio.gather(
                    grant(our_admin, one.rights, one.denied, **more),
                    grant(admin, one.rights, one.denied, **more),
                )
                theirs = comparable(await alice.call(case.key, case.version, request))
                assert comparable(await ours.call(case.key, case.version, request)) == theirs, (
                    one.name
                )

    asyncio.run(run())
