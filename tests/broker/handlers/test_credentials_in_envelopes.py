"""Which credentials may be changed by whom, and by which way they travel (SEC-25, SEC-62)."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from barnabas_broker.config.listeners import Endpoint
from barnabas_broker.handlers.alter_user_scram_credentials import resolve
from barnabas_broker.security.principal import Principal
from barnabas_protocol.acl import AclOperation
from barnabas_protocol.api import ApiKey
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from tests.support.in_process_broker import running_broker
from tests.support.known_principals import connected_as
from tests.support.memory_authorizer import MemoryAuthorizer, to_cluster

UPSERTION = AlterUserScramCredentialsRequest(
    upsertions=[ScramCredentialUpsertion(name="alice", mechanism=2)]
)
DELETION = AlterUserScramCredentialsRequest(
    deletions=[ScramCredentialDeletion(name="alice", mechanism=2)]
)


def sent_on(clients: str, brokers: str, host: str = "10.0.0.1", request: Any = UPSERTION) -> int:
    """The code of the refusal, 0 where it may travel."""
    config = SimpleNamespace(
        inter_broker_listener_name="REPLICATION",
        listeners=(
            Endpoint("CLIENTS", "10.0.0.1", 9092, clients),
            Endpoint("REPLICATION", host, 9091, brokers),
        ),
    )
    try:
        resolve(cast(Any, SimpleNamespace(config=config)), cast(Any, None), request)
    except KafkaError as error:
        return error.code
    return 0


@pytest.mark.parametrize("clients", ["SSL", "SASL_SSL"])
@pytest.mark.parametrize("brokers", ["PLAINTEXT", "SASL_PLAINTEXT"])
def test_what_came_by_tls_is_not_sent_on_in_plain(clients: str, brokers: str) -> None:
    assert sent_on(clients, brokers) == ErrorCode.POLICY_VIOLATION
    assert sent_on(clients, brokers, "") == ErrorCode.POLICY_VIOLATION


def test_it_travels_where_nobody_can_read_it_or_everybody_could_before() -> None:
    assert sent_on("SASL_SSL", "SSL") == 0
    assert sent_on("SASL_SSL", "SASL_SSL") == 0
    assert sent_on("SASL_SSL", "PLAINTEXT", "127.0.0.1") == 0
    assert sent_on("SASL_PLAINTEXT", "PLAINTEXT") == 0


def test_a_deletion_has_no_secret() -> None:
    assert sent_on("SASL_SSL", "PLAINTEXT", request=DELETION) == 0


def test_nobody_makes_a_user_with_the_name_of_a_broker(tmp_path: Path) -> None:
    """Attack: an administrator stores a password for CN=broker-1, and logs in as a broker where
    brokers are taken on a second listener, whose log-ins go by the metadata."""

    async def run() -> None:
        authorizer = MemoryAuthorizer(to_cluster(AclOperation.ALTER))
        async with (
            running_broker(
                tmp_path, authorizer, barnabas_broker_principals="User:CN=broker-{id}"
            ) as server,
            connected_as(server, Principal("User", "alice")) as client,
        ):
            request = AlterUserScramCredentialsRequest(
                upsertions=[
                    ScramCredentialUpsertion(
                        name=name,
                        mechanism=2,
                        iterations=4096,
                        salt=b"salt of a user",
                        salted_password=bytes(64),
                    )
                    for name in ("CN=broker-1", "CN=broker-x")
                ]
            )
            answer = await client.call(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, request)
            codes = {result.user: result.error_code for result in answer.results}
            refused = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            assert codes == {"CN=broker-1": refused, "CN=broker-x": 0}

    asyncio.run(run())
