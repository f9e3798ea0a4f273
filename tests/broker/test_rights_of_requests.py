"""Every API with rights of its own, refused and allowed, through a whole broker (SEC-111)."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from barnabas_broker.handlers.rights import RULES, Right
from barnabas_broker.handlers.table import HANDLERS
from barnabas_protocol.acl import AclOperation, AclResourceType
from barnabas_protocol.api import ApiKey
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.messages import add_partitions_to_txn
from barnabas_protocol.schema import Message
from tests.broker.rights_world import with_named
from tests.support.memory_authorizer import Given, MemoryAuthorizer
from tests.support.message_codes import refusals_of
from tests.support.raw_client import RawClient
from tests.support.rights_cases import CASES, Case
from tests.support.rights_requests import Named

# Needs other rights to what is not there: `handlers/test_admin_rights.py`.
OF_ITS_OWN = frozenset((ApiKey.DELETE_TOPICS,))
# What is left out without a right, instead of being refused: `test_filters_of_rights.py`.
FILTERED = frozenset((ApiKey.LIST_GROUPS, ApiKey.LIST_TRANSACTIONS))


def test_every_api_that_needs_a_right_has_a_case() -> None:
    """SEC-111: no handler is forgotten."""
    needing = {key for key in HANDLERS if RULES[key].asked}
    tested = {case.key for case in CASES}
    assert needing - tested == FILTERED | OF_ITS_OWN


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_request_is_refused_without_each_right_and_served_with_all(
    tmp_path: Path, case: Case
) -> None:
    """SEC-46, SEC-111: the code and its place; a DENY beats what allows."""

    async def work(authorizer: MemoryAuthorizer, client: RawClient, named: Named) -> None:
        async def call() -> set[tuple[str, ErrorCode]]:
            response = await client.call(case.key, case.version, case.request(named))
            return refusals_of(response)

        def given(operation: AclOperation, resource_type: AclResourceType) -> Given:
            name = named.of(resource_type, is_share=case.is_share)
            return Given(operation, resource_type, name)

        asked: set[Right] = set()
        first = case.needs[0]
        authorizer.grant()
        assert await call() == {(first.place, first.code)}
        rights = {need: given(need.operation, need.resource_type) for need in case.needs}
        asked |= rights_in(authorizer)
        authorizer.grant(*rights.values())
        assert await call() == set()
        asked |= rights_in(authorizer)
        for need, right in rights.items():
            told = {(need.place, need.code)}
            others = [other for other in rights.values() if other != right]
            authorizer.grant(*others)
            assert await call() == told, f"without {right}"
            authorizer.grant(*rights.values(), denied=(right,))
            assert await call() == told, f"denied {right}"
            for instead in need.instead:
                authorizer.grant(*others, given(*instead))
                assert await call() == set(), f"with {instead}"
                asked |= rights_in(authorizer)
        rule = RULES[case.key]
        on_cluster = {Right(one, AclResourceType.CLUSTER) for one in rule.cluster}
        assert asked <= rule.asked | on_cluster

    with_named(tmp_path, case, work)


ABSENT: Mapping[AclResourceType, Mapping[str, Any]] = {
    AclResourceType.TOPIC: {"topic": "nowhere"},
    AclResourceType.GROUP: {"group": "nobody", "share_group": "no-queue"},
    AclResourceType.TRANSACTIONAL_ID: {"transactional_id": "no-tx"},
    AclResourceType.CLUSTER: {},
}


def rights_in(authorizer: MemoryAuthorizer) -> set[Right]:
    """What has been asked for since the rights were set."""
    return {Right(one.operation, one.resource_type) for one in authorizer.asked}


def plain(value: Any, names: dict[str, str]) -> Any:
    """A message as a dictionary, with some names for others."""
    if isinstance(value, Message):
        return {
            field.name: plain(getattr(value, field.name, None), names) for field in value.__fields__
        }
    if isinstance(value, list):
        return [plain(one, names) for one in value]
    return names.get(value, value) if isinstance(value, str) else value


@pytest.mark.parametrize(
    "case", [case for case in CASES if not case.by_id], ids=lambda case: case.name
)
def test_what_is_absent_and_what_is_hidden_look_alike(tmp_path: Path, case: Case) -> None:
    """SEC-111: who lacks a right to a topic, a group or an id learns not whether it exists."""

    async def work(authorizer: MemoryAuthorizer, client: RawClient, named: Named) -> None:
        for need in case.needs:
            others = [
                Given(other.operation, other.resource_type)
                for other in case.needs
                if other is not need
            ]
            authorizer.grant(*others)
            absent = replace(named, **ABSENT[need.resource_type])
            names = {
                name: getattr(named, field) for field, name in ABSENT[need.resource_type].items()
            }
            answers = [
                plain(await client.call(case.key, case.version, case.request(one)), names)
                for one in (named, absent)
            ]
            assert answers[0] == answers[1]

    with_named(tmp_path, case, work)


def test_a_topic_is_refused_and_the_others_of_its_request_served(tmp_path: Path) -> None:
    """SEC-46: in order, with 55 for what a transaction would have got (key 24)."""

    async def work(authorizer: MemoryAuthorizer, client: RawClient, named: Named) -> None:
        authorizer.grant(
            Given(AclOperation.WRITE, AclResourceType.TRANSACTIONAL_ID),
            Given(AclOperation.WRITE, AclResourceType.TOPIC, named.topic),
            Given(AclOperation.WRITE, AclResourceType.TOPIC, "__consumer_offsets"),
        )
        topics = [named.topic, "hidden", "__consumer_offsets"]
        response = await client.call(
            ApiKey.ADD_PARTITIONS_TO_TXN,
            3,
            add_partitions_to_txn.AddPartitionsToTxnRequest(
                v3_and_below_transactional_id="tx",
                v3_and_below_topics=[
                    add_partitions_to_txn.AddPartitionsToTxnTopic(name=name, partitions=[0])
                    for name in topics
                ],
            ),
        )
        assert {
            topic.name: topic.results_by_partition[0].partition_error_code
            for topic in response.results_by_topic_v3_and_below
        } == {
            named.topic: ErrorCode.OPERATION_NOT_ATTEMPTED,
            "hidden": ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            "__consumer_offsets": ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        }

    with_named(tmp_path, None, work)
