"""Members of a share group over all that befalls leaders and coordinators: a topic as a queue.

They acquire, accept, release, reject and forget. What no sound cluster may do: deliver again what
it has said is accepted or rejected, lose a record that nobody has accepted and that is no dead
letter, or let two members have one record at a time (`ShareLocks`).

A record may be a dead letter twice, and be accepted besides: an answer may be lost.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from barnabas_broker.metadata.image import RESOURCE_GROUP
from barnabas_protocol.api import ApiKey
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.messages import (
    describe_share_group_offsets,
    incremental_alter_configs,
    share_acknowledge,
    share_fetch,
    share_group_heartbeat,
)
from tests.simulation import requests
from tests.simulation.cluster.administration import create_topic
from tests.simulation.cluster.checks import read_records
from tests.simulation.cluster.client import Address, ClusterClient, RetryError, checked
from tests.simulation.cluster.history import History, HistoryError
from tests.simulation.cluster.specialists import Specialist
from tests.simulation.cluster.workload import Worker

QUEUE, LETTERS, GROUP = "queue", "dlq.queue", "packers"
ACCEPT, RELEASE, REJECT = 1, 2, 3
# What a member makes of a record, one of these by chance; 0 is nothing, so that its lock runs out.
CHOICES = (ACCEPT,) * 14 + (RELEASE,) * 3 + (REJECT,) * 2 + (0,)
WAIT_MS = 300
HANGS_MS_MAX = 4_000
SETTINGS = {
    "share.auto.offset.reset": "earliest",
    "share.delivery.count.limit": "3",
    "errors.deadletterqueue.topic.name": LETTERS,
}
FORGOTTEN = frozenset(
    (
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.GROUP_ID_NOT_FOUND,
    )
)
NEW_SESSION = frozenset(
    (
        ErrorCode.SHARE_SESSION_NOT_FOUND,
        ErrorCode.INVALID_SHARE_SESSION_EPOCH,
        ErrorCode.SHARE_SESSION_LIMIT_REACHED,
    )
)


class QueueHistory:
    """What the members of the group were told, of one partition."""

    def __init__(self) -> None:
        self.is_ready = False
        self.topic_id = b""
        # Offsets whose append was acknowledged.
        self.appended: set[int] = set()
        self.accepted_perhaps: set[int] = set()
        # Accepted or rejected, and answered so: by the leader of which leader epoch.
        self.final: dict[int, int] = {}

    def acquired(
        self, name: str, offsets: Sequence[int], leader_epoch: int, before: Mapping[int, int]
    ) -> None:
        """Take what was acquired of a leader; `before` is what was final when it was asked for.

        Raises: HistoryError where that is in it; a leader that has been replaced, and does not know
        of that, may deliver it, for nothing: it can store no acknowledgement any more.
        """
        again = [o for o in offsets if o in before and before[o] <= leader_epoch]
        if again:
            raise HistoryError(f"{name} gets {again} of {QUEUE} again, which were final")

    def finished(self, name: str, offsets: Sequence[int], leader_epoch: int) -> None:
        """Take what was accepted or rejected. Raises: HistoryError of an older leader epoch."""
        for offset in offsets:
            if self.final.setdefault(offset, leader_epoch) > leader_epoch:
                raise HistoryError(
                    f"{name} ends {offset} of {QUEUE}, which a newer leader has ended"
                )


class QueueMember(Worker):
    """One member, with a session at whoever leads the partition."""

    def __init__(self, client: ClusterClient, history: History, of: QueueHistory) -> None:
        super().__init__(client, history, pause_ms_max=150)
        self._of = of
        self._member_id = f"{client.name}-1"
        self._lives = 1
        self._epoch = 0
        self.is_assigned = False
        self.session_epoch = 0
        self._leader: Address | None = None
        self._leader_epoch = -1

    def interrupted(self) -> None:
        """Sessions end with their connections."""
        self.session_epoch = 0

    async def work(self) -> None:
        """Take part until it is over. Raises: LOST; HistoryError."""
        while not self.is_over:
            if not self._of.is_ready:
                await self.pause()
                continue
            await self.step()
            await self.pause()

    async def step(self, *, accepts_all: bool = False) -> None:
        """Send a heartbeat, acquire something, and say what becomes of it. Raises: LOST; ..."""
        if not self.random.integer(30) and not accepts_all:
            self._lives += 1  # a new process, that knows nothing of the last one
            self._member_id = f"{self.client.name}-{self._lives}"
            self._epoch = self.session_epoch = 0
            self.is_assigned = False
        await self.heartbeat()
        if not self.is_assigned:
            return
        address, self._leader_epoch = await self.client.leader_of(QUEUE, 0)
        if address != self._leader:
            self._leader, self.session_epoch = address, 0
        final_before = dict(self._of.final)
        ranges = await self.fetch(address)
        offsets = [o for first, last in ranges for o in range(first, last + 1)]
        self._of.acquired(self.client.name, offsets, self._leader_epoch, final_before)
        if not offsets:
            return
        if not accepts_all and not self.random.integer(6):
            await asyncio.sleep(self.random.integer(HANGS_MS_MAX) / 1000)
        kinds = [
            ACCEPT if accepts_all else CHOICES[self.random.integer(len(CHOICES))] for _ in offsets
        ]
        for kind in (ACCEPT, RELEASE, REJECT):
            chosen = [o for o, one in zip(offsets, kinds, strict=True) if one == kind]
            if chosen:
                await self._acknowledge(address, chosen, kind)

    async def heartbeat(self) -> None:
        """Join, or show that it lives. Raises: LOST; HistoryError."""
        address = await self.client.coordinator_of(GROUP)
        request = share_group_heartbeat.ShareGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=self._member_id,
            member_epoch=self._epoch,
            subscribed_topic_names=[QUEUE] if self._epoch == 0 else None,
        )
        answer = await self.client.call(address, ApiKey.SHARE_GROUP_HEARTBEAT, 1, request)
        if answer.error_code in FORGOTTEN:
            self._epoch, self.is_assigned = 0, False
            raise RetryError(ErrorCode(answer.error_code).name)
        self._checked(answer.error_code, "heartbeat")
        self._epoch = answer.member_epoch
        if answer.assignment is not None:
            self.is_assigned = bool(answer.assignment.topic_partitions)

    def _checked(self, error_code: int, what: str) -> None:
        """Raises: RetryError, HistoryError."""
        if error_code in NEW_SESSION:
            self.session_epoch = 0
            raise RetryError(ErrorCode(error_code).name)
        if not checked(error_code):
            raise HistoryError(f"{what} of {self.client.name}: {ErrorCode(error_code).name}")

    async def fetch(self, address: Address) -> list[tuple[int, int]]:
        """Return what is acquired. Raises: LOST; HistoryError."""
        is_first = self.session_epoch == 0
        request = share_fetch.ShareFetchRequest(
            group_id=GROUP,
            member_id=self._member_id,
            share_session_epoch=self.session_epoch,
            max_wait_ms=WAIT_MS,
            min_bytes=1,
            max_bytes=1 << 20,
            max_records=1 + self.random.integer(20),
            batch_size=1 + self.random.integer(5),
            share_acquire_mode=self.random.integer(2),
            topics=[
                share_fetch.FetchTopic(
                    topic_id=self._of.topic_id,
                    partitions=[share_fetch.FetchPartition(partition_index=0)],
                )
            ]
            if is_first
            else [],
        )
        answer = await self.client.call(address, ApiKey.SHARE_FETCH, 2, request)
        self._checked(answer.error_code, "share fetch")
        self.session_epoch += 1
        ranges: list[tuple[int, int]] = []
        for topic in answer.responses:
            for partition in topic.partitions:
                self._checked(partition.error_code, "share fetch")
                ranges += [
                    (one.first_offset, one.last_offset) for one in partition.acquired_records
                ]
        self.client.works()
        self.client.note(self.client.name, "acquired", ranges)
        return ranges

    async def _acknowledge(self, address: Address, offsets: Sequence[int], kind: int) -> None:
        """Say what becomes of records; what has an answer is final. Raises: LOST; HistoryError."""
        if kind == ACCEPT:
            self._of.accepted_perhaps.update(offsets)
        request = share_acknowledge.ShareAcknowledgeRequest(
            group_id=GROUP,
            member_id=self._member_id,
            share_session_epoch=self.session_epoch,
            topics=[
                share_acknowledge.AcknowledgeTopic(
                    topic_id=self._of.topic_id,
                    partitions=[
                        share_acknowledge.AcknowledgePartition(
                            partition_index=0,
                            acknowledgement_batches=[
                                share_acknowledge.AcknowledgementBatch(
                                    first_offset=offset,
                                    last_offset=offset,
                                    acknowledge_types=[kind],
                                )
                                for offset in offsets
                            ],
                        )
                    ],
                )
            ],
        )
        answer = await self.client.call(address, ApiKey.SHARE_ACKNOWLEDGE, 2, request)
        self._checked(answer.error_code, "acknowledgement")
        self.session_epoch += 1
        code = answer.responses[0].partitions[0].error_code
        self.client.note(self.client.name, "acknowledged", offsets, kind, ErrorCode(code).name)
        if code == ErrorCode.INVALID_RECORD_STATE:
            return  # its lock has run out
        if code == ErrorCode.INVALID_REQUEST:
            raise RetryError("a new leader has less in flight")
        self._checked(code, "acknowledgement")
        if kind != RELEASE:
            self._of.finished(self.client.name, offsets, self._leader_epoch)


class QueueUser(Specialist):
    """Appends to the queue, and sees in the end that each record has become something."""

    topic = QUEUE

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.history.checked_apart.add(LETTERS)
        self.of = QueueHistory()
        self._last = QueueMember(self.client, self.history, self.of)
        self._count = 0
        self._has_letters = False

    async def prepare(self) -> None:
        """Make both topics, and the settings of the group. Raises: LOST."""
        if self.of.is_ready:
            return
        await super().prepare()
        if not self._has_letters:
            permitted = {"errors_deadletterqueue_group_enable": "true"}
            await create_topic(
                self.client, self.history, LETTERS, 1, self.plan.replicas, **permitted
            )
            self._has_letters = True
        await self._configure()
        response = await self.client.metadata(QUEUE)
        checked(response.topics[0].error_code)
        self.of.topic_id = response.topics[0].topic_id
        self.of.is_ready = True

    async def _configure(self) -> None:
        request = incremental_alter_configs.IncrementalAlterConfigsRequest(
            resources=[
                incremental_alter_configs.AlterConfigsResource(
                    resource_type=RESOURCE_GROUP,
                    resource_name=GROUP,
                    configs=[
                        incremental_alter_configs.AlterableConfig(name=name, value=value)
                        for name, value in SETTINGS.items()
                    ],
                )
            ]
        )
        address = self.client.anyone()
        answer = await self.client.call(address, ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request)
        if not checked(answer.responses[0].error_code):
            raise HistoryError(f"the settings of {GROUP}: {answer.responses[0].error_message}")

    async def work(self) -> None:
        """Append. Raises: LOST; HistoryError."""
        await self.prepare()
        address, _ = await self.client.leader_of(QUEUE, 0)
        connection = await self.client.connect(address)
        while not self.is_over:
            values = [b"%d" % (self._count + n) for n in range(1 + self.random.integer(4))]
            self._count += len(values)
            request = requests.append_request(QUEUE, 0, values, timestamp_ms=self.wall_ms())
            async with asyncio.timeout(self.client.answer_seconds):
                answer = await requests.append(connection, request)
            if not checked(answer.error_code):
                raise HistoryError(f"append to {QUEUE}: {ErrorCode(answer.error_code).name}")
            self.of.appended.update(range(answer.base_offset, answer.base_offset + len(values)))
            self.client.works()
            await self.pause()

    async def check(self) -> None:
        """Accept what is left; then all is accepted or a dead letter. Raises: LOST; ..."""
        if not self.of.is_ready:
            return
        self._last.interrupted()
        while await self._left():
            await self._last.step(accepts_all=True)
        letters = await read_records(self.client, LETTERS, 0)
        dead = {int(dict(one.headers)["__dlq.errors.offset"] or b"-1") for one in letters}
        lost = self.of.appended - self.of.accepted_perhaps - dead
        if lost:
            raise HistoryError(f"{sorted(lost)} of {QUEUE} are neither accepted nor dead letters")

    async def _left(self) -> bool:
        """Whether anything is not done yet, as far as the group's coordinator knows."""
        address = await self.client.coordinator_of(GROUP)
        request = describe_share_group_offsets.DescribeShareGroupOffsetsRequest(
            groups=[
                describe_share_group_offsets.DescribeShareGroupOffsetsRequestGroup(
                    group_id=GROUP, topics=None
                )
            ]
        )
        answer = await self.client.call(address, ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, 1, request)
        group = answer.groups[0]
        if group.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
            return True  # nobody has joined yet
        self._last._checked(group.error_code, "offsets")
        lags = []
        for topic in group.topics:
            for partition in topic.partitions:
                self._last._checked(partition.error_code, "offsets")
                lags.append(partition.lag)
        return not lags or any(lag != 0 for lag in lags)
