"""A consumer as Kafka's: fetch sessions, all partitions of a leader in one, followers of its rack.

It must come to the end of every partition, see what all others see, and nothing twice.
"""

from barnabas_protocol.api import ApiKey
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.messages import fetch
from tests.simulation import requests
from tests.simulation.cluster.client import Address, ClusterClient, RetryError, checked
from tests.simulation.cluster.history import History, HistoryError
from tests.simulation.cluster.workload import Worker

FETCH_VERSION = 12
NEW_SESSION = frozenset(
    (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH)
)
WAIT_MS = 100


class Session:
    """An incremental fetch session with one broker."""

    def __init__(self) -> None:
        self.session_id = 0
        self.epoch = 0
        self.told: dict[int, int] = {}  # by partition, the offset that the broker knows


class SessionConsumer(Worker):
    """Reads a topic from its start to its end, once."""

    def __init__(
        self,
        client: ClusterClient,
        history: History,
        topic: str,
        partitions: int,
        rack: str,
    ) -> None:
        super().__init__(client, history, pause_ms_max=100)
        self._topic = topic
        self._rack = rack
        self._offsets = dict.fromkeys(range(partitions), 0)
        self._sessions: dict[Address, Session] = {}
        self._preferred: dict[int, Address] = {}
        self._nodes: dict[int, Address] = {}
        self.followed_count = 0

    @property
    def is_done(self) -> bool:
        """Told to end, and all that was acknowledged has been read."""
        if not self.is_over:
            return False
        for index, offset in self._offsets.items():
            appends = self.history.topics[self._topic].partitions[index].appends
            ends = [a.base_offset + len(a.values) for a in appends if a.base_offset is not None]
            if offset < max(ends, default=0):
                return False
        return True

    def interrupted(self) -> None:
        """Sessions end with their connections, for a client."""
        self._sessions.clear()
        self._preferred.clear()

    async def work(self) -> None:
        """Fetch from leaders, or from whom they name. Raises: LOST; HistoryError."""
        leaders: dict[int, Address] = {}
        for index in self._offsets:
            leaders[index], _ = await self.client.leader_of(self._topic, index)
        response = await self.client.metadata(self._topic)
        self._nodes = {broker.node_id: (broker.host, broker.port) for broker in response.brokers}
        for _ in range(20):
            if self.is_done:
                return
            by_address: dict[Address, list[int]] = {}
            for index in self._offsets:
                address = self._preferred.get(index, leaders[index])
                by_address.setdefault(address, []).append(index)
            for address, partitions in by_address.items():
                await self._fetch(address, partitions)
            await self.pause()

    async def _fetch(self, address: Address, partitions: list[int]) -> None:
        session = self._sessions.setdefault(address, Session())
        wanted = {index: self._offsets[index] for index in partitions}
        changed = {i: offset for i, offset in wanted.items() if session.told.get(i) != offset}
        forgotten = [index for index in session.told if index not in wanted]
        request = fetch.FetchRequest(
            max_wait_ms=WAIT_MS,
            min_bytes=1,
            max_bytes=1 << 20,
            session_id=session.session_id,
            session_epoch=session.epoch,
            rack_id=self._rack,
            topics=[
                fetch.FetchTopic(
                    topic=self._topic,
                    partitions=[
                        fetch.FetchPartition(
                            partition=index, fetch_offset=offset, partition_max_bytes=1 << 20
                        )
                        for index, offset in changed.items()
                    ],
                )
            ],
            forgotten_topics_data=[fetch.ForgottenTopic(topic=self._topic, partitions=forgotten)]
            if forgotten
            else [],
        )
        response = await self.client.call(address, ApiKey.FETCH, FETCH_VERSION, request)
        if response.error_code in NEW_SESSION:
            del self._sessions[address]
            return
        if not checked(response.error_code):
            raise HistoryError(f"{self.client.name}: {ErrorCode(response.error_code).name}")
        if response.session_id:
            session.session_id = response.session_id
            session.epoch += 1
            session.told = wanted
        else:
            del self._sessions[address]
        for topic in response.responses:
            for answer in topic.partitions:
                self._take(answer, address, wanted)

    def _take(self, answer: fetch.PartitionData, address: Address, wanted: dict[int, int]) -> None:
        index = answer.partition_index
        if index not in wanted:
            raise HistoryError(f"{self.client.name} did not ask for partition {index}")
        if answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            # A follower that does not know yet how much is committed, also one that metadata named
            # as the leader a while ago. From a leader it would come again and again.
            raise RetryError("who was asked is behind")
        if not checked(answer.error_code):
            code = ErrorCode(answer.error_code).name
            raise HistoryError(f"{self.client.name} got {code} at {wanted[index]} of {index}")
        if answer.preferred_read_replica >= 0:
            self._preferred[index] = self._nodes.get(answer.preferred_read_replica, address)
            return
        records, _ = requests.records_of(answer.records or b"", wanted[index])
        if not records:
            return
        if records[0].offset != wanted[index]:
            raise HistoryError(
                f"{self.client.name} asked for {wanted[index]} of partition {index},"
                f" got {records[0].offset}"
            )
        if index in self._preferred:
            self.followed_count += 1
        self.history.saw(self._topic, index, records)
        self._offsets[index] = records[-1].offset + 1
        self.client.works()
        self.client.note(self.client.name, "is at", index, self._offsets[index])
