"""What of a fetch its client may read, where there is an authorizer. Source: SEC-46."""

from __future__ import annotations

from collections.abc import Sequence, Set

from barnabas_broker.handlers.authorization import refused_of_many_topics, refused_topics
from barnabas_broker.handlers.services import Services
from barnabas_broker.network.heavy_work import SLICE
from barnabas_broker.network.session import InFlightRequest
from barnabas_broker.replication.leader.delayed_fetch import PartitionData
from barnabas_broker.replication.leader.fetch_session import FetchPartition
from barnabas_broker.security.authorizer import Authorizer
from barnabas_protocol.acl import AclOperation
from barnabas_protocol.errors import ErrorCode


class ReadRights:
    """Which partitions of one fetch its client may read: asked at first, and again at the end.

    A fetch may wait for as long as its client likes, and rights go meanwhile.
    """

    __slots__ = ("_authorizer", "_generation", "_in_flight", "_refused", "_services")

    def __init__(
        self, services: Services, authorizer: Authorizer, in_flight: InFlightRequest
    ) -> None:
        self._services = services
        self._authorizer = authorizer
        self._in_flight = in_flight
        self._generation = authorizer.generation
        self._refused: list[PartitionData] = []

    def readable(self, partitions: Sequence[FetchPartition]) -> Sequence[FetchPartition]:
        """The partitions that may be read; the others are part of the response at once."""
        return self._without(partitions, self._unreadable(_names(partitions)))

    async def readable_of_many(
        self, partitions: Sequence[FetchPartition]
    ) -> Sequence[FetchPartition]:
        """The same while the loop goes on. Raises: ConnectionGoneError."""
        unreadable = await refused_of_many_topics(
            self._services,
            self._authorizer,
            self._in_flight,
            AclOperation.READ,
            _names(partitions),
        )
        return self._without(partitions, unreadable)

    def _without(
        self, partitions: Sequence[FetchPartition], unreadable: Set[str]
    ) -> Sequence[FetchPartition]:
        if not unreadable:
            return partitions
        left = []
        for partition in partitions:
            if partition.topic_partition.topic in unreadable:
                self._refused.append(refused_data(partition))
            else:
                left.append(partition)
        return left

    def merge(self, results: list[PartitionData]) -> list[PartitionData]:
        """The results of all partitions, without what may not be read any more.

        Of very many, no records: the next fetch is judged anew.
        """
        if self._authorizer.generation != self._generation:
            results = self._judged_again(results)
        return [*results, *self._refused] if self._refused else results

    def _judged_again(self, results: list[PartitionData]) -> list[PartitionData]:
        names = _names([data.request for data in results])
        if len(names) > SLICE:
            for data in results:
                data.buffers, data.size_bytes = [], 0
                data.aborted = None if data.aborted is None else []
            return results
        unreadable = self._unreadable(names)
        return [
            refused_data(data.request) if data.request.topic_partition.topic in unreadable else data
            for data in results
        ]

    def _unreadable(self, names: Set[str]) -> Set[str]:
        return refused_topics(
            self._services, self._authorizer, self._in_flight, AclOperation.READ, names
        )


def _names(partitions: Sequence[FetchPartition]) -> Set[str]:
    names = {partition.topic_partition.topic for partition in partitions}
    names.discard("")  # of an id that no topic has
    return names


def refused_data(partition: FetchPartition) -> PartitionData:
    """The result of a partition that may not be read."""
    data = PartitionData(partition, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    data.aborted = []  # not null, as in Apache Kafka
    return data
