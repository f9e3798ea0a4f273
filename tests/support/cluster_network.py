"""A network of hosts: delays, lost connections, one-way and two-way partitions, dead machines.

Bytes take their time and keep their order. Between hosts that cannot reach each other they wait, as
TCP would send them again, and connecting waits too. A killed process resets its connections, if the
news gets through; a machine without power says nothing at all, and refuses nothing. Whoever writes
to a connection that the other side has lost is told so. Each end of a connection works in the
context of its process, so that a process that stands still answers nothing.
"""

import asyncio
import errno
from collections import Counter
from collections.abc import Callable
from contextvars import Context, copy_context
from typing import Any, TypeVar

from tests.support.process_loop import ProcessLoop
from tests.support.simulated_network import SimulatedListener, SimulatedNetwork, SimulatedTransport
from tests.support.simulated_random import SimulatedRandom

P = TypeVar("P", bound=asyncio.BaseProtocol)
CONNECT_ATTEMPTS = 7  # with the pauses of TCP: 1, 2, 4... seconds
FOLLOWS_SECONDS = 1e-6
API_KEY = slice(4, 6)  # of a request, behind its length


class LinkTransport(SimulatedTransport):
    """One side of a connection between hosts."""

    _network: "ClusterNetwork"
    _loop: ProcessLoop

    def __init__(self, network: "ClusterNetwork", own: Any, peer: Any, context: Context) -> None:
        super().__init__(network, own, peer)
        self.host: str = own[0]
        self.peer_host: str = peer[0]
        self.context = context
        self.is_accepted = False  # on the side of a listener
        self._strike: Callable[[], None] | None = None
        self._last_arrival_seconds = 0.0
        self._has_end_arrived = False

    # On the way.

    def _pass_on(self, other: SimulatedTransport, data: bytes) -> None:
        assert isinstance(other, LinkTransport)
        self._after_delay(other, other.arrive, data)
        strike, self._strike = self._strike, None
        if strike is not None:
            self._loop.call_soon(strike, context=Context())

    def _after_delay(
        self, other: "LinkTransport", act: Callable[..., None], *arguments: Any
    ) -> None:
        """Let something happen at the other side, after all that was sent before."""
        loop = self._loop
        self._last_arrival_seconds = max(
            self._last_arrival_seconds + FOLLOWS_SECONDS,
            loop.true_seconds + self._network.latency_seconds(self.host, self.peer_host),
        )
        loop.call_at_true(self._last_arrival_seconds, act, *arguments, context=Context())

    def arrive(self, data: bytes) -> None:
        """Take what the other side wrote, or say that nobody is there to take it."""
        self._waiting.append(data)
        self._deliver_soon()

    def _deliver_soon(self) -> None:
        if self._is_lost:
            self._refuse_waiting()
        elif not self._is_delivering:
            self._is_delivering = True
            self._loop.call_soon(self._deliver, context=self.context.copy())

    def _refuse_waiting(self) -> None:
        """Answer data for a connection that is no more, unless the machine itself is off."""
        other, network = self._other, self._network
        if not self._waiting or self.host in network.hosts_off:
            return
        if not network.can_reach(self.peer_host, self.host):
            return
        self._waiting.clear()
        self._waiting_bytes = 0
        if isinstance(other, LinkTransport) and not other._is_lost:
            self._after_delay(other, other.reset, self.host)

    def _deliver(self) -> None:
        self._is_delivering = False
        network = self._network
        if self._is_lost or not network.can_reach(self.peer_host, self.host):
            return
        while self._waiting and self._is_reading and not self._is_closing:
            piece = self._take(network.piece_bytes_max)
            network.note("bytes", self.peer_host, self.host, len(piece))
            if self.is_accepted:
                self._strike = network.asked(self.host, piece) or self._strike
            self._hand_over(piece)
        if self._is_closing:
            self._waiting.clear()
        elif self._has_end_arrived and not self._waiting:
            self._peer_has_closed()

    # Closing.

    def close(self) -> None:
        """Close after what was written has been delivered."""
        if self._is_closing:
            return
        self._is_closing = True
        if isinstance(self._other, LinkTransport):
            self._after_delay(self._other, self._other.end_arrived)
        self._loop.call_soon(self._lose, None, context=self.context.copy())

    def end_arrived(self) -> None:
        """The other side has closed."""
        self._has_end_arrived = True
        if not self._is_lost:
            self._deliver_soon()

    def abort(self) -> None:
        """Close at once; the other side hears of it, if it can."""
        if self._is_lost:
            return
        self._is_closing = True
        self._loop.call_soon(self._lose, None, context=self.context.copy())
        if isinstance(self._other, LinkTransport):
            self._after_delay(self._other, self._other.reset, self.host)

    def reset(self, sender: str) -> None:
        """The other side's host says that there is no connection; it may not get through."""
        if self._network.can_reach(sender, self.host) and not self._is_lost:
            self._network.note("reset", sender, self.host)
            self._is_closing = True
            self._waiting.clear()
            # Made anew: a traceback would keep all whom one and the same was ever raised to.
            error = ConnectionResetError(errno.ECONNRESET, "reset by the peer")
            self._loop.call_soon(self._lose, error, context=self.context.copy())

    def vanish(self, *, is_silent: bool) -> None:
        """Its process has died: nobody is told on this side, nor with `is_silent` on the other."""
        if self._is_lost:
            return
        self._is_closing = self._is_lost = True
        self._protocol = None
        self._waiting.clear()
        self._network.transports.discard(self)
        if isinstance(self._other, LinkTransport) and not is_silent:
            self._after_delay(self._other, self._other.reset, self.host)


class ClusterNetwork(SimulatedNetwork):
    """The links between hosts, each of which is a name."""

    def __init__(self, random: SimulatedRandom, note: Callable[..., None]) -> None:
        super().__init__()
        # In the order of their making: the order of a set would differ from run to run.
        self.links: dict[LinkTransport, None] = {}
        self.transports = _Forgotten(self.links)  # type: ignore[assignment]
        self.contexts: dict[tuple[str, int], Context] = {}
        self.hosts_off: set[str] = set()
        self.latency_ms = 1.0
        self.slow_latency_ms = 0.0
        self.slow_share = 0.0
        self._random = random
        self._one_way: set[tuple[str, str]] = set()
        self._hidden: set[tuple[str, str]] = set()
        self._slow_links: dict[tuple[str, str], float] = {}
        # How often each API was asked for, as the first of what arrived at once.
        self.request_counts: Counter[int] = Counter()
        self._strikes: dict[tuple[str, int], Callable[[], None]] = {}
        self.note = note

    # What is done to it.

    def cut_one_way(self, host: str, other: str) -> None:
        """Let nothing get from a host to another one, until `heal`."""
        self._one_way.add((host, other))

    def cut(self, host: str, other: str) -> None:
        """Let nothing get through between two hosts, until `heal`."""
        self._one_way |= {(host, other), (other, host)}

    def hide(self, host: str, other: str) -> None:
        """Cut two hosts off from each other; only `show_all` undoes it."""
        self._hidden |= {(host, other), (other, host)}
        self.cut(host, other)

    def show_all(self) -> None:
        """Undo what `hide` did."""
        self._one_way -= self._hidden
        self._hidden.clear()
        self._wake()

    def strike_after(self, host: str, api_key: int, strike: Callable[[], None]) -> None:
        """Let something happen when a host has answered the next request of an API.

        What it said is on its way, and whatever it relied on must outlive it.
        """
        self._strikes[host, api_key] = strike

    def asked(self, host: str, request: bytes) -> Callable[[], None] | None:
        """What is to happen when a host has answered a request, if anything is."""
        api_key = int.from_bytes(request[API_KEY], "big")
        self.request_counts[api_key] += 1
        return self._strikes.pop((host, api_key), None) if self._strikes else None

    def will_strike(self, host: str) -> bool:
        """Whether something is to happen when a host has answered."""
        return any(known == host for known, _ in self._strikes)

    def forget_strikes(self, host: str) -> None:
        """Let nothing happen to the next process of a host because of what it answers."""
        self._strikes = {key: act for key, act in self._strikes.items() if key[0] != host}
        for link in self.links:
            if link.host == host:
                link._strike = None  # of a request that is not answered yet

    def slow_link(self, host: str, other: str, latency_ms: float) -> None:
        """Let what gets from a host to another one take longer, until it heals."""
        self._slow_links[host, other] = latency_ms

    @property
    def troubled_links(self) -> list[tuple[str, str]]:
        """Pairs of hosts between which something is cut or slow, each in both orders or one."""
        return sorted(self._one_way | self._slow_links.keys())

    def heal_link(self, host: str, other: str) -> None:
        """Undo what was done between two hosts, both ways."""
        for pair in ((host, other), (other, host)):
            if pair not in self._hidden:
                self._one_way.discard(pair)
            self._slow_links.pop(pair, None)
        self._wake()

    @property
    def is_troubled(self) -> bool:
        """Whether something is cut or slow."""
        return bool(self._one_way or self._slow_links) or self.slow_share > 0

    def heal(self) -> None:
        """Undo every cut; what was on the way arrives."""
        self._one_way = set(self._hidden)
        self._slow_links.clear()
        self._wake()

    def _wake(self) -> None:
        for link in list(self.links):
            link._deliver_soon()
            other = link._other
            if isinstance(other, LinkTransport) and other._is_lost:
                other._refuse_waiting()

    def reset_links(self, host: str, other: str) -> None:
        """Lose all connections between two hosts, as a router that was restarted does."""
        for link in list(self.links):
            if (link.host, link.peer_host) in ((host, other), (other, host)):
                link.reset(link.peer_host)

    def end_process(self, host: str) -> None:
        """The process of a host is killed: its system resets and refuses connections."""
        self._end(host, is_silent=False)

    def turn_off(self, host: str) -> None:
        """A machine loses power: nobody hears anything of it."""
        self.hosts_off.add(host)
        self._end(host, is_silent=True)

    def turn_on(self, host: str) -> None:
        """A machine has power again: it refuses what it does not know."""
        self.hosts_off.discard(host)
        self._wake()

    def _end(self, host: str, *, is_silent: bool) -> None:
        for address in [address for address in self.factories if address[0] == host]:
            del self.factories[address]
        for link in [link for link in self.links if link.host == host]:
            link.vanish(is_silent=is_silent)

    # What it does.

    def can_reach(self, host: str, other: str) -> bool:
        """Whether bytes get from a host to another one."""
        return (host, other) not in self._one_way and not self.hosts_off & {host, other}

    def latency_seconds(self, host: str, other: str) -> float:
        """How long bytes that are sent now take."""
        if host == other:
            return FOLLOWS_SECONDS
        latency_ms = self.latency_ms * (0.5 + self._random.fraction())
        if self.slow_share and self._random.fraction() < self.slow_share:
            latency_ms += self.slow_latency_ms * self._random.fraction()
        if self._slow_links:
            latency_ms += self._slow_links.get((host, other), 0)
        return latency_ms / 1000

    async def listen(
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str,
        port: int,
        *,
        backlog: int = 50,
    ) -> SimulatedListener:
        """Accept, in the context of the caller."""
        listener = await super().listen(protocol_factory, host, port, backlog=backlog)
        self.contexts[host, listener.port] = copy_context()
        return listener

    async def connect(
        self,
        protocol_factory: Callable[[], P],
        host: str,
        port: int,
        *,
        from_host: str = "127.0.0.1",
    ) -> tuple[asyncio.Transport, P]:
        """Connect; where nothing gets through, try as long as TCP would."""
        for attempt in range(CONNECT_ATTEMPTS):
            await asyncio.sleep(self.latency_seconds(from_host, host))
            if self.can_reach(from_host, host) and self.can_reach(host, from_host):
                return self._connect(protocol_factory, host, port, from_host)
            await asyncio.sleep(2**attempt)
        raise TimeoutError(errno.ETIMEDOUT, "nobody answers")

    def _connect(
        self, protocol_factory: Callable[[], P], host: str, port: int, from_host: str
    ) -> tuple[asyncio.Transport, P]:
        accept = self.factories.get((host, port))
        if accept is None:
            self.note("refused", from_host, host)
            raise ConnectionRefusedError(errno.ECONNREFUSED, "nobody listens")
        own, peer = (from_host, self._free_port()), (host, port)
        near = LinkTransport(self, own, peer, copy_context())
        context = self.contexts[host, port]
        far = LinkTransport(self, peer, own, context)
        far.is_accepted = True
        self.links[near] = self.links[far] = None
        protocol = protocol_factory()
        accepted = context.copy().run(accept)
        near.join(far, protocol)
        far.join(near, accepted)
        loop = asyncio.get_running_loop()
        loop.call_soon(accepted.connection_made, far, context=context.copy())
        protocol.connection_made(near)
        return near, protocol


class _Forgotten:
    """What transports are told to leave when they are lost."""

    def __init__(self, links: dict[LinkTransport, None]) -> None:
        self._links = links

    def discard(self, transport: LinkTransport) -> None:
        self._links.pop(transport, None)


class HostNetwork:
    """The network as one process sees it; after `is_off` it makes no more connections."""

    def __init__(self, network: ClusterNetwork, host: str) -> None:
        self.network = network
        self.host = host
        self.is_off = False

    async def listen(
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str,
        port: int,
        *,
        backlog: int = 50,
    ) -> SimulatedListener:
        """Bind on this host."""
        self._check()
        return await self.network.listen(protocol_factory, self.host, port, backlog=backlog)

    async def connect(
        self, protocol_factory: Callable[[], P], host: str, port: int
    ) -> tuple[asyncio.Transport, P]:
        """Connect from this host."""
        self._check()
        return await self.network.connect(protocol_factory, host, port, from_host=self.host)

    async def canonical_host_name(self) -> str:
        """This host."""
        return self.host

    def _check(self) -> None:
        if self.is_off:
            raise OSError(errno.ENETDOWN, "the process is dead")
