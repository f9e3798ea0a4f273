"""Levels of a broker's loggers change while it runs, as KIP-412 has it."""

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas_broker.controller.configs import (
    ConfigChange,
    Operation,
    ResourceChange,
    refuse_none,
)
from barnabas_broker.handlers.broker_loggers import change_levels, describe_levels
from barnabas_broker.handlers.incremental_alter_configs import split
from barnabas_broker.metadata.image import RESOURCE_BROKER_LOGGER, RESOURCE_TOPIC
from barnabas_broker.security.audit.audit_log import AUDIT_LOGGER
from barnabas_broker.security.audit.audit_writer import LoggerSink
from barnabas_protocol.api import ApiKey
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from tests.support.in_process_broker import running_broker
from tests.support.raw_client import RawClient

PACKAGE = "tests.loggers"
NAME = "tests.loggers.one"
NODE = 7


@pytest.fixture(autouse=True)
def levels_as_before() -> Iterator[None]:
    root = logging.root.level
    logging.getLogger(NAME)
    yield
    logging.root.setLevel(root)
    for name in (NAME, PACKAGE):
        logging.getLogger(name).setLevel(logging.NOTSET)


def change(
    *changes: ConfigChange, name: str = str(NODE), validate_only: bool = False
) -> KafkaError | None:
    resource = ResourceChange(
        resource_type=RESOURCE_BROKER_LOGGER, resource_name=name, changes=changes
    )
    (result,) = change_levels([resource], NODE, refuse_none, validate_only=validate_only)
    return result.error


def set_level(name: str, level: str | None) -> ConfigChange:
    return ConfigChange(name, Operation.SET, level)


def level_of(name: str) -> str | None:
    (described,) = describe_levels([name])
    return described.value


@pytest.mark.parametrize("level", ["FATAL", "ERROR", "WARN", "INFO", "DEBUG", "TRACE"])
def test_a_logger_has_the_level_that_was_set(level: str) -> None:
    assert change(set_level(NAME, level)) is None
    assert level_of(NAME) == level


def test_without_a_level_of_its_own_a_logger_has_that_of_its_package() -> None:
    """Also of a package in which nothing but modules log."""
    assert change(set_level(PACKAGE, "ERROR"), set_level(NAME, "DEBUG")) is None
    assert change(ConfigChange(NAME, Operation.DELETE, None)) is None
    assert (level_of(NAME), level_of(PACKAGE)) == ("ERROR", "ERROR")
    assert change(ConfigChange(PACKAGE, Operation.DELETE, None), set_level("root", "FATAL")) is None
    assert (level_of(NAME), level_of(PACKAGE)) == ("FATAL", "FATAL")


@pytest.mark.parametrize(
    ("changes", "name", "code", "text"),
    [
        ([set_level(NAME, "LOUD")], "7", ErrorCode.INVALID_CONFIG, "not a supported log level"),
        ([set_level("nobody", "INFO")], "7", ErrorCode.INVALID_CONFIG, "nobody does not exist"),
        ([set_level(NAME, "INFO")], "8", ErrorCode.INVALID_REQUEST, "Expected 7, but received 8"),
        ([set_level(NAME, "INFO")], "", ErrorCode.INVALID_REQUEST, "must be an integer"),
        ([set_level(NAME, None)], "7", ErrorCode.INVALID_REQUEST, "Null value"),
        ([set_level(NAME, "INFO")] * 2, "7", ErrorCode.INVALID_REQUEST, "duplicate config keys"),
        ([set_level(AUDIT_LOGGER, "FATAL")], "7", ErrorCode.INVALID_CONFIG, "does not depend"),
        (
            [ConfigChange("root", Operation.DELETE, None)],
            "7",
            ErrorCode.INVALID_REQUEST,
            "root logger is not allowed",
        ),
        (
            [ConfigChange(NAME, Operation.APPEND, "INFO")],
            "7",
            ErrorCode.INVALID_REQUEST,
            "APPEND operation is not allowed",
        ),
        ([ConfigChange(NAME, 9, "INFO")], "7", ErrorCode.INVALID_REQUEST, "Unknown operation"),
        # Else a request could name one node ten thousand times.
        ([], "07", ErrorCode.INVALID_REQUEST, "Expected 7, but received 07"),
        ([], " 7", ErrorCode.INVALID_REQUEST, "Expected 7, but received  7"),
    ],
)
def test_what_cannot_be_is_refused_and_changes_nothing(
    changes: list[ConfigChange], name: str, code: ErrorCode, text: str
) -> None:
    logging.getLogger(AUDIT_LOGGER)
    before = {entry.key: entry.value for entry in describe_levels(None)}
    error = change(set_level(PACKAGE, "DEBUG"), *changes, name=name)
    assert error is not None
    assert error.code == code
    assert text in (error.message or "")
    assert {entry.key: entry.value for entry in describe_levels(None)} == before


def test_a_change_that_is_only_tried_changes_nothing() -> None:
    assert change(set_level(NAME, "FATAL"), validate_only=True) is None
    assert level_of(NAME) != "FATAL"


def test_the_audit_log_is_written_whatever_the_root_logger_s_level(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """SEC-70: who may change levels hides nothing by it."""
    sink = LoggerSink()
    assert change(set_level("root", "FATAL")) is None
    sink.write("{}")
    assert [record.message for record in caplog.records if record.name == AUDIT_LOGGER] == ["{}"]


def logger_resource(node_id: int) -> AlterConfigsResource:
    return AlterConfigsResource(
        resource_type=RESOURCE_BROKER_LOGGER,
        resource_name=str(node_id),
        configs=[AlterableConfig(name=NAME, config_operation=0, value="ERROR")],
    )


def topic_resource(name: str) -> AlterConfigsResource:
    return AlterConfigsResource(
        resource_type=RESOURCE_TOPIC,
        resource_name=name,
        configs=[AlterableConfig(name="retention.ms", config_operation=0, value="5000")],
    )


def test_each_resource_of_a_request_has_its_own_result(tmp_path: Path) -> None:
    """Java's client sends a broker's settings and its loggers in one request."""

    async def run() -> None:
        async with running_broker(tmp_path) as server:
            node_id = server.config.node_id
            resources = [topic_resource("none"), logger_resource(node_id), topic_resource("a b")]
            async with await RawClient.connect(server.port) as client:
                response = await client.call(
                    ApiKey.INCREMENTAL_ALTER_CONFIGS,
                    1,
                    IncrementalAlterConfigsRequest(resources=resources),
                )
        assert [(one.resource_name, one.error_code) for one in response.responses] == [
            ("none", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            (str(node_id), ErrorCode.NONE),
            ("a b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ]
        assert level_of(NAME) == "ERROR"

    asyncio.run(run())


def test_a_broker_keeps_what_is_of_its_loggers_and_sends_the_rest_to_the_controller() -> None:
    """Without a controller levels can be changed all the same."""
    alone = IncrementalAlterConfigsRequest(resources=[logger_resource(NODE)], validate_only=True)
    found = split(alone)
    assert found is not None
    assert (found.here, found.rest) == (alone, None)
    topics = [topic_resource("a"), topic_resource("b")]
    assert split(IncrementalAlterConfigsRequest(resources=topics)) is None
    both = IncrementalAlterConfigsRequest(
        resources=[topics[0], logger_resource(NODE), topics[1]], validate_only=True
    )
    found = split(both)
    assert found is not None
    assert found.here == alone
    assert found.rest == IncrementalAlterConfigsRequest(resources=topics, validate_only=True)

    def results(*names: str) -> IncrementalAlterConfigsResponse:
        return IncrementalAlterConfigsResponse(
            responses=[AlterConfigsResourceResponse(resource_name=name) for name in names]
        )

    joined = found.joined(results(str(NODE)), results("a", "b"))
    assert joined == results("a", str(NODE), "b")
