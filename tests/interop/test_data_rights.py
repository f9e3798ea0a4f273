"""Requests about data are refused and served by Apache Kafka and by Barnabas alike (SEC-110).

Each goes to both brokers, by the same principal and the same ACLs: without any, with all that it
needs, without each of them, with each denied, with all by a prefix, and from another host.
The whole responses are compared, but for what brokers draw themselves.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from barnabas_protocol.acl import AclOperation, AclResourceType
from barnabas_protocol.api import ApiKey
from barnabas_protocol.messages import (
    describe_cluster,
    describe_groups,
    describe_topic_partitions,
    list_groups,
    list_transactions,
    metadata,
    offset_fetch,
)
from tests.broker.rights_world import commit
from tests.broker.share_member import coordinator_of, create_topic
from tests.interop.rights_oracle import (
    ALICE,
    STANDARD,
    comparable,
    grant,
    grants,
    kafka_with_rights,
    logged_in,
)
from tests.support.apache_kafka import ApacheKafka
from tests.support.in_process_broker import eventually, running_broker
from tests.support.known_principals import connected_as
from tests.support.memory_authorizer import Given, to_cluster
from tests.support.message_codes import refusals_of
from tests.support.raw_client import RawClient
from tests.support.rights_cases import CASES, Case
from tests.support.rights_requests import Named
from tests.support.transactional_client import TransactionalClient

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]

# Barnabas differs here, on purpose: field, ours, Kafka's.
OURS: dict[str, set[tuple[str, str, str]]] = {
    # No leader is -1; a broker 0 in leader epoch 0 may be one.
    "share fetch": {
        ("responses.partitions.current_leader.leader_id", "-1", "0"),
        ("responses.partitions.current_leader.leader_epoch", "-1", "0"),
    },
    # Whether there is an id tells whether there is a topic.
    "alter share offsets": {("responses.topic_id", "False", "True")},
}


class Listing(NamedTuple):
    """A request that names little or nothing, and sets of rights to compare it with."""

    name: str
    key: ApiKey
    version: int
    request: Callable[[Named], Any]
    rights: Callable[[Named], Sequence[Sequence[Given]]]


TOPIC, GROUP = AclResourceType.TOPIC, AclResourceType.GROUP
TRANSACTION = AclResourceType.TRANSACTIONAL_ID
DESCRIBE, READ, WRITE = AclOperation.DESCRIBE, AclOperation.READ, AclOperation.WRITE
CREATE, DELETE = AclOperation.CREATE, AclOperation.DELETE


def _metadata(**fields: Any) -> Callable[[Named], metadata.MetadataRequest]:
    return lambda named: metadata.MetadataRequest(
        topics=[
            metadata.MetadataRequestTopic(name=name) for name in (named.topic, "absent", "__absent")
        ],
        **fields,
    )


def _topic_rights(named: Named) -> Sequence[Sequence[Given]]:
    seen = Given(DESCRIBE, TOPIC, "absent"), Given(READ, TOPIC, named.topic)
    return [
        [],
        *([right] for right in seen),
        [*seen, Given(DESCRIBE, TOPIC, "__absent")],
        [*seen, to_cluster(DESCRIBE), to_cluster(AclOperation.ALTER_CONFIGS)],
        [Given(operation, TOPIC, named.topic) for operation in AclOperation if 2 < operation < 9],
        [Given(AclOperation.ALL, TOPIC, named.topic), to_cluster(AclOperation.ALL)],
    ]


def _group_rights(named: Named) -> Sequence[Sequence[Given]]:
    return [
        [],
        [Given(DESCRIBE, GROUP, named.group)],
        [Given(DELETE, GROUP, named.group), Given(READ, TOPIC, named.topic)],
        [Given(READ, GROUP, named.group), Given(DESCRIBE, TOPIC, "absent")],
        [Given(AclOperation.ALL, GROUP, named.group)],
    ]


def _offsets(named: Named, *topics: str) -> offset_fetch.OffsetFetchRequest:
    named_topics = [
        offset_fetch.OffsetFetchRequestTopics(name=name, partition_indexes=[0, 9])
        for name in topics
    ]
    return offset_fetch.OffsetFetchRequest(
        groups=[
            offset_fetch.OffsetFetchRequestGroup(group_id=group, topics=named_topics or None)
            for group in (named.group, "nobody")
        ]
    )


LISTINGS = (
    Listing(
        "metadata of topics",
        ApiKey.METADATA,
        9,
        _metadata(
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=True,
            include_cluster_authorized_operations=True,
        ),
        _topic_rights,
    ),
    Listing(
        "metadata of topics to be made",
        ApiKey.METADATA,
        9,
        _metadata(allow_auto_topic_creation=True),
        lambda named: [
            [],
            [Given(DESCRIBE, TOPIC, "*")],
            [Given(CREATE, TOPIC, "*"), Given(DESCRIBE, TOPIC, named.topic)],
        ],
    ),
    Listing(
        "metadata of all",
        ApiKey.METADATA,
        12,
        lambda _: metadata.MetadataRequest(topics=None),
        lambda named: [[], [Given(WRITE, TOPIC, named.topic), Given(WRITE, TOPIC, "absent")]],
    ),
    Listing(
        "pages of topics",
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        0,
        lambda named: describe_topic_partitions.DescribeTopicPartitionsRequest(
            topics=[
                describe_topic_partitions.TopicRequest(name=name)
                for name in (named.topic, "absent", "bad name")
            ]
        ),
        _topic_rights,
    ),
    Listing(
        "the cluster",
        ApiKey.DESCRIBE_CLUSTER,
        0,
        lambda _: describe_cluster.DescribeClusterRequest(
            include_cluster_authorized_operations=True
        ),
        lambda _: [
            [],
            [to_cluster(CREATE)],
            [to_cluster(AclOperation.ALTER)],
            [to_cluster(DESCRIBE), to_cluster(AclOperation.IDEMPOTENT_WRITE)],
            [to_cluster(AclOperation.ALL)],
        ],
    ),
    Listing(
        "groups",
        ApiKey.LIST_GROUPS,
        4,
        lambda _: list_groups.ListGroupsRequest(),
        _group_rights,
    ),
    Listing(
        "operations on groups",
        ApiKey.DESCRIBE_GROUPS,
        5,
        lambda named: describe_groups.DescribeGroupsRequest(
            groups=[named.group, "nobody"], include_authorized_operations=True
        ),
        _group_rights,
    ),
    Listing(
        "all offsets of groups",
        ApiKey.OFFSET_FETCH,
        8,
        lambda named: _offsets(named),
        _group_rights,
    ),
    Listing(
        "offsets of groups",
        ApiKey.OFFSET_FETCH,
        8,
        lambda named: _offsets(named, named.topic, "absent"),
        _group_rights,
    ),
    Listing(
        "transactions",
        ApiKey.LIST_TRANSACTIONS,
        1,
        lambda _: list_transactions.ListTransactionsRequest(),
        lambda named: [[], [Given(WRITE, TRANSACTION, "no-tx")]],
    ),
)


class Side(NamedTuple):
    """One of the brokers: who may do everything there, and who is judged."""

    admin: RawClient
    alice: RawClient
    topic_id: bytes


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ApacheKafka, int]]:
    """An Apache Kafka, and the port where clients log in."""
    with kafka_with_rights(tmp_path_factory.mktemp("apache")) as running:
        yield running


async def prepare(admin: RawClient, named: Named) -> bytes:
    """Make what the requests name; returns the topic's id."""
    topic_id = await create_topic(admin, named.topic)
    await coordinator_of(admin, named.group)
    await TransactionalClient(admin, named.transactional_id).find_coordinator()
    await eventually(partial(is_committed, admin, named))
    return topic_id


async def is_committed(admin: RawClient, named: Named) -> bool:
    """Make the group; its coordinator may be loading it still."""
    try:
        await commit(admin, named)
    except AssertionError:
        return False
    return True


async def answers(side: Side, case: Case | Listing, named: Named) -> Any:
    request = case.request(replace(named, topic_id=side.topic_id))
    response = await side.alice.call(case.key, case.version, request)
    if hasattr(response, "brokers"):
        response.brokers, response.cluster_id = [], ""
    return response


async def grant_both(sides: tuple[Side, Side], *rights: Any, **more: Any) -> None:
    await asyncio.gather(*(grant(side.admin, *rights, **more) for side in sides))


def differences(ours: Any, theirs: Any, path: str = "") -> Iterator[tuple[str, str, str]]:
    """Where two comparable responses differ: field, ours, theirs."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for name in ours:
            yield from differences(ours[name], theirs[name], f"{path}.{name}" if path else name)
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for our, their in zip(ours, theirs, strict=True):
            yield from differences(our, their, path)
    elif ours != theirs:
        yield path, repr(ours), repr(theirs)


@asynccontextmanager
async def both(
    kafka: tuple[ApacheKafka, int], directory: Path, named: Named
) -> AsyncIterator[tuple[Side, Side]]:
    """Barnabas and Apache Kafka, with what the requests name."""
    node, login = kafka
    async with (
        running_broker(
            directory, node_id="1", authorizer_class_name=STANDARD, super_users="User:ANONYMOUS"
        ) as server,
        await RawClient.connect(server.port) as our_admin,
        await RawClient.connect(node.port) as their_admin,
        connected_as(server, ALICE) as our_alice,
        await logged_in(login) as their_alice,
    ):
        yield (
            Side(our_admin, our_alice, await prepare(our_admin, named)),
            Side(their_admin, their_alice, await prepare(their_admin, named)),
        )


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_refusals_are_kafka_s(kafka: tuple[ApacheKafka, int], tmp_path: Path, case: Case) -> None:
    """SEC-110: codes, places, what is left out."""
    named = Named(group=f"readers-{case.name}", share_group=f"queue-{case.name}")

    async def run() -> None:
        async with both(kafka, tmp_path, named) as sides:
            await compare_all(sides, case, named)

    asyncio.run(run())


@pytest.mark.parametrize("listing", LISTINGS, ids=lambda listing: listing.name)
def test_lists_and_operations_are_kafka_s(
    kafka: tuple[ApacheKafka, int], tmp_path: Path, listing: Listing
) -> None:
    """SEC-45, SEC-110: what is seen, and what may be done with it."""
    named = Named(group=f"readers-{listing.name}")

    async def run() -> None:
        async with both(kafka, tmp_path, named) as sides:
            for rights in listing.rights(named):
                await grant_both(sides, rights)
                ours, theirs = [comparable(await answers(side, listing, named)) for side in sides]
                assert set(differences(ours, theirs)) == set(), rights

    asyncio.run(run())


async def compare_all(sides: tuple[Side, Side], case: Case, named: Named) -> None:
    rights = [
        Given(
            need.operation,
            need.resource_type,
            named.of(need.resource_type, is_share=case.is_share),
        )
        for need in case.needs
    ]

    async def compare(what: str) -> None:
        ours, theirs = [await answers(side, case, named) for side in sides]
        if not refusals_of(ours) and not refusals_of(theirs):
            return  # what is served is compared elsewhere
        found = set(differences(comparable(ours), comparable(theirs)))
        assert found <= OURS.get(case.name, set()), what

    for given in grants(rights):
        await grant_both(sides, given.rights, given.denied, pattern=given.pattern, host=given.host)
        await compare(given.name)
