"""What must hold at every moment, each as a small class that looks into all brokers at once.

Source: REP-19, CTL-12 and the rules of the control plane. An invariant gets the nodes from time to
time, and the images as they are published; what it raises says who contradicts whom.
"""

import posixpath
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol
from unittest.mock import patch

from barnabas_broker.arbiter.arbiter import ArbiterRecord
from barnabas_broker.controller.eligible_replicas import MinInSync, is_on
from barnabas_broker.metadata.delta import MetadataDelta
from barnabas_broker.metadata.image import MetadataImage, PartitionImage
from barnabas_broker.metadata.quorum.effects import Effects
from barnabas_broker.metadata.quorum.messages import PromiseResponse, QuorumFetchRequest
from barnabas_broker.metadata.quorum.node import QuorumNode
from barnabas_broker.metadata.quorum.voters import Voter
from barnabas_broker.replication.partition import Partition
from barnabas_broker.share.persister import SharePartitionKey
from barnabas_broker.share.record_states import RecordState
from barnabas_broker.share.share_partition import SharePartition
from barnabas_protocol.ids import TopicPartition
from tests.simulation.cluster.file_store import FileStore
from tests.simulation.cluster.node import Node, is_controller
from tests.support.memory_arbiter import MemoryStore

UNCLEAN = "unclean"
"""The topic that may lose records: leaders are elected for it that have not got them all."""
_BATCH_START = struct.Struct(">qiibI")  # offset, length, leader epoch, magic, CRC
BATCH_OVERHEAD = 12
CRC_END = _BATCH_START.size


class InvariantError(AssertionError):
    """Something that must never be so."""


class Replica(NamedTuple):
    """A partition as one node has it; `key` is (topic id, partition)."""

    node_id: int
    life: int
    key: tuple[bytes, int]
    name: str
    partition: Partition


def replicas_of(nodes: Iterable[Node]) -> Iterator[Replica]:
    """All replicas of all brokers that run, stopped ones included."""
    for node in nodes:
        server = node.server
        if server is None or not server._is_built:
            continue
        for (topic, index), partition in server.replicas.partitions.items():
            key = (partition.topic_id, index)
            yield Replica(node.node_id, node.life_count, key, f"{topic}-{index}", partition)


def is_exempt(name: str) -> bool:
    """Whether a partition is one of the topic that may lose records."""
    return name.startswith(UNCLEAN)


class Invariant(Protocol):
    """Something that must hold at every moment."""

    def look(self, nodes: Sequence[Node], replicas: Sequence[Replica]) -> None:
        """Raises: InvariantError."""
        ...


class OneLeaderPerEpoch:
    """No two brokers believe that they lead a partition in the same leader epoch."""

    def __init__(self) -> None:
        self._leaders: dict[tuple[Any, int], int] = {}

    def look(self, nodes: Sequence[Node], replicas: Sequence[Replica]) -> None:
        """Raises: InvariantError."""
        for replica in replicas:
            partition = replica.partition
            if not partition.is_leader:
                continue
            key = (replica.key, partition.leader_epoch)
            known = self._leaders.setdefault(key, replica.node_id)
            if known != replica.node_id:
                raise InvariantError(
                    f"{known} and {replica.node_id} lead {replica.name} in leader epoch"
                    f" {partition.leader_epoch}"
                )


class HighWatermarkNeverBack:
    """While a replica leads, its high watermark rises only, and lies within its log."""

    def __init__(self) -> None:
        self._seen: dict[tuple[Any, ...], int] = {}

    def look(self, nodes: Sequence[Node], replicas: Sequence[Replica]) -> None:
        """Raises: InvariantError."""
        for replica in replicas:
            log = replica.partition.log
            if log.is_offline:
                continue
            found = log.high_watermark
            if found > log.log_end_offset:
                raise InvariantError(
                    f"{replica.name} of node {replica.node_id} has high watermark {found}"
                    f" and ends at {log.log_end_offset}"
                )
            if not replica.partition.is_leader:
                continue
            epoch = replica.partition.leader_epoch
            key = (replica.key, replica.node_id, replica.life, epoch)
            before = self._seen.get(key, 0)
            if found < before:
                raise InvariantError(
                    f"the high watermark of {replica.name} went back from {before} to {found} on"
                    f" node {replica.node_id} in leader epoch {epoch}"
                )
            self._seen[key] = found


class LeadersHaveAllThatIsCommitted:
    """Whoever begins to lead has all that any leader before had committed."""

    def __init__(self) -> None:
        # By partition and leader epoch, the highest high watermark of its leader.
        self._committed: dict[Any, dict[int, int]] = {}

    def look(self, nodes: Sequence[Node], replicas: Sequence[Replica]) -> None:
        """Raises: InvariantError."""
        for replica in replicas:
            partition = replica.partition
            if not partition.is_leader or partition.log.is_offline or is_exempt(replica.name):
                continue
            epoch, log = partition.leader_epoch, partition.log
            committed = self._committed.setdefault(replica.key, {})
            before = max((offset for e, offset in committed.items() if e < epoch), default=0)
            if log.log_end_offset < before:
                raise InvariantError(
                    f"node {replica.node_id} leads {replica.name} in leader epoch {epoch}"
                    f" with {log.log_end_offset} records, {before} were committed"
                )
            committed[epoch] = max(committed.get(epoch, 0), log.high_watermark)


class WhoMayLeadHasWhatIsCommitted:
    """Who may be elected cleanly by the newest image holds all below any leader's high watermark.

    The members of the ISR, and the eligible leader replicas, who are not in it any more (KIP-966).
    A broker whose incarnation is not the registered one yet does not count: its power may have
    been cut, and the controller learns of that when it registers.
    """

    def __init__(self) -> None:
        self._committed: dict[Any, int] = {}
        # Also of nodes that are down by now.
        self._image = MetadataImage.empty()

    def look(self, nodes: Sequence[Node], replicas: Sequence[Replica]) -> None:
        """Raises: InvariantError."""
        nodes = [node for node in nodes if node.server is not None and node.server._is_built]
        image = self._image
        for node in nodes:
            if node.server is not None and node.server.image.offset > image.offset:
                image = self._image = node.server.image
        replicas = [replica for replica in replicas if not is_exempt(replica.name)]
        for replica in replicas:
            partition = replica.partition
            if partition.is_leader and not partition.log.is_offline:
                found = max(self._committed.get(replica.key, 0), partition.log.high_watermark)
                self._committed[replica.key] = found
        registered = {node.node_id for node in nodes if _is_registered(node, image)}
        for replica in replicas:
            log = replica.partition.log
            topic = image.topics.by_id.get(replica.key[0])
            if topic is None or log.is_offline or replica.node_id not in registered:
                continue
            state = topic.partitions[replica.key[1]]
            if replica.node_id not in (*state.isr, *state.eligible_leader_replicas):
                continue
            committed = self._committed.get(replica.key, 0)
            if log.log_end_offset < committed:
                raise InvariantError(
                    f"node {replica.node_id} may lead {replica.name} with"
                    f" {log.log_end_offset} records, {committed} were committed: {state}"
                )


def _is_registered(node: Node, image: MetadataImage) -> bool:
    """Whether the image knows this very incarnation of a broker."""
    membership = getattr(node.server, "membership", None)
    broker = image.brokers.get(node.node_id)
    return (
        membership is not None
        and broker is not None
        and membership.lifecycle.broker_epoch == broker.epoch
    )


def history_of(node: Node) -> bytes:
    """The history of the metadata that a node has; none before it has any."""
    control = getattr(node.server, "control", None)
    history: bytes = getattr(getattr(control, "quorum", None), "history", b"")
    return history


class OneControllerPerEpoch:
    """No two nodes lead the metadata log in one epoch of one history."""

    def __init__(self) -> None:
        self._controllers: dict[tuple[bytes, int], tuple[int, int]] = {}

    def look(self, nodes: Sequence[Node], replicas: Sequence[Replica]) -> None:
        """Raises: InvariantError."""
        for node in nodes:
            if not is_controller(node):
                continue
            quorum = node.server.control.quorum  # type: ignore[union-attr]
            found = (node.node_id, node.life_count)
            key = (history_of(node), quorum.controller_epoch)
            known = self._controllers.setdefault(key, found)
            if known != found:
                raise InvariantError(
                    f"nodes {known[0]} and {found[0]} are the controller of epoch"
                    f" {quorum.controller_epoch}"
                )


class PromisesAreKept:
    """What a node has said in a controller epoch it has promised for ever (rule 2).

    Looked at when it begins to take part: later the record may tell it what it has forgotten.
    """

    def __init__(self) -> None:
        self._said: dict[Voter, int] = {}

    def said(self, voter: Voter, controller_epoch: int) -> None:
        """A node was heard in an epoch."""
        self._said[voter] = max(controller_epoch, self._said.get(voter, 0))

    def began(self, voter: Voter, promised_epoch: int) -> None:
        """A node begins with what its disk says. Raises: InvariantError."""
        said = self._said.get(voter, 0)
        if promised_epoch < said:
            raise InvariantError(
                f"node {voter.node_id} has promised epoch {said}, and knows of {promised_epoch}"
            )


class TheArbitersRecordIsOne:
    """Each token of the arbiter's store is one record's, epochs rise, and leaders are recorded.

    Looked at between the times at which an administrator replaces the record.
    """

    def __init__(self, store: MemoryStore | FileStore) -> None:
        self._store = store
        self._put_count = -1
        self._records: dict[int, ArbiterRecord | None] = {}
        self._epoch = 0

    def look(self, nodes: Sequence[Node], replicas: Sequence[Replica]) -> None:
        """Raises: InvariantError."""
        store = self._store
        record, token = store.stored
        if store.put_count != self._put_count:
            self._put_count, self._epoch = store.put_count, 0
            self._records.clear()
        known = self._records.setdefault(token, record)
        if known != record:
            raise InvariantError(f"token {token} of the arbiter is {known} and {record}")
        epoch = 0 if record is None else record.controller_epoch
        if epoch < self._epoch:
            raise InvariantError(f"the arbiter's epoch goes back from {self._epoch} to {epoch}")
        self._epoch = epoch
        for node in nodes:
            if is_controller(node) and not store.put_count:
                found = node.server.control.quorum.controller_epoch  # type: ignore[union-attr]
                if found > epoch:
                    raise InvariantError(
                        f"node {node.node_id} is the controller of epoch {found}, and the arbiter"
                        f" has {epoch}"
                    )


class LogStartNeverBack:
    """The start of a log rises only while its process lives, up to the high watermark."""

    def __init__(self) -> None:
        self._seen: dict[tuple[Any, ...], int] = {}

    def look(self, nodes: Sequence[Node], replicas: Sequence[Replica]) -> None:
        """Raises: InvariantError."""
        for replica in replicas:
            log = replica.partition.log
            if log.is_offline or is_exempt(replica.name):
                continue
            key = (replica.key, replica.node_id, replica.life, log.directory)
            start, before = log.log_start_offset, self._seen.get(key, 0)
            if start < before:
                raise InvariantError(
                    f"the log of {replica.name} started at {before} on node {replica.node_id},"
                    f" now at {start}"
                )
            if replica.partition.is_leader and start > log.high_watermark:
                raise InvariantError(
                    f"{replica.name} starts at {start}, above its high watermark"
                    f" {log.high_watermark}, on node {replica.node_id}"
                )
            self._seen[key] = start


class LogsMatch:
    """Batches of one leader epoch at one offset are the same in all replicas, for ever.

    From that follows what replication is for: that what a follower has fetched is a prefix of its
    leader's log. Every append of every log is looked at, as it goes to the disk: leaders append in
    their own epoch only, and epochs rise along a log.
    """

    def __init__(self) -> None:
        self._batches: dict[tuple[bytes, str, int, int], int] = {}

    def appended(self, node: Node, path: str, data: bytes) -> None:
        """Raises: InvariantError."""
        folder = posixpath.basename(posixpath.dirname(path))
        topic, _, index = folder.rpartition("-")
        server = node.server
        if server is None or not server._is_built or not index.isdecimal():
            return
        partition = server.replicas.partitions.get(TopicPartition(topic, int(index)))
        if partition is None or partition.log.directory != posixpath.dirname(path):
            return
        if is_exempt(folder) or partition.log.config.is_compacted:
            return  # followers get what compaction has left
        latest = -1
        position = 0
        while position + CRC_END <= len(data):
            base, length, epoch, _, crc = _BATCH_START.unpack_from(data, position)
            key = (partition.topic_id, index, epoch, base)
            if self._batches.setdefault(key, crc) != crc:
                raise InvariantError(
                    f"{folder} has another batch at {base} of leader epoch {epoch} on node"
                    f" {node.node_id} than it had before"
                )
            if epoch < latest or (partition.is_leader and epoch != partition.leader_epoch):
                raise InvariantError(
                    f"node {node.node_id} appends a batch of leader epoch {epoch} to {folder} at"
                    f" {base}, in leader epoch {partition.leader_epoch} and after {latest}"
                )
            latest = epoch
            position += BATCH_OVERHEAD + length


class ImagesAgree:
    """Two brokers that have applied the same records have the same image; and it makes sense.

    The same: of one history. A blank broker may found the cluster again, if nobody follows it.
    """

    def __init__(self) -> None:
        self._images: dict[tuple[bytes, int], MetadataImage] = {}
        self._offsets: dict[tuple[int, int], int] = {}

    def publish(self, node: Node, image: MetadataImage) -> None:
        """Raises: InvariantError."""
        offset = image.offset
        key = (node.node_id, node.life_count)
        if offset < self._offsets.get(key, -1):
            raise InvariantError(f"node {node.node_id} publishes {offset} after {self._offsets}")
        self._offsets[key] = offset
        known = self._images.setdefault((history_of(node), offset), image)
        if known is image:
            check_image(image)
        elif known != image:
            raise InvariantError(
                f"node {node.node_id} has another image at {offset}: {image}, not {known}"
            )


def check_image(image: MetadataImage) -> None:
    """REP-19: leaders are in the ISR, the ISR within the replicas. Raises: InvariantError."""
    for topic in image.topics.by_name.values():
        for index, partition in enumerate(topic.partitions):
            where = f"{topic.name}-{index} at {image.offset}: {partition}"
            if len(set(partition.replicas)) != len(partition.replicas):
                raise InvariantError(f"a replica twice, {where}")
            if not set(partition.isr) <= set(partition.replicas):
                raise InvariantError(f"an ISR beyond the replicas, {where}")
            if not partition.isr and not is_on(image):
                raise InvariantError(f"an empty ISR, {where}")
            check_eligible(partition, MinInSync(image).of(topic.topic_id), where)
            if partition.leader != -1 and partition.leader not in partition.isr:
                raise InvariantError(f"a leader outside the ISR, {where}")
            if partition.leader != -1 and image.brokers[partition.leader].fenced:
                raise InvariantError(f"a fenced leader, {where}")


def check_eligible(partition: PartitionImage, min_in_sync: int | None, where: str) -> None:
    """LEAD-7: nobody is eligible beside an ISR that is large enough. Raises: InvariantError."""
    parts = (partition.isr, partition.eligible_leader_replicas, partition.last_known_elr)
    named = [node for part in parts for node in part]
    if len(set(named)) != len(named) or not set(named) <= set(partition.replicas):
        raise InvariantError(f"ISR, eligible and last known replicas overlap, {where}")
    wanted = 0 if min_in_sync is None else min(min_in_sync, len(partition.replicas))
    if len(partition.isr) >= wanted and (parts[1] or parts[2]):
        raise InvariantError(f"eligible replicas beside a full ISR, {where}")


class ShareLocks:
    """No record of a share group is under two locks, and what is in flight has no hole (SHR-6)."""

    def look(self, nodes: Sequence[Node], replicas: Sequence[Replica]) -> None:
        """Raises: InvariantError."""
        speakers: dict[tuple[SharePartitionKey, int], int] = {}
        for node in nodes:
            server = node.server
            if server is None or not server._is_built or not server.data.has_share_serving:
                continue
            for key, loaded in server.data.share_serving.share_partitions.loaded.items():
                if not loaded.is_active or not loaded.partition.is_leader:
                    continue
                other = speakers.setdefault((key, loaded.leader_epoch), node.node_id)
                if other != node.node_id:
                    raise InvariantError(f"{other} and {node.node_id} have {key} in one epoch")
                check_in_flight(f"{key} on node {node.node_id}", loaded.records)


def check_in_flight(where: str, records: SharePartition) -> None:
    """Ranges follow one another, and who has one is known. Raises: InvariantError."""
    following = records.start_offset
    for found in records.offsets:
        what = f"{found.first_offset} to {found.last_offset} of {where}"
        if found.first_offset != following:
            raise InvariantError(f"{what}: {following} was due")
        following = found.last_offset + 1
        is_acquired = found.state is RecordState.ACQUIRED
        if (found.member_id is not None) > is_acquired or (found.lock is not None) > is_acquired:
            raise InvariantError(f"{what}: {found.state.name} and somebody has it")
        if is_acquired and found.lock is None and found.transition is None:
            raise InvariantError(f"{what}: acquired for ever")
        if found.state is RecordState.ARCHIVING and found.transition is not None:
            raise InvariantError(f"{what}: Archiving, and being acknowledged")


class Observer:
    """All invariants of one story."""

    def __init__(self, store: MemoryStore | FileStore) -> None:
        self.images = ImagesAgree()
        self.invariants: list[Invariant] = [
            OneLeaderPerEpoch(),
            HighWatermarkNeverBack(),
            LeadersHaveAllThatIsCommitted(),
            WhoMayLeadHasWhatIsCommitted(),
            OneControllerPerEpoch(),
            TheArbitersRecordIsOne(store),
            LogStartNeverBack(),
            ShareLocks(),
        ]
        self.logs = LogsMatch()
        self.promises = PromisesAreKept()
        self.violation: InvariantError | None = None

    def look(self, nodes: Sequence[Node]) -> None:
        """Raises: InvariantError, also one that was found since while an image was published."""
        if self.violation is not None:
            raise self.violation
        replicas = list(replicas_of(nodes))
        for invariant in self.invariants:
            invariant.look(nodes, replicas)

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Hear what nodes of the metadata log say to each other meanwhile."""
        start, promised, asked = (
            QuorumNode.start,
            QuorumNode.on_promise_response,
            QuorumNode.on_fetch_request,
        )

        def on_start(node: QuorumNode) -> Effects:
            try:
                self.promises.began(node.voter, node.promised_epoch)
            except InvariantError as error:
                self.violation = self.violation or error
            return start(node)

        def on_promise(node: QuorumNode, answered: PromiseResponse) -> Effects:
            if answered.promised_epoch == answered.controller_epoch:
                self.promises.said(answered.voter, answered.controller_epoch)
            return promised(node, answered)

        def on_fetch(node: QuorumNode, fetch: QuorumFetchRequest) -> Effects:
            self.promises.said(fetch.voter, fetch.controller_epoch)
            return asked(node, fetch)

        with (
            patch.object(QuorumNode, "start", on_start),
            patch.object(QuorumNode, "on_promise_response", on_promise),
            patch.object(QuorumNode, "on_fetch_request", on_fetch),
        ):
            yield

    def appended(self, node: Node, path: str, data: bytes) -> None:
        """What a node's disk is to call."""
        try:
            self.logs.appended(node, path, data)
        except InvariantError as error:
            self.violation = self.violation or error

    def subscriber(self, node: Node) -> Callable[[MetadataDelta | None, MetadataImage], None]:
        """What a node's publisher is to call."""

        def publish(delta: MetadataDelta | None, image: MetadataImage) -> None:
            try:
                self.images.publish(node, image)
            except InvariantError as error:
                self.violation = self.violation or error

        return publish
