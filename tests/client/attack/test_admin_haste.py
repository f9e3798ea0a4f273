"""An administrator in a hurry: one name in place of several must not be taken for its letters."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from barnabas_client.admin import Admin
from barnabas_client.admin.values.topics import NewTopic
from barnabas_client.errors import BarnabasError, IllegalStateError, UsageError

Names = Callable[[str], str]


def test_one_name_is_not_several(bootstrap: str, unique: Names) -> None:
    """`delete("orders")` deleted the topics o, r, d, e and s."""

    async def attack() -> None:
        async with Admin(bootstrap) as admin:
            name: Any = unique("haste")
            calls: list[Callable[[Any], Any]] = [
                admin.topics.describe,
                admin.topics.delete,
                admin.groups.describe,
                admin.groups.delete,
                admin.group_offsets.list,
                admin.share_groups.list_offsets,
                admin.transactions.describe,
            ]
            for call in calls:
                with pytest.raises(UsageError, match="several names are wanted"):
                    await call(name)
            for topics in ([name], NewTopic(name=name)):
                wrong: Any = topics
                with pytest.raises(UsageError, match="NewTopic"):
                    await admin.topics.create(wrong)

    asyncio.run(attack())


def test_what_cannot_be_sent_fails_the_call_alone(bootstrap: str, unique: Names) -> None:
    """Wrong types and sizes are a UsageError of the item; the connection stays good."""

    async def attack() -> None:
        admin = Admin(bootstrap)
        with pytest.raises(IllegalStateError, match=r"start\(\)"):
            await admin.topics.list()
        async with admin:
            wrong: list[Any] = [
                NewTopic(name=b"bytes"),  # type: ignore[arg-type]
                NewTopic(name=unique("haste"), partition_count="3"),  # type: ignore[arg-type]
                NewTopic(name=unique("haste"), configs={"retention.ms": 1000}),  # type: ignore[dict-item]
                NewTopic(name=unique("haste"), partition_count=1 << 40),
            ]
            for topic in wrong:
                try:
                    (await admin.topics.create([topic])).unwrap()
                except BarnabasError as error:
                    assert isinstance(error, UsageError), topic
                    assert "\n" not in str(error)
                else:
                    pytest.fail(f"{topic} was created")
            await admin.topics.list()

    asyncio.run(attack())
