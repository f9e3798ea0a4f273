"""What befalls requests, answers, topics and rights; each story draws which of it is on."""

import random
from typing import Any

from barnabas_protocol.api import ApiKey
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.messages import add_partitions_to_txn, metadata, produce
from barnabas_protocol.schema import Message
from tests.simulation.client.kafka import Kafka
from tests.simulation.client.world import Answer, Lost, Wire, World

FOR_GOOD = (
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.INVALID_TIMESTAMP,
    ErrorCode.INVALID_RECORD,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
)
BEFORE_APPEND = (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.KAFKA_STORAGE_ERROR)
AFTER_APPEND = (
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
)
FEATURES = (
    "lost request",
    "lost answer",
    "silence",
    "late answer",
    "repeated answer",
    "refused",
    "refused after a loss",
    "not enough replicas",
    "failed after append",
    "stale metadata",
    "moves",
    "remade",
    "more partitions",
    "rights",
    "coordinator moves",
)
GROUP_KEYS = frozenset(
    (
        ApiKey.JOIN_GROUP,
        ApiKey.SYNC_GROUP,
        ApiKey.HEARTBEAT,
        ApiKey.OFFSET_COMMIT,
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
    )
)
TRANSACTION_KEYS = frozenset(
    (
        ApiKey.INIT_PRODUCER_ID,
        ApiKey.ADD_OFFSETS_TO_TXN,
        ApiKey.END_TXN,
    )
)


class Faults:
    """Stands between the wires and the brokers."""

    def __init__(
        self, world: World, kafka: Kafka, draws: random.Random, features: frozenset[str]
    ) -> None:
        self.features = features
        self.is_on = True
        self.share = draws.choice((0.02, 0.1, 0.3))
        self.remade_topics: list[str] = []
        self.moved_topics: list[str] = []
        self._world = world
        self._kafka = kafka
        self._draws = draws
        self._lost_for: set[tuple[Any, int]] = set()
        self._old: list[dict[str, metadata.MetadataResponseTopic]] = []
        self._revoked = False
        world.handle = self.handle
        world.on_answer = self.answered

    def begin(self) -> None:
        """Let what happens by itself begin."""
        for feature, act in (
            ("moves", self._move),
            ("remade", self._remake),
            ("more partitions", self._add_partitions),
            ("rights", self._revoke),
        ):
            if feature in self.features:
                self._again(act)

    def end(self) -> None:
        """All works from now on."""
        self.is_on = False
        self._revoked = False
        self._world.tell("faults end")

    def _again(self, act: Any) -> None:
        self._world.later(self._draws.uniform(0.02, 1.5), self._do, act)

    def _do(self, act: Any) -> None:
        if self.is_on:
            self._remember()
            act()
            self._again(act)

    def _remember(self) -> None:
        picture = self._kafka.picture(metadata.MetadataRequest(topics=None))
        self._old = [*self._old[-3:], {topic.name or "": topic for topic in picture.topics}]

    def _move(self) -> None:
        logs = [log for name in self.moved_topics for log in self._kafka.topics.get(name, [])]
        log = self._draws.choice(logs)
        self._kafka.move(log)
        self._world.tell("leader of", log.topic, log.number, "is", log.leader_id)

    def _remake(self) -> None:
        if self.remade_topics:
            name = self._draws.choice(self.remade_topics)
            count = self._draws.randint(1, 4)
            self._world.tell("topic", name, "is remade with", count)
            self._kafka.create(name, count)
            self._kafka.wake()

    def _add_partitions(self) -> None:
        name = self._draws.choice(list(self._kafka.topics))
        count = len(self._kafka.topics[name])
        if count < 6:
            self._world.tell("topic", name, "gets", count + 1, "partitions")
            self._kafka.add_partitions(name, count + 1)

    def _revoke(self) -> None:
        self._revoked = not self._revoked
        self._world.tell("rights are", "revoked" if self._revoked else "granted")

    def _draw(self, feature: str, share: float | None = None) -> bool:
        share = self.share if share is None else share
        return self.is_on and feature in self.features and self._draws.random() < share

    def handle(self, wire: Wire, key: int, version: int, request: Any) -> Answer:
        """What a broker does with a request, unless something befalls it."""
        if self._draw("lost request"):
            self._world.tell("request", ApiKey(key).name, "to", wire.node_id, "is lost")
            raise Lost
        if key == ApiKey.PRODUCE:
            refused = self._refusal(wire.node_id, request)
            if refused is not None:
                return refused
        if key == ApiKey.ADD_PARTITIONS_TO_TXN and self._revoked and self.is_on:
            return self._partitions_refused(wire.node_id, request)
        if key == ApiKey.METADATA and self._draw("stale metadata", max(self.share, 0.2)):
            return self._stale(request)
        answer = self._kafka.handle(wire, key, version, request)
        if key == ApiKey.PRODUCE and isinstance(answer, produce.ProduceResponse):
            self._spoil(wire, request, answer)
        if isinstance(answer, Message) and self._draw("coordinator moves"):
            self._send_elsewhere(key, answer)
        return answer

    def _refusal(self, node_id: int, request: Any) -> produce.ProduceResponse | None:
        """An answer instead of an append."""
        code = None
        keys = {
            (topic.name or topic.topic_id, one.index)
            for topic in request.topic_data
            for one in topic.partition_data
        }
        if self._revoked and self.is_on:
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif (keys & self._lost_for and self._draw("refused after a loss", 0.7)) or self._draw(
            "refused"
        ):
            code = self._draws.choice(FOR_GOOD)
        elif self._draw("not enough replicas"):
            code = self._draws.choice(BEFORE_APPEND)
        if code is None:
            return None
        self._lost_for -= keys
        self._world.tell(f"b{node_id} refuses", code.name, keys)
        return produce.ProduceResponse(
            responses=[
                produce.TopicProduceResponse(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    partition_responses=[
                        produce.PartitionProduceResponse(
                            index=one.index, error_code=code, base_offset=-1
                        )
                        for one in topic.partition_data
                    ],
                )
                for topic in request.topic_data
            ]
        )

    def _partitions_refused(self, node_id: int, request: Any) -> Message:
        """The coordinator takes no partition that the producer may not write to."""
        code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        self._world.tell(
            f"b{node_id} takes no partitions into", request.v3_and_below_transactional_id
        )
        return add_partitions_to_txn.AddPartitionsToTxnResponse(
            results_by_topic_v3_and_below=[
                add_partitions_to_txn.AddPartitionsToTxnTopicResult(
                    name=topic.name,
                    results_by_partition=[
                        add_partitions_to_txn.AddPartitionsToTxnPartitionResult(
                            partition_index=number, partition_error_code=code
                        )
                        for number in topic.partitions
                    ],
                )
                for topic in request.v3_and_below_topics
            ]
        )

    def _spoil(self, wire: Wire, request: Any, answer: produce.ProduceResponse) -> None:
        """Say of what was appended that nobody knows."""
        if not self._draw("failed after append"):
            return
        code = self._draws.choice(AFTER_APPEND)
        for topic in answer.responses:
            for one in topic.partition_responses:
                if one.error_code == ErrorCode.NONE:
                    one.error_code, one.base_offset = code, -1
                    self._lost_for.add((topic.name or topic.topic_id, one.index))
        self._world.tell(f"b{wire.node_id} says", code.name, "after appending")

    def _stale(self, request: metadata.MetadataRequest) -> metadata.MetadataResponse:
        """What a broker says that has not heard of the last changes."""
        answer = self._kafka.picture(request)
        known = self._draws.choice(self._old) if self._old else {}
        topics = []
        for topic in answer.topics:
            old = known.get(topic.name or "")
            if old is None and self._draws.random() < 0.3:
                old = metadata.MetadataResponseTopic(
                    error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name=topic.name
                )
            topics.append(old or topic)
        answer.topics = topics
        self._world.tell("stale metadata", [(t.name, len(t.partitions)) for t in topics])
        return answer

    def _send_elsewhere(self, key: int, answer: Any) -> None:
        """Answer as a coordinator does that has lost its shard, or has not loaded it."""
        if key in TRANSACTION_KEYS and answer.error_code == ErrorCode.NONE:
            answer.error_code = self._draws.choice(
                (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            )
        elif key == ApiKey.HEARTBEAT and answer.error_code == ErrorCode.NONE:
            answer.error_code = ErrorCode.NOT_COORDINATOR
        elif key == ApiKey.OFFSET_COMMIT:
            for topic in answer.topics:
                for one in topic.partitions:
                    one.error_code = one.error_code or ErrorCode.NOT_COORDINATOR

    def answered(self, wire: Wire, key: int, version: int, answer: Message) -> float:
        """How late an answer is; negative if it never comes."""
        if not self.is_on or key == ApiKey.API_VERSIONS:
            return 0.0
        if self._draw("lost answer"):
            self._note_loss(key, answer)
            self._world.tell("answer", ApiKey(key).name, "of", wire.node_id, "is lost")
            raise Lost
        if self._draw("silence", self.share / 3):
            self._note_loss(key, answer)
            self._world.tell("answer", ApiKey(key).name, "of", wire.node_id, "never comes")
            return -1.0
        if self._draw("repeated answer", self.share / 3):
            self._world.tell("answer", ApiKey(key).name, "of", wire.node_id, "comes twice")
            self._world.repeats = True
        if self._draw("late answer"):
            self._note_loss(key, answer)
            return self._draws.uniform(0, 1.0)
        return 0.0

    def _note_loss(self, key: int, answer: Any) -> None:
        if key == ApiKey.PRODUCE:
            for topic in answer.responses:
                for one in topic.partition_responses:
                    if one.error_code == ErrorCode.NONE:
                        self._lost_for.add((topic.name or topic.topic_id, one.index))
