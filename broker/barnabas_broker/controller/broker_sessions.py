"""Which brokers the controller hears, and which it has lost: pure, in memory, of one epoch.

A broker is lost when it was silent for `broker.session.timeout.ms`, or when its address refused
connections for `broker.fence.on.refused.ms` (REG-5). A new controller has heard nobody: it gives
every unfenced broker a fresh session, while refusals that are known already count (CTL-6). Only the
node that led before is known better: this one has asked it for metadata all the time.

Not here: what is done about a lost broker (`brokers`), nor timers
(`broker_session_monitor`). Times are monotonic milliseconds.
Invariant: every unfenced broker of the image has a session, so none can stay unfenced in silence.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from barnabas_broker.metadata.image import MetadataImage

UNKNOWN_OFFSET: Final = -1

RefusedSince = Callable[[int], int | None]


@dataclass(slots=True, kw_only=True)
class BrokerSession:
    """What is known of one broker."""

    broker_epoch: int
    heard_ms: int
    # The newest metadata that the broker has applied, as it says.
    metadata_offset: int = UNKNOWN_OFFSET
    # Its log directories that shall get no more replicas, as it says (KIP-1066, VOL-4).
    cordoned: Sequence[bytes] = ()
    # By what it was last heard; None if that has ended, or if it was not heard in this epoch.
    connection: Hashable | None = None
    # Where the record is that says that it shuts down; None for a broker that does not (STOP-5).
    shutdown_offset: int | None = None


class BrokerSessions:
    """The sessions of all brokers that this controller was told of."""

    __slots__ = ("_grace_ms", "_refused_ms", "_sessions", "_timeout_ms")

    def __init__(self, timeout_ms: int, refused_ms: int, grace_ms: int = 0) -> None:
        """`grace_ms`: what a broker has at least to make itself heard by a new controller."""
        self._timeout_ms = timeout_ms
        self._grace_ms = min(grace_ms, timeout_ms)
        self._refused_ms = refused_ms
        self._sessions: dict[int, BrokerSession] = {}

    def begin(
        self, image: MetadataImage, now_ms: int, heard_ms: Mapping[int, int] | None = None
    ) -> None:
        """Forget all, and give every unfenced broker of the image a fresh session.

        `heard_ms`: when nodes were last heard that were asked all the time and would have answered.
        Their sessions go on from there, so that a controller that hangs costs one session, and not
        the takeover and then another one.
        Where a broker was told to shut down is not known any more: it counts as told just now.
        """
        # To fence too early is safe, whoever is fenced and lives: what it leads is taken over under
        # a higher leader epoch by members of the ISR, it can change no ISR from then on (its epochs
        # are refused), and its high watermark stays, as no follower fetches from it any more. It
        # costs a leadership, though. So nobody is fenced before it had time to find this controller
        # and to send a heartbeat, and that also covers a node that takes over after a pause of its
        # own process, in which it could hear nobody.
        earliest_ms = now_ms - self._timeout_ms + self._grace_ms
        heard = {} if heard_ms is None else heard_ms
        self._sessions = {
            broker.node_id: BrokerSession(
                broker_epoch=broker.epoch,
                heard_ms=min(max(heard.get(broker.node_id, now_ms), earliest_ms), now_ms),
                shutdown_offset=image.offset if broker.is_shutting_down else None,
            )
            for broker in image.brokers.values()
            if not broker.fenced
        }

    def registered(
        self, node_id: int, broker_epoch: int, now_ms: int, connection: Hashable | None
    ) -> None:
        """Begin the session of a registration, in place of any earlier one."""
        self._sessions[node_id] = BrokerSession(
            broker_epoch=broker_epoch, heard_ms=now_ms, connection=connection
        )

    def heard(
        self,
        node_id: int,
        broker_epoch: int,
        metadata_offset: int,
        now_ms: int,
        connection: Hashable | None,
        cordoned: Sequence[bytes] = (),
    ) -> None:
        """Take note of a sign of life of a registered broker, under its current epoch."""
        session = self._sessions.get(node_id)
        if session is None or session.broker_epoch != broker_epoch:
            self.registered(node_id, broker_epoch, now_ms, connection)
            session = self._sessions[node_id]
        session.heard_ms = now_ms
        session.metadata_offset = max(session.metadata_offset, metadata_offset)
        session.connection = connection
        session.cordoned = cordoned

    def cordoned_brokers(self, image: MetadataImage) -> frozenset[int]:
        """The brokers none of whose log directories shall get more replicas.

        A new controller does not know them before their first heartbeats.
        """
        return frozenset(
            node_id
            for node_id, session in self._sessions.items()
            if session.cordoned
            and node_id in image.brokers
            and set(image.brokers[node_id].directories) <= set(session.cordoned)
        )

    def cordoned_directories(self) -> frozenset[bytes]:
        """The log directories that shall get no more replicas; who leads by them is the last."""
        return frozenset(one for session in self._sessions.values() for one in session.cordoned)

    def connection_ended(self, node_id: int, connection: Hashable) -> bool:
        """Take note that a connection has ended; whether the broker was last heard by it."""
        session = self._sessions.get(node_id)
        if session is None or session.connection != connection:
            return False
        session.connection = None
        return True

    def forget(self, node_id: int) -> None:
        """The broker is not registered any more."""
        self._sessions.pop(node_id, None)

    def is_alive(self, node_id: int, broker_epoch: int, now_ms: int) -> bool:
        """Whether a process is known to be there: heard of late, by a connection that is open.

        A second broker of the id is refused then (NODE-7). One that was killed has lost its
        connections, so that its next life need not wait until the session is over.
        """
        session = self._sessions.get(node_id)
        return (
            session is not None
            and session.broker_epoch == broker_epoch
            and session.connection is not None
            and now_ms - session.heard_ms < self._timeout_ms
        )

    def is_refused(self, node_id: int, refused_since: RefusedSince, now_ms: int) -> bool:
        """Whether a broker's address has refused connections for long enough."""
        since_ms = refused_since(node_id)
        return since_ms is not None and now_ms - since_ms >= self._refused_ms

    def loss(self, node_id: int, refused_since: RefusedSince, now_ms: int) -> str | None:
        """Why a broker is lost; None if it is not."""
        session = self._sessions.get(node_id)
        if session is None:
            return "nothing was ever heard of it"
        if self.is_refused(node_id, refused_since, now_ms):
            return f"its address has refused connections for {self._refused_ms} ms"
        if now_ms - session.heard_ms >= self._timeout_ms:
            return f"nothing was heard of it for {self._timeout_ms} ms"
        return None

    def next_loss_ms(self, node_ids: Iterable[int], refused_since: RefusedSince) -> int | None:
        """When the first of the brokers is lost if none is heard again; None if there is none."""
        times = []
        for node_id in node_ids:
            session = self._sessions.get(node_id)
            since_ms = refused_since(node_id)
            silent_ms = 0 if session is None else session.heard_ms + self._timeout_ms
            times.append(
                silent_ms if since_ms is None else min(silent_ms, since_ms + self._refused_ms)
            )
        return min(times, default=None)

    def pardon(self, pause_ms: int) -> None:
        """Count a pause of this process for nobody's silence: nobody could be heard."""
        for session in self._sessions.values():
            session.heard_ms += pause_ms

    def shutting_down(self, node_id: int, offset: int) -> None:
        """Remember where the metadata says that a broker shuts down."""
        session = self._sessions.get(node_id)
        if session is not None:
            session.shutdown_offset = offset

    def knows_shutdown(self, node_id: int, live_nodes: Iterable[int]) -> bool:
        """Whether all live brokers have applied that a broker shuts down (STOP-5)."""
        session = self._sessions.get(node_id)
        if session is None or session.shutdown_offset is None:
            return False
        told = session.shutdown_offset
        return all(self._offset(live) >= told for live in live_nodes)

    def _offset(self, node_id: int) -> int:
        session = self._sessions.get(node_id)
        return UNKNOWN_OFFSET if session is None else session.metadata_offset
