"""An administrator of a cluster: topics made, grown, set and deleted, leaders and replicas moved.

Through any broker, since all pass it on to the controller. Without an answer it asks again, and
then takes "it is there already" for the answer to the first time.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from barnabas_protocol.api import ApiKey
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.messages import (
    alter_partition_reassignments,
    create_topics,
    delete_topics,
    elect_leaders,
)
from tests.simulation.cluster.client import LOST, MOVED, ClusterClient, checked
from tests.simulation.cluster.history import History, HistoryError, Partition, Topic
from tests.simulation.cluster.plan import Feature, Plan
from tests.simulation.cluster.workload import Worker

PREFERRED = 0
UNCLEANLY = 1
RETURN_MS_MAX = 400
MOVED_TOO = frozenset(
    (
        # The number of live brokers may be lower than the factor for a while.
        ErrorCode.INVALID_REPLICATION_FACTOR,
        ErrorCode.ELECTION_NOT_NEEDED,
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
        ErrorCode.REASSIGNMENT_IN_PROGRESS,
    )
)


async def create_topic(
    client: ClusterClient,
    history: History,
    name: str,
    partitions: int,
    replicas: int,
    **settings: str,
) -> None:
    """Create a topic, or find that it is there because an earlier try had worked.

    In the names of settings `_` stands for a full stop.
    Raises: LOST; HistoryError.
    """
    topic = history.topics.setdefault(name, Topic([Partition() for _ in range(partitions)]))
    request = create_topics.CreateTopicsRequest(
        topics=[
            create_topics.CreatableTopic(
                name=name,
                num_partitions=partitions,
                replication_factor=replicas,
                configs=[
                    create_topics.CreatableTopicConfig(name=key.replace("_", "."), value=value)
                    for key, value in settings.items()
                ],
            )
        ],
        timeout_ms=3_000,
    )
    history.creates_unanswered[name] += 1
    response = await client.call(client.anyone(), ApiKey.CREATE_TOPICS, 7, request)
    (answer,) = response.topics
    if answer.error_code != ErrorCode.REQUEST_TIMED_OUT:
        # Else whoever was asked has passed it on, and it may be on its way to the controller still.
        history.creates_unanswered[name] -= 1
    if answer.error_code == ErrorCode.TOPIC_ALREADY_EXISTS and not topic.is_create_acknowledged:
        topic.is_create_acknowledged = True
        return
    _expect(answer.error_code, f"creating {name}")
    topic.is_create_acknowledged, topic.topic_id = True, answer.topic_id


async def delete_topic(client: ClusterClient, history: History, name: str) -> None:
    """Delete a topic, or find that it is gone because an earlier try had worked.

    Raises: LOST; HistoryError.
    """
    topic = history.topics[name]
    is_repeated, topic.is_delete_asked = topic.is_delete_asked, True
    request = delete_topics.DeleteTopicsRequest(
        topics=[delete_topics.DeleteTopicState(name=name)], timeout_ms=3_000
    )
    response = await client.call(client.anyone(), ApiKey.DELETE_TOPICS, 6, request)
    error_code = response.responses[0].error_code
    if error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION or not is_repeated:
        _expect(error_code, f"deleting {name}")
    topic.is_delete_acknowledged = True


async def elect_uncleanly(client: ClusterClient, partitions: Mapping[str, Iterable[int]]) -> None:
    """Have partitions without a leader led by whoever is there. Raises: LOST."""
    request = elect_leaders.ElectLeadersRequest(
        election_type=UNCLEANLY,
        topic_partitions=[
            elect_leaders.TopicPartitions(topic=topic, partitions=list(indexes))
            for topic, indexes in partitions.items()
        ],
        timeout_ms=3_000,
    )
    await client.call(client.anyone(), ApiKey.ELECT_LEADERS, 2, request)


def _expect(error_code: int, what: str) -> None:
    """Raises: LOST for what may be tried again, HistoryError for what should not be answered."""
    if error_code in MOVED_TOO:
        error_code = ErrorCode.REQUEST_TIMED_OUT
    if not checked(error_code):
        raise HistoryError(f"{what}: {ErrorCode(error_code).name}")


class Administrator(Worker):
    """Does all that at random."""

    def __init__(self, client: ClusterClient, history: History, topic: str, plan: Plan) -> None:
        super().__init__(client, history, pause_ms_max=600)
        self._topic = topic
        self._plan = plan
        self._count = 0
        self._creating = ""
        self._deleting = ""
        # Nobody leaves a partition to one node while another machine's loss is not known: it could
        # be that one, and has less than it had.
        self.may_leave_one: Callable[[], bool] = lambda: True
        self._is_leaving_one = False

    async def work(self) -> None:
        """One step after the other; one that had no answer first. Raises: LOST."""
        while not self.is_over:
            if self._creating:
                await create_topic(self.client, self.history, self._creating, 1, self._replicas)
                self._creating = ""
            elif self._deleting:
                await delete_topic(self.client, self.history, self._deleting)
                self._deleting = ""
            else:
                await self._choose()
            self.client.works()
            await self.pause()

    def is_leaving_one(self) -> bool:
        """Whether a partition may be about to be left to one node."""
        return self._is_leaving_one

    @property
    def _replicas(self) -> int:
        return self._plan.replicas

    async def _choose(self) -> None:
        plan, choice = self._plan, self.random.integer(5)
        temporary = [
            name
            for name, topic in self.history.topics.items()
            if name.startswith("temporary") and not topic.is_delete_asked
        ]
        if choice == 0 and temporary:
            self._deleting = temporary[self.random.integer(len(temporary))]
        elif choice == 1 and len(temporary) < 3 and plan.has(Feature.TEMPORARY_TOPICS):
            self._count += 1
            self._creating = f"temporary-{self._count}"
        elif choice == 2 and plan.has(Feature.ELECTIONS):
            await self._elect_preferred()
        elif choice >= 3 and plan.has(Feature.REASSIGNMENTS) and plan.node_count > 1:
            # Removed and soon there again: no broker may mix up the two lives of a replica.
            burst = 1 + (self.random.integer(4) if plan.has(Feature.BURSTS) else 0)
            for _ in range(burst):
                if plan.has(Feature.RETURNS) and self.random.integer(2):
                    await self._remove_and_return()
                else:
                    await self._reassign()

    async def _elect_preferred(self) -> None:
        request = elect_leaders.ElectLeadersRequest(
            election_type=PREFERRED, topic_partitions=None, timeout_ms=3_000
        )
        await self._tolerantly(ApiKey.ELECT_LEADERS, 2, request)

    async def _reassign(self) -> None:
        """Move a partition of the topic: to other nodes, more, fewer, in another order; or not."""
        nodes = list(range(self._plan.node_count))
        self.random.shuffle(nodes)
        count_min = min(self._plan.replicas, self._plan.in_sync_min)
        count = count_min + self.random.integer(min(3, len(nodes)) - count_min + 1)
        if self.random.integer(3) == 0:
            count = self._plan.replicas
        index = self.random.integer(self._plan.partitions)
        # None cancels what is under way.
        await self._move(index, nodes[:count] if self.random.integer(5) else None)

    async def _remove_and_return(self) -> None:
        """Remove a follower, and have it back before others may have heard of it.

        Perhaps as the preferred leader. Raises: LOST.
        """
        index = self.random.integer(self._plan.partitions)
        response = await self.client.metadata(self._topic)
        checked(response.topics[0].error_code)
        for partition in response.topics[0].partitions:
            followers = [n for n in partition.replica_nodes if n != partition.leader_id]
            count_min = min(self._plan.replicas, self._plan.in_sync_min)
            if partition.partition_index != index or len(partition.replica_nodes) <= count_min:
                continue
            gone = followers[self.random.integer(len(followers))]
            left = [node for node in partition.replica_nodes if node != gone]
            await self._move(index, left)
            await asyncio.sleep(self.random.integer(RETURN_MS_MAX) / 1000)
            await self._move(index, [gone, *left] if self.random.integer(2) else [*left, gone])

    async def _move(self, index: int, replicas: list[int] | None) -> None:
        if replicas is not None and len(replicas) == 1:
            if not self.may_leave_one():
                return
            self._is_leaving_one = True
        messages = alter_partition_reassignments
        request = messages.AlterPartitionReassignmentsRequest(
            timeout_ms=3_000,
            topics=[
                messages.ReassignableTopic(
                    name=self._topic,
                    partitions=[
                        messages.ReassignablePartition(partition_index=index, replicas=replicas)
                    ],
                )
            ],
        )
        if await self._tolerantly(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, request):
            self._is_leaving_one = False

    async def _tolerantly(self, key: ApiKey, version: int, request: Any) -> bool:
        """Whatever the answer: only what becomes of the partitions matters.

        Returns whether there was one; without it the request may still be on its way.
        """
        try:
            response = await self.client.call(self.client.anyone(), key, version, request)
        except LOST as error:
            await self.client.back_off(error)
            return False
        if response.error_code and response.error_code not in MOVED | MOVED_TOO:
            code = ErrorCode(response.error_code).name
            raise HistoryError(f"{key.name} got {code}")
        return True
