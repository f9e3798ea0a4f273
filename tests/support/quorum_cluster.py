"""Some shells of the metadata log in one loop, over a network in memory and one store."""

import asyncio
import random as random_module
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TypeVar

from barnabas_broker.arbiter.arbiter import Leader
from barnabas_broker.config.parse import BrokerConfig
from barnabas_broker.env.disk import Buffer
from barnabas_broker.log.manager.log_manager import LogManager
from barnabas_broker.log.tail_cache import TailCache
from barnabas_broker.metadata.image import MetadataImage
from barnabas_broker.metadata.log_ends import LogEnd
from barnabas_broker.metadata.metadata_log import (
    METADATA_PARTITION,
    METADATA_TOPIC_ID,
    metadata_log_config,
)
from barnabas_broker.metadata.publisher import MetadataPublisher
from barnabas_broker.metadata.quorum.event_loop import QuorumCallbacks
from barnabas_broker.metadata.quorum.inbound_requests import FetchReply
from barnabas_broker.metadata.quorum.leadership import NotLeadingError
from barnabas_broker.metadata.quorum.messages import (
    PromiseRequest,
    PromiseResponse,
    QuorumFetchRequest,
)
from barnabas_broker.metadata.quorum.metadata_quorum import MetadataQuorum
from barnabas_broker.metadata.quorum.node import Role
from barnabas_broker.metadata.quorum.timing import QuorumSettings
from barnabas_broker.metadata.quorum.transport import FETCH_WAIT_MS_MAX
from barnabas_broker.metadata.quorum.voters import Voter
from barnabas_broker.metadata.records import BrokerRecord, ConfigRecord, ListenerAddress
from tests.support.arbiter_faults import Fault, FaultyArbiter
from tests.support.memory_arbiter import MemoryArbiter, MemoryStore
from tests.support.simulated_disk import SimulatedDisk
from tests.support.simulated_random import SimulatedRandom
from tests.support.virtual_loop import VirtualClock

T = TypeVar("T")
CLUSTER_ID = "cluster-of-the-test"
DIRECTORY = "data/log"


class _Line:
    """One node's transport and what it knows of refusals."""

    def __init__(self, cluster: "QuorumCluster", machine: "QuorumMachine") -> None:
        self._cluster = cluster
        self._machine = machine
        self._suspected: set[int] = set()
        self.on_refused_change: list[Callable[[int], None]] = []

    async def request_promise(
        self, node_id: int, request: PromiseRequest, timeout_ms: int
    ) -> PromiseResponse:
        return await self._ask(node_id, lambda q: q.on_promise_request(request), timeout_ms)

    async def fetch_records(
        self, node_id: int, request: QuorumFetchRequest, timeout_ms: int
    ) -> tuple[FetchReply, Buffer]:
        return await self._ask(
            node_id, lambda q: q.on_fetch_request(request, FETCH_WAIT_MS_MAX), timeout_ms
        )

    async def fetch_snapshot(self, node_id: int, snapshot: LogEnd, timeout_ms: int) -> bytes:
        data = await self._ask(node_id, lambda q: q.snapshot_bytes(snapshot), timeout_ms)
        if data is None:
            raise FileNotFoundError(f"node {node_id} has no such snapshot")
        return data

    async def _ask(
        self, node_id: int, ask: Callable[[MetadataQuorum], Awaitable[T]], timeout_ms: int
    ) -> T:
        cluster, incarnation = self._cluster, self._machine.incarnation
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await cluster.travel(self._machine.node_id, node_id)
                target = cluster.machines[node_id]
                if not target.is_up:
                    raise ConnectionRefusedError(f"node {node_id} is down")
                response = await asyncio.ensure_future(ask(target.quorum))
                await cluster.travel(node_id, self._machine.node_id)
        except (TimeoutError, NotLeadingError) as error:
            raise ConnectionError(str(error)) from error
        except asyncio.CancelledError:
            if asyncio.current_task().cancelling():
                raise
            raise ConnectionError(f"node {node_id} has gone") from None
        if incarnation != self._machine.incarnation:
            raise ConnectionError("response to another incarnation")
        return response

    def suspect(self, node_id: int) -> None:
        self._suspected.add(node_id)

    def refused_since_ms(self, node_id: int) -> int | None:
        target = self._cluster.machines[node_id]
        if target.is_up or node_id not in self._suspected:
            self._suspected.discard(node_id)
            return None
        if not self._cluster.is_connected(self._machine.node_id, node_id):
            return None
        return target.down_since_ms


class QuorumMachine:
    """A node's disk, and the shell that runs on it at the moment."""

    def __init__(self, cluster: "QuorumCluster", node_id: int) -> None:
        self._cluster = cluster
        self.node_id = node_id
        self.incarnation = 0
        self.is_up = False
        self.down_since_ms = 0
        self.random = SimulatedRandom(node_id + 1)
        self.failures: list[BaseException] = []
        self.led: list[int] = []
        self.stepped_down_count = 0
        self.has_adopted: str | None = None
        self.may_adopt = False
        self.cluster_id = CLUSTER_ID
        self.new_disk()

    def new_disk(self) -> None:
        self.disk = SimulatedDisk(self.random)

    async def start(self) -> None:
        assert not self.is_up
        cluster = self._cluster
        self.incarnation += 1
        config = BrokerConfig.parse(
            {
                "node.id": str(self.node_id),
                "log.dirs": DIRECTORY,
                "metadata.log.segment.bytes": str(cluster.segment_bytes),
            }
        )
        self.disk.make_directories(DIRECTORY)
        self.logs = LogManager(config, self.disk, cluster.clock, self.random, TailCache(1 << 20))
        log = await self.logs.load_partition(
            METADATA_PARTITION,
            METADATA_TOPIC_ID,
            metadata_log_config(config.metadata_log_segment_bytes),
        )
        self.arbiter = FaultyArbiter(
            MemoryArbiter(cluster.store, cluster.arbiter_latency_ms), cluster.arbiter_faults
        )
        self.arbiter.is_cut_off = cluster.is_arbiter_away
        self.publisher = MetadataPublisher()
        self.published: list[MetadataImage] = []
        self.publisher.subscribe(self._published)
        line = _Line(cluster, self)
        self.quorum = MetadataQuorum(
            log,
            disk=self.disk,
            clock=cluster.clock,
            arbiter=self.arbiter,
            transport=line,
            refusals=line,
            publisher=self.publisher,
            voter=Voter(self.node_id, self.logs.directories[0].directory_id),
            cluster_id=self.cluster_id,
            listener_name="PLAINTEXT",
            settings=cluster.settings,
            callbacks=QuorumCallbacks(
                on_failure=self.failures.append,
                on_lead=self._leads,
                on_step_down=self._steps_down,
                adopt_cluster_id=self._adopt,
            ),
        )
        await self.quorum.recover()
        self.is_up = True
        await self.quorum.start(
            Leader(self.node_id, "localhost", 9000 + self.node_id), ["PLAINTEXT"]
        )

    async def _leads(self, epoch: int) -> None:
        """Registers the node, as a controller would do for it and the others."""
        self.led.append(epoch)
        if self.node_id not in self.quorum.pending_image.brokers:
            await self._cluster.register(self)

    def _steps_down(self) -> None:
        self.stepped_down_count += 1

    async def _adopt(self, cluster_id: str) -> bool:
        self.has_adopted = cluster_id if self.may_adopt else None
        return self.may_adopt

    def _published(self, delta: object, image: MetadataImage) -> None:
        if self.published:
            assert image.offset > self.published[-1].offset
            assert delta is not None
            assert delta.image == self.published[-1], "a delta of another image"
        self.published.append(image)
        self._cluster.note_published(self, image)

    async def stop(self) -> None:
        """Stop cleanly."""
        self.down_since_ms = self._cluster.clock.monotonic_ms()
        await self.quorum.stop()
        self.is_up = False
        self.down_since_ms = self._cluster.clock.monotonic_ms()
        await self.logs.close()

    async def kill(self, *, keep_some: bool = True) -> None:
        """Lose power: the process ends in the middle of everything, what is not synced may go."""
        self.is_up = False
        self.incarnation += 1
        self.down_since_ms = self._cluster.clock.monotonic_ms()
        self.disk.crash(keep_some=keep_some)
        await self.quorum.abandon()


class QuorumCluster:
    """Nodes 0 to N-1; `settings` of all."""

    def __init__(self, count: int = 3, seed: int = 1, **settings: int) -> None:
        self.clock = VirtualClock(asyncio.get_running_loop())
        self.rng = random_module.Random(seed)
        self.settings = QuorumSettings(**settings)
        self.segment_bytes = 8 << 20
        self.store = MemoryStore()
        self.arbiter_faults: deque[Fault] = deque()
        self.is_arbiter_away = False
        self.latency_ms = 1.0
        self.loss = 0.0
        self._cut: set[frozenset[int]] = set()
        self._images: dict[int, MetadataImage] = {}  # by offset, as published first
        self.machines = [QuorumMachine(self, node_id) for node_id in range(count)]

    # ---- faults ----

    def arbiter_latency_ms(self) -> float:
        return 1 + self.rng.random()

    async def travel(self, source: int, target: int) -> None:
        await asyncio.sleep(self.latency_ms * (0.5 + self.rng.random()) / 1000)
        if self.rng.random() < self.loss or not self.is_connected(source, target):
            await asyncio.sleep(3600)

    def is_connected(self, one: int, other: int) -> bool:
        return frozenset((one, other)) not in self._cut

    def cut(self, *groups: set[int]) -> None:
        """Let nodes of different groups not hear one another."""
        self._cut = {
            frozenset((a, b))
            for group in groups
            for other in groups
            if group is not other
            for a in group
            for b in other
        }

    def lose_arbiter(self, is_away: bool) -> None:
        self.is_arbiter_away = is_away
        for machine in self.machines:
            if machine.is_up:
                machine.arbiter.is_cut_off = is_away

    # ---- doing ----

    async def start(self) -> None:
        for machine in self.machines:
            await machine.start()

    async def stop(self) -> None:
        for machine in self.machines:
            if machine.is_up:
                await machine.stop()
        assert [machine.failures for machine in self.machines] == [[] for _ in self.machines]

    def note_published(self, machine: QuorumMachine, image: MetadataImage) -> None:
        known = self._images.setdefault(image.offset, image)
        assert known == image, f"node {machine.node_id}: two images at offset {image.offset}"

    @property
    def last_published_offset(self) -> int:
        return max(self._images, default=-1)

    @property
    def active(self) -> QuorumMachine | None:
        active = [m for m in self.machines if m.is_up and m.quorum.is_active]
        return max(active, key=lambda m: m.quorum.controller_epoch, default=None)

    async def until(self, condition: Callable[[], object], seconds: float = 60) -> None:
        """Wait for a condition, by virtual time."""
        deadline = asyncio.get_running_loop().time() + seconds
        while not condition():
            if asyncio.get_running_loop().time() > deadline:
                raise TimeoutError(self.describe())
            await asyncio.sleep(0.005)

    def describe(self) -> str:
        return (
            "; ".join(
                f"{m.node_id}: {m.quorum.role.value} epoch {m.quorum.controller_epoch} "
                f"end {m.quorum.log.log_end_offset} high watermark {m.quorum.high_watermark}"
                for m in self.machines
                if m.is_up
            )
            + f"; {self.store.stored}"
        )

    async def register(self, machine: QuorumMachine, through: QuorumMachine | None = None) -> None:
        leader = (through or machine).quorum
        image = leader.pending_image
        leader.stage(
            [
                BrokerRecord(
                    node_id=machine.node_id,
                    broker_epoch=image.offset + 1,
                    incarnation_id=bytes(16),
                    listeners=(
                        ListenerAddress(
                            "PLAINTEXT", "localhost", 9000 + machine.node_id, "PLAINTEXT"
                        ),
                    ),
                    rack=None,
                    directories=(),
                    is_fenced=False,
                )
            ]
        )
        await leader.commit()

    async def register_all(self) -> None:
        """Have all nodes registered by the leader of the moment."""
        await self.until(lambda: self.active)
        leader = self.active
        for machine in self.machines:
            if machine.node_id not in leader.quorum.pending_image.brokers:
                await self.register(machine, leader)

    async def write(self, key: str, value: str = "v") -> int:
        """Commit one record through the leader of the moment."""
        await self.until(lambda: self.active)
        quorum = self.active.quorum
        quorum.stage([ConfigRecord(4, "", key, value)])
        return await quorum.commit()

    async def all_have(self, key: str, seconds: float = 60) -> None:
        await self.until(
            lambda: all(
                key in machine.publisher.image.config_overrides(4, "")
                for machine in self.machines
                if machine.is_up
            ),
            seconds,
        )

    @property
    def member_ids(self) -> set[int]:
        record = self.store.stored.record
        return set() if record is None else {member.node_id for member in record.members}

    def leading(self) -> list[QuorumMachine]:
        return [m for m in self.machines if m.is_up and m.quorum.role is Role.LEADING]
