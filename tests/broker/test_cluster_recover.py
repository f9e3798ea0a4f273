"""The last resort: a cluster goes on from one disk, after the two others are lost for good."""

import asyncio
import json
import shutil
from pathlib import Path

from barnabas_client.admin.admin import Admin
from barnabas_client.admin.values.topics import NewTopic
from barnabas_client.consumer.consumer import Consumer
from barnabas_client.producer.producer import Producer
from tests.support.barnabas_cluster import CLUSTER_ID, BarnabasCluster
from tests.support.command_line import CommandLine

TOPIC = "kept"


async def fill(cluster: BarnabasCluster) -> None:
    async with (
        Admin(cluster.bootstrap) as admin,
        Producer(cluster.bootstrap, acks="all") as producer,
    ):
        await cluster.until_formed(admin)
        await cluster.create_topics(
            admin, NewTopic(name=TOPIC, partition_count=1, replication_factor=3)
        )
        for number in range(10):
            producer.send(TOPIC, b"%d" % number)


async def read(cluster: BarnabasCluster) -> list[bytes | None]:
    async with Consumer(cluster.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([(TOPIC, 0)])
        values: list[bytes | None] = []
        async with asyncio.timeout(30):
            while len(values) < 10:
                values += [record.value for record in await consumer.poll()]
    return values


def members(directory: Path) -> set[int]:
    """Who the arbiter's file says are the members."""
    record = json.loads((directory / "arbiter.json").read_text())
    return {member["node_id"] for member in record["members"]}


def test_a_cluster_goes_on_from_the_one_disk_that_is_left(tmp_path: Path) -> None:
    """`barnabas cluster recover`: refused while the broker runs, asks for the cluster's id; then
    one broker leads again, and the others come back with empty disks and catch up.
    """
    cluster = BarnabasCluster(tmp_path)
    cluster.start()
    try:
        asyncio.run(fill(cluster))
        config = str(cluster.brokers[0].write_config())
        assert "running" in CommandLine().error("cluster", "recover", "--config", config)
        for node_id in (1, 2):
            cluster.brokers[node_id].kill()
            shutil.rmtree(cluster.brokers[node_id].data_directory)
        cluster.brokers[0].kill()
        refused = CommandLine().run(
            "cluster", "recover", "--config", config, code=1, text="another\n"
        )
        assert "nothing was changed" in refused.stderr
        assert members(tmp_path) == {0, 1, 2}
        told = CommandLine().run("cluster", "recover", "--config", config, text=f"{CLUSTER_ID}\n")
        assert "Broker 0 is now the only member" in told.stdout
        assert members(tmp_path) == {0}
        cluster.start()

        async def whole_again() -> None:
            async with Admin(cluster.bootstrap) as admin:
                await cluster.until_formed(admin)
                await cluster.until_in_sync(admin, [TOPIC])

        asyncio.run(whole_again())
        assert asyncio.run(read(cluster)) == [b"%d" % number for number in range(10)]
    except BaseException:
        print(cluster.logs())
        raise
    finally:
        cluster.stop()
