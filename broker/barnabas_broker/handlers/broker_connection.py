"""The connection of a broker to the controller, and what happens when it ends (REG-5)."""

from __future__ import annotations

from dataclasses import dataclass
from types import TracebackType

from barnabas_broker.controller.controller import Controller
from barnabas_broker.network.session import Session


@dataclass(frozen=True, slots=True)
class BrokerConnection:
    """Tells the controller when the connection has ended; two of one connection are equal.

    As a context: while a request that came by it is handled.
    """

    controller: Controller
    node_id: int
    session: Session

    def __call__(self) -> None:
        """The connection has ended: find out whether the broker has, too."""
        self.controller.connection_ended(self.node_id, self)

    def __enter__(self) -> BrokerConnection:
        """Begin to listen for the end, once for each connection."""
        self.session.on_closed(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Tell of an end that came while the request was handled."""
        if self.session.is_closed:
            self()
