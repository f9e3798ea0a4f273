"""Administrative calls through a failing network: each is answered, or its time is over."""

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from barnabas_client.admin import Admin
from barnabas_client.admin.values.topics import NewTopic
from barnabas_client.errors import AlreadyExistsError, NotFoundError, RetriableError
from tests.client.attack.behind_proxy import BehindProxy
from tests.client.attack.histories import SETTINGS
from tests.support.faulty_proxy import Fault
from tests.support.in_process_broker import eventually

Names = Callable[[str], str]
LONG = pytest.mark.interop
CALLERS = 6
FAULTS = (
    *[Fault.CLOSE, Fault.RESET] * 3,
    Fault.SILENCE,
    Fault.DELAY,
    Fault.REFUSE,
)


@pytest.mark.parametrize(
    ("seed", "calls"), [(1, 8), *[pytest.param(seed, 60, marks=LONG) for seed in range(2, 8)]]
)
def test_every_call_is_answered_or_runs_out_of_time(
    behind_proxy: BehindProxy, unique: Names, seed: int, calls: int
) -> None:
    """What was answered is so: a created topic is there, a deleted one is not."""

    async def attack() -> None:
        rng = random.Random(seed)
        present: set[str] = set()
        absent: set[str] = set()
        outcomes = {"answered": 0, "late": 0}

        async def one(admin: Admin, own: random.Random, mine: list[str]) -> None:
            timeout_ms = own.choice([200, 1000, 5000])
            name = unique("topic")
            topic = NewTopic(name=name, partition_count=1)
            choices: list[tuple[str, Coroutine[Any, Any, Any]]] = [
                ("list", admin.topics.list(timeout_ms=timeout_ms)),
                ("describe", admin.cluster.describe(timeout_ms=timeout_ms)),
                ("groups", admin.groups.list(timeout_ms=timeout_ms)),
                ("offsets", admin.group_offsets.list([name], timeout_ms=timeout_ms)),
                ("create", admin.topics.create([topic], timeout_ms=timeout_ms)),
            ]
            if mine:
                choices.append(("delete", admin.topics.delete([mine[0]], timeout_ms=timeout_ms)))
            action, call = choices.pop(own.randrange(len(choices)))
            for _, other in choices:
                other.close()
            try:
                async with asyncio.timeout(20):
                    answer = await call
                if action in ("create", "delete"):
                    answer.unwrap()
            except RetriableError:
                outcomes["late"] += 1
                if action == "delete":
                    present.discard(mine.pop(0))
                return
            except (AlreadyExistsError, NotFoundError):
                pass  # an earlier attempt of the same call was carried out
            outcomes["answered"] += 1
            if action == "create":
                mine.append(name)
                present.add(name)
            elif action == "delete":
                present.discard(mine[0])
                absent.add(mine.pop(0))

        async def caller(number: int, admin: Admin) -> None:
            own, mine = random.Random(f"{seed}.{number}"), list[str]()
            for _ in range(calls):
                await one(admin, own, mine)

        async with behind_proxy.proxy(rng, (Fault.NONE,), after_bytes_max=5000) as proxy:
            async with Admin(proxy.bootstrap, **SETTINGS) as admin:
                proxy.faults = FAULTS
                await proxy.cut()
                await asyncio.gather(*(caller(number, admin) for number in range(CALLERS)))
                await proxy.calm()
            async with Admin(proxy.bootstrap) as admin:

                async def is_as_answered() -> bool:
                    names = {topic.name for topic in await admin.topics.list()}
                    return present <= names and not absent & names

                await eventually(is_as_answered)
        assert outcomes["answered"], outcomes

    asyncio.run(attack())
