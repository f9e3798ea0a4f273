"""Each rule of the diagnosis, on brokers where its trouble was made (CON-119)."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas_client.admin.admin import Admin
from barnabas_client.admin.values.topics import NewTopic
from barnabas_client.facts.group_diagnosis import (
    OPEN_TRANSACTION_MS,
    REBALANCES_MIN,
    Finding,
    State,
    diagnose,
)
from barnabas_client.facts.group_observation import observe_groups
from barnabas_client.facts.group_watch import GroupWatch
from barnabas_client.facts.progress_watch import STUCK_AFTER_MS
from barnabas_client.producer.producer import Producer
from barnabas_client.share.share_consumer import ShareConsumer
from barnabas_protocol.ids import TopicPartition
from tests.client.facts.troubled_groups import TroubledGroup, Unique, troubled_group
from tests.interop.share_brokers import configure, start_share_broker, take
from tests.support.barnabas_cluster import BarnabasCluster
from tests.support.in_process_broker import eventually


def first(findings: list[Finding]) -> tuple[str, State]:
    return findings[0].rule, findings[0].state


def test_a_group_without_members_is_told_with_what_waits(bootstrap: str, unique: Unique) -> None:
    """CON-119, rule 1."""

    async def scenario() -> None:
        async with troubled_group(bootstrap, unique) as group:
            await group.produce(5)
            await group.commit(2)
            found = await group.findings()
            assert first(found) == ("no_members", State.WARNING)
            assert f"3 records wait in {group.place}" in found[0].evidence
            await group.commit(5)
            assert first(await group.findings()) == ("no_members", State.FINE)

    asyncio.run(scenario())


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_member_without_a_partition_is_told(
    bootstrap: str, unique: Unique, protocol: str
) -> None:
    """CON-119, rule 2: it matters where there is lag, because more members would not help."""

    async def scenario() -> None:
        async with (
            troubled_group(bootstrap, unique) as group,
            group.member("web-1", group_protocol=protocol) as one,
            group.member("web-2", group_protocol=protocol) as two,
        ):
            await group.until_stable(one, two)
            found = await group.findings()
            assert first(found) == ("idle_member", State.FINE)
            assert "2 members for 1 partition" in found[0].evidence
            await group.produce(2)
            holder = one if one.assignment() else two
            await group.commit_as(holder, 1)
            assert first(await group.findings()) == ("idle_member", State.WARNING)

    asyncio.run(scenario())


def test_rebalancing_again_and_again_is_told_with_who_comes_and_goes(
    bootstrap: str, unique: Unique
) -> None:
    """CON-119, rule 3."""

    async def scenario() -> None:
        async with (
            troubled_group(bootstrap, unique, partitions=2) as group,
            group.member("web-1") as stays,
        ):
            watch = GroupWatch()
            now_ms = 0
            watch.observe(await group.until_stable(stays), now_ms)
            for _ in range(REBALANCES_MIN // 2):
                async with group.member("web-2") as comes:
                    now_ms += 10_000
                    watch.observe(await group.until_stable(stays, comes), now_ms)
                now_ms += 10_000
                movement = watch.observe(await group.until_stable(stays), now_ms)
            found = await group.findings(movement)
            assert "rebalancing" in [one.rule for one in found]
            (told,) = [one for one in found if one.rule == "rebalancing"]
            assert "web-2, web-2 left, web-2, web-2 joined" in told.evidence
            later = watch.observe(await group.observed(), now_ms + 400_000)
            assert "rebalancing" not in [one.rule for one in await group.findings(later)]

    asyncio.run(scenario())


def test_a_partition_whose_leader_is_away_is_told(tmp_path: Path) -> None:
    """CON-119, rule 4."""
    place = TopicPartition("orders", 0)

    async def scenario(cluster: BarnabasCluster) -> None:
        async with Admin(cluster.bootstrap, default_api_timeout_ms=20_000) as admin:
            # Until all hold the metadata log, the one that is killed may be all that has it.
            await cluster.until_formed(admin)
            new = NewTopic(name="orders", replica_assignment={0: [2], 1: [1]})
            (await admin.topics.create([new])).unwrap()
            group = TroubledGroup(cluster.bootstrap, admin, "orders", "billing")
            await group.produce(3)
            await group.commit(1)
            await asyncio.to_thread(cluster.brokers[2].kill)

            async def is_told() -> bool:
                (seen,) = await observe_groups(admin, ["billing"])
                return seen.leaderless == {place}

            await eventually(is_told)
            found = await group.findings()
            assert first(found) == ("leader_away", State.CRITICAL)
            assert "No leader for orders-0" in found[0].evidence
            assert found[0].command == "barnabas topic describe orders"

    with BarnabasCluster(tmp_path, node_ids=(0, 1, 2)) as cluster:
        asyncio.run(scenario(cluster))


def test_a_commit_whose_record_is_gone_is_told_with_how_many_went(
    bootstrap: str, unique: Unique
) -> None:
    """CON-119, rule 5."""

    async def scenario() -> None:
        async with troubled_group(bootstrap, unique) as group:
            await group.produce(10)
            await group.commit(2)
            (await group.admin.partitions.delete_records({group.place: 6})).unwrap()
            found = await group.findings()
            assert first(found) == ("commit_gone", State.CRITICAL)
            assert f"4 records of {group.place} went" in found[0].evidence
            assert (found[0].place, found[0].offset) == (group.place, 6)
            assert found[0].command == f"barnabas group reset {group.group_id} --to-earliest"

    asyncio.run(scenario())


def test_an_open_transaction_that_holds_back_the_end_is_told_with_its_age(
    bootstrap: str, unique: Unique
) -> None:
    """CON-119, rule 6: by its id, and not while it is as young as transactions are."""

    async def scenario() -> None:
        name = unique("copier")
        async with (
            troubled_group(bootstrap, unique) as group,
            Producer(bootstrap, transactional_id=name) as producer,
        ):
            await group.produce(3)
            await producer.init_transactions()
            await producer.begin_transaction()
            await producer.send(group.topic, b"undecided", partition=0)
            await group.produce(2)
            await group.commit(3)
            assert "open_transaction" not in [one.rule for one in await group.findings()]
            found = await group.findings(later_ms=OPEN_TRANSACTION_MS + 60_000)
            (told,) = [one for one in found if one.rule == "open_transaction"]
            assert told.state is State.WARNING
            assert f"held back at 3 by the transaction of {name}, open for 1 min" in told.evidence
            assert told.command == f"barnabas transaction describe {name}"
            await group.commit(2)
            found = await group.findings(later_ms=OPEN_TRANSACTION_MS + 60_000)
            assert "open_transaction" not in [one.rule for one in found]
            await producer.abort_transaction()

    asyncio.run(scenario())


def test_a_commit_that_stands_still_is_told_with_its_record_and_holder(
    bootstrap: str, unique: Unique
) -> None:
    """CON-119, rule 7: the operator's rule, with the very record to look at."""

    async def scenario() -> None:
        async with (
            troubled_group(bootstrap, unique) as group,
            group.member("web-2") as consumer,
        ):
            watch = GroupWatch()
            await group.until_stable(consumer)
            await group.produce(3)
            await group.commit_as(consumer, 1)
            watch.observe(await group.observed(), 0)
            await group.produce(240)
            movement = watch.observe(await group.observed(), STUCK_AFTER_MS)
            found = await group.findings(movement)
            assert first(found) == ("standing_still", State.CRITICAL)
            assert f"{group.place} has stood at 1 for 2 min while 2/s come" in found[0].evidence
            assert "web-2 holds it" in found[0].evidence
            assert (found[0].place, found[0].offset) == (group.place, 1)
            assert found[0].command == (
                f"barnabas consume {group.topic} --partition 0 --offset 1 --max-records 1"
            )

    asyncio.run(scenario())


def test_a_group_that_is_slower_than_producers_is_told_with_both_rates(
    bootstrap: str, unique: Unique
) -> None:
    """CON-119, rule 8."""

    async def scenario() -> None:
        async with (
            troubled_group(bootstrap, unique) as group,
            group.member() as consumer,
        ):
            watch = GroupWatch()
            await group.until_stable(consumer)
            for number in range(4):
                await group.produce(200)
                await group.commit_as(consumer, 100 * (number + 1))
                movement = watch.observe(await group.observed(), number * 10_000)
            found = await group.findings(movement)
            assert first(found) == ("slower", State.WARNING)
            assert "20/s come and 10/s are read: 400 records behind" in found[0].evidence

    asyncio.run(scenario())


def test_a_group_that_gets_on_has_nothing_wrong(bootstrap: str, unique: Unique) -> None:
    """CON-119, rule 9; and one look is not enough to say so of a group that lags."""

    async def scenario() -> None:
        async with (
            troubled_group(bootstrap, unique) as group,
            group.member() as consumer,
        ):
            await group.until_stable(consumer)
            await group.produce(400)
            await group.commit_as(consumer, 0)
            assert first(await group.findings()) == ("unknown", State.UNKNOWN)
            watch = GroupWatch()
            for number in range(3):
                await group.commit_as(consumer, 100 * number)
                movement = watch.observe(await group.observed(), number * 10_000)
            found = await group.findings(movement)
            assert first(found) == ("nothing_wrong", State.WORKING)
            assert "200 records behind, about 20 s left" in found[0].evidence
            await group.commit_as(consumer, 400)
            assert first(await group.findings()) == ("nothing_wrong", State.FINE)

    asyncio.run(scenario())


@pytest.fixture(params=["barnabas", pytest.param("4.2.0", marks=pytest.mark.interop)])
def share_bootstrap(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The address of a broker with share groups switched on."""
    broker = start_share_broker(request.param, tmp_path)
    yield broker.bootstrap
    broker.stop()


def test_a_share_group_is_diagnosed_by_the_same_rules(share_bootstrap: str, unique: Unique) -> None:
    """CON-119: without members, and standing still at a record that is never acknowledged."""

    async def scenario() -> None:
        async with troubled_group(share_bootstrap, unique) as group:
            await configure(group.admin, group.group_id, share_auto_offset_reset="earliest")
            await group.produce(3)
            async with ShareConsumer(
                share_bootstrap,
                group_id=group.group_id,
                client_id="worker-1",
                share_acknowledgement_mode="explicit",
            ) as consumer:
                consumer.subscribe([group.topic])
                first_record, *_ = await take(consumer, 3)
                consumer.acknowledge(first_record)
                assert set((await consumer.commit()).values()) == {None}
                assert (await group.observed_as_share()).committed.keys() == {group.place}
                watch = GroupWatch()
                watch.observe(await group.observed_as_share(), 0)
                await group.produce(10)
                seen = await group.observed_as_share()
                movement = watch.observe(seen, STUCK_AFTER_MS)
                found = diagnose(seen, 0, movement)
                assert first(found) == ("standing_still", State.CRITICAL)
                assert "worker-1 holds it" in found[0].evidence

            async def has_left() -> bool:
                return not (await group.observed_as_share()).members

            await eventually(has_left)
            found = diagnose(await group.observed_as_share(), 0)
            assert first(found) == ("no_members", State.WARNING)

    asyncio.run(scenario())
