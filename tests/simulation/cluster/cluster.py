"""Some nodes, the network between them and the arbiter's store, on one loop."""

import asyncio
import gc
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from contextvars import Context
from typing import Any, NamedTuple
from unittest.mock import patch

from barnabas_broker.arbiter.arbiter import Arbiter
from barnabas_broker.controller import features
from barnabas_broker.log.manager import log_tasks
from tests.simulation.cluster.file_store import FileStore
from tests.simulation.cluster.levels import LevelsOfProcess
from tests.simulation.cluster.node import PORT, Node, NodeClock
from tests.simulation.cluster.trace import Trace
from tests.support.arbiter_faults import Fault, FaultyArbiter
from tests.support.cluster_network import ClusterNetwork
from tests.support.memory_arbiter import MemoryArbiter, MemoryStore
from tests.support.process_loop import PROCESS, Life, Process, ProcessLoop
from tests.support.simulated_random import SimulatedRandom

FAST: Mapping[str, str] = {
    # Stories are long by waiting: all waits are shorter than by default, in proportion.
    "broker.heartbeat.interval.ms": "300",
    "broker.session.timeout.ms": "1500",
    "broker.fence.on.refused.ms": "200",
    "controller.quorum.lost.ms": "1200",
    "arbiter.time.to.live.ms": "1500",
    "metadata.member.lost.ms": "6000",
    "replica.lag.time.max.ms": "2000",
    "replica.fetch.backoff.ms": "100",
    "barnabas.drain.budget.ms": "3000",
    "request.timeout.ms": "3000",
    "initial.broker.registration.timeout.ms": "600000",
    "offsets.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "log.index.size.max.bytes": "4096",
}
ARBITER_POLL_MS = 100


class NodeArbiter(NamedTuple):
    """How one process reaches the arbiter's store, and what will befall its next swaps."""

    process: Process
    client: FaultyArbiter
    faults: deque[Fault]


class Cluster:
    """All that a story happens to."""

    def __init__(
        self,
        seed: int,
        node_count: int,
        properties: Mapping[str, str] | None = None,
        *,
        keeps_words: bool = False,
        is_compared: bool = False,
        arbiter_file_ms: int = 0,
    ) -> None:
        """With `arbiter_file_ms` the arbiter's store is a file of a disk that takes so long."""
        self.loop = ProcessLoop()
        self.loop.set_exception_handler(self.unhandled)
        self.trace = Trace(
            lambda: self.loop.true_seconds, keeps_words=keeps_words, is_compared=is_compared
        )
        self.random = SimulatedRandom(seed)
        # All that is no broker, so that nothing is left of it in the end.
        self._clients = Process("clients")
        self.network = ClusterNetwork(self._fork(), self.trace.note)
        self._clock = NodeClock(self.loop, 1_700_000_000_000)
        self.store: MemoryStore | FileStore = MemoryStore()
        if arbiter_file_ms:
            draws = SimulatedRandom(seed)
            self.store = FileStore(draws, self._clock, self.trace.note, arbiter_file_ms)
        self.arbiters: list[NodeArbiter] = []
        self.late_swap_ms_max = 0
        self.first_round_ms = log_tasks.FIRST_ROUND_MS
        self._arbiter_draws = self._fork()
        replicas = str(min(3, node_count))
        settings = {
            **FAST,
            "default.replication.factor": replicas,
            "offsets.topic.replication.factor": replicas,
            "transaction.state.log.replication.factor": replicas,
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.replication.factor": replicas,
            "share.coordinator.state.topic.min.isr": "1",
            "min.insync.replicas": str(min(2, node_count)),
            **(properties or {}),
        }
        self.nodes = [
            Node(
                node_id,
                self.random.integer(1 << 62),
                settings,
                self.loop,
                self.network,
                self._make_arbiter,
                self.trace,
            )
            for node_id in range(node_count)
        ]

    def _fork(self) -> SimulatedRandom:
        """Draws that do not depend on how many others were drawn."""
        return SimulatedRandom(self.random.integer(1 << 62))

    def _make_arbiter(self, process: Process) -> Arbiter:
        inner: Arbiter
        if isinstance(self.store, FileStore):
            inner = self.store.client(self._clock, ARBITER_POLL_MS)
        else:
            inner = MemoryArbiter(
                self.store, lambda: 1 + self._arbiter_draws.integer(5), ARBITER_POLL_MS
            )
        faults: deque[Fault] = deque()
        client = FaultyArbiter(inner, faults, ARBITER_POLL_MS)
        client.on_late = self._let_arrive_later
        self.arbiters = [known for known in self.arbiters if known.process.life is not Life.IS_DEAD]
        self.arbiters.append(NodeArbiter(process, client, faults))
        return client

    def _let_arrive_later(self, client: FaultyArbiter) -> None:
        """A swap that nobody answers reaches the store after its sender has gone on, or died."""
        if self.late_swap_ms_max:
            delay_seconds = self._arbiter_draws.integer(self.late_swap_ms_max) / 1000
            self.loop.call_later(delay_seconds, self._arrive, client, context=Context())

    def _arrive(self, client: FaultyArbiter) -> None:
        self.trace.tell("a late swap arrives")
        self.loop.spawn(self._clients, client.let_late_arrive())

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """Where clients knock."""
        return [(node.host, PORT) for node in self.nodes]

    def run(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run a story on the loop, then end all processes."""
        logger = logging.getLogger("barnabas_broker")
        handler = _Lines(self)
        logger.addHandler(handler)
        level, propagates = logger.level, logger.propagate
        logger.setLevel(logging.WARNING)
        logger.propagate = False
        levels = patch.object(features, "SUPPORTED", LevelsOfProcess())
        rounds = patch.object(log_tasks, "FIRST_ROUND_MS", self.first_round_ms)
        levels.start()
        rounds.start()
        was_collecting = gc.isenabled()
        gc.disable()
        try:
            self.loop.run_until_complete(self.loop.spawn(self._clients, work()))
        finally:
            levels.stop()
            rounds.stop()
            for node in self.nodes:
                node.kill()
            self.loop.kill(self._clients)
            for link in list(self.network.links):
                link.vanish(is_silent=True)  # nobody else closes what a killed client had open
            self.loop.run_until_complete(asyncio.sleep(0))
            self.loop.close()
            logger.removeHandler(handler)
            logger.setLevel(level)
            logger.propagate = propagates
            if was_collecting:
                gc.enable()

    @property
    def problems(self) -> list[str]:
        """What brokers said that they should never have to say."""
        return [problem for node in self.nodes for problem in node.problems]

    def unhandled(self, loop: asyncio.AbstractEventLoop, context: Mapping[str, Any]) -> None:
        """Take note of an exception that nobody has caught."""
        node = self.node_running()
        if node is not None:
            node.unhandled(context)
        else:
            self.trace.tell("unhandled", context.get("message"), repr(context.get("exception")))

    def node_running(self) -> Node | None:
        """The node whose process runs at this moment, unless it is dead."""
        process = PROCESS.get()
        for node in self.nodes:
            if process is not None and node.process is process:
                return node
        return None


class _Lines(logging.Handler):
    """Hands what brokers log to their nodes."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(logging.WARNING)
        self._cluster = cluster

    def emit(self, record: logging.LogRecord) -> None:
        node = self._cluster.node_running()
        if node is not None:
            node.log(record)
