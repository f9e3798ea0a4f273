"""All topics of a cluster by pages, one of them in memory at a time (CON-135)."""

import asyncio
from collections.abc import Callable, Collection

import pytest

from barnabas_client.admin import Admin, NewTopic
from tests.support.in_process_broker import eventually


async def shows(admin: Admin, names: Collection[str]) -> bool:
    """Whether the broker that is asked has heard of all of them: Apache Kafka's does later."""
    return set(names) <= {listing.name for listing in await admin.topics.list()}


@pytest.mark.parametrize("partitions_per_page", [1, 2, 3, 1000])
def test_pages_have_each_topic_once_and_whole(
    bootstrap: str, unique: Callable[[str], str], partitions_per_page: int
) -> None:
    """A topic may begin on one page and end on the next."""
    names = {unique(f"page{number}"): number for number in (1, 2, 3, 5)}

    async def run() -> None:
        async with Admin(bootstrap) as admin:
            new = [NewTopic(name=name, partition_count=count) for name, count in names.items()]
            (await admin.topics.create(new)).unwrap()
            await eventually(lambda: shows(admin, names))
            found = [
                topic
                async for page in admin.topics.pages(partitions_per_page=partitions_per_page)
                for topic in page
            ]
            assert len({topic.name for topic in found}) == len(found)
            assert {topic.name for topic in found} == {
                listing.name for listing in await admin.topics.list(include_internal=True)
            }
            ours = {topic.name: topic for topic in found if topic.name in names}
            assert {name: topic.partition_count for name, topic in ours.items()} == names
            described = (await admin.topics.describe(names)).unwrap()
            assert {name: topic.partitions for name, topic in ours.items()} == {
                name: topic.partitions for name, topic in described.items()
            }
            (await admin.topics.delete(names)).unwrap()

    asyncio.run(run())
