"""A follower that fetches as a test tells it to."""

from __future__ import annotations

from barnabas_broker.replication.leader.follower_session import FollowerSession
from barnabas_protocol import codec
from barnabas_protocol.api import ApiKey
from barnabas_protocol.messages import fetch
from tests.support.replica_nodes import (
    TOPIC,
    TOPIC_ID,
    ReplicaNode,
)

VERSION = 17
WAIT_MS = 500


class Follower:
    """Sends what a test says, as broker 1."""

    def __init__(self, node: ReplicaNode, node_id: int = 1, broker_epoch: int = 1) -> None:
        self.node = node
        self.node_id = node_id
        self.broker_epoch = broker_epoch
        self.session_id = 0
        self.session_epoch = 0
        self.error_code = 0

    async def fetch(
        self,
        offsets: dict[int, int] | None = None,
        *,
        forget: tuple[int, ...] = (),
        wait_ms: int = WAIT_MS,
        leader_epoch: int = 0,
        last_epoch: int = -1,
        start: int = 0,
        max_bytes: int = 1 << 20,
        topic_id: bytes = TOPIC_ID,
        version: int = VERSION,
    ) -> dict[int, fetch.PartitionData]:
        """What is answered, by partition."""
        state = fetch.ReplicaState(replica_id=self.node_id, replica_epoch=self.broker_epoch)
        request = fetch.FetchRequest(
            replica_id=self.node_id,
            replica_state=state,
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=max_bytes,
            session_id=self.session_id,
            session_epoch=self.session_epoch,
            topics=[
                fetch.FetchTopic(
                    topic=TOPIC,
                    topic_id=topic_id,
                    partitions=[
                        fetch.FetchPartition(
                            partition=index,
                            current_leader_epoch=leader_epoch,
                            fetch_offset=offset,
                            last_fetched_epoch=last_epoch,
                            log_start_offset=start,
                            partition_max_bytes=1 << 20,
                        )
                        for index, offset in (offsets or {}).items()
                    ],
                )
            ]
            if offsets
            else [],
            forgotten_topics_data=[
                fetch.ForgottenTopic(topic=TOPIC, topic_id=topic_id, partitions=list(forget))
            ]
            if forget
            else [],
        )
        # As it comes from the wire: without what this version does not carry.
        request = codec.decode(fetch.FetchRequest, codec.encode(request, version), version)[0]
        data = await self.node.answer(request, version)
        response = codec.decode_response(memoryview(bytearray(data)), ApiKey.FETCH, version)[1]
        self.error_code = response.error_code
        if response.session_id:
            self.session_id = response.session_id
            self.session_epoch += 1
        return {
            partition.partition_index: partition
            for topic in response.responses
            for partition in topic.partitions
        }

    @property
    def session(self) -> FollowerSession:
        session = self.node.sessions.get(self.session_id)
        assert isinstance(session, FollowerSession)
        return session
