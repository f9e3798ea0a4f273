"""Elects the replica with the best log where no eligible one is left: one task of the controller.

A partition whose ISR and eligible replicas are empty has lost records on all of them, or may have:
each member has been down with its machine. What is left of them differs, and who has most is asked
for (LogEnds, 20004): the highest last leader epoch, then the longest log. The same is done before
an unclean election. Pure choice first, then the task. Source: KIP-966 (the last known leader, which
is elected there without a look at the others), LEAD-2, LEAD-7; `docs/cluster.md`.

Bounds: one question a broker at a time, of `PARTITIONS_MAX` partitions; a partition waits for those
that it would rather hear for one session timeout, in which any broker that lives has been heard.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from barnabas_broker.controller import elections, eligible_replicas
from barnabas_broker.controller.elections import Comparison, TopicConfigs
from barnabas_broker.controller.event_queue import Command
from barnabas_broker.controller.partition_change import Candidates
from barnabas_broker.env.clock import Clock
from barnabas_broker.metadata.image import NO_LEADER, MetadataImage, PartitionImage
from barnabas_broker.metadata.log_ends import LogEnd
from barnabas_broker.metadata.records import MetadataRecord, PartitionRecord, ProducerIdsRecord
from barnabas_protocol.errors import KafkaError

logger = logging.getLogger(__name__)

PARTITIONS_MAX: Final = 2000
ASK_TIMEOUT_MS: Final = 2000
RETRY_MS: Final = 250

TopicIdPartition = tuple[bytes, int]
"""Topic id and partition."""


class LogEnds(NamedTuple):
    """What a broker has answered: under which broker epoch, and the ends of the logs it has."""

    broker_epoch: int
    ends: Mapping[TopicIdPartition, LogEnd]


class RequestLogEnds(Protocol):
    """The way to the brokers, this one included."""

    async def __call__(
        self, node_id: int, partitions: Sequence[TopicIdPartition], timeout_ms: int
    ) -> LogEnds | None:
        """How far a broker's replicas reach; None if it does not answer in time."""
        ...


async def no_log_ends(
    node_id: int, partitions: Sequence[TopicIdPartition], timeout_ms: int
) -> LogEnds | None:
    """The way to the brokers of a controller that has none."""
    return None


class Undecided(NamedTuple):
    """A partition without a leader that only a comparison can give one."""

    topic_id_partition: TopicIdPartition
    partition: PartitionImage
    # An unclean election is allowed: any replica is better than none.
    may_be_unclean: bool


def undecided(image: MetadataImage, configs: TopicConfigs) -> list[Undecided]:
    """The partitions to compare: nobody may lead them by what the metadata says."""
    if not eligible_replicas.is_on(image):
        return []
    candidates = Candidates(image)
    found = []
    for topic in image.topics.by_id.values():
        may_be_unclean: bool | None = None
        for index, partition in enumerate(topic.partitions):
            if partition.leader != NO_LEADER:
                continue
            if may_be_unclean is None:
                may_be_unclean = configs(image, topic.name).unclean_leader_election_enable
            is_empty = not partition.isr and not partition.eligible_leader_replicas
            if (may_be_unclean or (is_empty and partition.last_known_elr)) and any(
                candidates.may_lead(node, partition) for node in partition.replicas
            ):
                found.append(Undecided((topic.topic_id, index), partition, may_be_unclean))
    return found


def compare(
    one: Undecided, image: MetadataImage, answers: Mapping[int, LogEnds], *, is_late: bool
) -> Comparison | None:
    """Who is to lead, the best log first; None while somebody has to be waited for.

    Without unclean elections at least one that had everything once must have answered, and all of
    those are waited for until it is late. Otherwise those that live are.
    """
    partition = one.partition
    ends = {
        node: answer.ends[one.topic_id_partition]
        for node in partition.replicas
        if (answer := answers.get(node)) is not None
        and one.topic_id_partition in answer.ends
        and node in image.brokers
        and image.brokers[node].epoch == answer.broker_epoch
    }
    known = set(partition.last_known_elr)
    if one.may_be_unclean:
        candidates = Candidates(image)
        wanted = {node for node in partition.replicas if candidates.may_lead(node, partition)}
        if not wanted <= ends.keys() and not is_late:
            return None
    elif not known & ends.keys() or (not known <= ends.keys() and not is_late):
        return None
    order = sorted(ends, key=lambda node: (ends[node], node in known), reverse=True)
    return Comparison(
        partition_epoch=partition.partition_epoch,
        order=tuple(order),
        broker_epochs={node: answers[node].broker_epoch for node in order},
        may_be_unclean=one.may_be_unclean,
        said=", ".join(
            f"{node}: epoch {ends[node].last_epoch}, end {ends[node].end_offset}"
            if node in ends
            else f"{node}: no answer"
            for node in partition.replicas
        ),
    )


class LogComparison:
    """Looks for undecided partitions whenever one may have appeared, while this node decides."""

    def __init__(
        self,
        *,
        clock: Clock,
        image: Callable[[], MetadataImage],
        configs: TopicConfigs,
        ask: RequestLogEnds,
        enqueue: Callable[[Command[int]], Awaitable[int]],
        wait_ms_max: int,
    ) -> None:
        """`image` is what is decided so far; a command says how many leaders it has elected."""
        self._clock = clock
        self._image = image
        self._configs = configs
        self._ask = ask
        self._enqueue = enqueue
        self._wait_ms_max = wait_ms_max
        self._since_ms: dict[TopicIdPartition, int] = {}
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.elected_count = 0

    @property
    def waiting_count(self) -> int:
        """The partitions that wait for answers."""
        return len(self._since_ms)

    def waiting(self) -> list[str]:
        """The names of those partitions, in order."""
        if not self._since_ms:
            return []
        by_id = self._image().topics.by_id
        return sorted(
            f"{by_id[topic_id].name}-{index}"
            for topic_id, index in self._since_ms
            if topic_id in by_id
        )

    def start(self) -> None:
        """Begin to look."""
        self._wake.set()
        self._task = asyncio.create_task(self._run(), name="log comparison")

    def stop(self) -> None:
        """Look no more; safe at any time."""
        if self._task is not None:
            self._task.cancel()
            self._task = None
        self._since_ms.clear()

    def note(self, records: Sequence[MetadataRecord]) -> None:
        """Look again if what was decided may have left a partition without leader, or found one."""
        if any(
            not isinstance(record, ProducerIdsRecord)
            and (not isinstance(record, PartitionRecord) or record.leader == NO_LEADER)
            for record in records
        ):
            self._wake.set()

    async def best_logs(
        self, partitions: Iterable[TopicIdPartition]
    ) -> dict[TopicIdPartition, list[int]]:
        """For partitions without a leader, the nodes that answer, the best log first."""
        image = self._image()
        found = []
        for topic_id, index in partitions:
            topic = image.topics.by_id.get(topic_id)
            if topic is not None and topic.partitions[index].leader == NO_LEADER:
                found.append(Undecided((topic_id, index), topic.partitions[index], True))
        answers = await self._answers(image, found)
        orders = {
            one.topic_id_partition: compare(one, image, answers, is_late=True) for one in found
        }
        return {
            partition: list(order.order) for partition, order in orders.items() if order is not None
        }

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            try:
                while await self._look():
                    try:
                        async with asyncio.timeout(RETRY_MS / 1000):
                            await self._wake.wait()
                    except TimeoutError:
                        pass
                    self._wake.clear()
            except Exception:
                # Without this task partitions would stay without a leader.
                logger.exception("logs could not be compared")
                await asyncio.sleep(RETRY_MS / 1000)
                self._wake.set()

    async def _look(self) -> bool:
        """One round; whether there is still something undecided."""
        image = self._image()
        found = undecided(image, self._configs)
        now_ms = self._clock.monotonic_ms()
        self._since_ms = {
            one.topic_id_partition: self._since_ms.get(one.topic_id_partition, now_ms)
            for one in found
        }
        if not found:
            return False
        answers = await self._answers(image, found)
        now_ms = self._clock.monotonic_ms()
        decided = {}
        for one in found:
            is_late = now_ms - self._since_ms[one.topic_id_partition] >= self._wait_ms_max
            comparison = compare(one, image, answers, is_late=is_late)
            if comparison is not None:
                decided[one.topic_id_partition] = comparison
        if decided:
            try:
                elected = await self._enqueue(lambda now: elections.compared(now, decided))
            except KafkaError:
                return False  # another node is the controller by now
            self.elected_count += elected
        return True

    async def _answers(
        self, image: MetadataImage, found: Sequence[Undecided]
    ) -> dict[int, LogEnds]:
        """What the brokers that live answer, all asked at once."""
        asked: dict[int, list[TopicIdPartition]] = {}
        for one in found:
            for node in one.partition.replicas:
                broker = image.brokers.get(node)
                if broker is not None and not broker.fenced:
                    asked.setdefault(node, []).append(one.topic_id_partition)
        gathered = await asyncio.gather(*(self._ask_all(node, asked[node]) for node in asked))
        return {
            node: answer for node, answer in zip(asked, gathered, strict=True) if answer is not None
        }

    async def _ask_all(
        self, node_id: int, partitions: Sequence[TopicIdPartition]
    ) -> LogEnds | None:
        ends: dict[TopicIdPartition, LogEnd] = {}
        broker_epoch = -1
        for start in range(0, len(partitions), PARTITIONS_MAX):
            part = partitions[start : start + PARTITIONS_MAX]
            answer = await self._ask(node_id, part, ASK_TIMEOUT_MS)
            if answer is None or (start and answer.broker_epoch != broker_epoch):
                return None
            broker_epoch = answer.broker_epoch
            ends.update(answer.ends)
        return LogEnds(broker_epoch, ends)
