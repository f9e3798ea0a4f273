"""A partition and a broker's fetch sessions as Kafka describes them, to compare with."""

from dataclasses import dataclass, field

from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.ids import ZERO_UUID, TopicPartition, Uuid
from barnabas_protocol.messages.fetch import FetchRequest
from barnabas_protocol.records.batch import read_header
from barnabas_protocol.records.record import Record, encode_batch

SESSION_ID_FIRST = 100


@dataclass
class ModelLog:
    """The log of one partition, shared by its replicas; epochs end where the next begins."""

    leader_id: int = 1
    leader_epoch: int = 0
    start_offset: int = 0
    end_offset: int = 0
    # Below it is what read_committed sees; None: the same as the end.
    stable_offset: int | None = None
    batches: list[bytes] = field(default_factory=list)
    aborted: list[tuple[int, int]] = field(default_factory=list)

    def append(self, *values: bytes | None, timestamp_ms: int = 1000, **options: int) -> None:
        """One batch with a record per value."""
        records = [
            Record(self.end_offset + index, timestamp_ms + index, b"k", value)
            for index, value in enumerate(values)
        ]
        self.append_batch(
            encode_batch(
                records, base_offset=self.end_offset, leader_epoch=self.leader_epoch, **options
            )
        )

    def append_batch(self, batch: bytes) -> None:
        """A batch as it is."""
        self.batches.append(batch)
        self.end_offset = read_header(batch).last_offset + 1

    def move_to(self, leader_id: int, leader_epoch: int) -> None:
        """Elect a leader."""
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch

    def truncate(self, offset: int) -> None:
        """Lose what comes behind, as after an unclean election."""
        self.batches = [batch for batch in self.batches if read_header(batch).last_offset < offset]
        self.end_offset = offset

    def read(self, offset: int, max_bytes: int) -> bytes:
        """From the batch that holds the offset on, the last one cut off; at least one whole."""
        rest = [batch for batch in self.batches if read_header(batch).last_offset >= offset]
        if not rest:
            return b""
        return b"".join(rest)[: max(max_bytes, len(rest[0]))]

    def epoch_end(self, epoch: int) -> tuple[int, int]:
        """The largest epoch up to this one and the offset behind its records."""
        if epoch == self.leader_epoch:
            return epoch, self.end_offset
        found, end = -1, -1
        for header in map(read_header, self.batches):
            if header.leader_epoch <= epoch:
                found, end = header.leader_epoch, header.last_offset + 1
        return found, end

    def offset_at(self, timestamp_ms: int) -> int:
        """The first offset that is not older; -1 without any."""
        for batch in self.batches:
            header = read_header(batch)
            if header.max_timestamp >= timestamp_ms:
                return header.base_offset
        return -1


class ModelSessions:
    """The fetch sessions of one broker: it knows what each was told, and checks every step."""

    def __init__(self, *, gives_sessions: bool = True) -> None:
        self.gives_sessions = gives_sessions
        self.refuses = False
        self.sessions: dict[int, dict[tuple[str | Uuid, int], int]] = {}
        self.epochs: dict[int, int] = {}
        self._next_id = SESSION_ID_FIRST

    def resolve(
        self, request: FetchRequest, version: int
    ) -> tuple[int, int, dict[tuple[str | Uuid, int], int] | None]:
        """The error, the session id of the answer, and the fetch offset of every partition."""
        named = {
            (topic.topic if version < 13 else topic.topic_id, one.partition): one.fetch_offset
            for topic in request.topics
            for one in topic.partitions
        }
        session_id, epoch = request.session_id, request.session_epoch
        if self.refuses:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH, 0, None
        if epoch in (0, -1):
            self.sessions.pop(session_id, None)
            if epoch == -1 or not self.gives_sessions:
                return ErrorCode.NONE, 0, named
            session_id, self._next_id = self._next_id, self._next_id + 1
            self.sessions[session_id], self.epochs[session_id] = named, 1
            return ErrorCode.NONE, session_id, named
        if session_id not in self.sessions:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0, None
        if epoch != self.epochs[session_id]:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH, 0, None
        self.epochs[session_id] += 1
        known = self.sessions[session_id]
        if any(isinstance(key[0], bytes) != (version >= 13) for key in known):
            return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, 0, None
        for topic in request.forgotten_topics_data:
            for partition in topic.partitions:
                known.pop((topic.topic if version < 13 else topic.topic_id, partition), None)
        known.update(named)
        return ErrorCode.NONE, session_id, known


def topic_id_of(name: str) -> Uuid:
    """Some id that is not none."""
    encoded = name.encode()[:16]
    return encoded + ZERO_UUID[len(encoded) :]


def partition(number: int, topic: str = "t") -> TopicPartition:
    """A partition of the topic that most tests use."""
    return TopicPartition(topic, number)
