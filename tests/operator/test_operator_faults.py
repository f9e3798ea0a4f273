"""The whole operator when something fails: the API server, the brokers, the operator itself."""

import asyncio
from pathlib import Path

import pytest

from barnabas_operator.kubernetes.kinds import BROKER, EVENT, LEASE, NAMESPACE, TOPIC
from tests.support.in_process_broker import running_broker
from tests.support.operator_thread import OperatorThread, running_operator
from tests.support.operator_world import bootstrap_of, operator_world, until, world_with_broker
from tests.support.processes import free_port
from tests.support.real_api_server import RealApiServer

World = RealApiServer | None


@pytest.mark.parametrize("code", [409, 422, 429, 500, 0])
@pytest.mark.parametrize("is_done_first", [False, True])
def test_no_refused_or_lost_status_write_leaves_anything_stuck(
    tmp_path: Path, code: int, is_done_first: bool
) -> None:
    """operator.md 7, pitfall 1: such an answer ended a timer of kopf for ever; 0 is no answer."""

    async def run() -> None:
        async with world_with_broker(tmp_path, None) as (world, _), world.operator() as operator:
            world.fake.fail("PATCH", "/topics/orders/status$", code, is_done_first=is_done_first)
            await world.put_topic("orders", partitions=1)
            await world.until_ready("orders")
            await world.change_topic("orders", {"spec": {"partitions": 2}})
            await world.until_ready("orders")
            assert operator.is_running

    asyncio.run(run())


def test_a_conflict_that_no_change_has_caused_is_tried_again_soon(tmp_path: Path) -> None:
    """A topic was told as ready only with the next look at everything, a minute later."""

    async def run() -> None:
        async with (
            world_with_broker(tmp_path, None) as (world, _),
            world.operator(resync_seconds=1000.0),
        ):
            world.fake.fail("PATCH", "/topics/orders/status$", 409, times=2)
            world.fake.fail("PATCH", "/topics/kept$", 409)
            await world.put_topic("orders")
            await world.put_topic("kept", deletionPolicy="Delete")
            await world.until_ready("orders", "kept")

            async def is_held() -> bool:
                return bool((await world.topic("kept"))["metadata"].get("finalizers"))

            await until(is_held)

    asyncio.run(run())


def test_one_refused_status_does_not_keep_others_from_being_told(tmp_path: Path) -> None:
    """One topic whose status is never taken is no reason to hide the other ones."""

    async def run() -> None:
        async with world_with_broker(tmp_path, None) as (world, _), world.operator():
            world.fake.fail("PATCH", "/topics/bad/status$", 422, times=1000)
            for name in ("bad", "good", "other"):
                await world.put_topic(name)
            await world.until_ready("good", "other")

    asyncio.run(run())


def test_an_operator_that_starts_anew_writes_nothing(tmp_path: Path, real_or_fake: World) -> None:
    """operator.md 3, pain 21: all that it needs to know is in the cluster."""

    async def run() -> None:
        async with world_with_broker(tmp_path, real_or_fake) as (world, _):
            async with world.operator():
                await world.put_topic("orders", partitions=2, deletionPolicy="Delete")
                await world.until_ready("orders")
            world.writes()
            async with world.operator() as operator:

                async def has_looked() -> bool:
                    registry = operator.process.metrics.registry
                    labels = {"kind": "topics", "result": "done"}
                    name = "barnabas_operator_reconciles_total"
                    return (registry.get_sample_value(name, labels) or 0) >= 2

                await until(has_looked)
                assert world.writes() == []

    asyncio.run(run())


def test_topics_of_brokers_that_are_away_can_be_deleted(
    tmp_path: Path, real_or_fake: World
) -> None:
    """operator.md 2: after a while the finalizer is let go, and an event says why."""

    async def run() -> None:
        async with (
            operator_world(tmp_path, real_or_fake) as world,
            world.operator(unreachable_seconds=1.0, admin_timeout_seconds=1.0),
        ):
            async with running_broker(tmp_path / "data") as broker:
                await world.put_broker(bootstrap_of(broker))
                await world.put_topic("doomed", deletionPolicy="Delete")
                await world.until_ready("doomed")
            found = await world.until_condition("doomed", "Unknown", "BrokersUnreachable")
            assert found["message"].startswith("no broker answers at 127.0.0.1:")
            # What was seen last is still told.
            assert (await world.status("doomed"))["leaders"] == "1/1"
            await world.delete_topic("doomed")
            await world.until_gone(TOPIC, "doomed")
            events = await world.api.list(EVENT, namespace=world.namespace)
            reasons = [event["reason"] for event in events if event["type"] == "Normal"]
            assert reasons == ["BrokersUnreachable"]

    asyncio.run(run())


def test_a_namespace_goes_although_its_brokers_do_not_answer(
    tmp_path: Path, real_or_fake: World
) -> None:
    """operator.md 3, pain 1: the finalizer never outlives what it is for."""

    async def run() -> None:
        async with operator_world(tmp_path, real_or_fake) as world:
            await world.put_broker(f"127.0.0.1:{free_port()}")
            async with world.operator(
                unreachable_seconds=3600.0,
                admin_timeout_seconds=1.0,
                # It lives elsewhere: with the namespace its Lease would go, and it with that.
                operator_namespace="default",
                lease_name=world.namespace,
            ):
                await world.put_topic("doomed", deletionPolicy="Delete")
                await world.until_condition("doomed", "Unknown", "BrokersUnreachable")
                await world.api.delete(NAMESPACE, None, world.namespace)
                await world.until_gone(NAMESPACE, world.namespace)

    asyncio.run(run())


def test_a_topic_tells_which_broker_it_lacks(tmp_path: Path, real_or_fake: World) -> None:
    """operator.md 1: without brokerRef the only Broker of the namespace is meant."""

    async def run() -> None:
        async with operator_world(tmp_path, real_or_fake) as world, world.operator():
            await world.put_topic("orders", deletionPolicy="Delete")
            found = await world.until_condition("orders", "False", "BrokerNotFound")
            assert found["message"].endswith("has no Broker: name one in spec.brokerRef")
            await world.put_topic("named", brokerRef={"name": "demo"})
            found = await world.until_condition("named", "False", "BrokerNotFound")
            assert found["message"] == f"there is no Broker {world.namespace}/demo"
            async with running_broker(tmp_path / "data") as broker:
                await world.put_broker(bootstrap_of(broker))
                await world.until_ready("orders", "named")
                await world.put_broker(bootstrap_of(broker), "second")
                await world.put_topic("unclear")
                found = await world.until_condition("unclear", "False", "BrokerAmbiguous")
                for name in ("demo", "second"):
                    await world.api.delete(BROKER, world.namespace, name)
                await world.until_condition("named", "False", "BrokerNotFound")
                # Nobody could delete its topic any more: it must not wait for that.
                await world.delete_topic("orders")
                await world.until_gone(TOPIC, "orders")

    asyncio.run(run())


def test_an_operator_that_loses_its_lease_ends_and_another_one_goes_on(
    tmp_path: Path, real_or_fake: World
) -> None:
    """operator.md 6: nobody acts beside the holder; the next one takes over when it has expired."""

    async def run() -> None:
        async with world_with_broker(tmp_path, real_or_fake) as (world, _):
            soon = world.settings(lease_duration_seconds=8.0, lease_renew_deadline_seconds=6.0)
            first = OperatorThread(soon)
            first.start()
            await world.put_topic("orders")
            await world.until_ready("orders")
            async with running_operator(soon) as second:
                usurped = {"spec": {"holderIdentity": "somebody-else"}}
                await world.api.patch(LEASE, world.namespace, "barnabas-operator", usurped)
                await first.join()
                assert not first.is_running
                await world.put_topic("later")
                await world.until_ready("later")
                lease = await world.api.get(LEASE, world.namespace, "barnabas-operator")
                assert lease is not None
                assert lease["spec"]["leaseTransitions"] == 1
                assert second.is_running

    asyncio.run(run())


def test_a_waiting_replica_takes_over_at_once_when_the_leader_stops(
    tmp_path: Path, real_or_fake: World
) -> None:
    """operator.md 6, rule 11: the Lease is released, not left to expire."""

    async def run() -> None:
        async with (
            world_with_broker(tmp_path, real_or_fake) as (world, _),
            # Their Lease lasts longer than the test may take.
            running_operator(world.settings()) as first,
            running_operator(world.settings()),
        ):
            await world.put_topic("orders")
            await world.until_ready("orders")
            await first.stop()
            await world.put_topic("later")
            await world.until_ready("later")

    asyncio.run(run())


def test_an_api_server_that_is_away_for_a_while_is_waited_for(tmp_path: Path) -> None:
    """operator.md 6, rule 7: the operator does nothing meanwhile and goes on afterwards."""

    async def run() -> None:
        async with (
            world_with_broker(tmp_path, None) as (world, _),
            world.operator() as operator,
        ):
            await world.put_topic("orders", partitions=1)
            await world.until_ready("orders")
            world.fake.is_away = True
            world.fake.end_watches()
            failures = len(world.fake.requests)

            async def has_tried() -> bool:
                return len(world.fake.requests) > failures + 5

            await until(has_tried)
            world.fake.is_away = False
            await world.change_topic("orders", {"spec": {"partitions": 2}})
            await world.until_ready("orders")
            assert operator.is_running

    asyncio.run(run())
