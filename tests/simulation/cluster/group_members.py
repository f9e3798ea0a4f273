"""Members of a classic group, over all that befalls its coordinators.

They join, share one partition, say that they live, and whoever has the partition commits. What no
sound cluster may do: give one generation two assignments, take a commit of a member whose
generation has been followed by another, or forget a commit.
"""

import asyncio
from typing import Any

from barnabas_protocol.api import ApiKey
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.messages import heartbeat, join_group, offset_commit, sync_group
from tests.simulation import requests
from tests.simulation.cluster.client import Address, ClusterClient, RetryError, checked
from tests.simulation.cluster.history import Commit, History, HistoryError
from tests.simulation.cluster.workload import Worker

SESSION_TIMEOUT_MS = 6_000
REBALANCE_TIMEOUT_MS = 2_000
# A join waits for all the others.
ANSWER_SECONDS = 8.0
BEATS_MAX = 12
HANGS_MS_MAX = 12_000
PROTOCOL = "one"
OWNS, IDLE = b"owns", b"idle"

AGAIN = frozenset((ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION))
FORGOTTEN = frozenset(
    (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.MEMBER_ID_REQUIRED, ErrorCode.FENCED_INSTANCE_ID)
)


class JoinAgainError(RetryError):
    """The member has to join; another generation has begun, or will soon."""


class GroupHistory:
    """What the members of one group were told."""

    def __init__(self, history: History, group: str, topic: str) -> None:
        self.group = group
        self.topic = topic
        self.newest = -1  # generation of which a member has an assignment
        self.offset = 0
        self.commit = history.commits.setdefault((group, topic, 0), Commit())
        self._told: dict[int, dict[str, bytes]] = {}

    def assigned(self, generation: int, member_id: str, assignment: bytes) -> None:
        """A member got its assignment. Raises: HistoryError if two have the partition."""
        told = self._told.setdefault(generation, {})
        if told.setdefault(member_id, assignment) != assignment:
            raise HistoryError(f"{member_id} has two assignments in generation {generation}")
        if sum(one == OWNS for one in told.values()) > 1:
            raise HistoryError(f"generation {generation} gives the partition twice: {told}")
        self.newest = max(self.newest, generation)

    def ask(self) -> int:
        """The next offset to commit; none is asked for twice."""
        self.offset += 1
        self.commit.ask(self.offset)
        return self.offset


class GroupMember(Worker):
    """One consumer of a group."""

    def __init__(
        self, client: ClusterClient, history: History, of: GroupHistory, *, is_static: bool = False
    ) -> None:
        super().__init__(client, history, pause_ms_max=400)
        client.answer_seconds = ANSWER_SECONDS
        self._of = of
        self._instance = client.name if is_static else None
        self._member_id = ""
        self._generation = -1

    async def work(self) -> None:
        """Join, and stay until something changes or it goes by itself. Raises: LOST."""
        address = await self.client.coordinator_of(self._of.group)
        while not self.is_over:
            if not self.random.integer(4):
                self._member_id = ""  # as a new process does, that knows nothing of the last one
            owns = await self._join(address)
            if owns:
                await self._look_up(address)
            try:
                for _ in range(self.random.integer(BEATS_MAX)):
                    if self.is_over:
                        break
                    await (self._commit(address) if owns else self._beat(address))
                    await self.pause()
                    if not self.random.integer(4):  # it hangs, and may be replaced meanwhile
                        await asyncio.sleep(self.random.integer(HANGS_MS_MAX) / 1000)
            except JoinAgainError as error:
                self.client.note(self.client.name, "joins again", str(error))

    def _checked(self, error_code: int, what: str) -> None:
        """Raises: RetryError, JoinAgainError, HistoryError."""
        if error_code in FORGOTTEN:
            self._member_id = ""
        if error_code in AGAIN | FORGOTTEN:
            raise JoinAgainError(ErrorCode(error_code).name)
        if not checked(error_code):
            raise HistoryError(f"{what} of {self.client.name}: {ErrorCode(error_code).name}")

    async def _join(self, address: Address) -> bool:
        """Become part of the next generation; returns whether the partition is this member's."""
        request = join_group.JoinGroupRequest(
            group_id=self._of.group,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
            member_id=self._member_id,
            group_instance_id=self._instance,
            protocol_type="consumer",
            protocols=[join_group.JoinGroupRequestProtocol(name=PROTOCOL, metadata=b"")],
        )
        joined = await self.client.call(address, ApiKey.JOIN_GROUP, 9, request)
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            request.member_id = joined.member_id
            joined = await self.client.call(address, ApiKey.JOIN_GROUP, 9, request)
        self._checked(joined.error_code, "join")
        self._member_id, self._generation = joined.member_id, joined.generation_id
        answer = await self.client.call(
            address,
            ApiKey.SYNC_GROUP,
            5,
            sync_group.SyncGroupRequest(
                group_id=self._of.group,
                generation_id=self._generation,
                member_id=self._member_id,
                group_instance_id=self._instance,
                protocol_type="consumer",
                protocol_name=PROTOCOL,
                assignments=self._shares(joined) if self._assigns(joined) else [],
            ),
        )
        self._checked(answer.error_code, "sync")
        assignment = bytes(answer.assignment)
        # A static member that comes back has its place again, under another member id.
        self._of.assigned(self._generation, self._instance or self._member_id, assignment)
        self.client.works()
        self.client.note(self.client.name, "is in generation", self._generation, assignment)
        return assignment == OWNS

    def _assigns(self, joined: Any) -> bool:
        return joined.leader == self._member_id and not joined.skip_assignment

    def _shares(self, joined: Any) -> list[sync_group.SyncGroupRequestAssignment]:
        lucky = self.random.integer(len(joined.members))
        return [
            sync_group.SyncGroupRequestAssignment(
                member_id=member.member_id, assignment=OWNS if index == lucky else IDLE
            )
            for index, member in enumerate(joined.members)
        ]

    async def _beat(self, address: Address) -> None:
        request = heartbeat.HeartbeatRequest(
            group_id=self._of.group,
            generation_id=self._generation,
            member_id=self._member_id,
            group_instance_id=self._instance,
        )
        answer = await self.client.call(address, ApiKey.HEARTBEAT, 4, request)
        self._checked(answer.error_code, "heartbeat")

    async def _commit(self, address: Address) -> None:
        """Commit one offset more. Raises: HistoryError if that came after the next generation."""
        if self.random.integer(2):
            await self._beat(address)
        newest, offset = self._of.newest, self._of.ask()
        request = offset_commit.OffsetCommitRequest(
            group_id=self._of.group,
            generation_id_or_member_epoch=self._generation,
            member_id=self._member_id,
            group_instance_id=self._instance,
            topics=[
                offset_commit.OffsetCommitRequestTopic(
                    name=self._of.topic,
                    partitions=[
                        offset_commit.OffsetCommitRequestPartition(
                            partition_index=0, committed_offset=offset, committed_metadata=""
                        )
                    ],
                )
            ],
        )
        answer = await self.client.call(address, ApiKey.OFFSET_COMMIT, 8, request)
        error_code = answer.topics[0].partitions[0].error_code
        if error_code in AGAIN | FORGOTTEN:
            self._of.commit.uncertain.remove(offset)
        self._checked(error_code, "commit")
        if newest > self._generation:
            raise HistoryError(
                f"{self.client.name} of generation {self._generation} committed {offset},"
                f" asked for after generation {newest}"
            )
        self._of.commit.acknowledge(offset)
        self.client.note(self.client.name, "committed", offset)

    async def _look_up(self, address: Address) -> None:
        """See that the last generation's commits are there; one that was replaced may be behind."""
        connection = await self.client.connect(address)
        async with asyncio.timeout(self.client.answer_seconds):
            error_code, found = await requests.committed_offset(
                connection, self._of.group, self._of.topic, 0
            )
        self._checked(error_code, "committed offset")
        if self._of.newest == self._generation:
            self._of.commit.check(found, f"the offset of {self._of.group}")
