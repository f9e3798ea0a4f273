"""Salted passwords do not travel in plain between brokers whose clients have TLS (SEC-62)."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from barnabas_broker.config.listeners import Endpoint
from barnabas_broker.handlers.alter_user_scram_credentials import resolve
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)

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
