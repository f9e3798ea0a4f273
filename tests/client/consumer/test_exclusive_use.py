"""One task at a time."""

import asyncio

import pytest

from barnabas_client.consumer.exclusive_use import ExclusiveUse
from barnabas_client.errors import IllegalStateError


def test_a_second_task_is_told_at_once_and_the_first_may_call_again() -> None:
    """CON-1: an ownership check, not a lock; a rebalance listener calls from within a poll."""

    async def run() -> None:
        use = ExclusiveUse()
        with use, use:
            use.check()

            async def other() -> None:
                assert use.is_taken_by_other
                with pytest.raises(IllegalStateError, match="in use by the task 'first'"):
                    use.check()
                with pytest.raises(IllegalStateError), use:
                    pass

            task = asyncio.current_task()
            assert task is not None
            task.set_name("first")
            await asyncio.create_task(other())
            waiting = asyncio.create_task(use.wait_until_free())
            await asyncio.sleep(0)
            assert not waiting.done()
        await waiting
        use.check()

    asyncio.run(run())


def test_it_is_free_again_after_an_error() -> None:
    """CON-1: also a cancelled poll gives the consumer back."""

    async def run() -> None:
        use = ExclusiveUse()
        with pytest.raises(ZeroDivisionError), use:
            raise ZeroDivisionError

        async def other() -> None:
            use.check()

        await asyncio.create_task(other())

    asyncio.run(run())


def test_without_a_loop_the_check_passes() -> None:
    """Before the start a program may subscribe and assign outside of any task."""
    ExclusiveUse().check()
