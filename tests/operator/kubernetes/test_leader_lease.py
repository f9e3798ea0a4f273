"""The election of the acting operator, in virtual time (operator.md 6, rules 1 to 11)."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from barnabas_operator.kubernetes.api import ConflictError, ForbiddenError, UnavailableError
from barnabas_operator.kubernetes.kinds import LEASE
from barnabas_operator.kubernetes.leader_lease import LeaderLease, LeaseTimes, NotLeaderError
from tests.support.store_api import StoreApi
from tests.support.virtual_loop import run_virtual

TIMES = LeaseTimes(duration_seconds=15, renew_deadline_seconds=10, retry_seconds=2)


def candidate(api: StoreApi, identity: str = "one", **fields: Any) -> LeaderLease:
    return LeaderLease(
        api, namespace="default", name="operator", identity=identity, times=TIMES, **fields
    )


def record(api: StoreApi) -> dict[str, Any]:
    spec: dict[str, Any] = api.store.get(LEASE, "default", "operator")["spec"]
    return spec


def run(test: Callable[[StoreApi], Awaitable[None]]) -> None:
    async def body() -> None:
        await test(StoreApi())

    run_virtual(body())


def now() -> float:
    return asyncio.get_running_loop().time()


def test_the_first_candidate_leads_and_the_second_one_waits() -> None:
    async def test(api: StoreApi) -> None:
        one, two = candidate(api), candidate(api, "two")
        await one.acquire()
        keeping = asyncio.create_task(one.keep())
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(300):
                await two.acquire()
        assert one.is_leader
        assert not two.is_leader
        with pytest.raises(NotLeaderError):
            two.check()
        assert record(api)["leaseTransitions"] == 0
        keeping.cancel()

    run(test)


def test_a_lease_whose_holder_is_gone_is_taken_when_it_has_not_changed_for_its_duration() -> None:
    """Rule 3: by the observer's own clock, whatever times are written in it."""

    async def test(api: StoreApi) -> None:
        await candidate(api).acquire()
        far_off = {"spec": {"renewTime": "2099-01-01T00:00:00.000000Z"}}
        await api.patch(LEASE, "default", "operator", far_off)
        two = candidate(api, "two")
        began = now()
        await two.acquire()
        assert 15 < now() - began < 15 + 3
        assert record(api)["holderIdentity"] == "two"
        assert record(api)["leaseTransitions"] == 1

    run(test)


def test_a_released_lease_is_taken_at_once() -> None:
    """Rule 11; and leadership ends before the Lease is given away."""

    async def test(api: StoreApi) -> None:
        one, two = candidate(api), candidate(api, "two")
        await one.acquire()
        waiting = asyncio.create_task(two.acquire())
        await asyncio.sleep(1)
        await one.release()
        assert not one.is_leader
        began = now()
        await waiting
        assert now() - began < 3

    run(test)


@pytest.mark.parametrize("verb", ["create", "patch"])
def test_a_lease_that_was_taken_without_a_reply_is_recognized(verb: str) -> None:
    """Rule 4: what is stored is exactly what was sent, so the first try had succeeded."""

    async def test(api: StoreApi) -> None:
        if verb == "patch":
            one = candidate(api, "old")
            await one.acquire()
            await one.release()
        api.lost_replies.add(verb)
        two = candidate(api, "two")
        await two.acquire()
        assert two.is_leader
        assert now() < 5

    run(test)


def test_a_lost_reply_to_a_renewal_loses_nothing() -> None:
    async def test(api: StoreApi) -> None:
        one = candidate(api)
        await one.acquire()
        keeping = asyncio.create_task(one.keep())
        for _ in range(20):
            api.lost_replies.add("patch")
            await asyncio.sleep(3)
            assert one.is_leader
        keeping.cancel()

    run(test)


def test_a_lease_that_somebody_annotates_is_kept() -> None:
    """Rule 4: the conflict is no loss while the holder is still the same."""

    async def test(api: StoreApi) -> None:
        one = candidate(api)
        await one.acquire()
        keeping = asyncio.create_task(one.keep())
        for number in range(10):
            note = {"metadata": {"annotations": {"note": str(number)}}}
            await api.patch(LEASE, "default", "operator", note)
            await asyncio.sleep(4)
            assert one.is_leader
        keeping.cancel()

    run(test)


@pytest.mark.parametrize("holder", ["somebody-else", None])
def test_a_lease_that_somebody_has_taken_is_given_up(holder: str | None) -> None:
    async def test(api: StoreApi) -> None:
        one = candidate(api)
        await one.acquire()
        keeping = asyncio.create_task(one.keep())
        taken = {"spec": {"holderIdentity": holder}}
        await api.patch(LEASE, "default", "operator", taken)
        began = now()
        await keeping
        assert not one.is_leader
        assert now() - began < 3

    run(test)


def test_a_deleted_lease_is_given_up() -> None:
    async def test(api: StoreApi) -> None:
        one = candidate(api)
        await one.acquire()
        await api.delete(LEASE, "default", "operator")
        await one.keep()
        assert not one.is_leader

    run(test)


def test_a_leader_stops_acting_before_anybody_can_take_over() -> None:
    """Rule 6: the deadline counts from before the last renewal was sent."""

    async def test(api: StoreApi) -> None:
        mine = StoreApi(api.store)
        one, two = candidate(mine), candidate(api, "two")
        await one.acquire()
        ended: list[float] = []
        keeping = asyncio.create_task(one.keep())
        keeping.add_done_callback(lambda _: ended.append(now()))
        waiting = asyncio.create_task(two.acquire())
        await asyncio.sleep(30)
        mine.is_away = True
        await waiting
        assert ended
        assert ended[0] < now()
        assert not one.is_leader

    run(test)


def test_a_stalled_process_is_no_leader_when_it_wakes_up() -> None:
    """Rule 6: every write asks; no task has to run for that."""

    async def test(api: StoreApi) -> None:
        clock = [100.0]
        one = candidate(api, now=lambda: clock[0])
        await one.acquire()
        one.check()
        clock[0] += 9.9
        one.check()
        clock[0] += 0.2
        with pytest.raises(NotLeaderError):
            one.check()

    run(test)


def test_faults_of_the_server_are_waited_out() -> None:
    """Nobody leads without the store, and nobody ends because of it."""

    async def test(api: StoreApi) -> None:
        api.is_away = True
        one = candidate(api)
        waiting = asyncio.create_task(one.acquire())
        await asyncio.sleep(90)
        assert not waiting.done()
        api.is_away = False
        api.refused["get"] = [ForbiddenError("403"), UnavailableError("500", code=500)]
        await waiting
        assert one.is_leader

    run(test)


def test_of_two_that_create_the_lease_one_leads() -> None:
    """Rule 2: a creation without a version is a race that 409 decides."""

    async def test(api: StoreApi) -> None:
        one = candidate(api)
        api.refused["create"] = [ConflictError("exists")]
        waiting = asyncio.create_task(one.acquire())
        await asyncio.sleep(0)
        assert not one.is_leader
        await waiting
        assert one.is_leader

    run(test)


def test_an_answer_that_comes_long_after_it_was_sent_does_not_count_from_its_coming() -> None:
    """Rule 6: a try that succeeded unheard and long ago is renewed before anybody acts."""

    async def test(api: StoreApi) -> None:
        clock = [0.0]
        one = candidate(api, now=lambda: clock[0])
        api.lost_replies.add("create")
        waiting = asyncio.create_task(one.acquire())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        clock[0] += 60
        await waiting
        assert one.is_leader
        assert api.calls == ["get", "create", "get", "patch"]

    run(test)
