"""What must hold in the end, when all faults are over: over the wire, and on the disks."""

import posixpath

from barnabas_protocol.records.record import Record
from tests.simulation import requests
from tests.simulation.cluster.client import ClusterClient, RetryError, checked
from tests.simulation.cluster.history import History, HistoryError
from tests.simulation.cluster.invariants import InvariantError, replicas_of
from tests.simulation.cluster.node import Node
from tests.simulation.cluster.workload import patiently
from tests.simulation.history import check_partition

PATIENCE_SECONDS = 60
BATCH_LENGTH_POSITION = 8
OVERHEAD_BYTES = 12


def unhealthy(nodes: list[Node]) -> str:
    """What keeps a cluster from being whole; empty if nothing does."""
    offsets = set()
    for node in nodes:
        if not node.is_ready or node.server is None:
            return f"node {node.node_id} is not ready"
        if node.is_about_to_stop:
            return f"node {node.node_id} is about to stop"
        if any(directory.is_offline for directory in node.server.logs.directories):
            return f"node {node.node_id} has lost a directory"
        offsets.add(node.server.image.offset)
        image = node.server.image
        for other in nodes:
            broker = image.brokers.get(other.node_id)
            if broker is None or broker.fenced or broker.is_shutting_down:
                return f"to node {node.node_id}, node {other.node_id} is {broker}"
        for topic in image.topics.by_name.values():
            for index, partition in enumerate(topic.partitions):
                if partition.leader == -1 or set(partition.isr) != set(partition.replicas):
                    return f"{topic.name}-{index} is {partition}"
                if partition.is_reassigning:
                    return f"{topic.name}-{index} is being reassigned: {partition}"
    return "" if len(offsets) == 1 else f"the images are at {sorted(offsets)}"


def uncommitted(nodes: list[Node]) -> str:
    """What leaders have not committed yet, though nobody writes any more; empty if nothing is.

    A new leader learns only from its followers how much was committed; until then it shows less.
    """
    for replica in replicas_of(nodes):
        log = replica.partition.log
        if replica.partition.is_leader and log.high_watermark < log.log_end_offset:
            return f"{replica.name} ends at {log.log_end_offset}, {log.high_watermark} is committed"
    return ""


async def check_topics(client: ClusterClient, history: History) -> None:
    """What was created is there, what was deleted is not. Raises: LOST, HistoryError."""
    response = await client.metadata()
    found = {
        topic.name: topic
        for topic in response.topics
        if not topic.is_internal and topic.name not in history.checked_apart
    }
    for name, topic in history.topics.items():
        if name in history.checked_apart:
            continue
        present = found.pop(name, None)
        if present is None:
            if topic.is_create_acknowledged and not topic.is_delete_asked:
                raise HistoryError(f"{name} was created and is gone")
            continue
        if topic.is_delete_acknowledged and not history.creates_unanswered[name]:
            raise HistoryError(f"{name} was deleted and is back")
        if len(present.partitions) != len(topic.partitions):
            raise HistoryError(f"{name} has {len(present.partitions)} partitions")
    if found:
        raise HistoryError(f"nobody asked for the topics {sorted(map(str, found))}")


async def check_records(client: ClusterClient, history: History, name: str, index: int) -> int:
    """All that was acknowledged or seen is there, once and in order; returns how many records.

    Raises: LOST, HistoryError.
    """
    records = await read_records(client, name, index)
    try:
        check_partition(history.topics[name].partitions[index], records, is_durable=True)
    except HistoryError as error:
        raise HistoryError(f"{name}-{index}: {error}") from None
    history.check_seen(name, index, records)
    return len(records)


async def read_records(client: ClusterClient, name: str, index: int) -> list[Record]:
    """All that is in a partition whose start nobody takes away. Raises: LOST, HistoryError."""
    address, _ = await client.leader_of(name, index)
    connection = await client.connect(address)
    offset = 0
    records: list[Record] = []
    while True:
        found = await requests.read_from(connection, name, index, offset)
        if not checked(found.error_code):
            raise HistoryError(f"{name}-{index}: error {found.error_code} at {offset}")
        if not found.records:
            if offset < found.high_watermark:
                raise HistoryError(f"{name}-{index}: nothing at {offset}: {found}")
            return records
        records += found.records
        offset = records[-1].offset + 1


async def check_commits(client: ClusterClient, history: History) -> None:
    """Every committed offset is the newest one, or one of an unknown fate. Raises: LOST, ..."""
    for (group, topic, partition), commit in history.commits.items():
        connection = await client.connect(await client.coordinator_of(group))
        error_code, found = await requests.committed_offset(connection, group, topic, partition)
        if not checked(error_code):
            raise HistoryError(f"the offset of {group} cannot be read: error {error_code}")
        commit.check(found, f"the offset of {group} for {topic}-{partition}")


async def check_everything(client: ClusterClient, history: History) -> None:
    """Ask for all that is in a history. Raises: HistoryError; TimeoutError if nobody answers."""
    await patiently(client, lambda: check_topics(client, history), PATIENCE_SECONDS)
    for name, topic in history.topics.items():
        if topic.is_delete_asked or not topic.is_create_acknowledged:
            continue
        if name in history.checked_apart:
            continue
        for index in range(len(topic.partitions)):

            async def check(name: str = name, index: int = index) -> None:
                await check_records(client, history, name, index)

            await patiently(client, check, PATIENCE_SECONDS)
    await patiently(client, lambda: check_commits(client, history), PATIENCE_SECONDS)


def check_replicas(nodes: list[Node]) -> int:
    """Replicas are equal, byte for byte, below the lower high watermark of each two.

    Returns how many were compared. Raises: InvariantError.
    """
    by_key: dict[object, tuple[int, dict[int, bytes], int, int]] = {}
    count = 0
    for replica in replicas_of(nodes):
        log = replica.partition.log
        if log.config.is_compacted:
            continue  # by each replica in its own time
        node = nodes[replica.node_id]
        batches = _batches(node, log.directory)
        high_watermark = log.high_watermark
        # One that has begun anew at its leader's start may hold nothing.
        first = min(batches, default=log.log_end_offset)
        known = by_key.setdefault(replica.key, (replica.node_id, batches, high_watermark, first))
        if known[1] is batches:
            continue
        count += 1
        end = min(known[2], high_watermark)
        # Retention works in its own time too.
        start = max(first, known[3])
        mine = {base: data for base, data in batches.items() if start <= base < end}
        theirs = {base: data for base, data in known[1].items() if start <= base < end}
        if mine != theirs:
            bases = sorted(
                base for base in mine.keys() | theirs.keys() if mine.get(base) != theirs.get(base)
            )
            raise InvariantError(
                f"{replica.name} differs on {known[0]} and {replica.node_id} below {end},"
                f" at {bases[:5]}: {theirs.get(bases[0])!r} and {mine.get(bases[0])!r}"
            )
    return count


def _batches(node: Node, directory: str) -> dict[int, bytes]:
    """The record batches of a log by base offset, as they are in its files."""
    batches: dict[int, bytes] = {}
    for path in sorted(node.disk._names):
        if posixpath.dirname(path) != directory or not path.endswith(".log"):
            continue
        data = bytes(node.disk._names[path].data)
        position = 0
        while position + OVERHEAD_BYTES <= len(data):
            base = int.from_bytes(data[position : position + BATCH_LENGTH_POSITION], "big")
            length = OVERHEAD_BYTES + int.from_bytes(
                data[position + BATCH_LENGTH_POSITION : position + OVERHEAD_BYTES], "big"
            )
            batches[base] = data[position : position + length]
            position += length
    return batches


__all__ = ["RetryError", "check_everything", "check_replicas", "uncommitted", "unhealthy"]
