"""The audit log of a whole broker: changes, denials, and what would be denied."""

import asyncio
import json
import logging
from pathlib import Path
from typing import Any

import pytest

from barnabas_client.admin.values.acls import AclBinding, AclFilter
from barnabas_client.admin.values.configs import ConfigChange, ConfigResource
from barnabas_client.admin.values.topics import NewTopic
from barnabas_client.errors import AuthorizationError
from barnabas_protocol.acl import AclOperation, AclPermission, AclResourceType
from tests.client.admin.raw_requests import connected
from tests.support.in_process_broker import eventually, running_broker

AUTHORIZER = {"authorizer_class_name": "StandardAuthorizer"}
SECRET = "canary-4711"
NUMBER = "471147114711"


def lines_of(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    return [
        json.loads(record.getMessage())
        for record in caplog.records
        if record.name == "barnabas.audit"
    ]


def told(lines: list[dict[str, Any]]) -> set[tuple[str, ...]]:
    return {(line["event"], line["outcome"], line.get("resource", "")) for line in lines}


def test_changes_are_told_and_no_values(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """SEC-70, SEC-71, SEC-114: what was changed by whom; never what it was set to."""

    async def test() -> None:
        async with (
            running_broker(tmp_path, super_users="User:ANONYMOUS", **AUTHORIZER) as server,
            connected(f"127.0.0.1:{server.port}") as (_, admin),
        ):
            await admin.topics.create([NewTopic(name="a")])
            await admin.topics.create([NewTopic(name="a")])
            changes = {
                ConfigResource.topic("a"): [ConfigChange.set("retention.ms", NUMBER)],
                ConfigResource.broker(0): [ConfigChange.set("nonsense", SECRET)],
            }
            await admin.configs.alter(changes)
            await admin.topics.delete(["a"])

    with caplog.at_level(logging.INFO):
        asyncio.run(test())
    lines = lines_of(caplog)
    assert told(lines) >= {
        ("admin", "success", "TOPIC:a"),
        ("admin", "failure", "TOPIC:a"),
        ("admin", "success", "BROKER:0"),
    }
    failed = next(line for line in lines if line["outcome"] == "failure")
    assert failed["reason"] == "TOPIC_ALREADY_EXISTS"
    assert (failed["principal"], failed["host"]) == ("User:ANONYMOUS", "127.0.0.1")
    assert failed["api"] == "CREATE_TOPICS"
    text = json.dumps(lines)
    assert SECRET not in text
    assert NUMBER not in text


def test_denials_are_told_with_their_rule(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """SEC-71: of what was named; what is only left out of a list is not."""

    async def test() -> None:
        async with (
            running_broker(tmp_path, **AUTHORIZER) as server,
            connected(f"127.0.0.1:{server.port}") as (_, admin),
        ):
            with pytest.raises(AuthorizationError):
                (await admin.topics.delete(["secret"]))["secret"].unwrap()
            with pytest.raises(AuthorizationError):
                await admin.acls.list()
            await admin.topics.list()

    with caplog.at_level(logging.INFO):
        asyncio.run(test())
    lines = lines_of(caplog)
    accesses = [line for line in lines if line["event"] == "access"]
    denied = {(line["operation"], line["resource"]): line for line in accesses}
    assert denied["DESCRIBE", "TOPIC:secret"]["rule"] == "DefaultDeny"
    assert denied["DESCRIBE", "CLUSTER:kafka-cluster"]["api"] == "DESCRIBE_ACLS"
    assert {line["outcome"] for line in accesses} == {"denied"}


def test_audit_only_allows_and_tells_what_would_be_denied(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """SEC-89: but nobody gives himself rights meanwhile, to have them when denials hold."""
    everything = AclBinding(
        resource_type=AclResourceType.CLUSTER,
        resource_name="kafka-cluster",
        principal="User:ANONYMOUS",
        operation=AclOperation.ALL,
        permission=AclPermission.ALLOW,
    )

    async def test() -> None:
        mode = {"barnabas_authorizer_mode": "audit-only"}
        async with (
            running_broker(tmp_path, **AUTHORIZER, **mode) as server,
            connected(f"127.0.0.1:{server.port}") as (_, admin),
        ):
            (await admin.topics.create([NewTopic(name="a")]))["a"].unwrap()
            assert await admin.acls.list() == ()
            made = await admin.acls.create([everything])
            assert isinstance(made[everything].error, AuthorizationError)
            gone = await admin.acls.delete([AclFilter()])
            assert isinstance(gone[AclFilter()].error, AuthorizationError)

            async def is_told() -> bool:
                return len(lines_of(caplog)) >= 4

            await eventually(is_told)

    with caplog.at_level(logging.INFO):
        asyncio.run(test())
    assert told(lines_of(caplog)) >= {
        ("access", "would be denied", "TOPIC:a"),
        ("access", "would be denied", "CLUSTER:kafka-cluster"),
        ("access", "denied", "CLUSTER:kafka-cluster"),
        ("admin", "success", "TOPIC:a"),
    }


def test_a_plain_broker_without_an_authorizer_has_no_audit_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """SEC-70: it would tell of nobody but ANONYMOUS; `barnabas.audit=on` has it."""

    async def change(name: str, **settings: str) -> None:
        async with (
            running_broker(tmp_path / name, **settings) as server,
            connected(f"127.0.0.1:{server.port}") as (_, admin),
        ):
            await admin.topics.create([NewTopic(name=name)])

    with caplog.at_level(logging.INFO):
        asyncio.run(change("quiet"))
        assert not lines_of(caplog)
        path = tmp_path / "audit.log"
        asyncio.run(change("told", barnabas_audit="on", barnabas_audit_file=str(path)))
        assert not lines_of(caplog)
    (line,) = path.read_text().splitlines()
    assert json.loads(line)["resource"] == "TOPIC:told"
