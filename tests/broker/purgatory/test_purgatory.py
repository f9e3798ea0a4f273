"""Operations that wait, on virtual time."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from barnabas_broker.purgatory.purgatory import DelayedOperation, Purgatory
from barnabas_broker.purgatory.timer import Timer
from tests.support.virtual_loop import VirtualClock, run_virtual


class Operation(DelayedOperation):
    """Completes once its test allows it, and writes down what happens to it."""

    def __init__(self, timeout_ms: int = 1_000, *, forces: bool = True) -> None:
        super().__init__(timeout_ms)
        self.may_complete = False
        self.forces = forces
        self.seen: list[str] = []
        self.on_try: Callable[[], None] | None = None

    def try_complete(self) -> bool:
        self.seen.append("try")
        if self.on_try is not None:
            self.on_try()
        return self.may_complete and (not self.forces or self.force_complete())

    def on_complete(self) -> None:
        self.seen.append("complete")

    def on_expire(self) -> None:
        self.seen.append("expire")


def on_loop(work: Callable[[Purgatory, Timer], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        loop = asyncio.get_running_loop()
        timer = Timer(loop, VirtualClock(loop))
        purgatory = Purgatory("test", timer)
        await work(purgatory, timer)
        assert purgatory.pending_count == 0
        assert purgatory.watched_count == 0
        assert purgatory.key_count == 0
        assert timer.pending_count == 0

    run_virtual(run())


@pytest.mark.parametrize("forces", [True, False])
def test_what_can_complete_at_once_never_waits(forces: bool) -> None:
    """PUR-2: and needs no timer; whether the operation or the purgatory completes it."""

    async def work(purgatory: Purgatory, timer: Timer) -> None:
        operation = Operation(forces=forces)
        operation.may_complete = True
        assert purgatory.try_complete_else_watch(operation, ["a"])
        assert operation.seen == ["try", "complete"]

    on_loop(work)


@pytest.mark.parametrize("forces", [True, False])
def test_an_event_on_any_key_completes_it_once(forces: bool) -> None:
    """PUR-1, PUR-3."""

    async def work(purgatory: Purgatory, timer: Timer) -> None:
        operation = Operation(forces=forces)
        assert not purgatory.try_complete_else_watch(operation, ["a", "b", "a"])
        assert (purgatory.watched_count, purgatory.pending_count) == (2, 1)
        assert purgatory.check_and_complete("b") == 0
        operation.may_complete = True
        assert purgatory.check_and_complete("c") == 0
        assert purgatory.check_and_complete("b") == 1
        assert purgatory.check_and_complete("a") == 0
        await asyncio.sleep(10)
        assert operation.seen == ["try", "try", "try", "try", "complete"]
        assert purgatory.completed_count == 1

    on_loop(work)


def test_an_event_between_trying_and_watching_is_not_lost() -> None:
    """PUR-2: tried again after it watches; completed then, it gets no timer."""

    async def work(purgatory: Purgatory, timer: Timer) -> None:
        operation = Operation()

        def happen() -> None:
            operation.may_complete = len(operation.seen) == 2

        operation.on_try = happen
        assert purgatory.try_complete_else_watch(operation, ["a"])
        assert operation.seen == ["try", "try", "complete"]

    on_loop(work)


def test_what_was_just_tried_waits_without_another_try() -> None:
    """PUR-2: its maker has looked; an event on a key, named twice or not, completes it once."""

    async def work(purgatory: Purgatory, timer: Timer) -> None:
        operation = Operation()
        purgatory.watch(operation, ["a", "b", "a"])
        assert operation.seen == []
        assert purgatory.watched_count == 2
        operation.may_complete = True
        assert purgatory.check_and_complete("b") == 1
        late = Operation(timeout_ms=50)
        purgatory.watch(late, ["a"])
        await asyncio.sleep(0.2)
        assert operation.seen == ["try", "complete"]
        assert late.seen == ["expire", "complete"]

    on_loop(work)


def test_time_out_expires_and_completes_once() -> None:
    """PUR-1: expiry prepares, completion answers."""

    async def work(purgatory: Purgatory, timer: Timer) -> None:
        operation = Operation(500)
        purgatory.try_complete_else_watch(operation, ["a"])
        await asyncio.sleep(0.499)
        assert operation.seen == ["try", "try"]
        await asyncio.sleep(0.005)
        assert operation.seen == ["try", "try", "expire", "complete"]
        assert not operation.force_complete()
        assert purgatory.expired_count == 1
        assert purgatory.completed_count == 0

    on_loop(work)


def test_the_maker_may_complete_or_cancel_it() -> None:
    """PUR-1, PUR-4: it leaves every list at once."""

    async def work(purgatory: Purgatory, timer: Timer) -> None:
        first, second = Operation(), Operation()
        purgatory.try_complete_else_watch(first, ["a", "b"])
        purgatory.try_complete_else_watch(second, ["a"])
        assert first.force_complete()
        second.cancel()
        second.cancel()
        assert purgatory.pending_count == 0
        assert not second.force_complete()
        assert first.seen[-1] == "complete"
        assert "complete" not in second.seen

    on_loop(work)


def test_completion_may_complete_others_on_the_same_key() -> None:
    """PUR-3: what completes in a chain is neither tried again nor counted twice."""

    async def work(purgatory: Purgatory, timer: Timer) -> None:
        second = Operation()

        class First(Operation):
            def on_complete(self) -> None:
                super().on_complete()
                second.may_complete = True
                assert purgatory.check_and_complete("a") == 1

        first = First()
        purgatory.try_complete_else_watch(first, ["a"])
        purgatory.try_complete_else_watch(second, ["a"])
        first.may_complete = True
        assert purgatory.check_and_complete("a") == 1
        assert second.seen.count("complete") == 1
        assert first.seen.count("complete") == 1

    on_loop(work)


def test_operations_are_tried_in_the_order_they_came() -> None:
    async def work(purgatory: Purgatory, timer: Timer) -> None:
        order: list[int] = []
        operations = [Operation() for _ in range(5)]
        for number, operation in enumerate(operations):
            purgatory.try_complete_else_watch(operation, ["a"])
            operation.on_try = lambda number=number: order.append(number)  # type: ignore[misc]
        purgatory.check_and_complete("a")
        assert order == [0, 1, 2, 3, 4]
        purgatory.close()

    on_loop(work)


def test_a_failing_operation_keeps_nobody_waiting(caplog: pytest.LogCaptureFixture) -> None:
    async def work(purgatory: Purgatory, timer: Timer) -> None:
        class Broken(Operation):
            def on_complete(self) -> None:
                raise ValueError("broken")

        broken, sound = Broken(), Operation()
        for operation in (broken, sound):
            purgatory.try_complete_else_watch(operation, ["a"])
            operation.may_complete = True
        assert purgatory.check_and_complete("a") == 1
        assert purgatory.failed_count == 1
        assert sound.seen[-1] == "complete"
        late = Broken(5)
        purgatory.try_complete_else_watch(late, ["b"])
        await asyncio.sleep(1)
        assert purgatory.failed_count == 2

    on_loop(work)
    assert "an operation of purgatory test failed" in caplog.text


def test_a_failure_while_it_begins_to_watch_leaves_nothing_behind() -> None:
    async def work(purgatory: Purgatory, timer: Timer) -> None:
        operation = Operation()

        def fail() -> None:
            if len(operation.seen) == 2:
                raise ValueError("broken")

        operation.on_try = fail
        with pytest.raises(ValueError, match="broken"):
            purgatory.try_complete_else_watch(operation, ["a"])

    on_loop(work)


def test_closing_completes_what_waits() -> None:
    """PUR-5."""

    async def work(purgatory: Purgatory, timer: Timer) -> None:
        operations = [Operation() for _ in range(3)]
        for operation in operations:
            purgatory.try_complete_else_watch(operation, ["a", "b"])
        purgatory.close()
        assert all(operation.seen[-2:] == ["expire", "complete"] for operation in operations)

    on_loop(work)


def test_samples_tell_what_waits() -> None:
    """MET-5."""

    async def work(purgatory: Purgatory, timer: Timer) -> None:
        operation = Operation()
        purgatory.try_complete_else_watch(operation, ["a", "b"])
        values = {sample.name: sample.value for sample in purgatory.samples()}
        assert values["barnabas_purgatory_watched"] == 2
        assert values["barnabas_purgatory_pending"] == 1
        operation.cancel()

    on_loop(work)
