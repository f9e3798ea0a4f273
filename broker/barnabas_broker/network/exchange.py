"""One request on a connection and the place of its answer in the order of the connection.

Whoever handles the request may answer at once, later, or (acks=0) with nothing; the session sends
answers in the order of the requests. Not a parsed request: the fields below the frame are free for
the dispatcher's use.

Invariant: an exchange is answered once. An answer on a closed connection is dropped silently,
because operations that were parked learn of the closing only afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from barnabas_broker.env.disk import Buffer

if TYPE_CHECKING:
    from barnabas_broker.network.session import Session


class Exchange:
    """A frame that was handed to the dispatcher, and what has become of it."""

    __slots__ = (
        "api_key",
        "api_version",
        "client_id",
        "correlation_id",
        "frame",
        "inner_key",
        "is_done",
        "on_abandoned",
        "parts",
        "received_ns",
        "session",
    )

    def __init__(self, session: Session, frame: memoryview, received_ns: int) -> None:
        self.session = session
        self.frame = frame
        self.received_ns = received_ns
        self.is_done = False
        self.parts: Sequence[Buffer] | None = None  # an answer that waits for earlier ones
        self.on_abandoned: Callable[[], None] | None = None
        self.api_key = -1
        self.api_version = -1
        self.inner_key = -1  # of the request in an envelope
        self.correlation_id = 0
        self.client_id: str | None = None

    def reply(self, parts: Sequence[Buffer]) -> None:
        """Answer with the concatenation of the parts, without size prefix.

        The parts are neither copied now nor later if they are large, and must not change any more.

        Raises: RuntimeError where it was answered before.
        """
        if self.is_done:
            self._answered_again()
            return
        self.is_done = True
        self.session.answered(self, parts)

    def reply_nothing(self) -> None:
        """End the exchange without an answer, as acks=0 asks for."""
        if self.is_done:
            self._answered_again()
            return
        self.is_done = True
        self.session.answered(self, None)

    def _answered_again(self) -> None:
        # The session marks what was in flight as done when the connection is lost.
        if not self.session.is_closed:
            raise RuntimeError("the exchange was answered before")

    def on_closed(self, callback: Callable[[], None]) -> None:
        """Have a callback run if the connection closes before the answer; forgotten with it.

        One callback an exchange; a later one replaces it.
        """
        self.on_abandoned = callback
