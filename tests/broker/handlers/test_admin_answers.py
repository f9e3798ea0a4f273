"""What administrators' requests are answered beyond the codes: messages, groups, loggers."""

from pathlib import Path

import pytest

from barnabas_broker.handlers.find_coordinator import INVALID_REQUEST_TEXT
from barnabas_broker.server import Server
from barnabas_protocol.api import ApiKey
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.messages import (
    create_partitions,
    create_topics,
    delete_topics,
    describe_configs,
    find_coordinator,
    incremental_alter_configs,
)
from tests.broker.broker_requests import with_broker
from tests.support.raw_client import RawClient

GROUP = 32


async def described(
    client: RawClient, resource_type: int, name: str, keys: list[str] | None = None
) -> describe_configs.DescribeConfigsResult:
    response = await client.call(
        ApiKey.DESCRIBE_CONFIGS,
        4,
        describe_configs.DescribeConfigsRequest(
            resources=[
                describe_configs.DescribeConfigsResource(
                    resource_type=resource_type, resource_name=name, configuration_keys=keys
                )
            ],
            include_synonyms=True,
        ),
    )
    (result,) = response.results
    return result


async def altered(
    client: RawClient, name: str, key: str, value: str
) -> incremental_alter_configs.AlterConfigsResourceResponse:
    response = await client.call(
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        1,
        incremental_alter_configs.IncrementalAlterConfigsRequest(
            resources=[
                incremental_alter_configs.AlterConfigsResource(
                    resource_type=GROUP,
                    resource_name=name,
                    configs=[incremental_alter_configs.AlterableConfig(name=key, value=value)],
                )
            ]
        ),
    )
    (result,) = response.responses
    return result


@pytest.mark.parametrize("version", [2, 5, 7])
def test_success_has_no_message_and_not_an_empty_one(tmp_path: Path, version: int) -> None:
    """TOP-2, TOP-13: clients tell null and empty apart."""

    async def test(server: Server, client: RawClient) -> None:
        topic = create_topics.CreatableTopic(name="new", num_partitions=1, replication_factor=1)
        created = await client.call(
            ApiKey.CREATE_TOPICS, version, create_topics.CreateTopicsRequest(topics=[topic])
        )
        assert [(t.error_code, t.error_message) for t in created.topics] == [(0, None)]
        grown = await client.call(
            ApiKey.CREATE_PARTITIONS,
            3,
            create_partitions.CreatePartitionsRequest(
                topics=[
                    create_partitions.CreatePartitionsTopic(name="new", count=2, assignments=None)
                ]
            ),
        )
        assert [(t.error_code, t.error_message) for t in grown.results] == [(0, None)]

    with_broker(tmp_path, test)


def test_old_coordinator_answers_name_their_code(tmp_path: Path) -> None:
    """OFS-1: below version 4 a missing coordinator says so in words."""

    async def test(server: Server, client: RawClient) -> None:
        found = await client.call(
            ApiKey.FIND_COORDINATOR, 3, find_coordinator.FindCoordinatorRequest(key="g")
        )
        if found.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE:
            assert found.error_message == "The coordinator is not available."
        else:
            assert found.error_message == "NONE"

    with_broker(tmp_path, test)


def test_a_topic_is_deleted_by_its_name_or_its_id_and_not_by_both_or_neither(
    tmp_path: Path,
) -> None:
    """TOP-14: what cannot be told is refused alone."""

    async def test(server: Server, client: RawClient) -> None:
        asked = [
            delete_topics.DeleteTopicState(name="a", topic_id=bytes(15) + b"\x01"),
            delete_topics.DeleteTopicState(name=None),
            delete_topics.DeleteTopicState(name="missing"),
        ]
        response = await client.call(
            ApiKey.DELETE_TOPICS, 6, delete_topics.DeleteTopicsRequest(topics=asked)
        )
        assert [(t.name, t.error_code, t.error_message) for t in response.responses] == [
            ("a", 42, "You may not specify both topic name and topic id."),
            (None, 42, "Neither topic name nor id were specified."),
            ("missing", 3, "This server does not host this topic-partition."),
        ]

    with_broker(tmp_path, test)


@pytest.mark.parametrize(
    ("resource_type", "name", "code", "message"),
    [
        (2, "missing", 3, ""),
        (4, "seven", 42, "Broker id must be an integer, but it is: seven"),
        (4, "7", 42, "Unexpected broker id, expected 0 or empty string, but received 7"),
        (8, "", 42, "Broker id must not be empty"),
        (8, "7", 42, "Unexpected broker id, expected 0 but received 7"),
        (16, "", 42, "Client metrics subscription name must not be empty"),
        (32, "", 42, "Group name must not be empty"),
        (3, "x", 42, INVALID_REQUEST_TEXT),
    ],
)
def test_what_cannot_be_described_is_refused_in_kafkas_words(
    tmp_path: Path, resource_type: int, name: str, code: int, message: str
) -> None:
    """CFG-1: tools print these."""

    async def test(server: Server, client: RawClient) -> None:
        result = await described(client, resource_type, name)
        assert (result.error_code, result.error_message) == (code, message)

    with_broker(tmp_path, test)


def test_loggers_and_no_keys_at_all_are_described(tmp_path: Path) -> None:
    """CFG-1: source 6 for loggers; an empty list of keys stands for all keys."""

    async def test(server: Server, client: RawClient) -> None:
        loggers = await described(client, 8, "0")
        assert "root" in [config.name for config in loggers.configs]
        assert {config.config_source for config in loggers.configs} == {6}
        assert len((await described(client, 4, "0", [])).configs) > 100

    with_broker(tmp_path, test)


def test_settings_of_a_group_are_kept_and_described(tmp_path: Path) -> None:
    """CFG-1, CFG-3, CFG-8: source 8 for what is set, and what is wrong is refused."""

    async def test(server: Server, client: RawClient) -> None:
        assert (await altered(client, "g", "consumer.session.timeout.ms", "50000")).error_code == 0
        configs = {c.name: c for c in (await described(client, GROUP, "g")).configs}
        changed = configs["consumer.session.timeout.ms"]
        assert (changed.value, changed.config_source) == ("50000", 8)
        assert [(s.value, s.source) for s in changed.synonyms] == [("50000", 8), ("45000", 5)]
        default = configs["consumer.heartbeat.interval.ms"]
        assert (default.value, default.config_source) == ("5000", 5)
        for name, key, value, code, message in (
            ("g", "no.such", "1", 40, "Unknown group config name: no.such"),
            ("", "consumer.session.timeout.ms", "50000", 42, None),
            (
                "g",
                "consumer.session.timeout.ms",
                "44999",
                40,
                "consumer.session.timeout.ms must be greater than or equal to "
                "group.consumer.min.session.timeout.ms",
            ),
            (
                "g",
                "consumer.heartbeat.interval.ms",
                "15001",
                40,
                "consumer.heartbeat.interval.ms must be less than or equal to "
                "group.consumer.max.heartbeat.interval.ms",
            ),
            ("g", "share.auto.offset.reset", "nowhere", 40, None),
        ):
            refused = await altered(client, name, key, value)
            assert refused.error_code == code
            assert message is None or refused.error_message == message

    with_broker(tmp_path, test)
