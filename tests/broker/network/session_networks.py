"""The networks that a claim about sessions is tried on: simulated ones and real sockets."""

import asyncio
import sys
from collections.abc import Awaitable, Callable

import uvloop

from barnabas_broker.env.clock import SystemClock
from barnabas_broker.env.network import RealNetwork
from tests.support.session_bench import Bench
from tests.support.simulated_network import SimulatedNetwork
from tests.support.virtual_loop import run_virtual

Work = Callable[[Bench], Awaitable[None]]


# CVE-2024-12254: their asyncio buffers what is written without ever pausing the writer. The broker
# itself runs on uvloop.
NEVER_PAUSES_WRITERS = (3, 12) <= sys.version_info < (3, 12, 9) or (
    (3, 13) <= sys.version_info < (3, 13, 2)
)


def on_every_network(
    work: Work, *, piece_bytes: int = 5, pauses_writers: bool = False, **options: int
) -> None:
    """Run the same claim in memory, in small pieces, and on sockets with both loops."""

    async def simulated(piece_bytes_max: int) -> None:
        async with Bench(SimulatedNetwork(piece_bytes_max), **options) as bench:
            await work(bench)

    async def real() -> None:
        async with Bench(RealNetwork(), SystemClock(), **options) as bench:
            await work(bench)

    run_virtual(simulated(1 << 30))
    run_virtual(simulated(piece_bytes))
    if not (pauses_writers and NEVER_PAUSES_WRITERS):
        asyncio.run(real())
    uvloop.run(real())


def on_virtual_time(work: Work, **options: int) -> None:
    async def run() -> None:
        async with Bench(**options) as bench:
            await work(bench)

    run_virtual(run())
