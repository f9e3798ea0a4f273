"""A client that finds leaders and coordinators, and says plainly when an answer did not come.

It retries nothing: what to do again, and what must never be answered, those who use it know.
"""

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from barnabas_protocol.api import ApiKey
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.messages import find_coordinator, metadata
from tests.support.cluster_network import ClusterNetwork
from tests.support.raw_client import RawClient
from tests.support.simulated_random import SimulatedRandom

Address = tuple[str, int]
T = TypeVar("T")
BACKOFF_MS_MIN, BACKOFF_MS_MAX = 40, 400
CLIENTS_HOST = "10.0.0.99"  # an address: the controller judges by it what is sent on


class RetryError(Exception):
    """An answer after which a client tries again, perhaps elsewhere."""


LOST = (OSError, asyncio.IncompleteReadError, TimeoutError, RetryError)
"""After these nobody knows whether the request was carried out."""

MOVED = frozenset(
    (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.BROKER_NOT_AVAILABLE,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    )
)
"""The errors that Kafka's clients retry, as far as brokers may answer them here."""


def checked(error_code: int) -> bool:
    """Whether a request was carried out. Raises: RetryError where it is to be tried again."""
    if error_code in MOVED:
        raise RetryError(ErrorCode(error_code).name)
    return error_code == 0


class ClusterClient:
    """Connections to a cluster, made when they are needed."""

    def __init__(
        self,
        name: str,
        network: ClusterNetwork,
        addresses: list[Address],
        random: SimulatedRandom,
        note: Callable[..., None],
    ) -> None:
        self.name = name
        self.host = CLIENTS_HOST
        self.random = random
        self.answer_seconds = 1 + random.integer(4)
        self.note = note
        self._network = network
        self._addresses = addresses
        self._connections: dict[Address, RawClient] = {}
        # What is older than this is not believed any more: nobody may be sent to a leader that was
        # cut off, and has been replaced, once the next one has answered.
        self._leader_epochs: dict[tuple[str, int], int] = {}
        self._backoff_ms = BACKOFF_MS_MIN

    async def connect(self, address: Address) -> RawClient:
        """The connection to a broker, a new one if there is none. Raises: LOST."""
        found = self._connections.get(address)
        if found is not None:
            return found
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=1 << 26, loop=loop)
        async with asyncio.timeout(self.answer_seconds):
            transport, protocol = await self._network.connect(
                lambda: asyncio.StreamReaderProtocol(reader, loop=loop),
                *address,
                from_host=self.host,
            )
        writer = asyncio.StreamWriter(transport, protocol, reader, loop)
        self._connections[address] = RawClient(reader, writer)
        return self._connections[address]

    def drop(self) -> None:
        """Close every connection, as after an error: the next request finds out anew."""
        for connection in self._connections.values():
            connection._writer.transport.abort()
        self._connections.clear()

    async def call(self, address: Address, key: ApiKey, version: int, request: Any) -> Any:
        """One request and its answer. Raises: LOST; that connection is not used again then."""
        connection = await self.connect(address)
        try:
            async with asyncio.timeout(self.answer_seconds):
                return await connection.call(key, version, request)
        except BaseException:
            self._connections.pop(address, None)
            connection._writer.transport.abort()
            raise

    def let_go(self, address: Address) -> None:
        """Close the connection to a broker, if there is one."""
        connection = self._connections.pop(address, None)
        if connection is not None:
            connection._writer.transport.abort()

    def anyone(self) -> Address:
        """Some broker, which may be down."""
        return self._addresses[self.random.integer(len(self._addresses))]

    async def metadata(self, *topics: str) -> metadata.MetadataResponse:
        """What some broker knows of topics, of all without a name. Raises: LOST."""
        request = metadata.MetadataRequest(
            topics=[metadata.MetadataRequestTopic(name=name) for name in topics] or None,
            allow_auto_topic_creation=False,
        )
        response: metadata.MetadataResponse = await self.call(
            self.anyone(), ApiKey.METADATA, 12, request
        )
        return response

    async def leader_of(self, topic: str, partition: int) -> tuple[Address, int]:
        """Where some broker believes the leader to be, and its leader epoch. Raises: LOST."""
        response = await self.metadata(topic)
        (found,) = response.topics
        checked(found.error_code)
        for candidate in found.partitions:
            if candidate.partition_index == partition:
                self.saw_epoch(topic, partition, candidate.leader_epoch)
                for broker in response.brokers:
                    if broker.node_id == candidate.leader_id:
                        return (broker.host, broker.port), candidate.leader_epoch
        raise RetryError("no leader")

    def saw_epoch(self, topic: str, partition: int, leader_epoch: int) -> None:
        """Remember the newest leader epoch. Raises: RetryError for an older one."""
        known = self._leader_epochs.get((topic, partition), -1)
        if leader_epoch < known:
            raise RetryError(f"leader epoch {leader_epoch} after {known}")
        self._leader_epochs[topic, partition] = leader_epoch

    async def coordinator_of(self, name: str, *, key_type: int = 0) -> Address:
        """Where some broker believes the coordinator of a group, or else, to be. Raises: LOST."""
        request = find_coordinator.FindCoordinatorRequest(
            key_type=key_type, coordinator_keys=[name]
        )
        response = await self.call(self.anyone(), ApiKey.FIND_COORDINATOR, 4, request)
        (found,) = response.coordinators
        if not checked(found.error_code):
            raise AssertionError(f"no coordinator: {ErrorCode(found.error_code).name}")
        return found.host, found.port

    async def back_off(self, error: BaseException) -> None:
        """Wait before the next try, longer each time until something works again."""
        self.note(self.name, "retries", type(error).__name__, str(error))
        await asyncio.sleep((1 + self.random.integer(self._backoff_ms)) / 1000)
        self._backoff_ms = min(2 * self._backoff_ms, BACKOFF_MS_MAX)

    def works(self) -> None:
        """Something was carried out: the next error is a new one."""
        self._backoff_ms = BACKOFF_MS_MIN
