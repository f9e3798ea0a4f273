"""A whole broker with an authorizer, and what the requests of `rights_cases` name."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from barnabas_protocol.acl import AclResourceType
from barnabas_protocol.api import ApiKey
from barnabas_protocol.errors import ErrorCode
from tests.broker.share_member import coordinator_of, create_topic
from tests.support.in_process_broker import eventually, running_broker
from tests.support.memory_authorizer import MemoryAuthorizer
from tests.support.message_codes import codes_of
from tests.support.raw_client import RawClient
from tests.support.rights_cases import CASES, Case
from tests.support.rights_requests import Named
from tests.support.transactional_client import TransactionalClient

Work = Callable[[MemoryAuthorizer, RawClient, Named], Awaitable[None]]


def with_named(directory: Path, case: Case | None, work: Work) -> None:
    """Run against a broker that has what the requests name."""

    async def run() -> None:
        authorizer = MemoryAuthorizer()
        authorizer.allow_all()
        async with (
            running_broker(directory, authorizer, offsets_topic_num_partitions="1") as server,
            await RawClient.connect(server.port) as client,
        ):
            named = Named()
            topic_id = await create_topic(client, named.topic)
            await coordinator_of(client, named.group)
            if case is not None and case.key is ApiKey.OFFSET_DELETE:
                await commit(client, named)
            if case is not None and case.key is ApiKey.DELETE_SHARE_GROUP_OFFSETS:
                await make_share_group(client, named)
            if case is not None and case.key in HAVE_TRANSACTIONS:
                producer = TransactionalClient(client, named.transactional_id)
                await producer.find_coordinator()
                assert await producer.init() == ErrorCode.NONE
            await work(authorizer, client, Named(topic_id=topic_id))

    asyncio.run(run())


async def commit(client: RawClient, named: Named) -> None:
    """Make the group, with an offset."""
    (case,) = (one for one in CASES if one.key is ApiKey.OFFSET_COMMIT)
    response = await client.call(case.key, case.version, case.request(named))
    assert response.topics[0].partitions[0].error_code == ErrorCode.NONE


async def make_share_group(client: RawClient, named: Named) -> None:
    """Make the share group, with a start."""
    (case,) = (one for one in CASES if one.key is ApiKey.ALTER_SHARE_GROUP_OFFSETS)

    async def is_made() -> bool:
        response = await client.call(case.key, case.version, case.request(named))
        return not list(codes_of(response))

    await eventually(is_made)


HAVE_TRANSACTIONS = frozenset(
    case.key
    for case in CASES
    for need in case.needs
    if need.resource_type is AclResourceType.TRANSACTIONAL_ID
)
