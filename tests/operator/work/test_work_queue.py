"""The queue of work, in virtual time."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from itertools import pairwise
from typing import Any

import pytest

from barnabas_operator.work.key import Key, KeyKind
from barnabas_operator.work.work_queue import BACKOFF, ReconcileResult, WorkQueue
from tests.support.virtual_loop import run_virtual


def key(name: str, kind: KeyKind = KeyKind.TOPICS) -> Key:
    return Key(kind=kind, namespace="ns", name=name)


def now() -> float:
    return asyncio.get_running_loop().time()


def run(
    reconcile: Callable[[Key], Awaitable[float | None]],
    test: Callable[[WorkQueue], Awaitable[None]],
    **settings: Any,
) -> None:
    async def body() -> None:
        queue = WorkQueue(reconcile, settle_seconds=0.2, **settings)
        working = asyncio.create_task(queue.run())
        await test(queue)
        working.cancel()

    run_virtual(body())


def test_many_changes_become_one_pass() -> None:
    done: list[tuple[Key, float]] = []

    async def reconcile(one: Key) -> None:
        done.append((one, now()))

    async def test(queue: WorkQueue) -> None:
        for _ in range(1000):
            queue.add(key("a"))
        queue.add(key("b"))
        await asyncio.sleep(10)
        assert sorted(one.name for one, _ in done) == ["a", "b"]

    run(reconcile, test)


def test_a_stream_of_changes_does_not_put_a_pass_off_for_ever() -> None:
    done: list[float] = []

    async def reconcile(_: Key) -> None:
        done.append(now())

    async def test(queue: WorkQueue) -> None:
        for _ in range(100):
            queue.add(key("a"))
            await asyncio.sleep(0.1)
        assert 30 < len(done) < 60

    run(reconcile, test)


def test_a_change_during_a_pass_means_another_pass_and_never_two_at_once() -> None:
    running = 0
    passes = 0

    async def reconcile(_: Key) -> None:
        nonlocal running, passes
        running += 1
        passes += 1
        assert running == 1
        await asyncio.sleep(5)
        running -= 1

    async def test(queue: WorkQueue) -> None:
        queue.add(key("a"))
        await asyncio.sleep(1)
        assert queue.in_progress == 1
        for _ in range(10):
            queue.add(key("a"))
        await asyncio.sleep(60)
        assert passes == 2

    run(reconcile, test)


def test_a_pass_says_when_it_wants_to_look_again() -> None:
    done: list[float] = []

    async def reconcile(_: Key) -> float:
        done.append(now())
        return 60

    async def test(queue: WorkQueue) -> None:
        queue.add(key("a"))
        await asyncio.sleep(200)
        assert len(done) == 4
        # A change does not wait for that, and does not bring a second round of its own.
        queue.add(key("a"))
        await asyncio.sleep(1)
        assert len(done) == 5

    run(reconcile, test)


def test_a_key_that_fails_waits_longer_and_longer_and_recovers() -> None:
    done: list[float] = []
    is_well = False
    heard: list[ReconcileResult] = []

    async def reconcile(_: Key) -> None:
        done.append(now())
        if not is_well:
            raise RuntimeError("no")

    async def test(queue: WorkQueue) -> None:
        nonlocal is_well
        queue.add(key("a"), 0)
        await asyncio.sleep(300)
        waits = [later - earlier for earlier, later in pairwise(done)]
        assert waits[:4] == sorted(waits[:4])
        assert all(wait <= 75 for wait in waits)
        assert queue.failures_of(key("a")) == len(done)
        is_well = True
        await asyncio.sleep(80)
        assert queue.failures_of(key("a")) == 0
        assert [one.error is None for one in heard][-1]
        count = len(done)
        await asyncio.sleep(1000)
        assert len(done) == count

    run(reconcile, test, on_result=heard.append)


def test_a_change_brings_a_failing_key_back_early_but_no_storm_does() -> None:
    done: list[float] = []

    async def reconcile(_: Key) -> None:
        done.append(now())
        raise RuntimeError("no")

    async def test(queue: WorkQueue) -> None:
        queue.add(key("a"), 0)
        await asyncio.sleep(500)
        count = len(done)
        for _ in range(200):
            queue.add(key("a"))
            await asyncio.sleep(0.1)
        assert 2 <= len(done) - count <= 7

    run(reconcile, test)


def test_one_slow_cluster_does_not_hold_up_the_others() -> None:
    done: list[str] = []

    async def reconcile(one: Key) -> None:
        if one.name == "slow":
            await asyncio.sleep(1000)
        done.append(one.name)

    async def test(queue: WorkQueue) -> None:
        queue.add(key("slow"))
        await asyncio.sleep(1)
        for name in "abc":
            queue.add(key(name))
        await asyncio.sleep(1)
        assert sorted(done) == ["a", "b", "c"]

    run(reconcile, test, workers=2, pass_timeout_seconds=2000)


def test_a_pass_that_never_ends_is_ended() -> None:
    heard: list[ReconcileResult] = []

    async def reconcile(_: Key) -> None:
        await asyncio.sleep(1e9)

    async def test(queue: WorkQueue) -> None:
        queue.add(key("a"))
        await asyncio.sleep(100)
        assert 99 < queue.oldest_seconds < 101
        await asyncio.sleep(150)
        assert isinstance(heard[0].error, TimeoutError)

    run(reconcile, test, pass_timeout_seconds=240, on_result=heard.append)


def test_what_waits_for_a_worker_is_counted() -> None:
    async def reconcile(_: Key) -> None:
        await asyncio.sleep(50)

    async def test(queue: WorkQueue) -> None:
        for name in "abc":
            queue.add(key(name), 0)
        await asyncio.sleep(10)
        assert (queue.in_progress, queue.depth) == (1, 2)
        assert 9 < queue.oldest_seconds < 11
        await asyncio.sleep(200)
        assert (queue.in_progress, queue.depth, queue.oldest_seconds) == (0, 0, 0)

    run(reconcile, test, workers=1)


def hostile(number: int) -> Key:
    return Key(kind=KeyKind.BROKER, namespace="evil", name=f"silent{number}")


@pytest.mark.parametrize("count", [8, 40, 100, 400])
def test_clusters_that_never_answer_starve_nobody_else(count: int) -> None:
    """A Broker at an address that takes connections and says nothing costs 15 s of each pass.

    Forty of them left a rolling restart of somebody else waiting for minutes, and with a hundred
    the liveness probe failed.
    """
    good: list[float] = []
    passes: Counter[Key] = Counter()
    at_once = 0

    async def reconcile(one: Key) -> float:
        nonlocal at_once
        passes[one] += 1
        if one.namespace == "evil":
            at_once += 1
            await asyncio.sleep(15)
            at_once -= 1
            return 15
        good.append(now())
        return 2

    async def test(queue: WorkQueue) -> None:
        for number in range(count):
            queue.add(hostile(number))
        queue.add(key("good", KeyKind.BROKER))
        for _ in range(3600):
            await asyncio.sleep(1)
            assert queue.stuck_seconds < 16
            assert at_once <= 4 + 4
        assert max(later - earlier for earlier, later in pairwise([0.0, *good])) < 6
        # They are looked after all the same, one after the other.
        assert all(passes[hostile(number)] >= 2 for number in range(count))

    run(reconcile, test)


def test_a_cluster_that_answers_again_has_a_worker_again() -> None:
    """What was slow once is not for ever behind others of its namespace that are silent."""
    silent = {"a", "b", "c"}
    done: list[tuple[str, float]] = []

    async def reconcile(one: Key) -> float:
        if one.name in silent:
            await asyncio.sleep(15)
        done.append((one.name, now()))
        return 2

    async def test(queue: WorkQueue) -> None:
        for name in silent:
            queue.add(key(name))
        await asyncio.sleep(100)
        silent.remove("a")
        await asyncio.sleep(40)
        done.clear()
        await asyncio.sleep(60)
        assert sum(name == "a" for name, _ in done) > 25

    run(reconcile, test, workers=2)


def test_workers_that_all_hang_are_told() -> None:
    """The liveness probe is for that: nothing that waits for a worker is taken any more."""
    is_over = False

    async def reconcile(_: Key) -> None:
        while not is_over:
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(1000)

    async def test(queue: WorkQueue) -> None:
        nonlocal is_over
        queue.add(key("a"))
        await asyncio.sleep(100)
        assert 99 < queue.stuck_seconds < 101
        await asyncio.sleep(300)
        assert queue.stuck_seconds > 300
        is_over = True

    run(reconcile, test, workers=1)


def test_the_wait_after_failures_is_bounded_however_many_there_were() -> None:
    assert BACKOFF.wait_ms(0) == 1_000
    assert BACKOFF.wait_ms(2) == 4_000
    assert BACKOFF.wait_ms(10_000, 0.999) < 72_001
