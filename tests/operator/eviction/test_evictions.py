"""Evictions judged from what is there, by any replica, and what is noted of them."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from barnabas_operator.eviction.evictions import CLUSTER_TIMEOUT_SECONDS
from barnabas_operator.eviction.review import EvictionReview
from barnabas_operator.kubernetes.api import ForbiddenError
from barnabas_operator.kubernetes.kinds import BROKER, EVENT, NAMESPACE, POD
from barnabas_operator.reconcile.broker.eviction_gate import Ruling
from tests.operator.eviction.eviction_world import HEALTHY, SHORT, Away, EvictionWorld, NoWrites
from tests.operator.reconcile.broker.store_api import StoreApi
from tests.support.fake_kubernetes_store import FakeStore
from tests.support.virtual_loop import run_virtual

MINUTE_MS = 60_000


def review(pod: str = "demo-1", **fields: Any) -> EvictionReview:
    return EvictionReview(uid="u1", namespace="shop", pod=pod, **fields)


def run(test: Callable[[EvictionWorld], Awaitable[None]], **annotations: str) -> None:
    """Run a test with three healthy brokers."""

    async def body() -> None:
        store = FakeStore()
        store.create(NAMESPACE, "", {"metadata": {"name": "shop"}})
        world = EvictionWorld(StoreApi(store), "shop")
        await world.put_brokers(**annotations)
        await test(world)

    run_virtual(body())


def message(answer: dict[str, Any]) -> str:
    assert answer["response"]["status"]["code"] == 429
    return str(answer["response"]["status"]["message"])


def is_allowed(answer: dict[str, Any]) -> bool:
    return bool(answer["response"]["allowed"])


def test_a_healthy_broker_goes_and_nothing_is_written() -> None:
    async def test(world: EvictionWorld) -> None:
        store = world.api.store  # type: ignore[attr-defined]
        version = store.version
        assert is_allowed(await world.evictions().answer(review()))
        assert store.version == version
        assert world.rulings == [Ruling.SAFE]

    run(test)


def test_a_refusal_says_what_it_waits_for_and_until_when_and_is_noted_once() -> None:
    """operator.md 4 and 3.25: kubectl shows the message; zero writes while nothing changes."""

    async def test(world: EvictionWorld) -> None:
        world.view = SHORT
        world.clock.now_ms = 1_769_860_800_000
        one, other = world.evictions(), world.evictions()
        assert message(await one.answer(review())) == (
            "broker 1 of Broker shop/demo cannot be spared yet: broker 1: orders-0 cannot spare"
            " it; it is let go in any case at 2026-01-31T13:00:00Z"
        )
        noted = await world.note(1)
        assert noted == "2026-01-31T12:00:00Z/2026-01-31T12:00:00Z"
        world.clock.now_ms += 30_000
        assert not is_allowed(await other.answer(review()))
        assert await world.note(1) == noted
        world.clock.now_ms += 30_000
        assert not is_allowed(await other.answer(review()))
        assert await world.note(1) == "2026-01-31T12:00:00Z/2026-01-31T12:01:00Z"
        events = await world.api.list(EVENT, namespace="shop")
        assert [event["reason"] for event in events] == ["EvictionDeferred"]
        world.view = HEALTHY
        assert is_allowed(await one.answer(review()))

    run(test)


def test_patience_is_counted_by_all_replicas_together() -> None:
    """Each of them finds the note; the one that lets go warns."""

    async def test(world: EvictionWorld) -> None:
        world.view = SHORT
        for _ in range(60):
            assert not is_allowed(await world.evictions().answer(review()))
            world.clock.now_ms += MINUTE_MS
        answer = await world.evictions().answer(review())
        assert is_allowed(answer)
        assert answer["response"]["warnings"] == [
            "the wait is over, although: broker 1: orders-0 cannot spare it"
        ]
        assert world.rulings[-1] is Ruling.OUT_OF_PATIENCE
        events = {one["reason"]: one for one in await world.api.list(EVENT, namespace="shop")}
        assert events["EvictionLetThrough"]["type"] == "Warning"

    run(test)


def test_patience_ends_also_where_the_note_cannot_be_written() -> None:
    """Rights may be missing; a drain must not be held up for ever."""

    async def test(world: EvictionWorld) -> None:
        world.view = SHORT
        api: Any = NoWrites(world.api, ForbiddenError("no"))
        evictions = world.evictions(api)
        assert not is_allowed(await evictions.answer(review()))
        for _ in range(6):
            world.clock.now_ms += 10 * MINUTE_MS
            answer = await evictions.answer(review())
        assert is_allowed(answer)
        assert await world.note(1) == ""

    run(test)


def test_a_dry_run_is_answered_the_same_and_changes_nothing() -> None:
    """The chart says that a dry run has no side effects, and the API server relies on it."""

    async def test(world: EvictionWorld) -> None:
        world.view = SHORT
        store = world.api.store  # type: ignore[attr-defined]
        version = store.version
        assert not is_allowed(await world.evictions().answer(review(is_dry_run=True)))
        assert store.version == version
        assert world.rulings == []

    run(test)


def test_pods_of_others_go_at_once_and_nobody_is_asked() -> None:
    """Only what the operator has made is its business."""

    async def test(world: EvictionWorld) -> None:
        world.view = None
        await world.put_pod("web-0", {"app": "web"})
        await world.put_pod("other-1", {"barnabas.dev/broker": "demo"})
        evictions = world.evictions()
        for pod in ("web-0", "other-1", "gone-0", "demo-9", "nothing"):
            assert is_allowed(await evictions.answer(review(pod)))
        await world.api.delete(BROKER, "shop", "demo")
        assert is_allowed(await evictions.answer(review()))
        assert world.asked == 0
        assert set(world.rulings) == {Ruling.NOT_OURS}

    run(test)


def test_a_broker_that_is_paused_is_left_alone() -> None:
    async def test(world: EvictionWorld) -> None:
        world.view = SHORT
        assert is_allowed(await world.evictions().answer(review()))
        assert (world.asked, world.rulings) == (0, [Ruling.LEFT_ALONE])

    run(test, **{"barnabas.dev/paused": "true"})


def test_an_api_server_that_cannot_be_read_lets_go_with_a_warning() -> None:
    """As where no operator runs: the disruption budget is still there."""

    async def test(world: EvictionWorld) -> None:
        away: Any = Away()
        answer = await world.evictions(away).answer(review())
        assert is_allowed(answer)
        assert "cannot judge: away" in answer["response"]["warnings"][0]
        assert world.rulings == [Ruling.NOT_JUDGED]

    run(test)


def test_brokers_that_do_not_answer_in_time_keep_the_broker() -> None:
    """The answer has to come before the API server stops waiting, which would let it go."""

    async def test(world: EvictionWorld) -> None:
        world.is_slow = True
        loop = asyncio.get_running_loop()
        started = loop.time()
        answers = await asyncio.gather(*(world.evictions().answer(review()) for _ in range(2)))
        assert loop.time() - started <= CLUSTER_TIMEOUT_SECONDS + 0.1
        assert all("the brokers do not answer" in message(answer) for answer in answers)

    run(test)


def test_evictions_of_one_cluster_are_judged_one_after_the_other() -> None:
    """A node with several brokers on it must not make as many clients at once."""

    async def test(world: EvictionWorld) -> None:
        evictions = world.evictions()
        pods = [f"demo-{number}" for number in range(3)]
        await asyncio.gather(*(evictions.answer(review(pod)) for pod in pods))
        assert (world.asked, world.asked_at_once_max) == (3, 1)
        world.is_slow = True
        answers = await asyncio.gather(*(evictions.answer(review(pod)) for pod in pods))
        texts = {message(answer).partition(";")[0] for answer in answers}
        assert any("whether the broker can be spared is not known in time" in one for one in texts)

    run(test)


def test_patience_ends_also_where_judging_always_takes_too_long() -> None:
    """Such a refusal was not noted: a drain was held up for ever."""

    async def test(world: EvictionWorld) -> None:
        world.is_silent = True
        for _ in range(6):
            answer = await world.evictions().answer(review())
            assert not is_allowed(answer)
            assert "is not known in time" in message(answer)
            world.clock.now_ms += 10 * MINUTE_MS
        assert await world.note(1)
        assert is_allowed(await world.evictions().answer(review()))
        assert world.rulings[-1] is Ruling.OUT_OF_PATIENCE

    run(test)


def test_a_short_grace_period_of_who_evicts_is_warned_of() -> None:
    """operator.md 3.7: it is theirs to choose, and the broker's to suffer."""

    async def test(world: EvictionWorld) -> None:
        evictions = world.evictions()
        answer = await evictions.answer(review(grace_period_seconds=5))
        assert "a grace period of 5 s" in answer["response"]["warnings"][0]
        answer = await evictions.answer(review(grace_period_seconds=600))
        assert "warnings" not in answer["response"]

    run(test)


def test_a_pod_that_was_replaced_is_not_marked_for_its_predecessor() -> None:
    """The note is written onto the pod that was judged, by its uid."""

    async def test(world: EvictionWorld) -> None:
        world.view = SHORT
        labels = {"barnabas.dev/broker": "demo"}

        async def replaced(*arguments: Any, **options: Any) -> Any:
            await world.api.delete(POD, "shop", "demo-1")
            await world.put_pod("demo-1", labels)
            return await world.api.patch(*arguments, **options)

        api: Any = NoWrites(world.api, ForbiddenError("no"))
        api.patch = replaced
        assert not is_allowed(await world.evictions(api).answer(review()))
        assert await world.note(1) == ""

    run(test)
