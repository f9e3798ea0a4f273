"""A story by seed: a cluster of whole brokers that much befalls while our own clients use it.

Machines, network and what befalls them are those of the cluster's stories, and so are their
invariants; what the clients were told is held against what is there in the end.
"""

import asyncio
import random
from collections.abc import Mapping
from functools import partial

from barnabas_broker.coordinator.group.settings import OFFSETS_TOPIC
from barnabas_client import Admin
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.records.record import Record
from tests.simulation import requests
from tests.simulation.cluster import story as cluster_story
from tests.simulation.cluster.administration import Administrator
from tests.simulation.cluster.checks import PATIENCE_SECONDS, read_records
from tests.simulation.cluster.client import ClusterClient, checked
from tests.simulation.cluster.history import History
from tests.simulation.cluster.plan import Feature, Plan, draw
from tests.simulation.cluster.workload import Worker, patiently
from tests.simulation.together.checks import check_commit, check_group, check_producer
from tests.simulation.together.ownership import check_ownership
from tests.simulation.together.programs import Programs, Violation, bootstrap
from tests.simulation.together.transactions import (
    LEDGER,
    TransactionPrograms,
    check_offset,
    check_transactions,
    read_decided,
    read_offset,
)
from tests.simulation.together.workers import (
    FAST,
    HEARTBEAT_MS,
    REMADE,
    SESSION_MS,
    Group,
    MemberPrograms,
    ProducerPrograms,
    RemakerPrograms,
)

TOPIC = cluster_story.TOPIC
OTHERS_TOPICS = (
    # Features of the cluster's stories for workers that have topics of their own.
    Feature.COMMITTER,
    Feature.MEMBERS,
    Feature.SESSIONS,
    Feature.RETENTION,
    Feature.DELETED_RECORDS,
    Feature.COMPACTION,
    Feature.NAMES_AGAIN,
    Feature.WIDE,
    Feature.UNCLEAN,
    Feature.TRANSACTIONS,
)
EMPTY_SECONDS = 30.0


class CommitReader(Worker):
    """Looks again and again whether what a group has committed was handed out."""

    def __init__(self, client: ClusterClient, history: History, plan: Plan, group: Group) -> None:
        super().__init__(client, history, pause_ms_max=300)
        self._partitions = range(plan.partitions)
        self._group = group

    async def work(self) -> None:
        """Look. Raises: LOST; Violation."""
        while not self.is_over:
            await self.look()
            await self.pause()

    async def look(self) -> None:
        """Look at each partition once. Raises: LOST; Violation."""
        group = self._group
        connection = await self.client.connect(await self.client.coordinator_of(group.name))
        for index in self._partitions:
            async with asyncio.timeout(self.client.answer_seconds):
                code, offset = await requests.committed_offset(
                    connection, group.name, group.topic, index
                )
            if not checked(code):
                raise Violation(f"offsets of {group.name}: {ErrorCode(code).name}")
            check_commit(group, index, offset)
        self.client.works()


class Story(cluster_story.Story):
    """One plan, told once, with our own clients."""

    def __init__(
        self,
        seed: int,
        *,
        keeps_words: bool = False,
        is_compared: bool = False,
        plan: Plan | None = None,
    ) -> None:
        plan = (plan or draw(seed)).without(*OTHERS_TOPICS)
        super().__init__(seed, keeps_words=keeps_words, is_compared=is_compared, plan=plan)
        self.draws = random.Random(f"together {seed}")
        self.programs = Programs(self.cluster, seed)
        self.producers: list[ProducerPrograms] = []
        self.groups: list[Group] = []
        self.commit_readers: list[CommitReader] = []
        self.assignment_count = 0
        self.has_remade = self.draws.random() < 0.3
        self.ledgers: list[TransactionPrograms] = []
        apart = random.Random(f"transactions {seed}")
        self.ledger_count = apart.choice((0, 1, 1, 2, 2))
        self.rival_id = "ledger" if self.ledger_count > 1 and apart.random() < 0.6 else None
        # Whose records they are is known here, not by the history.
        self.history.checked_apart |= {TOPIC, REMADE, LEDGER}

    def run(self) -> None:
        """Tell it. Raises: AssertionError, with the story so far."""
        with self.programs.seams():
            super().run()
        if self.programs.complaints:
            raise Violation("\n".join(self.programs.complaints))

    def _properties(self) -> dict[str, str]:
        return {
            **super()._properties(),
            "auto.create.topics.enable": "false",
            "group.min.session.timeout.ms": str(SESSION_MS // 2),
            "group.consumer.min.session.timeout.ms": str(SESSION_MS // 2),
            "group.consumer.session.timeout.ms": str(SESSION_MS),
            "group.consumer.min.heartbeat.interval.ms": str(HEARTBEAT_MS),
            "group.consumer.heartbeat.interval.ms": str(HEARTBEAT_MS),
            "group.consumer.assignment.interval.ms": "200",
            "transaction.state.log.num.partitions": "3",
            "transaction.state.log.replication.factor": str(self.plan.replicas),
            "transaction.state.log.min.isr": str(self.plan.in_sync_min),
            "share.coordinator.state.topic.replication.factor": str(self.plan.replicas),
            "share.coordinator.state.topic.min.isr": str(self.plan.in_sync_min),
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
        }

    def _workers(self) -> list[Worker]:
        plan, history, draws = self.plan, self.history, self.draws
        workers: list[Worker] = [Administrator(self._client("administrator"), history, TOPIC, plan)]
        topics = (TOPIC, TOPIC, REMADE) if self.has_remade else (TOPIC,)
        if self.has_remade:
            workers.append(RemakerPrograms(self._client("remaker"), history, plan, self.programs))
        for number in range(draws.choice((1, 1, 2))):
            producer = ProducerPrograms(
                self._client(f"p{number}"),
                history,
                plan,
                self.programs,
                is_idempotent=draws.random() < 0.8,
                topics=topics,
            )
            self.producers.append(producer)
            workers.append(producer)
        for number in range(draws.choice((0, 1, 1, 2))):
            group = Group(f"g{number}", TOPIC, plan, self.programs)
            self.groups.append(group)
            reader = CommitReader(self._client(f"commits-of-g{number}"), history, plan, group)
            self.commit_readers.append(reader)
            workers.append(reader)
            for member in range(draws.choice((1, 2, 3))):
                client = self._client(f"g{number}-m{member}")
                workers.append(MemberPrograms(client, history, plan, self.programs, group))
        for number in range(self.ledger_count):
            client = self._client(f"ledger-{number}")
            ledger = TransactionPrograms(
                client, history, plan, self.programs, rival_id=self.rival_id
            )
            self.ledgers.append(ledger)
            workers.append(ledger)
        return workers

    async def _check(self, admin: ClusterClient) -> None:
        await super()._check(admin)
        logs = {TOPIC: await self._read(admin, TOPIC, self.plan.partitions)}
        if self.has_remade:
            logs[REMADE] = await self._read(admin, REMADE, await self._count(admin, REMADE))
        for worker in self.producers:
            for life in worker.lives:
                check_producer(life, logs, remade=frozenset({REMADE}))
        ends = {index: len(values) for index, values in logs[TOPIC].items()}
        if self.ledgers:
            await self.programs.run("auditor", self._audit())
        for group in self.groups:
            await self.programs.run(f"{group.name}-last", group.drain(ends))
            check_group(group, logs[TOPIC])
        for reader in self.commit_readers:
            await patiently(reader.client, reader.look, PATIENCE_SECONDS)
            reader.client.drop()
        if self.groups:
            await self.programs.run("admin", self._see_groups_empty())
            await self._check_ownership(admin)

    async def _check_ownership(self, admin: ClusterClient) -> None:
        async def read(index: int) -> None:
            address, _ = await admin.leader_of(OFFSETS_TOPIC, index)
            connection = await admin.connect(address)
            records: list[Record] = []
            offset, end = 0, 1
            while offset < end:
                found = await requests.read_from(connection, OFFSETS_TOPIC, index, offset)
                checked(found.error_code)
                records += found.records
                # Markers of transactions are no records.
                offset, end = max(found.end_offset, offset + 1), found.high_watermark
            self.assignment_count += check_ownership(records)

        for index in range(await self._count(admin, OFFSETS_TOPIC)):
            await patiently(admin, partial(read, index), PATIENCE_SECONDS)

    async def _audit(self) -> None:
        found = await read_decided(bootstrap(self.cluster))
        for ledger in self.ledgers:
            prefix = f"{ledger.name}/".encode()
            own = {
                index: [value for value in values if value.startswith(prefix)]
                for index, values in found.items()
            }
            check_transactions(ledger.attempts, own)
            offset = await read_offset(bootstrap(self.cluster), ledger.group_id)
            check_offset(ledger.attempts, own, offset)

    async def _count(self, admin: ClusterClient, topic: str) -> int:
        """How many partitions a topic has in the end."""
        count = 0

        async def ask() -> None:
            nonlocal count
            (found,) = (await admin.metadata(topic)).topics
            checked(found.error_code)
            count = len(found.partitions)

        await patiently(admin, ask, PATIENCE_SECONDS)
        return count

    async def _read(self, admin: ClusterClient, topic: str, count: int) -> dict[int, list[bytes]]:
        """The values of each partition, by offset."""
        found: dict[int, list[bytes]] = {}

        async def read(index: int) -> None:
            records = await read_records(admin, topic, index)
            if [record.offset for record in records] != [*range(len(records))]:
                raise Violation(f"{topic}-{index} has gaps")
            found[index] = [record.value or b"" for record in records]

        for index in range(count):
            await patiently(admin, partial(read, index), PATIENCE_SECONDS)
        return found

    async def _see_groups_empty(self) -> None:
        """Members that have left are gone at once, those that died after their session."""
        async with Admin(bootstrap(self.cluster), **FAST) as admin:
            names = [group.name for group in self.groups]
            left: Mapping[str, object] = {}
            deadline = self.cluster.loop.time() + EMPTY_SECONDS
            while self.cluster.loop.time() < deadline:
                described = await admin.groups.describe(names)
                left = {
                    name: group.members
                    for name, group in described.successes.items()
                    if group.members
                }
                if not left and not described.errors:
                    return
                await asyncio.sleep(0.5)
            raise Violation(f"left in the groups: {left}, {described.errors}")
