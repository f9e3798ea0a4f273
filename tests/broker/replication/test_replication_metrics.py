"""What is told of following."""

from __future__ import annotations

from barnabas_broker.replication.replication_metrics import replication_samples
from tests.support.replica_nodes import Links, ReplicaNode, led_by, topic_records, until
from tests.support.virtual_loop import run_virtual


def test_following_can_be_watched() -> None:
    """MET-7: what is followed, what came, what was cut, what failed."""

    async def test() -> None:
        links = Links()
        nodes = [await ReplicaNode(node_id, links).start() for node_id in (0, 1)]
        for node in nodes:
            await node.learn([*topic_records(), led_by(0, 0)])
        nodes[0].produce(b"a", b"b")
        await until(lambda: nodes[1].log.log_end_offset == 2)
        told = {sample.name: sample.value for sample in replication_samples(nodes[1].replicas)}
        assert told == {
            "barnabas_replication_followed_partitions": 1,
            "barnabas_replication_failed_partitions": 0,
            "barnabas_replication_fetchers": 1,
            "barnabas_replication_lag_records_max": 0,
            "barnabas_replication_bytes_in_total": nodes[1].log.size_bytes,
            "barnabas_replication_truncations_total": 0,
            "barnabas_log_moves": 0,
        }
        for node in nodes:
            await node.stop()

    run_virtual(test())
