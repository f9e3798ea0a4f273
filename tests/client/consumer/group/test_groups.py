"""Groups of our own consumers on a running broker: nothing is lost, nothing is owned twice."""

import asyncio
from collections.abc import Callable

import pytest

from barnabas_client.cluster.offsets import OffsetAndMetadata
from barnabas_client.errors import BarnabasError, CommitFailedError, MembershipLostError
from barnabas_protocol.ids import TopicPartition
from tests.client.consumer.group.readers import (
    CLASSIC,
    Ownership,
    Reader,
    create_topic,
    grow_topic,
    produce,
    until,
)

Names = Callable[[str], str]
STRATEGIES = ("range", "roundrobin", "sticky", "cooperative-sticky")


def test_members_come_and_go_without_losing_a_record(bootstrap: str, unique: Names) -> None:
    """CON-11, GRP-16: of three members one leaves; all is read, and nothing owned twice."""

    async def run() -> None:
        async with asyncio.TaskGroup() as groups:
            for strategy in STRATEGIES:
                groups.create_task(come_and_go(bootstrap, unique, strategy), name=strategy)

    asyncio.run(run())


async def come_and_go(bootstrap: str, unique: Names, strategy: str) -> None:
    topic, group = unique(f"numbers-{strategy}"), unique("group")
    await create_topic(bootstrap, topic, 6)
    ownership = Ownership()
    settings = {**CLASSIC, "partition_assignment_strategy": [strategy], "group_id": group}
    readers = [Reader(bootstrap, f"m{at}", ownership, [topic], **settings) for at in range(3)]
    await produce(bootstrap, topic, range(60), 6)
    await readers[0].start()
    await until(lambda: ownership.counts() == [6])
    for reader in readers[1:]:
        await reader.start()
    await until(lambda: ownership.counts() == [2, 2, 2])
    await produce(bootstrap, topic, range(60, 120), 6)
    await readers[1].stop()
    await until(lambda: ownership.counts() == [3, 3])
    await produce(bootstrap, topic, range(120, 180), 6)
    await until(lambda: {n for r in readers for n in r.values} == set(range(180)))
    # Committed on the way and at the end: a new member has nothing left to read.
    for reader in (readers[0], readers[2]):
        await reader.stop()
    assert ownership.owners == {}
    last = await Reader(bootstrap, "last", ownership, [topic], **settings).start()
    await until(lambda: ownership.counts() == [6])
    committed = await committed_total(last, topic, 6)
    await last.stop()
    assert committed == 180
    assert last.values == []
    assert not ownership.violations


async def committed_total(reader: Reader, topic: str, partitions: int) -> int:
    await reader.pause()
    wanted = [TopicPartition(topic, number) for number in range(partitions)]
    offsets = await reader.consumer.committed(wanted)
    return sum(offset.offset for offset in offsets.values() if offset is not None)


def test_cooperative_members_read_on_while_partitions_move(bootstrap: str, unique: Names) -> None:
    """KIP-429: what is kept is never revoked, and no record of it is read again."""

    async def run() -> None:
        topic, group = unique("flow"), unique("group")
        await create_topic(bootstrap, topic, 4)
        ownership = Ownership()
        settings = {
            **CLASSIC,
            "partition_assignment_strategy": ["cooperative-sticky"],
            "group_id": group,
            "enable_auto_commit": False,
        }
        first = await Reader(bootstrap, "first", ownership, [topic], **settings).start()
        await until(lambda: ownership.counts() == [4])
        await produce(bootstrap, topic, range(40), 4)
        await until(lambda: len(first.values) == 40)
        second = await Reader(bootstrap, "second", ownership, [topic], **settings).start()
        await until(lambda: ownership.counts() == [2, 2])
        revoked = [partitions for call, partitions in first.notes.calls if call == "revoked"]
        assert [len(partitions) for partitions in revoked] == [2]
        await produce(bootstrap, topic, range(40, 80), 4)
        kept = {p.partition for p in first.consumer.assignment()}
        expected = [n for n in range(80) if n < 40 or n % 4 in kept]
        # Nothing was committed: a position that was not kept would begin at 0 again.
        await until(lambda: sorted(first.values) == expected)
        await first.stop()
        await second.stop()
        assert not ownership.violations

    asyncio.run(run())


def test_a_killed_member_is_replaced_when_its_session_is_over(
    bootstrap: str, unique: Names
) -> None:
    """GRP-16: what it had not committed is read by the others."""

    async def run() -> None:
        topic, group = unique("killed"), unique("group")
        await create_topic(bootstrap, topic, 4)
        ownership = Ownership()
        settings = {**CLASSIC, "group_id": group, "session_timeout_ms": 1500}
        stays = await Reader(bootstrap, "stays", ownership, [topic], **settings).start()
        dies = await Reader(
            bootstrap, "dies", ownership, [topic], **settings, enable_auto_commit=False
        ).start()
        await until(lambda: ownership.counts() == [2, 2])
        await produce(bootstrap, topic, range(40), 4)
        await until(lambda: len(stays.values) == len(dies.values) == 20)
        await dies.kill()
        await until(lambda: ownership.counts() == [4])
        await until(lambda: set(stays.values) == set(range(40)))
        await stays.stop()
        assert not ownership.violations

    asyncio.run(run())


def test_a_static_member_comes_back_without_a_rebalance(bootstrap: str, unique: Names) -> None:
    """GRP-18: it gets its old partitions; the other member notices nothing. `leave_group` tells."""

    async def run() -> None:
        topic, group = unique("static"), unique("group")
        await create_topic(bootstrap, topic, 4)
        ownership = Ownership()
        settings = {**CLASSIC, "group_id": group}

        def member(name: str) -> Reader:
            return Reader(
                bootstrap, name, ownership, [topic], **settings, group_instance_id=f"i-{name}"
            )

        other = await member("a").start()
        await until(lambda: ownership.counts() == [4])
        restarted = await member("b").start()
        await until(lambda: ownership.counts() == [2, 2])
        had = restarted.consumer.assignment()
        generation = other.consumer.group_metadata().generation_id
        calls = len(other.notes.calls)
        await restarted.stop()
        restarted = await member("b").start()
        await until(lambda: ownership.counts() == [2, 2])
        assert restarted.consumer.assignment() == had
        assert other.consumer.group_metadata().generation_id == generation
        assert len(other.notes.calls) == calls
        # KIP-1092: told to leave, the other gets everything at once.
        await restarted.stop(leave_group=True)
        await until(lambda: ownership.counts() == [4])
        await other.stop()
        assert not ownership.violations

    asyncio.run(run())


def test_a_member_that_does_not_poll_leaves_and_comes_back(bootstrap: str, unique: Names) -> None:
    """CON-9, CON-10: its partitions are lost, its commit fails, its next poll joins again."""

    async def run() -> None:
        topic, group = unique("stuck"), unique("group")
        await create_topic(bootstrap, topic, 4)
        ownership = Ownership()
        settings = {**CLASSIC, "group_id": group, "enable_auto_commit": False}
        other = await Reader(bootstrap, "other", ownership, [topic], **settings).start()
        stuck = await Reader(
            bootstrap, "stuck", ownership, [topic], **settings, max_poll_interval_ms=700
        ).start()
        await until(lambda: ownership.counts() == [2, 2])
        had = stuck.consumer.assignment()
        await stuck.pause()
        ownership.owners = {p: m for p, m in ownership.owners.items() if m == "other"}
        await until(lambda: ownership.counts() == [4])
        with pytest.raises(CommitFailedError):
            await stuck.consumer.commit({p: OffsetAndMetadata(1) for p in had})
        stuck.go_on()
        await until(lambda: ownership.counts() == [2, 2])
        assert ("lost", frozenset(had)) in stuck.notes.calls
        await stuck.stop()
        await other.stop()
        assert not ownership.violations

    asyncio.run(run())


def test_commits_are_in_order_and_callbacks_too(bootstrap: str, unique: Names) -> None:
    """CON-9: a commit that is waited for comes after those that are not."""

    async def run() -> None:
        topic, group = unique("commits"), unique("group")
        await create_topic(bootstrap, topic, 1)
        partition = TopicPartition(topic, 0)
        settings = {**CLASSIC, "group_id": group, "enable_auto_commit": False}
        reader = await Reader(bootstrap, "r", Ownership(), [topic], **settings).start()
        await until(lambda: reader.consumer.assignment())
        await reader.pause()
        order: list[int] = []

        def ended(offsets: object, error: BarnabasError | None) -> None:
            assert error is None
            order.append(offsets[partition].offset)  # type: ignore[index]

        for offset in range(20):
            reader.consumer.commit_soon({partition: OffsetAndMetadata(offset)}, ended)
        await reader.consumer.commit({partition: OffsetAndMetadata(99, 0, "the last")})
        assert order == list(range(20))
        committed = await reader.consumer.committed([partition])
        assert committed == {partition: OffsetAndMetadata(99, 0, "the last")}
        await reader.stop()

    asyncio.run(run())


def test_a_commit_of_an_earlier_generation_is_refused(bootstrap: str, unique: Names) -> None:
    """GRP-19: the error says that the membership is not what it was."""

    async def run() -> None:
        topic, group = unique("stale"), unique("group")
        await create_topic(bootstrap, topic, 2)
        ownership = Ownership()
        settings = {**CLASSIC, "group_id": group, "enable_auto_commit": False}
        first = await Reader(bootstrap, "first", ownership, [topic], **settings).start()
        await until(lambda: ownership.counts() == [2])
        second = await Reader(bootstrap, "second", ownership, [topic], **settings).start()
        await until(lambda: ownership.counts() == [1, 1])
        first.membership.member.generation_id -= 1
        await first.pause()
        with pytest.raises(MembershipLostError):
            await first.consumer.commit({TopicPartition(topic, 0): OffsetAndMetadata(5)})
        first.go_on()
        await until(lambda: "lost" in [call for call, _ in first.notes.calls])
        await until(lambda: ownership.counts() == [1, 1])
        await first.stop()
        await second.stop()

    asyncio.run(run())


def test_the_leader_shares_new_partitions_and_a_pattern_new_topics(
    bootstrap: str, unique: Names
) -> None:
    """CON-2: the group meets when the topics of any member change."""

    async def run() -> None:
        prefix, group = unique("grow"), unique("group")
        await create_topic(bootstrap, f"{prefix}-a", 2)
        ownership = Ownership()
        settings = {**CLASSIC, "group_id": group, "metadata_max_age_ms": 100}
        named = await Reader(bootstrap, "n", ownership, [f"{prefix}-a"], **settings).start()
        matching = await Reader(
            bootstrap, "m", ownership, pattern=f"{prefix}-.*", **settings
        ).start()
        await until(lambda: ownership.counts() == [1, 1])
        await grow_topic(bootstrap, f"{prefix}-a", 4)
        await until(lambda: ownership.counts() == [2, 2])
        await create_topic(bootstrap, f"{prefix}-b", 3)
        await until(lambda: ownership.counts() == [2, 5])
        assert {p.topic for p in matching.consumer.assignment()} == {f"{prefix}-a", f"{prefix}-b"}
        await named.stop()
        await matching.stop()
        assert not ownership.violations

    asyncio.run(run())
