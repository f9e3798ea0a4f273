"""Sends AlterPartition requests and tracks the proposed ISR of each partition led here.

Partitions decide what to propose (`partition.py`); their next metadata image has the ISR in force.
Source: KIP-497, KIP-841 and KIP-903 (broker epochs); REP-6 and REP-8.
Invariants: one request, of many partitions, is in flight at a time, and one proposal a partition; a
proposal is only dropped when the controller has certainly refused it, or when newer metadata has
come: until then the partition counts both ISRs.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any, Protocol

from barnabas_broker.env.clock import Clock
from barnabas_broker.replication.partition import Partition
from barnabas_protocol.backoff import ExponentialBackoff
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    BrokerState,
)

logger = logging.getLogger(__name__)

BACKOFF = ExponentialBackoff(50, 1_000)
# Proposals in one request; the rest comes with the next.
PARTITIONS_MAX = 10_000
NAMES_LOGGED_MAX = 20

# The controller has refused the proposal, and cannot have accepted it before.
_REFUSALS = frozenset((ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED))
# The controller knows more than we do, perhaps just this proposal, whose response was lost: its
# metadata is on the way to us.
_OUTDATED = frozenset(
    (
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.NEW_LEADER_ELECTED,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
    )
)

Spawn = Callable[[Coroutine[Any, Any, None]], None]


class Channel(Protocol):
    """The way to the controller."""

    async def send(self, request: Any, *, timeout_ms: int) -> Any:
        """The controller's response. Raises: KafkaError 7 after the time-out."""
        ...


class ProposedIsr:
    """An ISR that a partition has proposed, with the state in which it did.

    The broker epochs are those of the fetches that it rests on: the controller refuses the proposal
    if one of them is another one by the time it decides (KIP-903).
    """

    __slots__ = ("broker_epochs", "isr", "leader_epoch", "old_isr", "partition", "partition_epoch")

    def __init__(self, partition: Partition, isr: tuple[int, ...]) -> None:
        self.partition = partition
        self.isr = isr
        self.old_isr = partition.image.isr
        self.broker_epochs = {node: partition.followers.broker_epoch(node) for node in isr}
        self.leader_epoch = partition.image.leader_epoch
        self.partition_epoch = partition.image.partition_epoch

    @property
    def is_open(self) -> bool:
        """Whether the partition still waits for just this."""
        partition = self.partition
        return (
            partition.proposed_isr is self.isr
            and partition.image.partition_epoch == self.partition_epoch
            and not partition.log.is_offline
        )


class AlterPartitionManager:
    """The proposed ISRs of all partitions led here."""

    def __init__(
        self,
        channel: Channel,
        *,
        node_id: int,
        broker_epoch: Callable[[], int],
        spawn: Spawn,
        timeout_ms: int,
    ) -> None:
        self._channel = channel
        self._node_id = node_id
        self._broker_epoch = broker_epoch
        self._spawn = spawn
        self._timeout_ms = timeout_ms
        self._proposals: dict[Partition, ProposedIsr] = {}
        self._is_running = False
        self._has_news = asyncio.Event()
        self.shrinks_count = 0
        self.expands_count = 0
        self.failures_count = 0

    @property
    def pending_count(self) -> int:
        """Proposals without a response."""
        return len(self._proposals)

    def propose(self, partition: Partition, isr: tuple[int, ...]) -> None:
        """Propose an ISR, together with all else that is proposed by the time of the request."""
        self._proposals[partition] = ProposedIsr(partition, isr)
        self._has_news.set()
        if not self._is_running:
            self._is_running = True
            self._spawn(self._run())

    async def _run(self) -> None:
        """Send proposals as long as there are any."""
        failures = 0
        try:
            while batch := self._next_batch():
                self._has_news.clear()
                if await self._send(batch):
                    failures = 0
                else:
                    await self._pause(BACKOFF.wait_ms(failures))
                    failures += 1
        finally:
            self._is_running = False

    async def _pause(self, retry_ms: int) -> None:
        """Leave the controller alone for a while, a shorter one if there is a new proposal."""
        await asyncio.sleep(BACKOFF.initial_ms / 1000)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout((retry_ms - BACKOFF.initial_ms) / 1000):
                await self._has_news.wait()

    def _next_batch(self) -> list[ProposedIsr]:
        for partition, proposal in list(self._proposals.items()):
            if not proposal.is_open:
                del self._proposals[partition]
        return list(self._proposals.values())[:PARTITIONS_MAX]

    async def _send(self, batch: list[ProposedIsr]) -> bool:
        """Send one request; returns whether all of it is settled."""
        try:
            response = await self._channel.send(self._request(batch), timeout_ms=self._timeout_ms)
        except KafkaError as error:
            self._failed("AlterPartition", error.code)
            return False
        if response.error_code != ErrorCode.NONE:
            # For example an old broker epoch: the next request has the newest.
            self._failed("AlterPartition", response.error_code)
            return False
        return self._settle(batch, response)

    def _request(self, batch: list[ProposedIsr]) -> AlterPartitionRequest:
        broker_epoch = self._broker_epoch()
        topics: dict[bytes, AlterPartitionRequestTopicData] = {}
        for proposal in batch:
            partition = proposal.partition
            topic_id = partition.topic_id
            topic = topics.get(topic_id)
            if topic is None:
                topic = topics[topic_id] = AlterPartitionRequestTopicData(
                    topic_id=topic_id, partitions=[]
                )
            topic.partitions.append(
                AlterPartitionRequestPartitionData(
                    partition_index=partition.topic_partition.partition,
                    leader_epoch=proposal.leader_epoch,
                    new_isr=list(proposal.isr),
                    new_isr_with_epochs=[
                        BrokerState(
                            broker_id=node_id,
                            broker_epoch=(
                                broker_epoch
                                if node_id == self._node_id
                                else proposal.broker_epochs[node_id]
                            ),
                        )
                        for node_id in proposal.isr
                    ],
                    leader_recovery_state=0,
                    partition_epoch=proposal.partition_epoch,
                )
            )
        return AlterPartitionRequest(
            broker_id=self._node_id, broker_epoch=broker_epoch, topics=list(topics.values())
        )

    def _settle(self, batch: list[ProposedIsr], response: AlterPartitionResponse) -> bool:
        results = {
            (topic.topic_id, partition.partition_index): partition
            for topic in response.topics
            for partition in topic.partitions
        }
        is_through = True
        granted: dict[tuple[tuple[int, ...], tuple[int, ...]], list[str]] = {}
        refused: dict[int, list[str]] = {}
        for proposal in batch:
            partition = proposal.partition
            key = (partition.topic_id, partition.topic_partition.partition)
            result = results.get(key)
            code = ErrorCode.UNKNOWN_SERVER_ERROR if result is None else result.error_code
            name = "{}-{}".format(*partition.topic_partition)
            if result is not None and code == ErrorCode.NONE:
                if self._granted(proposal, result):
                    granted.setdefault((proposal.old_isr, proposal.isr), []).append(name)
                continue
            refused.setdefault(code, []).append(name)
            # Sent again if newer metadata does not come meanwhile, as after the controller fails.
            is_through = False
            if code in _REFUSALS:
                self._forget(proposal)
                if proposal.is_open:
                    partition.isr_refused()
        for (old_isr, isr), names in granted.items():
            _log_change(old_isr, isr, names)
        for code, names in refused.items():
            self._failed(_listed(names), code, count=len(names))
        return is_through

    def _granted(self, proposal: ProposedIsr, result: AlterPartitionResponsePartitionData) -> bool:
        """Wait for the metadata with the new ISR; both count until then. Returns if it changes."""
        self._forget(proposal)
        if result.partition_epoch == proposal.partition_epoch:
            if proposal.is_open:  # nothing was changed, so no metadata will come
                proposal.partition.isr_refused()
            return False
        if len(proposal.isr) < len(proposal.old_isr):
            self.shrinks_count += 1
        else:
            self.expands_count += 1
        return True

    def _forget(self, proposal: ProposedIsr) -> None:
        if self._proposals.get(proposal.partition) is proposal:
            del self._proposals[proposal.partition]

    def _failed(self, what: str, code: int, *, count: int = 1) -> None:
        self.failures_count += count
        level = logging.DEBUG if code in _OUTDATED else logging.INFO
        logger.log(level, "%s: the ISR is not changed, error %d", what, code)


async def keep_shrinking(
    partitions: Callable[[], Iterable[Partition]], clock: Clock, lag_ms_max: int
) -> None:
    """Look for followers that lag behind twice in the longest lag that is borne (REP-6)."""
    while True:
        await asyncio.sleep(lag_ms_max / 2000)
        now_ms = clock.monotonic_ms()
        for partition in list(partitions()):
            try:
                partition.check_isr_shrink(now_ms)
            except Exception:
                logger.exception("the ISR of %s-%d is not looked at", *partition.topic_partition)


def _log_change(old_isr: Sequence[int], isr: Sequence[int], names: Sequence[str]) -> None:
    """One line for all partitions that change alike: a broker that comes or goes has thousands."""
    change = "shrinks" if len(isr) < len(old_isr) else "grows"
    logger.info("the ISR %s from %s to %s: %s", change, list(old_isr), list(isr), _listed(names))


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMES_LOGGED_MAX} more" if len(names) > NAMES_LOGGED_MAX else ""
    return ", ".join(names[:NAMES_LOGGED_MAX]) + more
