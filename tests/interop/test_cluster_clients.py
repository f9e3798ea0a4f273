"""Every client on three brokers: through any of them, and from the replica that is near.

Records have three copies and the leaders are spread, so that each client talks to all brokers
whichever it asked first. Not here: brokers that go while groups read (`test_cluster_groups.py`).
"""

import asyncio
import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas_client.admin.admin import Admin
from barnabas_client.admin.values.topics import NewTopic
from tests.interop.clients.steps import Item, read_items, write_items
from tests.interop.cluster_load import NumberedLoad
from tests.interop.committing_members import ForeignMember, GroupHistory
from tests.interop.java_readers import JavaProcess
from tests.interop.started_brokers import LIKE_APACHE
from tests.support.barnabas_cluster import BarnabasCluster
from tests.support.barnabas_process import BarnabasProcess
from tests.support.client_programs import ClientProgram, all_clients
from tests.support.kafka_cluster import until

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

PARTITIONS = 3
PER_RUN = 12
FIRST_TIMESTAMP = 1_700_000_000_000
CLIENTS = {one.name: one for one in all_clients() if one.name != "java-3.9.1"}


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BarnabasCluster]:
    with BarnabasCluster(tmp_path_factory.mktemp("cluster"), properties=LIKE_APACHE) as running:
        yield running


@pytest.fixture
def cluster(started: BarnabasCluster) -> BarnabasCluster:
    """All brokers running, whatever the test before has left behind."""
    started.start()
    return started


@pytest.mark.parametrize("client", CLIENTS.values(), ids=CLIENTS)
def test_a_client_works_through_any_broker(
    client: ClientProgram, cluster: BarnabasCluster, tmp_path: Path
) -> None:
    """CLI-1, OFS-1: what was written and committed through one broker is there through the next."""
    topic, group = f"any-{client.name}", f"through-any-{client.name}"

    async def create() -> None:
        async with Admin(cluster.bootstrap) as admin:
            await cluster.until_formed(admin)
            configs = {"retention.ms": "-1"}
            new = NewTopic(name=topic, partition_count=PARTITIONS, configs=configs)
            await cluster.create_topics(admin, new)

    asyncio.run(create())
    wanted: list[tuple[int, int, bytes | None]] = []
    consumed: list[tuple[int, int, bytes | None]] = []
    for count, broker in enumerate(cluster.brokers.values()):
        written, read, got = (tmp_path / f"{kind}-{count}.txt" for kind in ("w", "r", "g"))
        items = sample(count * PER_RUN)
        write_items(str(written), items)
        total = (count + 1) * PER_RUN
        plan = [
            ["produce", topic, "gzip", "1", str(written)],
            ["read", topic, str(total), str(read)],
            ["consume", topic, group, str(PER_RUN), str(got)],
        ]
        client.run(broker.bootstrap, plan, tmp_path)
        # Each run writes as many records to each partition.
        first = count * PER_RUN // PARTITIONS
        wanted += [(item.partition, first + item.offset, item.key) for item in items]
        assert essence(read_items(str(read))) == sorted(wanted)
        consumed += essence(read_items(str(got)))
        assert sorted(consumed) == sorted(wanted)


def sample(first: int) -> list[Item]:
    """Records with the offsets that they have among those of the run."""
    return [
        Item(
            number % PARTITIONS,
            number // PARTITIONS,
            FIRST_TIMESTAMP + first + number,
            b"key-%d" % (first + number),
            b"value " * 20,
            (),
        )
        for number in range(PER_RUN)
    ]


def essence(items: list[Item]) -> list[tuple[int, int, bytes | None]]:
    return [(item.partition, item.offset, item.key) for item in items]


def bytes_read(broker: BarnabasProcess, topic: str) -> int:
    """What clients have read of the topic's partition 0 from this broker, by its metrics."""
    url = f"http://{broker.host}:{broker.admin_port}/metrics"
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            text = answer.read().decode()
    except urllib.error.URLError:  # it starts: nothing was read since
        return 0
    labels = re.compile(r"^barnabas_partition_bytes_out_total\{([^}]*)\} (\S+)$", re.MULTILINE)
    for found, value in labels.findall(text):
        if set(found.split(",")) == {f'topic="{topic}"', 'partition="0"'}:
            return int(float(value))
    return 0


def test_java_reads_from_its_rack_whichever_broker_dies(cluster: BarnabasCluster) -> None:
    """KIP-392: from the follower while it lives, from the leader otherwise; all, once, in order."""
    topic, near = "near", 1
    brokers = cluster.brokers

    async def run() -> None:
        history = GroupHistory("near-readers", topic)
        java = JavaProcess("4.1.1")
        member = ForeignMember(
            java, cluster.bootstrap, "near-reader", history, client_rack=f"rack-{near}"
        )
        load = NumberedLoad(cluster.bootstrap, topic, 1)

        async def reads_from(node_id: int) -> None:
            """Wait until records come from there, which may take a fetch or two from elsewhere."""
            before, count = bytes_read(brokers[node_id], topic), history.read_count

            async def has_come() -> bool:
                assert history.failures == []
                is_read = bytes_read(brokers[node_id], topic) > before
                return is_read and history.read_count > count + 20

            await until(has_come)

        async def reads_from_alone(node_id: int, *, other: int) -> bool:
            """Whether records came from there and none from the other one meanwhile.

            A follower that falls behind for a moment sends its readers to the leader once.
            """
            before = bytes_read(brokers[other], topic)
            await reads_from(node_id)
            return bytes_read(brokers[other], topic) == before

        async with Admin(cluster.bootstrap) as admin:
            await cluster.until_formed(admin)
            # After broker 0, broker 2 leads: broker 1 stays a follower.
            await cluster.create_topics(
                admin, NewTopic(name=topic, replica_assignment={0: [0, 2, 1]})
            )
            producing = asyncio.create_task(load.run())
            try:
                await member.start()
                await until(lambda: reads_from_alone(near, other=0))
                await asyncio.to_thread(brokers[0].kill)
                await reads_from(near)
                await asyncio.to_thread(brokers[0].start)
                await cluster.until_in_sync(admin, [topic])
                await asyncio.to_thread(brokers[near].kill)
                await reads_from(2)
                await asyncio.to_thread(brokers[near].start)
                await cluster.until_in_sync(admin, [topic])
                await reads_from(near)
                load.stop()
                await producing
                end = max(load.offsets[0].values()) + 1

                async def is_done() -> bool:
                    return history.ends() == {0: end}

                await until(is_done)
            finally:
                load.stop()
                await producing
                await member.stop()
                await java.stop()
        assert load.failures == []
        assert history.violations({0: load.offsets[0].values()}) == []
        assert history.refused == []

    asyncio.run(run())
