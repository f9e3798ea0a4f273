"""The time of the loop that requests of clients take, against `request_percentage`.

Kafka counts the time of its handler threads; this broker has one loop. A percent is a hundredth of
it: what counts for a client is how long the loop was at its requests, step by step (reading,
handling, and making the response), and how long a thread worked for it. Not what is done once for
many connections at the end of a turn: writing the appends, sending. While nobody has such a quota
nothing is measured, as the dispatcher is called directly.

Steps may nest: an append may complete the fetch of somebody else, whose time is not the producer's.
Who is over the quota has its connection muted after the step, for a window at most; where several
connections are, one goes on after the other, so that a hundred get no more than one would, which is
stricter than Kafka is. Requests of brokers count apart, but
for what is a client's in an envelope (`ForwardedRequest`): its connection waits where it is.

Source: KIP-124, QUO-3 to QUO-5, QUO-8.
"""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable, Coroutine, Generator
from types import coroutine
from typing import Any, Final, TypeVar

from barnabas_broker.env.clock import Clock
from barnabas_broker.handlers.client_throttle import ClientThrottle
from barnabas_broker.handlers.forwarding import ForwardedRequest
from barnabas_broker.network.session import InFlightRequest
from barnabas_broker.quotas.rate_limit import RateLimit

THROTTLE_MS_MAX: Final = 1_000
"""One window: a client that took much once is not silenced for long (KIP-124)."""
NS_PER_PERCENT: Final = 10_000_000
"""Of a second."""

Result = TypeVar("Result")


class TimeLimit(RateLimit):
    """The time of a bucket, and when the last of its connections that are muted goes on."""

    __slots__ = ("_resumes_ms",)

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self._resumes_ms = 0

    def next_mute_ms(self) -> int:
        """For how long to mute one more connection; not beyond what keeps the rate."""
        throttle_ms = self.throttle_ms()
        if throttle_ms:
            now_ms = self._clock.monotonic_ms()
            waits_ms = max(self._resumes_ms - now_ms, 0)
            throttle_ms = min(throttle_ms, waits_ms + THROTTLE_MS_MAX)
            self._resumes_ms = now_ms + throttle_ms
        return throttle_ms


class RequestTime(ClientThrottle[TimeLimit]):
    """Who the loop works for, and what that adds up to."""

    __slots__ = (
        "_current",
        "_is_exempt",
        "_is_of_broker",
        "_now_ns",
        "_since_ns",
        "exempt_ns",
    )

    def __init__(self, clock: Clock, is_of_broker: Callable[[InFlightRequest], bool]) -> None:
        super().__init__(clock, TimeLimit)
        self._now_ns = clock.monotonic_ns
        self._is_of_broker = is_of_broker
        self._current: InFlightRequest | None = None
        self._since_ns = 0  # of the current step, what was counted already left out
        self._is_exempt = False
        self.exempt_ns = 0

    # Steps.

    def begin(self, in_flight: InFlightRequest) -> InFlightRequest | None:
        """Begin a step of a request; returns whose step it interrupts, for `end`."""
        outer = self._current
        if outer is not None:
            self._charge_step(outer)
        self._since_ns = self._now_ns()
        self._current = in_flight
        return outer

    def end(self, outer: InFlightRequest | None) -> None:
        """End the step, and mute the connection of who has taken too much."""
        in_flight = self._current
        assert in_flight is not None
        self._charge_step(in_flight)
        self._current = outer
        if not isinstance(in_flight, ForwardedRequest):
            self._mute(in_flight)

    def is_at(self, in_flight: InFlightRequest) -> bool:
        """Whether a step of this request runs."""
        return self._current is in_flight

    def exempt(self) -> None:
        """Do not count the step that runs (QUO-5)."""
        self._is_exempt = self._current is not None

    def dispatching(
        self, dispatch: Callable[[InFlightRequest], None]
    ) -> Callable[[InFlightRequest], None]:
        """The same dispatcher, each call a step."""

        def timed(in_flight: InFlightRequest) -> None:
            outer = self.begin(in_flight)
            try:
                dispatch(in_flight)
            finally:
                self.end(outer)

        return timed

    async def timed(self, in_flight: InFlightRequest, work: Coroutine[Any, Any, Result]) -> Result:
        """The same coroutine, a step each time that it runs."""
        return await _in_steps(self, in_flight, work)

    async def in_thread(self, in_flight: InFlightRequest, work: Awaitable[Result]) -> Result:
        """The result of work that a thread does; all its time counts."""
        since_ns = self._now_ns()
        try:
            return await work
        finally:
            self._charge(in_flight, self._now_ns() - since_ns)

    # What it comes to.

    def throttle_ms(self, in_flight: InFlightRequest) -> int:
        """How long a response says that its client is to wait, the step that runs included."""
        if isinstance(in_flight, ForwardedRequest):
            return self._next_mute_ms(in_flight)
        if self._current is in_flight:
            self._charge_step(in_flight)
            self._mute(in_flight)
        return in_flight.session.muted_ms

    def stamped(self, in_flight: InFlightRequest, response: Any) -> Any:
        """The response with the time to wait, where that is longer than what it says already."""
        throttle_ms = self.throttle_ms(in_flight)
        if throttle_ms <= getattr(response, "throttle_time_ms", throttle_ms):
            return response
        response = copy.copy(response)  # it may be somebody else's, too
        response.throttle_time_ms = throttle_ms
        return response

    def _mute(self, in_flight: InFlightRequest) -> None:
        """Mute a connection that is not muted yet: a request of many steps waits once."""
        session = in_flight.session
        if not session.muted_ms:
            session.mute(self._next_mute_ms(in_flight))

    def _next_mute_ms(self, in_flight: InFlightRequest) -> int:
        limit = None if self._is_of_broker(in_flight) else self._time_of(in_flight)
        return 0 if limit is None else self.counted(limit.next_mute_ms())

    def _charge_step(self, in_flight: InFlightRequest) -> None:
        now_ns = self._now_ns()
        elapsed_ns, self._since_ns = now_ns - self._since_ns, now_ns
        if self._is_exempt:
            self._is_exempt = False
            self.exempt_ns += elapsed_ns
        else:
            self._charge(in_flight, elapsed_ns)

    def _charge(self, in_flight: InFlightRequest, elapsed_ns: int) -> None:
        if self._is_of_broker(in_flight):
            self.exempt_ns += elapsed_ns
            return
        limit = self._time_of(in_flight)
        if limit is not None:
            limit.record(elapsed_ns)

    def _time_of(self, in_flight: InFlightRequest) -> TimeLimit | None:
        limit = self.limit_of(in_flight)
        if limit is not None:
            limit.rate *= NS_PER_PERCENT
        return limit


@coroutine
def _in_steps(
    time: RequestTime, in_flight: InFlightRequest, work: Coroutine[Any, Any, Result]
) -> Generator[Any, Any, Result]:
    """Run a coroutine as `await` does, and count how long it runs each time."""
    error: BaseException | None = None
    while True:
        outer = time.begin(in_flight)
        try:
            awaited = work.send(None) if error is None else work.throw(error)
        except StopIteration as ended:
            result: Result = ended.value
            return result
        finally:
            time.end(outer)
        error = None
        try:
            yield awaited
        except GeneratorExit:
            work.close()
            raise
        except BaseException as thrown:
            error = thrown
