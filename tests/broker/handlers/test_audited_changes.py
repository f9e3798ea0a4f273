"""What the audit log is told of changes: of each API, with names, what was done first."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from barnabas_broker.handlers.audited_changes import LINES_MAX, audited
from barnabas_broker.handlers.rights import RULES
from barnabas_broker.handlers.services import Services
from barnabas_broker.handlers.table import HANDLERS, VERSIONS
from barnabas_broker.network.session import InFlightRequest
from barnabas_broker.security.audit.audit import Audit
from barnabas_broker.security.audit.audit_log import AuditLog
from barnabas_broker.security.broker_identity import BrokerIdentity
from barnabas_broker.security.broker_principals import BrokerPrincipals
from barnabas_broker.security.principal import Principal
from barnabas_protocol import codec
from barnabas_protocol.acl import AclOperation
from barnabas_protocol.api import INTERNAL, ApiKey
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.messages import create_topics
from tests.broker.security.audit.audit_events import audit_log
from tests.support.many_names import ManyNames

# Rights to change something; what else is written is data, and its accesses are told.
CHANGES = {AclOperation.ALTER, AclOperation.ALTER_CONFIGS, AclOperation.DELETE, AclOperation.CREATE}


def is_changing(key: ApiKey) -> bool:
    rule = RULES[key]
    operations = {right.operation for right in rule.asked} | set(rule.cluster)
    return bool(operations & CHANGES) or rule.changes_rights


CHANGING = sorted(
    key
    for key in HANDLERS
    if key not in INTERNAL
    and key is not ApiKey.METADATA  # the broker makes the topic, by CreateTopics
    and (is_changing(key) or key is ApiKey.ALTER_SHARE_GROUP_OFFSETS)  # needs READ alone
)


def told_of(
    key: ApiKey, response: Any, request: Any = None, *, principal: str = "alice"
) -> list[tuple[str, str]]:
    """Outcome and resource of each line."""
    log, _ = audit_log()

    async def handle(*_: Any) -> Any:
        return response

    identity = BrokerIdentity("REPLICATION", BrokerPrincipals.parse("User:broker"))
    services = SimpleNamespace(audit=Audit(cast(AuditLog, log)), broker_identity=identity)
    session = SimpleNamespace(listener_name="REPLICATION", mechanism="")
    in_flight = SimpleNamespace(
        session=session,
        principal=Principal.user(principal),
        host="10.0.0.1",
        client_id="c",
        api_key=key,
        api_version=0,
        correlation_id=1,
    )

    async def run() -> None:
        work = audited(key, handle)(
            cast(Services, services), cast(InFlightRequest, in_flight), request
        )
        assert await work is response

    asyncio.run(run())
    return [(line.event.outcome.value, line.event.resource) for line in log.take()]


@pytest.mark.parametrize("key", CHANGING, ids=lambda key: key.name.lower())
def test_each_change_is_told_with_the_name_of_what_was_changed(key: ApiKey) -> None:
    """SEC-71: no API that needs a right to change something is left out."""
    version, names = VERSIONS[key][1], ManyNames()
    request = names.request(key, version, 1, 1)
    response = names.message(codec.response_class(key), version, 1, 1)
    lines = told_of(key, response, request)
    assert lines
    for outcome, resource in lines:
        assert outcome == "success"
        assert not resource.endswith(":"), "who, but not what"


def test_what_was_done_is_told_before_what_was_refused() -> None:
    """SEC-71: nobody hides a deletion behind fifty that fail."""
    topics = [
        create_topics.CreatableTopicResult(name=f"t{number}", error_code=ErrorCode.INVALID_REQUEST)
        for number in range(2 * LINES_MAX)
    ]
    topics.append(create_topics.CreatableTopicResult(name="payroll"))
    lines = told_of(ApiKey.CREATE_TOPICS, create_topics.CreateTopicsResponse(topics=topics))
    assert lines[0] == ("success", "TOPIC:payroll")
    assert len(lines) == LINES_MAX + 1


def test_what_brokers_do_all_the_time_is_not_told() -> None:
    """SEC-71: markers of transactions, but for those of an administrator."""
    names = ManyNames()
    response = names.message(codec.response_class(ApiKey.WRITE_TXN_MARKERS), 1, 1, 1)
    assert not told_of(ApiKey.WRITE_TXN_MARKERS, response, principal="broker")
    assert told_of(ApiKey.WRITE_TXN_MARKERS, response)
