"""Groups that the broker leads (KIP-848), with our own consumers."""

import asyncio
from collections.abc import Callable

import pytest

from barnabas_client.cluster.offsets import OffsetAndMetadata
from barnabas_client.consumer.group.classic_membership import ClassicMembership
from barnabas_client.consumer.group.consumer_membership import ConsumerMembership
from barnabas_client.errors import CommitFailedError, FencedError
from barnabas_protocol.ids import TopicPartition
from tests.client.consumer.group.readers import (
    CLASSIC,
    NEXT,
    Ownership,
    Reader,
    create_topic,
    produce,
    until,
)

pytestmark = pytest.mark.timeout(180)

Names = Callable[[str], str]


def test_members_come_and_go_without_losing_a_record(bootstrap: str, unique: Names) -> None:
    """CG-4: three members, one leaves; what was committed is not read again."""

    async def run() -> None:
        topic, group = unique("numbers"), unique("group")
        await create_topic(bootstrap, topic, 6)
        ownership = Ownership()
        settings = {**NEXT, "group_id": group}
        readers = [Reader(bootstrap, f"m{at}", ownership, [topic], **settings) for at in range(3)]
        await produce(bootstrap, topic, range(60), 6)
        await readers[0].start()
        await until(lambda: ownership.counts() == [6])
        for reader in readers[1:]:
            await reader.start()
        await until(lambda: ownership.counts() == [2, 2, 2])
        await produce(bootstrap, topic, range(60, 120), 6)
        await until(lambda: {n for r in readers for n in r.values} == set(range(120)))
        await readers[1].stop()
        await until(lambda: ownership.counts() == [3, 3])
        await produce(bootstrap, topic, range(120, 180), 6)
        await until(lambda: sorted(n for r in readers for n in r.values) == list(range(180)))
        for reader in (readers[0], readers[2]):
            await reader.stop()
        last = await Reader(bootstrap, "last", ownership, [topic], **settings).start()
        await until(lambda: ownership.counts() == [6])
        await produce(bootstrap, topic, range(180, 186), 6)
        await until(lambda: sorted(last.values) == list(range(180, 186)))
        await last.stop()
        assert not ownership.violations

    asyncio.run(run())


def test_a_static_member_comes_back_to_its_partitions(bootstrap: str, unique: Names) -> None:
    """CG-3, CG-6: epoch -2 keeps them; a second process with its name is turned away."""

    async def run() -> None:
        topic, group = unique("static"), unique("group")
        await create_topic(bootstrap, topic, 4)
        ownership = Ownership()
        settings = {**NEXT, "group_id": group}

        def member(name: str) -> Reader:
            return Reader(
                bootstrap, name, ownership, [topic], **settings, group_instance_id=f"i-{name}"
            )

        other = await member("a").start()
        restarted = await member("b").start()
        await until(lambda: ownership.counts() == [2, 2])
        had = restarted.consumer.assignment()
        calls = len(other.notes.calls)
        twin = Reader(bootstrap, "twin", Ownership(), [topic], **settings, group_instance_id="i-b")
        await twin.consumer.start()
        twin.consumer.subscribe([topic])
        with pytest.raises(FencedError, match="i-b"):
            await twin.consumer.poll(timeout_ms=20_000)
        await twin.stop()
        await restarted.stop()
        restarted = await member("b").start()
        await until(lambda: ownership.counts() == [2, 2])
        assert restarted.consumer.assignment() == had
        assert len(other.notes.calls) == calls
        await restarted.stop(leave_group=True)
        await until(lambda: ownership.counts() == [4])
        await other.stop()
        assert not ownership.violations

    asyncio.run(run())


def test_a_member_that_does_not_poll_leaves_and_comes_back(bootstrap: str, unique: Names) -> None:
    """CON-10, CG-3: all is lost, the commit is refused, the next poll joins again."""

    async def run() -> None:
        topic, group = unique("stuck"), unique("group")
        await create_topic(bootstrap, topic, 4)
        ownership = Ownership()
        settings = {**NEXT, "group_id": group, "enable_auto_commit": False}
        stuck = await Reader(
            bootstrap, "stuck", ownership, [topic], **settings, max_poll_interval_ms=2000
        ).start()
        await until(lambda: ownership.counts() == [4])
        had = stuck.consumer.assignment()
        await stuck.pause()
        await until(lambda: stuck.consumer.group_metadata().generation_id == -1)
        with pytest.raises(CommitFailedError):
            await stuck.consumer.commit({p: OffsetAndMetadata(1) for p in had})
        stuck.go_on()
        await until(lambda: ("lost", frozenset(had)) in stuck.notes.calls)
        await until(lambda: ownership.counts() == [4])
        await stuck.pause()
        await stuck.consumer.commit({TopicPartition(topic, 0): OffsetAndMetadata(1)})
        await stuck.stop()
        assert not ownership.violations

    asyncio.run(run())


@pytest.mark.parametrize("suffix", ["[ab]", "(?!c)."], ids=["broker", "client"])
def test_a_pattern_is_resolved_by_the_broker_or_else_here(
    bootstrap: str, unique: Names, suffix: str
) -> None:
    """CG-8; looking ahead is nothing that RE2 can do, so the client sends names instead."""

    async def run() -> None:
        prefix, group = unique("match"), unique("group")
        for name in "abc":
            await create_topic(bootstrap, f"{prefix}-{name}", 2)
        ownership = Ownership()
        reader = await Reader(
            bootstrap,
            "r",
            ownership,
            pattern=f"{prefix}-{suffix}",
            **NEXT,
            group_id=group,
            metadata_max_age_ms=300,
        ).start()
        await until(lambda: ownership.counts() == [4])
        topics = {p.topic for p in reader.consumer.assignment()}
        assert topics == {f"{prefix}-a", f"{prefix}-b"}
        await reader.stop()
        assert not ownership.violations

    asyncio.run(run())


def test_auto_takes_the_newest_protocol_unless_classic_settings_are_given(
    bootstrap: str, unique: Names
) -> None:
    """`group_protocol="auto"`, the default."""

    async def run() -> None:
        topic = unique("auto")
        await create_topic(bootstrap, topic, 1)
        for more, kind in (
            ({"group_protocol": "auto"}, ConsumerMembership),
            ({"group_protocol": "auto", "session_timeout_ms": 30_000}, ClassicMembership),
            (CLASSIC, ClassicMembership),
        ):
            ownership = Ownership()
            reader = await Reader(
                bootstrap, "r", ownership, [topic], **more, group_id=unique("group")
            ).start()
            await until(lambda ownership=ownership: ownership.counts() == [1])
            assert isinstance(reader.membership, kind)
            await reader.stop()

    asyncio.run(run())
