"""Holds requests back while the broker starts: connections are accepted, nothing is processed yet.

In two steps: the requests by which brokers form a cluster pass as soon as this node can take part
in it, those of clients when it is registered, caught up and unfenced.

Source: BOOT-3 and BOOT-4: a listener on port 0 must be bound before the port
can be registered, and no request may be served before the broker is registered. What waits here
is bounded by the request memory and by the in_flight_requests a connection may have in flight.
"""

import struct
from collections.abc import Callable

from barnabas_broker.handlers.table import CONTROL
from barnabas_broker.network.session import InFlightRequest

Dispatch = Callable[[InFlightRequest], None]

_KEY = struct.Struct(">h")


class RequestGate:
    """Passes requests on once it is open, in the order in which they came."""

    def __init__(self) -> None:
        self._dispatch: Dispatch | None = None
        self._dispatch_control: Dispatch | None = None
        self._waiting: list[InFlightRequest] = []

    def __call__(self, in_flight: InFlightRequest) -> None:
        """Take a frame of a connection."""
        if self._dispatch is not None:
            self._dispatch(in_flight)
        elif self._dispatch_control is not None and _is_control(in_flight):
            self._dispatch_control(in_flight)
        else:
            self._waiting.append(in_flight)

    def open_control(self, dispatch: Dispatch) -> None:
        """Let the requests through by which brokers form a cluster, those that wait first."""
        self._dispatch_control = dispatch
        waiting, self._waiting = self._waiting, []
        for in_flight in waiting:
            if _is_control(in_flight):
                _hand_over(in_flight, dispatch)
            else:
                self._waiting.append(in_flight)

    def open(self, dispatch: Dispatch) -> None:
        """Let all requests through, those that wait first."""
        self._dispatch = dispatch
        waiting, self._waiting = self._waiting, []
        for in_flight in waiting:
            _hand_over(in_flight, dispatch)


def _is_control(in_flight: InFlightRequest) -> bool:
    frame = in_flight.frame
    return len(frame) >= _KEY.size and _KEY.unpack_from(frame)[0] in CONTROL


def _hand_over(in_flight: InFlightRequest, dispatch: Dispatch) -> None:
    if in_flight.session.is_closed:
        return
    try:
        dispatch(in_flight)
    except Exception as error:
        in_flight.session.close(f"{type(error).__name__}: {error}")
