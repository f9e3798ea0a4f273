"""One seed's story: a cluster that much befalls while clients work, and all is well in the end."""

import asyncio

from barnabas_broker.server import Server
from tests.simulation.cluster.administration import Administrator, create_topic
from tests.simulation.cluster.checks import (
    check_everything,
    check_replicas,
    uncommitted,
    unhealthy,
)
from tests.simulation.cluster.client import ClusterClient
from tests.simulation.cluster.cluster import Cluster
from tests.simulation.cluster.faults import Faults, Hardship
from tests.simulation.cluster.group_members import GroupHistory, GroupMember
from tests.simulation.cluster.history import History
from tests.simulation.cluster.invariants import Observer
from tests.simulation.cluster.node import Node
from tests.simulation.cluster.workload import Committer, Producer, Reader, Worker, patiently
from tests.support.simulated_random import SimulatedRandom

TOPIC = "orders"
BATCHES = 150  # that each producer sends, about
LOOK_SECONDS = 0.1
START_SECONDS_MAX = 60
RECOVERY_SECONDS_MAX = 120


def has_lost_directory(server: Server) -> bool:
    """Whether a broker goes on without one of its directories: it takes it back at a start."""
    return any(directory.is_offline for directory in server.logs.directories)


class StoryError(AssertionError):
    """A story that does not end well though no invariant was seen broken."""


class Story:
    """All that a seed decides."""

    def __init__(
        self, seed: int, *, node_count: int | None = None, keeps_words: bool = False
    ) -> None:
        draws = self._draws = SimulatedRandom(seed)
        self.node_count = node_count or (3, 3, 3, 5)[draws.integer(4)]
        self.hardship = (Hardship.PROCESSES, Hardship.POWER)[draws.integer(2)]
        policy = "group-fsync" if self.hardship is Hardship.POWER else "page-cache"
        self.cluster = Cluster(
            seed,
            self.node_count,
            {
                "log.dirs": ("/data", "/data", "/data/a,/data/b")[draws.integer(3)],
                "barnabas.flush.policy": policy,
                **({"cluster.id": "cluster-of-the-story"} if draws.integer(4) else {}),
                "log.roll.ms": str(200 + draws.integer(20_000)),
                "log.retention.ms": "-1",
                "replica.high.watermark.checkpoint.interval.ms": "500",
                "log.flush.offset.checkpoint.interval.ms": "500",
                "metadata.log.max.record.bytes.between.snapshots": str(500 + draws.integer(20_000)),
                "log.segment.delete.delay.ms": "500",
            },
            keeps_words=keeps_words,
        )
        self.cluster.network.latency_ms = (0.3, 1, 5)[draws.integer(3)]
        self.history = History()
        self.observer = Observer()
        self.faults = Faults(self.cluster, self._fork(), self.hardship)
        self.steps = 2 + draws.integer(25)
        self.pause_ms_max = (200, 1_000, 3_000)[draws.integer(3)]
        self.partitions = 1 + draws.integer(2)
        for node in self.cluster.nodes:
            node.on_started.append(self._observe)

    def _fork(self) -> SimulatedRandom:
        return SimulatedRandom(self._draws.integer(1 << 62))

    def _client(self, name: str) -> ClusterClient:
        cluster = self.cluster
        return ClusterClient(
            name, cluster.network, cluster.addresses, self._fork(), cluster.trace.note
        )

    def _observe(self, node: Node) -> None:
        assert node.server is not None
        node.server.publisher.subscribe(self.observer.subscriber(node))

    def run(self) -> None:
        """Tell it. Raises: AssertionError, with the story so far."""
        try:
            self.cluster.run(self._tell)
            if self.cluster.problems:
                raise StoryError("brokers complain: " + "; ".join(self.cluster.problems))
        except BaseException as error:
            for line in self.cluster.trace.lines[-200:]:
                error.add_note(line)
            raise

    async def _tell(self) -> None:
        watch = asyncio.create_task(self._watch())
        story = asyncio.create_task(self._live())
        done, _ = await asyncio.wait((watch, story), return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
        watch.cancel()

    async def _watch(self) -> None:
        while True:
            self.observer.look(self.cluster.nodes)
            await asyncio.sleep(LOOK_SECONDS)

    async def _live(self) -> None:
        nodes, admin = self.cluster.nodes, self._client("admin")
        for node in nodes:
            node.start()
        await self._until_healthy(START_SECONDS_MAX)
        replicas = min(3, self.node_count)
        await patiently(
            admin,
            lambda: create_topic(admin, self.history, TOPIC, self.partitions, replicas),
            START_SECONDS_MAX,
        )
        workers = self._workers()
        tasks = [asyncio.create_task(worker.run()) for worker in workers]
        befalling = asyncio.create_task(self.faults.run(self.steps, self.pause_ms_max))
        await self._while_nobody_fails(befalling, tasks)
        self.faults.end_all()
        healthy = asyncio.create_task(self._until_healthy(RECOVERY_SECONDS_MAX))
        await self._while_nobody_fails(healthy, tasks)
        for worker in workers:
            worker.is_over = True
        async with asyncio.timeout(RECOVERY_SECONDS_MAX):
            await asyncio.gather(*tasks)
        await self._until_healthy(RECOVERY_SECONDS_MAX, is_quiet=True)
        await check_everything(admin, self.history)
        admin.drop()
        self.observer.look(nodes)
        check_replicas(nodes)

    def _workers(self) -> list[Worker]:
        wall_ms = self.cluster.nodes[0].clock.wall_ms
        # Long stories are as much work as short ones.
        pause_ms_max = 10 + self.steps * self.pause_ms_max // BATCHES
        workers: list[Worker] = []
        for index in range(self.partitions):
            for number, is_idempotent in enumerate((True, not self._draws.integer(2))):
                workers.append(
                    Producer(
                        self._client(f"producer-{index}-{number}"),
                        self.history,
                        TOPIC,
                        index,
                        wall_ms,
                        is_idempotent=is_idempotent,
                        pause_ms_max=pause_ms_max,
                    )
                )
            reader = self._client(f"reader-{index}")
            workers.append(
                Reader(reader, self.history, TOPIC, index, pause_ms_max=2 * pause_ms_max)
            )
        workers.append(Committer(self._client("committer"), self.history, "group", TOPIC))
        workers.append(
            Administrator(self._client("administrator"), self.history, TOPIC, self.node_count)
        )
        if self._draws.integer(2):
            team = GroupHistory(self.history, "team", TOPIC)
            for number in range(2 + self._draws.integer(2)):
                member = self._client(f"member-{number}")
                workers.append(GroupMember(member, self.history, team))
        return workers

    async def _while_nobody_fails(
        self, act: "asyncio.Task[None]", tasks: "list[asyncio.Task[None]]"
    ) -> None:
        """Wait for something while clients work. Raises: what a client has found."""
        await asyncio.wait((act, *tasks), return_when=asyncio.FIRST_COMPLETED)
        for task in (*tasks, act):
            if task.done():
                task.result()

    async def _until_healthy(self, seconds: float, *, is_quiet: bool = False) -> None:
        """Wait until all nodes serve and all replicas are in sync. Raises: StoryError."""
        deadline = self.cluster.loop.time() + seconds
        nodes = self.cluster.nodes
        while reason := unhealthy(nodes) or (uncommitted(nodes) if is_quiet else ""):
            # One that has stopped because of a fault is started again, as a supervisor does.
            for node in self.cluster.nodes:
                if not node.is_up:
                    node.start()
                elif node.is_ready and node.server is not None and has_lost_directory(node.server):
                    node.stop()
            if self.cluster.loop.time() > deadline:
                raise StoryError(f"not whole within {seconds} s: {reason}")
            await asyncio.sleep(LOOK_SECONDS)
