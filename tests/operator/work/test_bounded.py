"""A few at a time."""

import asyncio

import pytest

from barnabas_operator.work.bounded import for_each
from tests.support.virtual_loop import run_virtual


def test_all_are_done_and_never_more_than_a_few_at_once() -> None:
    running: set[int] = set()
    done: list[int] = []

    async def action(number: int) -> None:
        running.add(number)
        assert len(running) <= 3
        await asyncio.sleep(number % 5)
        running.discard(number)
        done.append(number)

    run_virtual(for_each(range(100), action, at_a_time=3))
    assert sorted(done) == list(range(100))


def test_what_one_raises_ends_the_others() -> None:
    async def action(number: int) -> None:
        await asyncio.sleep(number)
        if number == 2:
            raise ValueError("two")

    with pytest.raises(ValueError, match="two"):
        run_virtual(for_each(range(1000), action, at_a_time=3))
