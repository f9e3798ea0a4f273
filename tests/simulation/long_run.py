"""A broker that runs for hours of virtual time, with a producer."""

from tests.simulation import requests
from tests.support.raw_client import RawClient
from tests.support.simulated_broker import Life, Machine

TOPIC = "orders"
HOUR_SECONDS = 3_600
HOUR_MS = HOUR_SECONDS * 1_000
SPAN_SECONDS = 600
SPAN_MS = SPAN_SECONDS * 1_000
PATIENT = {"connections.max.idle.ms": str(1000 * HOUR_MS)}


def run(machine: Machine, work: object) -> None:
    """One life to its end, in which nothing went wrong."""
    assert machine.live(work)  # type: ignore[arg-type]
    assert machine.errors == []


async def produced(life: Life, client: RawClient, value: bytes, **options: object) -> int:
    request = requests.append_request(
        TOPIC,
        0,
        [value],
        timestamp_ms=life.machine.clock.wall_ms(),
        **options,  # type: ignore[arg-type]
    )
    answer = await requests.append(client, request)
    assert answer.error_code == 0
    return answer.base_offset
