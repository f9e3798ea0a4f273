"""Plans and undo files are bounded, and nobody loses his by what others do (CON-120, CON-172)."""

import asyncio
from collections.abc import AsyncIterator
from typing import cast

import pytest

from barnabas_client.admin.admin import Admin
from barnabas_console.plans.change import ChangeRequestError, Draft, ItemResult, Row, Undo
from barnabas_console.plans.plans import (
    OWN_PLANS_MAX,
    OWN_UNDO_FILES_MAX,
    PLAN_MS,
    PLAN_ROWS_MAX,
    ROWS_MAX,
    Plan,
    PlanGoneError,
    Plans,
)
from tests.support.simulated_clock import SimulatedClock

ADMIN = cast(Admin, None)
UNDO = Undo(file_name="undo.csv", text="", command="", request={})


class Nothing:
    """A change that does nothing."""

    async def draft(self, admin: Admin) -> Draft:
        raise NotImplementedError

    async def check(self, admin: Admin, draft: Draft) -> None:
        """Nothing moves."""

    async def carry_out(self, admin: Admin, draft: Draft) -> AsyncIterator[ItemResult]:
        for row in draft.rows:
            yield ItemResult(item=row.item)


async def kept(plans: Plans, holder: str, row_count: int = 1) -> Plan:
    rows = (Row(item="a", old=1, new=2),) * row_count
    draft = Draft(title="t", rows=rows, observed=None, undo=UNDO)
    return await plans.keep(Nothing(), draft, holder)


async def is_there(plans: Plans, plan: Plan) -> bool:
    try:
        await plans.take(plan.id, ADMIN, plan.holder, told_hash=plan.hash, typed="")
    except PlanGoneError:
        return False
    return True


def test_many_plans_of_one_drive_out_only_his_own() -> None:
    async def run() -> None:
        plans = Plans(SimulatedClock())
        other = await kept(plans, "bob")
        own = [await kept(plans, "eve") for _ in range(1_000)]
        assert await is_there(plans, other)
        left = [plan for plan in own if await is_there(plans, plan)]
        assert left == own[-OWN_PLANS_MAX:]

    asyncio.run(run())


def test_large_plans_make_room_for_one_another_and_the_largest_is_refused() -> None:
    async def run() -> None:
        plans = Plans(SimulatedClock())
        other = await kept(plans, "bob")
        with pytest.raises(ChangeRequestError, match="at most"):
            await kept(plans, "eve", PLAN_ROWS_MAX + 1)
        own = [
            await kept(plans, "eve", PLAN_ROWS_MAX) for _ in range(ROWS_MAX // PLAN_ROWS_MAX + 2)
        ]
        assert await is_there(plans, other)
        left = [plan for plan in own if await is_there(plans, plan)]
        assert sum(len(plan.draft.rows) for plan in left) <= ROWS_MAX
        assert left and left[-1] is own[-1]

    asyncio.run(run())


def test_a_plan_that_is_over_takes_nobodys_room() -> None:
    async def run() -> None:
        clock = SimulatedClock()
        plans = Plans(clock)
        for number in range(ROWS_MAX // PLAN_ROWS_MAX):
            await kept(plans, f"user {number}", PLAN_ROWS_MAX)
        clock.advance(PLAN_MS)
        fresh = [await kept(plans, name, PLAN_ROWS_MAX) for name in ("eve", "bob")]
        assert all([await is_there(plans, plan) for plan in fresh])

    asyncio.run(run())


def test_many_undo_files_of_one_drive_out_only_his_own() -> None:
    async def run() -> None:
        plans = Plans(SimulatedClock())
        for holder, count in (("bob", 1), ("eve", 50)):
            for _ in range(count):
                async for _ in plans.carry_out(await kept(plans, holder), ADMIN):
                    pass
        assert len(plans.undo_files("bob")) == 1
        assert len(plans.undo_files("eve")) == OWN_UNDO_FILES_MAX

    asyncio.run(run())


def test_large_plan_is_written_out_beside_the_loop() -> None:
    """CON-174: 20,000 rows take a tenth of a second, and pages go on meanwhile."""

    async def run() -> None:
        plans = Plans(SimulatedClock())
        work = asyncio.ensure_future(kept(plans, "eve", PLAN_ROWS_MAX))
        turns = 0
        while not work.done():
            turns += 1
            await asyncio.sleep(0)
        assert turns > 2
        plan = await work
        small = await kept(plans, "eve")
        assert plan.change_count == PLAN_ROWS_MAX
        assert plan.hash != small.hash

    asyncio.run(run())
