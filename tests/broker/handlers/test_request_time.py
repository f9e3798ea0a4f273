"""The time of requests: what is counted for whom, step by step, and who has to wait."""

import asyncio
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest

from barnabas_broker.handlers.forwarding import ForwardedRequest, is_by_broker
from barnabas_broker.handlers.request_time import RequestTime
from barnabas_broker.network.session import InFlightRequest
from barnabas_broker.quotas.rate_limit import RateLimit
from barnabas_broker.security.broker_identity import BrokerIdentity
from barnabas_broker.security.principal import ANONYMOUS, Principal
from tests.support.simulated_clock import SimulatedClock

BROKERS = "REPLICATION"


class Session:
    """A session that remembers for how long it was muted."""

    def __init__(self, listener_name: str = "PLAINTEXT") -> None:
        self.principal = ANONYMOUS
        self.listener_name = listener_name
        self.muted: list[int] = []

    def mute(self, mute_ms: int) -> None:
        if mute_ms:
            self.muted.append(mute_ms)

    @property
    def muted_ms(self) -> int:
        return self.muted[-1] if self.muted else 0


def request_of(
    client_id: str,
    session: Session | None = None,
    kind: Callable[..., InFlightRequest] = InFlightRequest,
) -> InFlightRequest:
    made = kind(cast(Any, session or Session()), memoryview(b""), 0)
    made.client_id = client_id
    return made


def muted(in_flight: InFlightRequest) -> list[int]:
    return cast(Session, in_flight.session).muted


class Measured:
    """A request time with quotas of client ids, on a clock that a test moves."""

    def __init__(self, **percent: float) -> None:
        self.clock = SimulatedClock(monotonic_ms=1_000_000)
        self.time = RequestTime(self.clock, partial(is_by_broker, BrokerIdentity(BROKERS)))
        for client_id, rate in percent.items():
            self.time.buckets.update((None, client_id), rate)

    def spent_ms(self, client_id: str) -> float:
        limit = self.time.limit_of(request_of(client_id))
        assert isinstance(limit, RateLimit)
        return limit.observed_rate * 10 / 1e6  # the window is of ten seconds

    def work(self, duration_ms: float) -> Any:
        return lambda _: self.clock.advance(duration_ms)


def test_a_dispatched_request_counts_for_its_client() -> None:
    """QUO-3: one percent is a hundredth of the loop: 100 ms in the ten seconds of the window."""
    made = Measured(a=1)
    dispatch = made.time.dispatching(made.work(60))
    first, second = request_of("a"), request_of("a")
    dispatch(first)
    assert muted(first) == []
    dispatch(second)
    dispatch(second)  # as if it came in steps
    assert made.spent_ms("a") == pytest.approx(180)
    assert muted(second) == [1_000]  # the excess is eight seconds: at most one window
    made.clock.advance(10_900)
    third = request_of("a")
    made.time.dispatching(made.work(0))(third)
    assert muted(third) == []


def test_many_connections_over_the_quota_go_on_one_after_the_other() -> None:
    """QUO-3: a window at most for one; else a hundred connections would have a hundred windows."""
    made = Measured(a=1)
    made.time.dispatching(made.work(500))(request_of("b"))
    requests = [request_of("a") for _ in range(40)]
    made.time.dispatching(made.work(150))(requests[0])
    for in_flight in requests[1:]:
        made.time.dispatching(made.work(0))(in_flight)
    waits = [muted(in_flight)[0] for in_flight in requests]
    # Five seconds keep the rate: nobody waits for longer.
    assert waits == [1_000, 2_000, 3_000, 4_000] + [5_000] * 36
    made.clock.advance(4_500)
    later = request_of("a")
    made.time.dispatching(made.work(0))(later)
    assert muted(later) == [1_500]


def test_who_has_no_quota_is_not_muted() -> None:
    """QUO-2."""
    made = Measured(a=1)
    other = request_of("b")
    made.time.dispatching(made.work(10_000))(other)
    assert (muted(other), made.time.throttle_ms(other)) == ([], 0)


def test_a_failure_counts_as_well() -> None:
    """QUO-3: malformed requests are no way around a quota."""
    made = Measured(a=1)

    def fail(_: InFlightRequest) -> None:
        made.clock.advance(150)
        raise ValueError

    with pytest.raises(ValueError):
        made.time.dispatching(fail)(request_of("a"))
    assert made.spent_ms("a") == pytest.approx(150)


def test_a_coroutine_counts_while_it_runs_and_not_while_it_waits() -> None:
    """QUO-3: what awaits, returns and raises is what it would be without the measuring."""
    made = Measured(a=100)

    async def work() -> str:
        made.clock.advance(5)
        await asyncio.sleep(0)
        made.clock.advance(7)
        with pytest.raises(KeyError):
            await later
        made.clock.advance(1)
        return "done"

    async def test() -> None:
        nonlocal later
        later = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(made.time.timed(request_of("a"), work()))
        for _ in range(3):
            await asyncio.sleep(0)
        made.clock.advance(5_000)
        later.set_exception(KeyError())
        assert await task == "done"

    later: asyncio.Future[None]
    asyncio.run(test())
    assert made.spent_ms("a") == pytest.approx(13)


def test_a_coroutine_that_is_cancelled_or_closed_ends_as_ever() -> None:
    """STOP-9: its cleaning up runs, and counts."""
    made = Measured(a=100)
    ended = []

    async def work() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            made.clock.advance(2)
            ended.append(True)

    async def test() -> None:
        task = asyncio.create_task(made.time.timed(request_of("a"), work()))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(test())
    assert ended == [True]
    assert made.spent_ms("a") == pytest.approx(2)


def test_a_step_within_another_s_counts_for_its_own_client() -> None:
    """QUO-3: an append that completes a fetch is not charged with the fetch."""
    made = Measured(a=100, b=100)

    def outer(_: InFlightRequest) -> None:
        made.clock.advance(1)
        made.time.dispatching(made.work(10))(request_of("b"))
        made.clock.advance(2)

    made.time.dispatching(outer)(request_of("a"))
    assert (made.spent_ms("a"), made.spent_ms("b")) == (pytest.approx(3), pytest.approx(10))


def test_brokers_are_exempt_and_counted_apart() -> None:
    """QUO-5: but a client's request in an envelope is the client's; its connection is elsewhere."""
    made = Measured(a=1)
    of_broker = request_of("a", Session(BROKERS))
    made.time.dispatching(made.work(5_000))(of_broker)
    assert (muted(of_broker), made.time.exempt_ns) == ([], 5_000_000_000)
    sent_on = request_of(
        "a", Session(BROKERS), partial(ForwardedRequest, principal=ANONYMOUS, host="10.0.0.7")
    )

    async def handled() -> Any:
        made.clock.advance(150)
        return SimpleNamespace(throttle_time_ms=0)

    response = asyncio.run(made.time.timed(sent_on, handled()))
    assert muted(sent_on) == []
    assert made.spent_ms("a") == pytest.approx(150)
    assert made.time.stamped(sent_on, response).throttle_time_ms == 1_000


def test_a_broker_is_one_by_its_principal_too() -> None:
    """SEC-50, SEC-60: who only reaches the brokers' listener counts like everybody else."""
    made = Measured(a=1)
    made.time = RequestTime(
        made.clock,
        partial(is_by_broker, BrokerIdentity.of(BROKERS, "User:broker-{id}", is_secured=True)),
    )
    made.time.buckets.update(("alice", None), 1)
    broker, other = Session(BROKERS), Session(BROKERS)
    broker.principal, other.principal = Principal("User", "broker-1"), Principal("User", "alice")
    made.time.dispatching(made.work(150))(request_of("a", broker))
    assert broker.muted == []
    made.time.dispatching(made.work(150))(request_of("a", other))
    assert other.muted == [1_000]


def test_an_exempt_step_counts_apart_and_the_next_does_not() -> None:
    """QUO-5: acks=0."""
    made = Measured(a=1)

    def exempt(_: InFlightRequest) -> None:
        made.clock.advance(500)
        made.time.exempt()

    made.time.exempt()  # outside of a step: nothing to exempt
    in_flight = request_of("a")
    made.time.dispatching(exempt)(in_flight)
    assert (muted(in_flight), made.time.exempt_ns) == ([], 500_000_000)
    made.time.dispatching(made.work(150))(in_flight)
    assert made.spent_ms("a") == pytest.approx(150)


def test_a_thread_counts_as_long_as_it_works() -> None:
    """QUO-3: large requests are read in threads."""
    made = Measured(a=1)

    async def work() -> int:
        made.clock.advance(40)
        return 7

    assert asyncio.run(made.time.in_thread(request_of("a"), work())) == 7
    assert made.spent_ms("a") == pytest.approx(40)


def test_a_response_says_the_longer_time_and_a_shared_one_is_not_touched() -> None:
    """QUO-3: the larger of all throttles applies."""
    made = Measured(a=1)
    in_flight = request_of("a")
    made.time.dispatching(made.work(105))(in_flight)
    shared = SimpleNamespace(throttle_time_ms=0)
    assert made.time.stamped(in_flight, shared).throttle_time_ms == 500
    assert shared.throttle_time_ms == 0
    longer = SimpleNamespace(throttle_time_ms=700)
    assert made.time.stamped(in_flight, longer) is longer
    without = SimpleNamespace(error_code=0)
    assert made.time.stamped(in_flight, without) is without


@pytest.mark.parametrize("percent", [1e-320, 5e-324, 1e308])
def test_no_percentage_makes_the_arithmetic_fail(percent: float) -> None:
    """QUO-3: hostile values are values."""
    made = Measured(a=percent)
    in_flight = request_of("a")
    made.time.dispatching(made.work(1))(in_flight)
    assert muted(in_flight) == ([] if percent > 1 else [1_000])
