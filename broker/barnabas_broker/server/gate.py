"""Holds requests back while the broker starts: connections are accepted, nothing is processed yet.

In two steps: the requests by which brokers form a cluster pass as soon as this node can take part
in it, those of clients when it is registered, caught up and unfenced.

Source: BOOT-3 and BOOT-4 of the behaviour list: a listener on port 0 must be bound before the port
can be registered, and no request may be answered before the broker is registered. What waits here
is bounded by the request memory and by the exchanges a connection may have in flight.
"""

import struct
from collections.abc import Callable

from barnabas_broker.handlers.table import CONTROL
from barnabas_broker.network.session import Exchange

Dispatch = Callable[[Exchange], None]

_KEY = struct.Struct(">h")


class Gate:
    """Passes exchanges on once it is open, in the order in which they came."""

    def __init__(self) -> None:
        self._dispatch: Dispatch | None = None
        self._dispatch_control: Dispatch | None = None
        self._waiting: list[Exchange] = []

    def __call__(self, exchange: Exchange) -> None:
        """Take a frame of a connection."""
        if self._dispatch is not None:
            self._dispatch(exchange)
        elif self._dispatch_control is not None and _is_control(exchange):
            self._dispatch_control(exchange)
        else:
            self._waiting.append(exchange)

    def open_control(self, dispatch: Dispatch) -> None:
        """Let the requests through by which brokers form a cluster, those that wait first."""
        self._dispatch_control = dispatch
        waiting, self._waiting = self._waiting, []
        for exchange in waiting:
            if _is_control(exchange):
                _hand_over(exchange, dispatch)
            else:
                self._waiting.append(exchange)

    def open(self, dispatch: Dispatch) -> None:
        """Let all requests through, those that wait first."""
        self._dispatch = dispatch
        waiting, self._waiting = self._waiting, []
        for exchange in waiting:
            _hand_over(exchange, dispatch)


def _is_control(exchange: Exchange) -> bool:
    frame = exchange.frame
    return len(frame) >= _KEY.size and _KEY.unpack_from(frame)[0] in CONTROL


def _hand_over(exchange: Exchange, dispatch: Dispatch) -> None:
    if exchange.session.is_closed:
        return
    try:
        dispatch(exchange)
    except Exception as error:
        exchange.session.close(f"{type(error).__name__}: {error}")
