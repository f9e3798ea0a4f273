"""Holds requests back while the broker starts: connections are accepted, nothing is processed yet.

Source: BOOT-3 and BOOT-4 of the behaviour list: a listener on port 0 must be bound before the port
can be registered, and no request may be answered before the broker is registered. What waits here
is bounded by the request memory and by the exchanges a connection may have in flight.
"""

from collections.abc import Callable

from barnabas_broker.network.session import Exchange

Dispatch = Callable[[Exchange], None]


class Gate:
    """Passes exchanges on once it is open, in the order in which they came."""

    def __init__(self) -> None:
        self._dispatch: Dispatch | None = None
        self._waiting: list[Exchange] = []

    def __call__(self, exchange: Exchange) -> None:
        """Take a frame of a connection."""
        if self._dispatch is None:
            self._waiting.append(exchange)
        else:
            self._dispatch(exchange)

    def open(self, dispatch: Dispatch) -> None:
        """Let the requests through, those that wait first."""
        self._dispatch = dispatch
        waiting, self._waiting = self._waiting, []
        for exchange in waiting:
            if exchange.session.is_closed:
                continue
            try:
                dispatch(exchange)
            except Exception as error:
                exchange.session.close(f"{type(error).__name__}: {error}")
