"""One seed's story: a cluster that much befalls while clients work, and all is well in the end."""

import asyncio
import contextlib
import re
from collections import Counter
from unittest.mock import patch

from barnabas_broker.share import dead_letter_writer
from tests.simulation.cluster import rights
from tests.simulation.cluster.administration import (
    Administrator,
    create_topic,
    elect_uncleanly,
)
from tests.simulation.cluster.checks import (
    PATIENCE_SECONDS,
    check_everything,
    check_replicas,
    uncommitted,
    unhealthy,
)
from tests.simulation.cluster.client import LOST, ClusterClient
from tests.simulation.cluster.cluster import Cluster
from tests.simulation.cluster.consumers import SessionConsumer
from tests.simulation.cluster.faults import Faults
from tests.simulation.cluster.group_members import GroupHistory, GroupMember
from tests.simulation.cluster.history import History
from tests.simulation.cluster.invariants import Observer
from tests.simulation.cluster.levels import Upgrader
from tests.simulation.cluster.node import DiskTraits, Node, has_lost_directory
from tests.simulation.cluster.plan import Feature, Plan, draw
from tests.simulation.cluster.queues import QueueMember, QueueUser
from tests.simulation.cluster.specialists import (
    TRIMMED,
    Recycler,
    Specialist,
    TableWriter,
    TrimmedReader,
    Trimmer,
    UncleanUser,
    WideWriter,
)
from tests.simulation.cluster.transactors import TRANSACTORS, ListReader, ListUser, Transactor
from tests.simulation.cluster.workload import Committer, Producer, Reader, Worker, patiently

TOPIC = "orders"
BATCHES = 150  # that each producer sends, about
LOOK_SECONDS = 0.1
DEAD_LETTER_ATTEMPTS = 1_000_000
FIRST_ROUND_MS = 500
START_SECONDS_MAX = 60
RECOVERY_SECONDS_MAX = 120
# A broker that goes on for so long after its disk has failed has lost nothing by that.
HARMLESS_SECONDS = 30
# What brokers say, and stop for, when the arbiter's record is lost, old or of another founder, who
# has drawn a cluster id of its own where none is set.
TOLD_OF_THE_RECORD = re.compile("histor|has no record|an old copy of it|record is of cluster")


class StoryError(AssertionError):
    """A story that does not end well though no invariant was seen broken."""


class Story:
    """One plan, told once."""

    def __init__(
        self,
        seed: int,
        *,
        node_count: int | None = None,
        keeps_words: bool = False,
        is_compared: bool = False,
        plan: Plan | None = None,
    ) -> None:
        plan = self.plan = plan or draw(seed, node_count=node_count)
        self.cluster = Cluster(
            plan.seed,
            plan.node_count,
            self._properties(),
            keeps_words=keeps_words,
            is_compared=is_compared,
            arbiter_file_ms=1 + plan.strength if plan.has(Feature.ARBITER_FILE) else 0,
        )
        self.cluster.network.latency_ms = plan.latency_ms
        self.history = History()
        self.observer = Observer(self.cluster.store)
        self.faults = Faults(self.cluster, plan)
        self._operator = self._client("operator")
        traits = DiskTraits(
            run_ms_max=5 + plan.strength if plan.has(Feature.SLOW_DISKS) else 4,
            sync_ms=1 + plan.strength // 2 if plan.has(Feature.COSTLY_SYNCS) else 0,
            forgets_directories=plan.has(Feature.FORGETFUL_FOLDERS),
            reorders_writes=plan.has(Feature.REORDERED_WRITES),
            flips_bits=plan.has(Feature.FLIPPED_BITS),
        )
        for node in self.cluster.nodes:
            node.on_started.append(self._observe)
            node.on_append = self.observer.appended
            node.clock.rate = plan.clock_rate(node.node_id)
            node.use_traits(traits)
            if plan.has(Feature.RECORD_LOST) or plan.has(Feature.RECORD_RESTORED):
                node.tolerates = TOLD_OF_THE_RECORD
            # A cluster is founded at the newest level that its founder knows.
            node.is_old = plan.has(Feature.OLD_BROKERS) or not plan.has(Feature.ELIGIBLE)
        if plan.has(Feature.RETENTION):
            # Most stories are over before a broker first looks for what it may delete.
            self.cluster.first_round_ms = FIRST_ROUND_MS
        self.cluster.late_swap_ms_max = 3_000 if plan.has(Feature.LATE_SWAPS) else 0

    @property
    def exercised(self) -> Counter[str]:
        """What was on, and how often each fault befell."""
        return Counter({f"on: {feature}": 1 for feature in self.plan.features}) + self.faults.done

    def _properties(self) -> dict[str, str]:
        """The settings of the brokers."""
        return self.plan.properties() | (rights.SETTINGS if self.plan.has_rights else {})

    async def _check(self, admin: ClusterClient) -> None:
        """Hold what is there in the end against what clients know. Raises: HistoryError."""
        await check_everything(admin, self.history)

    def _client(self, name: str) -> ClusterClient:
        cluster = self.cluster
        return ClusterClient(
            name, cluster.network, cluster.addresses, self.plan.draws(name), cluster.trace.note
        )

    def _observe(self, node: Node) -> None:
        assert node.server is not None
        node.server.publisher.subscribe(self.observer.subscriber(node))

    def run(self) -> None:
        """Tell it. Raises: AssertionError, with the story so far."""
        try:
            # Faults may last for longer than dead letters are tried: then none would be looked for.
            with (
                self.observer.listening(),
                patch.object(dead_letter_writer, "ATTEMPTS", DEAD_LETTER_ATTEMPTS),
            ):
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
        plan = self.plan
        await patiently(
            admin,
            lambda: create_topic(admin, self.history, TOPIC, plan.partitions, plan.replicas),
            START_SECONDS_MAX,
        )
        if plan.has(Feature.OLD_BROKERS):
            await self._replace_old_brokers(plan.strength % plan.node_count)
        workers = self._workers()
        for worker in workers:
            if isinstance(worker, Specialist):
                worker.was_killed = lambda: any(node.life_count > 1 for node in nodes)
            elif isinstance(worker, Administrator):
                worker.may_leave_one = self.faults.may_lose_another
                self.faults.is_leaving_one = worker.is_leaving_one
        tasks = [asyncio.create_task(worker.run()) for worker in workers]
        befalling = asyncio.create_task(self.faults.run(plan.events, plan.length_ms))
        await self._while_nobody_fails(befalling, tasks)
        self.faults.end_all()
        if plan.has(Feature.OLD_BROKERS):
            await self._replace_old_brokers(plan.node_count)
        healthy = asyncio.create_task(self._until_healthy(RECOVERY_SECONDS_MAX))
        await self._while_nobody_fails(healthy, tasks)
        for worker in workers:
            worker.is_over = True
        await self._until_over(tasks)
        await self._until_healthy(RECOVERY_SECONDS_MAX, is_quiet=True)
        await self._check(admin)
        for worker in workers:
            if isinstance(worker, Specialist):
                await patiently(worker.client, worker.check, PATIENCE_SECONDS)
                worker.client.drop()
        admin.drop()
        self.observer.look(nodes)
        check_replicas(nodes)

    def _workers(self) -> list[Worker]:
        plan, history = self.plan, self.history
        wall_ms = self.cluster.nodes[0].clock.wall_ms
        # Long stories are as much work as short ones.
        pause_ms_max = 10 + plan.length_ms // BATCHES
        workers: list[Worker] = []
        for index in range(plan.partitions):
            for number, is_idempotent in enumerate((True, False)):
                if not is_idempotent and not plan.has(Feature.NOT_IDEMPOTENT):
                    continue
                workers.append(
                    Producer(
                        self._client(f"producer-{index}-{number}"),
                        history,
                        TOPIC,
                        index,
                        wall_ms,
                        is_idempotent=is_idempotent,
                        pause_ms_max=pause_ms_max,
                        rest_seconds=lambda: plan.rest_seconds(self.cluster.loop.true_seconds),
                    )
                )
            reader = self._client(f"reader-{index}")
            workers.append(Reader(reader, history, TOPIC, index, pause_ms_max=2 * pause_ms_max))
        if plan.has(Feature.COMMITTER):
            workers.append(Committer(self._client("committer"), history, "group", TOPIC))
        workers.append(Administrator(self._client("administrator"), history, TOPIC, plan))
        if plan.has(Feature.MEMBERS):
            team = GroupHistory(history, "team", TOPIC)
            workers.extend(
                GroupMember(
                    self._client(f"member-{number}"),
                    history,
                    team,
                    is_static=plan.has(Feature.STATIC_MEMBERS) and number > 0,
                )
                for number in range(2 + plan.strength % 2)
            )
        if plan.has(Feature.ELIGIBLE):
            workers.append(Upgrader(self._client("upgrader"), history, pause_ms_max=500))
        if plan.has(Feature.SESSIONS):
            rack = f"rack-{plan.strength % plan.node_count}"
            consumer = self._client("consumer")
            workers.append(SessionConsumer(consumer, history, TOPIC, plan.partitions, rack))
        return [*workers, *self._specialists(), *self._queue_users(), *self._list_users()]

    def _queue_users(self) -> list[Worker]:
        """Who appends to a queue, and the members of its group."""
        if not self.plan.has(Feature.QUEUE):
            return []
        wall_ms = self.cluster.nodes[0].clock.wall_ms
        user = QueueUser(self._client("queue-user"), self.history, self.plan, wall_ms)
        return [
            user,
            *(
                QueueMember(self._client(f"packer-{number}"), self.history, user.of)
                for number in range(2 + self.plan.strength % 2)
            ),
        ]

    def _list_users(self) -> list[Worker]:
        """Who appends to lists in transactions, who reads them, and who checks all that."""
        if not self.plan.has(Feature.TRANSACTIONS):
            return []
        history = self.history
        wall_ms = self.cluster.nodes[0].clock.wall_ms
        user = ListUser(self._client("list-user"), history, self.plan, wall_ms)
        return [
            user,
            *(
                Transactor(
                    self._client(f"transactor-{group}-{number}"),
                    history,
                    user.of,
                    wall_ms,
                    group=group,
                    version=user.version_of(group),
                )
                for group in range(user.of.group_count)
                for number in range(TRANSACTORS)
            ),
            *(ListReader(self._client(f"list-reader-{n}"), history, user.of) for n in range(2)),
        ]

    def _specialists(self) -> list[Worker]:
        """Workers with a topic of their own."""
        plan, history = self.plan, self.history
        wall_ms = self.cluster.nodes[0].clock.wall_ms
        workers: list[Worker] = []
        if plan.has(Feature.RETENTION) or plan.has(Feature.DELETED_RECORDS):
            workers.append(
                Trimmer(
                    self._client("trimmer"),
                    history,
                    plan,
                    wall_ms,
                    has_retention=plan.has(Feature.RETENTION),
                    deletes=plan.has(Feature.DELETED_RECORDS),
                )
            )
            workers.append(TrimmedReader(self._client("trimmed-reader"), history, TRIMMED, 0))
        if plan.has_rights:
            cluster = self.cluster
            user = rights.LoggedInClient(
                "carol", cluster.network, cluster.addresses, plan.draws("carol"), cluster.trace.note
            )
            changer = self._client("changer")
            workers.append(
                rights.RightsUser(changer, history, plan, wall_ms, user=user, nodes=cluster.nodes)
            )
        kinds: tuple[tuple[Feature, type[Specialist]], ...] = (
            (Feature.COMPACTION, TableWriter),
            (Feature.WIDE, WideWriter),
            (Feature.NAMES_AGAIN, Recycler),
            (Feature.UNCLEAN, UncleanUser),
        )
        for feature, kind in kinds:
            if plan.has(feature):
                workers.append(kind(self._client(str(feature)), history, plan, wall_ms))
        return workers

    async def _while_nobody_fails(
        self, act: "asyncio.Task[None]", tasks: "list[asyncio.Task[None]]"
    ) -> None:
        """Wait for something while clients work. Raises: what a client has found."""
        await asyncio.wait((act, *tasks), return_when=asyncio.FIRST_COMPLETED)
        for task in (*tasks, act):
            if task.done():
                task.result()

    async def _replace_old_brokers(self, below: int) -> None:
        """Roll nodes to this release: whoever is of the last one stops, and comes back.

        None while the controller does not know of a machine that lost what it had.
        """
        for node in self.cluster.nodes[:below]:
            if node.is_old:
                patience = asyncio.get_running_loop().time() + HARMLESS_SECONDS
                async with asyncio.timeout(RECOVERY_SECONDS_MAX):
                    while not self.faults.may_lose_another():
                        self._supervise()
                        await asyncio.sleep(LOOK_SECONDS)
                        if asyncio.get_running_loop().time() > patience:
                            self.faults.forget_harmless_failure()
                node.is_old = False
                node.stop()
                async with asyncio.timeout(RECOVERY_SECONDS_MAX):
                    await node.ended()
                if not node.is_up:
                    node.start()

    async def _until_healthy(self, seconds: float, *, is_quiet: bool = False) -> None:
        """Wait until all nodes serve and all replicas are in sync. Raises: StoryError."""
        deadline = self.cluster.loop.time() + seconds
        nodes = self.cluster.nodes
        while reason := unhealthy(nodes) or (uncommitted(nodes) if is_quiet else ""):
            self._supervise()
            await self._elect_for_lost_disks()
            if self.cluster.loop.time() > deadline:
                raise StoryError(f"not whole within {seconds} s: {reason}")
            await asyncio.sleep(LOOK_SECONDS)

    async def _until_over(self, tasks: "list[asyncio.Task[None]]") -> None:
        """Wait until all clients have their answers. Raises: what one has found; TimeoutError.

        A broker may find out only now that it has to stop, and is started again.
        """
        left = set(tasks)
        async with asyncio.timeout(RECOVERY_SECONDS_MAX):
            while left:
                self._supervise()
                done, left = await asyncio.wait(
                    left, timeout=LOOK_SECONDS, return_when=asyncio.FIRST_EXCEPTION
                )
                for task in done:
                    task.result()

    def _supervise(self) -> None:
        """Start again who has stopped because of a fault, as a supervisor does."""
        for node in self.cluster.nodes:
            if not node.is_up:
                node.start()
            elif node.is_ready and node.server is not None and has_lost_directory(node.server):
                node.stop()

    async def _elect_for_lost_disks(self) -> None:
        """Elect uncleanly where only that helps, as an operator does: see `led_by_lost_disks`."""
        partitions = self.faults.led_by_lost_disks()
        if partitions:
            self.cluster.trace.tell("elected uncleanly for a lost disk", partitions)
            with contextlib.suppress(*LOST):
                await elect_uncleanly(self._operator, partitions)
